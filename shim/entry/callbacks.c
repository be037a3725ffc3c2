/* Watches the calls by which the application gives code of its own to MPI. */
#include "shim/entry/callbacks.h"
#include "shim/entry/calls.h"

#include <sched.h>
#include <string.h>
#include <unistd.h>

#include "shim/comm/progress.h"
#include "shim/entry/learn.h"
#include "shim/mpi/handles.h"
#include "shim/mpi/real.h"

/* Returns true if a thread of the shim may be in MPI. */
static bool concerns_us(void)
{
    return shim_prepare() && !atomic_load_explicit(&shim.watch.shut, memory_order_relaxed);
}

bool shim_threads_may_come(void)
{
    return atomic_load(&shim.table.privates) > 0 || shim_asked_for_requests();
}

/* Returns true if the environment chooses an MPICH algorithm that may reduce in any thread: "nb"
 * for blocking calls, and algorithms of the transport layer as early as the post of a nonblocking
 * call. */
static bool algorithm_is_chosen(void)
{
    for (char **entry = environ; *entry; entry++) {
        const char *value = strchr(*entry, '=');

        if (value && strncmp(*entry, "MPIR_CVAR_", 10) == 0 &&
            (strstr(*entry, "_SELECTION_TUNING_JSON_FILE=") ||
             (strstr(*entry, "_ALGORITHM=") && strcmp(value, "=auto") != 0 &&
              (strstr(*entry, "REDUCE") || strstr(*entry, "SCAN")))))
            return true;
    }
    return false;
}

static void note_operator(void)
{
    if (!concerns_us() || atomic_exchange(&shim.callbacks.operators, true))
        return;
    atomic_store(&shim.callbacks.any, true);
    if (algorithm_is_chosen())
        shim_progress_keep_out();
}

void shim_callbacks_operator(uintptr_t op)
{
    if (shim_is_user_operator(op) &&
        !atomic_load_explicit(&shim.callbacks.operators, memory_order_relaxed))
        note_operator();
}

int shim_op_create(shim_op_create_fn *next, void *function, int commute, void *op)
{
    note_operator();
    return next(function, commute, op);
}

/* Records a key whose attributes run code of the program when they are deleted. An attribute is
 * deleted at the end of its communicator or datatype, which may come after the call that frees it
 * if a call in flight still uses it. MPI_COMM_SELF and MPI_COMM_WORLD end only in MPI_Finalize,
 * during which no thread of the shim exists. */
static void remember(int keyval, bool on_comms)
{
    int i = atomic_fetch_add(&shim.callbacks.keyval_count, 1);

    if (i < SHIM_KEYVALS)
        shim.callbacks.keyvals[i] = keyval;
    else if (on_comms)
        atomic_store(&shim.callbacks.deleters, true);
    else
        shim_progress_keep_out();
}

static bool is_remembered(int keyval)
{
    int n = atomic_load_explicit(&shim.callbacks.keyval_count, memory_order_relaxed);

    for (int i = 0; i < n && i < SHIM_KEYVALS; i++)
        if (shim.callbacks.keyvals[i] == keyval)
            return concerns_us();
    return false;
}

static bool is_known(const void *function, enum shim_known what)
{
    return shim_abi.kind == SHIM_ABI_OPEN_MPI && shim_known_as((uintptr_t)function) == what;
}

/* Returns true for a callback, unless it is the predefined one that does nothing. */
static bool does_something(const void *function)
{
    return function && !is_known(function, SHIM_IS_NULL_FN);
}

/* Handles the creation of a key. MPICH runs copy functions inside the call that duplicates, in its
 * caller's thread. Predefined callbacks of the MPI library count as the application's in Fortran
 * programs, where they are functions. */
int shim_keyval(shim_keyval_fn *next, bool on_comms, void *copy, void *delete, int *keyval,
                void *extra)
{
    bool ours = concerns_us();
    bool inherited = does_something(copy); /* by duplicates, which are freed */
    bool copies = inherited && copy != shim_real_dup_fn && !is_known(copy, SHIM_IS_DUP_FN);
    bool deletes = does_something(delete);
    int err;

    if (ours && (copies || (deletes && (inherited || !on_comms))))
        atomic_store(&shim.callbacks.any, true);
    if (ours && deletes && inherited && on_comms)
        atomic_store(&shim.callbacks.deleters, true);
    err = next(copy, delete, keyval, extra);
    if (ours && deletes && err == MPI_SUCCESS && keyval)
        remember(*keyval, on_comms);
    return err;
}

void shim_fortran_key(bool has_callbacks)
{
    if (!concerns_us() || !has_callbacks)
        return;
    atomic_store(&shim.callbacks.any, true);
    atomic_store(&shim.callbacks.deleters, true);
}

int shim_set_attr(shim_set_attr_fn *next, uintptr_t comm, int keyval, void *value)
{
    const MPI_Comm handle = (MPI_Comm)shim_abi_word(comm);

    if (handle != MPI_COMM_SELF && handle != MPI_COMM_WORLD && is_remembered(keyval))
        atomic_store(&shim.callbacks.deleters, true);
    return next(comm, keyval, value);
}

/* Handles an attribute of a datatype: a freed datatype may end in any call in flight. */
int shim_type_set_attr(shim_set_attr_fn *next, uintptr_t type, int keyval, void *value)
{
    if (is_remembered(keyval))
        shim_progress_keep_out();
    return next(type, keyval, value);
}

/* ---- MPI_Comm_free ---- */

static int on_end(MPI_Comm comm, int keyval, void *value, void *extra)
{
    (void)comm, (void)keyval, (void)value, (void)extra;
    shim_progress_resume();
    return MPI_SUCCESS;
}

/* Returns true if code of the program may run when the communicator ends. */
static bool runs_code(MPI_Comm comm)
{
    return atomic_load_explicit(&shim.callbacks.deleters, memory_order_relaxed) && concerns_us() &&
           shim_threads_may_come() && shim_is_communicator((uintptr_t)comm);
}

/* Stops threads of the shim until the attributes of the communicator are deleted, by an attribute
 * of the shim. The caller frees its key. */
static int bar_until_end(MPI_Comm comm)
{
    int keyval = SHIM_NO_KEY;

    shim_progress_stop();
    if (shim_real.Comm_create_keyval(MPI_COMM_NULL_COPY_FN, on_end, &keyval, NULL) != MPI_SUCCESS ||
        shim_real.Comm_set_attr(comm, keyval, NULL) != MPI_SUCCESS)
        atomic_store(&shim.callbacks.any, true); /* until the job ends */
    return keyval;
}

/* Frees the key. A communicator whose callback has failed lives on and loses the attribute. */
static void free_key(MPI_Comm comm, int keyval, bool freed)
{
    void *value;
    int there = 0;

    if (keyval == SHIM_NO_KEY)
        return;
    if (!freed && shim_real.Comm_get_attr(comm, keyval, &value, &there) == MPI_SUCCESS && there)
        shim_real.Comm_delete_attr(comm, keyval);
    shim_real.Comm_free_keyval(&keyval);
}

int shim_comm_free(shim_comm_free_fn *next, void *comm)
{
    struct shim_comm *c;
    uintptr_t handle, outer;
    int err, keyval = SHIM_NO_KEY;

    if (atomic_load(&shim.process.phase) != SHIM_READY || !comm || !shim_is_this_process())
        return next(comm);
    handle = shim_abi_load(comm);
    if (shim_learns())
        shim_learn_forget(handle);
    c = shim_comm_begin_free(handle, &outer);
    if (runs_code((MPI_Comm)handle))
        keyval = bar_until_end((MPI_Comm)handle);
    err = next(comm);
    free_key((MPI_Comm)handle, keyval, err == MPI_SUCCESS);
    shim_comm_end_free(c, handle, outer, err == MPI_SUCCESS);
    return err;
}

int shim_comm_copied(uintptr_t comm, int err)
{
    if (err != MPI_SUCCESS || shim_abi.kind != SHIM_ABI_OPEN_MPI || !shim_prepare())
        return err;
    return shim_comm_leave_out(shim_abi_word(comm));
}
