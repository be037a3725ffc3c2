/* Records of partial calls. */
#include <string.h>

#include "core/report/stats.h"

const char *ss_staleness_key(int rounds)
{
    static const char *const keys[SS_STALENESS_SEEN] = {
        "0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11", "12", "13", "14", "15"};
    return keys[rounds];
}

static const struct ss_rounds_sums none;

static void halve(struct ss_rounds_record *r)
{
    for (size_t i = 0; i < SS_STRETCHES; i += 2) {
        r->stretch[i / 2] = r->stretch[i];
        ss_rounds_sums_add(&r->stretch[i / 2], &r->stretch[i + 1], &none);
    }
    r->stretches = SS_STRETCHES / 2;
    r->stretch_rounds *= 2;
}

static bool is_full(const struct ss_rounds_record *r)
{
    return r->stretches == 0 || r->stretch[r->stretches - 1].rounds >= r->stretch_rounds;
}

void ss_rounds_stretch(struct ss_rounds_record *r, const struct ss_rounds_sums *more)
{
    if (r->stretches == 0)
        r->stretch_rounds = 1;
    if (more->rounds > 0 && is_full(r) && r->stretches == SS_STRETCHES)
        halve(r);
    if (r->stretches == 0 || (more->rounds > 0 && is_full(r)))
        r->stretch[r->stretches++] = none;
    ss_rounds_sums_add(&r->stretch[r->stretches - 1], more, &none);
}

static bool alike(const struct ss_synchronous *a, const struct ss_synchronous *b)
{
    return a->kind == b->kind && strcmp(a->site, b->site) == 0 && strcmp(a->symbol, b->symbol) == 0;
}

void ss_rounds_synchronous(struct ss_rounds_record *r, const struct ss_synchronous *call)
{
    size_t i = 0;

    while (i < r->synchronous_sites && !alike(&r->synchronous[i], call))
        i++;
    if (i < SS_SYNCHRONOUS - 1) {
        if (i == r->synchronous_sites)
            r->synchronous[r->synchronous_sites++] = (struct ss_synchronous){0};
        uint64_t calls = r->synchronous[i].calls + call->calls;
        r->synchronous[i] = *call;
        r->synchronous[i].calls = calls;
        return;
    }
    r->synchronous_sites = SS_SYNCHRONOUS; /* all others */
    r->synchronous[SS_SYNCHRONOUS - 1].calls += call->calls;
}
