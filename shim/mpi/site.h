/* The call sites of the application, which rules and reports name (MODE=topk, MODE=learn).
 *
 * The site is the first frame outside of this library and of the MPI library, which has frames
 * between this library and a Fortran program. Its name is MODULE+OFFSET, so that it does not depend
 * on load addresses. The path is the hash of up to SHIM_CALLERS frames above the site; `learn`
 * tells gradients apart by it that go through one wrapper. A profiler above this library counts as
 * the application.
 *
 * libunwind provides the frames. shim_site_open opens it with RTLD_LOCAL, since a linked or
 * preloaded libunwind would take over the unwinding of C++ exceptions. Without libunwind the site
 * is the return address of the call; DEBUG=info says so once.
 */
#ifndef SHIM_MPI_SITE_H
#define SHIM_MPI_SITE_H

#include <pthread.h>
#include <stdbool.h>

#include "core/call/call.h"

enum { SHIM_CALLERS = 3, SHIM_SITE_CALLERS = 1024 };

/* Properties of a code address, kept because dladdr takes a microsecond. */
struct shim_code_address {
    const void *address; /* NULL: empty entry */
    uint64_t hash;       /* hash of module and offset */
    bool mpi;            /* in the MPI library */
    char name[128];      /* MODULE+OFFSET */
    char symbol[64];     /* "": unknown */
};

/* Part of struct shim_state; zero except the lock. Only site.c uses the members. */
struct shim_sites {
    pthread_mutex_t lock;
    bool opened; /* libunwind was looked for */
    /* reason for the lack of libunwind, not logged yet; NULL: nothing to log */
    const char *lacking;
    int (*backtrace)(void **, int); /* unw_backtrace; NULL without libunwind */
    /* hash table of SHIM_SITE_CALLERS entries, allocated when needed */
    struct shim_code_address *callers;
    unsigned known; /* entries used, at most three quarters */
};

/* Opens libunwind once. Otherwise the first shim_site_find opens it. */
void shim_site_open(void);

/* Finds the site of a call that returns to `address`. name and symbol of *site point into `room`,
 * which the caller keeps as long as the site. */
void shim_site_find(const void *address, struct shim_code_address *room, struct ss_call_site *site);

#endif
