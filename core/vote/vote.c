#include "core/vote/vote.h"

#include <string.h>

enum { BALLOT_MAGIC = 0x73733176, BALLOT_VERSION = 6 };

void ss_ballot_init(struct ss_ballot *ballot)
{
    *ballot = (struct ss_ballot){
        .magic = BALLOT_MAGIC, .version = BALLOT_VERSION, .memory_min = UINT64_MAX};
    ss_evidence_init(&ballot->evidence);
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
    into->norm_max = max64(into->norm_max, other->norm_max);
    for (int i = 0; i < SS_STEP_PARTS; i++)
        into->parts[i] = (uint8_t)max64(into->parts[i], other->parts[i]);
    into->result_max = max64(into->result_max, other->result_max);
    for (int i = 0; i < SS_COSTS; i++)
        into->costs[i] = max64(into->costs[i], other->costs[i]);
    into->last_min = min64(into->last_min, other->last_min);
    ss_evidence_merge(&into->evidence, &other->evidence);
}

void ss_vote_start(struct ss_vote *vote, struct ss_transport *t, uint32_t call)
{
    vote->t = t;
    vote->call = call;
    vote->schedule = ss_schedule_of(t->rank, t->size);
    vote->peer = -1;
    vote->waiting = false;
    vote->bytes = 0;
    vote->send = vote->recv = (struct ss_request){0};
}

/* Evidence travels where there is any. */
static size_t length_of(const struct ss_ballot *ballot)
{
    return ballot->evidence.shown > 0 ? sizeof *ballot : offsetof(struct ss_ballot, evidence);
}

static uint64_t hash_words(uint64_t h, const void *from, size_t bytes)
{
    for (size_t i = 0; i < bytes; i += sizeof(uint64_t)) {
        uint64_t word;
        memcpy(&word, (const unsigned char *)from + i, sizeof word);
        h ^= word;
        h *= 0x9e3779b97f4a7c15ULL;
        h ^= h >> 32;
    }
    return h;
}

static uint64_t check_of(const struct ss_ballot *ballot, size_t length)
{
    size_t behind = offsetof(struct ss_ballot, evidence);
    uint64_t h = hash_words(0xcbf29ce484222325ULL, ballot, offsetof(struct ss_ballot, check));

    return hash_words(h, &ballot->evidence, length - behind);
}

/* A send that is refused is tried once more: a rank that leaves the vote leaves all others waiting.
 */
static int send_ballot(struct ss_vote *v, int peer, unsigned round)
{
    struct ss_tag tag = {.call = v->call, .phase = SS_PHASE_VOTE, .round = round};
    int status = SS_ERR_TRANSPORT;

    v->outgoing = v->ballot;
    size_t length = length_of(&v->outgoing);
    v->outgoing.check = check_of(&v->outgoing, length);
    v->peer = peer;
    v->bytes += length;
    for (int attempt = 0; status != SS_OK && attempt < 2; attempt++)
        status = v->t->ops->send(v->t, peer, tag, &v->outgoing, length, &v->send);
    return status;
}

static int recv_ballot(struct ss_vote *v, int peer, unsigned round)
{
    struct ss_tag tag = {.call = v->call, .phase = SS_PHASE_VOTE, .round = round};

    v->peer = peer;
    return v->t->ops->recv(v->t, peer, tag, &v->incoming, sizeof v->incoming, &v->recv);
}

/* What arrived is a ballot of this version, else the peer speaks another protocol. */
static int check_incoming(struct ss_vote *v)
{
    size_t length = v->recv.bytes, least = offsetof(struct ss_ballot, evidence);

    if (v->recv.status != SS_OK)
        return v->recv.status;
    if (length == least)
        ss_evidence_init(&v->incoming.evidence);
    if ((length != least && length != sizeof v->incoming) || v->incoming.magic != BALLOT_MAGIC ||
        v->incoming.version != BALLOT_VERSION ||
        v->incoming.check != check_of(&v->incoming, length))
        return SS_ERR_PROTOCOL;
    return SS_OK;
}

/* Posts the messages of a meeting; one with nobody leaves both requests inactive. */
static int post(struct ss_vote *v, const struct ss_meeting *m)
{
    int status = SS_OK;

    if (m->from >= 0)
        status = recv_ballot(v, m->from, m->round);
    if (m->to >= 0 && status == SS_OK)
        status = send_ballot(v, m->to, m->round);
    return status;
}

/* Takes in what the meeting brought. */
static int take(struct ss_vote *v, const struct ss_meeting *m)
{
    int status = v->send.status;

    if (status == SS_OK && m->from >= 0)
        status = check_incoming(v);
    if (status != SS_OK || m->from < 0)
        return status;
    if (m->result)
        v->ballot = v->incoming;
    else
        ss_ballot_merge(&v->ballot, &v->incoming);
    return SS_OK;
}

int ss_vote_step(struct ss_vote *v, bool *moved)
{
    struct ss_meeting m;

    while (ss_schedule_now(&v->schedule, &m)) {
        int status;

        if (!v->waiting) {
            if ((status = post(v, &m)) != SS_OK)
                return status;
            v->waiting = true;
        }
        if (v->send.active || v->recv.active)
            return SS_PENDING;
        v->waiting = false;
        *moved = true;
        if ((status = take(v, &m)) != SS_OK)
            return status;
        ss_schedule_next(&v->schedule);
    }
    return SS_OK;
}

void ss_vote_cancel(struct ss_vote *v)
{
    if (v->recv.active)
        v->t->ops->cancel(v->t, &v->recv);
    if (v->send.active)
        v->t->ops->cancel(v->t, &v->send);
}
