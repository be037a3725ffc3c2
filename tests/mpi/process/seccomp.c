/* seccomp HOW WHAT: a thread forbids itself the system calls below, then makes all collectives of
 * the program. HOW: `kill` ends the process at such a call, `errno` returns EPERM. WHAT:
 * `blocking`, `nonblocking` (at MPI_THREAD_MULTIPLE), or `forbidden`, one of the calls. The thread
 * that finalizes MPI is free: the MPI library itself reads files then. */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>

#include "tests/mpi/support/input.h"
#include "tests/mpi/support/tap.h"

enum { COUNT = 20000, CALLS = 8, BESIDE = 3 };

static const unsigned forbidden[] = {
#ifdef __NR_open /* and the other calls that newer architectures do not have */
    __NR_open,       __NR_stat,       __NR_lstat,      __NR_access,
    __NR_readlink,   __NR_fork,       __NR_vfork,      __NR_pipe,
    __NR_getrlimit,
#endif
    __NR_sysinfo,    __NR_openat,     __NR_newfstatat, __NR_statx,
    __NR_faccessat,  __NR_readlinkat, __NR_getcwd,     __NR_clone,
    __NR_clone3,     __NR_prlimit64,  __NR_uname,      __NR_sched_getaffinity,
    __NR_getppid,    __NR_pipe2,      __NR_socket,     __NR_ioctl,
    __NR_getdents64, __NR_mkdirat,    __NR_unlinkat,   __NR_nanosleep,
    __NR_getpid, /* the last one only where there is one rank: MPICH makes it */
};
enum { FORBIDDEN = sizeof forbidden / sizeof *forbidden };

static struct plan {
    bool kills, nonblocking, breaks;
} plan;

static bool forbid(void)
{
    struct sock_filter code[FORBIDDEN + 3], *at = code;
    const unsigned count = FORBIDDEN - (tap.size > 1);
    struct sock_fprog program = {.filter = code, .len = (unsigned short)(count + 3)};

    *at++ =
        (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
    for (unsigned i = 0; i < count; i++)
        *at++ = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, forbidden[i],
                                             (unsigned char)(count - i), 0);
    *at++ = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    *at++ = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, plan.kills ? SECCOMP_RET_KILL_PROCESS
                                                                     : SECCOMP_RET_ERRNO | EPERM);
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) == 0;
}

static float in[BESIDE][COUNT], out[BESIDE][COUNT];

static bool sum_blocking(MPI_Comm comm, uint64_t seed)
{
    input_fill_whole(in[0], COUNT, seed, tap.rank);
    MPI_Allreduce(in[0], out[0], COUNT, MPI_FLOAT, MPI_SUM, comm);
    return input_is_whole_sum(out[0], COUNT, seed, tap.size);
}

static bool sum_nonblocking(MPI_Comm comm, uint64_t seed)
{
    MPI_Request requests[BESIDE];
    MPI_Status statuses[BESIDE];
    bool right = true;

    for (int i = 0; i < BESIDE; i++) {
        input_fill_whole(in[i], COUNT, seed + (uint64_t)i, tap.rank);
        MPI_Iallreduce(in[i], out[i], COUNT, MPI_FLOAT, MPI_SUM, comm, &requests[i]);
    }
    MPI_Waitall(BESIDE, requests, statuses);
    for (int i = 0; i < BESIDE; i++)
        right = right && input_is_whole_sum(out[i], COUNT, seed + (uint64_t)i, tap.size);
    return right;
}

static bool sums_on(MPI_Comm comm)
{
    bool right = true;

    for (uint64_t call = 0; call < CALLS; call++)
        right = (plan.nonblocking ? sum_nonblocking : sum_blocking)(comm, call) && right;
    return right;
}

static void *work(void *unused)
{
    struct sysinfo info;
    MPI_Comm comm;

    (void)unused;
    tap_ok(forbid(), "the system takes the filter");
    if (plan.breaks || !plan.kills)
        tap_ok(sysinfo(&info) == -1 && errno == EPERM, "the filter refuses a system call");
    tap_ok(sums_on(MPI_COMM_WORLD), "sums on MPI_COMM_WORLD");
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    tap_ok(sums_on(comm), "sums on a new communicator");
    MPI_Comm_free(&comm);
    return NULL;
}

int main(int argc, char **argv)
{
    const char *how = argc > 1 ? argv[1] : "kill", *what = argc > 2 ? argv[2] : "blocking";
    pthread_t thread;
    int provided, status;

    plan = (struct plan){strcmp(how, "kill") == 0, strcmp(what, "nonblocking") == 0,
                         strcmp(what, "forbidden") == 0};
    MPI_Init_thread(&argc, &argv, plan.nonblocking ? MPI_THREAD_MULTIPLE : MPI_THREAD_SERIALIZED,
                    &provided);
    tap_begin(MPI_COMM_WORLD);
    tap_note("%s, %s", how, what); /* stdio asks for its file with the first line */
    if (pthread_create(&thread, NULL, work, NULL) != 0)
        return EXIT_FAILURE;
    pthread_join(thread, NULL);
    status = tap_end();
    MPI_Finalize();
    return status;
}
