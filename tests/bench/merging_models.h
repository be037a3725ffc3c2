/* The networks of the OMGS-SGD paper (Table IV) as their papers define them, layer by layer: sizes
 * of their tensors in the order of the forward pass and multiplications of each layer. Shapes are
 * computed; convolutions know the size of what they are applied to. */
#ifndef TESTS_BENCH_MERGING_MODELS_H
#define TESTS_BENCH_MERGING_MODELS_H

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

enum { MOST_TENSORS = 512 };

/* What flows between layers: channels of a picture, or a vector (side 1). */
struct flow {
    int channels, side;
};

struct model {
    const char *name;
    int tensors;
    double elements[MOST_TENSORS];
    double work[MOST_TENSORS]; /* multiplications of the layer, with the last of its tensors: in the
                                  backward pass all have their gradients when it is done */
    struct flow at;
};

static void add_tensor(struct model *m, double elements, double work)
{
    if (m->tensors == MOST_TENSORS) {
        fprintf(stderr, "bench_merging_plan: more than %d tensors\n", MOST_TENSORS);
        exit(1);
    }
    m->elements[m->tensors] = elements;
    m->work[m->tensors++] = work;
}

/* ---- layers ---- */

enum padding { VALID, SAME };

/* Side after a window of `size`. */
static int side_after(int side, int size, int stride, enum padding padding)
{
    return padding == SAME ? (side + stride - 1) / stride : (side - size) / stride + 1;
}

static void pool(struct model *m, int size, int stride, enum padding padding)
{
    m->at.side = side_after(m->at.side, size, stride, padding);
}

/* A scale and a shift per channel. */
static void batch_norm(struct model *m)
{
    double values = (double)m->at.channels * m->at.side * m->at.side;

    add_tensor(m, m->at.channels, 0);
    add_tensor(m, m->at.channels, 2 * values);
}

static void weights(struct model *m, double elements, double work, double biases)
{
    if (biases > 0) {
        add_tensor(m, elements, 0);
        add_tensor(m, biases, work);
    } else {
        add_tensor(m, elements, work);
    }
}

static void linear(struct model *m, int out)
{
    double elements = (double)m->at.channels * m->at.side * m->at.side * out;

    weights(m, elements, elements, out);
    m->at = (struct flow){out, 1};
}

struct conv {
    int out, height, width, stride;
    enum padding padding;
    int biases; /* 1: it has them beside those of the normalisation */
};

static void conv(struct model *m, struct conv c)
{
    double elements = (double)m->at.channels * c.out * c.height * c.width;
    int longer = c.height > c.width ? c.height : c.width;

    m->at.side = side_after(m->at.side, longer, c.stride, c.padding);
    m->at.channels = c.out;
    weights(m, elements, elements * m->at.side * m->at.side, c.biases ? c.out : 0);
    batch_norm(m);
}

static void same(struct model *m, int out, int height, int width)
{
    conv(m, (struct conv){out, height, width, 1, SAME, 0});
}

/* ---- VGG-16 on Cifar-10 (Simonyan and Zisserman 2014, with normalisation; one linear layer, as is
 * usual for pictures of 32 x 32) ---- */

static void vgg16(struct model *m)
{
    static const int channels[] = {64, 128, 256, 512, 512}, layers[] = {2, 2, 3, 3, 3};

    m->at = (struct flow){3, 32};
    for (int block = 0; block < 5; block++) {
        for (int i = 0; i < layers[block]; i++)
            conv(m, (struct conv){channels[block], 3, 3, 1, SAME, 1});
        pool(m, 2, 2, VALID);
    }
    linear(m, 10);
}

/* ---- ResNet-50 (He et al. 2016, Table 1) ---- */

static void bottleneck(struct model *m, int width, int stride, bool project)
{
    struct flow in = m->at;

    same(m, width, 1, 1);
    conv(m, (struct conv){width, 3, 3, stride, SAME, 0});
    same(m, 4 * width, 1, 1);
    if (project) {
        m->at = in;
        conv(m, (struct conv){4 * width, 1, 1, stride, SAME, 0});
    }
}

static void resnet50(struct model *m)
{
    static const int blocks[] = {3, 4, 6, 3};

    m->at = (struct flow){3, 224};
    conv(m, (struct conv){64, 7, 7, 2, SAME, 0});
    pool(m, 3, 2, SAME);
    for (int stage = 0; stage < 4; stage++)
        for (int block = 0; block < blocks[stage]; block++)
            bottleneck(m, 64 << stage, stage > 0 && block == 0 ? 2 : 1, block == 0);
    m->at.side = 1;
    linear(m, 1000);
}

/* ---- Inception-v4 (Szegedy et al. 2017, figures 3 to 9) ---- */

static void inception_stem(struct model *m)
{
    conv(m, (struct conv){32, 3, 3, 2, VALID, 0});
    conv(m, (struct conv){32, 3, 3, 1, VALID, 0});
    same(m, 64, 3, 3);
    conv(m, (struct conv){96, 3, 3, 2, VALID, 0});
    struct flow in = {64 + 96, m->at.side};
    m->at = in;
    same(m, 64, 1, 1);
    conv(m, (struct conv){96, 3, 3, 1, VALID, 0});
    m->at = in;
    same(m, 64, 1, 1);
    same(m, 64, 7, 1);
    same(m, 64, 1, 7);
    conv(m, (struct conv){96, 3, 3, 1, VALID, 0});
    m->at.channels = 96 + 96;
    conv(m, (struct conv){192, 3, 3, 2, VALID, 0});
    m->at.channels = 192 + 192;
}

static void inception_a(struct model *m)
{
    struct flow in = m->at;

    same(m, 96, 1, 1);
    m->at = in;
    same(m, 64, 1, 1);
    same(m, 96, 3, 3);
    m->at = in;
    same(m, 64, 1, 1);
    same(m, 96, 3, 3);
    same(m, 96, 3, 3);
    m->at = in;
    same(m, 96, 1, 1);
    m->at.channels = 4 * 96;
}

static void reduction_a(struct model *m)
{
    struct flow in = m->at;

    conv(m, (struct conv){384, 3, 3, 2, VALID, 0});
    m->at = in;
    same(m, 192, 1, 1);
    same(m, 224, 3, 3);
    conv(m, (struct conv){256, 3, 3, 2, VALID, 0});
    m->at.channels = 384 + 256 + in.channels;
}

static void inception_b(struct model *m)
{
    struct flow in = m->at;

    same(m, 384, 1, 1);
    m->at = in;
    same(m, 192, 1, 1);
    same(m, 224, 1, 7);
    same(m, 256, 7, 1);
    m->at = in;
    same(m, 192, 1, 1);
    same(m, 192, 1, 7);
    same(m, 224, 7, 1);
    same(m, 224, 1, 7);
    same(m, 256, 7, 1);
    m->at = in;
    same(m, 128, 1, 1);
    m->at.channels = 384 + 256 + 256 + 128;
}

static void reduction_b(struct model *m)
{
    struct flow in = m->at;

    same(m, 192, 1, 1);
    conv(m, (struct conv){192, 3, 3, 2, VALID, 0});
    m->at = in;
    same(m, 256, 1, 1);
    same(m, 256, 1, 7);
    same(m, 320, 7, 1);
    conv(m, (struct conv){320, 3, 3, 2, VALID, 0});
    m->at.channels = 192 + 320 + in.channels;
}

/* Two layers on the same input, side by side. */
static void pair(struct model *m)
{
    struct flow in = m->at;

    same(m, 256, 1, 3);
    m->at = in;
    same(m, 256, 3, 1);
}

static void inception_c(struct model *m)
{
    struct flow in = m->at;

    same(m, 256, 1, 1);
    m->at = in;
    same(m, 384, 1, 1);
    pair(m);
    m->at = in;
    same(m, 384, 1, 1);
    same(m, 448, 1, 3);
    same(m, 512, 3, 1);
    pair(m);
    m->at = in;
    same(m, 256, 1, 1);
    m->at.channels = 6 * 256;
}

static void inception_v4(struct model *m)
{
    m->at = (struct flow){3, 299};
    inception_stem(m);
    for (int i = 0; i < 4; i++)
        inception_a(m);
    reduction_a(m);
    for (int i = 0; i < 7; i++)
        inception_b(m);
    reduction_b(m);
    for (int i = 0; i < 3; i++)
        inception_c(m);
    m->at.side = 1;
    linear(m, 1000);
}

/* ---- LSTM-PTB: 2 layers of 1,500 units on 10,000 words, 35 steps (Zaremba et al. 2014, the large
 * network; the OMGS-SGD paper says 2 layers) ---- */

static void lstm_ptb(struct model *m)
{
    enum { WORDS = 10000, UNITS = 1500, STEPS_BACK = 35 };
    const double gates = 4.0 * UNITS;

    add_tensor(m, (double)WORDS * UNITS, (double)UNITS * STEPS_BACK);
    for (int layer = 0; layer < 2; layer++) {
        add_tensor(m, gates * UNITS, 0);
        add_tensor(m, gates * UNITS, 0);
        add_tensor(m, gates, 0);
        add_tensor(m, gates, 2 * gates * UNITS * STEPS_BACK);
    }
    add_tensor(m, (double)WORDS * UNITS, 0);
    add_tensor(m, WORDS, (double)WORDS * UNITS * STEPS_BACK);
}

#endif
