/* Cuts streams into chunks, encodes each chunk once, and sends it to one rank or several. */
#include "core/stream/out.h"

#include "core/compute/quantize.h"

size_t ss_arena_bound(enum ss_type type, uint64_t entries)
{
    return (size_t)(entries / SS_CHUNK_ENTRIES) * (ss_wire_bound(type, SS_CHUNK_ENTRIES) + 64) +
           ss_wire_bound(type, (uint32_t)(entries % SS_CHUNK_ENTRIES)) + 64;
}

static int group_end(const struct ss_out *o)
{
    return o->ndst - o->group < SS_RECV_WINDOW ? o->ndst : o->group + SS_RECV_WINDOW;
}

static void out_start(struct ss_out *o, enum ss_phase phase, unsigned round, int dst, int ndst)
{
    o->phase = phase;
    o->round = round;
    o->dst = dst;
    o->ndst = ndst;
    o->group_end = group_end(o);
    o->done = ndst == 0;
    o->erred = -1;
}

void ss_out_stream(struct ss_out *o, struct ss_stream s, enum ss_phase phase, unsigned round,
                   int dst, int ndst)
{
    *o = (struct ss_out){.idx = s.idx, .val = s.val, .nnz = s.nnz, .in_backend = s.in_backend};
    out_start(o, phase, round, dst, ndst);
    o->ahead = o->in_backend && !o->done;
}

void ss_out_messages(struct ss_out *o, size_t begin, size_t end, enum ss_phase phase,
                     unsigned round, int dst, int ndst)
{
    *o = (struct ss_out){.encoded = true, .stored = begin, .replay = begin, .stored_end = end};
    out_start(o, phase, round, dst, ndst);
}

void ss_out_encode_parts(struct ss_exchange *x, const struct ss_stream *s,
                         const struct ss_rounding *how, void *error, enum ss_phase phase,
                         const struct ss_part *parts, size_t count, size_t *ends)
{
    const struct ss_leaving what = {.key = ss_exchange_key(x, phase),
                                    .coding = x->coding,
                                    .how = how ? *how : (struct ss_rounding){.bucket = 0},
                                    .idx = s->idx,
                                    .val = s->val,
                                    .error = error,
                                    .parts = parts,
                                    .count = count};

    x->ticket = x->backend->ops->encode(x->backend, x->type, &what,
                                        (unsigned char *)x->work->arena.data + x->arena_used, ends);
}

void ss_out_round(struct ss_out *o, const struct ss_rounding *how, void *error)
{
    if (how->values == SS_VALUES_SAME)
        return;
    o->rounding = how;
    o->error = error;
}

void ss_out_elements(struct ss_out *o, void *val, bool dense_in_backend, uint64_t first, uint64_t n,
                     enum ss_phase phase, unsigned round, int dst, int ndst)
{
    *o = (struct ss_out){.dense = true,
                         .dense_in_backend = dense_in_backend,
                         .val = val,
                         .nnz = (size_t)n,
                         .first = (uint32_t)first};
    out_start(o, phase, round, dst, ndst);
}

void ss_out_quantize(struct ss_out *o, enum ss_values values, const void *gradient, void *residual,
                     double *square)
{
    o->values = values;
    o->gradient = gradient;
    o->residual = residual;
    o->square = square;
}

void ss_out_quantize_again(struct ss_out *o, enum ss_values values, const uint32_t *breaks,
                           void *zeros, double *square)
{
    ss_out_quantize(o, values, NULL, zeros, square);
    o->breaks = breaks;
}

size_t ss_arena_quantized(enum ss_values values, uint64_t n)
{
    const size_t head = SS_WIRE_HEADER + 2 * 64; /* the codes' own head, and the next multiple */

    return (size_t)(n / SS_CHUNK_QUANTIZED) *
               (ss_quantized_bytes(values, SS_CHUNK_QUANTIZED) + head) +
           ss_quantized_bytes(values, (size_t)(n % SS_CHUNK_QUANTIZED)) + head;
}

static uint32_t next_entries(const struct ss_out *o)
{
    const uint32_t *end = o->breaks;
    size_t left = o->nnz - o->pos;
    const uint32_t most = o->values != SS_VALUES_SAME ? SS_CHUNK_QUANTIZED : SS_CHUNK_ENTRIES;

    if (end) {
        while (*end <= o->first + o->pos && left > 0)
            end++;
        left = left > 0 ? *end - o->first - o->pos : 0;
    }
    return left < most ? (uint32_t)left : most;
}

/* Quantizes elements into msg. Returns the length of the message. */
static size_t quantize(struct ss_exchange *x, struct ss_out *o, const struct ss_wire_key *key,
                       void *msg, uint32_t n, bool last)
{
    const struct ss_quantizers *q = ss_quantizers();
    const size_t at = o->pos * x->esize;
    unsigned char *r = o->breaks ? o->residual : o->residual + at;
    void *to = ss_wire_codes(msg);

    *o->square += o->gradient ? q->join(x->type, o->values, o->gradient + at, r, n, to)
                              : q->round(x->type, o->values, o->val + at, r, n, to);
    return ss_wire_finish_quantized(msg, key, o->values, o->first + (uint32_t)o->pos, n, last);
}

/* Returns true if the host has the elements of the next chunk. */
static bool opened(struct ss_exchange *x, struct ss_out *o)
{
    unsigned char *from = o->val + o->pos * x->esize;

    if (!o->dense_in_backend)
        return true;
    if (!o->opened)
        x->ticket = x->backend->ops->open(x->backend, x->type, from, next_entries(o),
                                          x->work->staging.data, &o->opened);
    return ss_settled(x, (enum ss_phase)o->phase);
}

/* Encodes the next chunk. Returns SS_PENDING if the host does not have its elements yet; SS_OK also
 * if the exchange has failed. */
static int encode_next(struct ss_exchange *x, struct ss_out *o)
{
    struct ss_wire_key key = ss_exchange_key(x, (enum ss_phase)o->phase);
    uint32_t entries = next_entries(o);
    bool last = entries == o->nnz - o->pos;
    unsigned char *msg = (unsigned char *)x->work->arena.data + x->arena_used;
    unsigned char *from = o->val + o->pos * x->esize;

    if (!opened(x, o))
        return SS_PENDING;
    if (x->failed < 0)
        return SS_OK;
    unsigned char *val = o->dense_in_backend ? o->opened : from;
    struct ss_wire_rounding rounding = {.how = o->rounding,
                                        .val = val,
                                        .error = o->error ? o->error + o->pos * x->esize : NULL,
                                        .position = o->first + o->pos};
    const struct ss_wire_rounding *round = o->rounding ? &rounding : NULL;
    double begin = ss_span_begin(x, SS_SPAN_ENCODE);

    if (o->pos == 0)
        o->stored = x->arena_used;
    if (o->values != SS_VALUES_SAME)
        o->len = quantize(x, o, &key, msg, entries, last);
    else if (o->dense)
        o->len =
            ss_wire_encode_dense(msg, &key, o->first + (uint32_t)o->pos, val, entries, last, round);
    else
        o->len = ss_wire_encode(msg, &key, x->coding, o->idx + o->pos, val, entries, last, round);
    if (o->dense_in_backend)
        x->backend->ops->close(x->backend, x->type, from, entries, val);
    o->opened = NULL;
    o->msg = msg;
    o->pos += entries;
    o->last = o->encoded = last;
    x->arena_used += (o->len + 63) / 64 * 64;
    o->stored_end = o->replay = x->arena_used;
    ss_span_end(x, SS_SPAN_ENCODE, begin);
    return SS_OK;
}

/* Starts again with the first message in the arena. */
static void rewind_out(struct ss_out *o)
{
    o->msg = NULL;
    o->replay = o->stored;
    o->last = false;
}

void ss_out_encode_ahead(struct ss_exchange *x, struct ss_out *o)
{
    o->ahead = !o->done;
    ss_out_ahead(x, o);
}

/* Encodes a stream that stays in the backend. Returns false while the backend is encoding. */
static bool ahead_there(struct ss_exchange *x, struct ss_out *o)
{
    const struct ss_stream s = {.idx = (uint32_t *)(uintptr_t)o->idx, .val = o->val};

    o->part = (struct ss_part){.count = o->nnz};
    if (!o->asked)
        ss_out_encode_parts(x, &s, o->rounding, o->error, (enum ss_phase)o->phase, &o->part, 1,
                            &o->end);
    o->asked = true;
    if (!ss_settled(x, (enum ss_phase)o->phase))
        return false;
    o->ahead = false;
    if (x->failed < 0)
        return true;
    o->stored = x->arena_used;
    x->arena_used += o->end;
    o->stored_end = x->arena_used;
    o->encoded = true;
    rewind_out(o);
    return true;
}

bool ss_out_ahead(struct ss_exchange *x, struct ss_out *o)
{
    if (o->ahead && o->in_backend && x->failed == 0)
        return ahead_there(x, o);
    while (o->ahead && x->failed == 0) {
        if (encode_next(x, o) == SS_PENDING)
            return false;
        if (x->failed == 0 && o->encoded) {
            o->ahead = false;
            rewind_out(o);
        }
    }
    return true;
}

static void replay_next(const struct ss_exchange *x, struct ss_out *o)
{
    o->msg = (const unsigned char *)x->work->arena.data + o->replay;
    o->len = ss_wire_length(o->msg);
    o->replay += (o->len + 63) / 64 * 64;
    o->last = o->replay == o->stored_end;
}

/* Goes on to the next chunk, or to the next group, when the whole group has got the current
 * chunk. */
static void out_advance(struct ss_out *o)
{
    o->msg = NULL;
    if (o->last) {
        o->group = o->group_end;
        o->group_end = group_end(o);
        o->done = o->group == o->ndst;
        rewind_out(o);
    }
    o->next = o->group;
}

/* Makes each receiver that has not got the end of the stream get an error header as its next
 * message. */
static void out_turn_to_errors(struct ss_out *o)
{
    if (!(o->msg && o->last))
        o->next = o->group;
    o->erring = true;
}

int ss_out_step(struct ss_exchange *x, struct ss_out *o)
{
    if (!ss_out_ahead(x, o))
        return SS_PENDING;
    while (!o->done) {
        struct ss_send_slot *slot = ss_send_slot_free(x);
        int dst = (o->dst + o->next) % x->t->size;

        if (!slot)
            return SS_PENDING;
        if (x->failed < 0 && !o->erring) {
            out_turn_to_errors(o);
            continue;
        }
        if (o->erring) {
            if (o->next != o->erred)
                ss_send_error(x, dst, (enum ss_phase)o->phase, o->round);
            o->done = ++o->next == o->ndst;
            continue;
        }
        if (!o->msg && o->encoded)
            replay_next(x, o);
        else if (!o->msg && encode_next(x, o) == SS_PENDING)
            return SS_PENDING;
        if (x->failed < 0)
            continue;
        if (!ss_send_post(x, slot, dst, (enum ss_phase)o->phase, o->round, o->msg, o->len))
            o->erred = o->next;
        if (++o->next == o->group_end)
            out_advance(o);
    }
    return SS_OK;
}
