/* Shared by the training programs: failing, options from a table, logging. */
#ifndef TESTS_APPS_APP_H
#define TESTS_APPS_APP_H

#include <errno.h>
#include <getopt.h>
#include <mpi.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LOG_STEPS = 10 }; /* steps per line of a log */

struct log {
    FILE *file; /* NULL on all ranks but the first */
    bool wanted;
    double loss[2]; /* summed over this rank's samples since the last line; their number */
};

static int my_rank, ranks; /* of MPI_COMM_WORLD */

static void app_begin(int *argc, char ***argv)
{
    MPI_Init(argc, argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &my_rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
}

__attribute__((format(printf, 1, 2), noreturn)) static void fail(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    fprintf(stderr, "%s: ", program_invocation_short_name);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
    usleep(100000); /* time for mpirun to read the line; output at the end may be lost */
    MPI_Abort(MPI_COMM_WORLD, 1);
    abort();
}

/* ---- options ---- */

enum option_kind { OPTION_FLAG, OPTION_WHOLE, OPTION_NUMBER, OPTION_TEXT, OPTION_CHOICE };

/* A row of a program's table. The default is the value of the target before the command line is
 * read; the help prints it. */
struct app_option {
    const char *name, *value, *help; /* lines of the help are parted by \n */
    enum option_kind kind;
    union {
        bool *flag;
        long *whole;
        double *number;
        const char **text;
        int *choice;
    } target;
    double low, high;
    long multiple;              /* a whole number must be a multiple of it; 0: any */
    const char *const *choices; /* ended by NULL; the target is an index */
};

/* clang-format off */
#define OPTION_ROW(name, value, help, kind, ...) {name, value, help, OPTION_##kind, __VA_ARGS__}
#define FLAG(name, target, help) OPTION_ROW(name, "", help, FLAG, {.flag = target}, 0, 0, 0, NULL)
#define TEXT(name, value, target, help) \
    OPTION_ROW(name, value, help, TEXT, {.text = target}, 0, 0, 0, NULL)
#define NUMBER(name, value, target, low, high, help) \
    OPTION_ROW(name, value, help, NUMBER, {.number = target}, low, high, 0, NULL)
#define WHOLE(name, value, target, low, high, help) \
    OPTION_ROW(name, value, help, WHOLE, {.whole = target}, low, high, 0, NULL)
#define MULTIPLE(name, value, target, low, high, of, help) \
    OPTION_ROW(name, value, help, WHOLE, {.whole = target}, low, high, of, NULL)
#define CHOICE(name, value, target, choices, help) \
    OPTION_ROW(name, value, help, CHOICE, {.choice = target}, 0, 0, 0, choices)
/* clang-format on */

enum { MAX_OPTIONS = 32, ALLOWED_CHARS = 160 };

static const char *one_of(const char *const *choices, char words[ALLOWED_CHARS])
{
    size_t used = 0;

    for (int i = 0; choices[i] && used < ALLOWED_CHARS; i++) {
        const char *before = choices[i + 1] ? ", " : " or ";
        used += (size_t)snprintf(words + used, ALLOWED_CHARS - used, "%s%s", i > 0 ? before : "",
                                 choices[i]);
    }
    return words;
}

/* Describes the values of an option, for an error. */
static const char *allowed(const struct app_option *o, char words[ALLOWED_CHARS])
{
    switch (o->kind) {
    case OPTION_FLAG:
        return "no value";
    case OPTION_TEXT:
        return "a text";
    case OPTION_CHOICE:
        return one_of(o->choices, words);
    case OPTION_WHOLE:
    case OPTION_NUMBER:
        break;
    }
    if (o->multiple > 0)
        snprintf(words, ALLOWED_CHARS, "a multiple of %ld from %.10g to %.10g", o->multiple, o->low,
                 o->high);
    else
        snprintf(words, ALLOWED_CHARS, "a %s from %.10g to %.10g",
                 o->kind == OPTION_WHOLE ? "whole number" : "number", o->low, o->high);
    return words;
}

__attribute__((noreturn)) static void refuse(const struct app_option *o, const char *text)
{
    char words[ALLOWED_CHARS];

    fail("--%s takes %s, not '%s'", o->name, allowed(o, words), text);
}

static double number(const struct app_option *o, const char *text)
{
    char *end;
    double value = strtod(text, &end);

    if (end == text || *end || !(value >= o->low && value <= o->high))
        refuse(o, text);
    return value;
}

static long whole(const struct app_option *o, const char *text)
{
    double value = number(o, text);

    if (value != (double)(long)value || (o->multiple > 0 && (long)value % o->multiple != 0))
        refuse(o, text);
    return (long)value;
}

static int choice(const struct app_option *o, const char *text)
{
    for (int i = 0; o->choices[i]; i++)
        if (strcmp(o->choices[i], text) == 0)
            return i;
    refuse(o, text);
}

static void take_option(const struct app_option *o, const char *text)
{
    switch (o->kind) {
    case OPTION_FLAG:
        *o->target.flag = true;
        break;
    case OPTION_WHOLE:
        *o->target.whole = whole(o, text);
        break;
    case OPTION_NUMBER:
        *o->target.number = number(o, text);
        break;
    case OPTION_TEXT:
        *o->target.text = text;
        break;
    case OPTION_CHOICE:
        *o->target.choice = choice(o, text);
        break;
    }
}

static void print_default(const struct app_option *o)
{
    char words[ALLOWED_CHARS];
    size_t length = strlen(o->help);

    if (o->kind == OPTION_FLAG || (o->kind == OPTION_TEXT && !*o->target.text))
        return;
    printf(length > 0 && o->help[length - 1] == '\n' ? "(" : " (");
    if (o->kind == OPTION_WHOLE)
        printf("default %ld)", *o->target.whole);
    else if (o->kind == OPTION_NUMBER)
        printf("default %g)", *o->target.number);
    else if (o->kind == OPTION_TEXT)
        printf("default %s)", *o->target.text);
    else
        printf("%s; default %s)", allowed(o, words), o->choices[*o->target.choice]);
}

static void print_help(const struct app_option *options, size_t members)
{
    int width = 0;

    for (size_t i = 0; i < members; i++) {
        int wide = (int)(strlen(options[i].name) + strlen(options[i].value));
        width = wide > width ? wide : width;
    }
    printf("usage: mpirun -n P %s [option]...\n", program_invocation_short_name);
    for (size_t i = 0; i < members; i++) {
        const struct app_option *o = &options[i];

        printf("  --%s %-*s  ", o->name, width - (int)strlen(o->name), o->value);
        for (const char *c = o->help; *c; c++)
            *c == '\n' ? printf("\n%*s", width + 7, "") : putchar(*c);
        print_default(o);
        putchar('\n');
    }
}

/* Writes why getopt_long stopped at `argument`; code: its value of optopt. */
__attribute__((noreturn)) static void refuse_argument(const struct app_option *options, int first,
                                                      int code, const char *argument)
{
    const char *value = strchr(argument, '=');

    if (code >= first)
        refuse(&options[code - first], value ? value + 1 : "");
    if (code > 0)
        fail("'-%c' names no option; see --help", code);
    fail("'%s' names no option, or more than one; see --help", argument);
}

/* Reads the command line into the targets of the table. Returns false if only the help was wanted,
 * which the first rank has printed. */
static bool read_options(int argc, char **argv, const struct app_option *options, size_t members)
{
    enum { FIRST = 256 }; /* behind the letters that getopt_long returns itself */
    struct option known[MAX_OPTIONS + 2] = {{"help", 0, NULL, 'h'}};
    char words[ALLOWED_CHARS];
    int c, rank;

    if (members > MAX_OPTIONS)
        fail("more than %d options in a table", MAX_OPTIONS);
    for (size_t i = 0; i < members; i++)
        known[i + 1] =
            (struct option){options[i].name, options[i].kind != OPTION_FLAG, NULL, FIRST + (int)i};
    opterr = 0;
    while ((c = getopt_long(argc, argv, ":", known, NULL)) >= FIRST)
        take_option(&options[c - FIRST], optarg);
    if (c == ':')
        fail("--%s lacks its value, %s", options[optopt - FIRST].name,
             allowed(&options[optopt - FIRST], words));
    if (c == '?')
        refuse_argument(options, FIRST, optopt, argv[optind - 1]);
    if (c != 'h' && optind < argc)
        fail("'%s' is not an option; see --help", argv[optind]);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (c == 'h' && rank == 0)
        print_help(options, members);
    return c != 'h';
}

/* Returns true if all ranks hold the same bits. Collective. */
static bool replicas_agree(const float *weight, size_t weights)
{
    uint64_t hash = 0, both[2], top[2];

    for (size_t i = 0; i < weights; i++) {
        uint32_t bits;

        memcpy(&bits, &weight[i], sizeof bits);
        hash = (hash ^ bits) * 0x100000001b3u + (hash >> 47);
    }
    both[0] = hash;
    both[1] = ~hash;
    MPI_Allreduce(both, top, 2, MPI_UINT64_T, MPI_MAX, MPI_COMM_WORLD);
    return top[0] == ~top[1];
}

/* Opens the CSV on the first rank; path NULL: no log, and the functions below do nothing. */
static inline void log_open(struct log *log, const char *path, int rank)
{
    log->wanted = path != NULL;
    if (!path || rank != 0)
        return;
    log->file = fopen(path, "w");
    if (!log->file)
        fail("cannot write --log %s: %s", path, strerror(errno));
    fputs("step,epoch,seconds,allreduce_seconds,loss\n", log->file);
}

/* Writes a line on the first rank: the mean loss since the last line. */
static void log_line(const struct log *log, long step, long epoch, double seconds,
                     double allreduce_seconds, double loss)
{
    if (log->file)
        fprintf(log->file, "%ld,%ld,%.4f,%.4f,%.6f\n", step, epoch, seconds, allreduce_seconds,
                loss);
}

/* Logs after each step (counted from 1), with this rank's loss summed over its samples. Every
 * LOG_STEPS steps a line gives the mean over the samples of all ranks since the last line.
 * Collective. */
static inline void log_step(struct log *log, long step, long epoch, double seconds,
                            double allreduce_seconds, double loss, double samples)
{
    double sum[2] = {0};

    if (!log->wanted)
        return;
    log->loss[0] += loss;
    log->loss[1] += samples;
    if (step % LOG_STEPS != 0)
        return;
    MPI_Reduce(log->loss, sum, 2, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
    log->loss[0] = log->loss[1] = 0;
    log_line(log, step, epoch, seconds, allreduce_seconds, sum[0] / sum[1]);
}

static inline void log_close(struct log *log, const char *path)
{
    if (log->file && fclose(log->file) != 0)
        fail("cannot write --log %s: %s", path, strerror(errno));
}

#endif
