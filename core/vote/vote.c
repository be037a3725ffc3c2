/* Combines, checks and exchanges ballots. */
#include "core/vote/vote.h"

#include <string.h>

enum { BALLOT_MAGIC = 0x73733176, BALLOT_VERSION = 11 };

void ss_ballot_init(struct ss_ballot *ballot)
{
    *ballot = (struct ss_ballot){
        .magic = BALLOT_MAGIC, .version = BALLOT_VERSION, .memory_min = UINT64_MAX};
}

static uint64_t min64(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static uint64_t max64(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

void ss_ballot_merge(struct ss_ballot *into, const struct ss_ballot *other)
{
    into->flags |= other->flags;
    for (int i = 0; i < SS_SAMES; i++) {
        into->same_min[i] = min64(into->same_min[i], other->same_min[i]);
        into->same_max[i] = max64(into->same_max[i], other->same_max[i]);
    }
    into->nnz_sum += other->nnz_sum;
    into->nnz_max = max64(into->nnz_max, other->nnz_max);
    into->part_max = max64(into->part_max, other->part_max);
    into->memory_min = min64(into->memory_min, other->memory_min);
    into->k_max = max64(into->k_max, other->k_max);
    into->ratio_max = max64(into->ratio_max, other->ratio_max);
    into->result_max = max64(into->result_max, other->result_max);
    into->state_sum += other->state_sum;
    for (int i = 0; i < SS_COSTS; i++)
        into->costs[i] = into->costs[i] > other->costs[i] ? into->costs[i] : other->costs[i];
    into->last_min = min64(into->last_min, other->last_min);
}

void ss_vote_start(struct ss_vote *vote, struct ss_transport *t, uint32_t call)
{
    ss_schedule_exchange_start(&vote->exchange, t);
    vote->call = call;
    vote->bytes = vote->inside = 0;
}

static uint64_t check_of(const struct ss_ballot *ballot)
{
    uint64_t h = 0xcbf29ce484222325ULL, word;

    for (size_t i = 0; i < offsetof(struct ss_ballot, check); i += sizeof word) {
        memcpy(&word, (const unsigned char *)ballot + i, sizeof word);
        h ^= word;
        h *= 0x9e3779b97f4a7c15ULL;
        h ^= h >> 32;
    }
    return h;
}

/* Returns SS_OK if a ballot of this version arrived. Otherwise the peer speaks another protocol. */
static int check_incoming(const struct ss_vote *v)
{
    if (v->exchange.recv.status != SS_OK)
        return v->exchange.recv.status;
    if (v->exchange.recv.bytes != sizeof v->incoming || v->incoming.magic != BALLOT_MAGIC ||
        v->incoming.version != BALLOT_VERSION || v->incoming.check != check_of(&v->incoming))
        return SS_ERR_PROTOCOL;
    return SS_OK;
}

static int post(void *context, struct ss_schedule_exchange *m, const struct ss_pair_exchange *now)
{
    struct ss_vote *v = context;
    struct ss_tag tag = {.call = v->call, .phase = SS_PHASE_VOTE, .round = now->round};
    int status = SS_OK;

    if (now->from >= 0)
        status = ss_schedule_exchange_recv(m, now->from, tag, &v->incoming, sizeof v->incoming);
    if (now->to < 0 || status != SS_OK)
        return status;
    v->outgoing = v->ballot;
    v->outgoing.check = check_of(&v->outgoing);
    v->bytes += sizeof v->outgoing;
    v->inside += ss_transport_inside(m->t, now->to, sizeof v->outgoing);
    return ss_schedule_exchange_send(m, now->to, tag, &v->outgoing, sizeof v->outgoing);
}

/* Merges the received ballot. */
static int take(void *context, struct ss_schedule_exchange *m, const struct ss_pair_exchange *now)
{
    struct ss_vote *v = context;
    int status = m->send.status;

    if (status == SS_OK && now->from >= 0)
        status = check_incoming(v);
    if (status != SS_OK || now->from < 0)
        return status;
    if (now->result)
        v->ballot = v->incoming;
    else
        ss_ballot_merge(&v->ballot, &v->incoming);
    return SS_OK;
}

int ss_vote_step(struct ss_vote *v, bool *moved)
{
    static const struct ss_schedule_exchange_steps parts = {post, take};

    return ss_schedule_exchange_step(&v->exchange, &parts, v, moved);
}

void ss_vote_cancel(struct ss_vote *v)
{
    ss_schedule_exchange_cancel(&v->exchange);
}
