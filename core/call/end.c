/* The end of a call: what is booked, and what is said of it. */
#include <stdio.h>

#include "core/call/call_impl.h"
#include "core/base/fpenv.h"

static void book_times(struct ss_times *sum, const struct ss_times *t)
{
    double exchange = t->exchange - t->merge - t->coding;

    sum->scan += t->scan;
    sum->vote += t->vote;
    sum->exchange += exchange > 0 ? exchange : 0;
    sum->merge += t->merge;
    sum->coding += t->coding;
    sum->native += t->native;
}

/* Of the elements this rank gave. */
static double density(const struct ss_call *c)
{
    return c->in_n > 0 ? (double)c->scan.nnz / (double)c->in_n : 0;
}

/* Not every rank sees all of the result. */
static bool result_known(const struct ss_call *c)
{
    return c->kind == SS_KIND_ALLREDUCE || c->kind == SS_KIND_ALLGATHER ||
           (c->kind == SS_KIND_REDUCE && c->t->rank == c->root);
}

static void book(struct ss_call *c, double native_seconds)
{
    struct ss_stats *stats = c->comm->stats;
    struct ss_lane_record *r = c->lane ? c->lane->record : NULL;
    bool native = c->native;
    uint64_t dense =
        ss_kind_dense_bytes(c->kind, c->t->size, c->t->rank == c->root, c->n * c->esize);

    ss_topk_end(c, native && native_seconds >= 0);
    if (native) {
        if (native_seconds > 0)
            c->times.native = native_seconds;
        if (c->lane && c->lane->history.last == SS_DENSE && c->number > 0)
            c->lane->history.last_seconds = native_seconds;
        c->bytes_sent += dense;
        atomic_fetch_add(&stats->passed[c->reason], 1);
    } else if (c->failed == 0) {
        atomic_fetch_add(&stats->sparse, 1);
    } else {
        atomic_fetch_add(&stats->errors, 1);
    }
    if (!r)
        return;
    pthread_mutex_lock(&stats->lock);
    r->calls++;
    if (native)
        r->passed[c->reason]++;
    else if (c->failed == 0)
        r->sparse[c->plan.algorithm]++;
    if (c->number > 0 && !c->cannot) {
        r->scans++;
        r->density_sum += density(c);
    }
    if (!native && c->failed == 0 && result_known(c)) {
        r->fillin_calls++;
        r->fillin_sum += (double)c->result_nnz / (double)c->n;
    }
    r->bytes_dense += dense;
    r->bytes_sent += c->bytes_sent;
    book_times(&r->times, &c->times);
    pthread_mutex_unlock(&stats->lock);
}

void ss_call_end(struct ss_call *c, double native_seconds)
{
    ss_fpenv saved = ss_fpenv_enter();

    book(c, native_seconds);
    ss_fpenv_leave(saved);
}

enum ss_reason ss_call_reason(const struct ss_call *c)
{
    return c->reason;
}

bool ss_call_joined(const struct ss_call *c)
{
    return c->joined > 0;
}

bool ss_call_polled(const struct ss_call *c)
{
    return c->number > 0 && (c->vote.ballot.flags & SS_VOTE_POLLED);
}

bool ss_call_callbacks(const struct ss_call *c)
{
    return c->number > 0 && (c->vote.ballot.flags & SS_VOTE_CALLBACKS);
}

bool ss_call_moved(const struct ss_call *c)
{
    return c->moved;
}

enum ss_algorithm ss_call_algorithm(const struct ss_call *c)
{
    return c->native ? SS_DENSE : c->plan.algorithm;
}

double ss_call_density(const struct ss_call *c)
{
    ss_fpenv saved = ss_fpenv_enter();
    double share = c->number > 0 && !c->cannot ? density(c) : -1;

    SS_FPENV_HOLD(share);
    ss_fpenv_leave(saved);
    return share;
}

/* Ranks that do not come to a vote: what the reader is to look for. */
#define ASK                                                                                        \
    "does every rank make the same call next on this communicator, with the same count, datatype " \
    "and operator, preloaded and with the same SPARSESHIM_MIN_COUNT?"

static void explain(const struct ss_call *c, char *text, size_t size)
{
    bool other = c->kind != SS_KIND_ALLREDUCE, differ = c->failed == SS_ERR_DIFFERENT;
    int length =
        snprintf(text, size, "rank %d: %s in the %s of call %u (%s%s%llu %s elements%s%s)",
                 c->t->rank, ss_status_text(c->failed), ss_phase_name(c->failed_phase), c->number,
                 other ? ss_kind_name(c->kind) : "", other ? ", " : "", (unsigned long long)c->n,
                 ss_type_name(c->type), differ ? ", " : "", differ ? ss_op_name(c->op) : "");
    bool alone = c->failed == SS_ERR_TIMEOUT && c->failed_phase == SS_PHASE_VOTE;

    if (c->failed_peer >= 0 && c->failed_peer != c->t->rank && length > 0 && (size_t)length < size)
        length += snprintf(text + length, size - (size_t)length,
                           ", waiting for or talking to rank %d", c->failed_peer);
    if (c->failed == SS_ERR_TIMEOUT && length > 0 && (size_t)length < size)
        snprintf(text + length, size - (size_t)length,
                 " (SPARSESHIM_TIMEOUT=%g s without progress)%s%s", c->comm->settings->timeout,
                 alone ? "; " : "", alone ? ASK : "");
}

void ss_call_explain(const struct ss_call *c, char *text, size_t size)
{
    struct ss_fpenv_full saved;

    ss_fpenv_enter_full(&saved);
    explain(c, text, size);
    ss_fpenv_leave_full(&saved);
}

static void describe_wait(struct ss_call *c, char *text, size_t size)
{
    char whom[32] = "the other ranks";
    int peer;
    enum ss_phase phase = ss_call_phase(c, &peer);

    if (peer >= 0 && peer != c->t->rank)
        snprintf(whom, sizeof whom, "rank %d", peer);
    snprintf(text, size,
             "communicator \"%s\" of %d ranks: rank %d has waited %.0f s for %s in the %s of call "
             "%u (%s of %llu %s, %s); " ASK " SPARSESHIM_TIMEOUT ends such waits with an error",
             c->comm->name, c->t->size, c->t->rank, c->waited, whom, ss_phase_name(phase),
             c->number, ss_kind_name(c->kind), (unsigned long long)c->n, ss_type_name(c->type),
             ss_op_name(c->op));
}

bool ss_call_waits(struct ss_call *c, char *text, size_t size)
{
    double patience = c->comm->settings->patience;
    struct ss_fpenv_full saved;

    if (c->waited == 0 || patience == 0 || c->comm->wait_told)
        return false;
    ss_fpenv_enter_full(&saved);
    bool now = c->waited > patience;
    if (now)
        describe_wait(c, text, size);
    ss_fpenv_leave_full(&saved);
    c->comm->wait_told = now;
    return now;
}
