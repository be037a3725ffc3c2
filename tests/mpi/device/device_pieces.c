/* Long allreduces that all ranks hand to the MPI library, in pieces of 4 MiB where a buffer lies in
 * device memory.
 *
 *     device_pieces sums PART   places, counts, datatypes and operators in turn; a quarter of the
 *                               places, by a number
 *     device_pieces bits FORM   the bits of a sum do not depend on which ranks' buffers lie where;
 *                               blocking or nonblocking
 *     device_pieces whole       the bits of buffers of the host are those of the MPI library
 *     device_pieces order       copies are asked for beside the sums, and 64 MiB are pinned
 *     device_pieces fails FAULT copies fail on rank 1, in the first call or the next
 *     device_pieces several     nonblocking calls beside each other, on unlike buffers
 *     device_pieces steps       calls of a gradient, lossy ones in between
 *
 * GPU_FULL: each of these with every count, and as many calls. */
#include <math.h>
#include <unistd.h>

#include "tests/mpi/device/device_memory.h"
#include "tests/mpi/support/input.h"
#include "tests/mpi/support/tap.h"

enum { PIECE = 4 << 20, FLOATS = PIECE / 4, MOST = 3 * PIECE + 4096 };

static bool is_full(void)
{
    return getenv("GPU_FULL") != NULL;
}

/* The buffers of a rank in a call. */
struct buffers {
    enum kind in, out;
    char *send, *recv; /* send NULL: in place */
};

static char *memory[KINDS][2];

static char *memory_of(enum kind kind, int which)
{
    if (!memory[kind][which])
        memory[kind][which] = cuda_memory(kind, MOST);
    return memory[kind][which];
}

static enum kind kind_of(char letter)
{
    return letter == 'D' ? DEVICE : letter == 'S' ? SECOND : letter == 'P' ? POOL : HOST;
}

/* Two letters for each rank in turn; a third, I: in place. */
static struct buffers place(const char *places)
{
    const int each = (int)strcspn(places, ","), all = ((int)strlen(places) + 1) / (each + 1);
    const char *mine = places + tap.rank % all * (each + 1);
    struct buffers b = {.in = kind_of(mine[0]), .out = kind_of(mine[1])};

    b.send = each > 2 ? NULL : memory_of(b.in, 0);
    b.recv = memory_of(b.out, 1);
    return b;
}

static void give(const struct buffers *b, const void *values, size_t bytes)
{
    cuda_write(b->send ? b->in : b->out, b->send ? b->send : b->recv, values, bytes);
}

static const void *sent(const struct buffers *b)
{
    return b->send ? b->send : MPI_IN_PLACE;
}

static int reduce(const struct buffers *b, int count, MPI_Datatype type, MPI_Op op,
                  bool nonblocking)
{
    MPI_Request request;
    int err;

    if (!nonblocking)
        return MPI_Allreduce(sent(b), b->recv, count, type, op, MPI_COMM_WORLD);
    err = MPI_Iallreduce(sent(b), b->recv, count, type, op, MPI_COMM_WORLD, &request);
    return err == MPI_SUCCESS ? MPI_Wait(&request, MPI_STATUS_IGNORE) : err;
}

/* ---- sums ---- */

/* Sums of these are exact in any order, and in any of the types. */
static void fill(void *values, int count, MPI_Datatype type, uint64_t seed)
{
    for (int i = 0; i < count; i++) {
        const int value = input_whole(seed, tap.rank, (uint64_t)i) + (i % 5 == 0);
        if (type == MPI_FLOAT)
            ((float *)values)[i] = (float)value;
        else if (type == MPI_DOUBLE)
            ((double *)values)[i] = value;
        else if (type == MPI_INT)
            ((int *)values)[i] = value;
        else
            ((long *)values)[i] = value;
    }
}

static bool is_right(const char *places, int count, MPI_Datatype type, MPI_Op op, bool nonblocking)
{
    static char values[MOST], expected[MOST], got[MOST];
    const struct buffers b = place(places);
    static uint64_t seed;
    int size;

    MPI_Type_size(type, &size);
    const size_t bytes = (size_t)count * (size_t)size;
    fill(values, count, type, ++seed);
    memset(got, 0x5a, bytes + 64);
    give(&b, values, bytes);
    if (b.send)
        cuda_write(b.out, b.recv, got, bytes + 64);
    if (reduce(&b, count, type, op, nonblocking) != MPI_SUCCESS)
        return false;
    PMPI_Allreduce(values, expected, count, type, op, MPI_COMM_WORLD);
    cuda_read(b.out, got, b.recv, bytes + 64);
    for (int i = 0; b.send && i < 64; i++)
        if (got[bytes + (size_t)i] != 0x5a)
            return false;
    if (b.send)
        cuda_read(b.in, values, b.send, bytes);
    return memcmp(got, expected, bytes) == 0;
}

static void sums(unsigned part)
{
    enum { PARTS = 4 };
    static const char *const places[] = {"DD,HH",    "DD",       "HH,DD",   "DDI,HHI",
                                         "DS,PD,HH", "DH,HD,SS", "PPI,SSI", "SD,HH,HP,DD"};
    static const int counts[] = {FLOATS, FLOATS + 1, 2 * FLOATS, 2 * FLOATS + 5};

    const size_t every = is_full() ? 1 : 2;

    (void)is_right("HH", 5000, MPI_FLOAT, MPI_SUM, false); /* first exchange */
    for (size_t p = part % PARTS; p < sizeof places / sizeof *places; p += PARTS) {
        bool right = true;
        for (size_t c = every - 1; c < sizeof counts / sizeof *counts; c += every)
            right =
                is_right(places[p], counts[c], MPI_FLOAT, MPI_SUM, (p / PARTS + c / every) % 2) &&
                right;
        tap_ok(right, "%s: floats", places[p]);
        right = is_right(places[p], FLOATS / 2 + 1, MPI_DOUBLE, MPI_SUM, p / PARTS % 2);
        if (is_full())
            right = is_right(places[p], 3 * FLOATS / 2, MPI_DOUBLE, MPI_SUM, false) && right;
        tap_ok(right, "%s: doubles", places[p]);
        right = !is_full() || is_right(places[p], 2 * FLOATS + 1, MPI_INT, MPI_SUM, false);
        right = is_right(places[p], FLOATS + 9, MPI_LONG, MPI_BXOR, p / PARTS % 2) && right;
        tap_ok(right, "%s: integers", places[p]);
    }
}

/* ---- bits ---- */

/* Their sums depend on the order of addition. Each value is computed once. */
static void fill_fractions(float *values, int count)
{
    static float all[MOST / 4];
    static int filled;

    for (; filled < count; filled++)
        all[filled] = sinf((float)filled * 0.37f + (float)tap.rank) * (float)(1 + filled % 1000);
    memcpy(values, all, (size_t)count * sizeof *values);
}

static void sum_of(const char *places, int count, bool nonblocking, float *got)
{
    const struct buffers b = place(places);

    fill_fractions(got, count);
    give(&b, got, 4 * (size_t)count);
    (void)reduce(&b, count, MPI_FLOAT, MPI_SUM, nonblocking);
    cuda_read(b.out, got, b.recv, 4 * (size_t)count);
}

static void bits(bool nonblocking)
{
    static const char *const places[] = {"DD", "DD,HH", "HH,HH,DH", "HD,SS", "HH"};
    static const int counts[] = {FLOATS / 2, FLOATS + 1, 2 * FLOATS + 11};
    static float expected[MOST / 4], got[MOST / 4];

    sum_of("HH", 5000, false, got);
    for (size_t c = 0; c < sizeof counts / sizeof *counts; c += is_full() ? 1 : 2) {
        sum_of("HH", counts[c], nonblocking, expected);
        for (size_t p = 0; p < sizeof places / sizeof *places; p++) {
            bool same = true;
            for (int call = 0; call < 4; call++) { /* some without a vote */
                sum_of(places[p], counts[c], nonblocking, got);
                same = same && memcmp(got, expected, 4 * (size_t)counts[c]) == 0;
            }
            tap_ok(same, "%d floats, %s: the bits of buffers of the host", counts[c], places[p]);
        }
    }
}

static void whole(void)
{
    static float values[MOST / 4], expected[MOST / 4], got[MOST / 4];
    const int count = 2 * FLOATS + 11;
    bool same = true;

    fill_fractions(values, count);
    PMPI_Allreduce(values, expected, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    for (int call = 0; call < 6; call++) {
        sum_of("HH", count, false, got);
        same = same && memcmp(got, expected, 4 * (size_t)count) == 0;
    }
    tap_ok(same, "without REPRODUCIBLE, nothing on a device: the bits of the MPI library");
}

/* ---- order ---- */

/* Expects the second piece to be asked for before the first one's sum, and the third before that
 * goes back. The looks of a first call come earlier. */
static void order_of(const char *places)
{
    static const char expected[] = "DDUDUU";
    static float got[MOST / 4];
    size_t pinned;
    char text[100];

    cuda.order(text, sizeof text, &pinned);
    sum_of(places, 3 * FLOATS, false, got);
    cuda.order(text, sizeof text, &pinned);
    const size_t length = strlen(text), least = sizeof expected - 1;
    tap_ok(length >= least && strcmp(text + length - least, expected) == 0,
           "%s: copies to the host (D) and from it (U): %s", places, text);
    tap_ok(pinned <= 65u << 20, "%s: %zu bytes are pinned", places, pinned);
}

static void order(void)
{
    static float got[MOST / 4];

    sum_of("HH", 5000, false, got);
    order_of("DDI");
    order_of("DD");
    order_of("PPI");
}

/* ---- failures ---- */

static void fails(const char *plan)
{
    enum { COUNT = 2 * FLOATS + 11 }; /* three pieces */
    const struct buffers on_host = place("HH"), b = place("DD"), in_place = place("DDI");
    static float values[MOST / 4];
    char text[MPI_MAX_ERROR_STRING] = "";
    int errors[4], length;

    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    (void)is_right("HH", 5000, MPI_FLOAT, MPI_SUM, false);
    fill_fractions(values, COUNT);
    give(&b, values, 4 * COUNT);
    give(&in_place, values, 4 * COUNT);
    (void)reduce(&b, COUNT, MPI_FLOAT, MPI_SUM, false);
    if (tap.rank == 1)
        setenv("TEST_CUDA_FAIL", plan, 1);
    errors[0] = reduce(&b, COUNT, MPI_FLOAT, MPI_SUM, false);
    if (errors[0] != MPI_SUCCESS)
        MPI_Error_string(errors[0], text, &length);
    errors[1] = reduce(&in_place, COUNT, MPI_FLOAT, MPI_SUM, false);
    errors[2] = reduce(&b, COUNT, MPI_FLOAT, MPI_SUM, true);
    errors[3] = reduce(&on_host, COUNT, MPI_FLOAT, MPI_SUM, false);
    for (int i = 0; i < 4; i++)
        tap_ok(errors[i] != MPI_SUCCESS, "call %d is an error on all ranks", i);
    tap_ok(strstr(text, tap.rank == 1 ? "cannot be copied" : "another rank could not"), "%s", text);
}

/* ---- beside each other ---- */

static void several(void)
{
    static const char *const places[] = {"DD,HH", "HH,SS", "PP,DD", "HH"};
    enum { CALLS = sizeof places / sizeof *places };
    static float values[MOST / 4], expected[MOST / 4], got[MOST / 4];
    MPI_Request requests[CALLS];
    MPI_Status statuses[CALLS];
    struct buffers b[CALLS];
    bool right = true;

    (void)is_right("HH", 5000, MPI_FLOAT, MPI_SUM, false);
    for (int round = 0; round < (is_full() ? 2 : 1); round++) {
        const int count = FLOATS + 1 + round;
        fill(values, count, MPI_FLOAT, (uint64_t)round);
        PMPI_Allreduce(values, expected, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
        for (int i = 0; i < CALLS; i++) {
            b[i] = place(places[i]);
            b[i].send = cuda_memory(b[i].in, MOST);
            b[i].recv = cuda_memory(b[i].out, MOST);
            give(&b[i], values, 4 * (size_t)count);
        }
        for (int i = 0; i < CALLS; i++)
            MPI_Iallreduce(b[i].send, b[i].recv, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD,
                           &requests[i]);
        MPI_Waitall(CALLS, requests, statuses);
        for (int i = 0; i < CALLS; i++) {
            cuda_read(b[i].out, got, b[i].recv, 4 * (size_t)count);
            right = right && memcmp(got, expected, 4 * (size_t)count) == 0;
        }
    }
    tap_ok(right, "each call has its sum");
}

/* The last calls, which the MPI library sums, give back what the others have left. */
static void steps(void)
{
    enum { COUNT = FLOATS + 1000 };
    const int last = is_full() ? 14 : 6;
    static float values[COUNT], got[COUNT];
    static double given[COUNT], received[COUNT], sum[COUNT];
    double largest = 0, off = 0;

    for (int step = 0; step < last; step++) {
        const struct buffers b = place(step % 3 == 1 ? "DD,HH" : "DD");
        const bool native = step % 3 == 2;
        memset(sum, 0, sizeof sum);
        for (int r = 0; r < tap.size; r++)
            for (int i = 0; i < COUNT; i++) {
                const float value = sinf((float)i * 0.37f + (float)(step + r)) * (i % 91 ? 1 : 51);
                sum[i] += (double)value;
                if (r == tap.rank)
                    values[i] = value;
            }
        give(&b, values, 4 * COUNT);
        MPI_Pcontrol(!native);
        (void)reduce(&b, COUNT, MPI_FLOAT, MPI_SUM, false);
        MPI_Pcontrol(1);
        cuda_read(b.out, got, b.recv, 4 * COUNT);
        for (int i = 0; i < COUNT; i++) {
            given[i] += sum[i];
            received[i] += (double)got[i];
            if (native)
                off = fmax(off, fabs(sum[i] - (double)got[i]));
        }
    }
    for (int i = 0; i < COUNT; i++)
        largest = fmax(largest, fabs(received[i] - given[i]));
    tap_ok(off < 1e-3, "what is switched off is the sum of the inputs: off by %g", off);
    tap_ok(largest < 51.0 * last * tap.size, "nothing is added twice: %g", largest);
}

int main(int argc, char **argv)
{
    const char *mode = argc > 1 ? argv[1] : "", *how = argc > 2 ? argv[2] : "";
    int provided, status;

    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    tap_begin(MPI_COMM_WORLD);
    cuda_open();
    if (strcmp(mode, "sums") == 0)
        sums((unsigned)atoi(how));
    else if (strcmp(mode, "bits") == 0)
        bits(strcmp(how, "nonblocking") == 0);
    else if (strcmp(mode, "whole") == 0)
        whole();
    else if (strcmp(mode, "order") == 0)
        order();
    else if (strcmp(mode, "fails") == 0)
        fails(how);
    else if (strcmp(mode, "several") == 0)
        several();
    else if (strcmp(mode, "steps") == 0)
        steps();
    if (tap.checks == 0)
        MPI_Abort(MPI_COMM_WORLD, 2);
    status = tap_end();
    MPI_Finalize();
    return status;
}
