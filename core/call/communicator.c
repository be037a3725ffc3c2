/* State that lasts between the calls on a communicator, but for its lanes: costs, work space. */
#include <stdio.h>
#include <stdlib.h>

#include "core/base/fpenv.h"
#include "core/call/group.h"
#include "core/feedback/feedback.h"
#include "core/partial/rounds.h"

void ss_comm_rename(struct ss_comm *comm, const char *name)
{
    snprintf(comm->name, sizeof comm->name, "%s", name);
}

struct ss_comm *ss_comm_create(struct ss_transport *transport, const struct ss_settings *settings,
                               struct ss_mem *mem, struct ss_stats *stats, const char *name)
{
    struct ss_comm *comm = calloc(1, sizeof *comm);

    if (!comm)
        return NULL;
    comm->slots[0] = calloc(1, sizeof *comm->slots[0]);
    if (!comm->slots[0]) {
        free(comm);
        return NULL;
    }
    comm->most_in_flight = settings->merge > 0 ? SS_MERGED : SS_IN_FLIGHT;
    comm->t = transport;
    comm->settings = settings;
    comm->mem = mem;
    comm->stats = stats;
    ss_comm_rename(comm, name);
    comm->cost_scan = 1e-10;
    comm->cost_vote = 0;
    if (ss_costs_fixed(settings)) /* no calibration */
        comm->network = (struct ss_costs){true, settings->alpha, settings->beta};
    comm->costs_agreed = comm->network.known;
    if (settings->topk && !(comm->tensors = ss_tensors_create(&settings->tensors, mem))) {
        ss_comm_free(comm);
        return NULL;
    }
    if (settings->merge > 0) {
        pthread_mutex_lock(&stats->lock);
        stats->merged.on = true;
        pthread_mutex_unlock(&stats->lock);
    }
    if (settings->merge > 0 && !(comm->grouping = ss_grouping_create(comm))) {
        ss_comm_free(comm);
        return NULL;
    }
    return comm;
}

void ss_comm_free(struct ss_comm *comm)
{
    if (!comm)
        return;
    for (unsigned i = 0; i < SS_MERGED; i++) {
        if (!comm->slots[i])
            continue; /* works[i] was never used: its pages are not touched */
        ss_work_free(&comm->works[i]);
        free(comm->slots[i]);
    }
    ss_grouping_free(comm->grouping);
    ss_rounds_free(comm->rounds);
    ss_tensors_free(comm->tensors);
    free(comm);
}

unsigned ss_comm_most_in_flight(const struct ss_comm *comm)
{
    return comm->most_in_flight;
}

int ss_comm_status(const struct ss_comm *comm)
{
    return comm->failure_agreed ? comm->status : SS_OK;
}

void ss_comm_fail(struct ss_comm *comm, int status, int peer, enum ss_phase phase, uint64_t number)
{
    if (comm->rounds)
        ss_rounds_fail(comm->rounds, status);
    if (comm->status < 0)
        return;
    comm->status = status;
    comm->failed_peer = peer;
    comm->failed_phase = phase;
    comm->failed_call = number;
}

struct ss_costs ss_comm_costs(const struct ss_comm *comm)
{
    return comm->network;
}

void ss_comm_set_costs(struct ss_comm *comm, struct ss_costs costs)
{
    if (!comm->network.known)
        comm->network = costs;
}

void ss_comm_set_layout(struct ss_comm *comm, const struct ss_layout *layout)
{
    comm->layout = layout;
    comm->t->layout = layout && layout->most > 1 ? layout : NULL;
}

void ss_comm_set_shared(struct ss_comm *comm, struct ss_shared *shared)
{
    comm->shared = shared;
}

bool ss_comm_wants_peers(const struct ss_comm *comm)
{
    return ss_host_sum_wants_peers(comm);
}

void ss_comm_set_peers(struct ss_comm *comm, struct ss_peers *peers)
{
    comm->peers = peers;
}

void ss_comm_differs(struct ss_comm *comm)
{
    comm->mismatch_from = 1;
}

void ss_comm_set_caller(struct ss_comm *comm, const struct ss_caller *caller)
{
    comm->caller = *caller;
}

bool ss_comm_warning(struct ss_comm *comm, char *text, size_t size, bool *own)
{
    if (!comm->warning[0])
        return false;
    *own = comm->warning_own;
    snprintf(text, size, "%s", comm->warning);
    comm->warning[0] = '\0';
    return true;
}
