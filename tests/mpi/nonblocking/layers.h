/* Sizes of the tensors of networks that are trained layer by layer. */
#ifndef TESTS_MPI_LAYERS_H
#define TESTS_MPI_LAYERS_H

#include <stddef.h>

enum { LAYERS_RESNET = 161, LAYERS_RESNET_SUM = 25557032, LAYERS_BLOCK = 8 };

/* Writes LAYERS_RESNET counts of elements and returns their sum. ResNet-50 (He et al., CVPR 2016,
 * table 1): weights of each convolution, scale and shift of the normalization after it, the
 * classifier's weights and biases; in forward order. */
static inline long layers_resnet(int *count)
{
    static const int blocks[4] = {3, 4, 6, 3};
    int at = 0, in = 64;
    long sum = 0;

    count[at++] = 3 * 7 * 7 * 64;
    count[at++] = 64;
    count[at++] = 64;
    for (int stage = 0; stage < 4; stage++) {
        int width = 64 << stage, out = 4 * width;

        for (int block = 0; block < blocks[stage]; block++) {
            const int weights[4] = {in * width, 9 * width * width, width * out, in * out};
            const int channels[4] = {width, width, out, out};

            /* the fourth convolution fits the shortcut of a stage's first block */
            for (int c = 0; c < (block == 0 ? 4 : 3); c++) {
                count[at++] = weights[c];
                count[at++] = channels[c];
                count[at++] = channels[c];
            }
            in = out;
        }
    }
    count[at++] = in * 1000;
    count[at++] = 1000;
    for (int i = 0; i < at; i++)
        sum += count[i];
    return at == LAYERS_RESNET ? sum : -1;
}

/* Writes LAYERS_LSTM counts and returns their sum. The language model of Zaremba et al. (2014),
 * table 1, large: an embedding of 10,000 words, two layers of 1,500 LSTM cells, each with weights
 * and biases of its input and of its state, and the output; in forward order. */
enum { LAYERS_LSTM = 11 };
static inline long layers_lstm(int *count)
{
    const int words = 10000, width = 1500, gates = 4 * width;
    const int counts[LAYERS_LSTM] = {words * width, gates * width, gates * width, gates,
                                     gates,         gates * width, gates * width, gates,
                                     gates,         words * width, words};
    long sum = 0;

    for (int i = 0; i < LAYERS_LSTM; i++)
        sum += count[i] = counts[i];
    return sum;
}

/* Writes LAYERS_BLOCK counts of one transformer block of this width: query, key, value and output
 * matrices, both normalizations, both matrices of the feed-forward part. */
static inline void layers_block(int width, int *count)
{
    const int square = width * width;
    const int counts[LAYERS_BLOCK] = {width,  square,    square,     square,
                                      square, 2 * width, 4 * square, 4 * square};

    for (int i = 0; i < LAYERS_BLOCK; i++)
        count[i] = counts[i];
}

#endif
