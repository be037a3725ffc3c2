/* Measures a backend at work on one vector. Pieces of the vector are cleared, entries encoded,
 * decoded and put into it, elements read. The cost of an entry is the difference between long and
 * short messages. */
#include "core/backend/backend_costs.h"

#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#include "core/base/fpenv.h"

enum { ENTRIES = 8192, FEW = 16, GAP = 64, ELEMENTS = ENTRIES * GAP, PIECE = 65536, TIMES = 2 };
enum { PARTS = 8, REPEATS = 3, TRIES = 16 };

/* Seconds. IDLE: a backend without work answers in this time. ENOUGH: no round begins after it.
 * TOO_LONG: after it the backend is too slow to be measured. */
static const double IDLE = 1e-3, ENOUGH = 3e-3, TOO_LONG = 8e-3;
/* Seconds after which a piece of work is given up. Another thread may have queued the program's
 * work before it, for which this thread must not wait. */
static const double PATIENCE = 20e-3;
static const double LEAST = 1e-14; /* least seconds; noise may hide a difference */

enum { NOT_MEASURED, MEASURING, MEASURED };

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* A message and the chunk that an algorithm reads from it. */
struct message {
    struct ss_chunk chunk;
    struct ss_coded coded;
    size_t bytes;
};

struct bench {
    struct ss_backend *backend;
    struct ss_mem mem;
    struct ss_buf idx, val, dense;  /* in the backend: entries and the vector */
    struct ss_buf own_idx, own_val; /* on the host: the same entries */
    /* messages of the host and of the backend; elements; indices */
    struct ss_buf msg, out, back, scratch;
    struct message small, large;
    struct ss_part parts[PARTS];
    size_t ends[PARTS];
    atomic_int refused;
    bool failed, given_up;
    struct bench *next; /* in the list of benches given up */
};

/* Returns SS_OK, SS_PENDING after `seconds`, or SS_ERR_DEVICE. */
static int wait_for(struct ss_backend *p, ss_ticket ticket, double seconds)
{
    const double begin = now();
    int status = SS_OK;

    while (ticket != 0 && (status = p->ops->poll(p, ticket)) == SS_PENDING)
        if (now() - begin > seconds)
            break;
    return status;
}

static void wait_here(struct bench *b, ss_ticket ticket)
{
    const int status = b->failed ? SS_ERR_DEVICE : wait_for(b->backend, ticket, PATIENCE);

    b->given_up = b->given_up || status == SS_PENDING;
    b->failed = b->failed || status != SS_OK;
}

static const struct ss_wire_key key = {.type = SS_F32};

static void draw(struct bench *b)
{
    uint32_t *idx = b->own_idx.data;
    float *val = b->own_val.data;
    uint32_t random = 1;

    for (uint32_t i = 0; i < ENTRIES; i++) {
        random = random * 1664525u + 1013904223u;
        idx[i] = i * GAP + (random >> 26);
        val[i] = (float)(random >> 8) + 1;
    }
}

static void make_message(struct bench *b, struct message *m, size_t at, uint32_t entries)
{
    unsigned char *msg = (unsigned char *)b->msg.data + at;
    const struct ss_wire_scratch scratch = {.idx = b->scratch.data, .coded = &m->coded};

    m->bytes = ss_wire_encode(msg, &key, SS_CODING_AUTO, b->own_idx.data, b->own_val.data, entries,
                              true, NULL);
    b->failed =
        b->failed || ss_wire_decode(msg, m->bytes, &key, 0, ELEMENTS, &scratch, &m->chunk) != SS_OK;
    m->coded.idx = b->scratch.data;
}

/* Makes the vectors and two messages. The short message holds the first entries of the long one, so
 * that both share the indices in the scratch. */
static bool bench_init(struct bench *b)
{
    const struct ss_backend_need need = {.n = ENTRIES, .entries = ENTRIES, .k = ENTRIES};
    const struct ss_backend_ops *ops = b->backend->ops;
    const size_t read = ops->remote ? ELEMENTS * sizeof(float) : 0;
    const size_t bound = (ss_wire_bound(SS_F32, ENTRIES) + 127) / 64 * 64,
                 part = (ss_wire_bound(SS_F32, ENTRIES / PARTS) + 127) / 64 * 64;

    if (ops->reserve(b->backend, SS_F32, &need) != SS_OK ||
        ss_buf_reserve(&b->own_idx, &b->mem, ENTRIES * sizeof(uint32_t)) != SS_OK ||
        ss_buf_reserve(&b->own_val, &b->mem, ENTRIES * sizeof(float)) != SS_OK ||
        ss_buf_reserve(&b->msg, &b->mem, 2 * bound) != SS_OK ||
        ss_buf_reserve(&b->out, &b->mem, PARTS * part) != SS_OK ||
        ss_buf_reserve(&b->back, &b->mem, read) != SS_OK ||
        ss_buf_reserve(&b->scratch, &b->mem, SS_CHUNK_ENTRIES * sizeof(uint32_t)) != SS_OK ||
        ops->make(b->backend, &b->mem, &b->idx, ENTRIES * sizeof(uint32_t)) != SS_OK ||
        ops->make(b->backend, &b->mem, &b->val, ENTRIES * sizeof(float)) != SS_OK ||
        ops->make(b->backend, &b->mem, &b->dense, ELEMENTS * sizeof(float)) != SS_OK)
        return false;
    draw(b);
    ops->write(b->backend, SS_I32, b->idx.data, b->own_idx.data, ENTRIES);
    ops->write(b->backend, SS_F32, b->val.data, b->own_val.data, ENTRIES);
    make_message(b, &b->small, bound, FEW);
    make_message(b, &b->large, 0, ENTRIES);
    return !b->failed;
}

/* Frees the vectors, after the queued work. */
static void drop_vectors(struct bench *b)
{
    struct ss_buf *const there[] = {&b->idx, &b->val, &b->dense};

    for (size_t i = 0; i < sizeof there / sizeof there[0]; i++)
        if (there[i]->data)
            b->backend->ops->drop(b->backend, there[i]);
}

static void free_arrays(struct bench *b)
{
    struct ss_buf *const here[] = {&b->own_idx, &b->own_val, &b->msg,
                                   &b->out,     &b->back,    &b->scratch};

    for (size_t i = 0; i < sizeof here / sizeof here[0]; i++)
        ss_buf_free(here[i]);
}

/* ---- timed work ---- */

typedef void work(struct bench *b);

static void clear_few(struct bench *b)
{
    b->backend->ops->clear(b->backend, SS_F32, b->dense.data, FEW);
}

static void clear_all(struct bench *b)
{
    float *dense = b->dense.data;

    for (size_t i = 0; i < ELEMENTS; i += PIECE)
        b->backend->ops->clear(b->backend, SS_F32, dense + i, PIECE);
}

/* Encodes entries in parts, which a backend may encode at the same time. */
static void encode(struct bench *b, size_t entries)
{
    const struct ss_leaving what = {
        .key = key, .idx = b->idx.data, .val = b->val.data, .parts = b->parts, .count = PARTS};

    for (size_t i = 0; i < PARTS; i++)
        b->parts[i] = (struct ss_part){i * (entries / PARTS), entries / PARTS};
    wait_here(b, b->backend->ops->encode(b->backend, SS_F32, &what, b->out.data, b->ends));
}

static void encode_few(struct bench *b)
{
    encode(b, FEW);
}

static void encode_all(struct bench *b)
{
    encode(b, ENTRIES);
}

static void put(struct bench *b, const struct ss_chunk *chunk)
{
    b->backend->ops->accumulate(b->backend, SS_F32, SS_SUM, b->dense.data, 0, chunk->idx,
                                chunk->val, chunk->nnz);
}

static void take(struct bench *b, const struct message *m)
{
    const enum ss_op op = SS_SUM;

    for (int i = 0; i < TIMES; i++)
        if (m->chunk.coded && b->backend->ops->decode)
            b->backend->ops->decode(b->backend, SS_F32, &op, b->dense.data, 0, &m->coded,
                                    &b->refused);
        else
            put(b, &m->chunk);
    wait_here(b, b->backend->ops->latest(b->backend));
    b->failed = b->failed || atomic_load(&b->refused) != 0;
}

static void take_few(struct bench *b)
{
    take(b, &b->small);
}

static void take_all(struct bench *b)
{
    take(b, &b->large);
}

static void put_all(struct bench *b)
{
    const struct ss_chunk all = {.nnz = ENTRIES, .idx = b->own_idx.data, .val = b->own_val.data};

    for (int i = 0; i < TIMES; i++)
        put(b, &all);
}

static void read_all(struct bench *b)
{
    wait_here(b, b->backend->ops->read(b->backend, SS_F32, b->dense.data, ELEMENTS, b->back.data));
}

enum timed { WAIT, FILL, FEW_TAKEN, TAKEN, PUT, FEW_LEFT, LEFT, READ, TIMED };
static work *const works[TIMED] = {
    [WAIT] = clear_few, [FILL] = clear_all,      [FEW_TAKEN] = take_few, [TAKEN] = take_all,
    [PUT] = put_all,    [FEW_LEFT] = encode_few, [LEFT] = encode_all,    [READ] = read_all};

static double seconds_of(struct bench *b, work *f)
{
    const double begin = now();

    f(b);
    wait_here(b, b->backend->ops->latest(b->backend));
    return now() - begin;
}

static double least(double a, double b)
{
    return a < b ? a : b;
}

static double difference(double more, double less, double of)
{
    return more - less > LEAST * of ? (more - less) / of : LEAST;
}

static struct ss_backend_costs costs_from(const struct bench *b, const double t[TIMED])
{
    const bool remote = b->backend->ops->remote;
    const double bytes = ELEMENTS * sizeof(float), all = TIMES * (ENTRIES - FEW);

    return (struct ss_backend_costs){
        .encode = difference(t[LEFT], t[FEW_LEFT], ENTRIES - FEW),
        .decode = difference(t[TAKEN], t[FEW_TAKEN], all),
        .put = difference(t[PUT], t[FEW_TAKEN], all),
        .fill = difference(t[FILL], t[WAIT], bytes),
        .cross = remote ? difference(t[READ], t[WAIT], bytes) : 0,
        .message = remote ? difference(t[FEW_TAKEN], t[WAIT], TIMES) : 0,
        .wait = remote ? t[WAIT] : 0,
    };
}

static bool is_asked(const struct ss_backend_ops *ops, int timed)
{
    return timed == READ ? ops->remote : (timed != FEW_LEFT && timed != LEFT) || ops->encode;
}

/* Times each work in some rounds and takes the least. The first round is the slowest and may be
 * given up. */
static bool bench_run(struct bench *b, struct ss_backend_costs *out)
{
    const double begin = now();
    double best[TIMED] = {0};

    for (int round = 0; round <= REPEATS && (round < 2 || now() - begin < ENOUGH); round++)
        for (int i = 0; i < TIMED; i++) {
            const double seconds = is_asked(b->backend->ops, i) ? seconds_of(b, works[i]) : 0;
            if (b->failed || (b->backend->ops->remote && now() - begin > TOO_LONG))
                return false;
            best[i] = round == 0 ? seconds : least(best[i], seconds);
        }
    *out = costs_from(b, best);
    if (!b->backend->ops->encode)
        out->encode = ss_host_costs()->code;
    return true;
}

/* Keeps the arrays of a bench given up, since queued work may still write to them. */
static void keep(struct bench *b)
{
    static _Atomic(struct bench *) given_up;

    b->next = atomic_load(&given_up);
    while (!atomic_compare_exchange_weak(&given_up, &b->next, b))
        ;
}

static bool measure(struct ss_backend *p, struct ss_backend_costs *out)
{
    struct bench *b = calloc(1, sizeof *b);
    bool done;

    if (!b)
        return false;
    b->backend = p;
    done = bench_init(b) && bench_run(b, out);
    drop_vectors(b);
    if (b->given_up) {
        keep(b);
        return false;
    }
    free_arrays(b);
    free(b);
    return done;
}

/* ---- the host ---- */

static struct {
    pthread_once_t once;
    struct ss_host_costs costs;
    struct ss_backend_costs backend;
} host = {.once = PTHREAD_ONCE_INIT, .costs = {.code = 4e-9, .merge = 2e-9, .fill = 1e-10}};

/* Measures the host. An entry costs the same to encode and to decode. */
static void measure_host(void)
{
    struct ss_backend_costs seen;

    if (measure(&ss_host, &seen))
        host.costs =
            (struct ss_host_costs){.code = difference(seen.encode + seen.decode, seen.put, 2),
                                   .merge = seen.put,
                                   .fill = seen.fill};
    host.backend = ss_costs_of_host(host.costs.code, host.costs.merge, host.costs.fill);
}

const struct ss_host_costs *ss_host_costs(void)
{
    pthread_once(&host.once, measure_host);
    return &host.costs;
}

/* ---- other backends ---- */

static struct ss_backend_record *record_of(struct ss_backend *p)
{
    return p->ops->record ? p->ops->record(p) : NULL;
}

const struct ss_backend_costs *ss_backend_costs(struct ss_backend *p)
{
    const struct ss_backend_record *r = record_of(p);

    if (r)
        return atomic_load_explicit(&r->state, memory_order_acquire) == MEASURED ? &r->seen
                                                                                 : &r->expected;
    pthread_once(&host.once, measure_host);
    return &host.backend;
}

static bool is_idle(struct ss_backend *p)
{
    const ss_fpenv program = ss_fpenv_enter();
    const int status = wait_for(p, p->ops->latest(p), IDLE);

    ss_fpenv_leave(program);
    return status == SS_OK;
}

bool ss_backend_measure(struct ss_backend *p)
{
    struct ss_backend_record *r = record_of(p);
    int state = NOT_MEASURED;

    if (!r || atomic_load_explicit(&r->state, memory_order_relaxed) != NOT_MEASURED ||
        !atomic_compare_exchange_strong(&r->state, &state, MEASURING))
        return false;
    if (!is_idle(p)) {
        const bool again = atomic_fetch_add(&r->tries, 1) + 1 < TRIES;
        if (!again)
            r->seen = r->expected;
        atomic_store(&r->state, again ? NOT_MEASURED : MEASURED);
        return false;
    }
    const ss_fpenv program = ss_fpenv_enter();
    if (!measure(p, &r->seen))
        r->seen = r->expected;
    ss_fpenv_leave(program);
    atomic_store_explicit(&r->state, MEASURED, memory_order_release);
    return true;
}
