/* Queries the MPI library about handles, unseen by handlers of the application. */
#include <stdlib.h>
#include <string.h>

#include "shim/comm/comm.h"
#include "shim/mpi/handles.h"
#include "shim/mpi/real.h"

static int make_from(MPI_Group group, MPI_Comm *made)
{
    if (shim_real_create_from_group)
        return shim_real_create_from_group(group, "sparseshim", MPI_INFO_NULL, MPI_ERRORS_RETURN,
                                           made);
    return shim_real.Comm_create(MPI_COMM_SELF, group, made);
}

/* Makes a communicator of this rank alone with MPI_ERRORS_RETURN. Returns MPI_COMM_NULL if the MPI
 * library cannot make one, as before MPI 4. */
static MPI_Comm make_single(void)
{
    MPI_Comm single = MPI_COMM_NULL;
    MPI_Group group = 0;

    if (!shim_real_create_from_group && shim_abi.kind != SHIM_ABI_OPEN_MPI)
        return MPI_COMM_NULL;
    if (shim_real.Comm_group(MPI_COMM_SELF, &group) != MPI_SUCCESS)
        return MPI_COMM_NULL;
    if (make_from(group, &single) != MPI_SUCCESS)
        single = MPI_COMM_NULL;
    shim_real.Group_free(&group);
    if (single != MPI_COMM_NULL && !shim_real_create_from_group)
        shim_real.Comm_set_errhandler(single, MPI_ERRORS_RETURN);
    return single;
}

/* Returns the common communicator for queries, or MPI_COMM_NULL. */
static MPI_Comm single(void)
{
    pthread_mutex_lock(&shim.library.single_lock);
    if (shim.library.single == 0)
        shim.library.single = (uintptr_t)make_single();
    pthread_mutex_unlock(&shim.library.single_lock);
    return (MPI_Comm)shim.library.single;
}

MPI_Comm shim_comm_make_probe(void)
{
    pthread_mutex_lock(&shim.library.single_lock);
    MPI_Comm probe = make_single();
    pthread_mutex_unlock(&shim.library.single_lock);
    return probe;
}

/* Compares the handle with a communicator: the call fails if the handle was freed. MPICH 5 then
 * calls a handler of the application, whichever communicator is named first, and hides the error if
 * the handler returns, but leaves the result unwritten. */
bool shim_comm_exists(uintptr_t handle)
{
    int result = MPI_UNDEFINED;

    if (!shim.library.hides_errors || shim.process.sessions ||
        atomic_load(&shim.process.finalizing))
        return true;
    if ((MPI_Comm)handle == MPI_COMM_NULL)
        return false;
    return single() == MPI_COMM_NULL ||
           (shim_real.Comm_compare(single(), (MPI_Comm)handle, &result) == MPI_SUCCESS &&
            result != MPI_UNDEFINED);
}

/* Packs one element on a communicator whose handler belongs to this library. If `c` passes through,
 * there is none, and a temporary one is made: a lasting one could get the handle of a communicator
 * that the program has freed, which must go on failing. If none can be made, the type
 * counts as committed and the MPI library raises the error. */
bool shim_type_is_committed(uintptr_t type, const struct shim_comm *c)
{
    MPI_Comm made = MPI_COMM_NULL, comm = c->private;
    bool committed = true;
    int position = 0;
    char byte = 0;

    if (comm == MPI_COMM_NULL)
        comm = made = shim_comm_make_probe();
    if (comm != MPI_COMM_NULL)
        committed =
            shim_real.Pack(&byte, 0, (MPI_Datatype)type, &byte, 1, &position, comm) == MPI_SUCCESS;
    if (made != MPI_COMM_NULL)
        shim_real.Comm_free(&made);
    return committed;
}

/* ---- types and operators ---- */

bool shim_type_form(MPI_Datatype type, struct shim_form *form)
{
    MPI_Count integers = 0, addresses = 0, large = 0, types = 0;
    int n[3] = {0, 0, 0}, err;

    form->combiner = 0;
    if (shim_real_envelope_c) {
        err = shim_real_envelope_c(type, &integers, &addresses, &large, &types, &form->combiner);
    } else {
        err = shim_real.Type_get_envelope(type, &n[0], &n[1], &n[2], &form->combiner);
        integers = n[0];
        addresses = n[1];
        types = n[2];
    }
    form->integers = integers;
    form->types = types;
    form->others = addresses > 0 || large > 0;
    return err == MPI_SUCCESS;
}

/* Finds the class of a type of given precision, whose handle is valid. */
static bool find_precision(MPI_Datatype type, enum ss_type *found)
{
    struct shim_form form;
    int size;

    if (!shim_type_form(type, &form) ||
        (form.combiner != MPI_COMBINER_F90_REAL && form.combiner != MPI_COMBINER_F90_INTEGER) ||
        shim_real.Type_size(type, &size) != MPI_SUCCESS || (size != 4 && size != 8))
        return false;
    if (form.combiner == MPI_COMBINER_F90_REAL)
        *found = size == 4 ? SS_F32 : SS_F64;
    else
        *found = size == 4 ? SS_I32 : SS_I64;
    return true;
}

/* Returns true if the MPI library takes the operator on the type, by a reduction of one rank. If no
 * communicator can be made, the library takes the types that it names. */
static bool takes(const struct shim_call *call)
{
    MPI_Comm made = shim.process.sessions ? MPI_COMM_NULL : shim_comm_make_probe();
    uint64_t one[8] = {0}, result[8];
    bool takes = !shim_is_derived(call->type);

    if (made == MPI_COMM_NULL)
        return takes;
    takes = shim_real.Allreduce(one, result, 1, (MPI_Datatype)call->type, (MPI_Op)call->op, made) ==
            MPI_SUCCESS;
    shim_real.Comm_free(&made);
    return takes;
}

/* Looks up an earlier positive answer; no program frees these types before MPI_Finalize. */
static bool is_known(const struct shim_call *call, enum ss_type *type)
{
    bool known = false;

    pthread_mutex_lock(&shim.library.single_lock);
    for (size_t i = 0; i < SHIM_PAIRS && !known; i++) {
        const struct shim_pair *p = &shim.library.pairs[i];

        known = p->type != 0 && p->type == call->type && p->op == call->op;
        if (known)
            *type = p->found;
    }
    pthread_mutex_unlock(&shim.library.single_lock);
    return known;
}

static void remember(const struct shim_call *call, enum ss_type type)
{
    pthread_mutex_lock(&shim.library.single_lock);
    shim.library.pairs[shim.library.next_pair++ % SHIM_PAIRS] =
        (struct shim_pair){call->type, call->op, type};
    pthread_mutex_unlock(&shim.library.single_lock);
}

bool shim_operation_asked(const struct shim_call *call, enum ss_type *type, enum ss_op *op)
{
    const bool named = shim_operation(call, type, op);

    if (named ? !shim_is_disputed(call)
              : !shim_is_derived(call->type) || !shim_operator(call->op, op))
        return named;
    if (!is_known(call, type)) {
        if (!atomic_load(&shim.process.started) || atomic_load(&shim.process.finalized) ||
            !takes(call) || (!named && !find_precision((MPI_Datatype)call->type, type)))
            return false;
        remember(call, *type);
    }
    return *op == SS_SUM || !ss_type_is_float(*type);
}

void shim_pairs_forget(void)
{
    pthread_mutex_lock(&shim.library.single_lock);
    memset(shim.library.pairs, 0, sizeof shim.library.pairs);
    pthread_mutex_unlock(&shim.library.single_lock);
}

bool shim_comm_within_world(MPI_Group group, int size)
{
    int *ranks = malloc(2 * (size_t)size * sizeof *ranks), *found = ranks + size;
    bool within = ranks != NULL;
    MPI_Group world = 0;

    for (int i = 0; within && i < size; i++)
        ranks[i] = i;
    within = within && shim_real.Comm_group(MPI_COMM_WORLD, &world) == MPI_SUCCESS;
    if (within) {
        within = shim_real.Group_translate_ranks(group, size, ranks, world, found) == MPI_SUCCESS;
        for (int i = 0; within && i < size; i++)
            within = found[i] != MPI_UNDEFINED;
        shim_real.Group_free(&world);
    }
    free(ranks);
    return within;
}

int shim_comm_size_of(uintptr_t handle)
{
    MPI_Comm comm = (MPI_Comm)handle;
    int inter = 1, size = 0;

    if (shim_real.Comm_test_inter(comm, &inter) != MPI_SUCCESS || inter ||
        shim_real.Comm_size(comm, &size) != MPI_SUCCESS)
        return 0;
    return size;
}
