/* Fortran under Open MPI. Its Fortran libraries convert handles, MPI_IN_PLACE and MPI_BOTTOM, and
 * call PMPI_X. So the PMPI names are exported, and a call is served only if it comes from one of
 * these libraries. Calls of others, among them the MPI library itself and profilers, go to the MPI
 * library at once, and so does every call under another MPI library.
 *
 * Open MPI's Fortran libraries make keys and set attributes by inner functions of libmpi. Those
 * that make keys are exported as well. */
#include <link.h>
#include <string.h>

#include "shim/entry/entry.h"

/* ---- who calls ---- */

/* The address ranges of the Fortran libraries that have been found; there are three or fewer. A
 * range is stored before the count that includes it, and stays. */
enum { RANGES = 8, OTHERS = 256 };
static struct {
    pthread_mutex_t lock;
    /* Return addresses in other libraries, by a hash. If such a library is unloaded, a Fortran
     * library in its place has no call that ends at the same byte. */
    _Atomic uintptr_t others[OTHERS];
    _Atomic uintptr_t low[RANGES], high[RANGES];
    atomic_int count;
    _Atomic unsigned long long adds; /* number of objects loaded, at the last look */
} the = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* Returns true for libmpi_mpifh, libmpi_usempif08, libmpi_ibm_usempi and the like. */
static bool is_fortran_library(const char *path)
{
    const char *slash = strrchr(path, '/');
    const char *name = slash ? slash + 1 : path;

    return strncmp(name, "libmpi", 6) == 0 && (strstr(name, "_mpifh") || strstr(name, "_usempi"));
}

static bool is_in_range(uintptr_t address)
{
    const int n = atomic_load_explicit(&the.count, memory_order_acquire);

    for (int i = 0; i < n; i++)
        if (address >= atomic_load_explicit(&the.low[i], memory_order_relaxed) &&
            address < atomic_load_explicit(&the.high[i], memory_order_relaxed))
            return true;
    return false;
}

static void add_range(uintptr_t low, uintptr_t high)
{
    const int n = atomic_load(&the.count);

    if (n == RANGES || is_in_range(low))
        return;
    atomic_store(&the.low[n], low);
    atomic_store(&the.high[n], high);
    atomic_store(&the.count, n + 1);
}

static int find_ranges(struct dl_phdr_info *info, size_t size, void *ctx)
{
    uintptr_t low = UINTPTR_MAX, high = 0;

    (void)size, (void)ctx;
    if (!is_fortran_library(info->dlpi_name))
        return 0;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];
        const uintptr_t begin = info->dlpi_addr + p->p_vaddr;

        if (p->p_type != PT_LOAD)
            continue;
        if (begin < low)
            low = begin;
        if (begin + p->p_memsz > high)
            high = begin + p->p_memsz;
    }
    add_range(low, high);
    return 0;
}

static int count_adds(struct dl_phdr_info *info, size_t size, void *adds)
{
    (void)size;
    *(unsigned long long *)adds = info->dlpi_adds;
    return 1;
}

/* Looks for the caller's library among those that have been loaded since the last look. */
static bool find_caller(const void *caller)
{
    unsigned long long adds = 0;

    (void)dl_iterate_phdr(count_adds, &adds);
    if (adds == atomic_load(&the.adds))
        return false;
    pthread_mutex_lock(&the.lock);
    (void)dl_iterate_phdr(find_ranges, NULL);
    atomic_store(&the.adds, adds);
    pthread_mutex_unlock(&the.lock);
    return is_in_range((uintptr_t)caller);
}

bool shim_is_of_fortran(const void *caller)
{
    const uintptr_t address = (uintptr_t)caller;
    _Atomic uintptr_t *other = &the.others[(address ^ address >> 8) % OTHERS];

    if (atomic_load_explicit(other, memory_order_relaxed) == address)
        return false;
    if (is_in_range(address) || find_caller(caller))
        return true;
    atomic_store_explicit(other, address, memory_order_relaxed);
    return false;
}

/* ---- keys ---- */

/* Returns true for a callback that does not come from the MPI library. */
static bool is_of_program(const void *callback)
{
    return callback && !shim_is_of_fortran(callback);
}

int ompi_attr_create_keyval_aint(int kind, void *copy, void *delete, int *keyval, intptr_t extra,
                                 int flags, void *bindings)
{
    shim_fortran_key(is_of_program(copy) || is_of_program(delete));
    return shim.next.fortran_key_aint(kind, copy, delete, keyval, extra, flags, bindings);
}

/* For MPI_Keyval_create of MPI 1. */
int ompi_attr_create_keyval_fint(int kind, void *copy, void *delete, int *keyval, intptr_t extra,
                                 int flags, void *bindings)
{
    shim_fortran_key(is_of_program(copy) || is_of_program(delete));
    return shim.next.fortran_key_fint(kind, copy, delete, keyval, extra, flags, bindings);
}
