/* The algorithms: a row each, defined beside its step. */
#ifndef CORE_COLL_ROWS_H
#define CORE_COLL_ROWS_H

#include "core/base/kind.h"
#include "core/plan/plan.h"

#define SS_ROW(id, name) extern const struct ss_row ss_row_##name;
SS_ALGORITHM_LIST(SS_ROW)
#undef SS_ROW
extern const struct ss_row ss_row_dense;
/* The one sparse way of the other kinds. */
extern const struct ss_row ss_row_slices, ss_row_reduce_scatter, ss_row_reduce;

/* Those that run calls of a kind, by algorithm: NULL for the others. */
const struct ss_row *const *ss_rows(enum ss_kind kind);

/* Whether it delivers the largest entries of all ranks only. */
bool ss_keeps_global(enum ss_algorithm algorithm);

#endif
