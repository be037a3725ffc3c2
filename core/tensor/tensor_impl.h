/* Inside of core/tensor/tensor.c, core/tensor/changes.c, core/tensor/registration.c and
 * core/tensor/profile.c. */
#ifndef CORE_TENSOR_TENSOR_IMPL_H
#define CORE_TENSOR_TENSOR_IMPL_H

#include <pthread.h>

#include "core/tensor/tensor.h"

enum { SS_TENSOR_BUCKETS = 1024 };

struct ss_tensor_lane {
    uint64_t calls;
    unsigned residuals; /* tensors that have one */
    struct ss_tensor *tensors;
    uint64_t orphan_calls, orphan_step; /* none of these has been left alone up to this number of
                                           calls and this step */
    bool several;                       /* it has come more than once in a step */
    bool joined;                        /* labels do not count */
    uint64_t *sites;                    /* of label 0 and on */
    uint32_t site_count, site_room;
};

/* What changes from that call on, on all ranks. */
enum ss_tensor_change_kind {
    SS_CHANGE_JOIN,     /* labels of a lane do not count */
    SS_CHANGE_UNMARK,   /* marks do not count */
    SS_CHANGE_TOO_SHORT /* a period is none */
};
struct ss_tensor_change {
    uint64_t from;
    enum ss_tensor_change_kind kind;
    uint32_t what; /* lane, marks, period */
};
enum { SS_TENSOR_CHANGES = 3 * SS_MERGED }; /* a call brings 3 at most */

struct ss_tensors {
    const struct ss_tensor_settings *settings;
    struct ss_mem *mem;
    pthread_mutex_t lock; /* of lists and `buffer`: other threads look buffers up */
    struct ss_tensor *first;
    size_t count;
    uint32_t numbers;
    struct ss_tensor_lane *lanes;
    size_t lane_count;
    struct ss_steps steps;
    uint64_t calls;
    double lost_square; /* of residuals lost with their place, until somebody asks */
    struct ss_tensor_change changes[SS_TENSOR_CHANGES];
    unsigned changing;       /* of these */
    struct ss_tensor *swept; /* the next one to be looked at for old samples, NULL: the first */
    struct ss_tensor *buckets[SS_TENSOR_BUCKETS];
};

/* core/tensor/changes.c: labels of the lane do not count from now on. */
void ss_tensors_join_now(struct ss_tensors *ts, uint32_t number);
/* Makes the changes that hold for the call at hand; all of them where nothing else is under way. */
void ss_tensors_change_due(struct ss_tensors *ts, bool overlaps);
/* The number will mean another lane. */
void ss_tensors_forget_joins(struct ss_tensors *ts, uint32_t lane);

/* core/tensor/registration.c: what the settings and the application say of a new tensor. */
void ss_tensor_admit(struct ss_tensor *t, const struct ss_rule_subject *subject);
/* Its calls are known to be its own: one that a rule names is registered with this call. */
void ss_tensor_identified(struct ss_tensor *t);

#endif
