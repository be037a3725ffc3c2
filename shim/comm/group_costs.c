/* Keeps costs of the network by the group of ranks they were measured over. */
#include "shim/comm/comm.h"
#include "shim/mpi/log.h"
#include "shim/mpi/real.h"

/* Returns the slot for the costs of a group: the one that holds them, or an empty one, or the one
 * unused for longest. Called under the lock of the costs. */
static struct shim_costs *costs_slot(MPI_Group group, bool *found)
{
    struct shim_costs *oldest = &shim.costs.slots[0];
    int same;

    *found = true;
    for (struct shim_costs *s = shim.costs.slots; s < shim.costs.slots + SHIM_COSTS; s++) {
        if (s->last_used > 0 &&
            shim_real.Group_compare(group, (MPI_Group)s->group, &same) == MPI_SUCCESS &&
            same != MPI_UNEQUAL)
            return s;
        if (s->last_used < oldest->last_used)
            oldest = s;
    }
    *found = false;
    return oldest;
}

struct ss_costs shim_costs_of(MPI_Comm comm)
{
    struct ss_costs costs = {0};
    struct shim_costs *slot;
    MPI_Group group = 0;
    bool found;

    if (shim_real.Comm_group(comm, &group) != MPI_SUCCESS)
        return costs;
    pthread_mutex_lock(&shim.costs.lock);
    slot = costs_slot(group, &found);
    if (found) {
        costs = slot->costs;
        slot->last_used = ++shim.costs.clock;
    }
    pthread_mutex_unlock(&shim.costs.lock);
    shim_real.Group_free(&group);
    return costs;
}

static void tell_costs(const struct shim_comm *c, const struct ss_costs *costs)
{
    if (c->rank == 0 && !c->costs_logged)
        shim_say(CFG_DEBUG_INFO,
                 "communicator \"%s\" of %d ranks: measured %.3g s per message, %.3g s per byte",
                 c->name, c->size, costs->alpha, costs->beta);
}

void shim_comm_keep_costs(struct shim_comm *c)
{
    struct ss_costs costs;
    struct shim_costs *slot;
    MPI_Group group = 0, old = 0;
    bool found, had;

    if (c->costs_kept)
        return;
    costs = ss_comm_costs(c->core);
    if (!costs.known || shim_real.Comm_group(c->private, &group) != MPI_SUCCESS)
        return;
    c->costs_kept = true;
    tell_costs(c, &costs);
    pthread_mutex_lock(&shim.costs.lock);
    slot = costs_slot(group, &found);
    had = slot->last_used > 0;
    old = (MPI_Group)slot->group;
    *slot = (struct shim_costs){costs, (uintptr_t)group, ++shim.costs.clock};
    pthread_mutex_unlock(&shim.costs.lock);
    if (had)
        shim_real.Group_free(&old);
}

void shim_costs_forget(void)
{
    for (struct shim_costs *s = shim.costs.slots; s < shim.costs.slots + SHIM_COSTS; s++) {
        MPI_Group group = (MPI_Group)s->group;

        if (s->last_used > 0)
            shim_real.Group_free(&group);
        *s = (struct shim_costs){0};
    }
}
