/* Calls the next function in all forms. */
#include "shim/mpi/real.h"
#include "shim/mpi/state.h"

#define N     int
#define AS(x) x
#include "shim/mpi/next.inc"
#undef N
#undef AS

#define N     int64_t
#define AS(x) x##_c
#include "shim/mpi/next.inc"

static const struct shim_next *next_of(const struct shim_call *c)
{
    return c->pmpi ? &shim.pmpi : &shim.next;
}

int shim_pass(const struct shim_call *c)
{
    return c->large ? pass_c(next_of(c), c) : pass(next_of(c), c);
}

int shim_ipass(const struct shim_call *c, void *request)
{
    return c->large ? ipass_c(next_of(c), c, request) : ipass(next_of(c), c, request);
}
