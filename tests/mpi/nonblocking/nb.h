/* Shared by the programs of nonblocking allreduces: calls whose inputs every rank can compute for
 * every other rank, which are posted, and checked when complete; and a deadline that names the
 * place of a hang.
 *
 * Inputs depend on the seed and on the rank in the communicator, and are small whole numbers: sums
 * are exact in any order, so that results are compared bit for bit.
 */
#ifndef TESTS_MPI_NB_H
#define TESTS_MPI_NB_H

#include "tests/mpi/support/input.h"

#include <errno.h>
#include <mpi.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum nb_input { NB_SPARSE, NB_DENSE, NB_ZERO, NB_INPUTS };

static const char *const nb_input_names[NB_INPUTS] = {"sparse", "dense", "zero"};

/* An allreduce of this rank. nb_make fills it in; its buffers belong to it until nb_drop. */
struct nb_call {
    MPI_Request request;
    MPI_Datatype type; /* MPI_FLOAT, MPI_DOUBLE or MPI_INT */
    enum nb_input input;
    uint64_t seed;
    int count;
    int rank, size; /* in the communicator, which may be freed before the call completes */
    bool in_place;
    void *in; /* NULL: in place */
    void *out;
};

static inline int nb_value(enum nb_input input, uint64_t seed, int rank, uint64_t position)
{
    uint64_t word = input_word(seed, rank, position);
    int value = (int)(word >> 32 & 63) - 31;

    if (input == NB_ZERO || (input == NB_SPARSE && word % 64 != 0))
        return 0;
    return value != 0 ? value : 32;
}

static inline size_t nb_type_size(MPI_Datatype type)
{
    return type == MPI_DOUBLE ? sizeof(double) : 4;
}

static inline const char *nb_type_name(MPI_Datatype type)
{
    return type == MPI_DOUBLE ? "double" : type == MPI_INT ? "int" : "float";
}

static inline void nb_store(void *out, MPI_Datatype type, int i, int value)
{
    if (type == MPI_DOUBLE)
        ((double *)out)[i] = value;
    else if (type == MPI_INT)
        ((int *)out)[i] = value;
    else
        ((float *)out)[i] = (float)value;
}

static inline double nb_load(const void *from, MPI_Datatype type, int i)
{
    if (type == MPI_DOUBLE)
        return ((const double *)from)[i];
    return type == MPI_INT ? ((const int *)from)[i] : (double)((const float *)from)[i];
}

/* Makes a call on comm, ready to be posted. */
static inline struct nb_call nb_make(MPI_Comm comm, MPI_Datatype type, int count,
                                     enum nb_input input, bool in_place, uint64_t seed)
{
    struct nb_call call = {.request = MPI_REQUEST_NULL,
                           .type = type,
                           .input = input,
                           .seed = seed,
                           .count = count,
                           .in_place = in_place};
    size_t bytes = (size_t)count * nb_type_size(type);

    MPI_Comm_rank(comm, &call.rank);
    MPI_Comm_size(comm, &call.size);
    call.out = input_alloc(bytes);
    memset(call.out, 0x55, bytes);
    if (!in_place)
        call.in = input_alloc(bytes);
    for (int i = 0; i < count; i++)
        nb_store(in_place ? call.out : call.in, type, i,
                 nb_value(input, seed, call.rank, (uint64_t)i));
    return call;
}

/* Posts a call. Every fifth call uses MPI_Count, if the library has it. */
static inline int nb_post(struct nb_call *call, MPI_Comm comm)
{
    const void *in = call->in_place ? MPI_IN_PLACE : call->in;

#if MPI_VERSION >= 4
    if (call->seed % 5 == 0)
        return MPI_Iallreduce_c(in, call->out, call->count, call->type, MPI_SUM, comm,
                                &call->request);
#endif
    return MPI_Iallreduce(in, call->out, call->count, call->type, MPI_SUM, comm, &call->request);
}

static inline int nb_reduce(struct nb_call *call, MPI_Comm comm)
{
    const void *in = call->in_place ? MPI_IN_PLACE : call->in;

#if MPI_VERSION >= 4
    if (call->seed % 5 == 0)
        return MPI_Allreduce_c(in, call->out, call->count, call->type, MPI_SUM, comm);
#endif
    return MPI_Allreduce(in, call->out, call->count, call->type, MPI_SUM, comm);
}

/* Frees the buffers of a call that is complete. */
static inline void nb_drop(struct nb_call *call)
{
    free(call->in);
    free(call->out);
    call->in = call->out = NULL;
}

/* Returns true if a complete call gave the sum and left its input unchanged; otherwise writes a
 * line to stderr. */
static inline bool nb_right(const struct nb_call *call, const char *what)
{
    for (int i = 0; i < call->count; i++) {
        int sum = 0;
        double got = nb_load(call->out, call->type, i);

        for (int r = 0; r < call->size; r++)
            sum += nb_value(call->input, call->seed, r, (uint64_t)i);
        if (got != (double)sum) {
            fprintf(stderr,
                    "%s: rank %d of %d, %d %s, %s input, seed %llu: entry %d is %g, not %d\n", what,
                    call->rank, call->size, call->count, nb_type_name(call->type),
                    nb_input_names[call->input], (unsigned long long)call->seed, i, got, sum);
            return false;
        }
        if (call->in && nb_load(call->in, call->type, i) !=
                            (double)nb_value(call->input, call->seed, call->rank, (uint64_t)i)) {
            fprintf(stderr, "%s: rank %d of %d, seed %llu: entry %d of the input was changed\n",
                    what, call->rank, call->size, (unsigned long long)call->seed, i);
            return false;
        }
    }
    return true;
}

/* Checks a call with nb_right and frees it. */
static inline bool nb_finish(struct nb_call *call, const char *what)
{
    bool right = call->request == MPI_REQUEST_NULL && nb_right(call, what);

    if (call->request != MPI_REQUEST_NULL)
        fprintf(stderr, "%s: rank %d, seed %llu: the request is not MPI_REQUEST_NULL\n", what,
                call->rank, (unsigned long long)call->seed);
    nb_drop(call);
    return right;
}

/* Makes MPI_Waitall without statuses, whose constant gcc takes for an array that is too small. */
static inline int nb_wait_all(int requests, MPI_Request *request)
{
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpragmas"
#pragma GCC diagnostic ignored "-Wunknown-warning-option"
#pragma GCC diagnostic ignored "-Wstringop-overflow"
    return MPI_Waitall(requests, request, MPI_STATUSES_IGNORE);
#pragma GCC diagnostic pop
}

/* Part of the program, for the message at its deadline. */
static char nb_place[200];

static void nb_too_late(int signal_number)
{
    static const char says[] = "hangs in: ";
    ssize_t ignored = write(STDERR_FILENO, says, sizeof says - 1);

    (void)signal_number;
    ignored += write(STDERR_FILENO, nb_place, strlen(nb_place));
    ignored += write(STDERR_FILENO, "\n", 1);
    _exit(ignored > 0 ? 99 : 98);
}

/* Names the next part of the program and its deadline in seconds; 0: no deadline. */
__attribute__((format(printf, 2, 3))) static inline void nb_within(unsigned seconds,
                                                                   const char *format, ...)
{
    va_list args;
    int rank;
    size_t used;

    alarm(0);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    used = (size_t)snprintf(nb_place, sizeof nb_place, "rank %d: ", rank);
    va_start(args, format);
    vsnprintf(nb_place + used, sizeof nb_place - used, format, args);
    va_end(args);
    signal(SIGALRM, nb_too_late);
    alarm(seconds);
}

/* Spends time in this rank's own code, outside MPI. */
static inline void nb_user_code(double seconds)
{
    struct timespec left = {(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9)};

    while (nanosleep(&left, &left) != 0 && errno == EINTR)
        continue;
}

/* Returns the value of "--name N" among the arguments, or the default. */
static inline long nb_option(int argc, char **argv, const char *name, long otherwise)
{
    for (int i = 1; i + 1 < argc; i++) {
        char *end;
        long value = strtol(argv[i + 1], &end, 10);

        if (strcmp(argv[i], name) != 0)
            continue;
        if (*end == '\0' && end != argv[i + 1] && value >= 0)
            return value;
        fprintf(stderr, "%s takes a whole number, not '%s'\n", name, argv[i + 1]);
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    return otherwise;
}

#endif
