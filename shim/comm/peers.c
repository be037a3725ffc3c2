/* Lets the ranks of a host read each other's memory, if the system does (ptrace(2), section "Ptrace
 * access mode checking"). */
#include "shim/comm/peers.h"

#include "shim/mpi/log.h"
#include "shim/mpi/real.h"

_Static_assert(sizeof(struct ss_peer) == 2 * sizeof(uint64_t), "MPI_UINT64_T, two of them");

/* Returns true if `own` is true on all ranks. */
static bool agree(const struct shim_comm *c, bool own)
{
    const long long mine = own;
    long long all = 0;

    return shim_real.Allreduce(&mine, &all, 1, MPI_LONG_LONG, MPI_MIN, c->private) == MPI_SUCCESS &&
           all;
}

/* Returns what a rank shows in the first exchange: another value on each rank of a host. Containers
 * may give all ranks the same process number, and without address randomization all show their
 * value at the same address. A rank then reads its own memory instead of another's, and sees its
 * own value. */
static uint64_t shown_by(const struct shim_comm *c, int rank)
{
    return c->hosts.layout->ids[rank] + (uint64_t)rank;
}

/* Tries to read what each rank of this host shows. The number of the first exchange tells the ranks
 * from processes of another namespace that have their numbers. */
static bool can_read(const struct shim_comm *c, uint64_t number)
{
    const struct ss_layout *l = c->hosts.layout;
    uint64_t address;

    for (int r = 0; r < c->size; r++)
        if (l->host[r] == l->host[c->rank] &&
            (!ss_peers_look(c->hosts.peers, r, number, &address) || address != shown_by(c, r)))
            return false;
    return true;
}

static bool prove(struct shim_comm *c)
{
    const uint64_t number = (uint64_t)c->first.agreed[SHIM_EXCHANGE_NUMBER] + 1;
    struct ss_peer own;
    bool reads;

    c->hosts.peers = ss_peers_create(c->size);
    if (!agree(c, c->hosts.peers != NULL) || !c->hosts.peers)
        return false;
    own = ss_peers_own(c->hosts.peers);
    c->hosts.peers->shown = (struct ss_shown){.call = number, .address = shown_by(c, c->rank)};
    if (shim_real.Allgather(&own, 2, MPI_UINT64_T, c->hosts.peers->peer, 2, MPI_UINT64_T,
                            c->private) != MPI_SUCCESS)
        return false;
    reads = agree(c, can_read(c, number));
    ss_peers_hide(c->hosts.peers, number);
    return reads;
}

void shim_peers_open(struct shim_comm *c)
{
    if (prove(c)) {
        ss_comm_set_peers(c->core, c->hosts.peers);
    } else {
        ss_peers_free(c->hosts.peers);
        c->hosts.peers = NULL;
    }
    if (c->rank == 0)
        shim_say(CFG_DEBUG_INFO, "communicator \"%s\" of %d ranks: the ranks of a host %s", c->name,
                 c->size,
                 c->hosts.peers ? "read each other's memory" : "cannot read each other's memory");
}
