/* What the host's questions to the driver cost, how fast the link is, and how long the main kernels
 * take on a device, beside the rate of its copies in the same run: one JSON object a line. usage:
 * gpu_bench [elements in Mi, 64 256 by default]... On the driver for tests (GPU_LIBCUDA) the times
 * mean nothing; a size of 0 is a small one. */
#include <dlfcn.h>
#include <time.h>

#include "tests/gpu/real_device.h"

/* SPREAD: of so many elements one is in the result of 8 ranks that have claimed one per cent each.
 */
enum { TIMES_MOST = 21, WARM_UP = 5, STEADY = 200, SMALL = 1 << 20, TABLE = 64, SPREAD = 13 };

static struct real_device real;
static CUresult (*elapsed)(float *, CUevent, CUevent);
static CUevent after[TIMES_MOST + 1];
static int times = 1; /* each is timed so often; once: without a warm-up */

static struct {
    enum ss_type type;
    size_t n, k, room;
    void *g, *r, *other;
    struct gpu_list list, between;
    struct gpu_list spread; /* all of its room are entries */
    void *payload;          /* of a message of the first of them, */
    struct gpu_code code;   /* what it is, */
    uint32_t *decoded;      /* and what it becomes */
    uint32_t *refused;
    void *work;
    struct gpu_search *found;
    uint32_t *bins;
    struct gpu_message *table;
    uint64_t threshold;
} job;

static void *make(size_t bytes)
{
    void *p = gpu_memory_make(&real.device, bytes);

    if (!p) {
        fprintf(stderr, "gpu_bench: no room for %zu bytes\n", bytes);
        exit(1);
    }
    return p;
}

/* ---- what is timed ---- */

static void copy(void)
{
    gpu_copy(&real.device, job.other, job.g, job.n * ss_type_size(job.type));
}

static struct gpu_input input(void)
{
    return (struct gpu_input){.type = job.type, .g = job.g, .r = job.r, .n = job.n};
}

static void step(void)
{
    const struct gpu_input in = input();

    gpu_claim(&real.device.queue, &in, job.threshold, NULL, &job.list, job.work);
}

static void exact_in_one(void)
{
    const struct gpu_input in = input();

    gpu_claim_exact(&real.device.queue, &in, job.k, &job.between, &job.list, job.work);
}

static void exact_by_radix(void)
{
    const struct gpu_input in = input();

    gpu_find(&real.device.queue, &in, job.k, job.found, job.bins);
    gpu_claim(&real.device.queue, &in, 0, (const uint64_t *)&job.found->low, &job.list, job.work);
}

static void buckets(void)
{
    const struct gpu_input in = input();

    gpu_claim_buckets(&real.device.queue, &in, 4, 512, &job.list, job.work);
}

/* The claims of the last step, as messages, rounded or not; behind them it is not the vector that
 * it was. */
static void encode_as(enum ss_values values)
{
    const size_t entries = job.k / 2;
    const struct gpu_outgoing out = {
        .type = job.type,
        .idx = job.list.idx,
        .val = job.list.val,
        .table = job.table,
        .messages = (entries + SS_CHUNK_ENTRIES - 1) / SS_CHUNK_ENTRIES,
        .head = gpu_wire_head(&(struct ss_wire_key){.type = job.type}, values),
        .bucket = 1024};

    gpu_encode(&real.device.queue, &out, job.other, job.bins);
}

static void encode(void)
{
    encode_as(SS_VALUES_SAME);
}

static void encode_q8(void)
{
    encode_as(SS_VALUES_Q8);
}

/* Chunks of k / 2 entries. */
static void make_table(void)
{
    struct gpu_slot *slot = gpu_slot_take(&real.device);
    struct gpu_message *m = slot->data;
    const size_t entries = job.k / 2, room = ss_wire_bound(job.type, SS_CHUNK_ENTRIES);
    size_t count = 0;

    for (size_t at = 0; at < entries && count < TABLE; at += SS_CHUNK_ENTRIES, count++)
        m[count] = (struct gpu_message){
            .first = (unsigned)at,
            .count = (unsigned)(entries - at < SS_CHUNK_ENTRIES ? entries - at : SS_CHUNK_ENTRIES),
            .at = (unsigned)(count * room),
            .last = 1};
    gpu_upload(&real.device, job.table, m, count * sizeof *m);
    gpu_slot_give(slot, gpu_record(&real.device));
}

/* In a vector that is else zero: what 8 ranks have claimed together; half of the claims of the last
 * step, which the scan behind it finds. */
static void result(void)
{
    gpu_clear(&real.device.queue, job.type, job.other, job.n);
    gpu_scatter(&real.device.queue, job.type, job.other, 0, job.spread.idx, job.spread.val,
                job.spread.room, NULL);
}

static void own_result(void)
{
    gpu_clear(&real.device.queue, job.type, job.other, job.n);
    gpu_scatter(&real.device.queue, job.type, job.other, 0, job.list.idx, job.list.val, job.k / 2,
                NULL);
}

/* One message, as it came. */
static void decode(void)
{
    gpu_unpack(&real.device.queue, &job.code, job.decoded, job.refused, job.refused + 1);
    gpu_scatter(&real.device.queue, job.type, job.other, 0, job.decoded, job.spread.val,
                job.code.nnz, job.refused);
}

static void scan(void)
{
    gpu_scan(&real.device.queue, job.type, SS_SUM, job.other, job.n, 0, &job.list, job.work);
}

static void square(void)
{
    gpu_square(&real.device.queue, job.type, job.g, job.n, job.work);
}

/* ---- times ---- */

static int by_size(const void *a, const void *b)
{
    const float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

static void finish(void)
{
    real_check(&real, (CUresult)real.device.queue.error);
    real_check(&real, real.driver.stream_finish(real.device.stream));
}

static void note(CUevent event)
{
    real_check(&real, real.driver.event_record(event, real.device.stream));
}

/* All are queued at once: what the host needs for a launch is not among it. */
static double median_ms(void (*run)(void))
{
    float ms[TIMES_MOST];

    for (int i = 0; i < WARM_UP && times > 1; i++)
        run();
    note(after[0]);
    for (int i = 0; i < times; i++) {
        run();
        note(after[i + 1]);
    }
    finish();
    for (int i = 0; i < times; i++)
        real_check(&real, elapsed(&ms[i], after[i], after[i + 1]));
    qsort(ms, (size_t)times, sizeof ms[0], by_size);
    return (double)ms[times / 2];
}

static double seconds(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* A device that has had nothing to do runs slowly at first. */
static void wake(void)
{
    static bool awake;
    const double begin = seconds();

    while (!awake && job.n >= SMALL && seconds() - begin < 0.5) {
        copy();
        finish();
    }
    awake = awake || job.n >= SMALL;
}

/* words: of each element, what cannot but cross; 0: it is not of all of them. */
static const struct timed {
    const char *name;
    void (*run)(void);
    double words;
} timed[] = {
    {"step", step, 3},
    {"exact in one reading", exact_in_one, 3},
    {"exact by radix", exact_by_radix, 3},
    {"4 of 512", buckets, 3},
    {"encode", encode, 0.01},
    {"encode to q8", encode_q8, 0.01},
    {"decode", decode, 0},
    {"result", result, 1},
    {"own result", own_result, 1},
    {"scan", scan, 1},
    {"square", square, 1},
};

static void tell(const char *name, double words, double ms, double copy_rate)
{
    const double bytes = words * (double)(job.n * ss_type_size(job.type));
    const double rate = bytes / ms / 1e6;

    printf("{\"type\": \"%s\", \"n\": %zu, \"what\": \"%s\", \"ms\": %.4f, \"GB/s\": %.0f, "
           "\"of copy\": %.3f}\n",
           ss_type_name(job.type), job.n, name, ms, rate, copy_rate > 0 ? rate / copy_rate : 1);
    (void)fflush(stdout);
}

/* Whether the sample of the last one gave a bound that was low enough, and what that let through.
 */
static void tell_of_bound(void)
{
    struct gpu_slot *slot = gpu_slot_take(&real.device);
    const struct gpu_exact *x = slot->data;

    gpu_download(&real.device, slot->data, job.work, sizeof *x);
    finish();
    printf("{\"type\": \"%s\", \"n\": %zu, \"what\": \"bound\", \"wanted\": %zu, \"let through\": "
           "%llu, "
           "\"kept\": %llu, \"missed\": %u}\n",
           ss_type_name(job.type), job.n, job.k, x->claimed.reached, x->kept.kept, x->kept.missed);
    gpu_slot_give(slot, 0);
}

/* ---- data ---- */

static double draw(uint64_t *state)
{
    uint64_t x = *state += 0x9e3779b97f4a7c15u;

    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    const double u = (double)(x >> 11) * 0x1p-53 - 0.5;
    return u * u * u;
}

/* Slot by slot; the residual is a hundredth of the gradient's size. */
static void fill(void *v, double scale, uint64_t seed)
{
    const size_t size = ss_type_size(job.type), each = GPU_SLOT_BYTES / size;

    for (size_t at = 0; at < job.n; at += each) {
        const size_t count = job.n - at < each ? job.n - at : each;
        struct gpu_slot *slot;
        while (!(slot = gpu_slot_take(&real.device)))
            real_check(&real, (CUresult)real.device.queue.error);
        for (size_t i = 0; i < count; i++)
            if (job.type == SS_F32)
                ((float *)slot->data)[i] = (float)(scale * draw(&seed));
            else
                ((double *)slot->data)[i] = scale * draw(&seed);
        gpu_upload(&real.device, (char *)v + at * size, slot->data, count * size);
        gpu_slot_give(slot, gpu_record(&real.device));
    }
}

/* Ascending indices, a slot at a time; values are some of the gradient's. */
static void fill_spread(void)
{
    const size_t each = GPU_SLOT_BYTES / 4, count = job.spread.room;

    for (size_t at = 0; at < count; at += each) {
        const size_t most = count - at < each ? count - at : each;
        struct gpu_slot *slot;
        while (!(slot = gpu_slot_take(&real.device)))
            real_check(&real, (CUresult)real.device.queue.error);
        for (size_t i = 0; i < most; i++)
            ((uint32_t *)slot->data)[i] =
                (uint32_t)(SPREAD * (at + i) + (((at + i) * 2654435761u) >> 16) % SPREAD);
        gpu_upload(&real.device, job.spread.idx + at, slot->data, most * 4);
        gpu_slot_give(slot, gpu_record(&real.device));
    }
    gpu_copy(&real.device, job.spread.val, job.g, count * ss_type_size(job.type));
    finish();
}

/* The first entries of those, as a rank sends them. False: they are too few for a long message. */
static bool make_message(void)
{
    static uint32_t idx[SS_CHUNK_ENTRIES], decoded[SS_CHUNK_ENTRIES];
    static double val[SS_CHUNK_ENTRIES];
    const struct ss_wire_key key = {.type = job.type, .call = 1, .phase = 1};
    const uint32_t nnz =
        job.spread.room < SS_CHUNK_ENTRIES ? (uint32_t)job.spread.room : SS_CHUNK_ENTRIES;
    char *msg = malloc(ss_wire_bound(job.type, nnz));
    struct ss_coded coded = {.payload = NULL};
    const struct ss_wire_scratch scratch = {.idx = decoded, .coded = &coded};
    struct ss_chunk chunk = {.coded = NULL};

    if (!msg)
        exit(1);
    gpu_download(&real.device, idx, job.spread.idx, nnz * 4);
    gpu_download(&real.device, val, job.spread.val, nnz * ss_type_size(job.type));
    finish();
    const size_t length = ss_wire_encode(msg, &key, SS_CODING_PACKED, idx, val, nnz, true, NULL);
    const bool is_long =
        ss_wire_decode(msg, length, &key, 0, UINT32_MAX, &scratch, &chunk) == SS_OK && chunk.coded;
    if (is_long) {
        gpu_upload(&real.device, job.payload, coded.payload, coded.bytes);
        finish();
        job.code = (struct gpu_code){job.payload,
                                     (uint32_t)coded.runs,
                                     (uint32_t)coded.code,
                                     coded.parameter,
                                     coded.first,
                                     coded.last,
                                     nnz};
    }
    free(msg);
    return is_long;
}

/* A hundred times the mean magnitude of the gradient: then a step claims one per cent, once the
 * residual has come to rest. */
static uint64_t threshold_of(enum ss_type type)
{
    const double x = 100 * 0.03125;
    const float narrow = (float)x;
    uint64_t bits = 0;

    if (type == SS_F32)
        memcpy(&bits, &narrow, sizeof narrow);
    else
        memcpy(&bits, &x, sizeof x);
    return bits;
}

static size_t largest(size_t a, size_t b)
{
    return a > b ? a : b;
}

static void measure(enum ss_type type, size_t n)
{
    const size_t size = ss_type_size(type), k = n / 100;
    size_t work = largest(gpu_exact_work(type, n, k), gpu_buckets_work(n, 512));

    job.type = type;
    job.n = n;
    job.k = k;
    job.room = n / 33 + 64;
    times = n < SMALL ? 1 : TIMES_MOST;
    job.threshold = threshold_of(type);
    work = largest(work, largest(gpu_scan_work(type, n), gpu_square_work(type, n)));
    const size_t between = gpu_exact_room(n, k), spread = n / SPREAD;
    const size_t payload = ss_wire_bound(type, SS_CHUNK_ENTRIES) + 64;
    const size_t sizes[] = {n * size,
                            n * size,
                            n * size,
                            4 * job.room,
                            size * job.room,
                            4 * between,
                            size * between,
                            work,
                            64,
                            4 * GPU_BINS,
                            TABLE * sizeof(struct gpu_message),
                            4 * spread,
                            size * spread,
                            payload,
                            4 * SS_CHUNK_ENTRIES,
                            64};
    void **to[] = {&job.g,
                   &job.r,
                   &job.other,
                   (void **)&job.list.idx,
                   &job.list.val,
                   (void **)&job.between.idx,
                   &job.between.val,
                   &job.work,
                   (void **)&job.found,
                   (void **)&job.bins,
                   (void **)&job.table,
                   (void **)&job.spread.idx,
                   &job.spread.val,
                   &job.payload,
                   (void **)&job.decoded,
                   (void **)&job.refused};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        *to[i] = make(sizes[i]);
    job.list.room = job.room;
    job.between.room = between;
    job.spread.room = spread;
    fill(job.g, 1, 1);
    fill(job.r, 0.01, 2);

    fill_spread();
    const bool is_long = make_message();
    make_table();
    wake();
    const double ms = median_ms(copy);
    const double rate = 2 * (double)(n * size) / ms / 1e6;
    tell("copy", 2, ms, 0);
    for (int i = 0; i < STEADY && n >= SMALL; i++)
        step();
    for (size_t i = 0; i < sizeof timed / sizeof timed[0]; i++) {
        if (timed[i].run == decode && !is_long)
            continue;
        tell(timed[i].name, timed[i].words, median_ms(timed[i].run), rate);
        if (timed[i].run == exact_in_one)
            tell_of_bound();
    }
    tell("copy again", 2, median_ms(copy), rate);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        gpu_memory_free(&real.device, *to[i], sizes[i]);
}

/* ---- the driver and the link ---- */

enum { ASKED = 500 };
static const size_t lengths[] = {64 << 10, 1 << 20, 64 << 20};

static struct {
    void *far, *pinned;
    size_t bytes;
} ends;

/* Not used by the library; NULL: the driver for tests has none. */
static CUresult (*one_attribute)(void *, CUpointer_attribute, CUdeviceptr);

static void ask_whose(const void *p)
{
    (void)gpu_where(&real.driver, p);
}

static void ask_in_the_singular(const void *p)
{
    unsigned type = 0;

    (void)one_attribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, (CUdeviceptr)(uintptr_t)p);
}

static void ask_event(const void *p)
{
    (void)p;
    (void)real.driver.event_query(after[0]);
}

static void launch(const void *p)
{
    gpu_scale(&real.device.queue, SS_F32, (void *)(uintptr_t)p, 1, 1);
}

static void launch_and_wait(const void *p)
{
    launch(p);
    const gpu_ticket ticket = gpu_record(&real.device);
    while (!gpu_passed(&real.device, ticket))
        ;
}

static void follow_program(const void *p)
{
    (void)p;
    gpu_after_program(&real.device);
}

static void tell_cost(const char *what, void (*ask)(const void *), const void *p)
{
    const double begin = seconds();

    for (int i = 0; i < ASKED; i++)
        ask(p);
    printf("{\"what\": \"%s\", \"us\": %.3f}\n", what, (seconds() - begin) / ASKED * 1e6);
    finish();
}

static void up(void)
{
    gpu_upload(&real.device, ends.far, ends.pinned, ends.bytes);
}

static void down(void)
{
    gpu_download(&real.device, ends.pinned, ends.far, ends.bytes);
}

static void tell_link(const char *what, void (*run)(void))
{
    const double ms = median_ms(run);

    printf("{\"what\": \"%s\", \"bytes\": %zu, \"ms\": %.4f, \"GB/s\": %.1f}\n", what, ends.bytes,
           ms, (double)ends.bytes / ms / 1e6);
}

static void measure_driver(void)
{
    const size_t most = lengths[sizeof lengths / sizeof lengths[0] - 1];
    enum { EVERYWHERE = 1 };
    CUresult (*make_managed)(CUdeviceptr *, size_t, unsigned);
    CUdeviceptr managed = 0;
    void *heap = malloc(64);

    *(void **)(void *)&one_attribute = dlsym(real.libcuda, "cuPointerGetAttribute");
    *(void **)(void *)&make_managed = emulated_symbol(real.libcuda, "cuMemAllocManaged");
    real_check(&real, make_managed(&managed, 4096, EVERYWHERE));
    ends.far = make(most);
    ends.pinned = gpu_pinned_make(&real.device, most);
    gpu_clear(&real.device.queue, SS_F32, ends.far, most / 4);
    note(after[0]);
    finish();
    tell_cost("whose is memory of a device", ask_whose, ends.far);
    tell_cost("whose is pinned memory", ask_whose, ends.pinned);
    tell_cost("whose is managed memory", ask_whose, (void *)(uintptr_t)managed);
    tell_cost("whose is other memory", ask_whose, heap);
    if (one_attribute) {
        tell_cost("whose is memory of a device, asked in the singular", ask_in_the_singular,
                  ends.far);
        tell_cost("whose is other memory, asked in the singular", ask_in_the_singular, heap);
    }
    tell_cost("has an event passed", ask_event, NULL);
    tell_cost("launch", launch, ends.far);
    tell_cost("launch and wait", launch_and_wait, ends.far);
    tell_cost("follow the program", follow_program, NULL);
    times = TIMES_MOST;
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        ends.bytes = lengths[i];
        tell_link("to the device", up);
        tell_link("from the device", down);
    }
    free(heap);
    real_check(&real, real.driver.memory_free(managed));
    gpu_pinned_free(&real.device, ends.pinned);
    gpu_memory_free(&real.device, ends.far, most);
}

int main(int argc, char **argv)
{
    static char *ordinary[] = {(char *)(uintptr_t) "", (char *)(uintptr_t) "64",
                               (char *)(uintptr_t) "256"};

    if (!real_open(&real))
        return 1;
    real.device.limit = (size_t)-1;
    *(void **)(void *)&elapsed = emulated_symbol(real.libcuda, "cuEventElapsedTime");
    for (size_t i = 0; i < sizeof after / sizeof after[0]; i++)
        real_check(&real, real.driver.event_make(&after[i], 0));
    if (argc < 2) {
        argc = 3;
        argv = ordinary;
    }
    measure_driver();
    for (int i = 1; i < argc; i++) {
        const size_t mi = strtoull(argv[i], NULL, 0), n = mi > 0 ? mi << 20 : 30000;
        measure(SS_F32, n);
        measure(SS_F64, n);
    }
    real_close(&real);
    return 0;
}
