/* MPI_Allgatherv and its forms. They have more arguments than registers, so that compilers move
 * those on the stack to and fro; on x86-64 the calls that pass at once do without. */
#include <stddef.h>

#include "shim/entry/entry.h"

EXPORT shim_allgatherv_fn MPI_Allgatherv;
EXPORT shim_allgatherv_c_fn MPI_Allgatherv_c;
EXPORT shim_iallgatherv_fn MPI_Iallgatherv;
EXPORT shim_iallgatherv_c_fn MPI_Iallgatherv_c;

#define SLICES .counts = counts, .displs = displs

static inline bool little_slices(const int *counts, uintptr_t type, uintptr_t comm)
{
    return counts && little(*counts, type, comm);
}

static inline bool little_slices_c(const int64_t *counts, uintptr_t type, uintptr_t comm)
{
    return counts && little_c(*counts, type, comm);
}

#define SLICES_SLOW __attribute__((noinline, used)) static int

SLICES_SLOW slow_allgatherv(const void *send, int send_count, uintptr_t send_type, void *recv,
                            const int *counts, const int *displs, uintptr_t type, uintptr_t comm)
{
    if ((all_pass() || little_slices(counts, type, comm)) && on_host(send, send_type, recv, type))
        return shim.next.allgatherv(send, send_count, send_type, recv, counts, displs, type, comm);
    return shim_collective(GATHER(false, SLICES), NULL);
}

SLICES_SLOW slow_allgatherv_c(const void *send, int64_t send_count, uintptr_t send_type, void *recv,
                              const int64_t *counts, const int64_t *displs, uintptr_t type,
                              uintptr_t comm)
{
    if ((all_pass() || little_slices_c(counts, type, comm)) && on_host(send, send_type, recv, type))
        return shim.next.allgatherv_c(send, send_count, send_type, recv, counts, displs, type,
                                      comm);
    return shim_collective(GATHER(true, SLICES), NULL);
}

SLICES_SLOW slow_iallgatherv(const void *send, int send_count, uintptr_t send_type, void *recv,
                             const int *counts, const int *displs, uintptr_t type, uintptr_t comm,
                             void *request)
{
    if ((all_ipass() || little_slices(counts, type, comm)) && on_host(send, send_type, recv, type))
        return shim.next.iallgatherv(send, send_count, send_type, recv, counts, displs, type, comm,
                                     request);
    return shim_collective(GATHER(false, SLICES), request);
}

SLICES_SLOW slow_iallgatherv_c(const void *send, int64_t send_count, uintptr_t send_type,
                               void *recv, const int64_t *counts, const int64_t *displs,
                               uintptr_t type, uintptr_t comm, void *request)
{
    if ((all_ipass() || little_slices_c(counts, type, comm)) &&
        on_host(send, send_type, recv, type))
        return shim.next.iallgatherv_c(send, send_count, send_type, recv, counts, displs, type,
                                       comm, request);
    return shim_collective(GATHER(true, SLICES), request);
}

#ifdef __x86_64__

/* Jumps to `slow` unless the call is little by the slice of the first rank, as shim_even_bytes has
 * it (entry.h, little): counts in r8; datatype and communicator on the stack. A negative count, or
 * one too large to multiply, is not little. */
#define LITTLE(load, slow)                                                                         \
    "movq 16(%%rsp), %%rax\n\t"                                                                    \
    "movzbl %%al, %%r10d\n\t"                                                                      \
    "leaq shim_sizes(%%rip), %%r11\n\t"                                                            \
    "movq (%%r11,%%r10,8), %%r10\n\t"                                                              \
    "cmpl %%eax, %%r10d\n\t"                                                                       \
    "jne " slow "\n\t"                                                                             \
    "movl 8(%%rsp), %%eax\n\t"                                                                     \
    "xorl $0x4c000000, %%eax\n\t"                                                                  \
    "cmpl $0xffff, %%eax\n\t"                                                                      \
    "ja " slow "\n\t"                                                                              \
    "testq %%r8, %%r8\n\t"                                                                         \
    "je " slow "\n\t" load " (%%r8), %%r11\n\t"                                                    \
    "shrl $8, %%eax\n\t"                                                                           \
    "imulq %%r11, %%rax\n\t"                                                                       \
    "jo " slow "\n\t"                                                                              \
    "shrq $32, %%r10\n\t"                                                                          \
    "cmpq %%r10, %%rax\n\t"                                                                        \
    "jae " slow "\n\t"

/* Jumps to `slow` unless both buffers are plain (shim/device/memory.h): rdi and rcx. */
#define TEXT_(x) #x
#define TEXT(x)  TEXT_(x)
#define PLAIN(buffer, label, slow)                                                                 \
    "movq %%" buffer ", %%rax\n\t"                                                                 \
    "subq shim_memory(%%rip), %%rax\n\t"                                                           \
    "cmpq shim_memory+8(%%rip), %%rax\n\t"                                                         \
    "jb " label "f\n\t"                                                                            \
    "movq %%" buffer ", %%rax\n\t"                                                                 \
    "subq shim_memory+16(%%rip), %%rax\n\t"                                                        \
    "cmpq $" TEXT(SHIM_STACK) ", %%rax\n\t"                                                        \
                              "jae " slow "\n" label ":\n\t"
#define ON_HOST(slow) PLAIN("rdi", "2", slow) PLAIN("rcx", "3", slow)

#define NEXT "jmp *shim+%c0(%%rip)"

/* Where no nonblocking call is taken over, all pass at once. */
#define NOTHING_TAKEN                                                                              \
    "movabsq $0x7fffffffffffffff, %%rax\n\t"                                                       \
    "cmpq shim+%c1(%%rip), %%rax\n\t"                                                              \
    "jne 1f\n\t" NEXT "\n"                                                                         \
    "1:\n\t"

#define OFFSET(member) "i"(offsetof(struct shim_state, member))
#define NAKED          __attribute__((naked))

#pragma GCC diagnostic ignored "-Wunused-parameter"

NAKED int MPI_Allgatherv(const void *send, int send_count, uintptr_t send_type, void *recv,
                         const int *counts, const int *displs, uintptr_t type, uintptr_t comm)
{
    __asm__(ON_HOST("slow_allgatherv") LITTLE("movslq", "slow_allgatherv") NEXT
            :
            : OFFSET(next.allgatherv));
}

NAKED int MPI_Allgatherv_c(const void *send, int64_t send_count, uintptr_t send_type, void *recv,
                           const int64_t *counts, const int64_t *displs, uintptr_t type,
                           uintptr_t comm)
{
    __asm__(ON_HOST("slow_allgatherv_c") LITTLE("movq", "slow_allgatherv_c") NEXT
            :
            : OFFSET(next.allgatherv_c));
}

NAKED int MPI_Iallgatherv(const void *send, int send_count, uintptr_t send_type, void *recv,
                          const int *counts, const int *displs, uintptr_t type, uintptr_t comm,
                          void *request)
{
    __asm__(ON_HOST("slow_iallgatherv") NOTHING_TAKEN LITTLE("movslq", "slow_iallgatherv") NEXT
            :
            : OFFSET(next.iallgatherv), OFFSET(min_fast_nonblocking));
}

NAKED int MPI_Iallgatherv_c(const void *send, int64_t send_count, uintptr_t send_type, void *recv,
                            const int64_t *counts, const int64_t *displs, uintptr_t type,
                            uintptr_t comm, void *request)
{
    __asm__(ON_HOST("slow_iallgatherv_c") NOTHING_TAKEN LITTLE("movq", "slow_iallgatherv_c") NEXT
            :
            : OFFSET(next.iallgatherv_c), OFFSET(min_fast_nonblocking));
}

#else

int MPI_Allgatherv(const void *send, int send_count, uintptr_t send_type, void *recv,
                   const int *counts, const int *displs, uintptr_t type, uintptr_t comm)
{
    if (little_slices(counts, type, comm) && on_host(send, send_type, recv, type))
        return shim.next.allgatherv(send, send_count, send_type, recv, counts, displs, type, comm);
    return slow_allgatherv(send, send_count, send_type, recv, counts, displs, type, comm);
}

int MPI_Allgatherv_c(const void *send, int64_t send_count, uintptr_t send_type, void *recv,
                     const int64_t *counts, const int64_t *displs, uintptr_t type, uintptr_t comm)
{
    if (little_slices_c(counts, type, comm) && on_host(send, send_type, recv, type))
        return shim.next.allgatherv_c(send, send_count, send_type, recv, counts, displs, type,
                                      comm);
    return slow_allgatherv_c(send, send_count, send_type, recv, counts, displs, type, comm);
}

int MPI_Iallgatherv(const void *send, int send_count, uintptr_t send_type, void *recv,
                    const int *counts, const int *displs, uintptr_t type, uintptr_t comm,
                    void *request)
{
    if ((all_ipass() || little_slices(counts, type, comm)) && on_host(send, send_type, recv, type))
        return shim.next.iallgatherv(send, send_count, send_type, recv, counts, displs, type, comm,
                                     request);
    return slow_iallgatherv(send, send_count, send_type, recv, counts, displs, type, comm, request);
}

int MPI_Iallgatherv_c(const void *send, int64_t send_count, uintptr_t send_type, void *recv,
                      const int64_t *counts, const int64_t *displs, uintptr_t type, uintptr_t comm,
                      void *request)
{
    if ((all_ipass() || little_slices_c(counts, type, comm)) &&
        on_host(send, send_type, recv, type))
        return shim.next.iallgatherv_c(send, send_count, send_type, recv, counts, displs, type,
                                       comm, request);
    return slow_iallgatherv_c(send, send_count, send_type, recv, counts, displs, type, comm,
                              request);
}

#endif
