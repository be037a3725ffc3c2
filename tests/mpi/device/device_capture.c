/* Calls while the program captures a graph, of each kind of stream and in each mode: that is left
 * alone, and what they need of a device they get. */
#include "tests/mpi/device/device_memory.h"
#include "tests/mpi/support/input.h"
#include "tests/mpi/support/tap.h"

enum { COUNT = 70000, MODES = 3 };

static CUresult (*make_stream)(CUstream *, unsigned);
static CUresult (*begin)(CUstream, int);
static CUresult (*end)(CUstream, void **);

static void find(void)
{
    *(void **)(void *)&make_stream = dlsym(cuda.library, "cuStreamCreate");
    *(void **)(void *)&begin = dlsym(cuda.library, "cuStreamBeginCapture_v2");
    *(void **)(void *)&end = dlsym(cuda.library, "cuStreamEndCapture");
}

/* While a stream is captured that waits for the default one, nothing can be put behind the latter:
 * the input is there before. */
static bool captured_sum(CUstream stream, int mode, MPI_Op op, char *send, char *recv,
                         uint64_t seed)
{
    float *values = malloc(4 * COUNT), *want = malloc(4 * COUNT);
    void *graph = NULL;
    bool right;

    input_fill_whole(values, COUNT, seed, tap.rank);
    cuda_write(DEVICE, send, values, 4 * COUNT);
    cuda_read(DEVICE, values, send, 4 * COUNT);
    if (begin(stream, mode) != CUDA_SUCCESS)
        abort();
    right = MPI_Allreduce(send, recv, COUNT, MPI_FLOAT, op, MPI_COMM_WORLD) == MPI_SUCCESS;
    right = end(stream, &graph) == CUDA_SUCCESS && right;
    PMPI_Allreduce(values, want, COUNT, MPI_FLOAT, op, MPI_COMM_WORLD);
    cuda_read(DEVICE, values, recv, 4 * COUNT);
    right = right && memcmp(values, want, 4 * COUNT) == 0;
    free(values);
    free(want);
    return right;
}

int main(int argc, char **argv)
{
    char *send, *recv;
    uint64_t seed = 0;
    int status;

    MPI_Init(&argc, &argv);
    tap_begin(MPI_COMM_WORLD);
    cuda_open();
    find();
    for (unsigned flags = 0; flags <= CU_STREAM_NON_BLOCKING; flags++)
        for (int mode = 0; mode < MODES; mode++) {
            CUstream stream;
            bool right = true;
            send = cuda_memory(DEVICE, 4 * COUNT); /* another one: its residual is, too */
            recv = cuda_memory(DEVICE, 4 * COUNT);
            if (make_stream(&stream, flags) != CUDA_SUCCESS)
                abort();
            for (int call = 0; call < 4; call++)
                right =
                    captured_sum(stream, mode, call % 2 ? MPI_MAX : MPI_SUM, send, recv, ++seed) &&
                    right;
            tap_ok(right, "a %s stream in mode %d", flags ? "non-blocking" : "blocking", mode);
        }
    status = tap_end();
    MPI_Finalize();
    return status;
}
