/* The lines that a job in MODE=observe prints at its end. */
#include <math.h>
#include <stdio.h>

#include "core/report/summary.h"
#include "core/report/words.h"

/* A job whose sums take a smaller share of its time has nothing to gain. */
#define LITTLE 0.02

/* A mode that saves a smaller share of the time of these calls has no clear gain. */
#define CLEAR 0.1

/* The prediction of a mode for all calls that were passed on. */
struct prospect {
    double saved;                   /* seconds */
    struct ss_report_totals totals; /* bytes_sent and sent_inside of the calls that would gain */
    uint64_t gains;                 /* lanes */
};

struct outlook {
    double native;    /* seconds of these calls */
    double predicted; /* by the model, where it does not agree */
    double misfit;    /* as measured there */
    uint64_t planned, dense, dense_bytes, dense_inside;
    const struct ss_lane_record *largest;
    struct prospect exact, quant, topk;
    bool unclear; /* ss_report_advice.unclear of a lane */
};

/* Adds the calls of a lane: `seconds`, `bytes` and `inside` are those of one call in the mode, if
 * it gains. */
static void add_prospect(struct prospect *p, const struct ss_lane_record *r, bool gains,
                         const double per_call[3], double against)
{
    const double calls = (double)ss_lane_passed(r);

    p->totals.bytes_sent += gains ? (uint64_t)(calls * per_call[1]) : r->bytes_dense;
    p->totals.sent_inside += !gains                  ? r->dense_inside
                             : isfinite(per_call[2]) ? (uint64_t)(calls * per_call[2])
                                                     : 0;
    p->saved += gains ? calls * (against - per_call[0]) : 0;
    p->gains += gains;
}

static void look_at_lane(struct outlook *o, const struct ss_lane_record *r)
{
    const struct ss_report_advice a = ss_report_advise(r);
    const double calls = (double)ss_lane_passed(r), planned = (double)r->planned;
    const double exact[] = {a.predicted, ss_ratio(r->predicted_bytes[a.best], planned),
                            ss_ratio(r->predicted_inside[a.best], planned)};
    const double quant[] = {a.quant_predicted, a.quant_bytes, a.quant_inside};
    const double topk[] = {a.topk_predicted, a.topk_bytes, a.topk_inside};

    o->native += r->times.native;
    o->planned += r->planned;
    o->dense_bytes += r->bytes_dense;
    o->dense_inside += r->dense_inside;
    o->dense += r->density_sum >= 0.5 * (double)r->scans && r->scans > 0;
    o->predicted += a.misfit ? calls * a.dense : 0;
    o->misfit += a.misfit ? r->times.native : 0;
    add_prospect(&o->exact, r, a.gain, exact, a.against);
    add_prospect(&o->quant, r, a.quant_gain, quant, a.against);
    add_prospect(&o->topk, r, a.topk_gain, topk, a.against);
    o->unclear = o->unclear || a.unclear;
}

static struct outlook look_out(const struct ss_stats *stats)
{
    struct outlook o = {.largest = stats->lanes};

    for (const struct ss_lane_record *r = stats->lanes; r; r = r->next)
        look_at_lane(&o, r);
    return o;
}

/* Tells how many sums are dense, which decides what exact mode can do. */
static void say_sums(struct ss_summary *s, const struct ss_stats *stats, const struct outlook *o)
{
    const struct ss_lane_record *r = o->largest;
    char name[80];

    ss_summary_lane(r, name, sizeof name);
    ss_summary_say(
        s, "try_sums", "sums",
        "%s of %s call signatures %s dense (half of the elements or more are not zero); of the "
        "largest, %s, %s are not zero, and a call takes %s",
        SS_COUNT(o->dense), SS_COUNT(stats->lane_count), o->dense == 1 ? "is" : "are", name,
        SS_SHARE(ss_ratio(r->density_sum, (double)r->scans)),
        SS_SECONDS(ss_ratio(r->times.native, (double)ss_lane_passed(r))));
}

static void say_prospect(struct ss_summary *s, const char *key, const char *label,
                         const char *before, const struct prospect *p, const struct outlook *o,
                         const struct ss_stats *stats)
{
    /* On one host, predictions tell no bytes inside it apart. */
    const bool one = o->dense_inside == o->dense_bytes;
    const struct ss_compared c =
        ss_report_compared(o->dense_bytes, one ? 0 : o->dense_inside, p->totals.bytes_sent,
                           one ? 0 : p->totals.sent_inside);

    if (p->gains > 0)
        ss_summary_say(
            s, key, label,
            "%s: %s instead of %s in these calls, and %s sent%s instead of %s; faster for %s of %s "
            "call signatures",
            before, SS_SECONDS(o->native - p->saved), SS_SECONDS(o->native), SS_BYTES(c.sent),
            c.apart ? " to other hosts" : "", SS_BYTES(c.dense), SS_COUNT(p->gains),
            SS_COUNT(stats->lane_count));
    else
        ss_summary_say(s, key, label, "%s: no call signature would gain 10 %% or more", before);
}

/* Tells why time and prediction differ. */
static void say_network(struct ss_summary *s, const struct outlook *o)
{
    if (o->misfit < 0.1 * o->native)
        return;
    if (o->misfit > o->predicted)
        ss_summary_say(
            s, "try_network", "delay",
            "%s were spent in calls for which the network needs %s: ranks wait for each other "
            "there, in any mode",
            SS_SECONDS(o->misfit), SS_SECONDS(o->predicted));
    else
        ss_summary_say(
            s, "try_network", "delay",
            "calls were predicted to take %s and took %s: what is predicted may be too long, so "
            "compare two short runs by `sparseshim report A B`",
            SS_SECONDS(o->predicted), SS_SECONDS(o->misfit));
}

/* Tells what to add to the user's own command, whose launcher and arguments are not known here. */
static void say_next(struct ss_summary *s, const struct ss_stats *stats, const struct outlook *o)
{
    const double share = ss_report_share(stats);
    const double lossy = o->quant.saved > o->topk.saved ? o->quant.saved : o->topk.saved;
    const bool exact = o->exact.gains > 0 && o->exact.saved >= CLEAR * o->native;

    if (o->planned == 0)
        ss_summary_say(s, "try", "next",
                       "no advice: no call was looked at; \"passed\" above and the notes say why");
    else if (share < LITTLE)
        ss_summary_say(
            s, "try", "next",
            "leave sparseshim off for this job: sums take %s of its time, so that no mode can make "
            "it faster by more",
            SS_SHARE(share));
    else if (exact && o->exact.saved >= 0.9 * lossy)
        ss_summary_say(s, "try", "next",
                       "run this job with MODE=exact in place of observe (the same results)");
    else if (lossy >= CLEAR * o->native && lossy > 0)
        ss_summary_say(
            s, "try", "next",
            "if these sums are gradients: run this job's command behind `sparseshim learn%s --`, "
            "without MODE; then set SPARSESHIM_CONFIG to the file that it writes%s",
            o->topk.saved * 0.9 > o->quant.saved && o->quant.gains == 0 ? " --density=0.01" : "",
            exact ? "; if not, MODE=exact alone" : "");
    else if (o->unclear || o->exact.gains > 0 || lossy > 0)
        ss_summary_say(s, "try", "next",
                       "no clear gain: a mode would save no more than times differ from run to "
                       "run; compare runs by `sparseshim report A B`");
    else
        ss_summary_say(
            s, "try", "next",
            "leave sparseshim off for this job on this network: no mode makes a call 10 %% "
            "shorter or more");
}

void ss_summary_observed(struct ss_summary *s, const struct ss_stats *stats)
{
    const struct outlook o = look_out(stats);

    if (o.planned > 0) {
        say_sums(s, stats, &o);
        say_prospect(s, "try_exact", "exact", "the same results", &o.exact, &o, stats);
        say_prospect(s, "try_quant", "quant", "lossy, for gradients", &o.quant, &o, stats);
        say_prospect(s, "try_topk", "top-k", "lossy, for gradients", &o.topk, &o, stats);
        say_network(s, &o);
    }
    say_next(s, stats, &o);
}
