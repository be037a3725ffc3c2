/* Finds call sites with libunwind, and keeps a table of known addresses. */
#include "shim/mpi/site.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shim/mpi/log.h"
#include "shim/mpi/real.h"

/* Frames of this library and of the MPI library come first and need room as well. */
enum { DEPTH = 24 };

static uint64_t mix(uint64_t h, uint64_t x)
{
    h = (h ^ x) * 0x9e3779b97f4a7c15u;
    return h ^ h >> 29;
}

static uint64_t hash_text(const char *text)
{
    uint64_t h = 0xcbf29ce484222325u;

    while (*text)
        h = (h ^ (unsigned char)*text++) * 0x100000001b3u;
    return h;
}

/* Returns true for the MPI library, which consists of several objects: libmpich, libmpichfort,
 * libmpi, libmpifort, libmpicxx, ... */
static bool is_mpi(const Dl_info *info, const char *module)
{
    Dl_info mpi;
    void *function;

    memcpy(&function, &shim_real.Comm_size, sizeof function);
    return strncmp(module, "libmpi", 6) == 0 ||
           (function && dladdr(function, &mpi) && mpi.dli_fbase == info->dli_fbase);
}

static void examine(const void *address, struct shim_code_address *caller)
{
    Dl_info info;

    *caller = (struct shim_code_address){.address = address};
    /* the call is before its return address, which may be the first byte after the function */
    if (!dladdr((const char *)address - 1, &info) || !info.dli_fname) {
        caller->hash = mix(0, (uint64_t)(uintptr_t)address); /* code made at run time */
        return;
    }
    const char *slash = strrchr(info.dli_fname, '/');
    const char *module = slash ? slash + 1 : info.dli_fname;
    uintptr_t offset = (uintptr_t)address - (uintptr_t)info.dli_fbase;
    caller->hash = mix(hash_text(module), offset);
    caller->mpi = is_mpi(&info, module);
    snprintf(caller->name, sizeof caller->name, "%s+0x%zx", module, (size_t)offset);
    if (info.dli_sname)
        snprintf(caller->symbol, sizeof caller->symbol, "%s", info.dli_sname);
}

/* Returns the table entry of an address, or the empty entry for it. Called under the lock. */
static struct shim_code_address *entry_of(const void *address)
{
    size_t i = (size_t)(mix(0, (uint64_t)(uintptr_t)address) >> 40);

    for (;; i++) {
        struct shim_code_address *p = &shim.sites.callers[i % SHIM_SITE_CALLERS];

        if (!p->address || p->address == address)
            return p;
    }
}

/* Returns the properties of an address. `room` serves if the table is full or could not be
 * allocated. */
static const struct shim_code_address *caller_of(const void *address,
                                                 struct shim_code_address *room)
{
    struct shim_code_address *p = shim.sites.callers ? entry_of(address) : room;

    if (p != room && p->address == address)
        return p;
    if (p != room && shim.sites.known >= SHIM_SITE_CALLERS / 4 * 3)
        p = room;
    examine(address, p);
    shim.sites.known += p != room;
    return p;
}

/* Opens libunwind and makes a first backtrace, at which libunwind opens files that it keeps
 * open. */
static void open_library(void)
{
    void *frames[DEPTH], *library = dlopen("libunwind.so.8", RTLD_LOCAL | RTLD_LAZY);
    void *function = library ? dlsym(library, "unw_backtrace") : NULL;

    shim.sites.opened = true;
    shim.sites.callers = calloc(SHIM_SITE_CALLERS, sizeof *shim.sites.callers);
    if (function) {
        memcpy(&shim.sites.backtrace, &function, sizeof function);
        (void)shim.sites.backtrace(frames, DEPTH);
    } else {
        shim.sites.lacking = library ? "it lacks unw_backtrace" : "cannot open libunwind.so.8";
    }
}

/* Opens the library unless that was done. Returns the reason for its lack once. */
static const char *open_once(void)
{
    const char *lacking;

    pthread_mutex_lock(&shim.sites.lock);
    if (!shim.sites.opened)
        open_library();
    lacking = shim.sites.lacking;
    shim.sites.lacking = NULL;
    pthread_mutex_unlock(&shim.sites.lock);
    return lacking;
}

/* Logs at the first site, when the rank is known. */
static void say_lacking(const char *lacking)
{
    if (lacking)
        shim_say(
            CFG_DEBUG_INFO,
            "no call sites by libunwind (%s): rules with site= may take no call, or those of a "
            "wrapper",
            lacking);
}

void shim_site_open(void)
{
    pthread_mutex_lock(&shim.sites.lock);
    if (!shim.sites.opened)
        open_library();
    pthread_mutex_unlock(&shim.sites.lock);
}

/* Returns the frames from `address` on; that address alone if it is not in the backtrace. */
static int frames_from(const void *address, void **frames)
{
    int n = shim.sites.backtrace ? shim.sites.backtrace(frames, DEPTH) : 0;
    int first = 0;

    while (first < n && frames[first] != address)
        first++;
    if (first >= n) {
        memcpy(frames, &address, sizeof address);
        return 1;
    }
    memmove(frames, frames + first, (size_t)(n - first) * sizeof *frames);
    return n - first;
}

void shim_site_find(const void *address, struct shim_code_address *room, struct ss_call_site *site)
{
    void *frames[DEPTH];
    struct shim_code_address spare;
    int first = 0, n;
    uint64_t path = 0;

    say_lacking(open_once());
    n = frames_from(address, frames);
    pthread_mutex_lock(&shim.sites.lock);
    while (first < n - 1 && caller_of(frames[first], &spare)->mpi)
        first++;
    *room = *caller_of(frames[first], &spare);
    for (int i = first + 1; i < n && i <= first + SHIM_CALLERS; i++)
        path = mix(path, caller_of(frames[i], &spare)->hash);
    pthread_mutex_unlock(&shim.sites.lock);
    *site = (struct ss_call_site){
        .hash = room->hash ? room->hash : 1,
        .path = path,
        .name = room->name[0] ? room->name : NULL,
        .symbol = room->symbol[0] ? room->symbol : NULL,
    };
}
