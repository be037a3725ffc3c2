/* P ranks in one process: a transport under a virtual clock, for tests and for predictions.
 *
 * A message of b bytes occupies the sender's link for beta b seconds and, alpha later, the
 * receiver's link as long; computing takes no time unless asked for. Events happen in the order of
 * time. With a seed the order of completions and of the ranks' steps is drawn at random (order
 * between two ranks on one tag stays), and clocks stop meaning anything. Sends are done at once,
 * or, above an eager limit, when a receive has taken the message in, as MPI libraries do with large
 * ones. A send of NULL takes the time of its length, and nothing is written where it is received.
 */
#ifndef CORE_SIM_SIM_H
#define CORE_SIM_SIM_H

#include "core/net/transport.h"

struct ss_sim;

/* Owned by the caller; NULL when memory is short. seed 0: by the clock. */
struct ss_sim *ss_sim_create(int size, double alpha, double beta, uint64_t seed);
void ss_sim_free(struct ss_sim *sim);

/* The transport of one rank; lives as long as sim. */
struct ss_transport *ss_sim_transport(struct ss_sim *sim, int rank);

/* Steps all ranks until each step function has returned other than SS_PENDING; status[rank] gets
 * that. false when no rank can move any more (a deadlock) or after `max_steps` steps. */
bool ss_sim_run(struct ss_sim *sim, int (*step)(void *ctx, int rank), void *ctx, int *status,
                uint64_t max_steps);

/* Every message holds either link by so much longer than its bytes do (at creation 0): the gap g of
 * LogP (Culler et al., PPoPP'93), which tells many small messages from a large one. */
void ss_sim_set_gap(struct ss_sim *sim, double seconds);

/* A link that was idle lets so many bytes pass at once (at creation 0), as a token bucket does.
 * They have been. */
void ss_sim_set_burst(struct ss_sim *sim, double bytes);

/* The processor time that a rank's steps take here, that of the simulator itself apart, passes for
 * it `factor` times over (at creation 0: none does), on `cores` processors that all share, 0: each
 * has its own. No two runs are the same then. */
void ss_sim_set_compute(struct ss_sim *sim, double factor, unsigned cores);

/* What the rank's step does until it ends is no computing of the rank, but of whoever simulates. */
void ss_sim_aside(struct ss_sim *sim, int rank, bool begins);

/* Sends of more than `bytes` bytes stay active until received (at creation: none do). */
void ss_sim_set_eager(struct ss_sim *sim, size_t bytes);

/* When no rank can move, all clocks advance by this many seconds instead of ss_sim_run returning
 * (at creation 0: it returns). For waits that end by TIMEOUT. */
void ss_sim_set_idle(struct ss_sim *sim, double seconds);

/* Clocks and counters begin anew, at the latest of the clocks. No message may be under way. */
void ss_sim_restart(struct ss_sim *sim);

/* Counters since creation or restart. */
uint64_t ss_sim_bytes_sent(const struct ss_sim *sim, int rank);
uint64_t ss_sim_sends(const struct ss_sim *sim, int rank); /* messages, failed ones included */
/* Messages that had to follow one another, in the longest chain of them. */
uint64_t ss_sim_rounds(const struct ss_sim *sim);
double ss_sim_clock(const struct ss_sim *sim, int rank);

/* Faults: the n-th send of `rank` (counted from 1) fails, or its message is changed on the way (the
 * byte at corrupt_byte mod its length is xored with corrupt_mask), or vanishes. 0 = never. */
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
