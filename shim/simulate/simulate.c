/* sparseshim simulate: allreduces over many ranks in virtual time, a line of plain columns each. */
#include "shim/simulate/simulate.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const sources[] = {"simulated", "extrapolated", "refused"};

/* ---- lines ---- */

static void print_head(const struct sim_asked *a)
{
    printf("# alpha = %g s, beta = %g s/byte, overlap = %g, compute = %g\n", a->alpha, a->beta,
           a->overlap, a->compute);
    printf("%5s %10s %9s %-18s %-18s %-12s %12s %8s %12s %12s", "ranks", "count", "density",
           "algorithm", "ran", "source", "seconds", "x_dense", "bytes_max", "bytes_mean");
    if (a->per_host > 1)
        printf(" %12s", "bytes_host");
    printf(" %8s %6s %11s %9s %-16s %s\n", "messages", "rounds", "memory", "result", "checksum",
           "note");
}

static void print_number(int width, int digits, double value, bool known)
{
    if (known)
        printf(" %*.*g", width, digits, value);
    else
        printf(" %*s", width, "-");
}

static void print_whole(int width, double value, bool known)
{
    if (known)
        printf(" %*.0f", width, value);
    else
        printf(" %*s", width, "-");
}

static void print_row(const struct ss_trial *t, const struct sim_row *r)
{
    bool known = r->source != SIM_REFUSED, simulated = r->source == SIM_SIMULATED;
    bool messages = r->ran == SS_DENSE; /* no vectors */

    printf("%5d %10" PRIu64 " %9.6g %-18s %-18s %-12s", t->ranks, t->entries.n, t->entries.density,
           ss_algorithm_name(t->algorithm), ss_algorithm_name(r->ran), sources[r->source]);
    print_number(12, 9, r->seconds, known);
    print_number(8, 4, r->dense_seconds / r->seconds, known && r->seconds > 0);
    print_whole(12, r->bytes_max, known);
    print_whole(12, r->bytes_mean, known);
    if (t->per_host > 1)
        print_whole(12, r->bytes_host, simulated);
    print_whole(8, r->messages, simulated);
    print_whole(6, r->rounds, simulated);
    print_whole(11, r->memory, simulated);
    print_number(9, 6, r->result_nnz / (double)t->entries.n, known && !messages);
    if (simulated && !messages)
        printf(" %016" PRIx64, r->checksum);
    else
        printf(" %-16s", "-");
    printf(" %s\n", r->note[0] != '\0' ? r->note : "-");
    fflush(stdout);
}

/* ---- the program ---- */

/* Reports a run that did not give what it should. */
static int print_failure(const struct ss_trial *t, int status)
{
    const char *why = status > -100 ? ss_status_text(status) : "the process ended";

    if (status == SS_ERR_DIFFERENT)
        why = "the results of the ranks are not one sum, which should not be; please report it";
    fprintf(stderr, "sparseshim simulate: %s on %d ranks, %" PRIu64 " elements, density %g: %s\n",
            ss_algorithm_name(t->algorithm), t->ranks, t->entries.n, t->entries.density, why);
    return SIM_WRONG;
}

/* Simulates all ranks and algorithms at one count and density. */
static int simulate_block(const struct sim_asked *a, struct ss_trial *t)
{
    static struct sim_family families[SS_ALGORITHMS];
    int status = SIM_OK;

    memset(families, 0, sizeof families);
    for (size_t r = 0; r < a->ranks; r++) {
        t->ranks = a->rank[r];
        for (size_t i = 0; i < a->algorithms; i++) {
            struct sim_row row;
            t->algorithm = a->algorithm[i];
            if (t->algorithm == SS_TWO_LEVEL && a->per_host == 1 && a->algorithms > 1)
                continue; /* nothing but split_allgather */
            sim_row_make(a, t, &families[i], &row);
            if (row.source == SIM_SIMULATED && row.status != SS_OK)
                status = print_failure(t, row.status);
            else
                print_row(t, &row);
        }
    }
    return status;
}

static const char help[] =
    "usage: sparseshim simulate [--ranks=LIST] [--density=LIST] [--OPTION=VALUE ...]\n"
    "predict the time of each algorithm on a network, up to 4096 ranks\n"
    "\n"
    "  --ranks=LIST      numbers of ranks (2..64, which doubles from 2 on); also 2..9:1, in "
    "steps\n"
    "                    of 1, and lists such as 3,100\n"
    "  --count=LIST      elements of 4 bytes (4Mi)\n"
    "  --density=LIST    share of the elements that each rank sends (0.01)\n"
    "  --overlap=SHARE   share of these at the same positions on all ranks (0)\n"
    "  --algorithm=LIST  all, auto, or names as for ALGORITHM (all: each name; auto: what "
    "MODE=exact\n"
    "                    chooses)\n"
    "  --ranks-per-host=N  ranks that share the link of their host (1); above 1, column bytes_host "
    "has\n"
    "                    the busiest host's bytes to other hosts\n"
    "  --alpha=TIME      latency of a message (2us)\n"
    "  --beta=TIME       seconds per byte (1e-10); 8e-9 at 1 Gbit/s\n"
    "  --compute=FACTOR  0: computing takes no time; 1: as long as on this machine, with a core "
    "for each\n"
    "                    rank (0)\n"
    "  --memory=BYTES    memory of one run on this machine (2GiB)\n"
    "  --time=TIME       processor time of one run on this machine (5s)\n"
    "Runs the code of the algorithms in virtual time. A message of b bytes occupies the sender's "
    "link for\n"
    "alpha/10 + beta*b seconds; alpha later it occupies the receiver's link for the same time. "
    "Each result\n"
    "of an exact algorithm is compared with the sum of the inputs, which are random. oktopk, gtopk "
    "and\n"
    "quantized are lossy: their times are those of another sum. Each run prints a line, in "
    "seconds, bytes\n"
    "and shares; - if a number is not known. Column ran is the algorithm that ran, result the "
    "share of the\n"
    "sum that is not zero, checksum that of its bits. Algorithm dense sends the messages "
    "of\n"
    "Rabenseifner's allreduce. Column x_dense is the least time of dense, 2 floor(log2 P) alpha + "
    "2 (H-1)/H 4N "
    "beta\n"
    "for P ranks on H hosts and N elements, divided by the time of the run. The cost model "
    "extrapolates "
    "runs that\n"
    "would take more than --memory or --time; the note says from where.\n"
    "Exit status: 0; 1 a result was wrong, or a run failed; 2 usage.\n";

static bool asks_for_help(int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0)
            return true;
    return false;
}

static int simulate(const struct sim_asked *a)
{
    int status = SIM_OK;

    print_head(a);
    for (size_t c = 0; c < a->counts; c++)
        for (size_t d = 0; d < a->densities; d++) {
            struct ss_trial trial = {.entries = {.n = a->count[c],
                                                 .density = a->density[d],
                                                 .overlap = a->overlap,
                                                 .seed = 1},
                                     .alpha = a->alpha,
                                     .beta = a->beta,
                                     .per_host = a->per_host,
                                     .gap = a->alpha / 10, /* as the cost model has it */
                                     .compute = a->compute,
                                     .warm = 1};
            int here = simulate_block(a, &trial);
            status = here != SIM_OK ? here : status;
        }
    return status;
}

int main(int argc, char **argv)
{
    static struct sim_asked asked;

    if (asks_for_help(argc, argv)) {
        fputs(help, stdout);
        return SIM_OK;
    }
    int status = sim_read_options(&asked, argc, argv);
    return status == SIM_OK ? simulate(&asked) : status;
}
