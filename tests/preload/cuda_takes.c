/* Preloaded behind the library: a CUDA-aware MPI library, as far as the programs of this folder see
 * it. It says that it takes CUDA's memory, and does so in sums and gathers of predefined types, by
 * copies. A nonblocking call ends when it is made. Prints at the end how many calls had a buffer in
 * device memory. */
#include <mpi.h>

#include "tests/mpi/device/device_memory.h"

static struct {
    void *library;
    CUresult (*ask)(unsigned, CUpointer_attribute *, void **, CUdeviceptr);
    CUresult (*read)(void *, CUdeviceptr, size_t);
    CUresult (*write)(CUdeviceptr, const void *, size_t, CUstream);
    CUresult (*get)(CUcontext *);
    CUresult (*set)(CUcontext);
    atomic_uint calls;
} takes;

int MPIX_GPU_query_support(int kind, int *is_supported);

int MPIX_GPU_query_support(int kind, int *is_supported)
{
    *is_supported = kind == 0;
    return 0;
}

/* ---- copies ---- */

static void *function(const char *name)
{
    return dlsym(takes.library, name);
}

static bool is_open(void)
{
    if (takes.library || !(takes.library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD)))
        return takes.library != NULL;
    *(void **)(void *)&takes.ask = function("cuPointerGetAttributes");
    *(void **)(void *)&takes.read = function("cuMemcpyDtoH_v2");
    *(void **)(void *)&takes.write = function("cuMemcpyHtoDAsync_v2");
    *(void **)(void *)&takes.get = function("cuCtxGetCurrent");
    *(void **)(void *)&takes.set = function("cuCtxSetCurrent");
    return true;
}

static bool on_device(const void *p)
{
    CUpointer_attribute what = CU_POINTER_ATTRIBUTE_MEMORY_TYPE;
    unsigned type = 0;
    void *to = &type;

    return p && p != MPI_IN_PLACE && is_open() &&
           takes.ask(1, &what, &to, (CUdeviceptr)(uintptr_t)p) == CUDA_SUCCESS &&
           type == CU_MEMORYTYPE_DEVICE;
}

struct copies {
    const void *send;
    void *recv, *to;
    size_t got;
    void *made[2];
};

static size_t bytes_of(int count, MPI_Datatype type)
{
    return (size_t)count * ((size_t)type >> 8 & 0xff);
}

/* The library's threads have no context of their own. */
static CUcontext enter(const void *device)
{
    CUpointer_attribute what = CU_POINTER_ATTRIBUTE_CONTEXT;
    CUcontext before = NULL, context = NULL;
    void *to = &context;

    if (takes.get(&before) != CUDA_SUCCESS ||
        takes.ask(1, &what, &to, (CUdeviceptr)(uintptr_t)device) != CUDA_SUCCESS ||
        takes.set(context) != CUDA_SUCCESS)
        abort();
    return before;
}

static void *copy(const void *device, size_t bytes)
{
    CUcontext before = enter(device);
    void *host = malloc(bytes);

    if (!host || takes.read(host, (CUdeviceptr)(uintptr_t)device, bytes) != CUDA_SUCCESS)
        abort();
    takes.set(before);
    return host;
}

static void copy_back(void *device, const void *host, size_t bytes)
{
    CUcontext before = enter(device);

    if (takes.write((CUdeviceptr)(uintptr_t)device, host, bytes, NULL) != CUDA_SUCCESS)
        abort();
    takes.set(before);
}

static struct copies begin(const void *send, size_t sent, void *recv, size_t got)
{
    struct copies c = {send, recv, NULL, got, {NULL, NULL}};

    if (on_device(send))
        c.send = c.made[0] = copy(send, sent);
    if (on_device(recv)) {
        c.to = recv;
        c.recv = c.made[1] = copy(recv, got);
    }
    if (c.made[0] || c.made[1])
        atomic_fetch_add(&takes.calls, 1);
    return c;
}

static int end(struct copies *c, int err)
{
    if (c->to)
        copy_back(c->to, c->recv, c->got);
    free(c->made[0]);
    free(c->made[1]);
    return err;
}

static int at_once(int err, MPI_Request *request)
{
    return err == MPI_SUCCESS ? PMPI_Ibarrier(MPI_COMM_SELF, request) : err;
}

static void *behind(const char *name)
{
    return dlsym(RTLD_NEXT, name);
}

static int size_of(MPI_Comm comm)
{
    int size = 0;

    PMPI_Comm_size(comm, &size);
    return size;
}

static bool is_root(int root, MPI_Comm comm)
{
    int rank = -1;

    PMPI_Comm_rank(comm, &rank);
    return rank == root;
}

/* ---- calls ---- */

typedef int sum_fn(const void *, void *, int, MPI_Datatype, MPI_Op, MPI_Comm);
typedef int reduce_fn(const void *, void *, int, MPI_Datatype, MPI_Op, int, MPI_Comm);
typedef int gather_fn(const void *, int, MPI_Datatype, void *, int, MPI_Datatype, MPI_Comm);

/* The library below is asked for its blocking functions alone. */
#define BELOW(type, name)                                                                          \
    type *below;                                                                                   \
    *(void **)(void *)&below = behind("P" name)

static int sum(const void *send, void *recv, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm)
{
    const size_t bytes = bytes_of(count, type);
    struct copies c = begin(send, bytes, recv, bytes);

    BELOW(sum_fn, "MPI_Allreduce");
    return end(&c, below(c.send, c.recv, count, type, op, comm));
}

static int scatter(const void *send, void *recv, int count, MPI_Datatype type, MPI_Op op,
                   MPI_Comm comm)
{
    const size_t bytes = bytes_of(count, type), all = bytes * (size_t)size_of(comm);
    struct copies c = begin(send, all, recv, send == MPI_IN_PLACE ? all : bytes);

    BELOW(sum_fn, "MPI_Reduce_scatter_block");
    return end(&c, below(c.send, c.recv, count, type, op, comm));
}

static int reduce(const void *send, void *recv, int count, MPI_Datatype type, MPI_Op op, int root,
                  MPI_Comm comm)
{
    const size_t bytes = bytes_of(count, type);
    struct copies c = begin(send, bytes, is_root(root, comm) ? recv : NULL, bytes);

    BELOW(reduce_fn, "MPI_Reduce");
    return end(&c, below(c.send, c.recv, count, type, op, root, comm));
}

static int gather(const void *send, int sent, MPI_Datatype of_send, void *recv, int count,
                  MPI_Datatype type, MPI_Comm comm)
{
    struct copies c =
        begin(send, bytes_of(sent, of_send), recv, bytes_of(count, type) * (size_t)size_of(comm));

    BELOW(gather_fn, "MPI_Allgather");
    return end(&c, below(c.send, sent, of_send, c.recv, count, type, comm));
}

/* Functions of both names: the library passes calls on to MPI_X and makes its own with PMPI_X. */
#define CALLS(prefix)                                                                              \
    int prefix##_Allreduce(const void *send, void *recv, int count, MPI_Datatype type, MPI_Op op,  \
                           MPI_Comm comm)                                                          \
    {                                                                                              \
        return sum(send, recv, count, type, op, comm);                                             \
    }                                                                                              \
    int prefix##_Reduce_scatter_block(const void *send, void *recv, int count, MPI_Datatype type,  \
                                      MPI_Op op, MPI_Comm comm)                                    \
    {                                                                                              \
        return scatter(send, recv, count, type, op, comm);                                         \
    }                                                                                              \
    int prefix##_Reduce(const void *send, void *recv, int count, MPI_Datatype type, MPI_Op op,     \
                        int root, MPI_Comm comm)                                                   \
    {                                                                                              \
        return reduce(send, recv, count, type, op, root, comm);                                    \
    }                                                                                              \
    int prefix##_Allgather(const void *send, int sent, MPI_Datatype of_send, void *recv,           \
                           int count, MPI_Datatype type, MPI_Comm comm)                            \
    {                                                                                              \
        return gather(send, sent, of_send, recv, count, type, comm);                               \
    }                                                                                              \
    int prefix##_Iallreduce(const void *send, void *recv, int count, MPI_Datatype type, MPI_Op op, \
                            MPI_Comm comm, MPI_Request *request)                                   \
    {                                                                                              \
        return at_once(sum(send, recv, count, type, op, comm), request);                           \
    }                                                                                              \
    int prefix##_Ireduce_scatter_block(const void *send, void *recv, int count, MPI_Datatype type, \
                                       MPI_Op op, MPI_Comm comm, MPI_Request *request)             \
    {                                                                                              \
        return at_once(scatter(send, recv, count, type, op, comm), request);                       \
    }                                                                                              \
    int prefix##_Ireduce(const void *send, void *recv, int count, MPI_Datatype type, MPI_Op op,    \
                         int root, MPI_Comm comm, MPI_Request *request)                            \
    {                                                                                              \
        return at_once(reduce(send, recv, count, type, op, root, comm), request);                  \
    }                                                                                              \
    int prefix##_Iallgather(const void *send, int sent, MPI_Datatype of_send, void *recv,          \
                            int count, MPI_Datatype type, MPI_Comm comm, MPI_Request *request)     \
    {                                                                                              \
        return at_once(gather(send, sent, of_send, recv, count, type, comm), request);             \
    }
CALLS(MPI)
CALLS(PMPI)

__attribute__((destructor)) static void tell(void)
{
    if (atomic_load(&takes.calls) > 0)
        fprintf(stderr, "cuda_takes: %u calls with buffers in device memory\n",
                atomic_load(&takes.calls));
}
