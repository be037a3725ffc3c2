/* The names the dynamic linker finds here before the MPI library's. No mpi.h: its prototypes would
 * truncate the handles of another MPI, which come through here as well. */
#include <stdarg.h>

#include "shim/callbacks.h"
#include "shim/handles.h"
#include "shim/shim.h"

#define EXPORT __attribute__((visibility("default")))

EXPORT shim_allreduce_fn MPI_Allreduce;
EXPORT shim_allreduce_c_fn MPI_Allreduce_c;
EXPORT shim_iallreduce_fn MPI_Iallreduce;
EXPORT shim_iallreduce_c_fn MPI_Iallreduce_c;
EXPORT shim_allgather_fn MPI_Allgather;
EXPORT shim_allgather_c_fn MPI_Allgather_c;
EXPORT shim_allgatherv_fn MPI_Allgatherv;
EXPORT shim_allgatherv_c_fn MPI_Allgatherv_c;
EXPORT shim_iallgather_fn MPI_Iallgather;
EXPORT shim_iallgather_c_fn MPI_Iallgather_c;
EXPORT shim_iallgatherv_fn MPI_Iallgatherv;
EXPORT shim_iallgatherv_c_fn MPI_Iallgatherv_c;
EXPORT shim_allreduce_fn MPI_Reduce_scatter_block;
EXPORT shim_allreduce_c_fn MPI_Reduce_scatter_block_c;
EXPORT shim_reduce_fn MPI_Reduce;
EXPORT shim_reduce_c_fn MPI_Reduce_c;
EXPORT shim_allreduce_init_fn MPI_Allreduce_init;
EXPORT shim_allreduce_init_c_fn MPI_Allreduce_init_c;
EXPORT shim_pcontrol_fn MPI_Pcontrol;
EXPORT shim_op_create_fn MPI_Op_create, MPI_Op_create_c;
EXPORT shim_keyval_fn MPI_Comm_create_keyval, MPI_Keyval_create, MPI_Type_create_keyval;
EXPORT shim_set_attr_fn MPI_Comm_set_attr, MPI_Attr_put;
EXPORT shim_query_thread_fn MPI_Query_thread;
EXPORT shim_request_fn MPI_Cancel, MPI_Request_free;

/* mpi_f08 calls the second name of these, and so do profilers. */
EXPORT shim_init_fn MPI_Init, PMPI_Init;
EXPORT shim_init_thread_fn MPI_Init_thread, PMPI_Init_thread;
EXPORT shim_finalize_fn MPI_Finalize, PMPI_Finalize;
EXPORT shim_request_get_status_fn MPI_Request_get_status, PMPI_Request_get_status;

/* A call as it came, from arguments named as in all functions below. */
#define REDUCTION(is_large, ...)                                                                   \
    &(struct shim_call)                                                                            \
    {                                                                                              \
        .send = send, .recv = recv, .count = count, .type = type, .op = op, .comm = comm,          \
        .large = is_large, __VA_ARGS__                                                             \
    }
#define GATHER(is_large, ...)                                                                      \
    &(struct shim_call)                                                                            \
    {                                                                                              \
        .send = send, .send_count = send_count, .send_type = send_type, .recv = recv,              \
        .type = type, .comm = comm, .large = is_large, .kind = SS_KIND_ALLGATHER, __VA_ARGS__      \
    }
/* Whether everything passes, or a call is told to be below MIN_COUNT and not counted, as
 * shim.min_fast has it for an allreduce: here by the bytes of all ranks together, which a
 * communicator's size and a predefined datatype tell (as shim_bytes does for every other). */
static inline uint64_t ranks_of(uintptr_t comm)
{
    uint64_t entry =
        atomic_load_explicit(&shim.sizes[(uint32_t)comm % SHIM_SIZES], memory_order_relaxed);

    return entry >> 32 == (uint32_t)comm ? (uint32_t)entry : 0;
}

static inline bool passes(void)
{
    return atomic_load_explicit(&shim.min_fast, memory_order_acquire) == INT64_MAX;
}

static inline bool is_small(int64_t elements, uint64_t bytes_each, uint64_t ranks)
{
    int64_t least = atomic_load_explicit(&shim.min_fast, memory_order_acquire);
    uint64_t bytes;

    return least > 0 && elements >= 0 && ranks > 0 && bytes_each > 0 &&
           !__builtin_mul_overflow((uint64_t)elements, bytes_each * ranks, &bytes) &&
           bytes / 4 < (uint64_t)least;
}

static inline bool gathers_little(int64_t count, uintptr_t type, uintptr_t comm)
{
    return is_small(count, shim_handle_size(type), ranks_of(comm)) || passes();
}

static inline bool scatters_little(int64_t count, uintptr_t comm)
{
    return is_small(count, 4, ranks_of(comm)) || passes();
}

static bool gathers_little_v(const void *counts, bool large, uintptr_t type, uintptr_t comm)
{
    uint64_t ranks = ranks_of(comm);
    int64_t sum = 0, all = 0;

    if (passes())
        return true;
    for (uint64_t r = 0; counts && r < ranks; r++) {
        int64_t count = large ? ((const int64_t *)counts)[r] : ((const int *)counts)[r];

        sum += count;
        all |= count | sum;
    }
    return all >= 0 && is_small(sum, shim_handle_size(type), ranks > 0);
}

#define CALLER .site = __builtin_return_address(0)
#define SLICES .counts = counts, .displs = displs

int MPI_Allreduce(const void *send, void *recv, int count, uintptr_t type, uintptr_t op,
                  uintptr_t comm)
{
    if (count < atomic_load_explicit(&shim.min_fast, memory_order_acquire))
        return shim.next.allreduce(send, recv, count, type, op, comm);
    return shim_allreduce(REDUCTION(false, CALLER));
}

int MPI_Allreduce_c(const void *send, void *recv, int64_t count, uintptr_t type, uintptr_t op,
                    uintptr_t comm)
{
    if (count < atomic_load_explicit(&shim.min_fast, memory_order_acquire))
        return shim.next.allreduce_c(send, recv, count, type, op, comm);
    return shim_allreduce(REDUCTION(true, CALLER));
}

int MPI_Iallreduce(const void *send, void *recv, int count, uintptr_t type, uintptr_t op,
                   uintptr_t comm, void *request)
{
    if (count < atomic_load_explicit(&shim.min_fast, memory_order_acquire) &&
        (shim_is_predefined(op) || passes()))
        return shim.next.iallreduce(send, recv, count, type, op, comm, request);
    return shim_iallreduce(REDUCTION(false, CALLER), request);
}

int MPI_Iallreduce_c(const void *send, void *recv, int64_t count, uintptr_t type, uintptr_t op,
                     uintptr_t comm, void *request)
{
    if (count < atomic_load_explicit(&shim.min_fast, memory_order_acquire) &&
        (shim_is_predefined(op) || passes()))
        return shim.next.iallreduce_c(send, recv, count, type, op, comm, request);
    return shim_iallreduce(REDUCTION(true, CALLER), request);
}

int MPI_Allgather(const void *send, int send_count, uintptr_t send_type, void *recv, int count,
                  uintptr_t type, uintptr_t comm)
{
    if (gathers_little(count, type, comm))
        return shim.next.allgather(send, send_count, send_type, recv, count, type, comm);
    return shim_collective(GATHER(false, .count = count), NULL);
}

int MPI_Allgather_c(const void *send, int64_t send_count, uintptr_t send_type, void *recv,
                    int64_t count, uintptr_t type, uintptr_t comm)
{
    if (gathers_little(count, type, comm))
        return shim.next.allgather_c(send, send_count, send_type, recv, count, type, comm);
    return shim_collective(GATHER(true, .count = count), NULL);
}

int MPI_Allgatherv(const void *send, int send_count, uintptr_t send_type, void *recv,
                   const int *counts, const int *displs, uintptr_t type, uintptr_t comm)
{
    if (gathers_little_v(counts, false, type, comm))
        return shim.next.allgatherv(send, send_count, send_type, recv, counts, displs, type, comm);
    return shim_collective(GATHER(false, SLICES), NULL);
}

int MPI_Allgatherv_c(const void *send, int64_t send_count, uintptr_t send_type, void *recv,
                     const int64_t *counts, const int64_t *displs, uintptr_t type, uintptr_t comm)
{
    if (gathers_little_v(counts, true, type, comm))
        return shim.next.allgatherv_c(send, send_count, send_type, recv, counts, displs, type,
                                      comm);
    return shim_collective(GATHER(true, SLICES), NULL);
}

int MPI_Iallgather(const void *send, int send_count, uintptr_t send_type, void *recv, int count,
                   uintptr_t type, uintptr_t comm, void *request)
{
    if (gathers_little(count, type, comm))
        return shim.next.iallgather(send, send_count, send_type, recv, count, type, comm, request);
    return shim_collective(GATHER(false, .count = count), request);
}

int MPI_Iallgather_c(const void *send, int64_t send_count, uintptr_t send_type, void *recv,
                     int64_t count, uintptr_t type, uintptr_t comm, void *request)
{
    if (gathers_little(count, type, comm))
        return shim.next.iallgather_c(send, send_count, send_type, recv, count, type, comm,
                                      request);
    return shim_collective(GATHER(true, .count = count), request);
}

int MPI_Iallgatherv(const void *send, int send_count, uintptr_t send_type, void *recv,
                    const int *counts, const int *displs, uintptr_t type, uintptr_t comm,
                    void *request)
{
    if (gathers_little_v(counts, false, type, comm))
        return shim.next.iallgatherv(send, send_count, send_type, recv, counts, displs, type, comm,
                                     request);
    return shim_collective(GATHER(false, SLICES), request);
}

int MPI_Iallgatherv_c(const void *send, int64_t send_count, uintptr_t send_type, void *recv,
                      const int64_t *counts, const int64_t *displs, uintptr_t type, uintptr_t comm,
                      void *request)
{
    if (gathers_little_v(counts, true, type, comm))
        return shim.next.iallgatherv_c(send, send_count, send_type, recv, counts, displs, type,
                                       comm, request);
    return shim_collective(GATHER(true, SLICES), request);
}

int MPI_Reduce_scatter_block(const void *send, void *recv, int count, uintptr_t type, uintptr_t op,
                             uintptr_t comm)
{
    if (scatters_little(count, comm))
        return shim.next.reduce_scatter(send, recv, count, type, op, comm);
    return shim_collective(REDUCTION(false, .kind = SS_KIND_REDUCE_SCATTER), NULL);
}

int MPI_Reduce_scatter_block_c(const void *send, void *recv, int64_t count, uintptr_t type,
                               uintptr_t op, uintptr_t comm)
{
    if (scatters_little(count, comm))
        return shim.next.reduce_scatter_c(send, recv, count, type, op, comm);
    return shim_collective(REDUCTION(true, .kind = SS_KIND_REDUCE_SCATTER), NULL);
}

int MPI_Reduce(const void *send, void *recv, int count, uintptr_t type, uintptr_t op, int root,
               uintptr_t comm)
{
    if (count < atomic_load_explicit(&shim.min_fast, memory_order_acquire))
        return shim.next.reduce(send, recv, count, type, op, root, comm);
    return shim_collective(REDUCTION(false, .kind = SS_KIND_REDUCE, .root = root), NULL);
}

int MPI_Reduce_c(const void *send, void *recv, int64_t count, uintptr_t type, uintptr_t op,
                 int root, uintptr_t comm)
{
    if (count < atomic_load_explicit(&shim.min_fast, memory_order_acquire))
        return shim.next.reduce_c(send, recv, count, type, op, root, comm);
    return shim_collective(REDUCTION(true, .kind = SS_KIND_REDUCE, .root = root), NULL);
}

int MPI_Allreduce_init(const void *send, void *recv, int count, uintptr_t type, uintptr_t op,
                       uintptr_t comm, uintptr_t info, void *request)
{
    int err;

    shim_prepare();
    err = shim.next.allreduce_init(send, recv, count, type, op, comm, info, request);
    shim_persistent(err);
    return err;
}

int MPI_Allreduce_init_c(const void *send, void *recv, int64_t count, uintptr_t type, uintptr_t op,
                         uintptr_t comm, uintptr_t info, void *request)
{
    int err;

    shim_prepare();
    err = shim.next.allreduce_init_c(send, recv, count, type, op, comm, info, request);
    shim_persistent(err);
    return err;
}

int MPI_Init(int *argc, char ***argv)
{
    shim_prepare();
    return shim_init(shim.next.init, argc, argv);
}

int PMPI_Init(int *argc, char ***argv)
{
    shim_prepare();
    return shim_init(shim.next.pmpi_init, argc, argv);
}

int MPI_Init_thread(int *argc, char ***argv, int required, int *provided)
{
    shim_prepare();
    return shim_init_thread(shim.next.init_thread, argc, argv, required, provided);
}

int PMPI_Init_thread(int *argc, char ***argv, int required, int *provided)
{
    shim_prepare();
    return shim_init_thread(shim.next.pmpi_init_thread, argc, argv, required, provided);
}

int MPI_Finalize(void)
{
    shim_prepare();
    return shim_finalize(shim.next.finalize);
}

int PMPI_Finalize(void)
{
    shim_prepare();
    return shim_finalize(shim.next.pmpi_finalize);
}

int MPI_Query_thread(int *provided)
{
    return shim_query_thread(provided);
}

int MPI_Request_get_status(uintptr_t request, int *flag, void *status)
{
    shim_prepare();
    return shim_request_get_status(shim.next.request_get_status, request, flag, status);
}

int PMPI_Request_get_status(uintptr_t request, int *flag, void *status)
{
    shim_prepare();
    return shim_request_get_status(shim.next.pmpi_request_get_status, request, flag, status);
}

int MPI_Cancel(void *request)
{
    shim_prepare();
    return shim_request_call(shim.next.cancel, request, true);
}

int MPI_Request_free(void *request)
{
    shim_prepare();
    return shim_request_call(shim.next.request_free, request, false);
}

int MPI_Op_create(void *function, int commute, void *op)
{
    shim_prepare();
    return shim_op_create(shim.next.op_create, function, commute, op);
}

int MPI_Op_create_c(void *function, int commute, void *op)
{
    shim_prepare();
    return shim_op_create(shim.next.op_create_c, function, commute, op);
}

int MPI_Comm_create_keyval(void *copy, void *delete, int *keyval, void *extra)
{
    shim_prepare();
    return shim_keyval(shim.next.comm_keyval, true, copy, delete, keyval, extra);
}

int MPI_Keyval_create(void *copy, void *delete, int *keyval, void *extra)
{
    shim_prepare();
    return shim_keyval(shim.next.keyval, true, copy, delete, keyval, extra);
}

int MPI_Type_create_keyval(void *copy, void *delete, int *keyval, void *extra)
{
    shim_prepare();
    return shim_keyval(shim.next.type_keyval, false, copy, delete, keyval, extra);
}

int MPI_Comm_set_attr(uintptr_t comm, int keyval, void *value)
{
    shim_prepare();
    return shim_set_attr(shim.next.set_attr, comm, keyval, value);
}

int MPI_Attr_put(uintptr_t comm, int keyval, void *value)
{
    shim_prepare();
    return shim_set_attr(shim.next.attr_put, comm, keyval, value);
}

/* Levels mean what shim_pcontrol says; others nothing to us. What follows the level is not known
 * here, so what can stand in argument registers is handed on as it is: x86-64 and aarch64
 * have registers of their own for words and for doubles, in which the order between the two is
 * lost anyhow, and reading them is harmless where the caller gave fewer. */
int MPI_Pcontrol(const int level, ...)
{
    void *w[5];
    double d[8];
    va_list ap;

    va_start(ap, level);
    for (int i = 0; i < 5; i++)
        w[i] = va_arg(ap, void *);
    for (int i = 0; i < 8; i++)
        d[i] = va_arg(ap, double);
    va_end(ap);

    shim_prepare();
    shim_pcontrol(level);
    return shim.next.pcontrol(level, w[0], w[1], w[2], w[3], w[4], d[0], d[1], d[2], d[3], d[4],
                              d[5], d[6], d[7]);
}
