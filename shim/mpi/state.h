/* Internal state of the shim, without the types of MPI: shared by entry points and the files that
 * include shim/mpi/mpi_names.h.
 *
 * Handles are uintptr_t here, because programs of any MPI library reach the entry points. Handles
 * become MPI_Comm and the like only after the ABI of the library is known (shim/mpi/abi.h).
 */
#ifndef SHIM_MPI_STATE_H
#define SHIM_MPI_STATE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "config/config.h"
#include "core/call/call.h"
#include "shim/mpi/abi.h"
#include "shim/mpi/site.h"
#include "shim/mpi/wrapped.h"

/* Version of the messages between ranks; part of the settings hash. Builds with more algorithms
 * plan differently. */
enum { SHIM_PROTOCOL = 18 * 64 + SS_ALGORITHMS };

struct shim_staged;

/* Nonblocking reductions that are checked for an operator of the program. */
enum shim_user_reduction {
    SHIM_USER_NONE, /* no operator of the program, or not a nonblocking reduction */
    SHIM_USER_IALLREDUCE,
    SHIM_USER_IREDUCE,
    SHIM_USER_ISCAN,
    SHIM_USER_IEXSCAN,
    SHIM_USER_IREDUCE_BLOCK, /* MPI_Ireduce_scatter_block */
    SHIM_USER_IREDUCE_SCATTER
};

/* An intercepted call with its arguments. */
struct shim_call {
    const void *send;
    void *recv;
    int64_t count;  /* reduce_scatter and allgather: elements of the receive buffer, per rank; of
                     * the first rank in an MPI_Reduce_scatter */
    uintptr_t type; /* type of the receive buffer */
    uintptr_t op;
    uintptr_t comm;
    bool large;       /* a name that ends in _c */
    bool pmpi;        /* a name that begins with PMPI_: goes on to shim.pmpi */
    const void *site; /* return address of the call in the application */
    enum ss_kind kind;
    enum shim_user_reduction user;
    int root; /* reduce */
    /* Lists of int, or of int64_t if `large`: counts of an allgatherv, an MPI_Reduce_scatter and
     * SHIM_USER_IREDUCE_SCATTER, displs of an allgatherv. */
    const void *counts, *displs;
    bool listed; /* an allgatherv or MPI_Reduce_scatter, also if the program's list is NULL */
    int64_t send_count; /* allgather */
    uintptr_t send_type;
    bool made;                  /* by the MPI library, with success */
    bool on_device;             /* nonblocking: a buffer is in device memory */
    struct shim_staged *staged; /* of buffers in device memory, or NULL; owned by a nonblocking
                                 * operation */
    struct shim_small *small;   /* where calls are timed: is set if the call was only too small */
};

struct shim_small {
    uint64_t count, bytes; /* elements, 0: the call was not too small; bytes of its buffer */
};

enum shim_phase {
    SHIM_NEW,   /* functions and settings are not known yet */
    SHIM_READY, /* functions and settings are known */
    SHIM_PASS   /* every call goes on untouched until the end of the process */
};

struct shim_comm;
struct shim_task;

/* Lists of communicators (shim/comm/lists.h). */
enum shim_list {
    SHIM_ACTIVE,  /* communicators with calls that the thread may step */
    SHIM_PARTIAL, /* communicators with partial calls, in which the thread takes part */
    SHIM_LISTS
};

/* A type and an operator that the MPI library accepts together, as it has answered
 * (shim_operation_asked). */
struct shim_pair {
    uintptr_t type, op;
    enum ss_type found;
};

/* The thread that moves nonblocking calls (shim/comm/progress.c). */
struct shim_watch {
    pthread_mutex_t lock;
    pthread_cond_t called;
    pthread_t thread;
    bool started, refused; /* the system has refused a thread */
    bool asleep, stop;
    bool runs;          /* the thread is running */
    double began;       /* time when it started */
    double used, lived; /* processor seconds and seconds of the threads that have ended */
    atomic_bool ending;
    /* the thread must be started or called before the next call can move */
    atomic_bool wanted;
    atomic_int inside; /* threads of the shim that are inside MPI */
    atomic_int stops;  /* calls of shim_progress_stop less those of shim_progress_resume */
    atomic_bool shut;  /* shim_progress_keep_out was called */
    atomic_int environment_sums; /* calls in flight with a rounding mode or traps of their own */
    _Atomic ss_fpenv rounding;   /* rounding mode of the latest such call */
    /* exceptions of core/base/fpenv.h that MPI has raised in their sums */
    atomic_uint raised;
    atomic_uint_fast64_t rounds; /* rounds of progress made by any thread */
};

enum { SHIM_BUCKETS = 1024, SHIM_SPARES = 8, SHIM_COSTS = 8, SHIM_KEYVALS = 32 };
enum { SHIM_RANKS_BITS = 17 }; /* handles of 4 bytes and addresses of x86-64 fit beside them */
#define SHIM_MIXED UINT64_MAX
enum { SHIM_PAIRS = 16 };

/* Costs of the network, and the ranks they were measured over. */
struct shim_costs {
    struct ss_costs costs;
    uintptr_t group;    /* an MPI_Group */
    uint64_t last_used; /* by shim.costs.clock; 0 = empty */
};

/* Reading of the clocks: at time `at` of this rank's clock, the first rank's clock was `offset`
 * ahead; seconds. */
struct shim_clock_sample {
    double at, offset, uncertainty;
};
enum { SHIM_CLOCK_SAMPLES = 2 };

/* Work that a step leaves to the holder of the communicator's lock. */
struct shim_left {
    struct shim_task *finished; /* to be delivered */
};

/* Functions of higher folders that lower ones call; set before the first eligible call. */
struct shim_hooks {
    void (*last_comm_gone)(void); /* a Sessions-only program's; shim_job_pause */
    bool (*step)(struct shim_comm *comm, struct shim_left *left); /* shim_task_step */
    void (*leave)(const struct shim_left *left);                  /* shim_task_leave */
    void (*clock_known)(void);                                    /* shim_trace_flush */
};

/* Read by every call. Calls of fewer than `count` elements go straight to the next function and are
 * not counted. INT64_MIN until the first call has set `next`, and if calls are counted; INT64_MAX
 * once everything passes. Set by shim/entry/prepare.c and shim/job. */
struct shim_fast {
    _Atomic int64_t count;
    /* At most min_count and least_named. INT64_MAX also if no nonblocking call is taken over. */
    _Atomic int64_t nonblocking;
    /* Bytes of a slice of MPI_COMM_WORLD from which all slices have MIN_COUNT words of 4 bytes. 0
     * until the size is known, without MPI_COMM_WORLD, and if calls are counted. */
    _Atomic uint64_t slice;
};

/* The process: who it is, and how far MPI has come. Set by shim/entry (prepare.c, thread_level.c)
 * and shim/job. */
struct shim_process {
    atomic_int phase; /* enum shim_phase */
    pid_t pid;        /* process that prepared the shim; a forked child passes everything */
    const atomic_bool
        *process_page;   /* true in that process, false in its children; NULL: no such page */
    atomic_bool started; /* the part of the job's beginning that needs MPI is done */
    pthread_mutex_t start_lock; /* held while preparing and starting; no callback of MPI takes it */
    int64_t start_second;       /* second of the steady clock from which shim_now counts */
    int rank; /* in the world; in the first communicator where there is none; -1: not known */
    int ranks;
    uint64_t salt; /* distinguishes this process from others */
    /* number that all ranks of the world have agreed on (shim/comm/first_exchange.c); 0: none yet
     */
    _Atomic uint64_t job;
    size_t memory;    /* bytes of the host; 0: unknown */
    bool left_out;    /* PROGRAMS excludes this program */
    bool sessions;    /* no MPI_Init was called: the world does not exist */
    int thread_level; /* if it was raised: level reported to the application; -1: not raised */
    atomic_bool finalizing; /* inside of MPI_Finalize */
    atomic_bool finalized;
};

/* The MPI library as the shim knows it. Set by shim/entry/prepare.c, shim/comm/ask.c and
 * shim/mpi/errors.c. */
struct shim_library {
    char text[256];    /* first line of its version */
    bool hides_errors; /* it returns MPI_SUCCESS after a handler: MPICH 5 */
    int (*comm_size)(uintptr_t comm, int *size); /* PMPI_Comm_size */
    uintptr_t single;                            /* communicator of this rank alone; 0: not made */
    pthread_mutex_t single_lock;
    struct shim_pair pairs[SHIM_PAIRS]; /* under single_lock; type 0: none */
    unsigned next_pair;
    int error_codes[9]; /* MPI codes of core's statuses, 0 = not made */
    int error_class;
};

/* Problems of the options, and messages that are logged once. */
struct shim_problems {
    char rules[2][256];           /* problems of REGISTER and EXCLUDE, "": none */
    atomic_bool objects;          /* STRICT=on and a bad value: raised at the first eligible call */
    atomic_bool mismatch_logged;  /* ranks have other options */
    atomic_bool host_only_logged; /* an option needs host buffers */
    atomic_bool partial_off_logged; /* QUORUM is off */
};

/* Written by shim/job. */
struct shim_reports {
    pthread_mutex_t lock;    /* a leaf, except for the locks of statistics and log */
    _Atomic double at;       /* time of the next interim report; INFINITY: none */
    atomic_bool decided;     /* the first interim report with a decided call is written */
    atomic_bool lost;        /* a warning said that the report's file cannot be written */
    atomic_bool exit_hooked; /* sessions: the text of the report comes at exit */
    int64_t start_unix;
    /* working directory at the first call, for REPORT_DIR; "": unknown */
    char start_directory[2048];
};

/* Written by shim/mpi/log.c. */
struct shim_logged {
    int fd; /* -1: not open */
    pthread_mutex_t lock;
};

/* The communicators: owned by shim/comm. */
struct shim_table {
    /* A leaf: no MPI call and no other lock under it, since the delete callback takes it inside
     * MPI. */
    pthread_mutex_t lock;
    struct shim_comm *buckets[SHIM_BUCKETS];
    /* The content of each bucket, for readers without the lock: calls on a communicator come in an
     * order that the program gives, so that they see an entry of an earlier call. 0: no entry. One
     * entry whose communicator the program may use: its handle << SHIM_RANKS_BITS | its ranks.
     * SHIM_MIXED: look under the lock. */
    _Atomic uint64_t content[SHIM_BUCKETS];
    size_t known;                 /* entries in the buckets */
    uint64_t exchanges;           /* communicators that have had their first exchange */
    atomic_uint_fast64_t numbers; /* first exchanges that this process has led */
    /* private communicators, by first exchanges in a call and where the program made them */
    atomic_int privates, privates_at_creation;
    /* MPI_Init has made its first exchange; a profiler's MPI_Init may call PMPI_Init */
    atomic_bool world_exchanged;
    /* communicators of MPI_Comm_create_group and MPI_Intercomm_merge */
    atomic_uint made_by_some;
    atomic_bool spare_used[SHIM_SPARES]; /* entries for times without memory (shim/comm/comm.c) */
    /* residuals were freed with a communicator before the end of the job */
    atomic_bool residuals_freed;
    atomic_bool freed_logged;            /* a warning says so */
    _Atomic(struct shim_comm *) dropped; /* not in the table; private communicators to be freed */
    _Atomic(struct shim_comm *) ended;   /* ended by MPI_Finalize; memory to be freed afterwards */
    struct shim_comm *lists[SHIM_LISTS]; /* under the lock */
    atomic_int list_count[SHIM_LISTS];
};

/* Nonblocking calls: owned by shim/task/request.c; the first four are set as the job starts. */
struct shim_requests {
    bool taken;     /* nonblocking calls are taken over */
    bool by_thread; /* PROGRESS=thread */
    /* the MPI library does not poll requests of this library: MPI_Wait and the like do */
    bool polled;
    bool partial;           /* this rank can serve partial calls */
    atomic_bool made;       /* a nonblocking call was taken over */
    struct shim_task *list; /* requests that the application holds */
    atomic_int count;
    pthread_mutex_t lock; /* a leaf */
};

/* Code of the program that MPI runs: owned by shim/entry/callbacks.c and operators.c. */
struct shim_callbacks {
    atomic_bool any;           /* the program has some; this rank votes so */
    atomic_bool operators;     /* the program has an operator of its own */
    atomic_int user_waiting;   /* reductions with such an operator that are not posted yet */
    int keyvals[SHIM_KEYVALS]; /* attribute keys with a delete function of the program */
    atomic_int keyval_count;
    /* an attribute of such a key is on a communicator that can be freed */
    atomic_bool deleters;
};

/* Costs measured over several groups; the entry unused for longest is replaced. Owned by
 * shim/comm/group_costs.c. */
struct shim_group_costs {
    pthread_mutex_t lock;
    struct shim_costs slots[SHIM_COSTS];
    uint64_t clock;
};

struct shim_state {
    _Alignas(64) struct shim_fast fast;
    struct shim_next next;
    /* The MPI library's PMPI_X of each; where it lacks a name of MPI 4, as in `next`. */
    struct shim_next pmpi;
    _Alignas(64) struct shim_process process;
    atomic_bool off; /* MPI_Pcontrol(0) */
    struct shim_hooks hooks;

    /* The user's options, known once the shim is prepared. */
    struct cfg *cfg;
    struct cfg_options options;
    int64_t min_count;
    int64_t least_named; /* MERGE: the least count, 1 or more, that a rule of REGISTER names;
                            INT64_MAX: none */
    struct ss_settings settings;
    struct ss_registry registry; /* buffers the application registered */
    struct shim_problems problems;

    struct ss_mem mem;
    struct ss_stats stats;
    struct shim_library library;
    struct shim_reports report;
    struct shim_logged log;
    /* TRACE: the sink is settings.trace. */
    struct {
        struct shim_clock_sample sample[SHIM_CLOCK_SAMPLES];
        atomic_int samples;
        atomic_bool tried; /* sessions: the first sample was taken or tried */
    } clock;
    struct shim_table table;
    struct shim_requests requests;
    struct shim_callbacks callbacks;
    struct shim_watch watch;
    struct shim_sites sites; /* its lock is a leaf */
    struct shim_group_costs costs;
};

/* Hidden, so that the compiler accesses them without an indirection. */
extern __attribute__((visibility("hidden"))) struct shim_state shim;

/* True in the thread that moves nonblocking calls. */
extern __attribute__((visibility("hidden"))) _Thread_local bool shim_ours;

/* Returns true if this thread is to stay out of MPI (shim/comm/progress.h) and must leave. */
static inline bool shim_is_out(void)
{
    return shim_ours && atomic_load(&shim.watch.stops) > 0;
}

static inline size_t shim_bucket_of(uintptr_t comm)
{
    return ((uint32_t)comm * 2654435761u) >> 22; /* SHIM_BUCKETS = 2^10 */
}

/* Returns the content of a communicator's bucket; 0 if the table has no entry for it. */
static inline uint64_t shim_content_of(uintptr_t comm)
{
    return atomic_load_explicit(&shim.table.content[shim_bucket_of(comm)], memory_order_relaxed);
}

/* Returns the number of ranks of a communicator that is alone in its bucket of this content, or 0.
 */
static inline uint64_t shim_ranks_in(uint64_t content, uintptr_t comm)
{
    return content >> SHIM_RANKS_BITS == comm ? content & (((uint64_t)1 << SHIM_RANKS_BITS) - 1)
                                              : 0;
}

/* shim/mpi/next.c: calls the next function of a blocking call. */
int shim_pass(const struct shim_call *call);
/* Calls the next function of a nonblocking call. */
int shim_ipass(const struct shim_call *call, void *request);

/* Records this process as the one that prepares the shim. */
void shim_note_process(void);
/* Returns true in that process, and false in a forked child. Makes no system call if the kernel
 * empties a page for children. */
bool shim_is_this_process(void);

/* Returns seconds since the first intercepted call on a steady clock, in steps of 2^-28 s. Up to
 * 2^25 s differences and sums are exact: they raise no floating-point exception and do not depend
 * on the application's rounding mode. Other computations need core/base/fpenv.h. */
double shim_now(void);

/* Adds seconds spent in calls of nonblocking operations, for the report. */
void shim_stats_time(double seconds);

/* Returns true if a report or a log needs the number of calls that pass. */
bool shim_calls_are_counted(void);
/* Makes nonblocking calls pass at once if calls are not counted. Called when none will be taken
 * over. */
void shim_requests_pass(void);

/* Returns true if this process will write a report. */
static inline bool shim_report_is_due(void)
{
    return shim.options.report == CFG_REPORT_ALL ||
           (shim.options.report != CFG_REPORT_OFF && shim.process.rank == 0);
}

#endif
