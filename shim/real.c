#define _GNU_SOURCE 1
#include "shim/real.h"

#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct shim_real shim_real;
shim_greq_start_fn *shim_real_grequest_start;

/* Returned where no MPI library can be found: not MPI_SUCCESS under any MPI. */
enum { NO_LIBRARY = 15 };

/* The loaded objects in the dynamic linker's order. */
struct object {
    char *name; /* "" = the program */
    uintptr_t low, high;
};
struct objects {
    struct object *list;
    size_t count;
    size_t ours;
};

static int missing(const char *name)
{
    char text[160];
    int len = snprintf(
        text, sizeof text,
        "sparseshim: %s was called, but no MPI library with this function is loaded\n", name);

    if (write(STDERR_FILENO, text, (size_t)len) < 0)
        return NO_LIBRARY;
    return NO_LIBRARY;
}

static int missing_allreduce(const void *send, void *recv, int count, uintptr_t type, uintptr_t op,
                             uintptr_t comm)
{
    (void)send, (void)recv, (void)count, (void)type, (void)op, (void)comm;
    return missing("MPI_Allreduce");
}

static int missing_allreduce_c(const void *send, void *recv, int64_t count, uintptr_t type,
                               uintptr_t op, uintptr_t comm)
{
    (void)send, (void)recv, (void)count, (void)type, (void)op, (void)comm;
    return missing("MPI_Allreduce_c");
}

static int missing_iallreduce(const void *send, void *recv, int count, uintptr_t type, uintptr_t op,
                              uintptr_t comm, void *request)
{
    (void)send, (void)recv, (void)count, (void)type, (void)op, (void)comm, (void)request;
    return missing("MPI_Iallreduce");
}

static int missing_iallreduce_c(const void *send, void *recv, int64_t count, uintptr_t type,
                                uintptr_t op, uintptr_t comm, void *request)
{
    (void)send, (void)recv, (void)count, (void)type, (void)op, (void)comm, (void)request;
    return missing("MPI_Iallreduce_c");
}

static int missing_allreduce_init(const void *send, void *recv, int count, uintptr_t type,
                                  uintptr_t op, uintptr_t comm, uintptr_t info, void *request)
{
    (void)send, (void)recv, (void)count, (void)type, (void)op, (void)comm, (void)info;
    (void)request;
    return missing("MPI_Allreduce_init");
}

static int missing_allreduce_init_c(const void *send, void *recv, int64_t count, uintptr_t type,
                                    uintptr_t op, uintptr_t comm, uintptr_t info, void *request)
{
    (void)send, (void)recv, (void)count, (void)type, (void)op, (void)comm, (void)info;
    (void)request;
    return missing("MPI_Allreduce_init_c");
}

static int missing_pcontrol(int level, ...)
{
    (void)level;
    return missing("MPI_Pcontrol");
}

static int missing_init(int *argc, char ***argv)
{
    (void)argc, (void)argv;
    return missing("MPI_Init");
}

static int missing_init_thread(int *argc, char ***argv, int required, int *provided)
{
    (void)argc, (void)argv, (void)required, (void)provided;
    return missing("MPI_Init_thread");
}

static int missing_query_thread(int *provided)
{
    (void)provided;
    return missing("MPI_Query_thread");
}

static int missing_get_status(uintptr_t request, int *flag, void *status)
{
    (void)request, (void)flag, (void)status;
    return missing("MPI_Request_get_status");
}

static int missing_cancel(void *request)
{
    (void)request;
    return missing("MPI_Cancel");
}

static int missing_request_free(void *request)
{
    (void)request;
    return missing("MPI_Request_free");
}

static bool inside(const struct object *o, const void *address)
{
    return (uintptr_t)address >= o->low && (uintptr_t)address < o->high;
}

/* Only copies: opening objects in here would take the linker's locks in the wrong order. */
static int collect(struct dl_phdr_info *info, size_t size, void *ctx)
{
    struct objects *all = ctx;
    struct object *list = realloc(all->list, (all->count + 1) * sizeof *list);
    struct object *o;

    (void)size;
    if (!list)
        return 1;
    all->list = list;
    o = &list[all->count];
    *o = (struct object){.name = strdup(info->dlpi_name), .low = UINTPTR_MAX};
    if (!o->name)
        return 1;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];
        uintptr_t begin = info->dlpi_addr + p->p_vaddr;

        if (p->p_type != PT_LOAD)
            continue;
        if (begin < o->low)
            o->low = begin;
        if (begin + p->p_memsz > o->high)
            o->high = begin + p->p_memsz;
    }
    if (inside(o, &shim))
        all->ours = all->count;
    all->count++;
    return 0;
}

static void objects_free(struct objects *all)
{
    for (size_t i = 0; i < all->count; i++)
        free(all->list[i].name);
    free(all->list);
}

/* The symbol as object o itself defines it; dlsym alone would also find it in what o depends on. */
static void *defined_in(const struct object *o, const char *symbol)
{
    void *handle = dlopen(o->name[0] ? o->name : NULL, RTLD_LAZY | RTLD_NOLOAD);
    void *address;

    if (!handle)
        return NULL;
    address = dlsym(handle, symbol);
    dlclose(handle);
    return address && inside(o, address) ? address : NULL;
}

/* RTLD_NEXT first. It sees nothing where MPI was opened RTLD_LOCAL, as Python does: then every
 * object in turn. A wrapped name is only looked for behind us (`behind`): in front of us stand
 * those who call us. */
static void *find(const struct objects *all, const char *symbol, bool behind)
{
    void *address = dlsym(RTLD_NEXT, symbol);

    if (address && !inside(&all->list[all->ours], address))
        return address;
    address = NULL;
    for (size_t i = behind ? all->ours + 1 : 0; i < all->count && !address; i++)
        if (i != all->ours)
            address = defined_in(&all->list[i], symbol);
    return address;
}

/* Functions and data pointers have one size under POSIX; the copy avoids a cast ISO C does not
 * know. */
static bool find_into(const struct objects *all, void *pointer, const char *mpi, const char *pmpi)
{
    void *address = mpi ? find(all, mpi, true) : NULL;

    if (!address)
        address = find(all, pmpi, false);
    if (address)
        memcpy(pointer, &address, sizeof address);
    return address != NULL;
}

bool shim_real_find_next(void)
{
    struct objects all = {0};
    struct shim_next next = {
        .allreduce = missing_allreduce,
        .allreduce_c = missing_allreduce_c,
        .iallreduce = missing_iallreduce,
        .iallreduce_c = missing_iallreduce_c,
        .allreduce_init = missing_allreduce_init,
        .allreduce_init_c = missing_allreduce_init_c,
        .pcontrol = missing_pcontrol,
        .init = missing_init,
        .pmpi_init = missing_init,
        .init_thread = missing_init_thread,
        .pmpi_init_thread = missing_init_thread,
        .query_thread = missing_query_thread,
        .request_get_status = missing_get_status,
        .pmpi_request_get_status = missing_get_status,
        .cancel = missing_cancel,
        .request_free = missing_request_free,
    };
    bool found = false;

    dl_iterate_phdr(collect, &all);
    if (all.count > 0) {
        found = find_into(&all, &next.allreduce, "MPI_Allreduce", "PMPI_Allreduce");
        find_into(&all, &next.allreduce_c, "MPI_Allreduce_c", "PMPI_Allreduce_c");
        find_into(&all, &next.iallreduce, "MPI_Iallreduce", "PMPI_Iallreduce");
        find_into(&all, &next.iallreduce_c, "MPI_Iallreduce_c", "PMPI_Iallreduce_c");
        find_into(&all, &next.allreduce_init, "MPI_Allreduce_init", "PMPI_Allreduce_init");
        find_into(&all, &next.allreduce_init_c, "MPI_Allreduce_init_c", "PMPI_Allreduce_init_c");
        find_into(&all, &next.pcontrol, "MPI_Pcontrol", "PMPI_Pcontrol");
        find_into(&all, &next.init, "MPI_Init", "PMPI_Init");
        find_into(&all, &next.pmpi_init, NULL, "PMPI_Init");
        find_into(&all, &next.init_thread, "MPI_Init_thread", "PMPI_Init_thread");
        find_into(&all, &next.pmpi_init_thread, NULL, "PMPI_Init_thread");
        find_into(&all, &next.query_thread, "MPI_Query_thread", "PMPI_Query_thread");
        find_into(&all, &next.request_get_status, "MPI_Request_get_status",
                  "PMPI_Request_get_status");
        find_into(&all, &next.pmpi_request_get_status, NULL, "PMPI_Request_get_status");
        find_into(&all, &next.cancel, "MPI_Cancel", "PMPI_Cancel");
        find_into(&all, &next.request_free, "MPI_Request_free", "PMPI_Request_free");
    }
    shim.next = next;
    objects_free(&all);
    return found;
}

void shim_real_library(char *text, size_t size)
{
    struct objects all = {0};
    __typeof__(PMPI_Get_library_version) *ask;
    char version[8192]; /* the longest any MPI declares */
    int len = 0;

    text[0] = '\0';
    dl_iterate_phdr(collect, &all);
    if (all.count > 0 && find_into(&all, &ask, NULL, "PMPI_Get_library_version") &&
        ask(version, &len) == MPI_SUCCESS)
        snprintf(text, size, "%.*s", (int)size - 1, version);
    objects_free(&all);
}

static bool is_named_abi(const void *address)
{
    static const char abi[] = "libmpi_abi";
    Dl_info info;
    const char *slash;

    if (!address || dladdr(address, &info) == 0 || !info.dli_fname)
        return false;
    slash = strrchr(info.dli_fname, '/');
    return strncmp(slash ? slash + 1 : info.dli_fname, abi, sizeof abi - 1) == 0;
}

bool shim_real_is_standard_abi(void)
{
    struct objects all = {0};
    void *next, *below = NULL; /* a profiler may hold the next function; none holds PMPI_ */

    memcpy(&next, &shim.next.allreduce, sizeof next);
    dl_iterate_phdr(collect, &all);
    if (all.count > 0)
        find_into(&all, &below, NULL, "PMPI_Allreduce");
    objects_free(&all);
    return is_named_abi(next) || is_named_abi(below);
}

const char *shim_real_find_pmpi(void)
{
    struct objects all = {0};
    const char *lacking = NULL;

    dl_iterate_phdr(collect, &all);
    if (all.count == 0)
        lacking = "MPI";
#define SHIM_FIND(name)                                                                            \
    if (!lacking && !find_into(&all, &shim_real.name, NULL, "PMPI_" #name))                        \
        lacking = "PMPI_" #name;
    SHIM_PMPI(SHIM_FIND)
#undef SHIM_FIND
    if (!lacking)
        find_into(&all, &shim_real_grequest_start, NULL, "PMPIX_Grequest_start");
    objects_free(&all);
    return lacking;
}

bool shim_real_same_object(shim_init_fn *a, shim_init_thread_fn *b)
{
    void *x, *y;
    Dl_info of_a, of_b;

    memcpy(&x, &a, sizeof x);
    memcpy(&y, &b, sizeof y);
    return dladdr(x, &of_a) != 0 && dladdr(y, &of_b) != 0 && of_a.dli_fbase == of_b.dli_fbase;
}
