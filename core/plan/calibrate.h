/* Calibration of the network, before the first plan on a communicator. */
#ifndef CORE_PLAN_CALIBRATE_H
#define CORE_PLAN_CALIBRATE_H

#include "core/stream/exchange.h"
#include "core/vote/vote.h"

/* Measured costs of the network. */
struct ss_costs {
    bool known;
    double alpha; /* seconds per message */
    double beta;  /* seconds per byte */
};

struct ss_calibrate {
    int step;
    int sent, received, messages;
    size_t size;
    bool final;
    bool again; /* a round is repeated, which took `seconds` */
    double seconds;
    double begin;
    struct ss_request sends[4], recvs[4];
    struct ss_vote vote;
    double alpha;
    struct ss_costs costs; /* what was found */
    uint64_t bytes;        /* sent, its votes included */
};

int ss_calibrate_reserve(struct ss_exchange *x); /* before the vote: SS_OK or SS_ERR_MEMORY */
/* Begins with s->step 0. SS_OK with the costs in s->costs, SS_PENDING, or an error. */
int ss_calibrate_step(struct ss_exchange *x, struct ss_calibrate *s);
void ss_calibrate_cancel(struct ss_exchange *x, struct ss_calibrate *s);

#endif
