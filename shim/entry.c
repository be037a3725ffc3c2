/* The names the dynamic linker finds here before the MPI library's. No mpi.h: its prototypes would
 * truncate the handles of another MPI, which come through here as well. */
#include <stdarg.h>

#include "shim/shim.h"

#define EXPORT __attribute__((visibility("default")))

EXPORT shim_allreduce_fn MPI_Allreduce;
EXPORT shim_allreduce_c_fn MPI_Allreduce_c;
EXPORT shim_pcontrol_fn MPI_Pcontrol;

int MPI_Allreduce(const void *send, void *recv, int count, uintptr_t type, uintptr_t op,
                  uintptr_t comm)
{
    if (count < atomic_load_explicit(&shim.min_fast, memory_order_acquire))
        return shim.next.allreduce(send, recv, count, type, op, comm);
    return shim_allreduce(
        &(struct shim_call){send, recv, count, type, op, comm, false, __builtin_return_address(0)});
}

int MPI_Allreduce_c(const void *send, void *recv, int64_t count, uintptr_t type, uintptr_t op,
                    uintptr_t comm)
{
    if (count < atomic_load_explicit(&shim.min_fast, memory_order_acquire))
        return shim.next.allreduce_c(send, recv, count, type, op, comm);
    return shim_allreduce(
        &(struct shim_call){send, recv, count, type, op, comm, true, __builtin_return_address(0)});
}

/* 0 votes the library off, 1 on again; other levels mean nothing to us. What follows the level is
 * not known here, so what can stand in argument registers is handed on as it is: x86-64 and aarch64
 * have registers of their own for words and for doubles, in which the order between the two is
 * lost anyhow, and reading them is harmless where the caller gave fewer. */
int MPI_Pcontrol(const int level, ...)
{
    void *w[5];
    double d[8];
    va_list ap;

    va_start(ap, level);
    for (int i = 0; i < 5; i++)
        w[i] = va_arg(ap, void *);
    for (int i = 0; i < 8; i++)
        d[i] = va_arg(ap, double);
    va_end(ap);

    shim_prepare();
    if (level == 0 || level == 1)
        atomic_store(&shim.off, level == 0);
    return shim.next.pcontrol(level, w[0], w[1], w[2], w[3], w[4], d[0], d[1], d[2], d[3], d[4],
                              d[5], d[6], d[7]);
}
