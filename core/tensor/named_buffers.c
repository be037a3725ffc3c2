/* The table of buffers: an array under a lock. */
#include "core/tensor/named_buffers.h"

#include <stdlib.h>

#include "core/base/types.h"

void ss_registry_init(struct ss_registry *registry)
{
    *registry = (struct ss_registry){.count = 0};
    pthread_mutex_init(&registry->lock, NULL);
}

/* Returns the entry or NULL. The caller holds the lock. */
static struct ss_registered *lookup(struct ss_registry *registry, const void *buffer,
                                    uint64_t count)
{
    for (struct ss_registered *e = registry->list; e < registry->list + registry->count; e++)
        if (e->buffer == buffer && e->count == count)
            return e;
    return NULL;
}

/* Returns room for a new entry, or NULL if memory is short. If the table is full, a withdrawn entry
 * is overwritten before the table grows. The caller holds the lock. */
static struct ss_registered *appended(struct ss_registry *registry)
{
    for (size_t i = 0; registry->count == registry->room && i < registry->count; i++)
        if (registry->list[i].withdrawn)
            return &registry->list[i];
    if (registry->count == registry->room) {
        size_t room = registry->room > 0 ? 2 * registry->room : 16;
        struct ss_registered *list = realloc(registry->list, room * sizeof *list);

        if (!list)
            return NULL;
        registry->list = list;
        registry->room = room;
    }
    return &registry->list[registry->count++];
}

int ss_registry_add(struct ss_registry *registry, const struct ss_registered *entry)
{
    struct ss_registered *to;

    pthread_mutex_lock(&registry->lock);
    to = lookup(registry, entry->buffer, entry->count);
    if (!to)
        to = appended(registry);
    if (to)
        *to = *entry;
    pthread_mutex_unlock(&registry->lock);
    return to ? SS_OK : SS_ERR_MEMORY;
}

size_t ss_registry_remove(struct ss_registry *registry, const void *buffer)
{
    size_t removed = 0;

    pthread_mutex_lock(&registry->lock);
    for (size_t i = 0; i < registry->count; i++)
        if (registry->list[i].buffer == buffer && !registry->list[i].withdrawn) {
            registry->list[i].withdrawn = true;
            removed++;
        }
    pthread_mutex_unlock(&registry->lock);
    return removed;
}

size_t ss_registry_set_density(struct ss_registry *registry, const void *buffer, double density)
{
    size_t entries = 0;

    pthread_mutex_lock(&registry->lock);
    for (size_t i = 0; i < registry->count; i++)
        if (registry->list[i].buffer == buffer && !registry->list[i].withdrawn) {
            registry->list[i].density = density;
            entries++;
        }
    pthread_mutex_unlock(&registry->lock);
    return entries;
}

bool ss_registry_find(struct ss_registry *registry, const void *buffer, uint64_t count,
                      double *density)
{
    const struct ss_registered *e;

    if (!registry)
        return false;
    pthread_mutex_lock(&registry->lock);
    e = lookup(registry, buffer, count);
    if (e && (e->withdrawn || e->position > 0))
        e = NULL;
    if (e)
        *density = e->density;
    pthread_mutex_unlock(&registry->lock);
    return e != NULL;
}

uint32_t ss_registry_number(struct ss_registry *registry, const void *buffer, uint64_t count,
                            bool *identified)
{
    const struct ss_registered *e;
    uint32_t number = 0;

    *identified = false;
    if (!registry)
        return 0;
    pthread_mutex_lock(&registry->lock);
    e = lookup(registry, buffer, count);
    if (e && e->position == 0) {
        number = (uint32_t)(e - registry->list) + 1;
    } else if (e && !e->withdrawn) {
        number = e->position;
        *identified = true;
    }
    pthread_mutex_unlock(&registry->lock);
    return number;
}
