/* Tensors visited from outside of a call, and what the report and the warnings say of them. */
#include "core/call/tensor_access.h"
#include "core/tensor/residual.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/fpenv.h"
#include "core/call/call_impl.h"
#include "core/partial/rounds.h"
#include "core/report/tensor_record.h"

static bool concerns(const struct ss_tensor *t, const void *buffer)
{
    return !buffer || t->buffer == buffer;
}

/* Under the lock. */
static size_t count(const struct ss_tensors *ts, const void *buffer)
{
    size_t n = 0;

    for (const struct ss_tensor *t = ss_tensors_first(ts); t; t = t->next)
        n += concerns(t, buffer);
    return n;
}

size_t ss_comm_tensors(struct ss_comm *comm, const void *buffer)
{
    struct ss_tensors *ts = comm->tensors;
    size_t n;

    if (!ts)
        return 0;
    ss_tensors_lock(ts);
    n = count(ts, buffer);
    ss_tensors_unlock(ts);
    return n;
}

int ss_comm_tensor(struct ss_comm *comm, const void *buffer, size_t i, ss_tensor_visit *visit,
                   void *ctx)
{
    struct ss_tensors *ts = comm->tensors;
    int status = SS_ACCESS_NONE;
    struct ss_fpenv_full saved;
    size_t n;

    if (!ts)
        return status;
    ss_fpenv_enter_full(&saved);
    ss_tensors_lock(ts);
    n = count(ts, buffer);
    for (struct ss_tensor *t = ss_tensors_first(ts); t && i < n;
         t = t->next) /* the newest is first */
        if (concerns(t, buffer) && --n == i)
            status = t->in_flight > 0 ? SS_ACCESS_BUSY : visit(t, ctx);
    ss_tensors_unlock(ts);
    ss_fpenv_leave_full(&saved);
    return status;
}

int ss_tensor_ask(struct ss_tensor *t, void *ctx)
{
    (void)ctx;
    ss_tensor_readmit(t);
    return SS_OK;
}

int ss_tensor_withdraw(struct ss_tensor *t, void *ctx)
{
    (void)ctx;
    if (t->identified) {
        ss_residual_drop(t);
        return SS_OK;
    }
    t->asked = t->rule != NULL;
    t->density = 0;
    t->withdrawn = t->has_rounds && t->state != SS_TENSOR_EXACT;
    if (t->state != SS_TENSOR_EXACT && !t->withdrawn)
        ss_tensor_settle(t, false, SS_TENSOR_WITHDRAWN);
    return SS_OK;
}

int ss_tensor_set_density(struct ss_tensor *t, void *density)
{
    t->density = *(const double *)density;
    return SS_OK;
}

int ss_tensor_scale(struct ss_tensor *t, void *factor)
{
    if (!ss_residual_there(t))
        return SS_ACCESS_NO_RESIDUAL;
    ss_residual_scale(t, *(const double *)factor);
    return SS_OK;
}

int ss_tensor_drop(struct ss_tensor *t, void *ctx)
{
    (void)ctx;
    if (!ss_residual_there(t))
        return SS_ACCESS_NO_RESIDUAL;
    ss_residual_clear(t);
    if (t->state == SS_TENSOR_EXACT)
        ss_residual_drop(t);
    return SS_OK;
}

/* ---- the report ---- */

/* Filled before it is listed: another thread may be writing a report. */
static void book(struct ss_comm *comm, struct ss_tensor *t, const void *owner)
{
    struct ss_tensor_record r = {
        .owner = owner,
        .size = comm->t->size,
        .ordinal = t->ordinal,
        .type = t->type,
        .count = t->n,
        .state = t->state,
        .reason = t->reason,
        .calls = t->calls,
        .decided_at = t->decided_at,
        .topk_calls = t->stats.topk_calls,
        .asked_sum = t->stats.asked_sum,
        .density_sum = t->stats.density_sum,
        .off_sum = t->stats.off_sum,
        .global_calls = t->stats.global_calls,
        .global_off_sum = t->stats.global_off_sum,
        .by_host = t->range.by_host,
        .residual_norm = t->in_flight > 0 ? t->residual.norm : ss_residual_norm(t),
        .late = comm->rounds ? ss_rounds_late(comm->rounds, t) : 0,
        .input_norm = t->stats.input_norm,
        .guard_looks = t->guarding.checks,
        .guard_cosine = t->guarding.cosine,
        .guard_ratio = t->guarding.ratio,
    };

    snprintf(r.comm, sizeof r.comm, "%s", comm->name);
    snprintf(r.site, sizeof r.site, "%s", t->site_name);
    snprintf(r.symbol, sizeof r.symbol, "%s", t->symbol);
    ss_tensor_override(t, r.rule, sizeof r.rule);
    r.series = t->series.data ? ss_series_copy(t->series.data) : NULL;
    if (!ss_stats_tensor(comm->stats, &r))
        free(r.series);
}

/* A visit; ctx is the communicator and the owner. */
struct booking {
    struct ss_comm *comm;
    const void *owner;
};

static int book_visit(struct ss_tensor *t, void *ctx)
{
    const struct booking *b = ctx;

    book(b->comm, t, b->owner);
    return SS_OK;
}

/* A call on it is under way, which has taken entries out of the residual: the norm last known. */
static void book_busy(const struct booking *b, size_t i)
{
    struct ss_tensors *ts = b->comm->tensors;
    struct ss_tensor *t;
    size_t n;

    ss_tensors_lock(ts);
    n = count(ts, NULL);
    for (t = ss_tensors_first(ts); t && i + 1 < n; t = t->next, n--)
        ;
    if (t && t->in_flight > 0)
        book(b->comm, t, b->owner);
    ss_tensors_unlock(ts);
}

void ss_comm_book_tensors(struct ss_comm *comm, bool last)
{
    struct booking b = {comm, last ? NULL : comm};
    size_t n = ss_comm_tensors(comm, NULL);
    ss_fpenv saved = ss_fpenv_enter();

    ss_stats_forget_tensors(comm->stats, comm);
    for (size_t i = 0; i < n; i++)
        if (ss_comm_tensor(comm, NULL, i, book_visit, &b) == SS_ACCESS_BUSY)
            book_busy(&b, i);
    ss_fpenv_leave(saved);
}

static void tell_unsent(const struct ss_comm *comm, const struct ss_tensor *t, size_t others,
                        char *text, size_t size)
{
    char more[64] = "";

    if (others > 0)
        snprintf(more, sizeof more, "; %zu more on this communicator", others);
    snprintf(text, size,
             "lossy: %llu %s called from %s on %s ends with a residual of norm %.3g on rank %d: it "
             "became exact (%s), and what its lossy calls had kept back is sent a sixteenth at a "
             "time in calls that fit, of which too few came%s",
             (unsigned long long)t->n, ss_type_name(t->type),
             t->site_name[0] ? t->site_name : "an unknown place",
             comm->name[0] ? comm->name : "an unnamed communicator", t->residual.norm,
             comm->t->rank, ss_tensor_reason_name(t->reason), more);
}

size_t ss_comm_unsent(struct ss_comm *comm, char *text, size_t size)
{
    const struct ss_tensor *largest = NULL;
    struct ss_fpenv_full saved;
    size_t unsent = 0;

    snprintf(text, size, "%s", "");
    if (!comm->tensors || comm->unsent_told)
        return 0;
    ss_fpenv_enter_full(&saved);
    ss_tensors_lock(comm->tensors);
    for (struct ss_tensor *t = ss_tensors_first(comm->tensors); t; t = t->next) {
        if (t->state != SS_TENSOR_EXACT || t->in_flight > 0 || !(ss_residual_norm(t) > 0))
            continue;
        unsent++;
        if (!largest || t->residual.norm > largest->residual.norm)
            largest = t;
    }
    if (largest)
        tell_unsent(comm, largest, unsent - 1, text, size);
    comm->unsent_told = true;
    ss_tensors_unlock(comm->tensors);
    ss_fpenv_leave_full(&saved);
    return unsent;
}

double ss_comm_residual(struct ss_comm *comm)
{
    struct ss_fpenv_full saved;
    double square = 0, norm;

    if (!comm->tensors)
        return 0;
    ss_fpenv_enter_full(&saved);
    ss_tensors_lock(comm->tensors);
    for (struct ss_tensor *t = ss_tensors_first(comm->tensors); t; t = t->next)
        if (t->in_flight == 0) {
            norm = ss_residual_norm(t);
            square += norm * norm;
        }
    ss_tensors_unlock(comm->tensors);
    norm = ss_root(square);
    ss_fpenv_leave_full(&saved);
    return norm;
}

static void tell_lost(const struct ss_comm *comm, const struct ss_tensor *t, double norm,
                      size_t others, char *text, size_t size)
{
    char more[64] = "";

    if (others > 0)
        snprintf(more, sizeof more, "; %zu more on this communicator", others);
    snprintf(text, size,
             "lossy: %llu %s called from %s on %s: the device that held this rank's residual has "
             "failed: its residual, of norm %.3g, is lost%s",
             (unsigned long long)t->n, ss_type_name(t->type),
             t->site_name[0] ? t->site_name : "an unknown place",
             comm->name[0] ? comm->name : "an unnamed communicator", norm, more);
}

size_t ss_comm_lost(struct ss_comm *comm, char *text, size_t size)
{
    const struct ss_tensor *largest = NULL;
    struct ss_fpenv_full saved;
    double most = 0;
    size_t lost = 0;

    if (!comm->tensors)
        return 0;
    ss_fpenv_enter_full(&saved);
    ss_tensors_lock(comm->tensors);
    for (struct ss_tensor *t = ss_tensors_first(comm->tensors); t; t = t->next) {
        const double norm = t->in_flight > 0 ? 0 : ss_residual_give_up(t);
        lost += norm > 0;
        if (norm > most)
            largest = t;
        most = norm > most ? norm : most;
    }
    if (largest)
        tell_lost(comm, largest, most, lost - 1, text, size);
    (void)ss_residual_lost(comm->tensors);
    ss_tensors_unlock(comm->tensors);
    ss_fpenv_leave_full(&saved);
    return lost;
}
