/* Implements the lists of communicators. */
#include "shim/comm/lists.h"

enum { BATCH = 32 };

void shim_list_add(enum shim_list l, struct shim_comm *comm)
{
    pthread_mutex_lock(&shim.table.lock);
    comm->in_table.refs++;
    comm->in_table.next_in[l] = shim.table.lists[l];
    shim.table.lists[l] = comm;
    pthread_mutex_unlock(&shim.table.lock);
    atomic_fetch_add(&shim.table.list_count[l], 1);
}

bool shim_list_remove(enum shim_list l, struct shim_comm *comm)
{
    struct shim_comm **link;

    pthread_mutex_lock(&shim.table.lock);
    for (link = &shim.table.lists[l]; *link && *link != comm; link = &(*link)->in_table.next_in[l])
        ;
    bool listed = *link != NULL;
    if (listed)
        *link = comm->in_table.next_in[l];
    pthread_mutex_unlock(&shim.table.lock);
    if (listed)
        atomic_fetch_sub(&shim.table.list_count[l], 1);
    return listed;
}

/* Takes references to up to BATCH communicators, without the first `skip`. */
static size_t some(enum shim_list l, struct shim_comm **list, size_t skip)
{
    size_t n = 0;

    pthread_mutex_lock(&shim.table.lock);
    for (struct shim_comm *c = shim.table.lists[l]; c && n < BATCH; c = c->in_table.next_in[l]) {
        if (skip > 0) {
            skip--;
            continue;
        }
        c->in_table.refs++;
        list[n++] = c;
    }
    pthread_mutex_unlock(&shim.table.lock);
    return n;
}

bool shim_list_visit(enum shim_list l, bool (*visit)(struct shim_comm *comm, void *ctx), void *ctx)
{
    struct shim_comm *list[BATCH];
    bool any = false;
    size_t n, skip = 0;

    do {
        n = some(l, list, skip);
        for (size_t i = 0; i < n; i++) {
            any = visit(list[i], ctx) || any;
            shim_comm_put(list[i]);
        }
        skip += n;
    } while (n == BATCH);
    return any;
}
