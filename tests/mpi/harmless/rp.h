/* Random programs: one program of a seed, what it draws, what it observes and what it has under
 * way.
 *
 * Each step has random streams of its own, one that all ranks share and one for each rank: a step
 * does the same whether those before it ran or not, as long as what it works on is there. So a
 * program can be cut short (--only) and single steps left out (--skip).
 *
 * What is observed is text in lines. The digest of a program is the sum of the hashes of its lines,
 * which the order of completions within a rank does not change; the same lines are what --trace
 * prints. A line holds only what MPI or MPICH makes certain: no address, no handle, no flag of a
 * test whose answer depends on time.
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

enum { RP_SLOTS = 10, RP_PENDING = 64, RP_KEYS = 3, RP_DEPTH = 16, RP_GUARD = 32 };

/* A communicator of the program. All ranks agree on which slots are used; a rank that is not a
 * member has MPI_COMM_NULL in its slot. */
struct rp_slot {
    bool used;
    bool borrowed; /* the world and self of the program: not freed */
    bool inter, cart;
    bool poisoned; /* has an attribute whose copy callback may fail on some ranks */
    MPI_Comm comm;
    int rank, size;         /* of the local group; size of the remote group where inter */
    MPI_Errhandler handler; /* as set last, or as inherited */
};

/* An operation of this rank that is not known to be complete. */
struct rp_pending {
    MPI_Request request;
    int step, serial; /* of the step that posted it */
    const char *what;
    bool message;             /* its status tells of a message */
    bool persistent;          /* inactive, not null, when complete */
    bool general;             /* a generalized request, still to be completed by the program */
    void *in, *out;           /* owned; NULL: none */
    size_t in_seen, out_seen; /* bytes that are observed at the end */
};

struct rp_key {
    bool used;
    int fails; /* 1 + the rank on which its copy callback fails; 0: none */
    int keyval;
    int copies, deletes, live;
};

/* One program, run by one thread. */
struct rp {
    uint64_t seed;
    uint64_t shared, own; /* random streams of the step */
    int rank, size;       /* in slot 0 */
    int step, serial;
    bool main;         /* in the main thread */
    const char *label; /* before each line; NULL: none */
    bool alone;        /* no other thread runs a program beside it */
    bool raised;       /* leave out what a program raised to MPI_THREAD_MULTIPLE cannot do */
    bool plain;        /* makes nothing that calls it back: operators, attributes */
    bool settles;      /* every step ends with nothing under way */
    int level;         /* of threads */
    bool sessions;     /* MPI_Init was not called */
    struct rp_slot slot[RP_SLOTS];
    struct rp_pending pending[RP_PENDING];
    int waiting;
    struct rp_key key[RP_KEYS];
    struct rp_key type_key;
    uint64_t digest;
    FILE *trace; /* NULL: lines are only counted into the digest */
};

/* What callbacks know of the thread they run in. */
struct rp_thread {
    struct rp *program;         /* NULL: not a thread of the program */
    const char *call[RP_DEPTH]; /* MPI calls this thread is in, innermost last */
    int depth;
    int in_operator;
    bool may_jump;
    jmp_buf jump;
};

static _Thread_local struct rp_thread rp_here;
static atomic_int rp_foreign;     /* callbacks that ran in a thread that is not the program's */
static atomic_int rp_outside;     /* ... or outside of any MPI call */
static atomic_long rp_operations; /* calls of user operators, and elements they combined */
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

/* Alike on all ranks. */
static inline int rp_draw(struct rp *p, int below)
{
    return rp_drawn(&p->shared, below);
}

/* Of this rank alone. */
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

/* Something observed that belongs to an earlier step. */
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

/* An MPI call by its name without MPI_; errors are observed. */
#define RP(name, ...) (rp_enter(#name), rp_left(MPI_##name(__VA_ARGS__)))

/* In a callback: notes where it does not run where the program's own code may. Returns the program
 * of this thread. */
static inline struct rp *rp_callback(void)
{
    if (!rp_here.program)
        atomic_fetch_add(&rp_foreign, 1);
    else if (rp_here.depth == 0)
        atomic_fetch_add(&rp_outside, 1);
    return rp_here.program;
}

/* The innermost call of this thread. */
static inline const char *rp_calling(void)
{
    return rp_here.depth > 0 && rp_here.depth <= RP_DEPTH ? rp_here.call[rp_here.depth - 1]
                                                          : "no call";
}

/* ---- buffers ---- */

/* With bytes behind the end that nobody may write. */
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
