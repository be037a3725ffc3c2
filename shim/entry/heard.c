/* Defines the functions that the library hears of (shim/mpi/wrapped.h), and some that it hears of
 * in other ways. PMPI names are those of mpi_f08 and profilers, or of Fortran under Open MPI
 * (shim/entry/fortran.c). */
#include "shim/entry/entry.h"

#include <stdarg.h>

#define PMPI_ALWAYS(member, name, parameters, passed, handle, arguments)                           \
    int PMPI_##name parameters                                                                     \
    {                                                                                              \
        shim_prepare();                                                                            \
        shim_##member##_fn *const next = shim.pmpi.member;                                         \
                                                                                                   \
        return handle arguments;                                                                   \
    }
#define PMPI_FORTRAN(member, name, parameters, passed, handle, arguments)                          \
    int PMPI_##name parameters                                                                     \
    {                                                                                              \
        const bool heard = FROM_FORTRAN;                                                           \
        shim_##member##_fn *const next = shim.pmpi.member;                                         \
                                                                                                   \
        return heard ? handle arguments : next passed;                                             \
    }
#define PMPI_NEVER(member, name, parameters, passed, handle, arguments)
#define HEARD(member, name, parameters, passed, whose, handle, arguments)                          \
    int MPI_##name parameters                                                                      \
    {                                                                                              \
        shim_prepare();                                                                            \
        shim_##member##_fn *const next = shim.next.member;                                         \
                                                                                                   \
        return handle arguments;                                                                   \
    }                                                                                              \
    PMPI_##whose(member, name, parameters, passed, handle, arguments)

SHIM_WRAPPED_HEARD(HEARD)
SHIM_WRAPPED_OPTIONAL(HEARD)

static bool may_reduce(void)
{
    be_ready();
    return atomic_load_explicit(&shim.callbacks.operators, memory_order_relaxed);
}

int MPI_Start(void *request)
{
    if (may_reduce())
        shim_user_start();
    return shim.next.start(request);
}

int MPI_Startall(int count, void *requests)
{
    if (may_reduce())
        shim_user_start();
    return shim.next.startall(count, requests);
}

int PMPI_Start(void *request)
{
    if (FROM_FORTRAN && may_reduce())
        shim_user_start();
    return shim.pmpi.start(request);
}

int PMPI_Startall(int count, void *requests)
{
    if (FROM_FORTRAN && may_reduce())
        shim_user_start();
    return shim.pmpi.startall(count, requests);
}

/* Passes all levels on. The arguments behind the level are unknown here, so that all argument
 * registers are passed on unchanged. On x86-64 and aarch64 words and doubles have separate
 * registers, so that their order does not matter. Reading them is harmless if the caller passed
 * fewer arguments. */
#if defined(__x86_64__)
enum { PCONTROL_WORDS = 5 };
#else
enum { PCONTROL_WORDS = 7 };
#endif
static int pass_pcontrol(shim_pcontrol_fn *next, int level, va_list ap)
{
    void *w[7] = {NULL};
    double d[8];

    for (int i = 0; i < PCONTROL_WORDS; i++)
        w[i] = va_arg(ap, void *);
    for (int i = 0; i < 8; i++)
        d[i] = va_arg(ap, double);
    return next(level, w[0], w[1], w[2], w[3], w[4], w[5], w[6], d[0], d[1], d[2], d[3], d[4], d[5],
                d[6], d[7]);
}

/* Handles the levels of shim_pcontrol. */
int MPI_Pcontrol(const int level, ...)
{
    va_list ap;
    int err;

    shim_prepare();
    shim_pcontrol(level);
    va_start(ap, level);
    err = pass_pcontrol(shim.next.pcontrol, level, ap);
    va_end(ap);
    return err;
}

/* Open MPI's Fortran library comes here by a jump, so that its caller seems to call: every call
 * counts. */
int PMPI_Pcontrol(const int level, ...)
{
    va_list ap;
    int err;

    be_ready();
    if (shim_abi.kind == SHIM_ABI_OPEN_MPI)
        shim_pcontrol(level);
    va_start(ap, level);
    err = pass_pcontrol(shim.pmpi.pcontrol, level, ap);
    va_end(ap);
    return err;
}
