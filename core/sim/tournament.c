/* Implements the matches as a binary tree in an array. */
#include "core/sim/tournament.h"

#include <math.h>
#include <stdlib.h>

bool ss_tournament_open(struct ss_tournament *t, int players)
{
    t->leaves = 2;
    while (t->leaves < players)
        t->leaves *= 2;
    t->key = malloc((size_t)t->leaves * sizeof *t->key);
    t->winner = malloc((size_t)t->leaves * sizeof *t->winner);
    if (!t->key || !t->winner)
        return false;
    for (int i = 0; i < t->leaves; i++)
        t->key[i] = INFINITY;
    for (int m = t->leaves - 1; m > 0; m--)
        t->winner[m] = 2 * m < t->leaves ? t->winner[2 * m] : 2 * m - t->leaves;
    return true;
}

void ss_tournament_close(struct ss_tournament *t)
{
    free(t->key);
    free(t->winner);
}

static int of_match(const struct ss_tournament *t, int m)
{
    return m < t->leaves ? t->winner[m] : m - t->leaves;
}

void ss_tournament_set(struct ss_tournament *t, int player, double key)
{
    t->key[player] = key;
    for (int m = (player + t->leaves) / 2; m > 0; m /= 2) {
        int a = of_match(t, 2 * m), b = of_match(t, 2 * m + 1);
        t->winner[m] = t->key[b] < t->key[a] ? b : a;
    }
}

int ss_tournament_first(const struct ss_tournament *t)
{
    int first = t->winner[1];

    return t->key[first] < INFINITY ? first : -1;
}
