/* Inside of core/tensor/tensor.c and core/tensor/registration.c. */
#ifndef CORE_TENSOR_TENSOR_IMPL_H
#define CORE_TENSOR_TENSOR_IMPL_H

#include <pthread.h>

#include "core/tensor/tensor.h"

enum { SS_TENSOR_BUCKETS = 1024 };

struct ss_tensor_lane {
    uint64_t calls;
    unsigned residuals; /* tensors that have one */
    struct ss_tensor *tensors;
    struct ss_lane_rules rules;
};

struct ss_tensors {
    const struct ss_tensor_settings *settings;
    struct ss_mem *mem;
    struct ss_identity identity;
    pthread_mutex_t lock; /* of lists and `buffer`: other threads look buffers up */
    struct ss_tensor *first;
    size_t count;
    struct ss_tensor_lane *lanes;
    size_t lane_count;
    uint64_t calls;
    double lost_square; /* squared norm of residuals lost with their backend, until reported */
    struct ss_tensor *buckets[SS_TENSOR_BUCKETS];
};

/* core/tensor/registration.c. Returns the rule of REGISTER for a call. */
struct ss_call_rule ss_tensors_rule(const struct ss_tensors *ts, const struct ss_tensor_call *call,
                                    const struct ss_rule_subject *subject);
/* Makes a new tensor a candidate or exact, by REGISTER, EXCLUDE and the application. */
void ss_tensor_admit(struct ss_tensor *t, const struct ss_rule_subject *subject);
/* Registers a candidate that a rule or the application names: a call is known to be its own. */
void ss_tensor_identified(struct ss_tensor *t);

#endif
