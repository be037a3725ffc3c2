/* replicas NAME=VALUE...: hybrid parallelism. The ranks form two communicators of equal size, which
 * are given the same inputs call by call, and one of which is late now and then.
 *
 *     n=COUNT calls=CALLS: results are compared between the communicators, bit for bit
 */
#include <unistd.h>

#include "tests/mpi/support/gradient.h"
#include "tests/mpi/support/tap.h"

/* One call site. */
__attribute__((noinline, noclone)) static void reduce(const float *in, float *out, int n,
                                                      MPI_Comm comm)
{
    MPI_Allreduce(in, out, n, MPI_FLOAT, MPI_SUM, comm);
}

static void compare(struct hashes *hashes, int calls)
{
    int differ = 0;
    uint64_t *other = input_alloc(sizeof *other * (size_t)calls);

    PMPI_Sendrecv(hashes->of, calls, MPI_UINT64_T, tap.rank ^ 1, 0, other, calls, MPI_UINT64_T,
                  tap.rank ^ 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    for (int i = 0; i < calls; i++)
        differ += other[i] != hashes->of[i];
    tap_note("%d of %d results differ between the communicators", differ, calls);
    tap_ok(differ == 0, "two communicators with equal inputs: equal bits in each of %d calls",
           calls);
    free(other);
}

int main(int argc, char **argv)
{
    struct hashes hashes = {0};
    uint64_t bits = 0;
    MPI_Comm comm;
    int rank, size;

    MPI_Init(&argc, &argv);
    tap_begin(MPI_COMM_WORLD);
    int calls = argument_number(argc, argv, "calls", 30);
    MPI_Comm_split(MPI_COMM_WORLD, tap.rank % 2, tap.rank, &comm);
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    struct gradient g = {.pattern = HEAVY,
                         .form = FRACTIONS,
                         .norms = LOGNORMAL,
                         .n = argument_number(argc, argv, "n", 100000),
                         .ranks = size,
                         .seed = 5};
    float *in = input_alloc(gradient_bytes(&g)), *out = input_alloc(gradient_bytes(&g));
    for (int call = 0; call < calls; call++) {
        gradient_fill(&g, rank, call, in);
        for (int i = 0; i < g.n; i++) /* from sparse to dense and back */
            if (input_word(7, rank, (uint64_t)(call * g.n + i)) % 64 >= 1u << (call % 7))
                in[i] = 0;
        if (tap.rank % 2 == 1)
            usleep((useconds_t)(input_word(8, tap.rank, (uint64_t)call) % 5000));
        reduce(in, out, g.n, comm);
        uint64_t hash = gradient_hash(1, out, gradient_bytes(&g));
        hashes_add(&hashes, hash);
        bits = bits * 0x100000001b3u ^ hash;
    }
    compare(&hashes, calls);
    tap_note("bits %016llx", (unsigned long long)bits);
    free(in);
    free(out);
    free(hashes.of);
    MPI_Comm_free(&comm);
    int status = tap_end();
    MPI_Finalize();
    return status;
}
