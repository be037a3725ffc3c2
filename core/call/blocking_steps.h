/* What blocking calls of a step, one after another, would take as nonblocking ones with MERGE=auto:
 * for the report, where one is written. The step is a period of the last calls that were made
 * sparse; the times are this rank's, the costs those that the ranks have agreed on. */
#ifndef CORE_CALL_BLOCKING_STEPS_H
#define CORE_CALL_BLOCKING_STEPS_H

#include "core/plan/merging.h"
#include "core/report/stats.h"

enum { SS_BLOCKING_RING = 1024, SS_BLOCKING_STEP = 256 }; /* calls remembered, of a step at most */

struct ss_blocking_call {
    uint64_t key;       /* of its lane */
    double begun, over; /* seconds */
    uint64_t elements, entries;
};

/* Of a communicator. Zero-initialise. */
struct ss_blocking_steps {
    struct ss_blocking_call calls[SS_BLOCKING_RING]; /* by number */
    uint64_t count;                                  /* so far */
    struct ss_merging_costs costs;                   /* of the last one */
};

void ss_blocking_note(struct ss_blocking_steps *b, const struct ss_blocking_call *call,
                      const struct ss_merging_costs *costs);

/* False: the calls have no period of several lanes that has come three times, or there is no
 * memory. */
bool ss_blocking_judge(const struct ss_blocking_steps *b, struct ss_blocking_record *record);

#endif
