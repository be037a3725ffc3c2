/* Implements the exchange of a call: its failure, its sends, the bytes it counts, and its
 * cancellation. */
#include "core/stream/exchange.h"

#include "core/stream/in.h"
#include "core/stream/word_exchange.h"

/* Returns the rank in the communicator of a peer of the open streams. */
static int rank_of(const struct ss_exchange *x, int peer)
{
    return x->subset && peer >= 0 ? ss_subset_rank(x->subset, peer) : peer;
}

/* Returns the number in x->t of a peer of the open streams. */
static int numbered(const struct ss_exchange *x, int peer)
{
    return x->subset && x->t == &x->subset->t ? peer : rank_of(x, peer);
}

void ss_fail(struct ss_exchange *x, int status, int peer, enum ss_phase phase)
{
    if (x->failed < 0)
        return;
    x->failed = status;
    x->failed_peer = x->subset && x->t == &x->subset->t ? rank_of(x, peer) : peer;
    x->failed_phase = phase;
}

int ss_exchange_poll(struct ss_exchange *x)
{
    int status = x->ticket == 0 ? SS_OK : x->backend->ops->poll(x->backend, x->ticket);

    if (status == SS_PENDING)
        return SS_PENDING;
    x->moved = true;
    x->ticket = 0;
    return status;
}

bool ss_settle(struct ss_exchange *x, enum ss_phase phase)
{
    int status = ss_exchange_poll(x);

    if (status < 0)
        ss_fail(x, status, x->t->rank, phase);
    else if (status == SS_OK && x->refused > 0)
        ss_fail(x, SS_ERR_MESSAGE, x->refused - 1, phase);
    return status != SS_PENDING;
}

struct ss_send_slot *ss_send_slot_free(struct ss_exchange *x)
{
    for (int i = 0; i < SS_SEND_SLOTS; i++)
        if (!x->slots[i].request.active)
            return &x->slots[i];
    return NULL;
}

struct ss_tag ss_exchange_tag(const struct ss_exchange *x, enum ss_phase phase, unsigned round)
{
    return (struct ss_tag){.call = x->number, .phase = phase, .round = round};
}

struct ss_wire_key ss_exchange_key(const struct ss_exchange *x, enum ss_phase phase)
{
    return (struct ss_wire_key){.type = x->type, .call = x->number, .phase = phase};
}

void ss_sent_count(struct ss_exchange *x, int dst, enum ss_phase phase, size_t len)
{
    const struct ss_transport *all = ss_exchange_all(x);

    x->bytes_sent += len;
    x->bytes_inside += ss_transport_inside(all, x->t == all ? dst : rank_of(x, dst), len);
    x->phase_sent[phase] += len;
}

bool ss_send_post(struct ss_exchange *x, struct ss_send_slot *slot, int dst, enum ss_phase phase,
                  unsigned round, const void *msg, size_t len)
{
    struct ss_tag tag = ss_exchange_tag(x, phase, round);

    slot->dst = dst;
    x->moved = true;
    ss_sent_count(x, dst, phase, len);
    if (x->t->ops->send(x->t, dst, tag, msg, len, &slot->request) == SS_OK)
        return true;
    ss_fail(x, SS_ERR_TRANSPORT, dst, phase);
    struct ss_wire_key key = ss_exchange_key(x, phase);
    len = ss_wire_encode_error(slot->header, &key, SS_ERR_TRANSPORT);
    if (x->t->ops->send(x->t, dst, tag, slot->header, len, &slot->request) != SS_OK)
        slot->request.active = false;
    return false;
}

int ss_send_raw(struct ss_exchange *x, int dst, enum ss_phase phase, unsigned round,
                const void *msg, size_t len)
{
    struct ss_send_slot *slot = ss_send_slot_free(x);

    if (!slot)
        return SS_PENDING;
    return ss_send_post(x, slot, dst, phase, round, msg, len) ? SS_OK : SS_ERR_TRANSPORT;
}

int ss_send_error(struct ss_exchange *x, int dst, enum ss_phase phase, unsigned round)
{
    struct ss_send_slot *slot = ss_send_slot_free(x);
    struct ss_wire_key key = ss_exchange_key(x, phase);

    if (!slot)
        return SS_PENDING;
    size_t len = ss_wire_encode_error(slot->header, &key, SS_ERR_PEER);
    ss_send_post(x, slot, dst, phase, round, slot->header, len);
    return SS_OK;
}

int ss_sends_reap(struct ss_exchange *x)
{
    int status = SS_OK;

    for (int i = 0; i < SS_SEND_SLOTS; i++) {
        struct ss_send_slot *slot = &x->slots[i];
        if (slot->request.active)
            status = SS_PENDING;
        else if (slot->request.status != SS_OK)
            ss_fail(x, SS_ERR_TRANSPORT, numbered(x, slot->dst), SS_PHASE_REDUCE);
    }
    return status;
}

static void cancel(struct ss_exchange *x, struct ss_request *request)
{
    if (request->active)
        x->t->ops->cancel(x->t, request);
}

void ss_exchange_cancel(struct ss_exchange *x)
{
    for (int i = 0; i < SS_SEND_SLOTS; i++)
        cancel(x, &x->slots[i].request);
    for (struct ss_in *in = x->open; in; in = in->next)
        for (int i = 0; i < SS_RECV_WINDOW; i++)
            cancel(x, &in->peers[i].request);
    x->open = NULL;
    if (x->words)
        ss_word_exchange_cancel(x, x->words);
}

enum ss_phase ss_exchange_waiting(const struct ss_exchange *x, int *peer)
{
    if (x->shared_peer > 0) {
        *peer = x->shared_peer - 1;
        return SS_PHASE_GATHER;
    }
    for (const struct ss_in *in = x->open; in; in = in->next)
        for (int i = 0; i < SS_RECV_WINDOW; i++)
            if (in->peers[i].request.active) {
                *peer = rank_of(x, in->peers[i].rank);
                return (enum ss_phase)in->phase;
            }
    if (x->words && ss_word_exchange_waiting(x->words) >= 0) {
        *peer = rank_of(x, ss_word_exchange_waiting(x->words));
        return SS_PHASE_WORDS;
    }
    for (int i = 0; i < SS_SEND_SLOTS; i++)
        if (x->slots[i].request.active)
            *peer = rank_of(x, x->slots[i].dst);
    return SS_PHASE_REDUCE;
}
