/* What `sparseshim bench` is asked for, and what it has measured. */
#ifndef SHIM_CLI_BENCH_H
#define SHIM_CLI_BENCH_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/report/emit.h"

enum { BENCH_LIST = 64, BENCH_NAME = 32 };

/* Values of one option, in the order given. */
struct bench_list {
    size_t items;
    char item[BENCH_LIST][BENCH_NAME];
};

struct bench_asked {
    struct bench_list counts;  /* elements, in digits */
    struct bench_list density; /* as DENSITY has it; shares only where the sums are exact */
    struct bench_list algorithm, values;
    bool topk, is_double;
    int blocks, calls, warm;
    unsigned limit;         /* seconds a run may take */
    const char *csv, *json; /* files, "-": standard output; NULL: neither */
    const char *plot;       /* file that ends in .png or .svg, or NULL */
    char **launcher;        /* ends in NULL */
};

/* One combination of them. */
struct bench_cell {
    const char *count, *density, *algorithm, *values;
    bool measured;
    int ranks;
    double dense, ours;       /* seconds a call of the slowest rank, medians over the blocks */
    double ratio, low, high;  /* dense / ours, median and quartiles over the blocks */
    double bytes_dense, sent; /* a call, by a rank; sent: mean over the calls of rank 0 */
    double result;            /* share of the result that is not zero */
    double difference;        /* exact: largest from the dense result; NaN in top-k */
};

struct bench_cells {
    const struct bench_asked *asked;
    struct bench_cell *cell;
    size_t cells;
};

/* shim/cli/bench_options.c: CLI_OK, or the exit status after saying why not. */
int bench_parse(struct bench_asked *asked, int argc, char **argv);

extern const struct ss_emit_group bench_group; /* columns of its table */

/* shim/cli/bench_table.c: text to standard output, files; CLI_OK or CLI_FAILED. */
int bench_write(const struct bench_cells *cells);
/* By gnuplot: time of a call over the density, or the count where there is but one density. */
int bench_plot(const struct bench_cells *cells, const char *folder);

#endif
