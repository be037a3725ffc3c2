/* Calibrates the network before the first plan on a communicator. */
#ifndef CORE_PLAN_CALIBRATE_H
#define CORE_PLAN_CALIBRATE_H

#include "core/net/host_layout.h"
#include "core/stream/exchange.h"
#include "core/vote/vote.h"

/* Costs of the network. */
struct ss_costs {
    bool known;
    double alpha; /* seconds per message */
    double beta;  /* seconds per byte, if all ranks of a host send at once */
};

struct ss_calibrate {
    int step;
    int next, previous; /* neighbours on the ring */
    int sent, received, messages;
    size_t size;
    bool final;
    bool again; /* the current round repeats one that took `seconds` */
    double seconds;
    double begin;
    struct ss_request sends[4], recvs[4];
    struct ss_vote vote;
    double alpha;
    struct ss_costs costs; /* result */
    uint64_t bytes;        /* bytes sent, votes included */
};

/* Makes room before the vote. Returns SS_OK or SS_ERR_MEMORY. */
int ss_calibrate_reserve(struct ss_exchange *x);
/* Starts a calibration. Neighbours on the ring are on different hosts if the layout, which may be
 * NULL, allows that: then all ranks of a host send at once, as in a collective. */
void ss_calibrate_start(struct ss_calibrate *s, struct ss_transport *t,
                        const struct ss_layout *layout);
/* Makes progress. Returns SS_PENDING, SS_OK with the result in
 * s->costs, or an error. */
int ss_calibrate_step(struct ss_exchange *x, struct ss_calibrate *s);
void ss_calibrate_cancel(struct ss_exchange *x, struct ss_calibrate *s);

#endif
