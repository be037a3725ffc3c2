/* Dense sums of a gradient over the ranks: in 32 bits by MPI_Allreduce, or in bfloat16 as a program
 * makes them by hand. bfloat16 is the upper half of a float, so that a sum moves half the bytes.
 * The words of --sums are those of gpt.py. */
#ifndef TESTS_APPS_HALF_SUM_H
#define TESTS_APPS_HALF_SUM_H

#include <math.h>
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum sums { ALLREDUCE, ALLTOALL16, OPERATOR16 };

static const char *const sums_names[] = {"allreduce", "alltoall16", "operator16", NULL};

#define SUMS_HELP                                                                                  \
    "of gradients: in 32 bits; in bfloat16 by MPI_Alltoall and MPI_Allgather,\n"                   \
    "or with an operator of MPI_Op_create"

static struct {
    uint16_t *sent, *received;
    size_t room;   /* elements of each */
    MPI_Op adding; /* made at the first sum that needs it */
    int has_adding;
} half;

/* Rounds to nearest, a tie to the even one. */
static uint16_t to_bf16(float x)
{
    uint32_t bits;

    memcpy(&bits, &x, sizeof bits);
    if (isnan(x))
        return (uint16_t)(bits >> 16 | 0x40); /* the payload may lie in the lower half alone */
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static float from_bf16(uint16_t half_of_it)
{
    uint32_t bits = (uint32_t)half_of_it << 16;
    float x;

    memcpy(&x, &bits, sizeof x);
    return x;
}

static void half_room(size_t count)
{
    if (count <= half.room)
        return;
    half.sent = realloc(half.sent, count * sizeof *half.sent);
    half.received = realloc(half.received, count * sizeof *half.received);
    half.room = count;
    if (half.sent && half.received)
        return;
    fprintf(stderr, "no memory for a sum of %zu elements in 16 bits\n", count);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

/* Each rank adds up one part of the elements in 32 bits; both ways go in 16, with as many bytes as
 * under the bf16 hook of PyTorch's DistributedDataParallel. Zeros fill up the last parts. */
static void alltoall16(const float *from, float *to, size_t count, MPI_Comm comm)
{
    int ranks_here;
    size_t part;

    MPI_Comm_size(comm, &ranks_here);
    part = (count + (size_t)ranks_here - 1) / (size_t)ranks_here;
    half_room(part * (size_t)ranks_here);
    for (size_t i = 0; i < count; i++)
        half.sent[i] = to_bf16(from[i]);
    memset(half.sent + count, 0, (part * (size_t)ranks_here - count) * sizeof *half.sent);
    MPI_Alltoall(half.sent, (int)part, MPI_UINT16_T, half.received, (int)part, MPI_UINT16_T, comm);
    for (size_t i = 0; i < part; i++) {
        float sum = from_bf16(half.received[i]);

        for (size_t r = 1; r < (size_t)ranks_here; r++)
            sum += from_bf16(half.received[r * part + i]);
        half.sent[i] = to_bf16(sum);
    }
    MPI_Allgather(half.sent, (int)part, MPI_UINT16_T, half.received, (int)part, MPI_UINT16_T, comm);
    for (size_t i = 0; i < count; i++)
        to[i] = from_bf16(half.received[i]);
}

static void add_bf16(void *from, void *into, int *count, MPI_Datatype *type)
{
    const uint16_t *x = from;
    uint16_t *sum = into;

    (void)type;
    for (int i = 0; i < *count; i++)
        sum[i] = to_bf16(from_bf16(sum[i]) + from_bf16(x[i]));
}

/* Each addition rounds. */
static void operator16(const float *from, float *to, size_t count, MPI_Comm comm)
{
    if (!half.has_adding)
        MPI_Op_create(add_bf16, 1, &half.adding);
    half.has_adding = 1;
    half_room(count);
    for (size_t i = 0; i < count; i++)
        half.sent[i] = to_bf16(from[i]);
    MPI_Allreduce(half.sent, half.received, (int)count, MPI_UINT16_T, half.adding, comm);
    for (size_t i = 0; i < count; i++)
        to[i] = from_bf16(half.received[i]);
}

/* Leaves the sum of all ranks in `to`; from: MPI_IN_PLACE if it is there already. */
static void add_up(int how, const void *from, float *to, size_t count, MPI_Comm comm)
{
    const float *values = from == MPI_IN_PLACE ? to : from;

    if (how == ALLTOALL16)
        alltoall16(values, to, count, comm);
    else if (how == OPERATOR16)
        operator16(values, to, count, comm);
    else
        MPI_Allreduce(from, to, (int)count, MPI_FLOAT, MPI_SUM, comm);
}

#endif
