/* Lists of communicators, each of which holds a reference (shim/comm/comm.h). */
#ifndef SHIM_COMM_LISTS_H
#define SHIM_COMM_LISTS_H

#include "shim/comm/comm.h"

void shim_list_add(enum shim_list l, struct shim_comm *comm);

/* Returns true if the communicator was in the list; its reference then belongs to the caller. */
bool shim_list_remove(enum shim_list l, struct shim_comm *comm);

static inline bool shim_list_is_empty(enum shim_list l)
{
    return atomic_load_explicit(&shim.table.list_count[l], memory_order_relaxed) == 0;
}

/* Calls `visit` for each communicator of the list, without a lock; those that come or go meanwhile
 * may be left out. Returns true if `visit` has returned true for any. */
bool shim_list_visit(enum shim_list l, bool (*visit)(struct shim_comm *comm, void *ctx), void *ctx);

#endif
