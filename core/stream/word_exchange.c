/* Implements word exchanges as schedule exchanges: messages, their check, and the addition of
 * words.
 *
 * A message holds a header and the words. Sums and maxima are mostly small counts: they travel 7
 * bits to the byte, low bits first, and bit 7 of a byte says that another one follows. Reals take 8
 * bytes each. */
#include "core/stream/word_exchange.h"

#include <string.h>

static const uint32_t AGREE_MAGIC = 0x65726761;

/* Header of a message. A rank that has failed sends the header alone. */
struct header {
    uint32_t magic;
    uint32_t call;
    uint32_t words;
    int32_t status; /* < 0: the sender, or a rank that it has heard of, has failed */
    uint64_t check; /* hash of all other fields and the bytes of the words */
};

/* Most bytes of a word. */
enum { WORD_MOST = 10 };

static uint64_t check_of(const struct header *h, const unsigned char *words, size_t bytes)
{
    uint64_t x =
        ss_mix((uint64_t)h->magic << 32 | h->call, (uint64_t)h->words << 32 | (uint32_t)h->status);

    for (size_t i = 0; i < bytes; i += sizeof x) {
        uint64_t piece = 0;
        memcpy(&piece, words + i, bytes - i < sizeof piece ? bytes - i : sizeof piece);
        x = ss_mix(x, piece);
    }
    return x;
}

/* ---- words ---- */

static unsigned char *put_word(unsigned char *to, uint64_t word)
{
    for (; word > 127; word >>= 7)
        *to++ = (unsigned char)(word | 128);
    *to++ = (unsigned char)word;
    return to;
}

/* Decodes a word that ends before `end`. Returns the bytes it takes, 0 if it is malformed. */
static size_t get_word(const unsigned char *from, const unsigned char *end, uint64_t *word)
{
    *word = 0;
    for (size_t i = 0; i < WORD_MOST && from + i < end; i++) {
        *word |= (uint64_t)(from[i] & 127) << 7 * i;
        if (from[i] < 128)
            return i + 1;
    }
    return 0;
}

static size_t words_of(const struct ss_word_exchange *a)
{
    return a->sums + a->maxima + a->reals;
}

static size_t bytes_of(size_t words)
{
    return (sizeof(struct header) + words * WORD_MOST + 63) / 64 * 64;
}

/* Encodes the own words. Returns their bytes. */
static size_t put_words(const struct ss_word_exchange *a, unsigned char *to)
{
    unsigned char *at = to;

    for (size_t i = 0; i < a->sums + a->maxima; i++)
        at = put_word(at, a->data[i]);
    memcpy(at, a->data + a->sums + a->maxima, a->reals * sizeof *a->data);
    return (size_t)(at - to) + a->reals * sizeof *a->data;
}

/* The largest users are GUARD's sketch, a histogram of 256 bins, the counts of 64 thresholds, and
 * up to 16 words of each rank (core/tensor/part_bounds.c). */
size_t ss_word_exchange_most(int size)
{
    return 2048 + 16 * (size_t)size;
}

int ss_word_exchange_reserve(struct ss_exchange *x)
{
    size_t bytes = bytes_of(ss_word_exchange_most(x->t->size));

    return ss_buf_reserve(&x->work->words, x->mem, 2 * bytes);
}

void ss_word_exchange_start(struct ss_exchange *x, struct ss_word_exchange *a, uint64_t *data,
                            size_t sums, size_t maxima, size_t reals)
{
    const struct ss_buf *room = &x->work->words;

    *a = (struct ss_word_exchange){
        .x = x, .data = data, .sums = sums, .maxima = maxima, .reals = reals};
    ss_schedule_exchange_start(&a->exchange, x->t);
    a->capacity = room->size / 2 / 64 * 64;
    if (a->capacity < bytes_of(words_of(a)))
        ss_fail(x, SS_ERR_MEMORY, x->t->rank, SS_PHASE_WORDS);
    a->outgoing = room->data;
    a->incoming = a->outgoing + a->capacity;
    x->words = a;
}

static void send_words(struct ss_word_exchange *a, struct ss_schedule_exchange *m, int peer,
                       struct ss_tag tag)
{
    struct ss_exchange *x = a->x;
    struct header h = {.magic = AGREE_MAGIC, .call = x->number, .status = x->failed};
    size_t len = sizeof h;

    if (x->failed == 0) {
        h.words = (uint32_t)words_of(a);
        len += put_words(a, a->outgoing + sizeof h);
    }
    h.check = check_of(&h, a->outgoing + sizeof h, len - sizeof h);
    memcpy(a->outgoing, &h, sizeof h);
    ss_sent_count(x, peer, SS_PHASE_WORDS, len);
    if (ss_schedule_exchange_send(m, peer, tag, a->outgoing, len) != SS_OK) {
        m->send = (struct ss_request){0};
        ss_fail(x, SS_ERR_TRANSPORT, peer, SS_PHASE_WORDS);
    }
}

/* Posts the messages of a pair exchange. If the receive fails the rank goes on, since its next
 * message reports the failure. */
static int post(void *context, struct ss_schedule_exchange *m, const struct ss_pair_exchange *now)
{
    struct ss_word_exchange *a = context;
    struct ss_tag tag = ss_exchange_tag(a->x, SS_PHASE_WORDS, now->round);

    if (now->from >= 0 &&
        ss_schedule_exchange_recv(m, now->from, tag, a->incoming, a->capacity) != SS_OK)
        m->recv = (struct ss_request){.status = SS_ERR_TRANSPORT};
    if (now->to >= 0)
        send_words(a, m, now->to, tag);
    return SS_OK;
}

static void merge_word(const struct ss_word_exchange *a, size_t i, uint64_t word)
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

static int check_incoming(const struct ss_exchange *x, const struct ss_word_exchange *a,
                          struct header *h)
{
    if (a->exchange.recv.status != SS_OK)
        return a->exchange.recv.status;
    if (a->exchange.recv.bytes < sizeof *h)
        return SS_ERR_MESSAGE;
    memcpy(h, a->incoming, sizeof *h);
    if (h->magic != AGREE_MAGIC || h->call != x->number ||
        h->check != check_of(h, a->incoming + sizeof *h, a->exchange.recv.bytes - sizeof *h))
        return SS_ERR_MESSAGE;
    if (h->status < 0)
        return SS_ERR_PEER;
    return h->words == words_of(a) ? SS_OK : SS_ERR_MESSAGE;
}

/* Merges the received words into the own ones, or replaces these if `result`. Returns false if the
 * message is malformed. */
static bool merge_words(const struct ss_word_exchange *a, bool result)
{
    const unsigned char *at = a->incoming + sizeof(struct header),
                        *end = a->incoming + a->exchange.recv.bytes;

    for (size_t i = 0; i < words_of(a); i++) {
        const bool real = i >= a->sums + a->maxima;
        uint64_t word = 0;
        size_t bytes = real ? sizeof word : get_word(at, end, &word);

        if (bytes == 0 || (size_t)(end - at) < bytes)
            return false;
        if (real)
            memcpy(&word, at, sizeof word);
        at += bytes;
        if (result)
            a->data[i] = word;
        else
            merge_word(a, i, word);
    }
    return at == end;
}

static void take_words(struct ss_word_exchange *a, const struct ss_pair_exchange *now)
{
    struct ss_exchange *x = a->x;
    struct header h = {0};
    int status = check_incoming(x, a, &h);

    x->phase_received[SS_PHASE_WORDS] += a->exchange.recv.bytes;
    if (status != SS_OK)
        ss_fail(x, status, now->from, SS_PHASE_WORDS);
    if (x->failed == 0 && !merge_words(a, now->result))
        ss_fail(x, SS_ERR_MESSAGE, now->from, SS_PHASE_WORDS);
}

static int take(void *context, struct ss_schedule_exchange *m, const struct ss_pair_exchange *now)
{
    struct ss_word_exchange *a = context;

    if (m->send.status != SS_OK)
        ss_fail(a->x, m->send.status, now->to, SS_PHASE_WORDS);
    if (now->from >= 0)
        take_words(a, now);
    return SS_OK;
}

int ss_word_exchange_step(struct ss_exchange *x, struct ss_word_exchange *a)
{
    static const struct ss_schedule_exchange_steps parts = {post, take};

    if (ss_schedule_exchange_step(&a->exchange, &parts, a, &x->moved) == SS_PENDING)
        return SS_PENDING;
    x->words = NULL;
    return SS_OK;
}

void ss_word_exchange_cancel(struct ss_exchange *x, struct ss_word_exchange *a)
{
    ss_schedule_exchange_cancel(&a->exchange);
    x->words = NULL;
}

int ss_word_exchange_waiting(const struct ss_word_exchange *a)
{
    return a->exchange.waiting ? a->exchange.peer : -1;
}
