/* mapmaking: makes a map of the sky from the readings of a scanning telescope, in the manner of
 * litebird_sim and TOAST.
 *
 * A reading is the sky at one pixel, plus a drift of the instrument, plus noise. The drift is
 * constant over a baseline of readings. Conjugate gradients find the drifts: in each iteration a
 * rank adds its readings to a map of the whole sky, and the ranks sum their maps in place, in
 * pieces. Each rank scans a field of its own, and pixels of a submap are neighbours in memory. So a
 * rank's map is zero in most submaps.
 */
#include <math.h>

#include "tests/apps/app.h"

enum { SUBMAP = 32 }; /* pixels along a side of a submap */

struct options {
    long rows, readings, baseline, iterations, piece, seed;
    double noise, drift;
};

struct survey {
    const struct options *o;
    size_t pixels, readings, baselines;
    uint32_t *pixel; /* of each reading */
    double *reading, *rest;
    double *map, *hits; /* of the whole sky */
    double allreduce;   /* seconds */
};

static void *room(size_t members, size_t size)
{
    void *memory = calloc(members, size);

    if (!memory)
        fail("no memory for %zu members", members);
    return memory;
}

/* A number of mean 0 and variance 1. */
static double random_number(uint64_t *state)
{
    double sum = 0;

    for (int i = 0; i < 12; i++) {
        *state = *state * 6364136223846793005u + 1442695040888963407u;
        sum += (double)(*state >> 11) * 0x1p-53;
    }
    return sum - 6;
}

/* The index of a pixel: submap by submap, rows within each. */
static uint32_t pixel_at(long rows, long row, long column)
{
    long across = 2 * rows / SUBMAP, submap = row / SUBMAP * across + column / SUBMAP;

    return (uint32_t)(submap * SUBMAP * SUBMAP + row % SUBMAP * SUBMAP + column % SUBMAP);
}

static double sky_at(long rows, long row, long column)
{
    double latitude = (double)row / (double)rows, longitude = (double)column / (double)rows;

    return sin(25 * latitude) * cos(31 * longitude) + 0.3 * sin(190 * latitude + 140 * longitude);
}

/* Points the telescope. It sweeps up and down on a slant while the sky drifts by; in the second
 * half the slant is the other one, so that sweeps cross. */
static void point(const struct survey *s, size_t i, long *row, long *column)
{
    const long rows = s->o->rows, height = rows / 3, width = 2 * rows / ranks;
    double half = (double)s->readings / 2, drift = fmod((double)i, half) / half;
    long sweep = (long)i % (2 * height), up = sweep < height ? sweep : 2 * height - 1 - sweep;
    long slanted = (double)i < half ? up / 2 : (height - up) / 2;
    long start = 2 * rows * my_rank / ranks;

    *row = rows / 3 + up;
    *column = (start + slanted + (long)(drift * (double)width)) % (2 * rows);
}

static void observe(struct survey *s)
{
    uint64_t state = (uint64_t)(s->o->seed * 1000003 + my_rank);
    double drift = 0;
    long row, column;

    for (size_t i = 0; i < s->readings; i++) {
        if (i % (size_t)s->o->baseline == 0)
            drift += s->o->drift * random_number(&state);
        point(s, i, &row, &column);
        s->pixel[i] = pixel_at(s->o->rows, row, column);
        s->reading[i] =
            sky_at(s->o->rows, row, column) + drift + s->o->noise * random_number(&state);
    }
}

/* Sums a map over the ranks, in place, in pieces. */
static void sum_map(struct survey *s, double *map)
{
    double before = MPI_Wtime();
    size_t piece = (size_t)s->o->piece;

    for (size_t at = 0; at < s->pixels; at += piece) {
        size_t count = s->pixels - at < piece ? s->pixels - at : piece;

        MPI_Allreduce(MPI_IN_PLACE, map + at, (int)count, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    }
    s->allreduce += MPI_Wtime() - before;
}

/* The map of the readings: their mean in each pixel that anyone has seen. */
static void bin(struct survey *s, const double *reading)
{
    memset(s->map, 0, s->pixels * sizeof *s->map);
    for (size_t i = 0; i < s->readings; i++)
        s->map[s->pixel[i]] += reading[i];
    sum_map(s, s->map);
    for (size_t p = 0; p < s->pixels; p++)
        if (s->hits[p] > 0)
            s->map[p] /= s->hits[p];
}

/* What the map does not explain of the readings, summed over each baseline. */
static void unexplained(struct survey *s, const double *reading, double *sum)
{
    bin(s, reading);
    memset(sum, 0, s->baselines * sizeof *sum);
    for (size_t i = 0; i < s->readings; i++)
        sum[i / (size_t)s->o->baseline] += reading[i] - s->map[s->pixel[i]];
}

static double product(const struct survey *s, const double *a, const double *b)
{
    double mine = 0, all;

    for (size_t i = 0; i < s->baselines; i++)
        mine += a[i] * b[i];
    MPI_Allreduce(&mine, &all, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    return all;
}

static void spread(const struct survey *s, const double *drift, double *reading)
{
    for (size_t i = 0; i < s->readings; i++)
        reading[i] = drift[i / (size_t)s->o->baseline];
}

/* Finds the drifts. Returns the norm of what is left over that of the beginning. */
static double destripe(struct survey *s, double *drift)
{
    double *left = room(s->baselines, sizeof *left), *way = room(s->baselines, sizeof *way);
    double *image = room(s->baselines, sizeof *image), squares, first, before;

    unexplained(s, s->reading, left);
    memcpy(way, left, s->baselines * sizeof *way);
    first = squares = product(s, left, left);
    for (long k = 0; k < s->o->iterations && squares > 0; k++) {
        double step;

        spread(s, way, s->rest);
        unexplained(s, s->rest, image);
        step = squares / product(s, way, image);
        for (size_t i = 0; i < s->baselines; i++) {
            drift[i] += step * way[i];
            left[i] -= step * image[i];
        }
        before = squares;
        squares = product(s, left, left);
        for (size_t i = 0; i < s->baselines; i++)
            way[i] = left[i] + squares / before * way[i];
    }
    free(left);
    free(way);
    free(image);
    return sqrt(squares / first);
}

/* Root mean square of map minus sky over the pixels that were seen, without the mean, which no map
 * maker can know. */
static double map_error(const struct survey *s, size_t *seen)
{
    double sum = 0, squares = 0;

    *seen = 0;
    for (long row = 0; row < s->o->rows; row++)
        for (long column = 0; column < 2 * s->o->rows; column++) {
            uint32_t p = pixel_at(s->o->rows, row, column);
            double off = s->map[p] - sky_at(s->o->rows, row, column);

            if (s->hits[p] > 0) {
                sum += off;
                squares += off * off;
                *seen += 1;
            }
        }
    sum /= (double)*seen;
    return sqrt(squares / (double)*seen - sum * sum);
}

static void make_map(struct survey *s)
{
    double *drift = room(s->baselines, sizeof *drift), start = MPI_Wtime(), left, striped;
    size_t seen, mine = 0;

    for (size_t i = 0; i < s->readings; i++)
        s->hits[s->pixel[i]] += 1;
    for (size_t p = 0; p < s->pixels; p++)
        mine += s->hits[p] > 0;
    sum_map(s, s->hits);
    bin(s, s->reading);
    striped = map_error(s, &seen);
    left = destripe(s, drift);
    spread(s, drift, s->rest);
    for (size_t i = 0; i < s->readings; i++)
        s->rest[i] = s->reading[i] - s->rest[i];
    bin(s, s->rest);
    double total = MPI_Wtime() - start, error = map_error(s, &seen);
    bool same = replicas_agree((const float *)s->map, 2 * s->pixels);
    if (my_rank == 0)
        printf("result: error=%.6f striped=%.6f left=%.3g pixels=%zu seen=%zu by_rank_0=%zu "
               "allreduce_s=%.3f total_s=%.3f replicas=%s\n",
               error, striped, left, s->pixels, seen, mine, s->allreduce, total,
               same ? "identical" : "different");
    free(drift);
}

/* Returns false if only the help was wanted. */
static bool parse(int argc, char **argv, struct options *o)
{
    const struct app_option table[] = {
        MULTIPLE("rows", "N", &o->rows, SUBMAP, 16384, SUBMAP, "the sky has N x 2 N pixels"),
        WHOLE("readings", "N", &o->readings, 1, 1000000000, "of each rank"),
        WHOLE("baseline", "N", &o->baseline, 1, 1000000000, "readings of the same drift"),
        WHOLE("iterations", "N", &o->iterations, 0, 1000000, "of conjugate gradients"),
        WHOLE("piece", "N", &o->piece, 1, 1000000000, "pixels of one sum"),
        WHOLE("seed", "N", &o->seed, 0, 1000000000, "of noise and drifts"),
        NUMBER("noise", "X", &o->noise, 0, 1e9, "of a reading"),
        NUMBER("drift", "X", &o->drift, 0, 1e9, "change from baseline to baseline"),
    };

    return read_options(argc, argv, table, sizeof table / sizeof *table);
}

int main(int argc, char **argv)
{
    struct options o = {.rows = 1024,
                        .readings = 400000,
                        .baseline = 1000,
                        .iterations = 20,
                        .piece = 1250000,
                        .seed = 1,
                        .noise = 0.1,
                        .drift = 0.3};
    struct survey s = {.o = &o};

    app_begin(&argc, &argv);
    if (parse(argc, argv, &o)) {
        s.pixels = (size_t)(2 * o.rows * o.rows);
        s.readings = (size_t)o.readings;
        s.baselines = (s.readings + (size_t)o.baseline - 1) / (size_t)o.baseline;
        s.pixel = room(s.readings, sizeof *s.pixel);
        s.reading = room(s.readings, sizeof *s.reading);
        s.rest = room(s.readings, sizeof *s.rest);
        s.map = room(s.pixels, sizeof *s.map);
        s.hits = room(s.pixels, sizeof *s.hits);
        observe(&s);
        make_map(&s);
        free(s.pixel);
        free(s.reading);
        free(s.rest);
        free(s.map);
        free(s.hits);
    }
    MPI_Finalize();
    return 0;
}
