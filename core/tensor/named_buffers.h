/* Buffers that the application has registered for top-k itself (shim/sparseshim.h). One table per
 * process; safe from several threads. */
#ifndef CORE_TENSOR_NAMED_BUFFERS_H
#define CORE_TENSOR_NAMED_BUFFERS_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ss_registered {
    const void *buffer; /* receive buffer */
    uint64_t count;     /* elements */
    double density;     /* 0: as the settings say */
    bool withdrawn;     /* unregistered: the buffer goes on to be told by its address */
};

/* Zero-initialise and call ss_registry_init; members belong to registry.c. */
struct ss_registry {
    pthread_mutex_t lock;
    struct ss_registered *list;
    size_t count, room;
};

void ss_registry_init(struct ss_registry *registry);
void ss_registry_free(struct ss_registry *registry);

/* Adds an entry, or changes the density of the one with the same buffer and count. SS_OK or
 * SS_ERR_MEMORY. */
int ss_registry_add(struct ss_registry *registry, const struct ss_registered *entry);

/* Takes out all entries of a buffer; how many there were. */
size_t ss_registry_remove(struct ss_registry *registry, const void *buffer);

/* Sets the density of all entries of a buffer; how many there are. */
size_t ss_registry_set_density(struct ss_registry *registry, const void *buffer, double density);

/* The number of the entry, from 1, in the order of registration; 0: the application does not name
 * the buffer, and has not done so lately. registry NULL: it does not. */
uint32_t ss_registry_number(struct ss_registry *registry, const void *buffer, uint64_t count);

/* Whether there is an entry; its density. registry NULL: there is none. */
bool ss_registry_find(struct ss_registry *registry, const void *buffer, uint64_t count,
                      double *density);

#endif
