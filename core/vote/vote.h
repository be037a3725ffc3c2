/* The vote: one agreement of fixed size of all ranks before anything is decided.
 *
 * A ballot is a record of integers. Each field is combined over all ranks by or, min, max or sum,
 * by recursive doubling for any number of ranks. The plan sees combined fields only, so that all
 * ranks plan alike.
 */
#ifndef CORE_VOTE_VOTE_H
#define CORE_VOTE_VOTE_H

#include "core/net/meetings.h"

enum ss_vote_flag {
    SS_VOTE_CANNOT = 1 << 0,     /* no memory for this call */
    SS_VOTE_NOT_FINITE = 1 << 1, /* the input holds Inf or NaN */
    SS_VOTE_OFF = 1 << 2,        /* switched off */
    SS_VOTE_UNKNOWN = 1 << 3,    /* costs of the network are not known here */
    SS_VOTE_BROKEN = 1 << 4,     /* an earlier call on this communicator failed here */
    SS_VOTE_INTEREST = 1 << 5,   /* top-k: a tensor of the lane is or may be registered here */
    SS_VOTE_REEVALUATE = 1 << 6, /* top-k: the threshold has grown too high here */
    SS_VOTE_GUARD = 1 << 7,      /* top-k: the result of this call is compared with the dense sum */
    SS_VOTE_UNREGISTERED = 1 << 8, /* top-k: the tensor's ballot (struct ss_tensor_ballot) */
    SS_VOTE_REGISTERED = 1 << 9,
    SS_VOTE_REFUSED = 1 << 10,
    SS_VOTE_DRAIN = 1 << 11,     /* top-k: the tensor is exact and has a residual to send */
    SS_VOTE_LAYOUT = 1 << 12,    /* the arguments of this rank are not served */
    SS_VOTE_POLLED = 1 << 13,    /* the MPI library's call must not block here */
    SS_VOTE_CALLBACKS = 1 << 14, /* nonblocking calls must not be moved by threads of ours here */
    SS_VOTE_HOLDS = 1 << 15,     /* top-k: a tensor of the lane has a residual here */
    SS_VOTE_RESTING = 1 << 16,   /* top-k: the tensor is registered here, but rests */
    SS_VOTE_CLAIMS = 1 << 17,    /* top-k: this rank has claimed entries */
    SS_VOTE_NO_ROUNDS = 1 << 18, /* top-k: the next calls of the tensor cannot be partial here */
    SS_VOTE_APART = 1 << 19,     /* the call cannot be exchanged together with others here */
    SS_VOTE_PIECES = 1 << 20,    /* the MPI library's call is to be made in pieces (SS_PIECE) */
    SS_VOTE_FLAGS = (1 << 21) - 1,
    /* Off, and the reason for the report. In an allreduce no other rank says SS_VOTE_LAYOUT. */
    SS_VOTE_ENVIRONMENT = SS_VOTE_OFF | SS_VOTE_LAYOUT
};

/* Fields that must be equal on all ranks. */
enum ss_same {
    SS_SAME_SETTINGS,
    SS_SAME_LANE,
    SS_SAME_CALL,
    SS_SAME_STATE,    /* oktopk's boundaries and threshold: if not, all make them anew */
    SS_SAME_FORCED,   /* the collective that a rule names, 0 = none: if not, the job's counts */
    SS_SAME_KEEP,     /* the range that a rule keeps: if not, the call is native */
    SS_SAME_HOST,     /* the machine: if not, there are several */
    SS_SAME_FORM,     /* word size and parts (ss_call_start_kind): if not, the call is native */
    SS_SAME_LABEL,    /* of the call site: if not, sites do not count on this lane any more */
    SS_SAME_TENSOR,   /* which of the tensors of lane and site (ss_standing_code): if not, the call
                         is exact */
    SS_SAME_MEASURED, /* the lane's call that last_min is of: if not, it is ignored */
    SS_SAMES
};

/* Costs, by maximum over the ranks, as non-negative floats (their bits order as unsigned integers
 * do). */
enum ss_cost {
    SS_COST_ALPHA,
    SS_COST_BETA,
    SS_COST_SCAN,
    SS_COST_VOTE,
    SS_COST_CODE, /* the host's: struct ss_host_costs, core/place/place_costs.h */
    SS_COST_MERGE,
    SS_COST_FILL,
    SS_COST_PLACE, /* those of the place of the rank's buffers, in the order in which struct */
    SS_COSTS = SS_COST_PLACE + 7 /* ss_place_costs has them */
};

struct ss_ballot {
    uint32_t magic; /* distinguishes ballots from other data */
    uint32_t version;
    uint64_t flags; /* or of ss_vote_flag */
    uint64_t same_min[SS_SAMES];
    uint64_t same_max[SS_SAMES];
    uint64_t nnz_sum;
    uint64_t nnz_max;
    uint64_t part_max;   /* most entries of one rank in one part of the index space */
    uint64_t memory_min; /* bytes a rank may still take for this communicator's work space */
    uint64_t k_max;      /* top-k: entries asked for */
    uint64_t ratio_max;  /* top-k: norm of the residual over that of the input, double bits */
    uint64_t result_max; /* entries of the last result on this lane, 0 = not known */
    uint32_t costs[SS_COSTS];
    uint64_t last_min; /* seconds of the lane's last exchange, smallest over ranks: the last to
                          arrive waits least */
    uint64_t check;    /* hash of all other fields; set on sending, checked on arrival */
};

_Static_assert(sizeof(struct ss_ballot) <= 400, "a vote is a small message");

void ss_ballot_init(struct ss_ballot *ballot);
void ss_ballot_merge(struct ss_ballot *into, const struct ss_ballot *other);
static inline bool ss_ballot_same(const struct ss_ballot *ballot, enum ss_same field)
{
    return ballot->same_min[field] == ballot->same_max[field];
}

/* A vote in progress. Holds the buffers of both directions: nothing is allocated. */
struct ss_vote {
    struct ss_meetings meetings;
    uint32_t call;
    uint64_t bytes;          /* bytes sent so far */
    struct ss_ballot ballot; /* at first this rank's, at the end the combined one */
    struct ss_ballot outgoing;
    struct ss_ballot incoming;
};

/* Starts a vote with the filled-in vote->ballot. */
void ss_vote_start(struct ss_vote *vote, struct ss_transport *t, uint32_t call);

/* Makes progress; the caller polls the transport. Returns SS_PENDING, SS_OK with the combined
 * ballot, or an error that other ranks may not know of. SS_ERR_PROTOCOL means that a damaged
 * message arrived, or no ballot of this version. SS_ERR_TRANSPORT comes from the transport. Sets
 * *moved if a meeting has completed. */
int ss_vote_step(struct ss_vote *vote, bool *moved);

void ss_vote_cancel(struct ss_vote *vote);

#endif
