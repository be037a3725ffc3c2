/* The sum of a host's inputs (core/feedback/host_sum.c) without messages: a rank reads its slices
 * of the inputs in the memory of the other ranks, and adds them up in rank order. The bits are
 * those of messages.
 *
 * No rank waits here. The vote before it tells that all inputs are shown; the vote after it ends
 * when all ranks have read them. */
#include "core/feedback/feedback.h"
#include "core/net/peer_memory.h"

bool ss_host_sum_wants_peers(const struct ss_comm *comm)
{
    const struct ss_settings *s = comm->settings;

    return s->topk && !s->observe && ss_host_sum_possible(comm) &&
           (s->aggregation == SS_AGGREGATION_ON || ss_rules_name_hosts(s->tensors.include));
}

/* Returns true if this call's input is shown to the other ranks. The room is for one input, and a
 * rank has one blocking call at a time. */
static bool shows(const struct ss_feedback *f)
{
    return f->comm->peers && !f->nonblocking;
}

void ss_host_sum_show(struct ss_feedback *f)
{
    const struct ss_exchange *x = &f->c.x;

    f->host.hidden =
        shows(f) && !ss_peers_show(f->comm->peers, x->number, f->c.in, (size_t)x->n * x->esize);
}

void ss_host_sum_hide(struct ss_feedback *f)
{
    if (shows(f))
        ss_peers_hide(f->comm->peers, f->c.x.number);
}

bool ss_host_sum_reads(const struct ss_feedback *f)
{
    return shows(f) && !(f->vote.ballot.flags & SS_VOTE_HIDDEN);
}

/* Adds up the next elements of the own slices. */
static void add_piece(struct ss_feedback *f, size_t n)
{
    struct ss_exchange *x = &f->c.x;
    const struct ss_host_sum *h = &f->host;
    const size_t first = (size_t)(f->tensor->range.first + h->covered);
    void *sum = ss_at(x->work->host_sum.data, (size_t)h->covered, x->esize);

    for (int local = 0; local < h->subset.t.size && x->failed == 0; local++) {
        const int rank = ss_subset_rank(&h->subset, local);
        const void *from = x->work->inbox.data;
        if (local == h->subset.t.rank)
            from = ss_at_const(f->c.in, first, x->esize);
        else if (!ss_peers_read(f->comm->peers, rank, x->number, first * x->esize,
                                x->work->inbox.data, n * x->esize))
            ss_fail(x, SS_ERR_PEER, local, SS_PHASE_REDUCE);
        if (x->failed == 0)
            x->backend->ops->reduce(x->backend, x->type, f->c.op, sum, from, n);
    }
}

/* Fails if a rank has given up the call, so that its program may have changed the input. */
static void look_again(struct ss_feedback *f)
{
    struct ss_exchange *x = &f->c.x;
    const struct ss_host_sum *h = &f->host;
    uint64_t address;

    for (int local = 0; local < h->subset.t.size; local++)
        if (local != h->subset.t.rank &&
            !ss_peers_look(f->comm->peers, ss_subset_rank(&h->subset, local), x->number, &address))
            ss_fail(x, SS_ERR_PEER, local, SS_PHASE_REDUCE);
}

/* Counts what the other ranks read here. */
static void count_bytes(struct ss_feedback *f)
{
    struct ss_exchange *x = &f->c.x;
    const uint64_t bytes = (x->n - f->tensor->range.n) * x->esize;

    x->bytes_sent += bytes;
    x->bytes_inside += bytes;
    x->phase_sent[SS_PHASE_REDUCE] += bytes;
}

int ss_host_sum_read(struct ss_feedback *f)
{
    struct ss_exchange *x = &f->c.x;
    struct ss_host_sum *h = &f->host;
    const uint64_t left = f->tensor->range.n - h->covered;
    const size_t n = (size_t)(left < SS_CHUNK_ENTRIES ? left : SS_CHUNK_ENTRIES);

    x->moved = true;
    if (x->failed == 0 && left > 0) {
        const double begin = ss_span_begin(x, SS_SPAN_MERGE);
        add_piece(f, n);
        ss_span_end(x, SS_SPAN_MERGE, begin);
        h->covered += n;
        return SS_PENDING;
    }
    if (x->failed == 0 && h->covered > 0)
        look_again(f);
    count_bytes(f);
    return SS_OK;
}
