/* sparseshim simulate: allreduces over many ranks in virtual time, as a table or CSV. */
#include "shim/simulate/simulate.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const sources[] = {"simulated", "extrapolated", "refused"};

/* ---- CSV ---- */

static void csv_head(void)
{
    puts("ranks,count,density,overlap,alpha,beta,gap,burst,compute,cores,algorithm,ran,source,"
         "seconds,"
         "bytes_"
         "max,bytes_"
         "mean,"
         "messages_max,rounds,memory_max,result_density,dense_seconds,speedup,checksum,note");
}

static void csv_number(const char *format, double value, bool known)
{
    putchar(',');
    if (known)
        printf(format, value);
}

static void csv_row(const struct ss_trial *t, const struct sim_row *r)
{
    bool known = r->source != SIM_REFUSED, simulated = r->source == SIM_SIMULATED;
    bool messages = r->ran == SS_DENSE; /* no selection, only messages */

    printf("%d,%" PRIu64 ",%g,%g,%g,%g,%g,%.0f,%g,%u,%s,%s,%s", t->ranks, t->entries.n,
           t->entries.density, t->entries.overlap, t->alpha, t->beta, t->gap, t->burst, t->compute,
           t->cores, ss_algorithm_name(t->algorithm), ss_algorithm_name(r->ran),
           sources[r->source]);
    csv_number("%.9g", r->seconds, known);
    csv_number("%.0f", r->bytes_max, known);
    csv_number("%.0f", r->bytes_mean, known);
    csv_number("%.0f", r->messages, simulated);
    csv_number("%.0f", r->rounds, simulated);
    csv_number("%.0f", r->memory, simulated);
    csv_number("%.6g", r->result_nnz / (double)t->entries.n, known && !messages);
    csv_number("%.9g", r->dense_seconds, true);
    csv_number("%.4g", r->dense_seconds / r->seconds, known && r->seconds > 0);
    putchar(',');
    if (simulated && !messages)
        printf("%016" PRIx64, r->checksum);
    printf(",%s\n", r->note);
}

/* ---- the table ---- */

static void seconds_text(char text[16], double seconds)
{
    if (seconds < 1e-3)
        snprintf(text, 16, "%.4g us", 1e6 * seconds);
    else if (seconds < 1)
        snprintf(text, 16, "%.4g ms", 1e3 * seconds);
    else
        snprintf(text, 16, "%.4g s", seconds);
}

static void bytes_text(char text[16], double bytes)
{
    static const char *const units[] = {"B", "kB", "MB", "GB", "TB"};
    size_t unit = 0;

    while (bytes >= 1000 && unit + 1 < sizeof units / sizeof units[0]) {
        bytes /= 1000;
        unit++;
    }
    snprintf(text, 16, "%.4g %s", bytes, units[unit]);
}

static void table_head(const struct ss_trial *t)
{
    printf("N = %" PRIu64 " float, d = %g %%, alpha = %g s, beta = %g s/byte, gap = %g s",
           t->entries.n, 100 * t->entries.density, t->alpha, t->beta, t->gap);
    if (t->burst > 0)
        printf(", burst = %.0f bytes", t->burst);
    if (t->compute > 0)
        printf(", computing as here times %g", t->compute);
    if (t->compute > 0 && t->cores > 0)
        printf(" on %u cores", t->cores);
    putchar('\n');
    printf("%5s  %-18s %10s %8s %10s %10s %9s %7s %10s %8s  %s\n", "ranks", "algorithm", "time",
           "x dense", "sent, most", "mean", "messages", "rounds", "memory", "result", "");
}

static void count_text(char text[16], double count, bool known)
{
    snprintf(text, 16, known ? "%.0f" : "-", count);
}

static void table_row(const struct ss_trial *t, const struct sim_row *r)
{
    bool simulated = r->source == SIM_SIMULATED, messages = r->ran == SS_DENSE;
    char name[48], time[16], most[16], mean[16], sent[16], rounds[16];
    char memory[16] = "-", result[16] = "-", faster[16] = "-";

    snprintf(name, sizeof name, "%s%s%s", ss_algorithm_name(t->algorithm),
             r->ran != t->algorithm ? ": " : "",
             r->ran != t->algorithm ? ss_algorithm_name(r->ran) : "");
    if (r->source == SIM_REFUSED) {
        printf("%5d  %-18s refused: %s\n", t->ranks, name, r->note);
        return;
    }
    seconds_text(time, r->seconds);
    bytes_text(most, r->bytes_max);
    bytes_text(mean, r->bytes_mean);
    if (simulated)
        bytes_text(memory, r->memory);
    count_text(sent, r->messages, simulated);
    count_text(rounds, r->rounds, simulated);
    if (!messages)
        snprintf(result, sizeof result, "%.3g %%", 100 * r->result_nnz / (double)t->entries.n);
    if (r->seconds > 0)
        snprintf(faster, sizeof faster, "%.3g", r->dense_seconds / r->seconds);
    printf("%5d  %-18s %10s %8s %10s %10s %9s %7s %10s %8s  %s%s\n", t->ranks, name, time, faster,
           most, mean, sent, rounds, memory, result, simulated ? "" : "extrapolated ", r->note);
}

/* ---- the program ---- */

/* Reports a run that failed. */
static int tell_failure(const struct ss_trial *t, int status)
{
    const char *why = status > -100 ? ss_status_text(status) : "the process ended";

    if (status == SS_ERR_DIFFERENT)
        why = "the results of the ranks are not one sum, which should not be; please report it";
    fprintf(stderr, "sparseshim simulate: %s on %d ranks, %" PRIu64 " elements, density %g: %s\n",
            ss_algorithm_name(t->algorithm), t->ranks, t->entries.n, t->entries.density, why);
    return SIM_WRONG;
}

static int print_row(const struct sim_asked *a, const struct ss_trial *t, const struct sim_row *row)
{
    if (row->source == SIM_SIMULATED && row->status != SS_OK)
        return tell_failure(t, row->status);
    (a->csv ? csv_row : table_row)(t, row);
    fflush(stdout);
    return SIM_OK;
}

/* Prints the rows of all ranks and algorithms at one count and density. */
static int simulate_block(const struct sim_asked *a, struct ss_trial *t)
{
    static struct sim_family families[SS_ALGORITHMS];
    struct sim_row rows[SS_ALGORITHMS];
    int status = SIM_OK;

    memset(families, 0, sizeof families);
    if (!a->csv)
        table_head(t);
    for (size_t r = 0; r < a->ranks; r++) {
        t->ranks = a->rank[r];
        sim_rows_make(a, t, families, rows);
        for (size_t i = 0; i < a->algorithms; i++) {
            t->algorithm = a->algorithm[i];
            int here = print_row(a, t, &rows[i]);
            status = here != SIM_OK ? here : status;
        }
    }
    return status;
}

static const char help[] =
    "usage: sparseshim simulate [--ranks=LIST] [--density=LIST] [--OPTION=VALUE ...] [--csv]\n"
    "what each collective would take on a network, up to 4096 ranks\n\n"
    "  --ranks=LIST      2..64: doubling from 2 on; 2..9:1 in steps; 3,100 (up to 4096)\n"
    "  --count=LIST      4Mi: elements of 4 bytes\n"
    "  --density=LIST    0.01: share of its elements that each rank sends\n"
    "  --algorithm=LIST  all: but auto, the choice of the plan in MODE=exact\n"
    "  --alpha=TIME      2us: latency of a message\n"
    "  --beta=TIME       1e-10: seconds per byte, 8e-9 at 1 Gbit/s\n"
    "  --gap=TIME        alpha / 10: how long a message holds a link beside its bytes\n"
    "  --burst=BYTES     0: what a link that was idle lets pass at once\n"
    "  --compute=FACTOR  0: computing takes no time; 1: as long as here\n"
    "  --cores=N         0: then each rank has one; N that all share\n"
    "  --overlap=SHARE   0: share of its entries that a rank has where all others have one\n"
    "  --warm=CALLS      1: before the one that counts, of oktopk, which finds threshold and\n"
    "                    regions in the first, and with --burst\n"
    "  --seed=N          1: of the places and values of the entries\n"
    "  --memory=BYTES    2GiB: what one run may take here\n"
    "  --time=TIME       5s: likewise, of a processor\n"
    "  --jobs=N          1: runs at a time\n"
    "  --csv             in place of the table\n"
    "Runs the collectives' own code in virtual time: a message of b bytes holds the sender's\n"
    "link for gap + beta b and, alpha later, the receiver's as long; computing takes no time.\n"
    "Every exact result is compared with the sum of the inputs. Dense is the messages of\n"
    "Rabenseifner's algorithm; `x dense` compares with the limit of the link, in time\n"
    "2 floor(log2 P) alpha + 2 (P-1)/P 4N beta. What would take more than --memory or --time is\n"
    "extrapolated from the largest run by the cost model, and says so.\n"
    "Exit status: 0; 1 a result was wrong, or a run failed; 2 usage.\n";

static bool asks_for_help(int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0)
            return true;
    return false;
}

int main(int argc, char **argv)
{
    static struct sim_asked asked;

    if (asks_for_help(argc, argv)) {
        fputs(help, stdout);
        return SIM_OK;
    }
    int status = sim_read_options(&asked, argc, argv);

    if (status != SIM_OK)
        return status;
    if (asked.csv)
        csv_head();
    for (size_t c = 0; c < asked.counts; c++)
        for (size_t d = 0; d < asked.densities; d++) {
            struct ss_trial trial = {.entries = {.n = asked.count[c],
                                                 .density = asked.density[d],
                                                 .overlap = asked.overlap,
                                                 .seed = asked.seed},
                                     .alpha = asked.alpha,
                                     .beta = asked.beta,
                                     .gap = asked.gap,
                                     .burst = (double)asked.burst,
                                     .compute = asked.compute,
                                     .cores = asked.cores,
                                     .warm = asked.warm};
            if (!asked.csv && c + d > 0)
                putchar('\n');
            int here = simulate_block(&asked, &trial);
            status = here != SIM_OK ? here : status;
        }
    return status;
}
