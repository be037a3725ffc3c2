/* What checks of kernels make their cases of. Arrays end where memory that can be read ends. */
#ifndef TESTS_GPU_CHECK_CASES_H
#define TESTS_GPU_CHECK_CASES_H

#include <stdarg.h>
#include <sys/mman.h>

#include "core/compute/select.h"
#include "tests/gpu/chance.h"
#include "tests/gpu/emulated.h"

static inline const char *complaint(const char *format, ...)
{
    static char text[400];
    va_list list;

    va_start(list, format);
    (void)vsnprintf(text, sizeof text, format, list);
    va_end(list);
    return text;
}

/* ---- memory ---- */

enum { ROOM = 1 << 20, ARRAYS = 24 };

static inline void *guarded(size_t bytes)
{
    char *map =
        mmap(NULL, bytes + 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (map == MAP_FAILED || mprotect(map + bytes, 4096, PROT_NONE) != 0)
        abort();
    return map;
}

/* Where arrays are: before a page that faults, or in memory of another kind. */
static void *(*array_memory)(size_t bytes) = guarded;

/* An array is at the end of its memory, and good until arrays_end. */
static struct {
    char *end[ARRAYS];
    size_t used;
} arrays;

static inline void *array(size_t bytes)
{
    if (arrays.used == ARRAYS || bytes > ROOM)
        abort();
    char **end = &arrays.end[arrays.used++];
    if (!*end)
        *end = (char *)array_memory(ROOM) + ROOM;
    return memset(*end - bytes, 0x5a, bytes);
}

/* n elements, with up to three more behind them. */
static inline void *vector(enum ss_type type, size_t n, size_t behind)
{
    return array((n + behind) * ss_type_size(type));
}

/* For a kernel to work in, aligned; `garbage` before, as memory of a device is. */
static inline void *work_area(size_t bytes)
{
    return array((bytes + 63) / 64 * 64);
}

static inline void *copied(const void *from, size_t bytes)
{
    return memcpy(array(bytes), from, bytes);
}

static inline void arrays_end(void)
{
    arrays.used = 0;
}

/* ---- numbers ---- */

enum kind { NORMAL, SPARSE, TIES, SUBNORMAL, WIDE, ZEROS, SIGNED_ZEROS, KINDS };

static inline double number_like(enum ss_type type, enum kind kind)
{
    double x = unit() - 0.5, least = type == SS_F32 ? 0x1p-149 : 0x1p-1074;

    switch (kind) {
    case SPARSE:
        return below(20) == 0 ? x : 0;
    case TIES:
        return (double)(int)(x * 6);
    case SUBNORMAL:
        return least * (double)(int)(x * 3000);
    case WIDE:
        return ldexp(x, (int)below(60) - 30);
    case ZEROS:
        return 0;
    case SIGNED_ZEROS:
        return below(3) ? -0.0 : x;
    default:
        return x;
    }
}

static inline void *numbers(enum ss_type type, size_t n, enum kind kind, size_t behind)
{
    void *v = vector(type, n, behind);

    for (size_t i = 0; i < n; i++)
        put(type, v, i, number_like(type, kind));
    return v;
}

static inline void spoil(enum ss_type type, void *v, size_t n, size_t times)
{
    static const double bad[] = {INFINITY, -INFINITY, NAN};

    for (; times > 0; times--)
        put(type, v, below(n), bad[below(3)]);
}

/* About an edge of tiles, or anywhere. */
static inline size_t length(enum ss_type type)
{
    const size_t tile = GPU_TILE_BYTES / ss_type_size(type), edge = tile * (1 + below(3));

    switch (below(5)) {
    case 0:
        return 1 + below(40);
    case 1:
        return edge - 3 + below(7);
    case 2:
        return edge;
    default:
        return 1 + below(3 * tile);
    }
}

static inline size_t bytes_of(enum ss_type type, size_t n)
{
    return n * ss_type_size(type);
}

static inline const struct ss_selectors *plain_selectors(void)
{
    const struct ss_selectors *plain = NULL;

    for (size_t i = 0; ss_selectors_at(i); i++)
        plain = ss_selectors_at(i);
    return plain;
}

static inline void shuffle_machine(struct emulated *e)
{
    e->resident = 1 + (unsigned)below(5);
    e->seed = below(3) ? chance() | 1 : 0;
}

static inline enum ss_type any_float(void)
{
    return below(2) ? SS_F32 : SS_F64;
}

static inline enum ss_type any_type(enum ss_op *op)
{
    enum ss_type type = (enum ss_type)below(SS_TYPES);

    *op = ss_type_is_float(type) ? SS_SUM : (enum ss_op)below(SS_OPS);
    return type;
}

#endif
