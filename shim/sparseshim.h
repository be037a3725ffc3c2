/* libsparseshim for programs that know it: the program names the buffers that hold gradients, and
 * changes or reads their residuals. Optional; nothing needs to be linked.
 *
 *     #include <sparseshim.h>
 *
 *     sparseshim_register(gradient, n, 0);            once, on every rank
 *     MPI_Allreduce(MPI_IN_PLACE, gradient, n, MPI_FLOAT, MPI_SUM, comm);
 *
 * Every function returns SPARSESHIM_NOT_LOADED if the library is not preloaded, so that the same
 * binary runs with and without it. (The functions of the library are weak symbols. A program
 * compiled by clang for x86-64 with -no-pie never finds them.) Results of 0 or more mean success,
 * the codes below failure. No function prints or exits.
 *
 * The name of a buffer is the address of its first element: the receive buffer of the allreduce. A
 * buffer that serves several layers in turn has several tensors, numbered from 0 in order of their
 * first call, communicator by communicator. A buffer that was not used in an eligible call has no
 * tensor yet.
 *
 * The functions concern this rank alone. Call them on all ranks between the same two calls: a
 * tensor is sent as top-k only if all ranks agree in the vote of the call. If ranks differ, such
 * calls are exact, and after eight of them the tensor stays exact until it is registered again.
 *
 * Threads: as MPI_THREAD_SERIALIZED for each communicator. While a function concerns a buffer
 * (NULL: any buffer), no other thread may be in a call on that buffer. Functions may be called
 * before MPI_Init and have no effect after MPI_Finalize.
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
    SPARSESHIM_NOT_LOADED = -1, /* the library is not preloaded */
    /* the library is preloaded, but MODE is not topk, every call passes, or the job has ended */
    SPARSESHIM_NOT_ACTIVE = -2,
    SPARSESHIM_BAD_ARGUMENT = -3, /* see each function */
    SPARSESHIM_NO_TENSOR = -4,    /* the buffer has no such tensor, or is not registered */
    SPARSESHIM_NO_RESIDUAL = -5,  /* the tensor has no residual: it is exact or watched */
    SPARSESHIM_NO_MEMORY = -6,
    SPARSESHIM_BUSY = -7 /* the tensor is in a call; nothing was done */
};

enum sparseshim_state {
    SPARSESHIM_WATCHED,    /* not registered yet: its first calls are exact */
    SPARSESHIM_REGISTERED, /* sent as top-k with error feedback */
    SPARSESHIM_EXACT       /* exact; `reason` says why */
};

/* Statistics of a tensor. Densities and norms are this rank's. */
struct sparseshim_stats {
    uint64_t count; /* elements */
    uint64_t calls; /* all calls on it */
    /* calls sent as top-k; densities are means over these, 0 without any */
    uint64_t topk_calls;
    double density_asked;    /* entries asked for / count, WARMUP_STEPS included */
    double density_selected; /* entries selected / count */
    /* norm of the current residual, 0 without one; computed by this call */
    double residual_norm;
    double input_norm;     /* norm of the last input sent as top-k, 0 without any */
    const char *reason;    /* reason for not being registered, "" if it is; never freed */
    int state;             /* enum sparseshim_state */
    uint32_t element_size; /* 4: float, 8: double */
};

#if defined(__GNUC__) && !defined(__clang__) && __GNUC__ >= 6
#define SPARSESHIM_WEAK __attribute__((weak, noplt)) /* noplt: found without -fPIE as well */
#else
#define SPARSESHIM_WEAK __attribute__((weak))
#endif

extern int sparseshim_1_register(const void *, uint64_t, double) SPARSESHIM_WEAK;
extern int sparseshim_1_identify(const void *, uint64_t, uint32_t) SPARSESHIM_WEAK;
extern int sparseshim_1_unregister(const void *) SPARSESHIM_WEAK;
extern int sparseshim_1_set_density(const void *, double) SPARSESHIM_WEAK;
extern int sparseshim_1_tensors(const void *) SPARSESHIM_WEAK;
extern int sparseshim_1_stats(const void *, int, struct sparseshim_stats *, size_t) SPARSESHIM_WEAK;
extern int sparseshim_1_scale_residual(const void *, double) SPARSESHIM_WEAK;
extern int sparseshim_1_drop_residual(const void *) SPARSESHIM_WEAK;
extern int sparseshim_1_read_residual(const void *, int, void *, uint64_t) SPARSESHIM_WEAK;

/* Registers a receive buffer of `count` elements as a gradient, which is lossy from its first call
 * that is not the first on its communicator. All ranks register their buffers in the same order.
 * density: share of the entries to send, 0 < density <= 1; 0: as the settings say. EXCLUDE,
 * MIN_COUNT, the type and the operator still stand against it. A buffer already registered with
 * this count takes the new density; other counts are entries of their own. BAD_ARGUMENT: buffer
 * NULL, count 0, or another density. */
static inline int sparseshim_register(const void *buffer, uint64_t count, double density)
{
    return sparseshim_1_register ? sparseshim_1_register(buffer, count, density)
                                 : (int)SPARSESHIM_NOT_LOADED;
}

/* Tells which tensor the calls on a receive buffer of `count` elements are: one that is the same on
 * all ranks and in all steps. A rule of REGISTER, such as ddp, says whether they are lossy; it
 * needs no calls=N. position: from 1 to 2^28 - 1, equal on all ranks; each tensor of a communicator
 * has its own. The position holds for the buffer's calls on every communicator, and replaces an
 * earlier registration of the buffer with this count. A buffer that is freed has to be unregistered
 * before: its residual is freed, too. BAD_ARGUMENT: buffer NULL, count 0, or another position. */
static inline int sparseshim_identify(const void *buffer, uint64_t count, uint32_t position)
{
    return sparseshim_1_identify ? sparseshim_1_identify(buffer, count, position)
                                 : (int)SPARSESHIM_NOT_LOADED;
}

/* Ends the registration of a buffer, whoever made it. The buffer's tensors are exact from now on
 * (with QUORUM, from their next call with all ranks on), and their residuals join those calls. Call
 * this before the buffer is freed: another buffer at its address would inherit the registration.
 * Returns NO_TENSOR if the buffer was not registered and has no tensor. */
static inline int sparseshim_unregister(const void *buffer)
{
    return sparseshim_1_unregister ? sparseshim_1_unregister(buffer) : (int)SPARSESHIM_NOT_LOADED;
}

/* Sets the density of a registered buffer, or of a buffer with tensors, for later calls; 0: the
 * density of the settings. Returns BAD_ARGUMENT if buffer is NULL or the density is not in 0..1. */
static inline int sparseshim_set_density(const void *buffer, double density)
{
    return sparseshim_1_set_density ? sparseshim_1_set_density(buffer, density)
                                    : (int)SPARSESHIM_NOT_LOADED;
}

/* Returns the number of tensors of the buffer; NULL: of all tensors. */
static inline int sparseshim_tensors(const void *buffer)
{
    return sparseshim_1_tensors ? sparseshim_1_tensors(buffer) : (int)SPARSESHIM_NOT_LOADED;
}

/* Fills *stats with tensor number `which` of the buffer (NULL: of all tensors). */
static inline int sparseshim_stats(const void *buffer, int which, struct sparseshim_stats *stats)
{
    return sparseshim_1_stats ? sparseshim_1_stats(buffer, which, stats, sizeof *stats)
                              : (int)SPARSESHIM_NOT_LOADED;
}

/* Multiplies the residuals of the buffer's tensors (NULL: of all tensors) by a finite factor. A
 * residual is in the unit of the buffer: if the buffer holds the gradient times the learning rate,
 * and the rate changes from a to b, the factor is b / a. */
static inline int sparseshim_scale_residual(const void *buffer, double factor)
{
    return sparseshim_1_scale_residual ? sparseshim_1_scale_residual(buffer, factor)
                                       : (int)SPARSESHIM_NOT_LOADED;
}

/* Sets the residuals of the buffer's tensors (NULL: of all tensors) to zero. Entries that have not
 * been sent are lost, as they should be when weights are restored from a checkpoint. */
static inline int sparseshim_drop_residual(const void *buffer)
{
    return sparseshim_1_drop_residual ? sparseshim_1_drop_residual(buffer)
                                      : (int)SPARSESHIM_NOT_LOADED;
}

/* Copies the residual of tensor number `which` of the buffer to values[0..count), floats or doubles
 * like the tensor's. Returns BAD_ARGUMENT if count is not the tensor's.
 *
 * With one residual per host (NODE_AGGREGATION=on, or ':node' in a rule) each rank holds a part of
 * it, and reads 0 elsewhere. The functions above act on that part: call them on all ranks. */
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
