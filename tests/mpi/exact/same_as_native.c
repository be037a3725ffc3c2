/* same_as_native [COUNT [PCONTROL_RANK]]: every call must be bit for bit what the MPI library
 * gives, because some rank cannot or will not. With PCONTROL_RANK that rank alone calls
 * MPI_Pcontrol(0) before the third call and MPI_Pcontrol(1) before the sixth; calls before and
 * after are only near. */
#include "tests/mpi/support/input.h"
#include "tests/mpi/support/tap.h"

#include <math.h>

enum { CALLS = 8, OFF_FROM = 2, ON_FROM = 5, UNTIL_STEADY = 16 };

/* Largest error over the bound (P-1) eps sum|x|. */
static bool is_near(const float *got, int count, uint64_t seed, float *scratch)
{
    double *sum = calloc((size_t)count, sizeof *sum), *size = calloc((size_t)count, sizeof *size);
    bool near = sum && size;
    for (int r = 0; r < tap.size && near; r++) {
        input_fill_fractions(scratch, count, seed, r);
        for (int i = 0; i < count; i++) {
            sum[i] += (double)scratch[i];
            size[i] += fabs((double)scratch[i]);
        }
    }
    for (int i = 0; i < count && near; i++)
        near = fabs((double)got[i] - sum[i]) <= (tap.size - 1) * 0x1p-23 * size[i];
    free(sum);
    free(size);
    return near;
}

int main(int argc, char **argv)
{
    int count = argc > 1 ? atoi(argv[1]) : 4096;
    int pcontrol_rank = argc > 2 ? atoi(argv[2]) : -1;
    size_t bytes = (size_t)count * sizeof(float);
    float *in = input_alloc(bytes), *out = input_alloc(bytes), *native = input_alloc(bytes);
    int status;

    MPI_Init(&argc, &argv);
    tap_begin(MPI_COMM_WORLD);
    /* After some collectives on a communicator MPICH goes over to others for ranks that share
     * memory (MPIR_CVAR_POSIX_NUM_COLLS_THRESHOLD), whose order of additions is another. */
    for (int call = 0; call < UNTIL_STEADY; call++)
        PMPI_Allreduce(&call, &status, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    for (int call = 0; call < CALLS; call++) {
        bool voted_off = pcontrol_rank < 0 || (call >= OFF_FROM && call < ON_FROM);
        int code;
        if (tap.rank == pcontrol_rank && call == OFF_FROM)
            MPI_Pcontrol(0);
        if (tap.rank == pcontrol_rank && call == ON_FROM)
            MPI_Pcontrol(1);
        input_fill_fractions(in, count, 500u + (unsigned)call, tap.rank);
        memset(out, 0x55, bytes);
        code = MPI_Allreduce(in, out, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
        PMPI_Allreduce(in, native, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
        if (voted_off)
            tap_ok(code == MPI_SUCCESS && memcmp(out, native, bytes) == 0,
                   "call %d is bit for bit native", call);
        else
            tap_ok(code == MPI_SUCCESS && is_near(out, count, 500u + (unsigned)call, native),
                   "call %d is within the bound", call);
    }
    status = tap_end();
    MPI_Finalize();
    free(in);
    free(out);
    free(native);
    return status;
}
