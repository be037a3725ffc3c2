/* Implements group votes: several ballots in a message, and receives that are posted ahead. */
#include "core/vote/group_vote.h"

#include <string.h>

enum { GROUP_VOTE_MAGIC = 0x73734a31, WORDS = sizeof(struct ss_ballot) / sizeof(uint64_t) };
_Static_assert(sizeof(struct ss_ballot) % sizeof(uint64_t) == 0 && WORDS < 64, "a bit of the mask");

struct header {
    uint32_t magic, count;
    uint64_t check; /* hash of the bytes behind the header */
};

/* ---- a message ---- */

static size_t most_bytes(unsigned most)
{
    const size_t each = sizeof(uint64_t) + sizeof(struct ss_ballot);

    return (sizeof(struct header) + most * each + 63) / 64 * 64;
}

static uint64_t hash_of(const unsigned char *from, size_t bytes)
{
    uint64_t h = 0xcbf29ce484222325ULL, word;

    for (size_t i = 0; i < bytes; i += sizeof word) {
        memcpy(&word, from + i, sizeof word);
        h = ss_mix(h, word);
    }
    return h;
}

static unsigned char *put(unsigned char *to, const void *from, size_t bytes)
{
    memcpy(to, from, bytes);
    return to + bytes;
}

/* Writes the words of `now` that differ from those of `before`, behind a mask that says which.
 * Returns the end. */
static unsigned char *encode_one(unsigned char *to, const struct ss_ballot *now,
                                 const struct ss_ballot *before)
{
    uint64_t words[WORDS], old[WORDS], mask = 0;
    unsigned char *at = to + sizeof mask;

    memcpy(words, now, sizeof words);
    memcpy(old, before, sizeof old);
    for (unsigned i = 0; i < WORDS; i++)
        if (words[i] != old[i]) {
            mask |= 1ULL << i;
            at = put(at, &words[i], sizeof words[i]);
        }
    put(to, &mask, sizeof mask);
    return at;
}

static size_t encode(unsigned char *msg, struct ss_ballot *const *ballots, unsigned count)
{
    struct ss_ballot before = {0};
    struct header h = {.magic = GROUP_VOTE_MAGIC, .count = count};
    unsigned char *at = msg + sizeof h;

    for (unsigned i = 0; i < count; i++) {
        at = encode_one(at, ballots[i], &before);
        before = *ballots[i];
    }
    h.check = hash_of(msg + sizeof h, (size_t)(at - msg) - sizeof h);
    put(msg, &h, sizeof h);
    return (size_t)(at - msg);
}

static bool get(const unsigned char **from, const unsigned char *end, void *to, size_t bytes)
{
    if ((size_t)(end - *from) < bytes)
        return false;
    memcpy(to, *from, bytes);
    *from += bytes;
    return true;
}

/* Decodes a ballot. `b` holds the ballot before it and becomes the decoded one. Returns false if
 * the message is too short. */
static bool decode_one(const unsigned char **from, const unsigned char *end, struct ss_ballot *b)
{
    unsigned char *base = (unsigned char *)b;
    uint64_t mask;

    if (!get(from, end, &mask, sizeof mask))
        return false;
    for (unsigned i = 0; i < WORDS; i++)
        if ((mask >> i & 1) && !get(from, end, base + i * sizeof mask, sizeof mask))
            return false;
    return true;
}

/* Merges each decoded ballot into this rank's, or replaces it if `result`. Returns false if the
 * message is malformed. */
static bool take_message(struct ss_group_vote *g, const unsigned char *msg, size_t bytes,
                         bool result)
{
    const unsigned char *at = msg, *end = msg + bytes;
    struct ss_ballot b = {0}, first;
    struct header h;

    if (!get(&at, end, &h, sizeof h) || h.magic != GROUP_VOTE_MAGIC || h.count == 0 ||
        (bytes - sizeof h) % sizeof(uint64_t) != 0 || h.check != hash_of(at, bytes - sizeof h))
        return false;
    ss_ballot_init(&first);
    g->count = h.count < g->count ? h.count : g->count;
    for (unsigned i = 0; i < g->count; i++) {
        if (!decode_one(&at, end, &b) || b.magic != first.magic || b.version != first.version)
            return false;
        if (result)
            *g->ballots[i] = b;
        else
            ss_ballot_merge(g->ballots[i], &b);
    }
    return true;
}

/* ---- the pair exchanges ---- */

size_t ss_group_vote_room(int size, unsigned most)
{
    const struct ss_fold fold = ss_fold_of(0, size);

    /* one message per pair exchange, and one to send */
    return (size_t)(ss_fold_rounds(&fold) + 3) * most_bytes(most);
}

/* Returns the room of the message of a pair exchange; -1 for the message to send. */
static unsigned char *message_of(const struct ss_group_vote *g, int pair)
{
    return g->messages + (size_t)(pair + 1) * g->room;
}

void ss_group_vote_open(struct ss_group_vote *g, struct ss_transport *t, uint32_t call,
                        unsigned most, void *room)
{
    struct ss_schedule all = ss_schedule_of(t->rank, t->size, NULL);
    struct ss_pair_exchange m;

    *g = (struct ss_group_vote){.t = t,
                                .schedule = all,
                                .call = call,
                                .room = most_bytes(most),
                                .messages = room,
                                .peer = -1,
                                .posted = SS_OK};
    for (int i = 0; ss_schedule_now(&all, &m); ss_schedule_next(&all), i++) {
        struct ss_tag tag = {.call = call, .phase = SS_PHASE_VOTE, .round = m.round};
        if (m.from >= 0 && g->posted == SS_OK)
            g->posted = t->ops->recv(t, m.from, tag, message_of(g, i), g->room, &g->receives[i]);
    }
}

unsigned ss_group_vote_heard(const struct ss_group_vote *g)
{
    unsigned least = 0;

    for (int i = 0; i < SS_GROUP_VOTE_PAIRS; i++) {
        const struct ss_request *r = &g->receives[i];
        struct header h;

        if (r->active || r->status != SS_OK || r->bytes < sizeof h)
            continue;
        memcpy(&h, message_of(g, i), sizeof h);
        least = least == 0 || h.count < least ? h.count : least;
    }
    return least;
}

void ss_group_vote_cast(struct ss_group_vote *g, struct ss_ballot *const *ballots, unsigned count)
{
    g->ballots = ballots;
    g->count = count;
}

/* Sends this rank's ballots. Tries a refused send once more, like ss_schedule_exchange_send. */
static int send_own(struct ss_group_vote *g, const struct ss_pair_exchange *m)
{
    struct ss_tag tag = {.call = g->call, .phase = SS_PHASE_VOTE, .round = m->round};
    size_t length = encode(g->messages, g->ballots, g->count);
    int status = SS_ERR_TRANSPORT;

    g->bytes += length;
    g->inside += ss_transport_inside(g->t, m->to, length);
    for (int attempt = 0; status != SS_OK && attempt < 2; attempt++)
        status = g->t->ops->send(g->t, m->to, tag, g->messages, length, &g->send);
    return status;
}

static int begin_pair(struct ss_group_vote *g, const struct ss_pair_exchange *m)
{
    g->waiting = true;
    g->peer = m->from >= 0 ? m->from : m->to;
    g->send = (struct ss_request){0};
    return m->to >= 0 ? send_own(g, m) : SS_OK;
}

static int end_pair(struct ss_group_vote *g, const struct ss_pair_exchange *m)
{
    const struct ss_request *r = &g->receives[g->at];

    g->waiting = false;
    g->peer = -1;
    if (g->send.status != SS_OK)
        return g->send.status;
    if (m->from < 0)
        return SS_OK;
    if (r->status != SS_OK)
        return r->status;
    return take_message(g, message_of(g, g->at), r->bytes, m->result) ? SS_OK : SS_ERR_PROTOCOL;
}

int ss_group_vote_step(struct ss_group_vote *g, bool *moved)
{
    struct ss_pair_exchange m;
    int status = g->posted;

    while (status == SS_OK && ss_schedule_now(&g->schedule, &m)) {
        if (!g->waiting && (status = begin_pair(g, &m)) != SS_OK)
            return status;
        if (g->send.active || (m.from >= 0 && g->receives[g->at].active))
            return SS_PENDING;
        *moved = true;
        status = end_pair(g, &m);
        ss_schedule_next(&g->schedule);
        g->at++;
    }
    return status;
}

void ss_group_vote_cancel(struct ss_group_vote *g)
{
    for (int i = 0; i < SS_GROUP_VOTE_PAIRS; i++)
        if (g->receives[i].active)
            g->t->ops->cancel(g->t, &g->receives[i]);
    if (g->send.active)
        g->t->ops->cancel(g->t, &g->send);
}
