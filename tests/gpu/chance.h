/* Chance, the same in every run where no seed is given, and what it gives as elements of vectors.
 */
#ifndef TESTS_GPU_CHANCE_H
#define TESTS_GPU_CHANCE_H

#include <math.h>

#include "core/base/types.h"

static uint64_t chance_state = 88172645463325252u;

static inline uint64_t chance(void)
{
    chance_state ^= chance_state << 13;
    chance_state ^= chance_state >> 7;
    chance_state ^= chance_state << 17;
    return chance_state * 0x2545f4914f6cdd1du;
}

static inline void chance_seed(uint64_t seed)
{
    chance_state += seed * 0x9e3779b97f4a7c15u;
    if (chance_state == 0)
        chance_state = 1;
}

static inline size_t below(size_t n)
{
    return (size_t)(chance() >> 16) % n;
}

static inline double unit(void)
{
    return (double)(chance() >> 11) * 0x1p-53;
}

/* Integers are thousandths. */
static inline void put(enum ss_type type, void *v, size_t i, double x)
{
    if (type == SS_F32)
        ((float *)v)[i] = (float)x;
    else if (type == SS_F64)
        ((double *)v)[i] = x;
    else if (type == SS_I32)
        ((int32_t *)v)[i] = (int32_t)(x * 1000);
    else
        ((int64_t *)v)[i] = (int64_t)(x * 1000);
}

static inline double get(enum ss_type type, const void *v, size_t i)
{
    return type == SS_F32 ? (double)((const float *)v)[i] : ((const double *)v)[i];
}

static inline bool close_to(double a, double b)
{
    return fabs(a - b) <= 0x1p-40 * fabs(b);
}

#endif
