/* Random numbers of the tests (xorshift), the same in each run. */
#ifndef TESTS_RANDOM_NUMBERS_H
#define TESTS_RANDOM_NUMBERS_H

#include <stdint.h>

static uint64_t random_state = 0x9e3779b97f4a7c15u;

static inline uint64_t random64(void)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state;
}

static inline double random_unit(void)
{
    return (double)(random64() >> 11) * 0x1p-53;
}

#endif
