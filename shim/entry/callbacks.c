/* The calls by which the application gives MPI code of its own, looked at on their way. */
#include "shim/entry/callbacks.h"
#include "shim/entry/calls.h"

#include <sched.h>

#include <mpi.h>

#include "shim/comm/progress.h"
#include "shim/mpi/real.h"

static bool concerns_us(void)
{
    return shim_prepare() && !atomic_load_explicit(&shim.callbacks, memory_order_relaxed);
}

void shim_callbacks_operator(uintptr_t op)
{
    if (shim_is_own_operator(op) && concerns_us())
        shim_progress_keep_out();
}

int shim_op_create(shim_op_create_fn *next, void *function, int commute, void *op)
{
    if (concerns_us())
        shim_progress_keep_out();
    return next(function, commute, op);
}

/* Attributes that do nothing but run code when they are deleted, as mpi4py makes them, are
 * remembered: on MPI_COMM_SELF and MPI_COMM_WORLD that is in MPI_Finalize alone, where no thread of
 * ours is; on another communicator once that is freed, which may be after the call that frees it.
 */
static void remember(int keyval)
{
    int i = atomic_fetch_add(&shim.keyval_count, 1);

    if (i < SHIM_KEYVALS)
        shim.keyvals[i] = keyval;
    else
        shim_progress_keep_out();
}

static bool is_remembered(int keyval)
{
    int n = atomic_load(&shim.keyval_count);

    for (int i = 0; i < n && i < SHIM_KEYVALS; i++)
        if (shim.keyvals[i] == keyval)
            return true;
    return false;
}

/* The predefined callbacks of the MPI library: of a Fortran program they are functions, which count
 * as the application's. */
int shim_keyval(shim_keyval_fn *next, bool on_comms, void *copy, void *delete, int *keyval,
                void *extra)
{
    bool ours = concerns_us();
    bool copies = copy && copy != shim_real_dup_fn;
    bool inherited = copy != NULL; /* by duplicates, which are freed */
    int err;

    if (ours && (copies || (delete &&(inherited || !on_comms))))
        shim_progress_keep_out();
    err = next(copy, delete, keyval, extra);
    if (ours && delete &&err == MPI_SUCCESS && keyval)
        remember(*keyval);
    return err;
}

int shim_set_attr(shim_set_attr_fn *next, uintptr_t comm, int keyval, void *value)
{
    if (atomic_load_explicit(&shim.keyval_count, memory_order_relaxed) > 0 &&
        (MPI_Comm)comm != MPI_COMM_SELF && (MPI_Comm)comm != MPI_COMM_WORLD && concerns_us() &&
        is_remembered(keyval))
        atomic_store(&shim.deleters, true);
    return next(comm, keyval, value);
}

/* A meeting that is under way on a communicator would hold it, and its attributes, beyond the call
 * that frees it. All ranks have come to it before they come here. */
static void end_meeting(struct shim_comm *c)
{
    while (shim_comm_meets(c)) {
        shim_progress();
        sched_yield();
    }
}

int shim_comm_free(shim_comm_free_fn *next, void *comm)
{
    struct shim_comm *c;
    uintptr_t handle, outer;
    int err;

    if (atomic_load(&shim.phase) != SHIM_READY || !comm || !shim_is_own_process())
        return next(comm);
    handle = (uintptr_t) * (MPI_Comm *)comm;
    c = shim_comm_begin_free(handle, &outer);
    if (c && !shim_progress_idle())
        end_meeting(c);
    if (atomic_load_explicit(&shim.deleters, memory_order_relaxed) && concerns_us())
        shim_progress_keep_out();
    err = next(comm);
    shim_comm_end_free(c, handle, outer, err == MPI_SUCCESS);
    return err;
}
