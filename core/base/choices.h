/* clang-format off */
/* The choices of options: each list pairs the constant of the code with the word that users type
 * and that reports print. The option table (config/table.c) and core expand the same lists. This
 * header includes nothing, not even libc.
 *
 *     X(SS_VALUES_BF16, bf16)    constant, word
 */
/* clang-format on */
#ifndef CORE_BASE_CHOICES_H
#define CORE_BASE_CHOICES_H

#define SS_CHOICE_ID(id, word) id,

/* The sparse allreduces: exact ones of one level, which two_level may run between hosts, and those
 * that keep the global top-k only, so that they need MODE=topk. The word is also the name of the
 * algorithm's definition (core/coll/algorithms.h). */
/* clang-format off */
#define SS_EXACT_LIST(X)                                                                           \
    X(SS_RECURSIVE_DOUBLING, recursive_doubling)                                                   \
    X(SS_SPLIT_ALLGATHER, split_allgather)                                                         \
    X(SS_DSAR, dsar)                                                                               \
    X(SS_RING, ring)                                                                               \
    X(SS_ALLGATHER, allgather)
#define SS_GLOBAL_LIST(X)                                                                          \
    X(SS_OKTOPK, oktopk)                                                                           \
    X(SS_GTOPK, gtopk)
/* Algorithms that send every element in few bits, for tensors of density 1 (core/feedback/whole.c). */
#define SS_WHOLE_LIST(X) X(SS_QUANTIZED, quantized)
#define SS_ONE_LEVEL_LIST(X) SS_EXACT_LIST(X) SS_GLOBAL_LIST(X)
#define SS_ALGORITHM_LIST(X)                                                                       \
    SS_EXACT_LIST(X)                                                                               \
    X(SS_TWO_LEVEL, two_level)                                                                     \
    SS_GLOBAL_LIST(X)                                                                              \
    SS_WHOLE_LIST(X)

enum ss_algorithm {
    SS_AUTO,  /* the plan chooses */
    SS_ALGORITHM_LIST(SS_CHOICE_ID)
    SS_DENSE, /* the MPI library's collective */
    SS_ALGORITHMS
};

/* Bit masks of the lists. */
#define SS_CHOICE_BIT(id, word) | 1u << id
#define SS_GLOBAL_ALGORITHMS    (0u SS_GLOBAL_LIST(SS_CHOICE_BIT))
#define SS_WHOLE_ALGORITHMS     (0u SS_WHOLE_LIST(SS_CHOICE_BIT))

/* Coding of entry values in messages (core/wire/values.h). The numbers are on the wire. */
#define SS_VALUES_LIST(X)                                                                          \
    X(SS_VALUES_SAME, same)                                                                        \
    X(SS_VALUES_BF16, bf16)                                                                        \
    X(SS_VALUES_Q8, q8)                                                                            \
    X(SS_VALUES_Q4, q4)                                                                            \
    X(SS_VALUES_Q2, q2)

/* Choices of VALUE_TYPE beside the codings: rounding at random, without residual (QSGD). The
 * messages are those of q8, q4 and q2. */
#define SS_QSGD_LIST(X)                                                                            \
    X(SS_QSGD8, qsgd8)                                                                             \
    X(SS_QSGD4, qsgd4)                                                                             \
    X(SS_QSGD2, qsgd2)

enum ss_values { SS_VALUES_LIST(SS_CHOICE_ID) SS_VALUE_TYPES };

/* Values of VALUE_TYPE: an enum ss_values, or one of these. */
enum ss_value_type {
    SS_QSGD_FIRST = SS_VALUE_TYPES - 1,
    SS_QSGD_LIST(SS_CHOICE_ID)
    SS_VALUE_CHOICES
};

/* Consecutive values that share a scale, and the bounds that messages may have. */
#define SS_BUCKET       1024
#define SS_BUCKET_LEAST 64
#define SS_BUCKET_MOST  32768

/* Calls of a tensor from one exact selection to the next; from one division of the index space to
 * the next (oktopk); QUORUM: from one call with all ranks to the next, and results that wait for a
 * late rank. */
#define SS_THRESHOLD_PERIOD   32

/* Steps before calls=N of a rule counts (core/identity/identity.h). */
#define SS_IDENTITY_STEPS 3
#define SS_REPARTITION_PERIOD 64
#define SS_QUORUM_PERIOD      64
#define SS_QUORUM_STALENESS   8

/* Least elements of a slice, if an index space is cut into several (core/coll/two_level.c). */
#define SS_SLICE_LEAST 65536

/* Calls of a communicator that may be in flight together (core/call/in_flight.c). Call number i +
 * SS_IN_FLIGHT starts after call i has ended. */
#define SS_IN_FLIGHT 8

/* Calls of a communicator that may be in flight together with MERGE, where most of them wait to be
 * merged (core/call/group.h). */
#define SS_MERGED 256

/* The value of MERGE=auto, and the bytes of a group until the first plan. */
#define SS_MERGE_AUTO  UINT64_MAX
#define SS_MERGE_BYTES 4194304

/* Ranks that a round of a partial call waits for (core/partial/rounds.h). */
#define SS_QUORUM_LIST(X)                                                                          \
    X(SS_QUORUM_ALL, all)                                                                          \
    X(SS_QUORUM_MAJORITY, majority)                                                                \
    X(SS_QUORUM_SOLO, solo)

enum ss_quorum { SS_QUORUM_LIST(SS_CHOICE_ID) };


/* Sums inside each host before those between hosts (core/coll/two_level.c). */
#define SS_AGGREGATION_LIST(X)                                                                     \
    X(SS_AGGREGATION_AUTO, auto)                                                                   \
    X(SS_AGGREGATION_ON, on)                                                                       \
    X(SS_AGGREGATION_OFF, off)

enum ss_aggregation { SS_AGGREGATION_LIST(SS_CHOICE_ID) };

/* Reactions to results of a tensor that drift from the dense sum. */
#define SS_GUARD_LIST(X)                                                                           \
    X(SS_GUARD_OFF, off)                                                                           \
    X(SS_GUARD_WARN, warn)                                                                         \
    X(SS_GUARD_EXACT, exact)

enum ss_guard { SS_GUARD_LIST(SS_CHOICE_ID) };
/* clang-format on */

#endif
