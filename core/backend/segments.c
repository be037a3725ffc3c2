/* A concatenation of vectors of the host. All work is done at once, segment by segment. */
#include "core/backend/segments.h"

#include <string.h>

struct range {
    uint64_t first, n; /* elements of the concatenation */
};

/* n elements of the concatenation, which lie in one segment and `done` elements into a range. */
struct piece {
    unsigned char *at;
    uint64_t n;
    size_t done;
};

static const struct ss_segments *of(const struct ss_backend *p)
{
    return (const struct ss_segments *)p;
}

static struct range range_of(const struct ss_backend *p, enum ss_type type, const void *v, size_t n)
{
    size_t offset = (size_t)((const unsigned char *)v - of(p)->base);

    return (struct range){offset / ss_type_size(type), n};
}

/* Returns the last segment that begins at or before the element. */
static const struct ss_segment *find(const struct ss_segments *s, uint64_t element)
{
    unsigned lo = 0, hi = s->count;

    while (hi - lo > 1) {
        unsigned middle = lo + (hi - lo) / 2;
        if (s->list[middle].first <= element)
            lo = middle;
        else
            hi = middle;
    }
    return &s->list[lo];
}

/* Sets *piece to the piece of the range that begins `done` elements into it and lies in one
 * segment. Returns false if none is left. */
static bool next_piece(const struct ss_backend *p, enum ss_type type, struct range range,
                       size_t done, struct piece *piece)
{
    uint64_t first = range.first + done, left = range.n - done;

    if (left == 0)
        return false;
    const struct ss_segment *g = find(of(p), first);
    uint64_t inside = first - g->first, room = g->n - inside;
    *piece = (struct piece){
        .at = g->at + inside * ss_type_size(type), .n = left < room ? left : room, .done = done};
    return true;
}

#define EACH(piece, p, type, v, n)                                                                 \
    struct range range = range_of(p, type, v, n);                                                  \
    struct piece piece = {0};                                                                      \
    for (size_t at = 0; next_piece(p, type, range, at, &(piece)); at += (piece).n)

static void clear(struct ss_backend *p, enum ss_type type, void *v, size_t n)
{
    EACH(piece, p, type, v, n)
    ss_host.ops->clear(&ss_host, type, piece.at, piece.n);
}

static void write_to(struct ss_backend *p, enum ss_type type, void *dst, const void *from, size_t n)
{
    const unsigned char *next = from;

    EACH(piece, p, type, dst, n)
    ss_host.ops->write(&ss_host, type, piece.at, next + piece.done * ss_type_size(type), piece.n);
}

static ss_ticket read_to(struct ss_backend *p, enum ss_type type, const void *src, size_t n,
                         void *to)
{
    unsigned char *next = to;

    EACH(piece, p, type, src, n)
    ss_host.ops->read(&ss_host, type, piece.at, piece.n, next + piece.done * ss_type_size(type));
    return 0;
}

static void reduce(struct ss_backend *p, enum ss_type type, enum ss_op op, void *dst,
                   const void *from, size_t n)
{
    const unsigned char *next = from;

    EACH(piece, p, type, dst, n)
    ss_host.ops->reduce(&ss_host, type, op, piece.at, next + piece.done * ss_type_size(type),
                        piece.n);
}

/* A slice of the entries of a stream that lies in one segment. */
struct slice {
    const struct ss_segment *segment;
    uint32_t base; /* the index of its first element */
    size_t from, count;
};

/* Sets *s to the next slice. dst is the address of the element with index `base`. Returns false if
 * no entry is left. */
static bool next_slice(const struct ss_backend *p, enum ss_type type, const void *dst,
                       uint32_t base, const uint32_t *idx, size_t nnz, struct slice *s)
{
    size_t from = s->from + s->count;

    if (from >= nnz)
        return false;
    uint64_t first = range_of(p, type, dst, 0).first;
    const struct ss_segment *g = find(of(p), first + (idx[from] - base));
    uint32_t begin = (uint32_t)(g->first - first) + base;
    *s = (struct slice){.segment = g,
                        .base = begin,
                        .from = from,
                        .count = ss_lower_bound(idx + from, nnz - from, begin + (uint32_t)g->n)};
    return true;
}

static void clear_at(struct ss_backend *p, enum ss_type type, void *dst, uint32_t base,
                     const uint32_t *idx, size_t nnz)
{
    struct slice s = {0};

    while (next_slice(p, type, dst, base, idx, nnz, &s))
        ss_host.ops->clear_at(&ss_host, type, s.segment->at, s.base, idx + s.from, s.count);
}

static void scatter(struct ss_backend *p, enum ss_type type, void *dst, uint32_t base,
                    const uint32_t *idx, const void *val, size_t nnz)
{
    const unsigned char *from = val;
    struct slice s = {0};

    while (next_slice(p, type, dst, base, idx, nnz, &s))
        ss_host.ops->scatter(&ss_host, type, s.segment->at, s.base, idx + s.from,
                             from + s.from * ss_type_size(type), s.count);
}

static void accumulate(struct ss_backend *p, enum ss_type type, enum ss_op op, void *dst,
                       uint32_t base, const uint32_t *idx, const void *val, size_t nnz)
{
    const unsigned char *from = val;
    struct slice s = {0};

    while (next_slice(p, type, dst, base, idx, nnz, &s))
        ss_host.ops->accumulate(&ss_host, type, op, s.segment->at, s.base, idx + s.from,
                                from + s.from * ss_type_size(type), s.count);
}

/* Opens a range: in place if one segment holds it, else as a copy. */
static ss_ticket open_range(struct ss_backend *p, enum ss_type type, void *v, size_t n, void *room,
                            void **at)
{
    struct piece piece;

    *at = room;
    if (next_piece(p, type, range_of(p, type, v, n), 0, &piece) && piece.n == n)
        *at = piece.at;
    else
        read_to(p, type, v, n, room);
    return 0;
}

static void close_range(struct ss_backend *p, enum ss_type type, void *v, size_t n,
                        const void *opened)
{
    struct piece piece;

    if (next_piece(p, type, range_of(p, type, v, n), 0, &piece) && piece.n != n)
        write_to(p, type, v, opened, n);
}

/* Adds the scan of a piece to the scan of the pieces before it, which had `done` elements. */
static void add_scan(struct ss_scan *all, const struct ss_scan *s, size_t done)
{
    if (all->stop == done)
        all->stop = done + s->stop;
    all->nnz += s->nnz;
    all->stored += s->stored;
    all->negative_zero = all->negative_zero || s->negative_zero;
    all->not_finite = all->not_finite || s->not_finite;
}

static ss_ticket scan(struct ss_backend *p, enum ss_type type, enum ss_op op, const void *src,
                      size_t n, uint32_t base, uint32_t *idx, void *val, size_t capacity,
                      struct ss_scan *out)
{
    const size_t size = ss_type_size(type);

    *out = (struct ss_scan){0};
    EACH(piece, p, type, src, n)
    {
        bool room = out->stop == piece.done && idx;
        struct ss_scan s;

        ss_host.ops->scan(&ss_host, type, op, piece.at, piece.n, base + (uint32_t)piece.done,
                          room ? idx + out->stored : NULL,
                          room ? (unsigned char *)val + out->stored * size : NULL,
                          room ? capacity - out->stored : 0, &s);
        add_scan(out, &s, piece.done);
    }
    return 0;
}

static const struct ss_backend_ops ops = {
    .remote = true, /* a range over two segments is copied to be seen as one */
    .poll = ss_backend_poll_done,
    .latest = ss_backend_latest_done,
    .reserve = ss_backend_reserve_nothing,
    .clear = clear,
    .clear_at = clear_at,
    .write = write_to,
    .scatter = scatter,
    .accumulate = accumulate,
    .reduce = reduce,
    .read = read_to,
    .open = open_range,
    .close = close_range,
    .scan = scan,
};

void ss_segments_init(struct ss_segments *s, const struct ss_segment *list, unsigned count)
{
    *s = (struct ss_segments){
        .backend = {&ops}, .list = list, .count = count, .base = count > 0 ? list[0].at : NULL};
}
