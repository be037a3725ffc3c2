/* Enters and leaves the default floating-point environment, whatever the application has set:
 * traps, rounding mode, flush to zero, denormals are zero. ss_fpenv_leave restores the
 * application's settings and the exceptions that it has seen; exceptions raised between enter and
 * leave leave no trace.
 *
 * Code of the application or of the MPI library never runs between enter and leave: a native
 * collective, an operator, an error handler and a callback find the application's own environment
 * (core/net/transport.h says how within a call).
 */
#ifndef CORE_BASE_FPENV_H
#define CORE_BASE_FPENV_H

#include <float.h>
#include <stdbool.h>
#include <stdint.h>

/* Exceptions of ss_fpenv_raised and ss_fpenv_raise. */
enum { SS_OVERFLOW = 1, SS_INVALID = 2 };

/* Keep computations on their side of an enter or leave, since compilers order only memory accesses.
 * SS_FPENV_PIN is for a variable that need not be in memory. */
#define SS_FPENV_FENCE()       __asm__ volatile("" : : : "memory")
#define SS_FPENV_PIN(variable) __asm__ volatile("" : "+m"(variable) : : "memory")

#if defined(__x86_64__)
#include <xmmintrin.h>

/* The control and status word of SSE and AVX: enter and leave are a register move each. */
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

/* Returns the current environment. */
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

/* Returns true if the environment changes the value or the behaviour of a sum: it has another
 * rounding mode, or a trap. Flushing does not count, since all programs built with -ffast-math
 * flush. */
static inline bool ss_fpenv_is_unusual(ss_fpenv env)
{
    return (env & 0x6000) != 0 || (env & 0x1f80) != 0x1f80;
}

/* Returns the default environment with the rounding mode of `env`. */
static inline ss_fpenv ss_fpenv_rounding(ss_fpenv env)
{
    return 0x1f80 | (env & 0x6000);
}

/* The environment with the x87 unit, for code that reads or prints numbers: the C library asks the
 * x87 control word how to round. Costs some hundred cycles. */
struct ss_fpenv_full {
    unsigned char x87[28]; /* as fnstenv stores it */
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

/* Control register in the low half, exceptions seen in the high half. */
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

static inline bool ss_fpenv_is_unusual(ss_fpenv env)
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

/* Raises exceptions by an operation in the current environment; an unmasked exception traps. */
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
