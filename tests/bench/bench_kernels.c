/* Speeds of the kernels and the wire codec on this host: ns per element or entry, GB/s of what is
 * read. Arguments: elements, repetitions, density (all of a list when not given). */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/compute/kernels.h"
#include "core/wire/wire.h"
#include "tests/bench/measure.h"

struct data {
    enum ss_type type;
    size_t n, size, nnz, repetitions;
    void *dense, *val, *val2, *other, *out;
    uint32_t *idx, *idx2, *idx3;
    char *messages;
};

static void fill(struct data *data, double density, uint64_t seed)
{
    uint64_t state = seed;
    for (size_t i = 0; i < data->n; i++) {
        bool set = (double)(measure_random(&state) >> 11) * 0x1p-53 < density;
        if (data->size == 4)
            ((float *)data->dense)[i] = set ? (float)i + 1 : 0;
        else
            ((double *)data->dense)[i] = set ? (double)i + 1 : 0;
    }
}

/* Best time of the repetitions of one action, in seconds. */
static double best_of(void (*action)(const struct ss_kernels *, struct data *),
                      const struct ss_kernels *kernels, struct data *data)
{
    double best = INFINITY;
    for (size_t r = 0; r < data->repetitions; r++) {
        double start = measure_now();
        action(kernels, data);
        double time = measure_now() - start;
        best = time < best ? time : best;
    }
    return best;
}

/* The floor of a scan: all elements read once. */
static void read_all(const struct ss_kernels *kernels, struct data *data)
{
    (void)kernels;
    typedef uint64_t vector __attribute__((vector_size(64)));
    const vector *p = data->dense;
    vector any[4] = {{0}, {0}, {0}, {0}};
    for (size_t i = 0; i + 4 <= data->n * data->size / sizeof *p; i += 4)
        for (size_t j = 0; j < 4; j++)
            any[j] |= p[i + j];
    any[0] |= any[1] | any[2] | any[3];
    volatile uint64_t sink = any[0][0] | any[0][7];
    (void)sink;
}

static void scan(const struct ss_kernels *kernels, struct data *data)
{
    struct ss_scan found;
    kernels->scan(data->type, SS_SUM, data->dense, data->n, 0, data->idx, data->val, data->n,
                  &found);
    data->nnz = found.nnz;
}

static void scatter(const struct ss_kernels *kernels, struct data *data)
{
    kernels->scatter(data->type, data->other, 0, data->idx, data->val, data->nnz);
}

static void accumulate(const struct ss_kernels *kernels, struct data *data)
{
    kernels->accumulate(data->type, SS_SUM, data->other, 0, data->idx, data->val, data->nnz);
}

static void reduce(const struct ss_kernels *kernels, struct data *data)
{
    kernels->reduce(data->type, SS_SUM, data->other, data->dense, data->n);
}

static size_t second_nnz;

static void merge(const struct ss_kernels *kernels, struct data *data)
{
    kernels->merge(data->type, SS_SUM, data->idx, data->val, data->nnz, data->idx2, data->val2,
                   second_nnz, data->idx3, data->out);
}

static size_t stride(const struct data *data)
{
    return ss_wire_bound(data->type, SS_CHUNK_ENTRIES);
}

static void encode(const struct ss_kernels *kernels, struct data *data)
{
    (void)kernels;
    const struct ss_wire_key key = {data->type, 1, 2};
    char *to = data->messages;
    for (size_t at = 0; at < data->nnz; at += SS_CHUNK_ENTRIES, to += stride(data)) {
        size_t left = data->nnz - at, nnz = left < SS_CHUNK_ENTRIES ? left : SS_CHUNK_ENTRIES;
        ss_wire_encode(to, &key, SS_CODING_AUTO, data->idx + at,
                       (char *)data->val + at * data->size, (uint32_t)nnz, nnz == left, NULL);
    }
}

static void decode(const struct ss_kernels *kernels, struct data *data)
{
    (void)kernels;
    static uint32_t idx[SS_CHUNK_ENTRIES];
    const struct ss_wire_scratch scratch = {.idx = idx};
    const struct ss_wire_key key = {data->type, 1, 2};
    const char *from = data->messages;
    for (size_t at = 0; at < data->nnz; at += SS_CHUNK_ENTRIES, from += stride(data)) {
        uint32_t payload;
        memcpy(&payload, from + 12, sizeof payload);
        struct ss_chunk chunk;
        if (ss_wire_decode(from, SS_WIRE_HEADER + payload, &key, 0, (uint32_t)data->n, &scratch,
                           &chunk) != SS_OK) {
            fprintf(stderr, "bench_kernels: own message refused\n");
            exit(1);
        }
    }
}

static void print(const char *what, double time, size_t count, double bytes)
{
    printf("    %-12s %8.3f ms  %7.3f ns each  %7.1f GB/s\n", what, 1e3 * time,
           1e9 * time / (double)(count ? count : 1), 1e-9 * bytes / time);
}

static void bench(const struct ss_kernels *kernels, struct data *data, double density)
{
    fill(data, density, 88172645463325252u);
    scan(kernels, data);
    size_t first_nnz = data->nnz;
    memcpy(data->idx2, data->idx, first_nnz * sizeof *data->idx);
    memcpy(data->val2, data->val, first_nnz * data->size);
    second_nnz = first_nnz;
    fill(data, density, 1234567890123u);
    double bytes = (double)(data->n * data->size);
    double time = best_of(scan, kernels, data);
    double entry = (double)(data->size + sizeof *data->idx) * (double)data->nnz;

    printf("  %s, %s, density %g, %zu elements, %zu entries\n", kernels->name,
           ss_type_name(data->type), density, data->n, data->nnz);
    print("read only", best_of(read_all, kernels, data), data->n, bytes);
    print("scan", time, data->n, bytes);
    print("scatter", best_of(scatter, kernels, data), data->nnz, entry);
    print("accumulate", best_of(accumulate, kernels, data), data->nnz, entry);
    print("reduce", best_of(reduce, kernels, data), data->n, 2 * bytes);
    print("merge", best_of(merge, kernels, data), data->nnz + second_nnz, 2 * entry);
    print("encode", best_of(encode, kernels, data), data->nnz, entry);
    print("decode", best_of(decode, kernels, data), data->nnz, entry);
}

int main(int argc, char **argv)
{
    size_t n = argc > 1 ? strtoull(argv[1], NULL, 0) : (size_t)1 << 22;
    size_t repetitions = argc > 2 ? strtoull(argv[2], NULL, 0) : 10;
    double only = argc > 3 ? strtod(argv[3], NULL) : -1;
    if (n < 64 || n > SS_WINDOW || repetitions < 1) {
        fprintf(stderr, "bench_kernels [elements, 64..2^30] [repetitions, 1 or more] [density]\n");
        return 2;
    }
    const double densities[] = {0.0001, 0.0078125, 0.06, 0.3, 0.95, 1};
    for (int t = 0; t < 2; t++) {
        struct data data = {.type = t ? SS_F64 : SS_F32, .n = n, .repetitions = repetitions};
        data.size = ss_type_size(data.type);
        data.dense = measure_allocate(n * data.size);
        data.val = measure_allocate(n * data.size);
        data.val2 = measure_allocate(n * data.size);
        data.other = measure_allocate(n * data.size);
        data.out = measure_allocate(2 * n * data.size);
        data.idx = measure_allocate(n * sizeof *data.idx);
        data.idx2 = measure_allocate(n * sizeof *data.idx);
        data.idx3 = measure_allocate(2 * n * sizeof *data.idx);
        data.messages = measure_allocate((n / SS_CHUNK_ENTRIES + 1) * stride(&data));
        for (size_t k = 0; ss_kernels_at(k); k++)
            for (size_t d = 0; d < sizeof densities / sizeof densities[0]; d++)
                if (only < 0 || d == 0)
                    bench(ss_kernels_at(k), &data, only < 0 ? densities[d] : only);
        void *all[] = {data.dense, data.val,  data.val2, data.other,   data.out,
                       data.idx,   data.idx2, data.idx3, data.messages};
        for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
            free(all[i]);
    }
    return 0;
}
