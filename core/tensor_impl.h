/* Inside of core/tensor.c, core/registration.c and core/watch.c. */
#ifndef CORE_TENSOR_IMPL_H
#define CORE_TENSOR_IMPL_H

#include <pthread.h>

#include "core/tensor.h"

enum { SS_TENSOR_BUCKETS = 256 };

/* Lanes called once only, of which the newest may keep what they are watched by. */
enum { SS_LANES_WATCHED = 128 };

struct ss_tensor_lane {
    uint64_t calls;
    unsigned residuals; /* tensors that have one */
    struct ss_tensor *tensors;
};

struct ss_tensor_group;

struct ss_tensors {
    const struct ss_tensor_settings *settings;
    struct ss_mem *mem;
    pthread_mutex_t lock; /* of lists and `buffer`: other threads look buffers up */
    struct ss_tensor *first;
    size_t count;
    uint32_t numbers;
    struct ss_tensor_lane *lanes;
    size_t lane_count;
    uint32_t watched[SS_LANES_WATCHED]; /* the newest lanes, number + 1; a ring */
    unsigned newest_watched;
    struct ss_tensor_group *groups; /* those in which addresses do not count, or paths do */
    struct ss_tensor *buckets[SS_TENSOR_BUCKETS];
};

/* core/registration.c: what the settings and the application say of a new tensor, or of one whose
 * buffer is registered or unregistered later, `rule` being set; its residual, made with zeros
 * (false: no memory) and let go. */
void ss_tensor_admit(struct ss_tensor *t, const struct ss_rule_subject *subject);
void ss_tensor_readmit(struct ss_tensor *t);
bool ss_tensor_make_residual(struct ss_tensor *t);
void ss_tensor_drop_residual(struct ss_tensor *t);

#endif
