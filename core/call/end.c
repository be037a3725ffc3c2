/* The end of a call: what is booked, and the texts of reasons, errors and waits. */
#include <stdio.h>

#include "core/base/fpenv.h"
#include "core/call/call_impl.h"
#include "core/coll/algorithms.h"

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

/* Returns the density of the elements that this rank gave, or of those of its host's sum. */
static double density(const struct ss_feedback *f)
{
    const uint64_t n = f->host.done ? f->select_n : f->c.in_n;

    return n > 0 ? (double)f->c.scan.nnz / (double)n : 0;
}

/* Returns true if this rank sees the whole result. */
static bool result_known(const struct ss_coll *c)
{
    return c->kind == SS_KIND_ALLREDUCE || c->kind == SS_KIND_ALLGATHER ||
           (c->kind == SS_KIND_REDUCE && c->x.t->rank == c->root);
}

/* Returns true if a sum of the call may have overflowed. A round may have ended before its call
 * began. */
static bool may_have_overflowed(const struct ss_call *call)
{
    const struct ss_comm *comm = call->f.comm;

    return comm->t->not_finite != call->not_finite ||
           (call->partial && comm->rounds_t->not_finite > 0);
}

static unsigned exceptions_of(const struct ss_coll *c)
{
    if (!ss_type_is_float(c->x.type) || c->x.backend != &ss_host)
        return 0;
    return ss_vector_exceptions(c->x.type, c->out, (size_t)c->out_n);
}

/* Returns the bytes that this rank would send without the library. The bytes of its host to other
 * hosts are divided among the host's ranks as in the algorithm that ran, so that a rank can compare
 * the two. */
static struct ss_sent dense_bytes(const struct ss_call *call, enum ss_algorithm ran)
{
    const struct ss_coll *c = &call->f.c;
    const struct ss_layout *l = call->f.comm->layout;
    const int rank = c->x.t->rank;
    struct ss_sender s = {.size = c->x.t->size, .root = rank == c->root};

    s.hosts = l ? l->hosts : s.size;
    s.local = s.slices = l ? ss_layout_count(l, l->host[rank]) : 1;
    s.own = 1;
    s.near_root = c->kind == SS_KIND_REDUCE && l && l->host[rank] == l->host[c->root];
    if (ran == SS_TWO_LEVEL)
        s.own = ss_two_level_slices(l, rank, c->x.n, &s.slices);
    return ss_kind_dense_bytes(c->kind, &s, c->x.n * c->x.esize);
}

/* Counts a call of the program. Of a call in windows the first one counts; a later one that fails
 * counts as an error. */
static void count(const struct ss_call *call)
{
    struct ss_stats *stats = call->f.comm->stats;
    const bool later = call->f.key.window > 0;

    if (!call->native && call->f.c.x.failed < 0)
        atomic_fetch_add(&stats->errors, 1);
    else if (call->native && !later)
        atomic_fetch_add(&stats->passed[call->reason], 1);
    else if (!later)
        atomic_fetch_add(&stats->sparse, 1);
}

static void book(struct ss_call *call, double native_seconds)
{
    struct ss_coll *c = &call->f.c;
    struct ss_exchange *x = &c->x;
    struct ss_stats *stats = call->f.comm->stats;
    struct ss_lane_record *r = call->f.lane ? call->f.lane->record : NULL;
    bool native = call->native;

    enum ss_algorithm ran = call->plan.algorithm;

    if (native)
        ran = native_seconds >= 0 ? SS_DENSE : SS_AUTO;
    if (x->failed < 0)
        ran = SS_AUTO;
    const struct ss_sent dense = dense_bytes(call, ran);
    if (!call->partial)
        ss_partial_end_full(&call->f, ran);
    ss_topk_end(&call->f, ran);
    if (native) {
        if (native_seconds > 0)
            *ss_span_booked(&x->spans.times, SS_SPAN_NATIVE) = native_seconds;
        if (call->f.lane && call->f.lane->history.last == SS_DENSE && x->number > 0)
            ss_in_flight_book_seconds(&call->flight, native_seconds);
        x->bytes_sent += dense.all;
        x->bytes_inside += dense.inside;
    } else if (x->failed == 0) {
        call->exceptions = may_have_overflowed(call) ? exceptions_of(&call->f.c) : 0;
    }
    count(call);
    if (!r)
        return;
    pthread_mutex_lock(&stats->lock);
    r->calls++;
    if (native)
        r->passed[call->reason]++;
    else if (x->failed == 0)
        r->sparse[call->plan.algorithm]++;
    if (x->number > 0 && !call->f.cannot && !call->partial) {
        r->scans++;
        r->density_sum += density(&call->f);
    }
    if (!native && !call->partial && x->failed == 0 && result_known(&call->f.c)) {
        r->fillin_calls++;
        r->fillin_sum += (double)c->result_nnz / (double)x->n;
    }
    r->bytes_dense += dense.all;
    r->dense_inside += dense.inside;
    r->bytes_sent += x->bytes_sent;
    r->sent_inside += x->bytes_inside;
    book_times(&r->times, &x->spans.times);
    pthread_mutex_unlock(&stats->lock);
}

static void end_trace(const struct ss_call *call, struct ss_spans *spans)
{
    const struct ss_exchange *x = &call->f.c.x;
    const struct ss_trace_call what = {
        .comm = call->f.comm->name,
        .ranks = x->t->size,
        .number = call->number,
        .count = call->f.reported_n,
        .type = ss_type_name(call->f.reported_type),
        .algorithm = ss_algorithm_name(ss_call_algorithm(call)),
        .why = x->failed < 0  ? ss_status_text(x->failed)
               : call->native ? ss_reason_name(call->reason)
                              : NULL,
        .bytes = x->bytes_sent,
        .inside = x->bytes_inside,
        .density = x->number > 0 && !call->f.cannot && !call->partial ? density(&call->f) : -1,
    };

    ss_spans_close(spans, &what, ss_now(x));
}

void ss_call_end(struct ss_call *call, double native_seconds)
{
    ss_fpenv saved = ss_fpenv_enter();

    ss_log_tensor(&call->f);
    book(call, native_seconds);
    if (call->f.c.x.spans.trace)
        end_trace(call, &call->f.c.x.spans);
    ss_in_flight_leave(&call->flight);
    ss_fpenv_leave(saved);
}

enum ss_reason ss_call_reason(const struct ss_call *call)
{
    return call->reason;
}

bool ss_call_joined(const struct ss_call *call)
{
    return call->f.state == SS_TOPK_JOINED;
}

bool ss_call_polled(const struct ss_call *call)
{
    return call->f.c.x.number > 0 && (call->f.vote.ballot.flags & SS_VOTE_POLLED);
}

uint64_t ss_call_piece(const struct ss_call *call)
{
    return call->pieces ? SS_PIECE / call->f.c.x.esize : 0;
}

bool ss_call_callbacks(const struct ss_call *call)
{
    return call->f.c.x.number > 0 && (call->f.vote.ballot.flags & SS_VOTE_CALLBACKS);
}

unsigned ss_call_exceptions(const struct ss_call *call)
{
    return call->exceptions;
}

bool ss_call_is_sparse(const struct ss_call *call)
{
    return call->decided && !call->native;
}

bool ss_call_moved(const struct ss_call *call)
{
    return call->f.c.x.moved;
}

enum ss_algorithm ss_call_algorithm(const struct ss_call *call)
{
    return call->native ? SS_DENSE : call->plan.algorithm;
}

double ss_call_density(const struct ss_call *call)
{
    ss_fpenv saved = ss_fpenv_enter();
    double share =
        call->f.c.x.number > 0 && !call->f.cannot && !call->partial ? density(&call->f) : -1;

    SS_FPENV_PIN(share);
    ss_fpenv_leave(saved);
    return share;
}

/* Hint for ranks that do not come to a vote. */
#define ASK                                                                                        \
    "does every rank make the same call next on this communicator, with the same count, datatype " \
    "and operator, preloaded and with the same SPARSESHIM_MIN_COUNT?"

static void explain(const struct ss_call *call, char *text, size_t size)
{
    const struct ss_coll *c = &call->f.c;
    const struct ss_exchange *x = &c->x;
    bool other = c->kind != SS_KIND_ALLREDUCE, differ = x->failed == SS_ERR_DIFFERENT;
    int length =
        snprintf(text, size, "rank %d: %s in the %s of call %llu (%s%s%llu %s elements%s%s)",
                 x->t->rank, ss_status_text(x->failed), ss_phase_name(x->failed_phase),
                 (unsigned long long)(call->failed_call > 0 ? call->failed_call : call->number),
                 other ? ss_kind_name(c->kind) : "", other ? ", " : "", (unsigned long long)x->n,
                 ss_type_name(x->type), differ ? ", " : "", differ ? ss_op_name(c->op) : "");
    bool alone = x->failed == SS_ERR_TIMEOUT && x->failed_phase == SS_PHASE_VOTE;

    if (x->failed_peer >= 0 && x->failed_peer != x->t->rank && length > 0 && (size_t)length < size)
        length += snprintf(text + length, size - (size_t)length,
                           ", waiting for or talking to rank %d", x->failed_peer);
    if (x->failed == SS_ERR_TIMEOUT && length > 0 && (size_t)length < size)
        snprintf(text + length, size - (size_t)length,
                 " (SPARSESHIM_TIMEOUT=%g s without progress)%s%s", call->f.comm->settings->timeout,
                 alone ? "; " : "", alone ? ASK : "");
}

void ss_call_explain(const struct ss_call *call, char *text, size_t size)
{
    struct ss_fpenv_full saved;

    ss_fpenv_enter_full(&saved);
    explain(call, text, size);
    ss_fpenv_leave_full(&saved);
}

static void describe_wait(struct ss_call *call, char *text, size_t size)
{
    struct ss_exchange *x = &call->f.c.x;
    char whom[32] = "the other ranks";
    int peer;
    enum ss_phase phase = ss_call_phase(call, &peer);

    if (peer >= 0 && peer != x->t->rank)
        snprintf(whom, sizeof whom, "rank %d", peer);
    snprintf(text, size,
             "communicator \"%s\" of %d ranks: rank %d has waited %.0f s for %s in the %s of call "
             "%llu (%s of %llu %s, %s); " ASK " SPARSESHIM_TIMEOUT ends such waits with an error",
             call->f.comm->name, x->t->size, x->t->rank, call->wait.seconds, whom,
             ss_phase_name(phase), (unsigned long long)call->number, ss_kind_name(call->f.c.kind),
             (unsigned long long)x->n, ss_type_name(x->type), ss_op_name(call->f.c.op));
}

bool ss_call_waits(struct ss_call *call, char *text, size_t size)
{
    struct ss_feedback *f = &call->f;
    double patience = f->comm->settings->patience;
    struct ss_fpenv_full saved;

    if (call->wait.seconds == 0 || patience == 0 || f->comm->wait_warned)
        return false;
    ss_fpenv_enter_full(&saved);
    bool now = call->wait.seconds > patience;
    if (now)
        describe_wait(call, text, size);
    ss_fpenv_leave_full(&saved);
    f->comm->wait_warned = now;
    return now;
}
