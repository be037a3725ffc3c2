/* libsparseshim for programs that know it: which buffers hold gradients, and what becomes of their
 * residuals. Optional; nothing needs to be linked.
 *
 *     #include <sparseshim.h>
 *
 *     sparseshim_register(gradient, n, 0);            once, on every rank
 *     MPI_Allreduce(MPI_IN_PLACE, gradient, n, MPI_FLOAT, MPI_SUM, comm);
 *
 * Every function returns SPARSESHIM_NOT_LOADED where the library is not preloaded, so that the same
 * binary runs with and without it. (The functions of the library are weak symbols. A program of
 * clang for x86-64 that is not position independent, -no-pie, never finds them.) Other results are
 * 0 or more for success and the codes below for failure; nothing is printed, nothing exits.
 *
 * A buffer is named by the address of its first element: the receive buffer of the allreduce. One
 * that serves several layers in turn has several tensors, numbered from 0 in order of their first
 * call, communicator by communicator; one that was not used in an eligible call has none yet.
 *
 * What is said here is said of this rank. Say the same on all ranks between the same two calls: a
 * tensor is sent as top-k only where all ranks agree in the vote of the call. Where they differ
 * nothing breaks: such calls are exact, and after eight of them the tensor stays exact until it is
 * registered again.
 *
 * Threads: as MPI_THREAD_SERIALIZED for each communicator. No call may be on its way in another
 * thread on a communicator and buffer that a function here is about (buffer NULL: on any).
 * Functions may be called before MPI_Init and have no effect after MPI_Finalize.
 */
#ifndef SPARSESHIM_H
#define SPARSESHIM_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum sparseshim_status {
    SPARSESHIM_OK = 0,
    SPARSESHIM_NOT_LOADED = -1,   /* the library is not preloaded */
    SPARSESHIM_NOT_ACTIVE = -2,   /* it is, but MODE is not topk, it passes everything through, or
                                     the job has ended */
    SPARSESHIM_BAD_ARGUMENT = -3, /* as said at each function */
    SPARSESHIM_NO_TENSOR = -4,    /* the buffer has no (such) tensor, or is not registered */
    SPARSESHIM_NO_RESIDUAL = -5,  /* the tensor keeps none: it is exact or still being watched */
    SPARSESHIM_NO_MEMORY = -6,
    SPARSESHIM_BUSY = -7 /* a call on the tensor is on its way; nothing was done to it */
};

enum sparseshim_state {
    SPARSESHIM_WATCHED,    /* not yet registered: its first calls are exact */
    SPARSESHIM_REGISTERED, /* sent as top-k with error feedback */
    SPARSESHIM_EXACT       /* exact, for the reason given */
};

/* A tensor. Densities and norms are this rank's. */
struct sparseshim_stats {
    uint64_t count;          /* elements */
    uint64_t calls;          /* on it, all */
    uint64_t topk_calls;     /* sent as top-k; densities are means over these, 0 without any */
    double density_asked;    /* entries asked for / count, WARMUP_STEPS included */
    double density_selected; /* entries selected / count */
    double residual_norm;    /* now, 0 without residual (read for this) */
    double input_norm;       /* of the last input sent as top-k, 0 without any */
    const char *reason;      /* why it is not registered, "" where it is; never freed */
    int state;               /* enum sparseshim_state */
    uint32_t element_size;   /* 4: float, 8: double */
};

#if defined(__GNUC__) && !defined(__clang__) && __GNUC__ >= 6
#define SPARSESHIM_WEAK __attribute__((weak, noplt)) /* noplt: found without -fPIE as well */
#else
#define SPARSESHIM_WEAK __attribute__((weak))
#endif

extern int sparseshim_1_register(const void *, uint64_t, double) SPARSESHIM_WEAK;
extern int sparseshim_1_unregister(const void *) SPARSESHIM_WEAK;
extern int sparseshim_1_set_density(const void *, double) SPARSESHIM_WEAK;
extern int sparseshim_1_tensors(const void *) SPARSESHIM_WEAK;
extern int sparseshim_1_stats(const void *, int, struct sparseshim_stats *, size_t) SPARSESHIM_WEAK;
extern int sparseshim_1_scale_residual(const void *, double) SPARSESHIM_WEAK;
extern int sparseshim_1_drop_residual(const void *) SPARSESHIM_WEAK;
extern int sparseshim_1_read_residual(const void *, int, void *, uint64_t) SPARSESHIM_WEAK;

/* Registers a receive buffer of `count` elements as a gradient, as an explicit REGISTER rule would:
 * no test of what it looks like, and REGISTER_AFTER (SPARSESHIM_REGISTER_AFTER=0: from its first
 * call that is not the first on its communicator). density: share of the entries to send, 0 <
 * density <= 1; 0: as the settings say. EXCLUDE, MIN_COUNT, the type and the operator still stand
 * against it. A buffer already registered with this count takes the new density; other counts are
 * entries of their own. Registering again a tensor that was found unfit gives it another chance.
 * BAD_ARGUMENT: buffer NULL, count 0, or another density. */
static inline int sparseshim_register(const void *buffer, uint64_t count, double density)
{
    return sparseshim_1_register ? sparseshim_1_register(buffer, count, density)
                                 : (int)SPARSESHIM_NOT_LOADED;
}

/* Takes back the registration, also one that was automatic: the tensors of the buffer are exact
 * from now on (with QUORUM, from their next call with all ranks on), and their residuals join those
 * calls. To be called before the buffer is freed:
 * another one at its address would inherit the registration. NO_TENSOR: it was not registered and
 * has no tensor. */
static inline int sparseshim_unregister(const void *buffer)
{
    return sparseshim_1_unregister ? sparseshim_1_unregister(buffer) : (int)SPARSESHIM_NOT_LOADED;
}

/* Sets the density of a registered buffer, or of one that has tensors, for the calls to come; 0: as
 * the settings say. BAD_ARGUMENT: as in sparseshim_register. */
static inline int sparseshim_set_density(const void *buffer, double density)
{
    return sparseshim_1_set_density ? sparseshim_1_set_density(buffer, density)
                                    : (int)SPARSESHIM_NOT_LOADED;
}

/* How many tensors the buffer has; NULL: how many there are. */
static inline int sparseshim_tensors(const void *buffer)
{
    return sparseshim_1_tensors ? sparseshim_1_tensors(buffer) : (int)SPARSESHIM_NOT_LOADED;
}

/* Fills *stats with tensor number `which` of the buffer (NULL: of all). */
static inline int sparseshim_stats(const void *buffer, int which, struct sparseshim_stats *stats)
{
    return sparseshim_1_stats ? sparseshim_1_stats(buffer, which, stats, sizeof *stats)
                              : (int)SPARSESHIM_NOT_LOADED;
}

/* Multiplies the residuals of the buffer's tensors (NULL: of all) by a finite factor. The residual
 * is in the unit of the buffer: where that holds the gradient times the learning rate, a rate that
 * changes from a to b wants the factor b / a. */
static inline int sparseshim_scale_residual(const void *buffer, double factor)
{
    return sparseshim_1_scale_residual ? sparseshim_1_scale_residual(buffer, factor)
                                       : (int)SPARSESHIM_NOT_LOADED;
}

/* Sets the residuals of the buffer's tensors (NULL: of all) to zero: what has not been sent is
 * lost, as is right when weights are restored from a checkpoint. */
static inline int sparseshim_drop_residual(const void *buffer)
{
    return sparseshim_1_drop_residual ? sparseshim_1_drop_residual(buffer)
                                      : (int)SPARSESHIM_NOT_LOADED;
}

/* Copies the residual of tensor number `which` of the buffer to values[0..count), floats or doubles
 * as the tensor has. BAD_ARGUMENT: count is not the tensor's. */
static inline int sparseshim_read_residual(const void *buffer, int which, void *values,
                                           uint64_t count)
{
    return sparseshim_1_read_residual ? sparseshim_1_read_residual(buffer, which, values, count)
                                      : (int)SPARSESHIM_NOT_LOADED;
}

#ifdef __cplusplus
}
#endif

#endif
