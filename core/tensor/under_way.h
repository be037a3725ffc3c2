/* What the caller knows of calls that the program has made and not yet seen end. */
#ifndef CORE_TENSOR_UNDER_WAY_H
#define CORE_TENSOR_UNDER_WAY_H

#include <stdbool.h>
#include <stdint.h>

/* Which calls of a communicator the program has under way when it makes one: by their numbers. */
enum { SS_UNDER_WAY = 256 };
struct ss_under_way {
    uint64_t number;                   /* of the call itself, from 1; 0 = unknown */
    uint64_t calls[SS_UNDER_WAY / 64]; /* bit m % SS_UNDER_WAY: the last call m of that remainder
                                          before it has not been seen to end */
};

static inline bool ss_is_under_way(const struct ss_under_way *u, uint64_t number)
{
    uint64_t bit = number % SS_UNDER_WAY;

    return number > 0 && number < u->number && u->number - number < SS_UNDER_WAY &&
           (u->calls[bit / 64] >> bit % 64 & 1) != 0;
}

static inline bool ss_any_under_way(const struct ss_under_way *u)
{
    uint64_t any = 0;

    for (int i = 0; i < SS_UNDER_WAY / 64; i++)
        any |= u->calls[i];
    return any != 0;
}

#endif
