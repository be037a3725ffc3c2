/* special native|sparse: inputs that are not finite, buffers that must not be written, and what is
 * bit for bit native. With "native" every call is expected to be the MPI library's (DISABLE=1). */
#include "tests/mpi/support/input.h"
#include "tests/mpi/support/tap.h"

#include <math.h>
#include <sys/mman.h>
#include <unistd.h>

enum { COUNT = 4096 };

static float in[COUNT], out[COUNT], native[COUNT];

static bool same_as_native(const float *input, MPI_Comm comm)
{
    memset(out, 0x55, sizeof out);
    memset(native, 0xaa, sizeof native);
    MPI_Allreduce(input, out, COUNT, MPI_FLOAT, MPI_SUM, comm);
    PMPI_Allreduce(input, native, COUNT, MPI_FLOAT, MPI_SUM, comm);
    return memcmp(out, native, sizeof out) == 0;
}

/* Where the processor takes numbers at any address, MPI libraries do. */
static void addresses_between_elements(void)
{
    static char from[4 * COUNT + 8], to[4 * COUNT + 8];
    bool good = true;

    for (int call = 0; call < 8; call++)
        for (int shift = 1; shift < 4; shift++) {
            input_fill_whole(in, COUNT, (uint64_t)call, tap.rank);
            memcpy(from + shift, in, sizeof in);
            memset(to, 0x55, sizeof to);
            MPI_Allreduce(from + shift, to + 4 - shift, COUNT, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
            memcpy(out, to + 4 - shift, sizeof out);
            good = good && input_is_whole_sum(out, COUNT, (uint64_t)call, tap.size);
            good = good && to[3 - shift] == 0x55 && to[4 - shift + (int)sizeof out] == 0x55;
        }
    tap_ok(good, "buffers at addresses between those of elements");
}

static void not_finite_is_passed_on(void)
{
    static const struct {
        float value;
        const char *name;
    } odd[] = {{NAN, "NaN"}, {INFINITY, "Inf"}, {-INFINITY, "-Inf"}};
    float payload;
    uint32_t bits = 0x7fc12345u;

    for (size_t o = 0; o < sizeof odd / sizeof *odd; o++)
        for (int owner = 0; owner<tap.size; owner += tap.size> 1 ? tap.size - 1 : 1) {
            input_fill_fractions(in, COUNT, 5, tap.rank);
            if (tap.rank == owner)
                in[COUNT - 3] = odd[o].value;
            tap_ok(same_as_native(in, MPI_COMM_WORLD), "%s on rank %d: bit for bit native",
                   odd[o].name, owner);
        }
    memcpy(&payload, &bits, sizeof payload);
    input_fill_fractions(in, COUNT, 6, tap.rank);
    if (tap.rank == tap.size - 1)
        memcpy(&in[0], &payload, sizeof payload);
    tap_ok(same_as_native(in, MPI_COMM_WORLD), "a NaN with a payload: bit for bit native");
    for (int i = 0; i < COUNT; i++)
        in[i] = i % 2 ? INFINITY : -INFINITY;
    if (tap.rank == 0)
        in[1] = -INFINITY;
    tap_ok(same_as_native(in, MPI_COMM_WORLD), "Inf everywhere: bit for bit native");
}

static void overflow_arrives_as_infinity(void)
{
    bool good = true;
    if (tap.size < 2)
        return;
    memset(in, 0, sizeof in);
    in[17] = 3e38f;
    in[18] = -3e38f;
    in[19] = 1;
    MPI_Allreduce(in, out, COUNT, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    good = isinf(out[17]) && out[17] > 0 && isinf(out[18]) && out[18] < 0 &&
           out[19] == (float)tap.size && out[20] == 0;
    tap_ok(good, "a sum that overflows arrives as Inf, its neighbours unharmed");
}

/* The send buffer lies in pages that cannot be written. */
static void send_buffers_are_never_written(void)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t bytes = (COUNT * sizeof(float) + page - 1) / page * page;
    float *frozen = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    bool good = frozen != MAP_FAILED;

    if (good) {
        input_fill_whole(frozen, COUNT, 9, tap.rank);
        frozen[5] = -0.0f;
        good = mprotect(frozen, bytes, PROT_READ) == 0;
    }
    for (int call = 0; call < 4 && good; call++) {
        bool right = true;
        MPI_Allreduce(frozen, out, COUNT, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
        for (int i = 0; i < COUNT; i++) {
            int sum = 0;
            for (int r = 0; r < tap.size && i != 5; r++)
                sum += input_whole(9, r, (uint64_t)i);
            right = right && out[i] == (float)sum;
        }
        good = right;
    }
    tap_ok(good, "sums from a send buffer in read-only pages");
    if (frozen != MAP_FAILED)
        munmap(frozen, bytes);
}

static void fractions_are_native(void)
{
    bool good = true;
    for (int call = 0; call < 8; call++) {
        input_fill_fractions(in, COUNT, 100u + (unsigned)call, tap.rank);
        if (call % 2)
            good = same_as_native(in, MPI_COMM_WORLD) && good;
        else {
            memcpy(out, in, sizeof out);
            memcpy(native, in, sizeof native);
            MPI_Allreduce(MPI_IN_PLACE, out, COUNT, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
            PMPI_Allreduce(MPI_IN_PLACE, native, COUNT, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
            good = memcmp(out, native, sizeof out) == 0 && good;
        }
    }
    tap_ok(good, "fractions are bit for bit native, in place too");
    for (int i = 0; i < COUNT; i++)
        in[i] = -0.0f;
    tap_ok(same_as_native(in, MPI_COMM_WORLD), "-0.0 stays what the MPI library makes of it");
}

int main(int argc, char **argv)
{
    bool all_native = argc > 1 && strcmp(argv[1], "native") == 0;
    int status;

    MPI_Init(&argc, &argv);
    tap_begin(MPI_COMM_WORLD);
    for (int call = 0; call < 2; call++) {
        input_fill_whole(in, COUNT, 1, tap.rank);
        MPI_Allreduce(in, out, COUNT, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
        tap_ok(input_is_whole_sum(out, COUNT, 1, tap.size), "a finite sum before, call %d", call);
    }
    addresses_between_elements();
    not_finite_is_passed_on();
    overflow_arrives_as_infinity();
    send_buffers_are_never_written();
    if (all_native)
        fractions_are_native();
    input_fill_whole(in, COUNT, 2, tap.rank);
    MPI_Allreduce(in, out, COUNT, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    tap_ok(input_is_whole_sum(out, COUNT, 2, tap.size), "a finite sum after");
    status = tap_end();
    MPI_Finalize();
    return status;
}
