/* Where the application calls from, for the identity of tensors (MODE=topk).
 *
 * The site is the first frame outside of this library and of the MPI library, which has frames of
 * its own above us where Fortran calls. It is named MODULE+OFFSET, so that the name does not depend
 * on where things are loaded. The hash of up to SHIM_CALLERS frames above it, its path, tells
 * layers apart that call through one wrapper. A profiler above us counts as the application.
 *
 * The frames come from libunwind, which shim_site_open opens with RTLD_LOCAL: linked or preloaded
 * it would take over the unwinding of C++ exceptions. Without it the site is the address we return
 * to, said once at DEBUG=info.
 */
#ifndef SHIM_MPI_SITE_H
#define SHIM_MPI_SITE_H

#include <pthread.h>
#include <stdbool.h>

#include "core/call/call.h"

enum { SHIM_CALLERS = 3, SHIM_SITE_PLACES = 1024 };

/* What is known of a code address; kept, as dladdr takes a microsecond. */
struct shim_place {
    const void *address; /* NULL = empty */
    uint64_t hash;       /* of module and offset */
    bool mpi;            /* in the MPI library */
    char name[128];      /* MODULE+OFFSET */
    char symbol[64];     /* "" = unknown */
};

/* In struct shim_state; zero but for the lock. Members belong to site.c. */
struct shim_sites {
    pthread_mutex_t lock;
    bool opened;                    /* libunwind was looked for */
    const char *lacking;            /* why there is none, not logged yet; NULL: nothing to log */
    int (*backtrace)(void **, int); /* unw_backtrace, NULL without libunwind */
    struct shim_place *places;      /* hash table of SHIM_SITE_PLACES, made when needed */
    unsigned known;                 /* places in it; three quarters at most */
};

/* Opens libunwind, once; shim_site_find does so otherwise. */
void shim_site_open(void);

/* The site of a call that returns to `address`. name and symbol of *site point into room, which the
 * caller keeps as long as the site. */
void shim_site_find(const void *address, struct shim_place *room, struct ss_call_site *site);

#endif
