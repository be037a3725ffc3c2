/* P ranks in one process: a transport under a virtual clock, for tests and for predictions.
 *
 * A message of b bytes occupies the sender's link for beta b seconds and, alpha later, the
 * receiver's link for as long. Computing takes no time unless asked for. Events happen in the order
 * of time. With a seed, the order of completions and of the ranks' steps is random, except between
 * two ranks on one tag, and clocks have no meaning. A send is done at once; above an eager limit it
 * is done when a receive has taken the message, as in MPI libraries. A send of NULL takes the time
 * of its length and writes nothing into the receive buffer.
 */
#ifndef CORE_SIM_SIM_H
#define CORE_SIM_SIM_H

#include "core/net/host_layout.h"
#include "core/net/transport.h"

struct ss_sim;

/* Creates a simulator, owned by the caller; NULL if memory is short. seed 0: by the clock. */
struct ss_sim *ss_sim_create(int size, double alpha, double beta, uint64_t seed);
void ss_sim_free(struct ss_sim *sim);

/* Returns the transport of a rank, which lives as long as sim. */
struct ss_transport *ss_sim_transport(struct ss_sim *sim, int rank);

/* Steps all ranks until each step function has returned a value other than SS_PENDING, which goes
 * to status[rank]. Returns false after `max_steps` steps, or if no rank can move (a deadlock). */
bool ss_sim_run(struct ss_sim *sim, int (*step)(void *ctx, int rank), void *ctx, int *status,
                uint64_t max_steps);

/* Puts the ranks on hosts: those of a host share one link to other hosts, and send to each other
 * beside it in alpha + beta b seconds. Each rank sends one such message at a time. */
void ss_sim_set_hosts(struct ss_sim *sim, const struct ss_layout *layout, double alpha,
                      double beta);

/* Sets the time that a message holds each link beyond its bytes, 0 at first: the gap g of LogP
 * (Culler et al., PPoPP'93), which distinguishes many small messages from a large one. */
void ss_sim_set_gap(struct ss_sim *sim, double seconds);

/* Sets the bytes that an idle link lets pass at once, 0 at first, as a token bucket does. All links
 * have been idle before. */
void ss_sim_set_burst(struct ss_sim *sim, double bytes);

/* Makes the processor time of a rank's steps, without the simulator's own, count `factor` times for
 * the rank (0 at first). The ranks share `cores` processors; 0: each has its own. Runs then no
 * longer repeat. */
void ss_sim_set_compute(struct ss_sim *sim, double factor, unsigned cores);

/* Keeps sends of more than `bytes` bytes active until they are received; at first none. */
void ss_sim_set_eager(struct ss_sim *sim, size_t bytes);

/* Advances all clocks by `seconds` whenever no rank can move, instead of ending ss_sim_run (0 at
 * first). For waits that end by TIMEOUT. */
void ss_sim_set_idle(struct ss_sim *sim, double seconds);

/* Restarts clocks and counters, at the latest clock. No message may be in flight. */
void ss_sim_restart(struct ss_sim *sim);

/* Return counters since creation or restart. */
uint64_t ss_sim_bytes_sent(const struct ss_sim *sim, int rank);
uint64_t ss_sim_bytes_outside(const struct ss_sim *sim, int rank); /* sent to other hosts */
uint64_t ss_sim_sends(const struct ss_sim *sim, int rank); /* messages, including failed ones */
/* Returns the length of the longest chain of messages that had to follow one another. */
uint64_t ss_sim_rounds(const struct ss_sim *sim);
double ss_sim_clock(const struct ss_sim *sim, int rank);

/* Faults of a rank's n-th send, counted from 1; 0: never. The send fails, its message vanishes, or
 * its message is changed (the byte at corrupt_byte mod its length is xored with corrupt_mask). */
struct ss_sim_fault {
    int rank;
    uint64_t fail_send;
    uint64_t corrupt_send;
    uint64_t lose_send;
    size_t corrupt_byte;
    unsigned char corrupt_mask; /* 0: 0x10 */
};
void ss_sim_set_fault(struct ss_sim *sim, struct ss_sim_fault fault);

/* Advances a rank's clock by the cost of local work, in seconds. */
void ss_sim_compute(struct ss_sim *sim, int rank, double seconds);

#endif
