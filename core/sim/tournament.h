/* The least of several keys that change one at a time, with log2 n comparisons per change. */
#ifndef CORE_SIM_TOURNAMENT_H
#define CORE_SIM_TOURNAMENT_H

#include <stdbool.h>

struct ss_tournament {
    int leaves;  /* a power of two */
    double *key; /* key of each player, INFINITY: out */
    int *winner; /* winner of each match; match 1 is the final */
};

/* Creates a tournament with all players out. Returns false if memory is short. */
bool ss_tournament_open(struct ss_tournament *t, int players);
void ss_tournament_close(struct ss_tournament *t);
void ss_tournament_set(struct ss_tournament *t, int player, double key);
/* Returns the player with the least key, among equals the lowest number; -1 if all are out. */
int ss_tournament_first(const struct ss_tournament *t);

#endif
