/* Log lines about the tensors of a communicator. */
#include "core/call/tensor_access.h"
#include "shim/comm/comm.h"
#include "shim/mpi/log.h"

void shim_tell_lost(struct ss_comm *comm)
{
    char text[600];

    if (shim.settings.topk && ss_comm_lost(comm, text, sizeof text) > 0)
        shim_say(CFG_DEBUG_WARN, "%s", text);
}

void shim_tell_freed(const struct shim_comm *c)
{
    double norm;

    if (!shim.settings.topk || shim.process.rank != 0 || atomic_load(&shim.process.finalizing) ||
        atomic_load(&shim.table.freed_logged) || !((norm = ss_comm_residual(c->core)) > 0))
        return;
    atomic_store(&shim.table.residuals_freed, true);
    if (c->follows && !atomic_exchange(&shim.table.freed_logged, true))
        shim_say(CFG_DEBUG_WARN,
                 "lossy: communicator \"%s\" was freed with residuals of norm %.3g, like another "
                 "one before: each time, what lossy calls have kept back is lost; keep one "
                 "communicator for all steps, or EXCLUDE the sums on such communicators",
                 c->name, norm);
}

void shim_tell_unsent(struct ss_comm *comm)
{
    char text[600];

    if (shim.settings.topk && ss_comm_unsent(comm, text, sizeof text) > 0 && shim.process.rank == 0)
        shim_say(CFG_DEBUG_WARN, "%s", text);
}
