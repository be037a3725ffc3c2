/* The collectives that device_calls makes, each by one function for all communicators. */
#ifndef TESTS_MPI_DEVICE_COLLECTIVES_H
#define TESTS_MPI_DEVICE_COLLECTIVES_H

#include <mpi.h>
#include <stdbool.h>
#include <stdint.h>

enum call { ALLREDUCE, REDUCE, SCATTER, GATHER, GATHERV, HOLES, OWN_TYPE, CALLS };
static const char *const call_names[CALLS] = {"allreduce",
                                              "reduce",
                                              "reduce_scatter_block",
                                              "allgather",
                                              "allgatherv",
                                              "allgather of vectors",
                                              "allreduce by an operator of its own"};

static int rank, size;
static uint64_t seed; /* of the inputs; an odd one leaves gaps between the slices of a gather */
static int counts[64], displs[64];
static MPI_Datatype vector, own_type;
static MPI_Op own_op;

static void lay_out(int n)
{
    int at = 0;

    for (int r = 0; r < size; r++) {
        counts[r] = n + r;
        displs[r] = at;
        at += counts[r] + (seed % 2 ? 3 : 0);
    }
}

static size_t floats_in(enum call call, int n)
{
    switch (call) {
    case SCATTER:
        return (size_t)(n * size);
    case GATHERV:
        return (size_t)counts[rank];
    case OWN_TYPE:
        return 2 * (size_t)n;
    default:
        return (size_t)n;
    }
}

static size_t floats_out(enum call call, int n, bool in_place)
{
    switch (call) {
    case SCATTER:
        return (size_t)(in_place ? n * size : n);
    case GATHER:
        return (size_t)(n * size);
    case GATHERV:
        return (size_t)(displs[size - 1] + counts[size - 1]);
    case HOLES: /* every other one */
        return 2 * (size_t)(n * size) - 1;
    case OWN_TYPE:
        return 2 * (size_t)n;
    default:
        return (size_t)n;
    }
}

static int make(enum call call, MPI_Comm comm, const void *send, void *recv, int n)
{
    const int root = 0;

    switch (call) {
    case REDUCE:
        return MPI_Reduce(send, recv, n, MPI_FLOAT, MPI_SUM, root, comm);
    case SCATTER:
        return MPI_Reduce_scatter_block(send, recv, n, MPI_FLOAT, MPI_SUM, comm);
    case GATHER:
        return MPI_Allgather(send, n, MPI_FLOAT, recv, n, MPI_FLOAT, comm);
    case GATHERV:
        return MPI_Allgatherv(send, counts[rank], MPI_FLOAT, recv, counts, displs, MPI_FLOAT, comm);
    case HOLES:
        return MPI_Allgather(send, n, MPI_FLOAT, recv, n, vector, comm);
    case OWN_TYPE:
        return MPI_Allreduce(send, recv, n, own_type, own_op, comm);
    default:
        return MPI_Allreduce(send, recv, n, MPI_FLOAT, MPI_SUM, comm);
    }
}

static void add_pairs(void *in, void *out, int *length, MPI_Datatype *type)
{
    (void)type;
    for (int i = 0; i < 2 * *length; i++)
        ((float *)out)[i] += ((float *)in)[i];
}

/* With an operator of its own a program's nonblocking calls are not taken over. */
static void make_types(void)
{
    MPI_Datatype two;

    MPI_Type_vector(1, 1, 1, MPI_FLOAT, &two);
    MPI_Type_create_resized(two, 0, 8, &vector);
    MPI_Type_commit(&vector);
    MPI_Type_free(&two);
    MPI_Type_contiguous(2, MPI_FLOAT, &own_type);
    MPI_Type_commit(&own_type);
    MPI_Op_create(add_pairs, 1, &own_op);
}

#endif
