/* negatives MODE TYPE [NAME=VALUE...]: programs that reduce something other than gradients, each
 * through one helper and mostly one buffer: one or two for each reason that learn refuses a sum
 * for. TYPE: float or double, of what is reduced; all else is double. Names: n= elements, steps=,
 * seed=. MODE list: the names of all modes. tests/py/learn_rules.py goes through solvers and
 * reasons.
 */
#include "tests/gradients/negative_gathers.h"
#include "tests/gradients/negative_relatives.h"
#include "tests/gradients/negative_statistics.h"
#include "tests/gradients/negative_trainings.h"

/* Conjugate gradients for one right-hand side after the other. */
static void cg_slow(void)
{
    int n = job.n, m = 256;
    double *x = zeros((size_t)n), *r = zeros((size_t)n), *p = zeros((size_t)n),
           *q = zeros((size_t)n), *a = data(m, n, 0.3);
    double rho = 0, begin = 0;

    for (int step = 0, solve = 0; step < job.steps; step++) {
        if (rho <= 1e-6 * begin) {
            solve++;
            memset(x, 0, (size_t)n * sizeof *x);
            for (int i = 0; i < n; i++)
                p[i] = r[i] = normal(70, (uint64_t)solve, (uint64_t)i);
            begin = rho = dot(r, r, n);
        }
        normal_operator(a, m, n, 2, p, q);
        reduce(q, n);
        double alpha = rho / dot(p, q, n), before = rho;
        add(x, alpha, p, n);
        add(r, -alpha, q, n);
        rho = dot(r, r, n);
        for (int i = 0; i < n; i++)
            p[i] = r[i] + rho / before * p[i];
    }
}

static void power(void)
{
    int n = job.n, m = 256;
    double *a = data(m, n, 0.5), *v = zeros((size_t)n), *w = zeros((size_t)n), value = 0;

    for (int i = 0; i < n; i++)
        v[i] = normal(4, (uint64_t)i, 0) / sqrt(n);
    for (int step = 0; step < job.steps; step++) {
        normal_operator(a, m, n, 0, v, w);
        reduce(w, n);
        value = sqrt(dot(w, w, n));
        for (int i = 0; i < n; i++)
            v[i] = w[i] / value;
    }
}

static const struct {
    const char *name;
    void (*run)(void);
} modes[] = {
    {"cg_slow", cg_slow},
    {"power", power},
    {"kmeans", kmeans},
    {"histogram", histogram},
    {"kfac", kfac},
    {"activations", activations},
    {"moments", moments},
    {"batchnorm", batchnorm},
    {"weights_1", weights_1},
    {"weights_10", weights_10},
    {"weights_600", weights_600},
    {"gather_blocks", gather_blocks},
    {"gather_random", gather_random},
    {"broadcast_root", broadcast_root},
    {"weights_broadcast", weights_broadcast},
    {"admm", admm},
    {"sketch", sketch},
    {"signals", signals},
    {"assembly", assembly},
};
enum { MODES = sizeof modes / sizeof modes[0] };

static long number(int argc, char **argv, const char *name, long otherwise)
{
    size_t length = strlen(name);

    for (int i = 3; i < argc; i++)
        if (strncmp(argv[i], name, length) == 0 && argv[i][length] == '=')
            return strtol(argv[i] + length + 1, NULL, 10);
    return otherwise;
}

int main(int argc, char **argv)
{
    int mode = 0;

    if (argc == 2 && strcmp(argv[1], "list") == 0) {
        for (int m = 0; m < MODES; m++)
            puts(modes[m].name);
        return 0;
    }
    while (argc > 2 && mode < MODES && strcmp(argv[1], modes[mode].name) != 0)
        mode++;
    if (argc < 3 || mode == MODES) {
        fprintf(stderr, "usage: negatives MODE float|double [n=N] [steps=STEPS] [seed=SEED]\n");
        return 2;
    }
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &job.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &job.ranks);
    job.wide = strcmp(argv[2], "double") == 0;
    job.n = (int)number(argc, argv, "n", 4096);
    job.steps = (int)number(argc, argv, "steps", 80);
    job.seed = (uint64_t)number(argc, argv, "seed", 1);
    job.narrow = calloc((size_t)job.n, sizeof *job.narrow);
    modes[mode].run();
    return MPI_Finalize();
}
