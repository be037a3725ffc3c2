/* Arithmetic of ours in the default floating-point environment, whatever the application has set:
 * traps, rounding, flush to zero, denormals are zero. What it has set, and the exceptions it has
 * seen, come back on leaving; those of ours leave no trace.
 *
 * Between enter and leave stands nothing that runs code of the application or of the MPI library:
 * a native collective, an operator, an error handler, a callback find the application's own
 * environment (core/net/transport.h says how within a call).
 */
#ifndef CORE_BASE_FPENV_H
#define CORE_BASE_FPENV_H

#include <float.h>
#include <stdbool.h>
#include <stdint.h>

/* Exceptions of ss_fpenv_raised and ss_fpenv_raise. */
enum { SS_OVERFLOW = 1, SS_INVALID = 2 };

/* What is computed on one side of an enter or leave stays there: compilers know of memory only.
 * The second form is for a variable that need not be in memory. */
#define SS_FPENV_FENCE()        __asm__ volatile("" : : : "memory")
#define SS_FPENV_HOLD(variable) __asm__ volatile("" : "+m"(variable) : : "memory")

#if defined(__x86_64__)
#include <xmmintrin.h>

/* SSE and AVX alone: a register move each way. */
typedef unsigned ss_fpenv;

static inline ss_fpenv ss_fpenv_enter(void)
{
    unsigned saved;

    SS_FPENV_FENCE();
    saved = _mm_getcsr();
    if (saved != 0x1f80)
        _mm_setcsr(0x1f80); /* all exceptions masked, round to nearest, no FTZ, no DAZ */
    SS_FPENV_FENCE();
    return saved;
}

static inline void ss_fpenv_leave(ss_fpenv saved)
{
    SS_FPENV_FENCE();
    _mm_setcsr(saved);
    SS_FPENV_FENCE();
}

/* Returns the environment as it is. */
static inline ss_fpenv ss_fpenv_now(void)
{
    SS_FPENV_FENCE();
    return _mm_getcsr();
}

/* Returns the exceptions that an environment has seen. */
static inline unsigned ss_fpenv_raised(ss_fpenv env)
{
    return (env & 0x8 ? SS_OVERFLOW : 0) | (env & 0x1 ? SS_INVALID : 0);
}

/* Returns true if the environment changes what a sum is or does: a rounding mode, or any trap.
 * Flushing does not count: programs built with -ffast-math all flush. */
static inline bool ss_fpenv_is_own(ss_fpenv env)
{
    return (env & 0x6000) != 0 || (env & 0x1f80) != 0x1f80;
}

/* Returns the default environment with the rounding mode of `env`. */
static inline ss_fpenv ss_fpenv_rounding(ss_fpenv env)
{
    return 0x1f80 | (env & 0x6000);
}

/* The x87 unit as well, some hundred cycles: for what reads or prints numbers, since the C library
 * asks the x87 control word how to round. */
struct ss_fpenv_full {
    unsigned char x87[28]; /* as fnstenv leaves it */
    ss_fpenv vector;
};

static inline void ss_fpenv_enter_full(struct ss_fpenv_full *saved)
{
    __asm__ volatile("fnstenv %0\n\tfninit" : "=m"(saved->x87) : : "memory");
    saved->vector = ss_fpenv_enter();
}

static inline void ss_fpenv_leave_full(const struct ss_fpenv_full *saved)
{
    ss_fpenv_leave(saved->vector);
    __asm__ volatile("fldenv %0" : : "m"(saved->x87) : "memory");
}

#elif defined(__aarch64__)

/* Control in the low half, exceptions seen in the high one. */
typedef uint64_t ss_fpenv;

static inline ss_fpenv ss_fpenv_enter(void)
{
    uint64_t control, seen;

    __asm__ volatile("mrs %0, fpcr" : "=r"(control) : : "memory");
    __asm__ volatile("mrs %0, fpsr" : "=r"(seen));
    __asm__ volatile("msr fpsr, %0" : : "r"((uint64_t)0) : "memory");
    __asm__ volatile("msr fpcr, %0" : : "r"((uint64_t)0) : "memory");
    return (control & 0xffffffffu) | seen << 32;
}

static inline void ss_fpenv_leave(ss_fpenv saved)
{
    __asm__ volatile("msr fpsr, %0" : : "r"(saved >> 32) : "memory");
    __asm__ volatile("msr fpcr, %0" : : "r"(saved & 0xffffffffu) : "memory");
}

static inline ss_fpenv ss_fpenv_now(void)
{
    uint64_t control, seen;

    __asm__ volatile("mrs %0, fpcr" : "=r"(control) : : "memory");
    __asm__ volatile("mrs %0, fpsr" : "=r"(seen) : : "memory");
    return (control & 0xffffffffu) | seen << 32;
}

static inline unsigned ss_fpenv_raised(ss_fpenv env)
{
    const uint64_t seen = env >> 32;

    return (seen & 0x4 ? SS_OVERFLOW : 0) | (seen & 0x1 ? SS_INVALID : 0);
}

static inline bool ss_fpenv_is_own(ss_fpenv env)
{
    return (env & 0xc00000) != 0 || (env & 0x9f00) != 0;
}

static inline ss_fpenv ss_fpenv_rounding(ss_fpenv env)
{
    return env & 0xc00000;
}

struct ss_fpenv_full {
    ss_fpenv vector;
};

static inline void ss_fpenv_enter_full(struct ss_fpenv_full *saved)
{
    saved->vector = ss_fpenv_enter();
}

static inline void ss_fpenv_leave_full(const struct ss_fpenv_full *saved)
{
    ss_fpenv_leave(saved->vector);
}

#else
#error "sparseshim needs to set the floating-point environment: add this architecture here"
#endif

/* Raises exceptions by an operation in the environment as it is: an unmasked one traps. */
static inline void ss_fpenv_raise(unsigned exceptions)
{
    volatile double largest = DBL_MAX, zero = 0, result;

    if (exceptions & SS_OVERFLOW)
        result = largest + largest;
    if (exceptions & SS_INVALID)
        result = zero / zero;
    (void)result;
}
#endif
