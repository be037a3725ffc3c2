/* The model of charlm: embedding, one LSTM layer (Hochreiter and Schmidhuber 1997, with the forget
 * gate of Gers et al. 2000), softmax over the next character, and its gradient through a window.
 *
 * One rank works on B streams at a time, over windows of T characters; E, H, V are the sizes of
 * embedding, hidden state and alphabet. Gates stand side by side: input, forget, output, candidate.
 */
#ifndef TESTS_APPS_CHARLM_MODEL_H
#define TESTS_APPS_CHARLM_MODEL_H

#include <math.h>

#include "tests/apps/charlm_math.h"
#include "tests/apps/langid_corpus.h"

/* In the order in which they lie side by side; their gradients are complete in the opposite. */
enum tensor { EMBEDDING, W_INPUT, BIAS, W_HIDDEN, W_OUT, OUT_BIAS, TENSORS };

struct shape {
    size_t embedding, hidden, symbols;
    size_t streams, window; /* of this rank; characters */
};

struct model {
    struct shape shape;
    size_t begin[TENSORS + 1]; /* of each tensor, among the weights */
    float *weight;             /* of begin[TENSORS] */

    /* What the products want of the weights, made anew when they change. */
    struct packed hidden, hidden_back, input, input_back, out, out_back;

    /* The window: activations by time, then stream. Gates become their own gradients. */
    float *table;            /* V x 4H: what a character adds to the gates */
    float *gates;            /* T x B x 4H */
    float *cell, *state;     /* T + 1 x B x H: the first is what the last window left */
    float *squashed;         /* T x B x H: tanh of the cell */
    float *predicted;        /* T x B x V rounded up: probabilities, then their gradient */
    float *d_state;          /* T x B x H: from the softmax */
    float *d_later, *d_cell; /* B x H: from the step after */
    float *by_symbol;        /* V x 4H: gates' gradients added up by character */
    float *turned;           /* a transpose */
    struct packed gate_gradient, predicted_gradient, symbol_gradient;
};

/* Told of each tensor whose gradient is complete. */
typedef void complete_fn(void *context, enum tensor tensor);

static size_t tensor_size(const struct shape *s, enum tensor tensor)
{
    switch (tensor) {
    case EMBEDDING:
        return s->symbols * s->embedding;
    case W_INPUT:
        return s->embedding * 4 * s->hidden;
    case BIAS:
        return 4 * s->hidden;
    case W_HIDDEN:
        return s->hidden * 4 * s->hidden;
    case W_OUT:
        return s->hidden * s->symbols;
    case OUT_BIAS:
        return s->symbols;
    default:
        return 0;
    }
}

static void init_weights(struct model *m, uint64_t seed)
{
    const struct shape *s = &m->shape;
    const double width[TENSORS] = {[EMBEDDING] = 0.5,
                                   [W_INPUT] = 1 / sqrt((double)s->embedding),
                                   [W_HIDDEN] = 1 / sqrt((double)s->hidden),
                                   [W_OUT] = 1 / sqrt((double)s->hidden)};
    uint64_t state = mix(seed + 1);

    for (enum tensor t = 0; t < TENSORS; t++)
        for (size_t i = m->begin[t]; i < m->begin[t + 1]; i++) {
            double uniform = (double)(draw(&state) >> 11) * 0x1p-52 - 1;

            m->weight[i] = (float)(uniform * width[t]);
        }
    for (size_t j = 0; j < s->hidden; j++)
        m->weight[m->begin[BIAS] + s->hidden + j] = 1; /* forget nothing at first */
}

static void make_model(struct model *m, const struct shape *shape, uint64_t seed)
{
    size_t e = shape->embedding, h = shape->hidden, v = shape->symbols;
    size_t rows = shape->streams * shape->window, turned = rows * h;

    m->shape = *shape;
    for (enum tensor t = 0; t < TENSORS; t++)
        m->begin[t + 1] = m->begin[t] + tensor_size(shape, t);
    m->weight = floats(m->begin[TENSORS]);
    init_weights(m, seed);
    m->hidden = packed(h, 4 * h);
    m->hidden_back = packed(4 * h, h);
    m->input = packed(e, 4 * h);
    m->input_back = packed(4 * h, e);
    m->out = packed(h, v);
    m->out_back = packed(round_up(v), h);
    m->table = floats(v * 4 * h);
    m->gates = floats(rows * 4 * h);
    m->cell = floats((rows + shape->streams) * h);
    m->state = floats((rows + shape->streams) * h);
    m->squashed = floats(rows * h);
    m->predicted = floats(rows * round_up(v));
    m->d_state = floats(rows * h);
    m->d_later = floats(shape->streams * h);
    m->d_cell = floats(shape->streams * h);
    m->by_symbol = floats(v * 4 * h);
    m->turned = floats(turned > v * e ? turned : v * e);
    m->gate_gradient = packed(rows, 4 * h);
    m->predicted_gradient = packed(rows, v);
    m->symbol_gradient = packed(v, 4 * h);
}

static void free_model(struct model *m)
{
    float *all[] = {m->weight,
                    m->table,
                    m->gates,
                    m->cell,
                    m->state,
                    m->squashed,
                    m->predicted,
                    m->d_state,
                    m->d_later,
                    m->d_cell,
                    m->by_symbol,
                    m->turned,
                    m->hidden.data,
                    m->hidden_back.data,
                    m->input.data,
                    m->input_back.data,
                    m->out.data,
                    m->out_back.data,
                    m->gate_gradient.data,
                    m->predicted_gradient.data,
                    m->symbol_gradient.data};

    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
}

/* To be called whenever the weights have changed. */
static void weights_changed(struct model *m)
{
    const struct shape *s = &m->shape;
    const float *w = m->weight;
    size_t gates = 4 * s->hidden;

    pack(&m->hidden, w + m->begin[W_HIDDEN], gates);
    pack_transposed(&m->hidden_back, w + m->begin[W_HIDDEN], gates);
    pack(&m->input, w + m->begin[W_INPUT], gates);
    pack_transposed(&m->input_back, w + m->begin[W_INPUT], gates);
    pack(&m->out, w + m->begin[W_OUT], s->symbols);
    pack_transposed(&m->out_back, w + m->begin[W_OUT], s->symbols);
    for (size_t v = 0; v < s->symbols; v++)
        memcpy(m->table + v * gates, w + m->begin[BIAS], gates * sizeof *w);
    multiply(m->table, gates, w + m->begin[EMBEDDING], s->symbols, &m->input, true);
}

/* Streams begin anew: the state before the next window is zero. */
static void forget_state(struct model *m)
{
    size_t bytes = m->shape.streams * m->shape.hidden * sizeof *m->state;

    memset(m->state, 0, bytes);
    memset(m->cell, 0, bytes);
}

/* The next window follows on the last one. */
static void carry_state(struct model *m)
{
    size_t members = m->shape.streams * m->shape.hidden;

    memcpy(m->state, m->state + m->shape.window * members, members * sizeof *m->state);
    memcpy(m->cell, m->cell + m->shape.window * members, members * sizeof *m->cell);
}

/* One stream, one step: sums of the gates become their activations. */
FOR_THIS_CPU static void cell_forward(size_t hidden, float *gates, const float *cell_before,
                                      float *cell, float *squashed, float *state)
{
    for (size_t j = 0; j < hidden; j += LANES) {
        lanes in, forget, out, candidate, c;

        load(&in, gates + j);
        load(&forget, gates + hidden + j);
        load(&out, gates + 2 * hidden + j);
        load(&candidate, gates + 3 * hidden + j);
        load(&c, cell_before + j);
        sigmoid(&in);
        sigmoid(&forget);
        sigmoid(&out);
        hyperbolic_tangent(&candidate);
        store(gates + j, &in);
        store(gates + hidden + j, &forget);
        store(gates + 2 * hidden + j, &out);
        store(gates + 3 * hidden + j, &candidate);
        c = forget * c + in * candidate;
        store(cell + j, &c);
        hyperbolic_tangent(&c);
        store(squashed + j, &c);
        c = out * c;
        store(state + j, &c);
    }
}

/* One stream, one step: activations of the gates become the gradient by their sums. d_state is
 * complete; d_cell holds what comes from the step after, and is left with what goes to the one
 * before. */
FOR_THIS_CPU static void cell_backward(size_t hidden, float *gates, const float *cell_before,
                                       const float *squashed, const float *d_state, float *d_cell)
{
    for (size_t j = 0; j < hidden; j += LANES) {
        lanes in, forget, out, candidate, before, tanh_cell, d, later;

        load(&in, gates + j);
        load(&forget, gates + hidden + j);
        load(&out, gates + 2 * hidden + j);
        load(&candidate, gates + 3 * hidden + j);
        load(&before, cell_before + j);
        load(&tanh_cell, squashed + j);
        load(&d, d_state + j);
        load(&later, d_cell + j);
        later += d * out * (1 - tanh_cell * tanh_cell);
        out = d * tanh_cell * out * (1 - out);
        store(gates + 2 * hidden + j, &out);
        d = later * candidate * in * (1 - in);
        store(gates + j, &d);
        d = later * in * (1 - candidate * candidate);
        store(gates + 3 * hidden + j, &d);
        d = later * before * forget * (1 - forget);
        store(gates + hidden + j, &d);
        later = later * forget;
        store(d_cell + j, &later);
    }
}

/* Scores of one position become probabilities; returns the loss in nats. */
FOR_THIS_CPU static float softmax(float *score, size_t symbols, size_t truth)
{
    float top = score[0], of_truth, total = 0;

    for (size_t v = 1; v < symbols; v++)
        top = score[v] > top ? score[v] : top;
    of_truth = score[truth] - top;
    for (size_t v = 0; v < symbols; v += LANES) {
        lanes x;

        load(&x, score + v);
        x = x - top;
        exponential(&x);
        store(score + v, &x);
    }
    for (size_t v = 0; v < symbols; v++)
        total += score[v];
    for (size_t v = 0; v < symbols; v++)
        score[v] /= total;
    for (size_t v = symbols; v < round_up(symbols); v++)
        score[v] = 0;
    return logf(total) - of_truth;
}

/* Runs the window: text[t * B + b] is the character of stream b at time t, t = 0..T, of which each
 * is to be told from those before it. Returns the loss in nats, summed over T x B predictions. */
static double forward(struct model *m, const uint8_t *text)
{
    const struct shape *s = &m->shape;
    size_t h = s->hidden, streams = s->streams, stride = round_up(s->symbols);
    size_t rows = streams * s->window;
    double loss = 0;

    for (size_t row = 0; row < rows; row += streams) {
        float *gates = m->gates + row * 4 * h;

        for (size_t b = 0; b < streams; b++)
            memcpy(gates + b * 4 * h, m->table + text[row + b] * 4 * h, 4 * h * sizeof *gates);
        multiply(gates, 4 * h, m->state + row * h, streams, &m->hidden, true);
        for (size_t b = row; b < row + streams; b++)
            cell_forward(h, m->gates + b * 4 * h, m->cell + b * h, m->cell + (b + streams) * h,
                         m->squashed + b * h, m->state + (b + streams) * h);
    }
    for (size_t row = 0; row < rows; row++)
        memcpy(m->predicted + row * stride, m->weight + m->begin[OUT_BIAS],
               s->symbols * sizeof *m->predicted);
    multiply(m->predicted, stride, m->state + streams * h, rows, &m->out, true);
    for (size_t row = 0; row < rows; row++)
        loss += (double)softmax(m->predicted + row * stride, s->symbols, text[row + streams]);
    return loss;
}

/* Gradient of the output layer, and of the states by it. */
static void backward_out(struct model *m, const uint8_t *text, float scale, float *gradient)
{
    const struct shape *s = &m->shape;
    size_t h = s->hidden, v = s->symbols, stride = round_up(v), rows = s->streams * s->window;
    float *bias = gradient + m->begin[OUT_BIAS];

    memset(bias, 0, v * sizeof *bias);
    for (size_t row = 0; row < rows; row++) {
        float *d = m->predicted + row * stride;

        d[text[row + s->streams]] -= 1;
        for (size_t j = 0; j < v; j++) {
            d[j] *= scale;
            bias[j] += d[j];
        }
    }
    pack(&m->predicted_gradient, m->predicted, stride);
    transpose(m->turned, m->state + s->streams * h, rows, h);
    multiply(gradient + m->begin[W_OUT], v, m->turned, h, &m->predicted_gradient, false);
    multiply(m->d_state, h, m->predicted, rows, &m->out_back, false);
}

/* Gradient of the sums of the gates, through time, and of the recurrent weights. */
static void backward_hidden(struct model *m, float *gradient)
{
    const struct shape *s = &m->shape;
    size_t h = s->hidden, streams = s->streams, rows = streams * s->window;

    memset(m->d_later, 0, streams * h * sizeof *m->d_later);
    memset(m->d_cell, 0, streams * h * sizeof *m->d_cell);
    for (size_t row = rows; row > 0;) {
        float *gates;

        row -= streams;
        gates = m->gates + row * 4 * h;
        add_row(m->d_state + row * h, m->d_later, streams * h);
        for (size_t b = 0; b < streams; b++)
            cell_backward(h, gates + b * 4 * h, m->cell + (row + b) * h,
                          m->squashed + (row + b) * h, m->d_state + (row + b) * h,
                          m->d_cell + b * h);
        multiply(m->d_later, h, gates, streams, &m->hidden_back, false);
    }
    pack(&m->gate_gradient, m->gates, 4 * h);
    transpose(m->turned, m->state, rows, h);
    multiply(gradient + m->begin[W_HIDDEN], 4 * h, m->turned, h, &m->gate_gradient, false);
}

/* Gradient of what the characters add to the gates. All positions with the same character have the
 * same input, so that their gates' gradients are added up first. */
static void backward_input(struct model *m, const uint8_t *text, float *gradient)
{
    const struct shape *s = &m->shape;
    size_t gates = 4 * s->hidden, e = s->embedding, v = s->symbols;
    float *bias = gradient + m->begin[BIAS];

    memset(m->by_symbol, 0, v * gates * sizeof *m->by_symbol);
    for (size_t row = 0; row < s->streams * s->window; row++)
        add_row(m->by_symbol + text[row] * gates, m->gates + row * gates, gates);
    memset(bias, 0, gates * sizeof *bias);
    for (size_t i = 0; i < v; i++)
        add_row(bias, m->by_symbol + i * gates, gates);
    pack(&m->symbol_gradient, m->by_symbol, gates);
    transpose(m->turned, m->weight + m->begin[EMBEDDING], v, e);
    multiply(gradient + m->begin[W_INPUT], gates, m->turned, e, &m->symbol_gradient, false);
    multiply(gradient + m->begin[EMBEDDING], e, m->by_symbol, v, &m->input_back, false);
}

/* After forward() on the same text: writes scale times the gradient of the summed loss, in the
 * layout of the weights, and says of each tensor when it is complete. */
static void backward(struct model *m, const uint8_t *text, float scale, float *gradient,
                     complete_fn *complete, void *context)
{
    backward_out(m, text, scale, gradient);
    complete(context, OUT_BIAS);
    complete(context, W_OUT);
    backward_hidden(m, gradient);
    complete(context, W_HIDDEN);
    backward_input(m, text, gradient);
    complete(context, BIAS);
    complete(context, W_INPUT);
    complete(context, EMBEDDING);
}

#endif
