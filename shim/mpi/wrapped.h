/* The wrapped functions of MPI: the one table of their names. Handles are words here, because
 * programs of any MPI library reach the entry points. From a row come the function's type, its
 * members in shim.next and shim.pmpi, the search for it (shim/mpi/real.c) and its export
 * (shim/entry/entry.h); the bodies stand in shim/entry.
 */
#ifndef SHIM_MPI_WRAPPED_H
#define SHIM_MPI_WRAPPED_H

#include <stdint.h>

/* Parameters with counts of type N, int or int64_t, and the arguments of a call that passes them
 * on.
 */
#define SHIM_REDUCTION(N)                                                                          \
    const void *send, void *recv, N count, uintptr_t type, uintptr_t op, uintptr_t comm
#define SHIM_REDUCTION_ARGUMENTS send, recv, count, type, op, comm
#define SHIM_IREDUCTION(N)                                                                         \
    const void *send, void *recv, N count, uintptr_t type, uintptr_t op, uintptr_t comm,           \
        void *request
#define SHIM_IREDUCTION_ARGUMENTS send, recv, count, type, op, comm, request
#define SHIM_REDUCE(N)                                                                             \
    const void *send, void *recv, N count, uintptr_t type, uintptr_t op, int root, uintptr_t comm
#define SHIM_REDUCE_ARGUMENTS send, recv, count, type, op, root, comm
#define SHIM_IREDUCE(N)                                                                            \
    const void *send, void *recv, N count, uintptr_t type, uintptr_t op, int root, uintptr_t comm, \
        void *request
#define SHIM_IREDUCE_ARGUMENTS send, recv, count, type, op, root, comm, request
#define SHIM_SCATTER(N)                                                                            \
    const void *send, void *recv, const N *counts, uintptr_t type, uintptr_t op, uintptr_t comm
#define SHIM_SCATTER_ARGUMENTS send, recv, counts, type, op, comm
#define SHIM_ISCATTER(N)                                                                           \
    const void *send, void *recv, const N *counts, uintptr_t type, uintptr_t op, uintptr_t comm,   \
        void *request
#define SHIM_ISCATTER_ARGUMENTS send, recv, counts, type, op, comm, request
#define SHIM_GATHER(N)                                                                             \
    const void *send, N send_count, uintptr_t send_type, void *recv, N count, uintptr_t type,      \
        uintptr_t comm
#define SHIM_GATHER_ARGUMENTS send, send_count, send_type, recv, count, type, comm
#define SHIM_IGATHER(N)                                                                            \
    const void *send, N send_count, uintptr_t send_type, void *recv, N count, uintptr_t type,      \
        uintptr_t comm, void *request
#define SHIM_IGATHER_ARGUMENTS send, send_count, send_type, recv, count, type, comm, request
#define SHIM_GATHERV(N)                                                                            \
    const void *send, N send_count, uintptr_t send_type, void *recv, const N *counts,              \
        const N *displs, uintptr_t type, uintptr_t comm
#define SHIM_GATHERV_ARGUMENTS send, send_count, send_type, recv, counts, displs, type, comm
#define SHIM_IGATHERV(N)                                                                           \
    const void *send, N send_count, uintptr_t send_type, void *recv, const N *counts,              \
        const N *displs, uintptr_t type, uintptr_t comm, void *request
#define SHIM_IGATHERV_ARGUMENTS                                                                    \
    send, send_count, send_type, recv, counts, displs, type, comm, request

/* Functions with counts: member, name behind MPI_, signature. Each row stands for MPI_X, for
 * MPI_X_c of MPI 4 (member_c), and for PMPI_X, which Open MPI's Fortran libraries call. */
#define SHIM_WRAPPED_COUNTED(X)                                                                    \
    X(allreduce, Allreduce, SHIM_REDUCTION)                                                        \
    X(iallreduce, Iallreduce, SHIM_IREDUCTION)                                                     \
    X(allgather, Allgather, SHIM_GATHER)                                                           \
    X(allgatherv, Allgatherv, SHIM_GATHERV)                                                        \
    X(iallgather, Iallgather, SHIM_IGATHER)                                                        \
    X(iallgatherv, Iallgatherv, SHIM_IGATHERV)                                                     \
    X(reduce_scatter, Reduce_scatter_block, SHIM_REDUCTION)                                        \
    X(reduce_scatterv, Reduce_scatter, SHIM_SCATTER)                                               \
    X(reduce, Reduce, SHIM_REDUCE)                                                                 \
    X(ireduce, Ireduce, SHIM_IREDUCE)                                                              \
    X(iscan, Iscan, SHIM_IREDUCTION)                                                               \
    X(iexscan, Iexscan, SHIM_IREDUCTION)                                                           \
    X(ireduce_block, Ireduce_scatter_block, SHIM_IREDUCTION)                                       \
    X(ireduce_scatter, Ireduce_scatter, SHIM_ISCATTER)

/* Functions that this library hears of: member, name behind MPI_, parameters, arguments, whose
 * calls of PMPI_X count as well (ALWAYS: everybody's, since mpi_f08 and profilers make them;
 * FORTRAN: those of Open MPI's Fortran libraries; NEVER: nobody's), the function that handles a
 * call, and its arguments. */
#define SHIM_WRAPPED_HEARD(X)                                                                      \
    X(init, Init, (int *argc, char ***argv), (argc, argv), ALWAYS, shim_init, (next, argc, argv))  \
    X(init_thread, Init_thread, (int *argc, char ***argv, int required, int *provided),            \
      (argc, argv, required, provided), ALWAYS, shim_init_thread,                                  \
      (next, argc, argv, required, provided))                                                      \
    X(finalize, Finalize, (void), (), ALWAYS, shim_finalize, (next))                               \
    X(query_thread, Query_thread, (int *provided), (provided), FORTRAN, shim_query_thread,         \
      (next, provided))                                                                            \
    X(request_get_status, Request_get_status, (uintptr_t request, int *flag, void *status),        \
      (request, flag, status), ALWAYS, shim_request_get_status, (next, request, flag, status))     \
    X(cancel, Cancel, (void *request), (request), FORTRAN, shim_request_call,                      \
      (next, request, true))                                                                       \
    X(request_free, Request_free, (void *request), (request), FORTRAN, shim_request_call,          \
      (next, request, false))                                                                      \
    X(op_create, Op_create, (void *function, int commute, void *op), (function, commute, op),      \
      FORTRAN, shim_op_create, (next, function, commute, op))                                      \
    X(op_free, Op_free, (void *op), (op), ALWAYS, shim_op_free, (next, op))                        \
    X(comm_keyval, Comm_create_keyval, (void *copy, void *delete, int *keyval, void *extra),       \
      (copy, delete, keyval, extra), NEVER, shim_keyval,                                           \
      (next, true, copy, delete, keyval, extra))                                                   \
    X(keyval, Keyval_create, (void *copy, void *delete, int *keyval, void *extra),                 \
      (copy, delete, keyval, extra), NEVER, shim_keyval,                                           \
      (next, true, copy, delete, keyval, extra))                                                   \
    X(type_keyval, Type_create_keyval, (void *copy, void *delete, int *keyval, void *extra),       \
      (copy, delete, keyval, extra), NEVER, shim_keyval,                                           \
      (next, false, copy, delete, keyval, extra))                                                  \
    X(set_attr, Comm_set_attr, (uintptr_t comm, int keyval, void *value), (comm, keyval, value),   \
      NEVER, shim_set_attr, (next, comm, keyval, value))                                           \
    X(attr_put, Attr_put, (uintptr_t comm, int keyval, void *value), (comm, keyval, value), NEVER, \
      shim_set_attr, (next, comm, keyval, value))                                                  \
    X(type_set_attr, Type_set_attr, (uintptr_t type, int keyval, void *value),                     \
      (type, keyval, value), NEVER, shim_type_set_attr, (next, type, keyval, value))               \
    X(comm_free, Comm_free, (void *comm), (comm), FORTRAN, shim_comm_free, (next, comm))           \
    X(comm_disconnect, Comm_disconnect, (void *comm), (comm), FORTRAN, shim_comm_free,             \
      (next, comm))                                                                                \
    X(comm_idup, Comm_idup, (uintptr_t comm, void *made, void *request), (comm, made, request),    \
      FORTRAN, shim_comm_copied, (comm, next(comm, made, request)))

/* Functions that make a communicator `made` from `comm`: member, name, parameters, arguments, and
 * which ranks of `comm` make the call. PMPI_X counts, whoever calls it (shim/entry/creation.c). */
#define SHIM_WRAPPED_CREATIONS(X)                                                                  \
    X(comm_dup, Comm_dup, (uintptr_t comm, void *made), (comm, made), ALL)                         \
    X(comm_dup_info, Comm_dup_with_info, (uintptr_t comm, uintptr_t info, void *made),             \
      (comm, info, made), ALL)                                                                     \
    X(comm_split, Comm_split, (uintptr_t comm, int colour, int key, void *made),                   \
      (comm, colour, key, made), ALL)                                                              \
    X(comm_split_type, Comm_split_type,                                                            \
      (uintptr_t comm, int type, int key, uintptr_t info, void *made),                             \
      (comm, type, key, info, made), ALL)                                                          \
    X(comm_create, Comm_create, (uintptr_t comm, uintptr_t group, void *made),                     \
      (comm, group, made), ALL)                                                                    \
    X(comm_create_group, Comm_create_group,                                                        \
      (uintptr_t comm, uintptr_t group, int tag, void *made), (comm, group, tag, made), SOME)      \
    X(cart_create, Cart_create,                                                                    \
      (uintptr_t comm, int dims, const int *sizes, const int *periods, int reorder, void *made),   \
      (comm, dims, sizes, periods, reorder, made), ALL)                                            \
    X(cart_sub, Cart_sub, (uintptr_t comm, const int *remain, void *made), (comm, remain, made),   \
      ALL)                                                                                         \
    X(graph_create, Graph_create,                                                                  \
      (uintptr_t comm, int nodes, const int *index, const int *edges, int reorder, void *made),    \
      (comm, nodes, index, edges, reorder, made), ALL)                                             \
    X(dist_graph, Dist_graph_create,                                                               \
      (uintptr_t comm, int count, const int *sources, const int *degrees, const int *destinations, \
       const int *weights, uintptr_t info, int reorder, void *made),                               \
      (comm, count, sources, degrees, destinations, weights, info, reorder, made), ALL)            \
    X(dist_graph_adjacent, Dist_graph_create_adjacent,                                             \
      (uintptr_t comm, int indegree, const int *sources, const int *source_weights, int outdegree, \
       const int *destinations, const int *destination_weights, uintptr_t info, int reorder,       \
       void *made),                                                                                \
      (comm, indegree, sources, source_weights, outdegree, destinations, destination_weights,      \
       info, reorder, made),                                                                       \
      ALL)                                                                                         \
    X(intercomm_merge, Intercomm_merge, (uintptr_t comm, int high, void *made),                    \
      (comm, high, made), SOME)

/* Functions that complete requests: member, name, parameters, arguments, and the parameter that
 * holds the requests. PMPI_X counts if Open MPI's Fortran libraries call it. */
#define SHIM_WRAPPED_COMPLETIONS(X)                                                                \
    X(wait, Wait, (void *request, void *status), (request, status), request)                       \
    X(test, Test, (void *request, int *done, void *status), (request, done, status), request)      \
    X(waitall, Waitall, (int count, void *requests, void *statuses), (count, requests, statuses),  \
      requests)                                                                                    \
    X(testall, Testall, (int count, void *requests, int *done, void *statuses),                    \
      (count, requests, done, statuses), requests)                                                 \
    X(waitany, Waitany, (int count, void *requests, int *index, void *status),                     \
      (count, requests, index, status), requests)                                                  \
    X(testany, Testany, (int count, void *requests, int *index, int *done, void *status),          \
      (count, requests, index, done, status), requests)                                            \
    X(waitsome, Waitsome, (int count, void *requests, int *ended, int *indices, void *statuses),   \
      (count, requests, ended, indices, statuses), requests)                                       \
    X(testsome, Testsome, (int count, void *requests, int *ended, int *indices, void *statuses),   \
      (count, requests, ended, indices, statuses), requests)

/* Functions with bodies of their own: member, name behind MPI_, parameters. */
#define SHIM_WRAPPED_OTHERS(X)                                                                     \
    X(start, Start, (void *request))                                                               \
    X(startall, Startall, (int count, void *requests))                                             \
    X(pcontrol, Pcontrol, (int level, ...))
/* The same columns: a function that an MPI library before MPI 4 lacks. */
#define SHIM_WRAPPED_OPTIONAL(X)                                                                   \
    X(comm_idup_info, Comm_idup_with_info,                                                         \
      (uintptr_t comm, uintptr_t info, void *made, void *request), (comm, info, made, request),    \
      FORTRAN, shim_comm_copied, (comm, next(comm, info, made, request)))
/* Open MPI's functions behind the keys of Fortran: member, name, parameters. */
#define SHIM_WRAPPED_INNER(X)                                                                      \
    X(fortran_key_aint, ompi_attr_create_keyval_aint,                                              \
      (int kind, void *copy, void *delete, int *keyval, intptr_t extra, int flags,                 \
       void *bindings))                                                                            \
    X(fortran_key_fint, ompi_attr_create_keyval_fint,                                              \
      (int kind, void *copy, void *delete, int *keyval, intptr_t extra, int flags,                 \
       void *bindings))

/* The functions without a form for large counts, except the two groups above. */
#define SHIM_WRAPPED_PLAIN(X)                                                                      \
    SHIM_WRAPPED_HEARD(X)                                                                          \
    SHIM_WRAPPED_CREATIONS(X) SHIM_WRAPPED_COMPLETIONS(X) SHIM_WRAPPED_OTHERS(X)

/* ---- types and members ---- */

#define SHIM_TYPES(member, name, signature)                                                        \
    typedef int shim_##member##_fn(signature(int));                                                \
    typedef int shim_##member##_c_fn(signature(int64_t));
#define SHIM_TYPE(member, name, parameters, ...) typedef int shim_##member##_fn parameters;
SHIM_WRAPPED_COUNTED(SHIM_TYPES)
SHIM_WRAPPED_PLAIN(SHIM_TYPE)
SHIM_WRAPPED_OPTIONAL(SHIM_TYPE)
SHIM_WRAPPED_INNER(SHIM_TYPE)
#undef SHIM_TYPES
#undef SHIM_TYPE

/* The next function of each: a profiler's below this library, or the MPI library's. */
struct shim_next {
#define SHIM_MEMBERS(member, ...)                                                                  \
    shim_##member##_fn *member;                                                                    \
    shim_##member##_c_fn *member##_c;
#define SHIM_MEMBER(member, ...) shim_##member##_fn *member;
    SHIM_WRAPPED_COUNTED(SHIM_MEMBERS)
    SHIM_WRAPPED_PLAIN(SHIM_MEMBER)
    SHIM_WRAPPED_OPTIONAL(SHIM_MEMBER)
    SHIM_WRAPPED_INNER(SHIM_MEMBER)
#undef SHIM_MEMBERS
#undef SHIM_MEMBER
};

#endif
