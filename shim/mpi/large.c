/* Passes calls of functions that the MPI library lacks to functions that it has. */
#include "shim/mpi/large.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

/* Elements of a window of a large reduction. */
enum { WINDOW = 1 << 30 };

/* MPI_ERR_COUNT in MPICH and in Open MPI. */
enum { COUNT_ERROR = 2 };

struct shim_large shim_large;

static int refuse(uintptr_t comm)
{
    shim_large.comm_call_errhandler(comm, COUNT_ERROR);
    return COUNT_ERROR;
}

static bool fits(int64_t number)
{
    return number <= INT_MAX;
}

/* Converts a count; a negative one stays negative, so that the MPI library refuses it. */
static int narrow(int64_t number)
{
    return number < 0 ? -1 : (int)number;
}

/* Returns true if `send` is MPI_IN_PLACE in MPICH or in Open MPI. */
static bool in_place(const void *send)
{
    return send == (const void *)-1 || send == (const void *)1;
}

/* ---- reductions ---- */

/* Returns the address `bytes` after the begin of a buffer, which may be MPI_BOTTOM or undefined on
 * this rank. */
static void *after(const void *buffer, int64_t bytes)
{
    return (void *)((uintptr_t)buffer + (uintptr_t)bytes);
}

static const void *sent_after(const void *send, int64_t bytes)
{
    return in_place(send) ? send : after(send, bytes);
}

static int window_of(int64_t left)
{
    return left < WINDOW ? (int)left : WINDOW;
}

/* Defines a blocking function whose arguments begin with send, recv and count. */
#define IN_WINDOWS(member, signature, ...)                                                         \
    int shim_large_##member##_c(signature(int64_t))                                                \
    {                                                                                              \
        intptr_t lower, extent;                                                                    \
        int err;                                                                                   \
                                                                                                   \
        if (fits(count))                                                                           \
            return shim.next.member(send, recv, narrow(count), __VA_ARGS__);                       \
        err = shim_large.type_get_extent(type, &lower, &extent);                                   \
        for (int64_t done = 0; err == 0 && done < count; done += WINDOW)                           \
            err = shim.next.member(sent_after(send, done * extent), after(recv, done * extent),    \
                                   window_of(count - done), __VA_ARGS__);                          \
        return err;                                                                                \
    }
IN_WINDOWS(allreduce, SHIM_REDUCTION, type, op, comm)
IN_WINDOWS(reduce, SHIM_REDUCE, type, op, root, comm)

/* Reduces to each rank in turn. In place, a rank's own result overwrites the first block, which
 * rank 0 has received by then. */
int shim_large_reduce_scatter_c(SHIM_REDUCTION(int64_t))
{
    const void *from = in_place(send) ? recv : send;
    int inter = 0, size = 0, rank = 0, err;
    intptr_t lower, extent = 0;

    if (fits(count))
        return shim.next.reduce_scatter(send, recv, narrow(count), type, op, comm);
    if ((err = shim_large.comm_test_inter(comm, &inter)) != 0 ||
        (err = shim_large.comm_size(comm, &size)) != 0 ||
        (err = shim_large.comm_rank(comm, &rank)) != 0 ||
        (err = shim_large.type_get_extent(type, &lower, &extent)) != 0)
        return err;
    if (inter)
        return refuse(comm);
    for (int root = 0; err == 0 && root < size; root++) {
        const void *block = after(from, root * count * extent);

        if (block == recv && root == rank)
            block = send;
        err = shim_large_reduce_c(block, recv, count, type, op, root, comm);
    }
    return err;
}

/* Defines a nonblocking function with such arguments. */
#define POST(member, signature, ...)                                                               \
    int shim_large_##member##_c(signature(int64_t))                                                \
    {                                                                                              \
        if (!fits(count))                                                                          \
            return refuse(comm);                                                                   \
        return shim.next.member(send, recv, narrow(count), __VA_ARGS__);                           \
    }
POST(iallreduce, SHIM_IREDUCTION, type, op, comm, request)
POST(iscan, SHIM_IREDUCTION, type, op, comm, request)
POST(iexscan, SHIM_IREDUCTION, type, op, comm, request)
POST(ireduce_block, SHIM_IREDUCTION, type, op, comm, request)
POST(ireduce, SHIM_IREDUCE, type, op, root, comm, request)

/* ---- gathers ---- */

/* Returns true if the count fits an int. In place the count is undefined and becomes 0. */
static bool send_fits(const void *send, int64_t *count)
{
    if (in_place(send))
        *count = 0;
    return fits(*count);
}

/* Defines a function of equal slices. */
#define PASS_GATHER(member, signature, ...)                                                        \
    int shim_large_##member##_c(signature(int64_t))                                                \
    {                                                                                              \
        if (!send_fits(send, &send_count) || !fits(count))                                         \
            return refuse(comm);                                                                   \
        return shim.next.member(send, narrow(send_count), send_type, recv, narrow(count), type,    \
                                __VA_ARGS__);                                                      \
    }
PASS_GATHER(allgather, SHIM_GATHER, comm)
PASS_GATHER(iallgather, SHIM_IGATHER, comm, request)

/* Counts and displacements as ints, owned by the caller. */
struct lists {
    int *counts, *displs;
};

/* Returns false if a number does not fit an int. The displacement of an empty slice is
 * undefined. */
static bool fill(struct lists *lists, const int64_t *counts, const int64_t *displs, int size)
{
    for (int r = 0; r < size; r++) {
        const int64_t at = counts[r] == 0 ? 0 : displs[r];

        if (!fits(counts[r]) || !fits(at) || at < INT_MIN)
            return false;
        lists->counts[r] = narrow(counts[r]);
        lists->displs[r] = (int)at;
    }
    return true;
}

/* Finds the number of slices in a gather; on an intercommunicator it is the size of the other
 * group. */
static int count_slices(uintptr_t comm, int *size)
{
    int inter = 0;
    int err = shim_large.comm_test_inter(comm, &inter);

    if (err != 0)
        return err;
    return (inter ? shim_large.comm_remote_size : shim_large.comm_size)(comm, size);
}

/* Converts counts and displacements. Returns 0 or an MPI error code that was raised, with the lists
 * freed. A list that is NULL stays NULL, so that the MPI library refuses it. `count_them` finds the
 * length of the lists. */
static int lists_make(struct lists *lists, const int64_t *counts, const int64_t *displs,
                      int (*count_them)(uintptr_t comm, int *size), uintptr_t comm)
{
    int size = 0, err;

    *lists = (struct lists){NULL, NULL};
    if (!counts || !displs)
        return 0;
    err = count_them(comm, &size);
    if (err != 0)
        return err;
    lists->counts = malloc(2 * (size_t)size * sizeof *lists->counts);
    if (lists->counts) {
        lists->displs = lists->counts + size;
        if (fill(lists, counts, displs, size))
            return 0;
    }
    free(lists->counts);
    return refuse(comm);
}

int shim_large_allgatherv_c(SHIM_GATHERV(int64_t))
{
    struct lists lists;
    int err;

    if (!send_fits(send, &send_count))
        return refuse(comm);
    err = lists_make(&lists, counts, displs, count_slices, comm);
    if (err != 0)
        return err;
    err = shim.next.allgatherv(send, narrow(send_count), send_type, recv, lists.counts,
                               lists.displs, type, comm);
    free(lists.counts);
    return err;
}

int shim_large_reduce_scatterv_c(SHIM_SCATTER(int64_t))
{
    struct lists lists;
    int err = lists_make(&lists, counts, counts, shim_large.comm_size, comm);

    if (err != 0)
        return err;
    err = shim.next.reduce_scatterv(send, recv, lists.counts, type, op, comm);
    free(lists.counts);
    return err;
}

/* ---- lists of nonblocking calls ----
 *
 * They must live until the request ends, and the MPI library does not tell when. Two active
 * requests never share a handle: if a later call gets the same handle, the earlier request has
 * ended, and its lists are freed. The number of copies is bounded by the number of handles that the
 * MPI library has used at once.
 */

static struct kept {
    struct kept *next;
    uintptr_t request;
    int *lists;
} * kept;
static pthread_mutex_t kept_lock = PTHREAD_MUTEX_INITIALIZER;

static void keep(struct kept *added)
{
    struct kept **at;

    pthread_mutex_lock(&kept_lock);
    for (at = &kept; *at && (*at)->request != added->request; at = &(*at)->next)
        ;
    if (*at) {
        free((*at)->lists);
        (*at)->lists = added->lists;
        free(added);
    } else {
        added->next = kept;
        kept = added;
    }
    pthread_mutex_unlock(&kept_lock);
}

/* Returns the number of bytes that the MPI library overwrote with a handle in a word of ones: 4
 * under MPICH, 8 under Open MPI, whose handles are addresses. No address begins with 32 ones. */
static size_t width_of(uintptr_t handle)
{
    if (handle == UINTPTR_MAX)
        return 0;
    return handle >> 32 == UINT32_MAX ? 4 : 8;
}

/* A post in progress: its lists, and the word for the handle of the MPI library. */
struct post {
    struct lists lists;
    struct kept *added;
    uintptr_t handle;
};

/* Prepares a post. Returns 0 or an MPI error code that was raised, with everything freed. */
static int post_begin(struct post *p, const int64_t *counts, const int64_t *displs,
                      int (*count_them)(uintptr_t comm, int *size), uintptr_t comm)
{
    int err = lists_make(&p->lists, counts, displs, count_them, comm);

    p->handle = UINTPTR_MAX;
    if (err != 0)
        return err;
    p->added = malloc(sizeof *p->added);
    if (p->added)
        return 0;
    free(p->lists.counts);
    return refuse(comm);
}

static int post_end(struct post *p, int err, void *request)
{
    if (request)
        memcpy(request, &p->handle, width_of(p->handle));
    *p->added = (struct kept){.request = p->handle, .lists = p->lists.counts};
    if (err == 0) {
        keep(p->added);
    } else {
        free(p->lists.counts);
        free(p->added);
    }
    return err;
}

static int iallgatherv(shim_iallgatherv_fn *call, SHIM_IGATHERV(int64_t))
{
    struct post p;
    int err;

    if (!send_fits(send, &send_count))
        return refuse(comm);
    err = post_begin(&p, counts, displs, count_slices, comm);
    if (err != 0)
        return err;
    err = call(send, narrow(send_count), send_type, recv, p.lists.counts, p.lists.displs, type,
               comm, request ? &p.handle : NULL);
    return post_end(&p, err, request);
}

int shim_large_iallgatherv_c(SHIM_IGATHERV(int64_t))
{
    return iallgatherv(shim.next.iallgatherv, SHIM_IGATHERV_ARGUMENTS);
}

int shim_large_pmpi_iallgatherv_c(SHIM_IGATHERV(int64_t))
{
    return iallgatherv(shim.pmpi.iallgatherv, SHIM_IGATHERV_ARGUMENTS);
}

/* Copies the counts like those of a gather; there are no displacements. Each group scatters to
 * itself. */
int shim_large_ireduce_scatter_c(SHIM_ISCATTER(int64_t))
{
    struct post p;
    int err = post_begin(&p, counts, counts, shim_large.comm_size, comm);

    if (err != 0)
        return err;
    err = shim.next.ireduce_scatter(send, recv, p.lists.counts, type, op, comm,
                                    request ? &p.handle : NULL);
    return post_end(&p, err, request);
}

/* ---- communicators ---- */

int shim_large_comm_idup_info(uintptr_t comm, uintptr_t info, void *made, void *request)
{
    (void)info;
    return shim.next.comm_idup(comm, made, request);
}
