/* oracle LARGEST [PART PARTS [flush]]: results against the references of the unit tests
 * (tests/unit/support/oracle.h), over a pairwise covering set of type and operator, count (up to
 * LARGEST), density, positions, values, in place or not.
 *
 * PART of PARTS takes every PARTS-th row. A rank computes every rank's input, so the reference
 * needs no communication. All ranks hold the same bits. flush: the program has the processor drop
 * subnormals, as -ffast-math does; inputs and references are made without. */
#include "tests/unit/support/oracle.h"
#include "tests/mpi/support/input.h"
#include "tests/mpi/support/tap.h"
#include "tests/support/fp_settings.h"

enum { KIND, COUNT, DENSITY, PLACE, VALUE, IN_PLACE, FACTORS };

static const struct {
    enum ss_type type;
    enum ss_op op;
    const char *name;
} kinds[] = {
    {SS_F32, SS_SUM, "float SUM"}, {SS_F64, SS_SUM, "double SUM"}, {SS_I32, SS_SUM, "int SUM"},
    {SS_I64, SS_SUM, "long SUM"},  {SS_I32, SS_BOR, "int BOR"},    {SS_I64, SS_BOR, "long BOR"},
    {SS_I32, SS_BXOR, "int BXOR"}, {SS_I64, SS_BXOR, "long BXOR"}, {SS_I32, SS_LOR, "int LOR"},
    {SS_I64, SS_LOR, "long LOR"},  {SS_I32, SS_LXOR, "int LXOR"},  {SS_I64, SS_LXOR, "long LXOR"},
};
static const int counts[] = {0, 1, 7, 1009, 4096, 65537, (1 << 20) + 3};
static const double densities[] = {0, -1, 1e-4, 0.01, 0.1, 0.6, 1};
static int levels[FACTORS] = {12, 7, 7, PLACES, VALUES, 2};

enum { MOST_LEVELS = 12, MOST_ROWS = 300, MOST_RANKS = 64 };

struct row {
    int level[FACTORS];
};

/* Findings of one rank about one row. */
enum { WRONG = 1, GUARD_HIT = 2, INPUT_WRITTEN = 4, NOT_REPEATED = 8, FPENV_CHANGED = 16 };
struct finding {
    uint64_t hash;
    uint32_t faults;
    uint32_t at; /* first wrong element */
};

static bool flushes;

/* ---- the covering set: greedy, the best of 60 random rows at a time ---- */

static struct row rows[MOST_ROWS];

static int cover_rows(void)
{
    static bool covered[FACTORS][FACTORS][MOST_LEVELS][MOST_LEVELS];
    int made = 0, open = 0;
    uint64_t draw = 0;

    for (int f = 0; f < FACTORS; f++)
        for (int g = f + 1; g < FACTORS; g++)
            open += levels[f] * levels[g];
    while (open > 0 && made < MOST_ROWS) {
        struct row best = {{0}};
        int best_gain = -1;
        for (int candidate = 0; candidate < 60; candidate++) {
            struct row row;
            int gain = 0;
            for (int f = 0; f < FACTORS; f++)
                row.level[f] = (int)(input_word(1, 0, draw++) % (unsigned)levels[f]);
            for (int f = 0; f < FACTORS; f++)
                for (int g = f + 1; g < FACTORS; g++)
                    gain += !covered[f][g][row.level[f]][row.level[g]];
            if (gain > best_gain) {
                best_gain = gain;
                best = row;
            }
        }
        if (best_gain == 0)
            continue;
        for (int f = 0; f < FACTORS; f++)
            for (int g = f + 1; g < FACTORS; g++)
                covered[f][g][best.level[f]][best.level[g]] = true;
        open -= best_gain;
        rows[made++] = best;
    }
    return open == 0 ? made : 0;
}

/* ---- a row ---- */

static bool native_may_run(void)
{
    const char *algorithm = getenv("SPARSESHIM_ALGORITHM");
    return !algorithm || strcmp(algorithm, "auto") == 0 || strcmp(algorithm, "dense") == 0;
}

static struct input input_of(const struct row *row, int number)
{
    struct input in = {.size = tap.size,
                       .type = kinds[row->level[KIND]].type,
                       .op = kinds[row->level[KIND]].op,
                       .n = (size_t)counts[row->level[COUNT]],
                       .density = densities[row->level[DENSITY]],
                       .place = (enum place)row->level[PLACE],
                       .values = (enum values)row->level[VALUE],
                       .seed = (uint64_t)number * 31 + 5,
                       .native = true};

    if (native_may_run() && flushes) /* bare MPICH does, too */
        in.slack = tap.size * (in.type == SS_F32 ? (double)FLT_MIN : DBL_MIN);
    return in;
}

static uint64_t hash_bytes(const unsigned char *bytes, size_t n)
{
    uint64_t hash = 0xcbf29ce484222325u;
    for (size_t i = 0; i < n; i += sizeof(uint64_t)) {
        uint64_t word = 0;
        memcpy(&word, bytes + i, n - i < sizeof word ? n - i : sizeof word);
        hash = (hash ^ word) * 0x9e3779b97f4a7c15u;
        hash ^= hash >> 32;
    }
    return hash;
}

static void allreduce(const struct input *in, const struct array *sent, struct array *out,
                      bool in_place, MPI_Comm comm)
{
    const MPI_Op ops[] = {[SS_SUM] = MPI_SUM,
                          [SS_BOR] = MPI_BOR,
                          [SS_BXOR] = MPI_BXOR,
                          [SS_LOR] = MPI_LOR,
                          [SS_LXOR] = MPI_LXOR};
    const MPI_Datatype types[] = {
        [SS_F32] = MPI_FLOAT, [SS_F64] = MPI_DOUBLE, [SS_I32] = MPI_INT, [SS_I64] = MPI_LONG};

    memset(out->data, POISON_BYTE, out->bytes);
    if (in_place)
        memcpy(out->data, sent->data, out->bytes);
    MPI_Allreduce(in_place ? MPI_IN_PLACE : sent->data, out->data, (int)in->n, types[in->type],
                  ops[in->op], comm);
}

/* Returns the first wrong element, or n. On one rank nothing is combined: the input as it is. */
static size_t first_wrong(const struct input *in, const struct array *sent, const struct array *out)
{
    ss_fpenv own = ss_fpenv_enter();
    size_t at = in->size == 1 ? (memcmp(out->data, sent->data, out->bytes) == 0 ? in->n : 0)
                              : oracle_first_wrong(in, sent, out->data);

    ss_fpenv_leave(own);
    return at;
}

static struct finding run_row(const struct row *row, int number, MPI_Comm other)
{
    struct finding found = {0};
    const struct input in = input_of(row, number);
    const size_t esize = ss_type_size(in.type);
    struct array sent[MOST_RANKS], *mine = &sent[tap.rank];
    struct array out = array_make(in.n, esize), before = array_make(in.n, esize);
    const ss_fpenv environment = fp_settings(), own = ss_fpenv_enter();

    for (int r = 0; r < in.size; r++) {
        sent[r] = array_make(in.n, esize);
        input_fill(&in, r, sent[r].data);
    }
    ss_fpenv_leave(own);
    memcpy(before.data, mine->data, mine->bytes);
    allreduce(&in, mine, &out, row->level[IN_PLACE], MPI_COMM_WORLD);
    if (fp_settings() != environment)
        found.faults |= FPENV_CHANGED;
    found.at = (uint32_t)first_wrong(&in, sent, &out);
    if (found.at < in.n)
        found.faults |= WRONG;
    found.hash = hash_bytes(out.data, out.bytes);
    if (!native_may_run() && in.n <= 4096 && number % 4 < 2) {
        allreduce(&in, mine, &out, row->level[IN_PLACE], number % 4 ? MPI_COMM_WORLD : other);
        if (hash_bytes(out.data, out.bytes) != found.hash)
            found.faults |= NOT_REPEATED;
    }
    if (memcmp(before.data, mine->data, mine->bytes) != 0)
        found.faults |= INPUT_WRITTEN;
    if (!array_guards_hold(mine) || !array_guards_hold(&out))
        found.faults |= GUARD_HIT;
    for (int r = 0; r < in.size; r++)
        free(sent[r].base);
    free(out.base);
    free(before.base);
    return found;
}

/* ---- verdict, on rank 0 ---- */

static bool nowhere(const struct finding *all, int n, uint32_t fault)
{
    bool none = true;
    for (int i = 0; i < n * tap.size; i++)
        none = none && !(all[i].faults & fault);
    return none;
}

static bool same_bits(const struct finding *all, int n, int row)
{
    for (int r = 1; r < tap.size; r++)
        if (all[r * n + row].hash != all[row].hash)
            return false;
    return true;
}

static void explain(const struct finding *all, const int *numbers, int n)
{
    for (int row = 0; row < n; row++) {
        const int *level = rows[numbers[row]].level;
        uint32_t faults = 0, at = 0;
        for (int r = 0; r < tap.size; r++) {
            faults |= all[r * n + row].faults;
            if (all[r * n + row].faults & WRONG)
                at = all[r * n + row].at;
        }
        if (faults || !same_bits(all, n, row))
            printf("# row %d: %s, count %d, density %g, place %d, values %d%s:%s%s%s%s%s%s "
                   "(element %u)\n",
                   numbers[row], kinds[level[KIND]].name, counts[level[COUNT]],
                   densities[level[DENSITY]], level[PLACE], level[VALUE],
                   level[IN_PLACE] ? ", in place" : "", faults & WRONG ? " wrong" : "",
                   faults & GUARD_HIT ? " guard" : "", faults & INPUT_WRITTEN ? " input" : "",
                   faults & NOT_REPEATED ? " repeat" : "", faults & FPENV_CHANGED ? " fpenv" : "",
                   same_bits(all, n, row) ? "" : " replicas", at);
    }
}

int main(int argc, char **argv)
{
    int largest = argc > 1 ? atoi(argv[1]) : 4096;
    int part = argc > 3 ? atoi(argv[2]) : 0, parts = argc > 3 ? atoi(argv[3]) : 1;
    int made, n = 0, status, numbers[MOST_ROWS];
    struct finding found[MOST_ROWS], *all;
    float warm[16] = {1}, warmed[16];
    bool replicas = true;
    uint64_t hash = 0;
    MPI_Comm other;

    flushes = argc > 4;
    if (flushes)
        fp_set(FP_FLUSH);
    MPI_Init(&argc, &argv);
    tap_begin(MPI_COMM_WORLD);
    if (tap.size > MOST_RANKS)
        MPI_Abort(MPI_COMM_WORLD, 1);
    while (levels[COUNT] > 1 && counts[levels[COUNT] - 1] > largest)
        levels[COUNT]--;
    made = cover_rows();
    MPI_Comm_dup(MPI_COMM_WORLD, &other);
    for (int call = 0; call < 2; call++) { /* the first call on a communicator is delegated */
        MPI_Allreduce(warm, warmed, 16, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
        MPI_Allreduce(warm, warmed, 16, MPI_FLOAT, MPI_SUM, other);
    }
    for (int i = part; i < made; i += parts) {
        numbers[n] = i;
        found[n++] = run_row(&rows[i], i, other);
    }
    all = input_alloc((size_t)(tap.size * n) * sizeof *all);
    MPI_Gather(found, n * (int)sizeof *found, MPI_BYTE, all, n * (int)sizeof *found, MPI_BYTE, 0,
               MPI_COMM_WORLD);
    if (tap.rank == 0) {
        for (int i = 0; i < n; i++) {
            replicas = replicas && same_bits(all, n, i);
            hash = hash * 0x100000001b3u ^ all[i].hash;
        }
        explain(all, numbers, n);
    }
#define NOWHERE(fault) (tap.rank != 0 || nowhere(all, n, fault))
    tap_ok(made > 0 && n > 0, "the covering set has %d rows, %d of them run here", made, n);
    tap_ok(NOWHERE(WRONG), "every element is within its bound, integers are equal");
    tap_ok(replicas, "all ranks hold the same bits");
    tap_ok(NOWHERE(INPUT_WRITTEN), "no send buffer was written");
    tap_ok(NOWHERE(GUARD_HIT), "nothing was written around the buffers");
    tap_ok(NOWHERE(NOT_REPEATED), "again, and on another communicator: the same bits");
    tap_ok(NOWHERE(FPENV_CHANGED), "the floating-point environment is left as it was");
#undef NOWHERE
    tap_ok(((fp_settings() & FP_FLUSH) == FP_FLUSH) == flushes,
           "subnormals are as the program set");
    tap_note("bits %016llx", (unsigned long long)hash);
    free(all);
    MPI_Comm_free(&other);
    status = tap_end();
    MPI_Finalize();
    return status;
}
