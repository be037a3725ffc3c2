/* The vote: one exchange of fixed size among all ranks before anything is decided.
 *
 * A ballot is a record of integers. Each field is combined over all ranks by or, min, max or sum,
 * by recursive doubling for any number of ranks. The plan sees combined fields only, so that all
 * ranks plan alike.
 */
#ifndef CORE_VOTE_VOTE_H
#define CORE_VOTE_VOTE_H

#include "core/net/schedule_exchange.h"

/* Flags of a ballot. The second half of each comment says why no other flag can stand for it. */
enum ss_vote_flag {
    /* Nothing is known of the input: no memory for the call, or a device failed. Memory may be
     * there next time, so that the lane does not back off as for LAYOUT. */
    SS_VOTE_CANNOT = 1 << 0,
    /* The input holds Inf or NaN. The report has a reason of its own, and a lossy call warns. */
    SS_VOTE_NOT_FINITE = 1 << 1,
    /* The program switched the library off. OFF precedes CANNOT, which asks for no remedy then. */
    SS_VOTE_OFF = 1 << 2,
    /* The costs of the network are not known. The only flag that leads to a calibration. */
    SS_VOTE_UNKNOWN = 1 << 3,
    /* An earlier call failed. The only flag that is an error on all ranks. */
    SS_VOTE_BROKEN = 1 << 4,
    /* A tensor of the lane is or may be registered, or has rounds: the lane does not back off.
     * A rank sets INTEREST in exact calls as well, without REGISTERED. */
    SS_VOTE_INTEREST = 1 << 5,
    /* The threshold claimed too few entries: all ranks find a new one. The call goes on. */
    SS_VOTE_REEVALUATE = 1 << 6,
    /* The result is compared with the dense sum: all ranks take part. The call goes on. */
    SS_VOTE_GUARD = 1 << 7,
    /* The tensor is exact. Together with REGISTERED of another rank it says that ranks differ,
     * which the absence of REGISTERED cannot say: ranks without the tensor set neither. */
    SS_VOTE_UNREGISTERED = 1 << 8,
    /* The tensor is lossy, whether it claims or rests in this call. */
    SS_VOTE_REGISTERED = 1 << 9,
    /* The tensor is exact for good. After 8 votes it is so on all ranks; UNREGISTERED may pass. */
    SS_VOTE_REFUSED = 1 << 10,
    /* The tensor is exact and its residual joins the sum: the call is dense even if sparse is
     * faster. */
    SS_VOTE_JOINS = 1 << 11,
    /* The arguments are not served. The lane backs off. */
    SS_VOTE_LAYOUT = 1 << 12,
    /* The MPI library's call must be one that can be polled. The call may still be sparse. */
    SS_VOTE_POLLED = 1 << 13,
    /* Threads of the library may not move nonblocking calls. Blocking ones stay sparse. */
    SS_VOTE_CALLBACKS = 1 << 14,
    /* Some tensor of the lane, not only this call's, has a residual: the input is not sampled. */
    SS_VOTE_HAS_RESIDUAL = 1 << 15,
    /* The tensor is lossy and has not claimed, since dense was faster. With CLAIMS of another rank
     * it says that ranks differ. */
    SS_VOTE_RESTING = 1 << 16,
    /* The rank has claimed entries. A call that ends a rest votes first RESTING, then CLAIMS. */
    SS_VOTE_CLAIMS = 1 << 17,
    /* The tensor's next calls cannot be partial. A negative, since all ranks must be able to. */
    SS_VOTE_NO_ROUNDS = 1 << 18,
    /* The call cannot be exchanged together with others. Alone it stays sparse. */
    SS_VOTE_APART = 1 << 19,
    /* The MPI library's call is made in pieces (SS_PIECE), which says nothing of the reason. */
    SS_VOTE_PIECES = 1 << 20,
    /* The call cannot be made on two levels. On one level it stays sparse. */
    SS_VOTE_FLAT = 1 << 21,
    /* The rank's input cannot be read by others of its host: the host's sum takes messages. */
    SS_VOTE_HIDDEN = 1 << 22,
    SS_VOTE_FLAGS = (1 << 23) - 1,
    /* Off because of traps or a rounding mode: a reason for the report that needs no flag, since an
     * allreduce that is off does not say LAYOUT. */
    SS_VOTE_ENVIRONMENT = SS_VOTE_OFF | SS_VOTE_LAYOUT
};

/* Fields that must be equal on all ranks. */
enum ss_same {
    SS_SAME_SETTINGS,
    SS_SAME_LANE,
    SS_SAME_CALL,
    SS_SAME_FORCED,   /* the collective that a rule names, 0 = none: if not, the job's counts */
    SS_SAME_KEEP,     /* the range that a rule keeps: if not, the call is native */
    SS_SAME_HOST,     /* the machine: if not, there are several */
    SS_SAME_FORM,     /* word size and parts (ss_call_start_kind): if not, the call is native */
    SS_SAME_TENSOR,   /* which of the lane's (ss_identity_code): if not, the call is exact */
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
    SS_COST_CODE, /* the host's: struct ss_host_costs, core/backend/backend_costs.h */
    SS_COST_MERGE,
    SS_COST_FILL,
    SS_COST_BACKEND, /* those of the backend of the rank's buffers, in the order in which struct */
    SS_COSTS = SS_COST_BACKEND + 7 /* ss_backend_costs has them */
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
    /* top-k: squared norm of the residual over that of the input, double bits */
    uint64_t ratio_max;
    uint64_t result_max; /* entries of the last result on this lane, 0 = not known */
    /* of hashes of oktopk's boundaries and threshold, mod 2^64; 0 if they are the same on all ranks
     * that share them: if not, all make them anew */
    uint64_t state_sum;
    uint32_t costs[SS_COSTS];
    uint64_t last_min; /* seconds of the lane's last exchange, smallest over ranks: the last to
                          arrive waits least */
    uint64_t check;    /* hash of all other fields; set on sending, checked on arrival */
};

_Static_assert(sizeof(struct ss_ballot) == 296, "core/README.md says how large a vote is");

void ss_ballot_init(struct ss_ballot *ballot);
void ss_ballot_merge(struct ss_ballot *into, const struct ss_ballot *other);
static inline bool ss_ballot_same(const struct ss_ballot *ballot, enum ss_same field)
{
    return ballot->same_min[field] == ballot->same_max[field];
}

/* A vote in progress. Holds the buffers of both directions: nothing is allocated. */
struct ss_vote {
    struct ss_schedule_exchange exchange;
    uint32_t call;
    uint64_t bytes, inside;  /* bytes sent so far; those of them to ranks of the same host */
    struct ss_ballot ballot; /* at first this rank's, at the end the combined one */
    struct ss_ballot outgoing;
    struct ss_ballot incoming;
};

/* Starts a vote with the filled-in vote->ballot. */
void ss_vote_start(struct ss_vote *vote, struct ss_transport *t, uint32_t call);

/* Makes progress; the caller polls the transport. Returns SS_PENDING, SS_OK with the combined
 * ballot, or an error that other ranks may not know of. SS_ERR_PROTOCOL means that a damaged
 * message arrived, or no ballot of this version. SS_ERR_TRANSPORT comes from the transport. Sets
 * *moved if a pair exchange has completed. */
int ss_vote_step(struct ss_vote *vote, bool *moved);

void ss_vote_cancel(struct ss_vote *vote);

#endif
