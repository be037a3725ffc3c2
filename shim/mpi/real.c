/* Finds the next functions and the PMPI functions among the loaded objects. */
#include "shim/mpi/real.h"

#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shim/mpi/large.h"

struct shim_real shim_real;
shim_greq_start_fn *shim_real_grequest_start;
void *shim_real_dup_fn;
shim_create_from_group_fn *shim_real_create_from_group;
shim_envelope_c_fn *shim_real_envelope_c;
bool shim_real_persistent;

/* MPIX_GPU_SUPPORT_CUDA, which older headers lack. */
enum { CUDA = 0 };

/* Return value if no loaded object has the function: not MPI_SUCCESS in any MPI. */
enum { NO_FUNCTION = 15 };

/* The loaded objects in the order of the dynamic linker. */
struct object {
    char *name; /* "" = the program */
    uintptr_t low, high;
    void *handle; /* once a symbol was looked up in it */
};
struct objects {
    struct object *list;
    size_t count;
    size_t ours;
};

/* Between shim_real_look and shim_real_let_go. */
static struct objects the;

/* Stands for a missing function. Reads no argument, so that one prototype serves all. Prints
 * nothing: a program without MPI may look up a weak name such as MPI_Init, and finds this
 * library's. */
static int missing(void)
{
    return NO_FUNCTION;
}

static bool inside(const struct object *o, const void *address)
{
    return (uintptr_t)address >= o->low && (uintptr_t)address < o->high;
}

/* Copies an object's name and range. Opens no object, which would take the linker's locks in the
 * wrong order. */
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
    for (size_t i = 0; i < all->count; i++) {
        if (all->list[i].handle)
            dlclose(all->list[i].handle);
        free(all->list[i].name);
    }
    free(all->list);
}

void shim_real_look(void)
{
    dl_iterate_phdr(collect, &the);
}

void shim_real_let_go(void)
{
    objects_free(&the);
    the = (struct objects){0};
}

/* Returns the symbol that object o itself defines; dlsym alone would also search the objects that o
 * depends on. The handle is kept for the next symbol: to close one, the dynamic linker goes through
 * all objects, of which a program with PyTorch has 140. */
static void *defined_in(struct object *o, const char *symbol)
{
    void *address;

    if (!o->handle)
        o->handle = dlopen(o->name[0] ? o->name : NULL, RTLD_LAZY | RTLD_NOLOAD);
    if (!o->handle)
        return NULL;
    address = dlsym(o->handle, symbol);
    return address && inside(o, address) ? address : NULL;
}

/* Finds a symbol with RTLD_NEXT, or else in every object in turn: if MPI was opened RTLD_LOCAL, as
 * Python does, RTLD_NEXT finds nothing. With `behind`, for a wrapped name, only objects behind this
 * library are searched, since those before it call this library. */
static void *find(const struct objects *all, const char *symbol, bool behind)
{
    void *address = all->count > 0 ? dlsym(RTLD_NEXT, symbol) : NULL;

    if (address && !inside(&all->list[all->ours], address))
        return address;
    address = NULL;
    for (size_t i = behind ? all->ours + 1 : 0; i < all->count && !address; i++)
        if (i != all->ours)
            address = defined_in(&all->list[i], symbol);
    return address;
}

/* Stores the address by copying, since ISO C has no cast from data pointers to functions; POSIX
 * gives both the same size. */
static bool find_into(const struct objects *all, void *pointer, const char *mpi, const char *pmpi)
{
    void *address = mpi ? find(all, mpi, true) : NULL;

    if (!address)
        address = find(all, pmpi, false);
    if (address)
        memcpy(pointer, &address, sizeof address);
    return address != NULL;
}

static bool is_same_object(const void *x, const void *y)
{
    Dl_info of_x, of_y;

    return dladdr(x, &of_x) != 0 && dladdr(y, &of_y) != 0 && of_x.dli_fbase == of_y.dli_fbase;
}

/* Finds a function that the MPI library may lack, in the library that has PMPI_Allreduce: another
 * MPI library that is loaded as well may have it. */
static bool find_in_mpi(const struct objects *all, void *pointer, const char *name)
{
    void *function, *allreduce;

    if (!find_into(all, &function, NULL, name) ||
        !find_into(all, &allreduce, NULL, "PMPI_Allreduce") || !is_same_object(function, allreduce))
        return false;
    memcpy(pointer, &function, sizeof function);
    return true;
}

/* Finds a wrapped name, or else its PMPI_ form. */
static bool find_wrapped(const struct objects *all, void *pointer, const char *name)
{
    char pmpi[64];

    snprintf(pmpi, sizeof pmpi, "P%s", name);
    return find_into(all, pointer, name, pmpi);
}

/* Finds a wrapped name that the MPI library may lack, as "MPI_X" and as "PMPI_X". */
static void find_optional(const struct objects *all, void *next, void *pmpi, const char *name)
{
    char own[64];

    snprintf(own, sizeof own, "P%s", name);
    if (find_in_mpi(all, pmpi, own))
        find_wrapped(all, next, name);
}

/* Finds "PMPI_X" for the wrapped name "MPI_X". */
static void find_below(const struct objects *all, void *pointer, const char *name)
{
    char pmpi[64];

    snprintf(pmpi, sizeof pmpi, "P%s", name);
    find_into(all, pointer, NULL, pmpi);
}

/* Finds the functions that the stand-ins of large.h use. Returns false if one is missing. */
static bool find_needed(const struct objects *all)
{
    bool found = true;

#define SHIM_FIND(member, type, name)                                                              \
    found = find_into(all, &shim_large.member, NULL, name) && found;
    SHIM_LARGE_NEEDS(SHIM_FIND)
#undef SHIM_FIND
    return found;
}

bool shim_real_find_next(void)
{
    int (*const lacking)(void) = missing;
    struct shim_next next = {0}, pmpi = {0};
    const bool needed = find_needed(&the);

#define SHIM_FIND_AS(member, name)                                                                 \
    memcpy(&next.member, &lacking, sizeof lacking);                                                \
    memcpy(&pmpi.member, &lacking, sizeof lacking);                                                \
    find_wrapped(&the, &next.member, name);                                                        \
    find_below(&the, &pmpi.member, name);
#define SHIM_FIND_LARGE(member, name)                                                              \
    if (needed)                                                                                    \
        next.member = shim_large_##member;                                                         \
    else                                                                                           \
        memcpy(&next.member, &lacking, sizeof lacking);                                            \
    pmpi.member = next.member;                                                                     \
    find_optional(&the, &next.member, &pmpi.member, name);
#define SHIM_FIND(member, name, ...)          SHIM_FIND_AS(member, "MPI_" #name)
#define SHIM_FIND_INNER(member, name, ...)    SHIM_FIND_AS(member, #name)
#define SHIM_FIND_OPTIONAL(member, name, ...) SHIM_FIND_LARGE(member, "MPI_" #name)
#define SHIM_FIND_BOTH(member, name, ...)                                                          \
    SHIM_FIND_AS(member, "MPI_" #name)                                                             \
    SHIM_FIND_LARGE(member##_c, "MPI_" #name "_c")
    SHIM_WRAPPED_COUNTED(SHIM_FIND_BOTH)
    SHIM_WRAPPED_PLAIN(SHIM_FIND)
    SHIM_WRAPPED_OPTIONAL(SHIM_FIND_OPTIONAL)
    SHIM_WRAPPED_INNER(SHIM_FIND_INNER)
#undef SHIM_FIND
#undef SHIM_FIND_AS
#undef SHIM_FIND_BOTH
#undef SHIM_FIND_INNER
#undef SHIM_FIND_LARGE
#undef SHIM_FIND_OPTIONAL
    if (pmpi.iallgatherv_c == shim_large_iallgatherv_c) /* of internal traffic */
        pmpi.iallgatherv_c = shim_large_pmpi_iallgatherv_c;
    shim.next = next;
    shim.pmpi = pmpi;
    return memcmp(&next.allreduce, &lacking, sizeof lacking) != 0;
}

bool shim_real_has_library(void)
{
    return find(&the, "PMPI_Allreduce", false) != NULL;
}

static bool is_our_name(const char *path)
{
    static const char ours[] = "libsparseshim.so";
    const char *slash = strrchr(path, '/');

    return strncmp(slash ? slash + 1 : path, ours, sizeof ours - 1) == 0;
}

bool shim_real_find_copy(char *both, size_t size, bool *first)
{
    size_t i = 0;

    while (i < the.count && (i == the.ours || !is_our_name(the.list[i].name)))
        i++;
    if (i == the.count)
        return false;
    snprintf(both, size, "%s and %s", the.list[the.ours].name, the.list[i].name);
    *first = the.ours < i;
    return true;
}

void shim_real_library(char *text, size_t size)
{
    __typeof__(PMPI_Get_library_version) *ask;
    char version[8192]; /* the longest that any MPI declares */
    int len = 0;

    text[0] = '\0';
    if (find_into(&the, &ask, NULL, "PMPI_Get_library_version") &&
        ask(version, &len) == MPI_SUCCESS)
        snprintf(text, size, "%.*s", (int)size - 1, version);
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

bool shim_real_is_named_abi(void)
{
    void *next; /* a profiler may hold it, but no PMPI_ function */

    memcpy(&next, &shim.next.allreduce, sizeof next);
    return is_named_abi(next) || is_named_abi(find(&the, "PMPI_Allreduce", false));
}

int shim_real_abi_version(void)
{
    int (*ask)(int *major, int *minor);
    int major = -1, minor = -1;

    if (find_in_mpi(&the, &ask, "PMPI_Abi_get_version") && ask(&major, &minor) != MPI_SUCCESS)
        major = -1;
    return major;
}

/* Returns true if the library that defines a function is Open MPI: it, or a library that it is
 * linked with, has a symbol of its name. */
static bool is_open_mpi(const void *function)
{
    Dl_info info;
    void *handle;
    bool has;

    if (dladdr(function, &info) == 0 || !info.dli_fname ||
        !(handle = dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD)))
        return false;
    has = dlsym(handle, "ompi_mpi_comm_world") && dlsym(handle, "ompi_request_null");
    dlclose(handle);
    return has;
}

/* A program that is linked with Open MPI has copies of the library's data, which the dynamic linker
 * finds first. If the program has opened the library RTLD_LOCAL, the linker finds none. */
static void *find_data(void *all, const char *symbol)
{
    void *address = dlsym(RTLD_DEFAULT, symbol);

    return address ? address : find(all, symbol, false);
}

bool shim_real_is_open_mpi(void)
{
    const void *allreduce = find(&the, "PMPI_Allreduce", false);

    return allreduce && is_open_mpi(allreduce);
}

bool shim_real_set_open_mpi(void)
{
    return the.count > 0 && shim_abi_set_open_mpi(find_data, &the);
}

static void find_dup_fn(void)
{
    if (shim_abi.kind == SHIM_ABI_STANDARD)
        shim_real_dup_fn = (void *)1;
    else
        find_into(&the, &shim_real_dup_fn, NULL, "MPIR_Dup_fn");
}

const char *shim_real_find_pmpi(void)
{
    const char *lacking = NULL;
    void *persistent;

#define SHIM_FIND(name)                                                                            \
    if (!lacking && !find_into(&the, &shim_real.name, NULL, "PMPI_" #name))                        \
        lacking = "PMPI_" #name;
    SHIM_PMPI(SHIM_FIND)
#undef SHIM_FIND
    if (!lacking) {
        memcpy(&shim.library.comm_size, &shim_real.Comm_size, sizeof shim.library.comm_size);
        if (!find_in_mpi(&the, &shim_real_grequest_start, "PMPIX_Grequest_start"))
            find_in_mpi(&the, &shim_real_grequest_start, "MPIX_Grequest_start");
        find_dup_fn();
        if (shim_abi.kind != SHIM_ABI_OPEN_MPI)
            find_in_mpi(&the, &shim_real_create_from_group, "PMPI_Comm_create_from_group");
        find_in_mpi(&the, &shim_real_envelope_c, "PMPI_Type_get_envelope_c");
        shim_real_persistent = find_in_mpi(&the, &persistent, "PMPI_Reduce_init");
    }
    return lacking;
}

bool shim_real_is_cuda_aware(void)
{
    struct objects all = {0};
    int (*ask)(int kind, int *supported); /* MPICH and its family */
    int (*query)(void);                   /* Open MPI and MVAPICH */
    int supported = 0;

    dl_iterate_phdr(collect, &all);
    if (shim_abi.kind != SHIM_ABI_OPEN_MPI && find_into(&all, &ask, NULL, "MPIX_GPU_query_support"))
        supported = ask(CUDA, &supported) == MPI_SUCCESS && supported;
    else if (find_into(&all, &query, NULL, "MPIX_Query_cuda_support"))
        supported = query();
    objects_free(&all);
    return supported != 0;
}

bool shim_real_same_object(shim_init_fn *a, shim_init_thread_fn *b)
{
    void *x, *y;

    memcpy(&x, &a, sizeof x);
    memcpy(&y, &b, sizeof y);
    return is_same_object(x, y);
}
