/* Sets what a simulated job runs on, and reads its counters and clocks. */
#include "core/sim/sim_impl.h"

uint64_t ss_sim_bytes_sent(const struct ss_sim *sim, int rank)
{
    return sim->ranks[rank].sent;
}

uint64_t ss_sim_bytes_outside(const struct ss_sim *sim, int rank)
{
    return sim->ranks[rank].sent_outside;
}

uint64_t ss_sim_sends(const struct ss_sim *sim, int rank)
{
    return sim->ranks[rank].sends;
}

uint64_t ss_sim_rounds(const struct ss_sim *sim)
{
    uint64_t most = 0;

    for (int r = 0; r < sim->size; r++)
        if (sim->ranks[r].round > most)
            most = sim->ranks[r].round;
    return most;
}

double ss_sim_clock(const struct ss_sim *sim, int rank)
{
    return sim->ranks[rank].clock;
}

void ss_sim_set_hosts(struct ss_sim *sim, const struct ss_layout *layout, double alpha, double beta)
{
    sim->hosts = true;
    sim->alpha_inside = alpha;
    sim->beta_inside = beta;
    for (int r = 0; r < sim->size; r++) {
        sim->ranks[r].host = layout->host[r];
        sim->ranks[r].link = &sim->ranks[layout->ranks[layout->first[layout->host[r]]]].own;
    }
}

void ss_sim_set_gap(struct ss_sim *sim, double seconds)
{
    sim->gap = seconds;
}

void ss_sim_set_burst(struct ss_sim *sim, double bytes)
{
    sim->lag = bytes * sim->beta;
    for (int r = 0; r < sim->size; r++)
        sim->ranks[r].own.out_free = sim->ranks[r].own.in_free = -sim->lag;
}

void ss_sim_set_compute(struct ss_sim *sim, double factor, unsigned cores)
{
    sim->compute = factor;
    sim->cores.count = cores;
}

void ss_sim_set_eager(struct ss_sim *sim, size_t bytes)
{
    sim->eager = bytes;
}

void ss_sim_set_idle(struct ss_sim *sim, double seconds)
{
    sim->idle = seconds;
}

void ss_sim_set_fault(struct ss_sim *sim, struct ss_sim_fault fault)
{
    sim->fault = fault;
}
