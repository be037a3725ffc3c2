/* Sparse inputs that every rank can compute for every other rank. */
#ifndef TESTS_MPI_INPUT_H
#define TESTS_MPI_INPUT_H

#include <mpi.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Returns a well-mixed word for (seed, rank, position): the finalizer of splitmix64. */
static inline uint64_t input_word(uint64_t seed, int rank, uint64_t position)
{
    uint64_t z = seed * 0x9e3779b97f4a7c15u + (uint64_t)(rank + 1) * 0xd1b54a32d192ed03u +
                 position * 0x8cb92ba72f3d8dd7u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* Fills one entry in sixteen with small whole numbers, whose sums are exact in any order. */
static inline int input_whole(uint64_t seed, int rank, uint64_t position)
{
    uint64_t word = input_word(seed, rank, position);
    return word % 16 ? 0 : (int)(word >> 32 & 63) - 31;
}

static inline void input_fill_whole(float *out, int n, uint64_t seed, int rank)
{
    for (int i = 0; i < n; i++)
        out[i] = (float)input_whole(seed, rank, (uint64_t)i);
}

/* Fills one entry in sixteen with fractions, whose sums depend on the order of addition. */
static inline void input_fill_fractions(float *out, int n, uint64_t seed, int rank)
{
    for (int i = 0; i < n; i++) {
        uint64_t word = input_word(seed, rank, (uint64_t)i);
        out[i] = word % 16 ? 0.0f : (float)((double)(word >> 8) / 3e15 - 12.0);
    }
}

/* Returns true if `got` is the sum of input_fill_whole over `ranks` ranks. */
static inline bool input_is_whole_sum(const float *got, int n, uint64_t seed, int ranks)
{
    for (int i = 0; i < n; i++) {
        int sum = 0;
        for (int r = 0; r < ranks; r++)
            sum += input_whole(seed, r, (uint64_t)i);
        if (got[i] != (float)sum)
            return false;
    }
    return true;
}

static inline void *input_alloc(size_t bytes)
{
    void *memory = malloc(bytes ? bytes : 1);
    if (!memory)
        MPI_Abort(MPI_COMM_WORLD, 1);
    return memory;
}

#endif
