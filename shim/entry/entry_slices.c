/* Defines the gathers and reduce_scatters that the dynamic linker finds before the MPI library's. A
 * call on MPI_COMM_WORLD that is too small goes on by a jump. A call on another communicator needs
 * its number of ranks: an entry has it, and is read without a lock if it is alone in its bucket. On
 * a communicator without an entry the MPI library makes the call, and is then asked.
 */
#include "shim/entry/entry.h"

EXPORT shim_allgather_fn MPI_Allgather;
EXPORT shim_allgather_c_fn MPI_Allgather_c;
EXPORT shim_iallgather_fn MPI_Iallgather;
EXPORT shim_iallgather_c_fn MPI_Iallgather_c;
EXPORT shim_allgatherv_fn MPI_Allgatherv;
EXPORT shim_allgatherv_c_fn MPI_Allgatherv_c;
EXPORT shim_iallgatherv_fn MPI_Iallgatherv;
EXPORT shim_iallgatherv_c_fn MPI_Iallgatherv_c;
EXPORT shim_allreduce_fn MPI_Reduce_scatter_block;
EXPORT shim_allreduce_c_fn MPI_Reduce_scatter_block_c;
EXPORT shim_reduce_scatterv_fn MPI_Reduce_scatter;
EXPORT shim_reduce_scatterv_c_fn MPI_Reduce_scatter_c;

/* Returns true if a gather or reduce_scatter has failed, or the MPI library has made it and it is
 * below MIN_COUNT, or on one rank alone; `count` elements of `type` are its first slice. Otherwise
 * the call goes to shim_collective as one that is `made`, without its buffers. */
static inline bool is_over(int err, int64_t count, uintptr_t type, uintptr_t comm)
{
    int size = 0;

    return err != 0 || shim.comm_size(shim_abi_word(comm), &size) != 0 || size < 2 ||
           shim_is_little(count, shim_abi_word(type), size);
}

/* A call on a communicator without an entry: the MPI library's, and then this library's if the
 * slices have MIN_COUNT words together. `number` elements of `unit` are the first slice. */
#define FIRST(next, number, unit, request, ...)                                                    \
    const int err = next;                                                                          \
                                                                                                   \
    if (is_over(err, number, unit, comm))                                                          \
        return err;                                                                                \
    return shim_collective(                                                                        \
        &(struct shim_call){                                                                       \
            .type = shim_abi_word(type), .comm = shim_abi_word(comm), .made = true, __VA_ARGS__},  \
        request)

SLOW first_allgather(const void *send, int send_count, uintptr_t send_type, void *recv, int count,
                     uintptr_t type, uintptr_t comm)
{
    FIRST(shim.next.allgather(send, send_count, send_type, recv, count, type, comm), count, type,
          NULL, .kind = SS_KIND_ALLGATHER, .count = count);
}

SLOW slow_allgather(const void *send, int send_count, uintptr_t send_type, void *recv, int count,
                    uintptr_t type, uintptr_t comm)
{
    if ((all_pass() || is_little_there(count, type, comm)) && on_host(send, send_type, recv, type))
        return shim.next.allgather(send, send_count, send_type, recv, count, type, comm);
    if (is_unmet(count, comm) && on_host(send, send_type, recv, type))
        return first_allgather(send, send_count, send_type, recv, count, type, comm);
    return shim_collective(GATHER(false, .count = count), NULL);
}

int MPI_Allgather(const void *send, int send_count, uintptr_t send_type, void *recv, int count,
                  uintptr_t type, uintptr_t comm)
{
    const uint64_t limit = slice_limit(count, comm);

    if (limit == UNMET && shim_are_plain(send, recv))
        return first_allgather(send, send_count, send_type, recv, count, type, comm);
    if (is_little(count, type, limit) && shim_are_plain(send, recv))
        return shim.next.allgather(send, send_count, send_type, recv, count, type, comm);
    return slow_allgather(send, send_count, send_type, recv, count, type, comm);
}

SLOW first_allgather_c(const void *send, int64_t send_count, uintptr_t send_type, void *recv,
                       int64_t count, uintptr_t type, uintptr_t comm)
{
    FIRST(shim.next.allgather_c(send, send_count, send_type, recv, count, type, comm), count, type,
          NULL, .kind = SS_KIND_ALLGATHER, .count = count, .large = true);
}

SLOW slow_allgather_c(const void *send, int64_t send_count, uintptr_t send_type, void *recv,
                      int64_t count, uintptr_t type, uintptr_t comm)
{
    if ((all_pass() || is_little_there(count, type, comm)) && on_host(send, send_type, recv, type))
        return shim.next.allgather_c(send, send_count, send_type, recv, count, type, comm);
    if (is_unmet(count, comm) && on_host(send, send_type, recv, type))
        return first_allgather_c(send, send_count, send_type, recv, count, type, comm);
    return shim_collective(GATHER(true, .count = count), NULL);
}

int MPI_Allgather_c(const void *send, int64_t send_count, uintptr_t send_type, void *recv,
                    int64_t count, uintptr_t type, uintptr_t comm)
{
    const uint64_t limit = slice_limit(count, comm);

    if (limit == UNMET && shim_are_plain(send, recv))
        return first_allgather_c(send, send_count, send_type, recv, count, type, comm);
    if (is_little(count, type, limit) && shim_are_plain(send, recv))
        return shim.next.allgather_c(send, send_count, send_type, recv, count, type, comm);
    return slow_allgather_c(send, send_count, send_type, recv, count, type, comm);
}

SLOW first_iallgather(const void *send, int send_count, uintptr_t send_type, void *recv, int count,
                      uintptr_t type, uintptr_t comm, void *request)
{
    FIRST(shim.next.iallgather(send, send_count, send_type, recv, count, type, comm, request),
          count, type, request, .kind = SS_KIND_ALLGATHER, .count = count);
}

SLOW slow_iallgather(const void *send, int send_count, uintptr_t send_type, void *recv, int count,
                     uintptr_t type, uintptr_t comm, void *request)
{
    if ((all_ipass() || is_little_there(count, type, comm)) && on_host(send, send_type, recv, type))
        return shim.next.iallgather(send, send_count, send_type, recv, count, type, comm, request);
    if (is_unmet(count, comm) && on_host(send, send_type, recv, type))
        return first_iallgather(send, send_count, send_type, recv, count, type, comm, request);
    return shim_collective(GATHER(false, .count = count), request);
}

int MPI_Iallgather(const void *send, int send_count, uintptr_t send_type, void *recv, int count,
                   uintptr_t type, uintptr_t comm, void *request)
{
    if (all_ipass() && shim_are_plain(send, recv))
        return shim.next.iallgather(send, send_count, send_type, recv, count, type, comm, request);

    const uint64_t limit = slice_limit(count, comm);

    if (limit == UNMET && shim_are_plain(send, recv))
        return first_iallgather(send, send_count, send_type, recv, count, type, comm, request);
    if (is_little(count, type, limit) && shim_are_plain(send, recv))
        return shim.next.iallgather(send, send_count, send_type, recv, count, type, comm, request);
    return slow_iallgather(send, send_count, send_type, recv, count, type, comm, request);
}

SLOW first_iallgather_c(const void *send, int64_t send_count, uintptr_t send_type, void *recv,
                        int64_t count, uintptr_t type, uintptr_t comm, void *request)
{
    FIRST(shim.next.iallgather_c(send, send_count, send_type, recv, count, type, comm, request),
          count, type, request, .kind = SS_KIND_ALLGATHER, .count = count, .large = true);
}

SLOW slow_iallgather_c(const void *send, int64_t send_count, uintptr_t send_type, void *recv,
                       int64_t count, uintptr_t type, uintptr_t comm, void *request)
{
    if ((all_ipass() || is_little_there(count, type, comm)) && on_host(send, send_type, recv, type))
        return shim.next.iallgather_c(send, send_count, send_type, recv, count, type, comm,
                                      request);
    if (is_unmet(count, comm) && on_host(send, send_type, recv, type))
        return first_iallgather_c(send, send_count, send_type, recv, count, type, comm, request);
    return shim_collective(GATHER(true, .count = count), request);
}

int MPI_Iallgather_c(const void *send, int64_t send_count, uintptr_t send_type, void *recv,
                     int64_t count, uintptr_t type, uintptr_t comm, void *request)
{
    if (all_ipass() && shim_are_plain(send, recv))
        return shim.next.iallgather_c(send, send_count, send_type, recv, count, type, comm,
                                      request);

    const uint64_t limit = slice_limit(count, comm);

    if (limit == UNMET && shim_are_plain(send, recv))
        return first_iallgather_c(send, send_count, send_type, recv, count, type, comm, request);
    if (is_little(count, type, limit) && shim_are_plain(send, recv))
        return shim.next.iallgather_c(send, send_count, send_type, recv, count, type, comm,
                                      request);
    return slow_iallgather_c(send, send_count, send_type, recv, count, type, comm, request);
}

SLOW first_allgatherv(const void *send, int send_count, uintptr_t send_type, void *recv,
                      const int *counts, const int *displs, uintptr_t type, uintptr_t comm)
{
    FIRST(shim.next.allgatherv(send, send_count, send_type, recv, counts, displs, type, comm),
          *counts, type, NULL, .kind = SS_KIND_ALLGATHER, .counts = counts, .listed = true);
}

SLOW slow_allgatherv(const void *send, int send_count, uintptr_t send_type, void *recv,
                     const int *counts, const int *displs, uintptr_t type, uintptr_t comm)
{
    if ((all_pass() || (counts && is_little_there(*counts, type, comm))) &&
        on_host(send, send_type, recv, type))
        return shim.next.allgatherv(send, send_count, send_type, recv, counts, displs, type, comm);
    if (counts && is_unmet(*counts, comm) && on_host(send, send_type, recv, type))
        return first_allgatherv(send, send_count, send_type, recv, counts, displs, type, comm);
    return shim_collective(GATHER(false, SLICES), NULL);
}

int MPI_Allgatherv(const void *send, int send_count, uintptr_t send_type, void *recv,
                   const int *counts, const int *displs, uintptr_t type, uintptr_t comm)
{
    const uint64_t limit = counts ? slice_limit(*counts, comm) : 0;

    if (limit == UNMET && shim_are_plain(send, recv))
        return first_allgatherv(send, send_count, send_type, recv, counts, displs, type, comm);
    if (limit > 0 && is_little(*counts, type, limit) && shim_are_plain(send, recv))
        return shim.next.allgatherv(send, send_count, send_type, recv, counts, displs, type, comm);
    return slow_allgatherv(send, send_count, send_type, recv, counts, displs, type, comm);
}

SLOW first_allgatherv_c(const void *send, int64_t send_count, uintptr_t send_type, void *recv,
                        const int64_t *counts, const int64_t *displs, uintptr_t type,
                        uintptr_t comm)
{
    FIRST(shim.next.allgatherv_c(send, send_count, send_type, recv, counts, displs, type, comm),
          *counts, type, NULL, .kind = SS_KIND_ALLGATHER, .counts = counts, .listed = true,
          .large = true);
}

SLOW slow_allgatherv_c(const void *send, int64_t send_count, uintptr_t send_type, void *recv,
                       const int64_t *counts, const int64_t *displs, uintptr_t type, uintptr_t comm)
{
    if ((all_pass() || (counts && is_little_there(*counts, type, comm))) &&
        on_host(send, send_type, recv, type))
        return shim.next.allgatherv_c(send, send_count, send_type, recv, counts, displs, type,
                                      comm);
    if (counts && is_unmet(*counts, comm) && on_host(send, send_type, recv, type))
        return first_allgatherv_c(send, send_count, send_type, recv, counts, displs, type, comm);
    return shim_collective(GATHER(true, SLICES), NULL);
}

int MPI_Allgatherv_c(const void *send, int64_t send_count, uintptr_t send_type, void *recv,
                     const int64_t *counts, const int64_t *displs, uintptr_t type, uintptr_t comm)
{
    const uint64_t limit = counts ? slice_limit(*counts, comm) : 0;

    if (limit == UNMET && shim_are_plain(send, recv))
        return first_allgatherv_c(send, send_count, send_type, recv, counts, displs, type, comm);
    if (limit > 0 && is_little(*counts, type, limit) && shim_are_plain(send, recv))
        return shim.next.allgatherv_c(send, send_count, send_type, recv, counts, displs, type,
                                      comm);
    return slow_allgatherv_c(send, send_count, send_type, recv, counts, displs, type, comm);
}

SLOW first_iallgatherv(const void *send, int send_count, uintptr_t send_type, void *recv,
                       const int *counts, const int *displs, uintptr_t type, uintptr_t comm,
                       void *request)
{
    FIRST(shim.next.iallgatherv(send, send_count, send_type, recv, counts, displs, type, comm,
                                request),
          *counts, type, request, .kind = SS_KIND_ALLGATHER, .counts = counts, .listed = true);
}

SLOW slow_iallgatherv(const void *send, int send_count, uintptr_t send_type, void *recv,
                      const int *counts, const int *displs, uintptr_t type, uintptr_t comm,
                      void *request)
{
    if ((all_ipass() || (counts && is_little_there(*counts, type, comm))) &&
        on_host(send, send_type, recv, type))
        return shim.next.iallgatherv(send, send_count, send_type, recv, counts, displs, type, comm,
                                     request);
    if (counts && is_unmet(*counts, comm) && on_host(send, send_type, recv, type))
        return first_iallgatherv(send, send_count, send_type, recv, counts, displs, type, comm,
                                 request);
    return shim_collective(GATHER(false, SLICES), request);
}

int MPI_Iallgatherv(const void *send, int send_count, uintptr_t send_type, void *recv,
                    const int *counts, const int *displs, uintptr_t type, uintptr_t comm,
                    void *request)
{
    if (all_ipass() && shim_are_plain(send, recv))
        return shim.next.iallgatherv(send, send_count, send_type, recv, counts, displs, type, comm,
                                     request);

    const uint64_t limit = counts ? slice_limit(*counts, comm) : 0;

    if (limit == UNMET && shim_are_plain(send, recv))
        return first_iallgatherv(send, send_count, send_type, recv, counts, displs, type, comm,
                                 request);
    if (limit > 0 && is_little(*counts, type, limit) && shim_are_plain(send, recv))
        return shim.next.iallgatherv(send, send_count, send_type, recv, counts, displs, type, comm,
                                     request);
    return slow_iallgatherv(send, send_count, send_type, recv, counts, displs, type, comm, request);
}

SLOW first_iallgatherv_c(const void *send, int64_t send_count, uintptr_t send_type, void *recv,
                         const int64_t *counts, const int64_t *displs, uintptr_t type,
                         uintptr_t comm, void *request)
{
    FIRST(shim.next.iallgatherv_c(send, send_count, send_type, recv, counts, displs, type, comm,
                                  request),
          *counts, type, request, .kind = SS_KIND_ALLGATHER, .counts = counts, .listed = true,
          .large = true);
}

SLOW slow_iallgatherv_c(const void *send, int64_t send_count, uintptr_t send_type, void *recv,
                        const int64_t *counts, const int64_t *displs, uintptr_t type,
                        uintptr_t comm, void *request)
{
    if ((all_ipass() || (counts && is_little_there(*counts, type, comm))) &&
        on_host(send, send_type, recv, type))
        return shim.next.iallgatherv_c(send, send_count, send_type, recv, counts, displs, type,
                                       comm, request);
    if (counts && is_unmet(*counts, comm) && on_host(send, send_type, recv, type))
        return first_iallgatherv_c(send, send_count, send_type, recv, counts, displs, type, comm,
                                   request);
    return shim_collective(GATHER(true, SLICES), request);
}

int MPI_Iallgatherv_c(const void *send, int64_t send_count, uintptr_t send_type, void *recv,
                      const int64_t *counts, const int64_t *displs, uintptr_t type, uintptr_t comm,
                      void *request)
{
    if (all_ipass() && shim_are_plain(send, recv))
        return shim.next.iallgatherv_c(send, send_count, send_type, recv, counts, displs, type,
                                       comm, request);

    const uint64_t limit = counts ? slice_limit(*counts, comm) : 0;

    if (limit == UNMET && shim_are_plain(send, recv))
        return first_iallgatherv_c(send, send_count, send_type, recv, counts, displs, type, comm,
                                   request);
    if (limit > 0 && is_little(*counts, type, limit) && shim_are_plain(send, recv))
        return shim.next.iallgatherv_c(send, send_count, send_type, recv, counts, displs, type,
                                       comm, request);
    return slow_iallgatherv_c(send, send_count, send_type, recv, counts, displs, type, comm,
                              request);
}

SLOW first_reduce_scatter(const void *send, void *recv, int count, uintptr_t type, uintptr_t op,
                          uintptr_t comm)
{
    FIRST(shim.next.reduce_scatter(send, recv, count, type, op, comm), count, shim_abi.INT, NULL,
          .kind = SS_KIND_REDUCE_SCATTER, .op = shim_abi_word(op), .count = count);
}

SLOW slow_reduce_scatter(const void *send, void *recv, int count, uintptr_t type, uintptr_t op,
                         uintptr_t comm)
{
    if ((all_pass() || is_little_there(count, shim_abi.INT, comm)) &&
        on_host(send, type, recv, type))
        return shim.next.reduce_scatter(send, recv, count, type, op, comm);
    if (is_unmet(count, comm) && on_host(send, type, recv, type))
        return first_reduce_scatter(send, recv, count, type, op, comm);
    return shim_collective(REDUCTION(false, .kind = SS_KIND_REDUCE_SCATTER), NULL);
}

int MPI_Reduce_scatter_block(const void *send, void *recv, int count, uintptr_t type, uintptr_t op,
                             uintptr_t comm)
{
    const uint64_t limit = slice_limit(count, comm);

    if (limit == UNMET && shim_are_plain(send, recv))
        return first_reduce_scatter(send, recv, count, type, op, comm);
    if (is_few(count, limit) && shim_are_plain(send, recv))
        return shim.next.reduce_scatter(send, recv, count, type, op, comm);
    return slow_reduce_scatter(send, recv, count, type, op, comm);
}

SLOW first_reduce_scatter_c(const void *send, void *recv, int64_t count, uintptr_t type,
                            uintptr_t op, uintptr_t comm)
{
    FIRST(shim.next.reduce_scatter_c(send, recv, count, type, op, comm), count, shim_abi.INT, NULL,
          .kind = SS_KIND_REDUCE_SCATTER, .op = shim_abi_word(op), .count = count, .large = true);
}

SLOW slow_reduce_scatter_c(const void *send, void *recv, int64_t count, uintptr_t type,
                           uintptr_t op, uintptr_t comm)
{
    if ((all_pass() || is_little_there(count, shim_abi.INT, comm)) &&
        on_host(send, type, recv, type))
        return shim.next.reduce_scatter_c(send, recv, count, type, op, comm);
    if (is_unmet(count, comm) && on_host(send, type, recv, type))
        return first_reduce_scatter_c(send, recv, count, type, op, comm);
    return shim_collective(REDUCTION(true, .kind = SS_KIND_REDUCE_SCATTER), NULL);
}

int MPI_Reduce_scatter_block_c(const void *send, void *recv, int64_t count, uintptr_t type,
                               uintptr_t op, uintptr_t comm)
{
    const uint64_t limit = slice_limit(count, comm);

    if (limit == UNMET && shim_are_plain(send, recv))
        return first_reduce_scatter_c(send, recv, count, type, op, comm);
    if (is_few(count, limit) && shim_are_plain(send, recv))
        return shim.next.reduce_scatter_c(send, recv, count, type, op, comm);
    return slow_reduce_scatter_c(send, recv, count, type, op, comm);
}

SLOW first_reduce_scatterv(const void *send, void *recv, const int *counts, uintptr_t type,
                           uintptr_t op, uintptr_t comm)
{
    FIRST(shim.next.reduce_scatterv(send, recv, counts, type, op, comm), *counts, shim_abi.INT,
          NULL, .kind = SS_KIND_REDUCE_SCATTER, .op = shim_abi_word(op), .counts = counts,
          .listed = true, .count = *counts);
}

SLOW slow_reduce_scatterv(const void *send, void *recv, const int *counts, uintptr_t type,
                          uintptr_t op, uintptr_t comm)
{
    const int count = counts ? *counts : 0;

    if ((all_pass() || (counts && is_little_there(*counts, shim_abi.INT, comm))) &&
        on_host(send, type, recv, type))
        return shim.next.reduce_scatterv(send, recv, counts, type, op, comm);
    if (counts && is_unmet(*counts, comm) && on_host(send, type, recv, type))
        return first_reduce_scatterv(send, recv, counts, type, op, comm);
    return shim_collective(REDUCTION(false, PARTS), NULL);
}

int MPI_Reduce_scatter(const void *send, void *recv, const int *counts, uintptr_t type,
                       uintptr_t op, uintptr_t comm)
{
    const uint64_t limit = counts ? slice_limit(*counts, comm) : 0;

    if (limit == UNMET && shim_are_plain(send, recv))
        return first_reduce_scatterv(send, recv, counts, type, op, comm);
    if (limit > 0 && is_few(*counts, limit) && shim_are_plain(send, recv))
        return shim.next.reduce_scatterv(send, recv, counts, type, op, comm);
    return slow_reduce_scatterv(send, recv, counts, type, op, comm);
}

SLOW first_reduce_scatterv_c(const void *send, void *recv, const int64_t *counts, uintptr_t type,
                             uintptr_t op, uintptr_t comm)
{
    FIRST(shim.next.reduce_scatterv_c(send, recv, counts, type, op, comm), *counts, shim_abi.INT,
          NULL, .kind = SS_KIND_REDUCE_SCATTER, .op = shim_abi_word(op), .counts = counts,
          .listed = true, .count = *counts, .large = true);
}

SLOW slow_reduce_scatterv_c(const void *send, void *recv, const int64_t *counts, uintptr_t type,
                            uintptr_t op, uintptr_t comm)
{
    const int64_t count = counts ? *counts : 0;

    if ((all_pass() || (counts && is_little_there(*counts, shim_abi.INT, comm))) &&
        on_host(send, type, recv, type))
        return shim.next.reduce_scatterv_c(send, recv, counts, type, op, comm);
    if (counts && is_unmet(*counts, comm) && on_host(send, type, recv, type))
        return first_reduce_scatterv_c(send, recv, counts, type, op, comm);
    return shim_collective(REDUCTION(true, PARTS), NULL);
}

int MPI_Reduce_scatter_c(const void *send, void *recv, const int64_t *counts, uintptr_t type,
                         uintptr_t op, uintptr_t comm)
{
    const uint64_t limit = counts ? slice_limit(*counts, comm) : 0;

    if (limit == UNMET && shim_are_plain(send, recv))
        return first_reduce_scatterv_c(send, recv, counts, type, op, comm);
    if (limit > 0 && is_few(*counts, limit) && shim_are_plain(send, recv))
        return shim.next.reduce_scatterv_c(send, recv, counts, type, op, comm);
    return slow_reduce_scatterv_c(send, recv, counts, type, op, comm);
}
