/* The functions of large counts for an MPI library without them (Open MPI, MPICH 3): included
 * before everything else when programs are built for one. Counts of tests fit an int. */
#ifndef TESTS_MPI_SUPPORT_OLDER_MPI_H
#define TESTS_MPI_SUPPORT_OLDER_MPI_H

#include <mpi.h>

#define MPI_Allreduce_c             MPI_Allreduce
#define MPI_Iallreduce_c            MPI_Iallreduce
#define MPI_Allreduce_init_c        MPI_Allreduce_init
#define MPI_Allgather_c             MPI_Allgather
#define MPI_Iallgather_c            MPI_Iallgather
#define MPI_Reduce_c                MPI_Reduce
#define MPI_Ireduce_c               MPI_Ireduce
#define MPI_Reduce_scatter_block_c  MPI_Reduce_scatter_block
#define MPI_Ireduce_scatter_block_c MPI_Ireduce_scatter_block
#define MPI_Scan_c                  MPI_Scan
#define MPI_Iscan_c                 MPI_Iscan
#define MPI_Bcast_c                 MPI_Bcast
#define MPI_Ibcast_c                MPI_Ibcast
#define MPI_Alltoall_c              MPI_Alltoall
#define MPI_Ialltoall_c             MPI_Ialltoall
#define MPI_Type_contiguous_c       MPI_Type_contiguous

/* Open MPI 4 has persistent collectives as an extension, and no sessions: a test that begins one
 * gets an error. MPICH 3 has neither. */
#ifndef MPI_SESSION_NULL
#ifdef OPEN_MPI
#include <mpi-ext.h>
#define MPI_Allreduce_init MPIX_Allreduce_init
#else
static inline int MPI_Allreduce_init(const void *send, void *recv, int count, MPI_Datatype type,
                                     MPI_Op op, MPI_Comm comm, MPI_Info info, MPI_Request *request)
{
    (void)send, (void)recv, (void)count, (void)type, (void)op, (void)comm, (void)info;
    *request = MPI_REQUEST_NULL;
    return MPI_ERR_OTHER;
}
#endif
#define MPI_SESSION_NULL NULL
typedef struct older_session *MPI_Session;

static inline int MPI_Session_init(MPI_Info info, MPI_Errhandler handler, MPI_Session *session)
{
    (void)info, (void)handler, (void)session;
    return MPI_ERR_OTHER;
}

static inline int MPI_Session_finalize(MPI_Session *session)
{
    (void)session;
    return MPI_ERR_OTHER;
}

static inline int MPI_Group_from_session_pset(MPI_Session session, const char *set,
                                              MPI_Group *group)
{
    (void)session, (void)set, (void)group;
    return MPI_ERR_OTHER;
}

static inline int MPI_Comm_create_from_group(MPI_Group group, const char *tag, MPI_Info info,
                                             MPI_Errhandler handler, MPI_Comm *comm)
{
    (void)group, (void)tag, (void)info, (void)handler, (void)comm;
    return MPI_ERR_OTHER;
}
#endif

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
