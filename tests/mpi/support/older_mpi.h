/* The functions of large counts for an MPI library without them (Open MPI 4 and 5): included before
 * everything else when programs are built for one. Counts of tests fit an int. */
#ifndef TESTS_MPI_SUPPORT_OLDER_MPI_H
#define TESTS_MPI_SUPPORT_OLDER_MPI_H

#include <mpi.h>

#define MPI_Allreduce_c            MPI_Allreduce
#define MPI_Iallreduce_c           MPI_Iallreduce
#define MPI_Allgather_c            MPI_Allgather
#define MPI_Iallgather_c           MPI_Iallgather
#define MPI_Reduce_c               MPI_Reduce
#define MPI_Reduce_scatter_block_c MPI_Reduce_scatter_block

enum { LARGE_RANKS = 64 };

static inline void large_lists(int *counts, int *displs, const MPI_Count *large_counts,
                               const MPI_Aint *large_displs, MPI_Comm comm)
{
    int size;

    MPI_Comm_size(comm, &size);
    for (int i = 0; i < size && i < LARGE_RANKS; i++) {
        counts[i] = (int)large_counts[i];
        displs[i] = (int)large_displs[i];
    }
}

static inline int MPI_Allgatherv_c(const void *send, MPI_Count send_count, MPI_Datatype send_type,
                                   void *recv, const MPI_Count *large_counts,
                                   const MPI_Aint *large_displs, MPI_Datatype type, MPI_Comm comm)
{
    int counts[LARGE_RANKS], displs[LARGE_RANKS];

    large_lists(counts, displs, large_counts, large_displs, comm);
    return MPI_Allgatherv(send, (int)send_count, send_type, recv, counts, displs, type, comm);
}

static inline int MPI_Reduce_scatter_c(const void *send, void *recv, const MPI_Count *large_counts,
                                       MPI_Datatype type, MPI_Op op, MPI_Comm comm)
{
    int counts[LARGE_RANKS], size;

    MPI_Comm_size(comm, &size);
    for (int i = 0; i < size && i < LARGE_RANKS; i++)
        counts[i] = (int)large_counts[i];
    return MPI_Reduce_scatter(send, recv, counts, type, op, comm);
}

static inline int MPI_Iallgatherv_c(const void *send, MPI_Count send_count, MPI_Datatype send_type,
                                    void *recv, const MPI_Count *large_counts,
                                    const MPI_Aint *large_displs, MPI_Datatype type, MPI_Comm comm,
                                    MPI_Request *request)
{
    static int counts[LARGE_RANKS], displs[LARGE_RANKS]; /* in use until the call has ended */

    large_lists(counts, displs, large_counts, large_displs, comm);
    return MPI_Iallgatherv(send, (int)send_count, send_type, recv, counts, displs, type, comm,
                           request);
}

#endif
