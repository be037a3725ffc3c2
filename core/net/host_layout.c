/* Implements the layout of ranks on hosts. */
#include "core/net/host_layout.h"

#include <stdlib.h>

/* Numbers the hosts, and the ranks of each. */
static void number(struct ss_layout *l)
{
    for (int r = 0; r < l->size; r++) {
        int same = -1;

        for (int s = r - 1; s >= 0 && same < 0; s--)
            if (l->ids[s] == l->ids[r])
                same = s;
        l->host[r] = same < 0 ? l->hosts++ : l->host[same];
        l->local[r] = same < 0 ? 0 : l->local[same] + 1;
        if (l->local[r] + 1 > l->most)
            l->most = l->local[r] + 1;
    }
}

/* Lists the ranks host after host, and in the order of the ring: the first rank of each host, then
 * the second of each host that has one, ... */
static void list(struct ss_layout *l)
{
    int at = 0, turn = 0;

    for (int h = 0; h < l->hosts; h++) {
        l->first[h] = at;
        for (int r = 0; r < l->size; r++)
            if (l->host[r] == h)
                l->ranks[at++] = r;
    }
    l->first[l->hosts] = at;
    for (int local = 0; local < l->most; local++)
        for (int h = 0; h < l->hosts; h++)
            if (local < ss_layout_count(l, h)) {
                l->around[turn] = l->ranks[l->first[h] + local];
                l->ring[l->around[turn]] = turn;
                turn++;
            }
}

struct ss_layout *ss_layout_create(int size)
{
    const size_t n = (size_t)size;
    struct ss_layout *l = calloc(1, sizeof *l + n * sizeof(uint64_t) + (6 * n + 1) * sizeof(int));

    if (!l)
        return NULL;
    l->size = size;
    l->slice_least = SS_SLICE_LEAST;
    l->ids = (uint64_t *)(void *)(l + 1);
    l->host = (int *)(void *)(l->ids + n);
    l->local = l->host + n;
    l->ranks = l->local + n;
    l->ring = l->ranks + n;
    l->around = l->ring + n;
    l->first = l->around + n;
    return l;
}

void ss_layout_find(struct ss_layout *l)
{
    l->hosts = l->most = 0;
    number(l);
    list(l);
}

void ss_layout_free(struct ss_layout *layout)
{
    free(layout);
}

int ss_layout_slices(const struct ss_layout *l, uint64_t n)
{
    const uint64_t most = n / l->slice_least > 0 ? n / l->slice_least : 1;

    return (uint64_t)l->most < most ? l->most : (int)most;
}

int ss_layout_slice(int local, int count, int slices)
{
    return (local * slices + count - 1) / count;
}

int ss_layout_most_slices(const struct ss_layout *l, int slices)
{
    int least = l->most;

    for (int h = 0; h < l->hosts; h++)
        if (ss_layout_count(l, h) < least)
            least = ss_layout_count(l, h);
    return (slices + least - 1) / least;
}

int ss_layout_owner(const struct ss_layout *l, int host, int slice, int slices)
{
    return l->ranks[l->first[host] + slice * ss_layout_count(l, host) / slices];
}
