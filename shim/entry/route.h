/* The verdict on a call, decided here. shim/entry/act.c asks for it and acts on it. */
#ifndef SHIM_ENTRY_ROUTE_H
#define SHIM_ENTRY_ROUTE_H

#include "shim/comm/comm.h"
#include "shim/mpi/state.h"

enum shim_act {
    SHIM_ACT_PASS,           /* the MPI library's, for `reason` */
    SHIM_ACT_PASS_THERE,     /* the same, and counted on its communicator */
    SHIM_ACT_PASS_AFTER,     /* the MPI library's on the private communicator, behind the calls that
                              * were taken over there, because a rank has callbacks */
    SHIM_ACT_USER_OPERATOR,  /* a nonblocking reduction with an operator of the program */
    SHIM_ACT_RECORD,         /* MODE=learn */
    SHIM_ACT_FIRST_EXCHANGE, /* on a communicator whose ranks have not agreed */
    SHIM_ACT_REFUSE,         /* on a communicator that has failed */
    SHIM_ACT_SERVE
};

struct shim_verdict {
    enum shim_act act;
    enum ss_reason reason;  /* SHIM_ACT_PASS, SHIM_ACT_PASS_THERE, and SHIM_ACT_USER_OPERATOR if it
                               is counted */
    struct shim_comm *comm; /* with a reference for the one who acts, or NULL */
    enum ss_type type;      /* SHIM_ACT_RECORD, and where the call is eligible */
    enum ss_op op;
};

/* shim/entry/route.c: decides on an allreduce; request NULL: blocking. */
struct shim_verdict shim_route_allreduce(const struct shim_call *call, const void *request);
/* shim/entry/route_slices.c: decides on a call of another kind. */
struct shim_verdict shim_route_slices(const struct shim_call *call, const void *request);

/* Returns the verdict of an eligible call on a communicator with an entry; its reference goes
 * along. */
struct shim_verdict shim_route_on(const struct shim_call *call, struct shim_comm *comm,
                                  enum ss_type type, enum ss_op op, const void *request);
/* Returns true if a call of another kind than allreduce is eligible on `size` ranks. Otherwise sets
 * *reason. */
bool shim_slices_are_eligible(const struct shim_call *call, int size, enum ss_type *type,
                              enum ss_op *op, enum ss_reason *reason);

static inline struct shim_verdict shim_pass_because(enum ss_reason reason)
{
    return (struct shim_verdict){.act = SHIM_ACT_PASS, .reason = reason};
}

#endif
