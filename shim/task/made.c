/* MODE=topk: records which calls the program has made and not seen end, in the order of its own
 * calls, whatever their order of completion. All ranks record the same, except in programs that
 * test for completion. */
#include "shim/task/task.h"

void shim_task_made(struct shim_task *task)
{
    struct ss_under_way *u = &task->site.under_way;
    _Atomic uint64_t *of = task->comm->under_way;

    *u = (struct ss_under_way){.number = task->number};
    atomic_store(&of[task->number % SS_UNDER_WAY], 0);
    for (unsigned i = 0; i < SS_UNDER_WAY; i++)
        if (atomic_load_explicit(&of[i], memory_order_relaxed) > 0)
            u->calls[i / 64] |= (uint64_t)1 << i % 64;
    if (!task->blocking)
        atomic_store(&of[task->number % SS_UNDER_WAY], task->number);
}

void shim_task_seen(struct shim_task *task)
{
    uint64_t number = task->number;

    atomic_compare_exchange_strong(&task->comm->under_way[number % SS_UNDER_WAY], &number, 0);
}
