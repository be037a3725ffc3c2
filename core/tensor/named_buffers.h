/* Buffers that the application has registered for top-k, or identified, itself (shim/sparseshim.h).
 * A process has one table; its functions may be called from several threads. */
#ifndef CORE_TENSOR_NAMED_BUFFERS_H
#define CORE_TENSOR_NAMED_BUFFERS_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ss_registered {
    const void *buffer; /* receive buffer */
    uint64_t count;     /* elements */
    double density;     /* 0: the rule's or the job's */
    uint32_t position;  /* identified: equal on all ranks, from 1; 0: registered */
    bool withdrawn;     /* unregistered; the address still names a registered tensor */
};

/* Zero-initialise and call ss_registry_init. Only core/tensor/named_buffers.c touches members. */
struct ss_registry {
    pthread_mutex_t lock;
    struct ss_registered *list;
    size_t count, room;
};

void ss_registry_init(struct ss_registry *registry);

/* Adds an entry, or replaces the entry with the same buffer and count. Returns SS_OK or
 * SS_ERR_MEMORY. */
int ss_registry_add(struct ss_registry *registry, const struct ss_registered *entry);

/* Withdraws all entries of a buffer and returns their number. */
size_t ss_registry_remove(struct ss_registry *registry, const void *buffer);

/* Sets the density of all entries of a buffer and returns their number. */
size_t ss_registry_set_density(struct ss_registry *registry, const void *buffer, double density);

/* Returns the number of the entry, from 1, withdrawn entries included; 0 if there is none or
 * registry is NULL. For an identified buffer, which must not be withdrawn, returns its position and
 * sets *identified. */
uint32_t ss_registry_number(struct ss_registry *registry, const void *buffer, uint64_t count,
                            bool *identified);

/* Returns true and sets *density if the buffer is registered; false also if registry is NULL. */
bool ss_registry_find(struct ss_registry *registry, const void *buffer, uint64_t count,
                      double *density);

#endif
