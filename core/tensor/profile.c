/* The block profile of what is sent. */
#include <string.h>

#include "core/tensor/tensor_impl.h"

static const double UNLIKE = 0.5;

static bool finite(double x)
{
    return x - x == 0;
}

/* ---- the block profile ---- */

static void finish(struct ss_profile_now *now)
{
    for (int b = 0; b < SS_PROFILE_BLOCKS; b++)
        now->norm[b] = ss_root(now->norm[b]);
}

void ss_profile_cuts(size_t n, uint32_t cuts[SS_PROFILE_BLOCKS + 1])
{
    for (uint64_t b = 0; b <= SS_PROFILE_BLOCKS; b++)
        cuts[b] = (uint32_t)((b * n + SS_PROFILE_BLOCKS - 1) / SS_PROFILE_BLOCKS);
}

void ss_profile_shares(struct ss_profile_now *now, const struct ss_share shares[SS_PROFILE_BLOCKS])
{
    *now = (struct ss_profile_now){.entries = 0};
    for (int b = 0; b < SS_PROFILE_BLOCKS; b++) {
        now->norm[b] = shares[b].square;
        now->entries += (size_t)shares[b].count;
    }
    finish(now);
}

void ss_profile_sparse(struct ss_profile_now *now, enum ss_type type, const uint32_t *idx,
                       const void *val, size_t nnz, size_t n)
{
    struct ss_share shares[SS_PROFILE_BLOCKS];
    uint32_t cuts[SS_PROFILE_BLOCKS + 1];

    ss_profile_cuts(n, cuts);
    ss_host.ops->survey(&ss_host, type, idx, val, nnz, cuts, SS_PROFILE_BLOCKS, shares);
    ss_profile_shares(now, shares);
}

/* Of two profiles; 0 when one is zero, not a number when one is not finite. */
static double cosine(const double *a, const double *b)
{
    double ab = 0, aa = 0, bb = 0;

    for (int i = 0; i < SS_PROFILE_BLOCKS; i++) {
        ab += a[i] * b[i];
        aa += a[i] * a[i];
        bb += b[i] * b[i];
    }
    if (!finite(aa + bb))
        return aa + bb - (aa + bb);
    double norms = ss_root(aa) * ss_root(bb);
    return norms > 0 ? ab / norms : 0;
}

double ss_profile_cosine(const struct ss_profile *profile, const struct ss_profile_now *now)
{
    if (profile->seen < 3 || now->entries < SS_PROFILE_ENTRIES)
        return -1;
    return cosine(profile->past, now->norm);
}

static void enter_past(struct ss_profile *profile, const struct ss_profile_now *now)
{
    double sum = 0;
    double weight = profile->seen < 7 ? 1.0 / (profile->seen + 1) : 0.125;

    for (int b = 0; b < SS_PROFILE_BLOCKS; b++)
        sum += now->norm[b] * now->norm[b];
    double norm = ss_root(sum);
    if (!finite(norm) || norm == 0)
        return;
    for (int b = 0; b < SS_PROFILE_BLOCKS; b++)
        profile->past[b] += weight * (now->norm[b] / norm - profile->past[b]);
    if (profile->seen < 1000)
        profile->seen++;
}

bool ss_profile_watch(struct ss_profile *profile, const struct ss_profile_now *now)
{
    double cos = ss_profile_cosine(profile, now);

    if (now->entries < SS_PROFILE_ENTRIES)
        return false;
    bool unlike = cos >= 0 && cos < UNLIKE;
    if (!unlike || profile->was_unlike)
        enter_past(profile, now);
    profile->was_unlike = unlike;
    if (unlike)
        profile->score += 2;
    else if (profile->score > 0)
        profile->score--;
    return unlike && profile->score >= 4;
}
