/* A tensor in the report. */
#ifndef CORE_REPORT_TENSOR_RECORD_H
#define CORE_REPORT_TENSOR_RECORD_H

#include "core/tensor/tensor.h"

struct ss_json;
struct ss_stats;

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
    enum ss_tensor_reason reason; /* SS_TENSOR_NONE if it is registered */
    char rule[SS_TENSOR_RULE];    /* rule of REGISTER that would register it; "" = none */
    uint64_t calls;
    uint64_t decided_at;      /* number of the call that first settled its state, 0 = not yet */
    uint64_t topk_calls;      /* sent sparse as top-k; the sums are over these */
    double asked_sum;         /* density asked for, warm-up included */
    double density_sum;       /* density selected */
    double off_sum;           /* |selected - k| / k on this rank */
    uint64_t global_calls;    /* calls among these by oktopk or gtopk */
    double global_off_sum;    /* |size of the global set - k| / k over global_calls */
    bool by_host;             /* the residual is its host's (struct ss_residual_range) */
    double residual_norm;     /* now; 0 without a residual */
    uint64_t late;            /* late gradients of which nothing has been sent */
    double input_norm;        /* of the last input sent as top-k, 0 before it */
    struct ss_series *series; /* of the top-k calls, owned; NULL = none */

    /* GUARD's last comparison. */
    uint64_t guard_looks;
    double guard_cosine, guard_ratio;
};

/* Writes the array of all tensors of a report. */
void ss_tensors_write_json(struct ss_json *j, const struct ss_stats *stats);

#endif
