/* What the report says of a tensor. */
#ifndef CORE_REPORT_TENSOR_RECORD_H
#define CORE_REPORT_TENSOR_RECORD_H

#include "core/tensor/tensor.h"

struct ss_tensor_record {
    struct ss_tensor_record *next;
    const void *owner; /* the communicator while it may be booked again, else NULL */
    char comm[64];     /* MPI name, or "" */
    int size;          /* ranks */
    char site[128];    /* MODULE+OFFSET the application calls from, "" = unknown */
    char symbol[64];   /* the function there, "" = unknown */
    uint32_t ordinal;  /* within its lane and site in the step */
    enum ss_type type;
    uint64_t count; /* elements */

    enum ss_tensor_state state;
    enum ss_tensor_reason reason; /* why it is not registered, SS_TENSOR_NONE where it is */
    char rule[SS_TENSOR_RULE];    /* of REGISTER, that would register it all the same; "" = none */
    uint64_t calls;
    uint64_t decided_at;      /* call after which was first decided on it, 0 = not yet */
    uint64_t topk_calls;      /* sent sparse as top-k; the sums are over these */
    double asked_sum;         /* of the density asked for, warm-up included */
    double density_sum;       /* of the density selected */
    double off_sum;           /* of |selected - k| / k on this rank */
    uint64_t global_calls;    /* of them, by oktopk or gtopk; over these: */
    double global_off_sum;    /* of |size of the global set - k| / k */
    double residual_norm;     /* now; 0 without one */
    uint64_t late;            /* gradients that came late, of which nothing has been sent */
    double input_norm;        /* of the last input sent as top-k, 0 where there was none */
    struct ss_series *series; /* of these calls, owned; NULL = none */

    /* GUARD's last look. */
    uint64_t guard_looks;
    double guard_cosine, guard_ratio;
};

#endif
