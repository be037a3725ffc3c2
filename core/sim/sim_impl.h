/* The state of a simulated job, for the files of core/sim alone. */
#ifndef SS_SIM_IMPL_H
#define SS_SIM_IMPL_H

#include "core/sim/cores.h"
#include "core/sim/inbox.h"
#include "core/sim/sim.h"
#include "core/sim/tournament.h"

struct posted {
    struct posted *next;
    int src;
    struct ss_tag tag;
    void *buf;
    size_t capacity;
    struct ss_request *request;
};

struct sim_rank {
    struct ss_transport transport; /* first, so that a transport leads to its rank */
    struct ss_sim *sim;
    double clock;
    struct link {
        double out_free; /* time when the outgoing link is free */
        double in_free;
    } own, *link;      /* own unless ranks share that of their host */
    int host;          /* number of the host */
    double local_free; /* time when this rank can send inside its host again */
    struct ss_inbox inbox;
    struct posted *posted; /* receives in order of posting */
    struct posted **posted_end;
    struct ss_payload_sent last; /* payload that later sends may share */
    uint64_t sent, sent_outside; /* bytes to all ranks, to other hosts */
    uint64_t sends;
    uint64_t round; /* chain length of the latest message it has received */
    bool finished;
    bool moved;
    bool idling; /* waits for an event */
    int idle;    /* steps in a row that moved nothing */
    /* The next event of this rank, if it is known: a message comes on the link (event_arrival), or
     * the first receive is done. */
    bool event_known;
    bool event_arrival;
};

struct ss_sim {
    int size;
    double alpha;
    double beta;
    double gap; /* seconds that a message holds a link beyond its bytes */
    double lag; /* seconds that an idle link saves up */
    bool hosts; /* several ranks share a host */
    double alpha_inside, beta_inside;
    double compute;   /* seconds that pass for each second of processor time */
    double accounted; /* processor time that has been accounted for */
    struct ss_cores cores;
    uint64_t random; /* state of the random numbers, 0: by the clock */
    struct ss_sim_fault fault;
    size_t eager;                /* longer sends wait for their receive */
    double idle;                 /* seconds that pass when no rank can move, 0: the run ends */
    struct ss_tournament clocks; /* clocks of the ranks that can be stepped */
    struct ss_tournament events; /* times of the ranks' next events */
    int *unknown;                /* ranks whose next event must be found */
    int unknowns;
    struct sim_rank ranks[];
};

#endif
