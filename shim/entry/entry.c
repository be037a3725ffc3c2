/* Defines the functions that the dynamic linker finds before the MPI library's. Handles are words
 * here, so that those of every MPI library come through whole. */
#include "shim/entry/entry.h"

#include <stdarg.h>

EXPORT shim_allreduce_fn MPI_Allreduce;
EXPORT shim_allreduce_c_fn MPI_Allreduce_c;
EXPORT shim_iallreduce_fn MPI_Iallreduce;
EXPORT shim_iallreduce_c_fn MPI_Iallreduce_c;
EXPORT shim_reduce_fn MPI_Reduce;
EXPORT shim_reduce_c_fn MPI_Reduce_c;
EXPORT shim_pcontrol_fn MPI_Pcontrol, PMPI_Pcontrol;
EXPORT shim_keyval_fn MPI_Comm_create_keyval, MPI_Keyval_create, MPI_Type_create_keyval;
EXPORT shim_set_attr_fn MPI_Comm_set_attr, MPI_Attr_put, MPI_Type_set_attr;
EXPORT shim_comm_free_fn MPI_Comm_free;
EXPORT shim_comm_free_fn MPI_Comm_disconnect;
EXPORT shim_query_thread_fn MPI_Query_thread;
EXPORT shim_request_fn MPI_Cancel, MPI_Request_free;

/* mpi_f08 and profilers call the second name of these. */
EXPORT shim_init_fn MPI_Init, PMPI_Init;
EXPORT shim_init_thread_fn MPI_Init_thread, PMPI_Init_thread;
EXPORT shim_finalize_fn MPI_Finalize, PMPI_Finalize;
EXPORT shim_request_get_status_fn MPI_Request_get_status, PMPI_Request_get_status;

/* ---- the collectives ---- */

SLOW slow_allreduce(const void *send, void *recv, int count, uintptr_t type, uintptr_t op,
                    uintptr_t comm, const void *site)
{
    if (is_small_there(count, send, recv, type, comm))
        return shim.next.allreduce(send, recv, count, type, op, comm);
    return shim_allreduce(REDUCTION(false, .site = site));
}

int MPI_Allreduce(const void *send, void *recv, int count, uintptr_t type, uintptr_t op,
                  uintptr_t comm)
{
    if (is_small(count, send, recv, comm))
        return shim.next.allreduce(send, recv, count, type, op, comm);
    return slow_allreduce(send, recv, count, type, op, comm, __builtin_return_address(0));
}

SLOW slow_allreduce_c(const void *send, void *recv, int64_t count, uintptr_t type, uintptr_t op,
                      uintptr_t comm, const void *site)
{
    if (is_small_there(count, send, recv, type, comm))
        return shim.next.allreduce_c(send, recv, count, type, op, comm);
    return shim_allreduce(REDUCTION(true, .site = site));
}

int MPI_Allreduce_c(const void *send, void *recv, int64_t count, uintptr_t type, uintptr_t op,
                    uintptr_t comm)
{
    if (is_small(count, send, recv, comm))
        return shim.next.allreduce_c(send, recv, count, type, op, comm);
    return slow_allreduce_c(send, recv, count, type, op, comm, __builtin_return_address(0));
}

SLOW slow_iallreduce(const void *send, void *recv, int count, uintptr_t type, uintptr_t op,
                     uintptr_t comm, void *request, const void *site)
{
    if (ibelow(count, op) && on_host(send, type, recv, type))
        return shim.next.iallreduce(send, recv, count, type, op, comm, request);
    return shim_iallreduce(REDUCTION(false, .site = site), request);
}

int MPI_Iallreduce(const void *send, void *recv, int count, uintptr_t type, uintptr_t op,
                   uintptr_t comm, void *request)
{
    if (ibelow(count, op) && shim_are_plain(send, recv))
        return shim.next.iallreduce(send, recv, count, type, op, comm, request);
    return slow_iallreduce(send, recv, count, type, op, comm, request, __builtin_return_address(0));
}

SLOW slow_iallreduce_c(const void *send, void *recv, int64_t count, uintptr_t type, uintptr_t op,
                       uintptr_t comm, void *request, const void *site)
{
    if (ibelow(count, op) && on_host(send, type, recv, type))
        return shim.next.iallreduce_c(send, recv, count, type, op, comm, request);
    return shim_iallreduce(REDUCTION(true, .site = site), request);
}

int MPI_Iallreduce_c(const void *send, void *recv, int64_t count, uintptr_t type, uintptr_t op,
                     uintptr_t comm, void *request)
{
    if (ibelow(count, op) && shim_are_plain(send, recv))
        return shim.next.iallreduce_c(send, recv, count, type, op, comm, request);
    return slow_iallreduce_c(send, recv, count, type, op, comm, request,
                             __builtin_return_address(0));
}

SLOW slow_reduce(const void *send, void *recv, int count, uintptr_t type, uintptr_t op, int root,
                 uintptr_t comm)
{
    if (below(count) && on_host(send, type, recv, type))
        return shim.next.reduce(send, recv, count, type, op, root, comm);
    return shim_collective(REDUCTION(false, .kind = SS_KIND_REDUCE, .root = root), NULL);
}

int MPI_Reduce(const void *send, void *recv, int count, uintptr_t type, uintptr_t op, int root,
               uintptr_t comm)
{
    if (below(count) && shim_are_plain(send, recv))
        return shim.next.reduce(send, recv, count, type, op, root, comm);
    return slow_reduce(send, recv, count, type, op, root, comm);
}

SLOW slow_reduce_c(const void *send, void *recv, int64_t count, uintptr_t type, uintptr_t op,
                   int root, uintptr_t comm)
{
    if (below(count) && on_host(send, type, recv, type))
        return shim.next.reduce_c(send, recv, count, type, op, root, comm);
    return shim_collective(REDUCTION(true, .kind = SS_KIND_REDUCE, .root = root), NULL);
}

int MPI_Reduce_c(const void *send, void *recv, int64_t count, uintptr_t type, uintptr_t op,
                 int root, uintptr_t comm)
{
    if (below(count) && shim_are_plain(send, recv))
        return shim.next.reduce_c(send, recv, count, type, op, root, comm);
    return slow_reduce_c(send, recv, count, type, op, root, comm);
}

int MPI_Init(int *argc, char ***argv)
{
    shim_prepare();
    return shim_init(shim.next.init, argc, argv);
}

int PMPI_Init(int *argc, char ***argv)
{
    shim_prepare();
    return shim_init(shim.next.pmpi_init, argc, argv);
}

int MPI_Init_thread(int *argc, char ***argv, int required, int *provided)
{
    shim_prepare();
    return shim_init_thread(shim.next.init_thread, argc, argv, required, provided);
}

int PMPI_Init_thread(int *argc, char ***argv, int required, int *provided)
{
    shim_prepare();
    return shim_init_thread(shim.next.pmpi_init_thread, argc, argv, required, provided);
}

int MPI_Finalize(void)
{
    shim_prepare();
    return shim_finalize(shim.next.finalize);
}

int PMPI_Finalize(void)
{
    shim_prepare();
    return shim_finalize(shim.next.pmpi_finalize);
}

int MPI_Query_thread(int *provided)
{
    shim_prepare();
    return shim_query_thread(shim.next.query_thread, provided);
}

int MPI_Request_get_status(uintptr_t request, int *flag, void *status)
{
    shim_prepare();
    return shim_request_get_status(shim.next.request_get_status, request, flag, status);
}

int PMPI_Request_get_status(uintptr_t request, int *flag, void *status)
{
    shim_prepare();
    return shim_request_get_status(shim.next.pmpi_request_get_status, request, flag, status);
}

int MPI_Cancel(void *request)
{
    shim_prepare();
    return shim_request_call(shim.next.cancel, request, true);
}

int MPI_Request_free(void *request)
{
    shim_prepare();
    return shim_request_call(shim.next.request_free, request, false);
}

int MPI_Comm_create_keyval(void *copy, void *delete, int *keyval, void *extra)
{
    shim_prepare();
    return shim_keyval(shim.next.comm_keyval, true, copy, delete, keyval, extra);
}

int MPI_Keyval_create(void *copy, void *delete, int *keyval, void *extra)
{
    shim_prepare();
    return shim_keyval(shim.next.keyval, true, copy, delete, keyval, extra);
}

int MPI_Type_create_keyval(void *copy, void *delete, int *keyval, void *extra)
{
    shim_prepare();
    return shim_keyval(shim.next.type_keyval, false, copy, delete, keyval, extra);
}

int MPI_Comm_set_attr(uintptr_t comm, int keyval, void *value)
{
    shim_prepare();
    return shim_set_attr(shim.next.set_attr, comm, keyval, value);
}

int MPI_Attr_put(uintptr_t comm, int keyval, void *value)
{
    shim_prepare();
    return shim_set_attr(shim.next.attr_put, comm, keyval, value);
}

int MPI_Type_set_attr(uintptr_t type, int keyval, void *value)
{
    shim_prepare();
    return shim_type_set_attr(shim.next.type_set_attr, type, keyval, value);
}

int MPI_Comm_free(void *comm)
{
    shim_prepare();
    return shim_comm_free(shim.next.comm_free, comm);
}

int MPI_Comm_disconnect(void *comm)
{
    shim_prepare();
    return shim_comm_free(shim.next.comm_disconnect, comm);
}

/* Passes all levels on. The arguments behind the level are unknown here, so that all argument
 * registers are passed on unchanged. On x86-64 and aarch64 words and doubles have separate
 * registers, so that their order does not matter. Reading them is harmless if the caller passed
 * fewer arguments. */
#if defined(__x86_64__)
enum { PCONTROL_WORDS = 5 };
#else
enum { PCONTROL_WORDS = 7 };
#endif
static int pass_pcontrol(shim_pcontrol_fn *next, int level, va_list ap)
{
    void *w[7] = {NULL};
    double d[8];

    for (int i = 0; i < PCONTROL_WORDS; i++)
        w[i] = va_arg(ap, void *);
    for (int i = 0; i < 8; i++)
        d[i] = va_arg(ap, double);
    return next(level, w[0], w[1], w[2], w[3], w[4], w[5], w[6], d[0], d[1], d[2], d[3], d[4], d[5],
                d[6], d[7]);
}

/* Handles the levels of shim_pcontrol. */
int MPI_Pcontrol(const int level, ...)
{
    va_list ap;
    int err;

    shim_prepare();
    shim_pcontrol(level);
    va_start(ap, level);
    err = pass_pcontrol(shim.next.pcontrol, level, ap);
    va_end(ap);
    return err;
}

/* Open MPI's Fortran library comes here by a jump, so that its caller seems to call: every call
 * counts. */
int PMPI_Pcontrol(const int level, ...)
{
    va_list ap;
    int err;

    be_ready();
    if (shim_abi.kind == SHIM_ABI_OPEN_MPI)
        shim_pcontrol(level);
    va_start(ap, level);
    err = pass_pcontrol(shim.pmpi.pcontrol, level, ap);
    va_end(ap);
    return err;
}
