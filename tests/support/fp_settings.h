/* What a program can set in the floating-point environment, without the exceptions seen, and the
 * settings that flush subnormal numbers, as -ffast-math does, and that round towards zero. */
#ifndef TESTS_SUPPORT_FP_SETTINGS_H
#define TESTS_SUPPORT_FP_SETTINGS_H

#include "core/base/fpenv.h"

#if defined(__x86_64__)
enum { FP_FLUSH = 0x8040, FP_TO_ZERO = 0x6000, FP_SETTINGS = 0xffc0 };
#else
enum { FP_FLUSH = 0x1000000, FP_TO_ZERO = 0xc00000, FP_SETTINGS = INT32_MAX };
#endif

static inline ss_fpenv fp_settings(void)
{
    return ss_fpenv_now() & (ss_fpenv)FP_SETTINGS;
}

static inline void fp_set(int settings)
{
    ss_fpenv_leave(ss_fpenv_now() | (ss_fpenv)settings);
}
#endif
