/* The images of fmnist: Fashion-MNIST (Xiao, Rasul and Vollgraf, arXiv:1708.07747) from gzipped IDX
 * files, and their order, which is the same on every rank and for any number of ranks. */
#ifndef TESTS_APPS_FMNIST_DATA_H
#define TESTS_APPS_FMNIST_DATA_H

#include <math.h>
#include <sys/wait.h>

#include "tests/apps/app.h"

enum {
    SIDE = 28,
    PIXELS = SIDE * SIDE,
    CLASSES = 10,
};

struct images {
    uint8_t *pixel; /* count * PIXELS */
    uint8_t *label; /* count */
    size_t count;
};

struct dataset {
    struct images train, test;
    uint32_t *order;       /* of the training images in this epoch */
    float brightness[256]; /* of a pixel value: mean 0 and variance 1 over the training images */
};

/* Returns members times size bytes of zeros, aligned for vectors. */
static void *zeros(size_t members, size_t size)
{
    size_t bytes = (members * size + 63) / 64 * 64;
    void *memory = aligned_alloc(64, bytes > 0 ? bytes : 64);

    if (!memory)
        fail("no memory for %zu times %zu bytes", members, size);
    return memset(memory, 0, bytes);
}

static uint64_t mix(uint64_t x) /* the finalizer of splitmix64 */
{
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

static uint64_t draw(uint64_t *state)
{
    *state += 0x9e3779b97f4a7c15u;
    return mix(*state);
}

static void read_bytes(FILE *from, const char *path, void *to, size_t bytes)
{
    size_t got = fread(to, 1, bytes, from);

    if (got != bytes)
        fail("%s ends %zu bytes too early", path, bytes - got);
}

static uint32_t read_word(FILE *from, const char *path)
{
    unsigned char byte[4];

    read_bytes(from, path, byte, sizeof byte);
    return (uint32_t)byte[0] << 24 | (uint32_t)byte[1] << 16 | (uint32_t)byte[2] << 8 | byte[3];
}

/* Reads an IDX file of unsigned bytes: count items of size bytes each, size being PIXELS for
 * images and 1 for labels. Returns the bytes and sets count. */
static uint8_t *read_idx(const char *dir, const char *name, size_t size, size_t *count)
{
    char path[4096], command[4200];
    uint32_t magic;
    uint8_t *bytes;
    FILE *file, *from;
    int status;

    if (strlen(dir) > sizeof path - 64 || strchr(dir, '\''))
        fail("--data takes a folder of at most %zu characters without quotes", sizeof path - 64);
    snprintf(path, sizeof path, "%.*s/%s", (int)sizeof path - 64, dir, name);
    file = fopen(path, "r");
    if (!file)
        fail("cannot open %s: %s; it is in Debian's package dataset-fashion-mnist", path,
             strerror(errno));
    fclose(file);
    snprintf(command, sizeof command, "zcat -- '%s'", path);
    from = popen(command, "r");
    if (!from)
        fail("cannot start zcat: %s", strerror(errno));
    magic = read_word(from, path);
    if (magic != (size == 1 ? 0x801u : 0x803u))
        fail("%s is not an IDX file of %s: it begins with 0x%08x", path,
             size == 1 ? "labels" : "images", (unsigned)magic);
    *count = read_word(from, path);
    for (int side = 0; size > 1 && side < 2; side++)
        if (read_word(from, path) != SIDE)
            fail("%s has images that are not %d times %d", path, SIDE, SIDE);
    bytes = zeros(*count, size);
    read_bytes(from, path, bytes, *count * size);
    status = pclose(from);
    if (status != 0)
        fail("zcat of %s ended with status %d", path, WEXITSTATUS(status));
    return bytes;
}

static void read_images(struct images *images, const char *dir, const char *kind)
{
    char name[64];
    size_t labels;

    snprintf(name, sizeof name, "%s-images-idx3-ubyte.gz", kind);
    images->pixel = read_idx(dir, name, PIXELS, &images->count);
    snprintf(name, sizeof name, "%s-labels-idx1-ubyte.gz", kind);
    images->label = read_idx(dir, name, 1, &labels);
    if (labels != images->count)
        fail("%s has %zu images of %s but %zu labels", dir, images->count, kind, labels);
    for (size_t i = 0; i < labels; i++)
        if (images->label[i] >= CLASSES)
            fail("%s/%s has label %d; labels are 0 to %d", dir, name, images->label[i],
                 CLASSES - 1);
}

static void measure_brightness(struct dataset *data)
{
    double count[256] = {0}, total = 0, mean = 0, variance = 0;

    for (size_t i = 0; i < data->train.count * PIXELS; i++)
        count[data->train.pixel[i]]++;
    for (int value = 0; value < 256; value++) {
        total += count[value];
        mean += count[value] * value;
    }
    mean /= total;
    for (int value = 0; value < 256; value++)
        variance += count[value] * (value - mean) * (value - mean) / total;
    if (variance <= 0)
        fail("all training images are of one colour");
    for (int value = 0; value < 256; value++)
        data->brightness[value] = (float)((value - mean) / sqrt(variance));
}

/* Reads all images of the folder dir; most, if not 0, limits the training images taken. */
static void read_dataset(struct dataset *data, const char *dir, size_t most)
{
    read_images(&data->train, dir, "train");
    read_images(&data->test, dir, "t10k");
    if (most > 0 && most < data->train.count)
        data->train.count = most;
    if (data->train.count == 0 || data->test.count == 0)
        fail("%s has no images", dir);
    measure_brightness(data);
    data->order = zeros(data->train.count, sizeof *data->order);
}

static void shuffle_images(struct dataset *data, uint64_t seed, long epoch)
{
    uint64_t state = mix(seed) + (uint64_t)epoch;

    for (size_t i = 0; i < data->train.count; i++)
        data->order[i] = (uint32_t)i;
    for (size_t i = data->train.count; i > 1; i--) {
        size_t j = (size_t)(draw(&state) % i);
        uint32_t swapped = data->order[i - 1];

        data->order[i - 1] = data->order[j];
        data->order[j] = swapped;
    }
}

/* Writes the brightness of the pixels of image i to input. */
static void take_image(const struct dataset *data, const struct images *images, size_t i,
                       float *input)
{
    for (size_t p = 0; p < PIXELS; p++)
        input[p] = data->brightness[images->pixel[i * PIXELS + p]];
}

static void free_dataset(struct dataset *data)
{
    free(data->train.pixel);
    free(data->train.label);
    free(data->test.pixel);
    free(data->test.label);
    free(data->order);
}

#endif
