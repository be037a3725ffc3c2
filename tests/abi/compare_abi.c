/* Compares the table of an ABI with an mpi.h of that ABI: compiled by scripts/abi-check with
 * -DSHIM_MPI_H='<mpi.h>'. Prints one line, and a line for each difference. */
#include <inttypes.h>
#include <stdio.h>

#include "shim/mpi/mpi_names.h"

static int compared, different;

static void compare(const char *name, intmax_t header, intmax_t table)
{
    compared++;
    if (header == table)
        return;
    different++;
    printf("%s is %#" PRIxMAX " in the header, %#" PRIxMAX " in the table\n", name,
           (uintmax_t)header, (uintmax_t)table);
}

static void compare_sizes(void)
{
    compare("the size of a handle", sizeof(MPI_Comm), (intmax_t)shim_abi.handle);
    compare("the size of a request", sizeof(MPI_Request), (intmax_t)shim_abi.handle);
    compare("the size of a status", sizeof(MPI_Status), (intmax_t)shim_abi.status);
    compare("MPI_SOURCE", offsetof(MPI_Status, MPI_SOURCE), (intmax_t)shim_abi.source);
    compare("MPI_TAG", offsetof(MPI_Status, MPI_TAG), (intmax_t)shim_abi.tag);
    compare("MPI_ERROR", offsetof(MPI_Status, MPI_ERROR), (intmax_t)shim_abi.error);
    compare("the size of MPI_Aint", sizeof(MPI_Aint), sizeof(intptr_t));
    compare("the size of MPI_Count", sizeof(MPI_Count), sizeof(int64_t));
    compare("the size of MPI_Offset", sizeof(MPI_Offset), sizeof(int64_t));
    compare("MPI_SUCCESS", MPI_SUCCESS, 0);
    compare("MPI_UNDEFINED", MPI_UNDEFINED, -32766);
    compare("MPI_THREAD_SINGLE", MPI_THREAD_SINGLE, 0);
    compare("MPI_MAX_OBJECT_NAME, at most 128", MPI_MAX_OBJECT_NAME > 128, 0);
}

/* An MPI without Fortran gives its types the null handle. */
#define COMPARE_WORD(name, ...)                                                                    \
    if ((uintptr_t)MPI_##name != (uintptr_t)MPI_DATATYPE_NULL ||                                   \
        shim_abi.name == shim_abi.DATATYPE_NULL)                                                   \
        compare("MPI_" #name, (intmax_t)(uintptr_t)MPI_##name, (intmax_t)shim_abi.name);
#define COMPARE_ADDRESS(name, ...)                                                                 \
    compare("MPI_" #name, (intmax_t)(uintptr_t)MPI_##name, (intmax_t)shim_abi.name);
#define COMPARE_NUMBER(name, ...) compare("MPI_" #name, MPI_##name, shim_abi.name);

#ifdef OPEN_MPI
/* Any address stands for a symbol: this program is linked with no MPI library. */
static void *find(void *ctx, const char *symbol)
{
    (void)symbol;
    return ctx;
}

static void compare_symbol(const char *name, const char *header, const char *table)
{
    const char *at = strstr(header, table);
    const char behind = at ? at[strlen(table)] : 'x';

    compared++;
    if (behind == ')' || behind == '\0')
        return;
    different++;
    printf("%s is %s in the header, %s in the table\n", name, header, table);
}

#define TEXT(...)     #__VA_ARGS__
#define EXPANDED(...) TEXT(__VA_ARGS__)
#define COMPARE_HANDLE(name, mpich, standard, symbol)                                              \
    compare_symbol("MPI_" #name, EXPANDED(MPI_##name), #symbol);
#else
#define COMPARE_HANDLE COMPARE_WORD
#endif

static void set_table(void)
{
#if defined OPEN_MPI
    shim_abi_set_open_mpi(find, &compared);
#elif defined MPI_ABI_VERSION
    shim_abi_set(SHIM_ABI_STANDARD);
#else
    shim_abi_set(SHIM_ABI_MPICH);
#endif
}

int main(void)
{
    set_table();
    compare_sizes();
    SHIM_ABI_HANDLES(COMPARE_HANDLE)
    SHIM_ABI_ADDRESSES(COMPARE_ADDRESS)
    SHIM_ABI_NUMBERS(COMPARE_NUMBER)
    printf("%d values compared, %d different\n", compared, different);
    return different != 0;
}
