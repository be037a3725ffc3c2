/* The network of fmnist: 784 inputs, one hidden layer with ReLU, 10 outputs, softmax cross entropy;
 * its forward and backward pass over a batch, and SGD with momentum. All weights lie in one buffer,
 * all gradients in another of the same layout. */
#ifndef TESTS_APPS_FMNIST_NET_H
#define TESTS_APPS_FMNIST_NET_H

#include <float.h>

#include "tests/apps/fmnist_data.h"

#if defined(__x86_64__)
#define FOR_EACH_CPU __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define FOR_EACH_CPU
#endif

enum {
    LANES = 16, /* floats of a vector, and columns of a panel */
    ROWS = 6,   /* of a tile, whose sums stay in registers: 6 of AVX-512 or 12 of AVX2 */
};

typedef float vector __attribute__((vector_size(LANES * sizeof(float)), aligned(4), may_alias));

/* The matrix M with M(i, j) = at[i * row + j * column]. */
struct matrix {
    const float *at;
    size_t row, column;
};

enum { W1, B1, W2, B2, TENSORS };

struct layout {
    size_t begin[TENSORS], count[TENSORS], weights; /* floats */
};

struct net {
    size_t hidden, room; /* room: images that the buffers below have place for */
    struct layout layout;
    float *weight, *velocity, *gradient;
    float *sum; /* of the gradient over the ranks; the gradient's own buffer with --in-place */
    float *input, *active, *back, *output, *panel;
    uint8_t *label;
};

/* c(m x LANES, or its first `columns` columns, rows `stride` apart) = a(m x k) panel(k x LANES).
 * Products are rounded before they are added, so that all kinds of processors agree in every bit.
 */
FOR_EACH_CPU static void multiply_panel(size_t m, size_t k, struct matrix a, const float *panel,
                                        float *c, size_t stride, size_t columns)
{
    for (size_t i = 0; i < m; i += ROWS) {
        size_t rows = m - i < ROWS ? m - i : ROWS;
        const float *at = a.at + i * a.row;
        const float *a0 = at, *a1 = at + (rows > 1 ? 1 : 0) * a.row;
        const float *a2 = at + (rows > 2 ? 2 : 0) * a.row, *a3 = at + (rows > 3 ? 3 : 0) * a.row;
        const float *a4 = at + (rows > 4 ? 4 : 0) * a.row, *a5 = at + (rows > 5 ? 5 : 0) * a.row;
        vector s0 = {0}, s1 = {0}, s2 = {0}, s3 = {0}, s4 = {0}, s5 = {0};

        for (size_t p = 0; p < k; p++) {
            vector b = *(const vector *)(panel + p * LANES);
            size_t q = p * a.column;

            s0 += a0[q] * b;
            s1 += a1[q] * b;
            s2 += a2[q] * b;
            s3 += a3[q] * b;
            s4 += a4[q] * b;
            s5 += a5[q] * b;
        }
        vector tile[ROWS] = {s0, s1, s2, s3, s4, s5};
        for (size_t r = 0; r < rows; r++)
            memcpy(c + (i + r) * stride, &tile[r], columns * sizeof *c);
    }
}

/* c(m x n, row after row) = a(m x k) b(k x n). panel has room for k * LANES floats: the columns of
 * b are brought together there, since a column of b strides over cache lines of one set. */
static void multiply(size_t m, size_t n, size_t k, struct matrix a, struct matrix b, float *c,
                     float *panel)
{
    for (size_t j = 0; j < n; j += LANES) {
        size_t columns = n - j < LANES ? n - j : LANES;

        if (columns < LANES)
            memset(panel, 0, k * LANES * sizeof *panel);
        for (size_t p = 0; p < k; p++) {
            const float *from = b.at + p * b.row + j * b.column;

            if (columns == LANES && b.column == 1)
                memcpy(panel + p * LANES, from, LANES * sizeof *panel);
            else
                for (size_t column = 0; column < columns; column++)
                    panel[p * LANES + column] = from[column * b.column];
        }
        multiply_panel(m, k, a, panel, c + j, n, columns);
    }
}

static float *weight_of(const struct net *net, int tensor)
{
    return net->weight + net->layout.begin[tensor];
}

static float *gradient_of(const struct net *net, int tensor)
{
    return net->gradient + net->layout.begin[tensor];
}

static void fill_uniform(float *to, size_t count, double bound, uint64_t *state)
{
    for (size_t i = 0; i < count; i++)
        to[i] = (float)(bound * (2 * (double)(draw(state) >> 11) / 0x1p53 - 1));
}

/* Weights start as in He et al. (arXiv:1502.01852), uniform with variance 2 / inputs; biases at 0.
 */
static void make_net(struct net *net, size_t hidden, size_t room, uint64_t seed, bool in_place)
{
    size_t count[TENSORS] = {PIXELS * hidden, hidden, hidden * CLASSES, CLASSES};
    size_t widest = hidden > PIXELS ? hidden : PIXELS, longest = room > widest ? room : widest;
    struct layout *layout = &net->layout;
    uint64_t state = mix(seed + 1);

    net->hidden = hidden;
    net->room = room;
    for (int t = 0; t < TENSORS; t++) {
        layout->begin[t] = layout->weights;
        layout->count[t] = count[t];
        layout->weights += count[t];
    }
    net->weight = zeros(layout->weights, sizeof(float));
    net->velocity = zeros(layout->weights, sizeof(float));
    net->gradient = zeros(layout->weights, sizeof(float));
    net->sum = in_place ? net->gradient : zeros(layout->weights, sizeof(float));
    net->input = zeros(room * PIXELS, sizeof(float));
    net->active = zeros(room * hidden, sizeof(float));
    net->back = zeros(room * hidden, sizeof(float));
    net->output = zeros(room * CLASSES, sizeof(float));
    net->panel = zeros(longest * LANES, sizeof(float));
    net->label = zeros(room, sizeof *net->label);
    fill_uniform(weight_of(net, W1), count[W1], sqrt(6.0 / PIXELS), &state);
    fill_uniform(weight_of(net, W2), count[W2], sqrt(6.0 / (double)hidden), &state);
}

static void free_net(struct net *net)
{
    float *own[] = {net->weight, net->velocity, net->gradient, net->input,
                    net->active, net->back,     net->output,   net->panel};

    if (net->sum != net->gradient)
        free(net->sum);
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        free(own[i]);
    free(net->label);
}

/* From the first `images` rows of input to the scores in output, which lack nothing but softmax. */
static void forward(struct net *net, size_t images)
{
    size_t hidden = net->hidden;
    const float *b1 = weight_of(net, B1), *b2 = weight_of(net, B2);

    multiply(images, hidden, PIXELS, (struct matrix){net->input, PIXELS, 1},
             (struct matrix){weight_of(net, W1), hidden, 1}, net->active, net->panel);
    for (size_t i = 0; i < images; i++)
        for (size_t h = 0; h < hidden; h++) {
            float value = net->active[i * hidden + h] + b1[h];

            net->active[i * hidden + h] = value > 0 ? value : 0;
        }
    multiply(images, CLASSES, hidden, (struct matrix){net->active, hidden, 1},
             (struct matrix){weight_of(net, W2), CLASSES, 1}, net->output, net->panel);
    for (size_t i = 0; i < images; i++)
        for (size_t c = 0; c < CLASSES; c++)
            net->output[i * CLASSES + c] += b2[c];
}

static int best_class(const float *score)
{
    int best = 0;

    for (int c = 1; c < CLASSES; c++)
        if (score[c] > score[best])
            best = c;
    return best;
}

/* Turns the scores of one image into the derivative of its loss by each score, times factor;
 * returns the loss. */
static double softmax_loss(float *score, int truth, double factor)
{
    double top = (double)score[best_class(score)], power[CLASSES], total = 0, own;

    own = (double)score[truth] - top;
    for (int c = 0; c < CLASSES; c++)
        total += power[c] = exp((double)score[c] - top);
    for (int c = 0; c < CLASSES; c++)
        score[c] = (float)((power[c] / total - (c == truth)) * factor);
    return log(total) - own;
}

static void sum_rows(const float *from, size_t rows, size_t columns, float *to)
{
    memset(to, 0, columns * sizeof *to);
    for (size_t i = 0; i < rows; i++)
        for (size_t j = 0; j < columns; j++)
            to[j] += from[i * columns + j];
}

/* From output, which holds the derivatives of the loss by the scores, to the gradient. */
static void backward(struct net *net, size_t images)
{
    size_t hidden = net->hidden;
    struct matrix output = {net->output, CLASSES, 1}, back = {net->back, hidden, 1};

    multiply(hidden, CLASSES, images, (struct matrix){net->active, 1, hidden}, output,
             gradient_of(net, W2), net->panel);
    sum_rows(net->output, images, CLASSES, gradient_of(net, B2));
    multiply(images, hidden, CLASSES, output, (struct matrix){weight_of(net, W2), 1, CLASSES},
             net->back, net->panel);
    for (size_t i = 0; i < images * hidden; i++)
        net->back[i] = net->active[i] > 0 ? net->back[i] : 0;
    multiply(PIXELS, hidden, images, (struct matrix){net->input, 1, PIXELS}, back,
             gradient_of(net, W1), net->panel);
    sum_rows(net->back, images, hidden, gradient_of(net, B1));
}

/* v = momentum v + sum; w = keep w - rate v. */
FOR_EACH_CPU static void descend(struct net *net, float rate, float momentum, float keep)
{
    float *w = net->weight, *v = net->velocity;
    const float *g = net->sum;
    size_t i = 0, count = net->layout.weights;

    for (; i + LANES <= count; i += LANES) {
        vector speed = momentum * *(vector *)(v + i) + *(const vector *)(g + i);

        *(vector *)(v + i) = speed;
        *(vector *)(w + i) = keep * *(vector *)(w + i) - rate * speed;
    }
    for (; i < count; i++) {
        v[i] = momentum * v[i] + g[i];
        w[i] = keep * w[i] - rate * v[i];
    }
}

#endif
