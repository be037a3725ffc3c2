#include "core/ranks.h"

struct ss_fold ss_fold_of(int rank, int size)
{
    struct ss_fold f = {.pof2 = 1, .partner = -1};

    while (f.pof2 <= size / 2)
        f.pof2 *= 2;
    f.rem = size - f.pof2;
    if (rank >= 2 * f.rem) {
        f.position = rank - f.rem;
    } else if (rank % 2 == 0) {
        f.position = -1;
        f.partner = rank + 1;
    } else {
        f.position = rank / 2;
        f.partner = rank - 1;
    }
    return f;
}

int ss_fold_rounds(const struct ss_fold *fold)
{
    int rounds = 0;

    for (int p = 1; p < fold->pof2; p *= 2)
        rounds++;
    return rounds;
}

int ss_fold_peer(const struct ss_fold *fold, int round)
{
    int position = fold->position ^ (1 << round);

    return position < fold->rem ? 2 * position + 1 : position + fold->rem;
}

uint64_t ss_part_first(uint64_t n, int size, int p)
{
    uint64_t blocks = (n + 15) / 16; /* n <= 2^30, so the product below fits */
    uint64_t first = blocks * (uint64_t)p / (uint64_t)size * 16;

    return first < n ? first : n;
}
