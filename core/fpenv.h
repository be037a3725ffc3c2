/* Arithmetic in the default floating-point environment, whatever the application has set (flush to
 * zero, denormals are zero, another rounding). Enter and leave are one register move each. */
#ifndef CORE_FPENV_H
#define CORE_FPENV_H

#include <stdint.h>

#if defined(__x86_64__)
#include <xmmintrin.h>

typedef unsigned ss_fpenv;

static inline ss_fpenv ss_fpenv_enter(void)
{
    unsigned saved = _mm_getcsr();
    if (saved != 0x1f80)
        _mm_setcsr(0x1f80); /* all exceptions masked, round to nearest, no FTZ, no DAZ */
    return saved;
}

static inline void ss_fpenv_leave(ss_fpenv saved)
{
    _mm_setcsr(saved);
}

#elif defined(__aarch64__)

typedef uint64_t ss_fpenv;

static inline ss_fpenv ss_fpenv_enter(void)
{
    uint64_t saved;
    __asm__ volatile("mrs %0, fpcr" : "=r"(saved));
    __asm__ volatile("msr fpcr, %0" : : "r"((uint64_t)0));
    return saved;
}

static inline void ss_fpenv_leave(ss_fpenv saved)
{
    __asm__ volatile("msr fpcr, %0" : : "r"(saved));
}

#else
#error "sparseshim needs to set the floating-point environment: add this architecture here"
#endif
#endif
