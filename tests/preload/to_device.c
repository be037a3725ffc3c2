/* Preloaded before the library: the buffers of blocking collectives are put into device memory on
 * the way in, and what came out of it back on the way out, so that any program is one on devices.
 *
 * ON_DEVICE  the kinds of memory of send and receive buffer, for one call after the other in turn:
 *            D device, S second device, P pool, M managed, H host. "DD", or "DD,HH,PS"; a rank
 *            begins at its own number.
 *
 * Handles are MPICH's. What is no call on predefined types goes on as it is. */
#include <mpi.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "tests/mpi/device/device_memory.h"

enum { SLOTS = 4096, NAMED = 0x4c000000, KIND_BITS = (int)0xfc000000u };

/* Memory of a device that stands for a buffer of the host, in all calls on it. */
struct slot {
    const void *host;
    enum kind kind;
    char *device;
    size_t bytes;
};

static struct {
    pthread_mutex_t lock;
    bool open;
    struct slot slots[SLOTS];
    atomic_uint calls;
} the = {.lock = PTHREAD_MUTEX_INITIALIZER};

static struct slot *slot_of(const void *host, enum kind kind, size_t bytes)
{
    size_t i = ((uintptr_t)host >> 4) * 31 + kind;

    for (size_t n = 0; n < SLOTS; n++, i++) {
        struct slot *s = &the.slots[i % SLOTS];
        if (!s->host || (s->host == host && s->kind == kind && s->bytes >= bytes))
            return s;
    }
    fprintf(stderr, "to_device: too many buffers\n");
    abort();
}

/* What stands for a buffer, with what it holds. */
static void *put(const void *host, enum kind kind, size_t bytes)
{
    struct slot *s;

    if (kind == HOST || bytes == 0)
        return (void *)(uintptr_t)host;
    (void)pthread_mutex_lock(&the.lock);
    if (!the.open)
        cuda_open();
    the.open = true;
    s = slot_of(host, kind, bytes);
    if (!s->host)
        *s = (struct slot){host, kind, cuda_memory(kind, bytes), bytes};
    (void)pthread_mutex_unlock(&the.lock);
    cuda_write(kind, s->device, host, bytes);
    return s->device;
}

static void take(void *host, enum kind kind, const void *device, size_t bytes)
{
    if (device != host && bytes > 0)
        cuda_read(kind, host, device, bytes);
}

/* ---- one call ---- */

struct moved {
    enum kind in, out;
    size_t sent, got;
    const void *send;
    void *recv, *to;
};

static void draw_kinds(struct moved *m)
{
    static const char letters[] = "HDSP_M"; /* as enum kind has them */
    const char *list = getenv("ON_DEVICE");
    const size_t pairs = list ? (strlen(list) + 1) / 3 : 0;
    int rank = 0;

    m->in = m->out = HOST;
    if (pairs == 0)
        return;
    PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
    list += 3 * ((atomic_fetch_add(&the.calls, 1) + (unsigned)rank) % pairs);
    m->in = (enum kind)(strchr(letters, list[0]) - letters);
    m->out = (enum kind)(strchr(letters, list[1]) - letters);
}

/* Bytes of `count` elements; 0: of another type, or none. */
static size_t bytes_of(int count, MPI_Datatype type)
{
    return count > 0 && ((int)type & KIND_BITS) == NAMED
               ? (size_t)count * ((size_t)type >> 8 & 0xff)
               : 0;
}

static int ranks_in(MPI_Comm comm)
{
    int inter = 1, size = 0;

    if (((unsigned)comm & 0x3c000000u) != 0x04000000u || PMPI_Comm_test_inter(comm, &inter) ||
        inter)
        return 0;
    PMPI_Comm_size(comm, &size);
    return size;
}

static bool move(struct moved *m, const void *send, void *recv, size_t sent, size_t got)
{
    *m = (struct moved){.send = send, .recv = recv, .to = recv, .sent = sent, .got = got};
    if (!recv || recv == MPI_IN_PLACE || !send || send == recv)
        return false;
    draw_kinds(m);
    m->recv = put(recv, m->out, got);
    if (send != MPI_IN_PLACE)
        m->send = put(send, m->in, sent);
    return true;
}

static int end(const struct moved *m, int err)
{
    take(m->to, m->out, m->recv, m->got);
    return err;
}

/* ---- the calls ---- */

#define NEXT(function, name)                                                                       \
    static function *next;                                                                         \
    if (!next)                                                                                     \
    *(void **)(void *)&next = dlsym(RTLD_NEXT, name)

typedef int allreduce_fn(const void *, void *, int, MPI_Datatype, MPI_Op, MPI_Comm);
typedef int reduce_fn(const void *, void *, int, MPI_Datatype, MPI_Op, int, MPI_Comm);
typedef int allgather_fn(const void *, int, MPI_Datatype, void *, int, MPI_Datatype, MPI_Comm);
typedef int allgatherv_fn(const void *, int, MPI_Datatype, void *, const int *, const int *,
                          MPI_Datatype, MPI_Comm);

int MPI_Allreduce(const void *send, void *recv, int count, MPI_Datatype type, MPI_Op op,
                  MPI_Comm comm)
{
    const size_t bytes = bytes_of(count, type);
    struct moved m;

    NEXT(allreduce_fn, "MPI_Allreduce");
    if (bytes == 0 || !move(&m, send, recv, bytes, bytes))
        return next(send, recv, count, type, op, comm);
    return end(&m, next(m.send, m.recv, count, type, op, comm));
}

int MPI_Reduce_scatter_block(const void *send, void *recv, int count, MPI_Datatype type, MPI_Op op,
                             MPI_Comm comm)
{
    const size_t bytes = bytes_of(count, type), all = bytes * (size_t)ranks_in(comm);
    struct moved m;

    NEXT(allreduce_fn, "MPI_Reduce_scatter_block");
    if (all == 0 || !move(&m, send, recv, all, send == MPI_IN_PLACE ? all : bytes))
        return next(send, recv, count, type, op, comm);
    return end(&m, next(m.send, m.recv, count, type, op, comm));
}

int MPI_Reduce(const void *send, void *recv, int count, MPI_Datatype type, MPI_Op op, int root,
               MPI_Comm comm)
{
    const size_t bytes = ranks_in(comm) > 0 ? bytes_of(count, type) : 0;
    int rank = -1;
    struct moved m;

    NEXT(reduce_fn, "MPI_Reduce");
    if (bytes > 0)
        PMPI_Comm_rank(comm, &rank);
    if (bytes == 0 || rank != root || !move(&m, send, recv, bytes, bytes))
        return next(send, recv, count, type, op, root, comm);
    return end(&m, next(m.send, m.recv, count, type, op, root, comm));
}

int MPI_Allgather(const void *send, int send_count, MPI_Datatype send_type, void *recv, int count,
                  MPI_Datatype type, MPI_Comm comm)
{
    const size_t bytes = bytes_of(count, type) * (size_t)ranks_in(comm),
                 sent = send == MPI_IN_PLACE ? 1 : bytes_of(send_count, send_type);
    struct moved m;

    NEXT(allgather_fn, "MPI_Allgather");
    if (bytes == 0 || sent == 0 || !move(&m, send, recv, sent, bytes))
        return next(send, send_count, send_type, recv, count, type, comm);
    return end(&m, next(m.send, send_count, send_type, m.recv, count, type, comm));
}

int MPI_Allgatherv(const void *send, int send_count, MPI_Datatype send_type, void *recv,
                   const int *counts, const int *displs, MPI_Datatype type, MPI_Comm comm)
{
    const int ranks = counts && displs ? ranks_in(comm) : 0;
    const size_t sent = send == MPI_IN_PLACE ? 1 : bytes_of(send_count, send_type);
    size_t bytes = 0;
    struct moved m;

    NEXT(allgatherv_fn, "MPI_Allgatherv");
    for (int r = 0; r < ranks; r++) {
        const size_t upto = displs[r] < 0 ? 0 : bytes_of(displs[r] + counts[r], type);
        if (displs[r] < 0 && counts[r] > 0)
            return next(send, send_count, send_type, recv, counts, displs, type, comm);
        bytes = counts[r] > 0 && upto > bytes ? upto : bytes;
    }
    if (bytes == 0 || sent == 0 || !move(&m, send, recv, sent, bytes))
        return next(send, send_count, send_type, recv, counts, displs, type, comm);
    return end(&m, next(m.send, send_count, send_type, m.recv, counts, displs, type, comm));
}
