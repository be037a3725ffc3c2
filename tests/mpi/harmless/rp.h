/* Random programs: the program of a seed, its random numbers, its observations, and its operations
 * in flight.
 *
 * Each step has random streams of its own, one that all ranks share and one per rank: a step does
 * the same whether the steps before it ran or not, as long as the objects it uses exist. A program
 * can thus be cut short (--only), and single steps left out (--skip).
 */
#ifndef TESTS_MPI_RP_H
#define TESTS_MPI_RP_H

#include <mpi.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/mpi/support/input.h"

enum {
    RP_SLOTS = 10,
    RP_CROWD = 70,
    RP_PENDING = 64,
    RP_KEYS = 3,
    RP_DEPTH = 16,
    RP_GUARD = 32,
    RP_MOST_RANKS = 64
};

/* Open MPI (4.1, 5.0) crashes if a communicator, or an operator or datatype of the program, is
 * freed with a collective in flight that uses it. It hangs in gathers whose ranks send different
 * datatypes, and if two threads make communicators. Its programs do none of this. */
#ifdef OPEN_MPI
enum { RP_OPEN_MPI = 1 };
#else
enum { RP_OPEN_MPI = 0 };
#endif

/* A communicator of the program. All ranks agree on the slots in use; a rank that is not a member
 * has MPI_COMM_NULL in its slot. */
struct rp_slot {
    bool used;
    bool borrowed; /* world and self of the program are not freed */
    bool inter, cart;
    bool poisoned; /* has an attribute whose copy callback may fail on some ranks */
    MPI_Comm comm;
    int rank, size;         /* in the local group; remote: size of the remote group if inter */
    MPI_Errhandler handler; /* handler set last, or inherited */
};

/* An operation of this rank that is not known to be complete. */
struct rp_pending {
    MPI_Request request;
    int step, serial; /* step that posted it, and number within the step */
    const char *what;
    bool message;             /* its status describes a message */
    bool persistent;          /* inactive, not null, when complete */
    bool general;             /* a generalized request that the program has still to complete */
    void *in, *out;           /* owned; NULL: none */
    size_t in_seen, out_seen; /* bytes that are observed at the end */
};

struct rp_key {
    bool used;
    int fails; /* 1 + rank on which the copy callback fails; 0: none */
    int keyval;
    int copies, deletes, live;
};

/* A program, run by one thread. */
struct rp {
    uint64_t seed;
    uint64_t shared, own; /* random streams of the step */
    int rank, size;       /* in slot 0 */
    int step, serial;
    bool main;         /* in the main thread */
    const char *label; /* prefix of each line; NULL: none */
    bool alone;        /* no other thread runs a program at the same time */
    /* leaves out calls that a program raised to MPI_THREAD_MULTIPLE cannot make */
    bool raised;
    bool plain;    /* makes nothing that calls it back: no operators, no attributes */
    bool settles;  /* every step ends with nothing in flight */
    int level;     /* thread level */
    bool sessions; /* MPI_Init was not called */
    struct rp_slot slot[RP_SLOTS + RP_CROWD]; /* behind RP_SLOTS: a crowd */
    int crowd;                                /* slots of it in use */
    struct rp_pending pending[RP_PENDING];
    int waiting;
    struct rp_key key[RP_KEYS];
    struct rp_key type_key;
    uint64_t digest;
    FILE *trace; /* NULL: lines are only counted into the digest */
};

/* The thread that a callback runs in. */
struct rp_thread {
    struct rp *program;         /* NULL: not a thread of the program */
    const char *call[RP_DEPTH]; /* MPI calls that the thread is in, innermost last */
    int depth;
    int in_operator;
    bool may_jump;
    jmp_buf jump;
};

static _Thread_local struct rp_thread rp_here;
static atomic_int rp_foreign;     /* callbacks in threads that are not the program's */
static atomic_int rp_outside;     /* callbacks outside of any MPI call */
static atomic_long rp_operations; /* calls of user operators, and elements that they combined */
static atomic_long rp_combined;

/* ---- random streams ---- */

static inline uint64_t rp_word(uint64_t *state)
{
    *state = input_word(*state, 1, 1);
    return *state;
}

static inline int rp_drawn(uint64_t *state, int below)
{
    return (int)((rp_word(state) >> 33) % (uint64_t)below);
}

/* Draws a number that is equal on all ranks. */
static inline int rp_draw(struct rp *p, int below)
{
    return rp_drawn(&p->shared, below);
}

/* Draws a number of this rank alone. */
static inline int rp_draw_own(struct rp *p, int below)
{
    return rp_drawn(&p->own, below);
}

/* ---- observations ---- */

static inline uint64_t rp_hash(const void *bytes, size_t n)
{
    const unsigned char *b = bytes;
    uint64_t h = 0xcbf29ce484222325u;

    for (; n >= 8; n -= 8, b += 8) {
        uint64_t word;
        memcpy(&word, b, 8);
        h = (h ^ word) * 0x9e3779b97f4a7c15u;
        h ^= h >> 29;
    }
    for (; n > 0; n--, b++)
        h = (h ^ *b) * 0x100000001b3u;
    return h ^ (h >> 32);
}

static inline void rp_line(struct rp *p, int step, const char *format, va_list args)
{
    char text[300];
    int used = snprintf(text, sizeof text, "%d: %s", step, p->label ? p->label : "");

    vsnprintf(text + used, sizeof text - (size_t)used, format, args);
    p->digest += input_word(rp_hash(text, strlen(text)), 0, 0);
    if (p->trace) {
        fprintf(p->trace, "  %s\n", text);
        fflush(p->trace);
    }
}

/* Records an observation that belongs to an earlier step. */
__attribute__((format(printf, 3, 4))) static inline void rp_note_at(struct rp *p, int step,
                                                                    const char *format, ...)
{
    va_list args;

    va_start(args, format);
    rp_line(p, step, format, args);
    va_end(args);
}

__attribute__((format(printf, 2, 3))) static inline void rp_note(struct rp *p, const char *format,
                                                                 ...)
{
    va_list args;

    va_start(args, format);
    rp_line(p, p->step, format, args);
    va_end(args);
}

static inline int rp_class(int code)
{
    int class = -1;

    return code == MPI_SUCCESS || MPI_Error_class(code, &class) != MPI_SUCCESS ? -1 : class;
}

/* ---- calls ---- */

static inline void rp_enter(const char *name)
{
    if (rp_here.depth < RP_DEPTH)
        rp_here.call[rp_here.depth] = name;
    rp_here.depth++;
}

static inline int rp_left(int err)
{
    const char *name = rp_here.call[--rp_here.depth];

    if (err != MPI_SUCCESS && rp_here.program)
        rp_note(rp_here.program, "%s gives an error of class %d", name, rp_class(err));
    return err;
}

/* Makes an MPI call, named without MPI_; errors are observed. */
#define RP(name, ...) (rp_enter(#name), rp_left(MPI_##name(__VA_ARGS__)))

/* The MPI library may run the operator of one thread's request, or the callback of its datatype, in
 * another thread's call, ordered by a lock that ThreadSanitizer does not see: it watches none of
 * them. */
#define RP_RUN_BY_MPI __attribute__((no_sanitize("thread")))

/* Called in a callback: records it if it runs where the program's own code may not. Returns the
 * program of the thread. */
static inline struct rp *rp_callback(void)
{
    if (!rp_here.program)
        atomic_fetch_add(&rp_foreign, 1);
    else if (rp_here.depth == 0)
        atomic_fetch_add(&rp_outside, 1);
    return rp_here.program;
}

/* Returns the innermost call of this thread. */
static inline const char *rp_calling(void)
{
    return rp_here.depth > 0 && rp_here.depth <= RP_DEPTH ? rp_here.call[rp_here.depth - 1]
                                                          : "no call";
}

/* ---- buffers ---- */

/* Allocates a buffer with guard bytes behind its end. */
static inline void *rp_alloc(size_t bytes)
{
    char *memory = input_alloc(bytes + RP_GUARD);

    memset(memory, 0x5a, bytes + RP_GUARD);
    return memory;
}

static inline uint64_t rp_contents(const void *buffer, size_t seen)
{
    return buffer ? rp_hash(buffer, seen) : 0;
}

#endif
