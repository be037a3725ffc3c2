/* Implements agreements as meetings: messages, their check, and the addition of words. */
#include "core/stream/agreement.h"

#include <string.h>

static const uint32_t AGREE_MAGIC = 0x65726761;

/* Header of a message. A rank that has failed sends the header alone. */
struct header {
    uint32_t magic;
    uint32_t call;
    uint32_t words;
    int32_t status; /* < 0: the sender, or a rank that it has heard of, has failed */
    uint64_t check; /* hash of all other fields and the words */
};

static uint64_t check_of(const struct header *h, const unsigned char *words)
{
    uint64_t x =
        ss_mix((uint64_t)h->magic << 32 | h->call, (uint64_t)h->words << 32 | (uint32_t)h->status);

    for (size_t i = 0; i < h->words; i++) {
        uint64_t word;
        memcpy(&word, words + i * sizeof word, sizeof word);
        x = ss_mix(x, word);
    }
    return x;
}

static size_t words_of(const struct ss_agree *a)
{
    return a->sums + a->maxima + a->reals;
}

static size_t bytes_of(size_t words)
{
    return (sizeof(struct header) + words * sizeof(uint64_t) + 63) / 64 * 64;
}

/* The largest users are GUARD's sketch, a histogram of 256 bins, the counts of 64 thresholds, and
 * up to 16 words of each rank (core/tensor/regions.c). */
size_t ss_agree_words(int size)
{
    return 2048 + 16 * (size_t)size;
}

int ss_agree_reserve(struct ss_exchange *x)
{
    size_t bytes = bytes_of(ss_agree_words(x->t->size));

    return ss_buf_reserve(&x->work->agree, x->mem, 2 * bytes);
}

void ss_agree_start(struct ss_exchange *x, struct ss_agree *a, uint64_t *data, size_t sums,
                    size_t maxima, size_t reals)
{
    const struct ss_buf *room = &x->work->agree;

    *a = (struct ss_agree){.x = x, .data = data, .sums = sums, .maxima = maxima, .reals = reals};
    ss_meetings_start(&a->meetings, x->t);
    a->capacity = room->size / 2 / 64 * 64;
    if (a->capacity < bytes_of(words_of(a)))
        ss_fail(x, SS_ERR_MEMORY, x->t->rank, SS_PHASE_AGREE);
    a->outgoing = room->data;
    a->incoming = a->outgoing + a->capacity;
    x->agreement = a;
}

static void send_words(struct ss_agree *a, struct ss_meetings *m, int peer, struct ss_tag tag)
{
    struct ss_exchange *x = a->x;
    struct header h = {.magic = AGREE_MAGIC, .call = x->number, .status = x->failed};

    if (x->failed == 0) {
        h.words = (uint32_t)words_of(a);
        memcpy(a->outgoing + sizeof h, a->data, h.words * sizeof(uint64_t));
    }
    h.check = check_of(&h, a->outgoing + sizeof h);
    memcpy(a->outgoing, &h, sizeof h);
    size_t len = sizeof h + h.words * sizeof(uint64_t);
    ss_sent_count(x, peer, SS_PHASE_AGREE, len);
    if (ss_meetings_send(m, peer, tag, a->outgoing, len) != SS_OK) {
        m->send = (struct ss_request){0};
        ss_fail(x, SS_ERR_TRANSPORT, peer, SS_PHASE_AGREE);
    }
}

/* Posts the messages of a meeting. If the receive fails the rank goes on, since its next message
 * reports the failure. */
static int post(void *owner, struct ss_meetings *m, const struct ss_meeting *now)
{
    struct ss_agree *a = owner;
    struct ss_tag tag = ss_exchange_tag(a->x, SS_PHASE_AGREE, now->round);

    if (now->from >= 0 && ss_meetings_recv(m, now->from, tag, a->incoming, a->capacity) != SS_OK)
        m->recv = (struct ss_request){.status = SS_ERR_TRANSPORT};
    if (now->to >= 0)
        send_words(a, m, now->to, tag);
    return SS_OK;
}

static void merge_word(const struct ss_agree *a, size_t i, uint64_t word)
{
    double mine, other;

    if (i < a->sums) {
        a->data[i] += word;
    } else if (i < a->sums + a->maxima) {
        if (a->data[i] < word)
            a->data[i] = word;
    } else {
        memcpy(&mine, &a->data[i], sizeof mine);
        memcpy(&other, &word, sizeof other);
        mine += other; /* both peers add the same two numbers */
        memcpy(&a->data[i], &mine, sizeof mine);
    }
}

static int check_incoming(const struct ss_exchange *x, const struct ss_agree *a, struct header *h)
{
    if (a->meetings.recv.status != SS_OK)
        return a->meetings.recv.status;
    if (a->meetings.recv.bytes < sizeof *h)
        return SS_ERR_MESSAGE;
    memcpy(h, a->incoming, sizeof *h);
    if (h->magic != AGREE_MAGIC || h->call != x->number ||
        a->meetings.recv.bytes != sizeof *h + h->words * sizeof(uint64_t) ||
        h->check != check_of(h, a->incoming + sizeof *h))
        return SS_ERR_MESSAGE;
    if (h->status < 0)
        return SS_ERR_PEER;
    return h->words == words_of(a) ? SS_OK : SS_ERR_MESSAGE;
}

static void take_words(struct ss_agree *a, const struct ss_meeting *now)
{
    struct ss_exchange *x = a->x;
    const unsigned char *words = a->incoming + sizeof(struct header);
    struct header h = {0};
    int status = check_incoming(x, a, &h);

    x->phase_received[SS_PHASE_AGREE] += a->meetings.recv.bytes;
    if (status != SS_OK)
        ss_fail(x, status, now->from, SS_PHASE_AGREE);
    if (x->failed < 0)
        return;
    for (size_t i = 0; i < h.words; i++) {
        uint64_t word;
        memcpy(&word, words + i * sizeof word, sizeof word);
        if (now->result)
            a->data[i] = word;
        else
            merge_word(a, i, word);
    }
}

static int take(void *owner, struct ss_meetings *m, const struct ss_meeting *now)
{
    struct ss_agree *a = owner;

    if (m->send.status != SS_OK)
        ss_fail(a->x, m->send.status, now->to, SS_PHASE_AGREE);
    if (now->from >= 0)
        take_words(a, now);
    return SS_OK;
}

int ss_agree_step(struct ss_exchange *x, struct ss_agree *a)
{
    static const struct ss_meetings_parts parts = {post, take};

    if (ss_meetings_step(&a->meetings, &parts, a, &x->moved) == SS_PENDING)
        return SS_PENDING;
    x->agreement = NULL;
    return SS_OK;
}

void ss_agree_cancel(struct ss_exchange *x, struct ss_agree *a)
{
    ss_meetings_cancel(&a->meetings);
    x->agreement = NULL;
}

int ss_agree_waiting(const struct ss_agree *a)
{
    return a->meetings.waiting && a->meetings.recv.active ? a->meetings.peer : -1;
}
