/* Preloaded before the library: the buffers of collectives are put into device memory on the way
 * in, and what came out of it back on the way out, so that any program is one on devices. What a
 * nonblocking call gives is back when a call that completes it returns. A nonblocking call that is
 * refused for its buffers is made with those of the host: the refusal has to name what would serve
 * it. So is one that is wrong, for the program's error handler: its error is of the same class. No
 * call may have written to what it was given to send. Functions of sparseshim.h that take a receive
 * buffer take what stands for it: that is one place where ON_DEVICE has one pair.
 *
 * ON_DEVICE  the kinds of memory of send and receive buffer, for one call after the other in turn:
 *            D device, S second device, P pool, M managed, H host. "DD", or "DD,HH,PS"; a rank
 *            begins at its own number. Where the library is not loaded, or disabled, all are of
 *            the host.
 *
 * At the end each process says how many nonblocking calls it had on devices and how many were
 * refused. Handles are MPICH's. What is no call on predefined types goes on as it is. */
#include <mpi.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "shim/sparseshim.h"
#include "tests/preload/stand_in.h"

enum { NAMED = 0x4c000000, KIND_BITS = (int)0xfc000000u };

struct moved {
    enum kind in, out;
    size_t sent, got;
    const void *from, *send; /* what is sent: the program's, and what stands for it */
    void *recv, *to;
    MPI_Request request; /* of a nonblocking call */
    int err_class; /* with buffers of devices, where it is made again with those of the host */
    struct moved *next;
};

static struct {
    pthread_mutex_t lock, handlers;
    atomic_uint calls, posted, refused;
    struct moved *under_way;
} the = {.lock = PTHREAD_MUTEX_INITIALIZER, .handlers = PTHREAD_MUTEX_INITIALIZER};

/* ---- one call ---- */

static void draw_kinds(struct moved *m)
{
    const char *rank = getenv("PMI_RANK"); /* known before MPI_Init and after MPI_Finalize */
    size_t pairs;
    const char *list = pairs_of(&pairs);

    m->in = m->out = HOST;
    if (!list)
        return;
    list += 3 * ((atomic_fetch_add(&the.calls, 1) + (unsigned)(rank ? atoi(rank) : 0)) % pairs);
    m->in = kind_of(list[0]);
    m->out = kind_of(list[1]);
}

/* Bytes of `count` elements; 0: of another type, or none. */
static size_t bytes_of(int64_t count, MPI_Datatype type)
{
    return count > 0 && ((int)type & KIND_BITS) == NAMED
               ? (size_t)count * ((size_t)type >> 8 & 0xff)
               : 0;
}

/* Errors return, of calls that name no communicator or a wrong one. */
static void be_quiet(bool quiet, MPI_Errhandler *world, MPI_Errhandler *self)
{
    if (quiet) {
        PMPI_Comm_get_errhandler(MPI_COMM_WORLD, world);
        PMPI_Comm_get_errhandler(MPI_COMM_SELF, self);
        PMPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
        PMPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
        return;
    }
    PMPI_Comm_set_errhandler(MPI_COMM_WORLD, *world);
    PMPI_Comm_set_errhandler(MPI_COMM_SELF, *self);
    PMPI_Errhandler_free(world);
    PMPI_Errhandler_free(self);
}

/* 0: it is no intracommunicator. The handle may be one that was freed. */
static int ranks_in(MPI_Comm comm)
{
    const unsigned kind = (unsigned)comm >> 30;
    MPI_Errhandler world, self;
    int begun = 0, ended = 0, inter = 1, size = 0;

    if (((unsigned)comm & 0x3c000000u) != 0x04000000u || kind == 0)
        return 0;
    PMPI_Initialized(&begun);
    PMPI_Finalized(&ended);
    (void)pthread_mutex_lock(&the.handlers);
    if (kind > 1 && begun && !ended)
        be_quiet(true, &world, &self);
    if (PMPI_Comm_test_inter(comm, &inter) == MPI_SUCCESS && !inter)
        PMPI_Comm_size(comm, &size);
    if (kind > 1 && begun && !ended)
        be_quiet(false, &world, &self);
    (void)pthread_mutex_unlock(&the.handlers);
    return size;
}

/* Of a call on buffers of the host both are as they were. */
static struct moved move(const void *send, void *recv, size_t sent, size_t got, bool movable)
{
    struct moved m = {
        .from = send, .send = send, .recv = recv, .to = recv, .sent = sent, .got = got};

    if (!movable || !recv || recv == MPI_IN_PLACE || !send || send == recv || sent > MOST_BYTES ||
        got > MOST_BYTES)
        return m;
    draw_kinds(&m);
    m.recv = put(recv, m.out, got);
    if (send != MPI_IN_PLACE)
        m.send = put(send, m.in, sent);
    return m;
}

static void end(const struct moved *m)
{
    char *sent;

    take(m->to, m->out, m->recv, m->got);
    if (m->send == m->from || m->sent == 0)
        return;
    sent = malloc(m->sent);
    cuda_read(m->in, sent, m->send, m->sent);
    if (memcmp(sent, m->from, m->sent) != 0) {
        fprintf(stderr, "to_device: a call has written to its send buffer\n");
        abort();
    }
    free(sent);
}

/* ---- blocking calls ----
 *
 * A call of the next library stands once in each: its address is the site of the call. */

#define NEXT(function, name)                                                                       \
    static function *next;                                                                         \
    if (!next)                                                                                     \
    *(void **)(void *)&next = dlsym(RTLD_NEXT, name)

typedef int reduce_scatter_fn(const void *, void *, int, MPI_Datatype, MPI_Op, MPI_Comm);
typedef int reduce_fn(const void *, void *, int, MPI_Datatype, MPI_Op, int, MPI_Comm);
typedef int allgather_fn(const void *, int, MPI_Datatype, void *, int, MPI_Datatype, MPI_Comm);
typedef int allgatherv_fn(const void *, int, MPI_Datatype, void *, const int *, const int *,
                          MPI_Datatype, MPI_Comm);

#define ALLREDUCE(name, count_type)                                                                \
    int name(const void *send, void *recv, count_type count, MPI_Datatype type, MPI_Op op,         \
             MPI_Comm comm)                                                                        \
    {                                                                                              \
        typedef int function(const void *, void *, count_type, MPI_Datatype, MPI_Op, MPI_Comm);    \
        const size_t bytes = bytes_of(count, type);                                                \
        const struct moved m = move(send, recv, bytes, bytes, bytes > 0);                          \
        int err;                                                                                   \
                                                                                                   \
        NEXT(function, #name);                                                                     \
        err = next(m.send, m.recv, count, type, op, comm);                                         \
        end(&m);                                                                                   \
        return err;                                                                                \
    }
ALLREDUCE(MPI_Allreduce, int)
#if MPI_VERSION >= 4
ALLREDUCE(MPI_Allreduce_c, MPI_Count)
#endif

int MPI_Reduce_scatter_block(const void *send, void *recv, int count, MPI_Datatype type, MPI_Op op,
                             MPI_Comm comm)
{
    const size_t bytes = bytes_of(count, type), all = bytes * (size_t)ranks_in(comm);
    const struct moved m = move(send, recv, all, send == MPI_IN_PLACE ? all : bytes, all > 0);
    int err;

    NEXT(reduce_scatter_fn, "MPI_Reduce_scatter_block");
    err = next(m.send, m.recv, count, type, op, comm);
    end(&m);
    return err;
}

/* Other ranks than the root have no receive buffer. */
int MPI_Reduce(const void *send, void *recv, int count, MPI_Datatype type, MPI_Op op, int root,
               MPI_Comm comm)
{
    const size_t bytes = ranks_in(comm) > 0 ? bytes_of(count, type) : 0;
    int rank = -1, err;
    char none;
    struct moved m;

    NEXT(reduce_fn, "MPI_Reduce");
    if (bytes > 0)
        PMPI_Comm_rank(comm, &rank);
    m = move(send, rank == root ? recv : &none, bytes, rank == root ? bytes : 0, bytes > 0);
    err = next(m.send, rank == root ? m.recv : recv, count, type, op, root, comm);
    end(&m);
    return err;
}

int MPI_Allgather(const void *send, int send_count, MPI_Datatype send_type, void *recv, int count,
                  MPI_Datatype type, MPI_Comm comm)
{
    const size_t bytes = bytes_of(count, type) * (size_t)ranks_in(comm),
                 sent = send == MPI_IN_PLACE ? 1 : bytes_of(send_count, send_type);
    const struct moved m = move(send, recv, sent, bytes, bytes > 0 && sent > 0);
    int err;

    NEXT(allgather_fn, "MPI_Allgather");
    err = next(m.send, send_count, send_type, m.recv, count, type, comm);
    end(&m);
    return err;
}

#define BYTES_OF_SLICES(name, count_type, displ_type)                                              \
    /* Up to the end of the last slice; 0: none, or one begins before the buffer. */               \
    static size_t name(const count_type *counts, const displ_type *displs, MPI_Datatype type,      \
                       MPI_Comm comm)                                                              \
    {                                                                                              \
        const int ranks = counts && displs ? ranks_in(comm) : 0;                                   \
        size_t bytes = 0;                                                                          \
                                                                                                   \
        for (int r = 0; r < ranks; r++) {                                                          \
            const size_t upto = displs[r] < 0 ? 0 : bytes_of(displs[r] + counts[r], type);         \
            if (displs[r] < 0 && counts[r] > 0)                                                    \
                return 0;                                                                          \
            bytes = counts[r] > 0 && upto > bytes ? upto : bytes;                                  \
        }                                                                                          \
        return bytes;                                                                              \
    }
BYTES_OF_SLICES(bytes_of_slices, int, int)

int MPI_Allgatherv(const void *send, int send_count, MPI_Datatype send_type, void *recv,
                   const int *counts, const int *displs, MPI_Datatype type, MPI_Comm comm)
{
    const size_t bytes = bytes_of_slices(counts, displs, type, comm),
                 sent = send == MPI_IN_PLACE ? 1 : bytes_of(send_count, send_type);
    const struct moved m = move(send, recv, sent, bytes, bytes > 0 && sent > 0);
    int err;

    NEXT(allgatherv_fn, "MPI_Allgatherv");
    err = next(m.send, send_count, send_type, m.recv, counts, displs, type, comm);
    end(&m);
    return err;
}

/* ---- nonblocking calls ---- */

static bool is_moved(const struct moved *m)
{
    return m->send != m->from || m->recv != m->to;
}

/* Errors of the communicator return from a call on devices, until it is posted. */
static struct moved *begin(const void *send, void *recv, size_t sent, size_t got, MPI_Comm comm,
                           MPI_Errhandler *handler)
{
    struct moved *m = malloc(sizeof *m);

    *m = move(send, recv, sent, got, sent > 0 && got > 0 && ranks_in(comm) > 0);
    if (!is_moved(m))
        return m;
    (void)pthread_mutex_lock(&the.handlers);
    PMPI_Comm_get_errhandler(comm, handler);
    PMPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    return m;
}

/* Whether it was refused for its buffers, in a message that says what is served. */
static bool is_refused(int err, const char *names)
{
    char text[MPI_MAX_ERROR_STRING];
    int length;

    if (err == MPI_SUCCESS)
        return false;
    PMPI_Error_string(err, text, &length);
    if (!strstr(text, "in device memory"))
        return false;
    if (!strstr(text, names)) {
        fprintf(stderr, "to_device: refused, but not for want of %s: %s\n", names, text);
        abort();
    }
    atomic_fetch_add(&the.refused, 1);
    return true;
}

static void hook(struct moved *m)
{
    (void)pthread_mutex_lock(&the.lock);
    m->next = the.under_way;
    the.under_way = m;
    (void)pthread_mutex_unlock(&the.lock);
}

static int class_of(int err)
{
    int class = MPI_SUCCESS;

    if (err != MPI_SUCCESS)
        PMPI_Error_class(err, &class);
    return class;
}

/* True: it is to be made again, with the buffers of the host. */
static bool refused(struct moved *m, int err, const char *names, MPI_Comm comm,
                    MPI_Errhandler *handler, const MPI_Request *request)
{
    const bool was_moved = is_moved(m);

    if (was_moved) {
        PMPI_Comm_set_errhandler(comm, *handler);
        PMPI_Errhandler_free(handler);
        (void)pthread_mutex_unlock(&the.handlers);
    }
    if (was_moved && err != MPI_SUCCESS) {
        m->err_class = is_refused(err, names) ? MPI_SUCCESS : class_of(err);
        m->send = m->from;
        m->recv = m->to;
        return true;
    }
    if (m->err_class != MPI_SUCCESS && m->err_class != class_of(err)) {
        fprintf(stderr, "to_device: an error of class %d on devices, %d on the host\n",
                m->err_class, class_of(err));
        abort();
    }
    if (!was_moved) {
        free(m);
        return false;
    }
    atomic_fetch_add(&the.posted, 1);
    m->request = *request;
    hook(m);
    return false;
}

#define SERVED "SPARSESHIM_PROGRESS=watchdog"

#define IALLREDUCE(name, count_type)                                                               \
    int name(const void *send, void *recv, count_type count, MPI_Datatype type, MPI_Op op,         \
             MPI_Comm comm, MPI_Request *request)                                                  \
    {                                                                                              \
        typedef int function(const void *, void *, count_type, MPI_Datatype, MPI_Op, MPI_Comm,     \
                             MPI_Request *);                                                       \
        const size_t bytes = bytes_of(count, type);                                                \
        MPI_Errhandler handler;                                                                    \
        struct moved *m = begin(send, recv, bytes, bytes, comm, &handler);                         \
        int err;                                                                                   \
                                                                                                   \
        NEXT(function, #name);                                                                     \
        do                                                                                         \
            err = next(m->send, m->recv, count, type, op, comm, request);                          \
        while (refused(m, err, SERVED, comm, &handler, request));                                  \
        return err;                                                                                \
    }
IALLREDUCE(MPI_Iallreduce, int)
#if MPI_VERSION >= 4
IALLREDUCE(MPI_Iallreduce_c, MPI_Count)
#endif

typedef int iallgather_fn(const void *, int, MPI_Datatype, void *, int, MPI_Datatype, MPI_Comm,
                          MPI_Request *);

int MPI_Iallgather(const void *send, int send_count, MPI_Datatype send_type, void *recv, int count,
                   MPI_Datatype type, MPI_Comm comm, MPI_Request *request)
{
    const size_t bytes = bytes_of(count, type) * (size_t)ranks_in(comm),
                 sent = send == MPI_IN_PLACE ? 1 : bytes_of(send_count, send_type);
    MPI_Errhandler handler;
    struct moved *m = begin(send, recv, sent, bytes, comm, &handler);
    int err;

    NEXT(iallgather_fn, "MPI_Iallgather");
    do
        err = next(m->send, send_count, send_type, m->recv, count, type, comm, request);
    while (refused(m, err, SERVED, comm, &handler, request));
    return err;
}

#define IALLGATHERV(name, bytes_of_its_slices, count_type, displ_type)                             \
    int name(const void *send, count_type send_count, MPI_Datatype send_type, void *recv,          \
             const count_type *counts, const displ_type *displs, MPI_Datatype type, MPI_Comm comm, \
             MPI_Request *request)                                                                 \
    {                                                                                              \
        typedef int function(const void *, count_type, MPI_Datatype, void *, const count_type *,   \
                             const displ_type *, MPI_Datatype, MPI_Comm, MPI_Request *);           \
        const size_t bytes = bytes_of_its_slices(counts, displs, type, comm),                      \
                     sent = send == MPI_IN_PLACE ? 1 : bytes_of(send_count, send_type);            \
        MPI_Errhandler handler;                                                                    \
        struct moved *m = begin(send, recv, sent, bytes, comm, &handler);                          \
        int err;                                                                                   \
                                                                                                   \
        NEXT(function, #name);                                                                     \
        do                                                                                         \
            err = next(m->send, send_count, send_type, m->recv, counts, displs, type, comm,        \
                       request);                                                                   \
        while (refused(m, err, SERVED, comm, &handler, request));                                  \
        return err;                                                                                \
    }
IALLGATHERV(MPI_Iallgatherv, bytes_of_slices, int, int)

#if MPI_VERSION >= 4
BYTES_OF_SLICES(bytes_of_large_slices, MPI_Count, MPI_Aint)
IALLGATHERV(MPI_Iallgatherv_c, bytes_of_large_slices, MPI_Count, MPI_Aint)
#endif

/* ---- functions of sparseshim.h ---- */

#define NAMES_BUFFER(name, count_of_it, parameters, ...)                                           \
    int name parameters                                                                            \
    {                                                                                              \
        typedef int function parameters;                                                           \
                                                                                                   \
        NEXT(function, #name);                                                                     \
        if (!next)                                                                                 \
            return SPARSESHIM_NOT_LOADED;                                                          \
        buffer = named(buffer, count_of_it);                                                       \
        return next(__VA_ARGS__);                                                                  \
    }
NAMES_BUFFER(sparseshim_1_register, count <= MOST_BYTES / sizeof(double) ? count : 0,
             (const void *buffer, uint64_t count, double density), buffer, count, density)
NAMES_BUFFER(sparseshim_1_identify, count <= MOST_BYTES / sizeof(double) ? count : 0,
             (const void *buffer, uint64_t count, uint32_t position), buffer, count, position)
NAMES_BUFFER(sparseshim_1_unregister, 0, (const void *buffer), buffer)
NAMES_BUFFER(sparseshim_1_set_density, 0, (const void *buffer, double density), buffer, density)
NAMES_BUFFER(sparseshim_1_tensors, 0, (const void *buffer), buffer)
NAMES_BUFFER(sparseshim_1_stats, 0,
             (const void *buffer, int which, struct sparseshim_stats *stats, size_t size), buffer,
             which, stats, size)
NAMES_BUFFER(sparseshim_1_scale_residual, 0, (const void *buffer, double factor), buffer, factor)
NAMES_BUFFER(sparseshim_1_drop_residual, 0, (const void *buffer), buffer)
NAMES_BUFFER(sparseshim_1_read_residual, 0,
             (const void *buffer, int which, void *values, uint64_t count), buffer, which, values,
             count)

__attribute__((destructor)) static void tell(void)
{
    if (atomic_load(&the.posted) + atomic_load(&the.refused) > 0)
        fprintf(stderr, "to_device: %u nonblocking calls on devices, %u refused\n",
                atomic_load(&the.posted), atomic_load(&the.refused));
}

/* ---- completion ----
 *
 * Under both names: what mpi_f08 completes by has no other. Calls whose requests may complete are
 * taken out of the list meanwhile, as another thread may get a handle that becomes free. */

/* Those of these requests that are calls on devices. */
static struct moved *hold(int requests, const MPI_Request *request)
{
    struct moved *held = NULL;

    (void)pthread_mutex_lock(&the.lock);
    for (int i = 0; i < requests; i++)
        for (struct moved **at = &the.under_way; *at; at = &(*at)->next)
            if ((*at)->request == request[i]) {
                struct moved *m = *at;
                *at = m->next;
                m->next = held;
                held = m;
                break;
            }
    (void)pthread_mutex_unlock(&the.lock);
    return held;
}

static bool is_among(MPI_Request one, int requests, const MPI_Request *request)
{
    for (int i = 0; i < requests; i++)
        if (request[i] == one)
            return true;
    return false;
}

/* What is no longer among the requests is complete. */
static int let_go(struct moved *held, int requests, const MPI_Request *request, int err)
{
    while (held) {
        struct moved *m = held;

        held = m->next;
        if (is_among(m->request, requests, request)) {
            hook(m);
        } else {
            end(m);
            free(m);
        }
    }
    return err;
}

#define COMPLETES(prefix)                                                                          \
    int prefix##_Wait(MPI_Request *request, MPI_Status *status)                                    \
    {                                                                                              \
        typedef int function(MPI_Request *, MPI_Status *);                                         \
        struct moved *held = hold(1, request);                                                     \
                                                                                                   \
        NEXT(function, #prefix "_Wait");                                                           \
        return let_go(held, 1, request, next(request, status));                                    \
    }                                                                                              \
    int prefix##_Test(MPI_Request *request, int *flag, MPI_Status *status)                         \
    {                                                                                              \
        typedef int function(MPI_Request *, int *, MPI_Status *);                                  \
        struct moved *held = hold(1, request);                                                     \
                                                                                                   \
        NEXT(function, #prefix "_Test");                                                           \
        return let_go(held, 1, request, next(request, flag, status));                              \
    }                                                                                              \
    int prefix##_Waitall(int n, MPI_Request request[], MPI_Status *status)                         \
    {                                                                                              \
        typedef int function(int, MPI_Request[], MPI_Status *);                                    \
        struct moved *held = hold(n, request);                                                     \
                                                                                                   \
        NEXT(function, #prefix "_Waitall");                                                        \
        return let_go(held, n, request, next(n, request, status));                                 \
    }                                                                                              \
    int prefix##_Testall(int n, MPI_Request request[], int *flag, MPI_Status *status)              \
    {                                                                                              \
        typedef int function(int, MPI_Request[], int *, MPI_Status *);                             \
        struct moved *held = hold(n, request);                                                     \
                                                                                                   \
        NEXT(function, #prefix "_Testall");                                                        \
        return let_go(held, n, request, next(n, request, flag, status));                           \
    }                                                                                              \
    int prefix##_Waitany(int n, MPI_Request request[], int *which, MPI_Status *status)             \
    {                                                                                              \
        typedef int function(int, MPI_Request[], int *, MPI_Status *);                             \
        struct moved *held = hold(n, request);                                                     \
                                                                                                   \
        NEXT(function, #prefix "_Waitany");                                                        \
        return let_go(held, n, request, next(n, request, which, status));                          \
    }                                                                                              \
    int prefix##_Testany(int n, MPI_Request request[], int *which, int *flag, MPI_Status *status)  \
    {                                                                                              \
        typedef int function(int, MPI_Request[], int *, int *, MPI_Status *);                      \
        struct moved *held = hold(n, request);                                                     \
                                                                                                   \
        NEXT(function, #prefix "_Testany");                                                        \
        return let_go(held, n, request, next(n, request, which, flag, status));                    \
    }                                                                                              \
    int prefix##_Waitsome(int n, MPI_Request request[], int *found, int which[],                   \
                          MPI_Status *status)                                                      \
    {                                                                                              \
        typedef int function(int, MPI_Request[], int *, int[], MPI_Status *);                      \
        struct moved *held = hold(n, request);                                                     \
                                                                                                   \
        NEXT(function, #prefix "_Waitsome");                                                       \
        return let_go(held, n, request, next(n, request, found, which, status));                   \
    }                                                                                              \
    int prefix##_Testsome(int n, MPI_Request request[], int *found, int which[],                   \
                          MPI_Status *status)                                                      \
    {                                                                                              \
        typedef int function(int, MPI_Request[], int *, int[], MPI_Status *);                      \
        struct moved *held = hold(n, request);                                                     \
                                                                                                   \
        NEXT(function, #prefix "_Testsome");                                                       \
        return let_go(held, n, request, next(n, request, found, which, status));                   \
    }                                                                                              \
    /* What is known to be complete is back, once; the request stays. */                           \
    int prefix##_Request_get_status(MPI_Request request, int *flag, MPI_Status *status)            \
    {                                                                                              \
        typedef int function(MPI_Request, int *, MPI_Status *);                                    \
        struct moved *held = hold(1, &request);                                                    \
        int err;                                                                                   \
                                                                                                   \
        NEXT(function, #prefix "_Request_get_status");                                             \
        err = next(request, flag, status);                                                         \
        if (held && err == MPI_SUCCESS && *flag) {                                                 \
            end(held);                                                                             \
            held->sent = held->got = 0;                                                            \
        }                                                                                          \
        return let_go(held, 1, &request, err);                                                     \
    }
COMPLETES(MPI)
COMPLETES(PMPI)
