/* Log lines about the tensors of a communicator. */
#include "core/call/tensor_access.h"
#include "shim/comm/comm.h"
#include "shim/mpi/log.h"

void shim_tell_refusals(struct ss_comm *comm)
{
    char text[900];

    if (shim.rank == 0 && !atomic_load(&shim.refusals_told) &&
        ss_comm_refusals(comm, text, sizeof text) > 0 &&
        !atomic_exchange(&shim.refusals_told, true))
        shim_say(CFG_DEBUG_WARN, "%s", text);
}

void shim_tell_lost(struct ss_comm *comm)
{
    char text[600];

    if (shim.settings.topk && ss_comm_lost(comm, text, sizeof text) > 0)
        shim_say(CFG_DEBUG_WARN, "%s", text);
}

void shim_tell_held_back(struct ss_comm *comm)
{
    char text[600];

    if (shim.settings.topk && ss_comm_held_back(comm, text, sizeof text) > 0 && shim.rank == 0)
        shim_say(CFG_DEBUG_WARN, "%s", text);
}
