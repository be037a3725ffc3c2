/* The least of several keys that change one at a time: log2 n comparisons for each change. */
#ifndef CORE_SIM_TOURNAMENT_H
#define CORE_SIM_TOURNAMENT_H

#include <stdbool.h>

struct ss_tournament {
    int leaves;  /* a power of two */
    double *key; /* of each player, INFINITY: out */
    int *winner; /* of each match, the final is number 1 */
};

/* All are out at first. False when memory is short. */
bool ss_tournament_open(struct ss_tournament *t, int players);
void ss_tournament_close(struct ss_tournament *t);
void ss_tournament_set(struct ss_tournament *t, int player, double key);
/* Of equal keys the lowest number; -1 where all are out. */
int ss_tournament_first(const struct ss_tournament *t);

#endif
