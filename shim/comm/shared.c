/* Maps memory that the ranks of a host share. The first rank creates a file that has no name
 * (memfd_create), which the others open through /proc. The kernel frees it with the last mapping,
 * however the processes end. */
#include "shim/comm/shared.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "shim/mpi/log.h"
#include "shim/mpi/real.h"

/* Numbers of which the ranks form the minima. The first rank alone knows the file. */
enum { READY, PROCESS, FILE_NUMBER, DEVICE, INODE, NUMBERS };

/* Returns true if the file may grow to `bytes`. Beyond the limit the kernel sends SIGXFSZ. */
static bool may_have(size_t bytes)
{
    struct rlimit limit;

    return getrlimit(RLIMIT_FSIZE, &limit) == 0 &&
           (limit.rlim_cur == RLIM_INFINITY || limit.rlim_cur >= bytes);
}

/* Creates the file, with all of its memory: no write to it can fail later. Returns its descriptor,
 * or -1. */
static int create(size_t bytes)
{
    int fd =
        may_have(bytes) ? (int)syscall(SYS_memfd_create, "sparseshim", 1u /* close on exec */) : -1;
    int err;

    if (fd < 0)
        return -1;
    do {
        err = fallocate(fd, 0, 0, (off_t)bytes) == 0 ? 0 : errno;
    } while (err == EINTR);
    if (err == 0)
        return fd;
    close(fd);
    return -1;
}

/* Opens the first rank's file. Returns its descriptor, or -1 if this is another file, as in another
 * namespace of processes. */
static int open_there(const long long *numbers, size_t bytes)
{
    char path[64];
    struct stat seen;
    int fd;

    snprintf(path, sizeof path, "/proc/%lld/fd/%lld", numbers[PROCESS], numbers[FILE_NUMBER]);
    fd = open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0)
        return -1;
    if (fstat(fd, &seen) == 0 && (long long)seen.st_dev == numbers[DEVICE] &&
        (long long)seen.st_ino == numbers[INODE] && seen.st_size == (off_t)bytes)
        return fd;
    close(fd);
    return -1;
}

/* Maps the file. A child of this process does not get the mapping. */
static void *map(int fd, size_t bytes)
{
    void *memory =
        fd < 0 ? MAP_FAILED : mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

    if (memory == MAP_FAILED)
        return NULL;
    madvise(memory, bytes, MADV_DONTFORK);
    return memory;
}

static bool agree(const struct shim_comm *c, const long long *own, long long *all, int count)
{
    return shim_real.Allreduce(own, all, count, MPI_LONG_LONG, MPI_MIN, c->private) ==
               MPI_SUCCESS &&
           all[READY];
}

/* Writes what the first rank tells the others. */
static void describe(int fd, long long *own)
{
    struct stat seen;

    own[READY] = fd >= 0 && fstat(fd, &seen) == 0;
    if (!own[READY])
        return;
    own[PROCESS] = getpid();
    own[FILE_NUMBER] = fd;
    own[DEVICE] = (long long)seen.st_dev;
    own[INODE] = (long long)seen.st_ino;
}

/* Maps the memory on this rank, once the first rank has the file. Returns NULL on all ranks unless
 * all have mapped it. */
static void *map_together(const struct shim_comm *c, int fd, bool ready, size_t bytes)
{
    long long own[NUMBERS] = {ready, LLONG_MAX, LLONG_MAX, LLONG_MAX, LLONG_MAX}, all[NUMBERS];
    long long mapped;
    void *memory;

    if (c->rank == 0)
        describe(fd, own);
    if (!agree(c, own, all, NUMBERS))
        return NULL;
    const int file = c->rank == 0 ? fd : open_there(all, bytes);
    memory = map(file, bytes);
    if (c->rank != 0 && file >= 0)
        close(file);
    mapped = memory != NULL;
    if (agree(c, &mapped, all, 1))
        return memory;
    if (memory)
        munmap(memory, bytes);
    return NULL;
}

/* All communicators together take at most this part of MAX_MEMORY: a program with many of them
 * keeps all else for residuals. */
enum { PART_OF_LIMIT = 16 };
static atomic_size_t taken_by_all;

static bool take(size_t share)
{
    const size_t limit = shim.mem.limit, all = atomic_fetch_add(&taken_by_all, share) + share;

    if (share > 0 && (limit == 0 || all <= limit / PART_OF_LIMIT) && ss_mem_take(&shim.mem, share))
        return true;
    atomic_fetch_sub(&taken_by_all, share);
    return false;
}

static void give(size_t share)
{
    ss_mem_give(&shim.mem, share);
    atomic_fetch_sub(&taken_by_all, share);
}

void shim_shared_open(struct shim_comm *c)
{
    const size_t bytes = ss_shared_bytes(c->size), share = bytes / (size_t)c->size;
    const bool taken = take(share);
    const int fd = c->rank == 0 && taken ? create(bytes) : -1;
    void *memory = map_together(c, fd, taken, bytes);

    if (fd >= 0)
        close(fd);
    if (memory) {
        ss_shared_open(&c->hosts.shared, memory, c->size);
        ss_comm_set_shared(c->core, &c->hosts.shared);
    } else if (taken) {
        give(share);
    }
    if (c->rank == 0)
        shim_say(CFG_DEBUG_INFO, "communicator \"%s\" of %d ranks: one host, %s", c->name, c->size,
                 memory ? "with shared memory" : "without shared memory");
}

void shim_shared_free(struct ss_shared *shared, int size)
{
    if (!shared->areas)
        return;
    munmap(shared->areas, ss_shared_bytes(size));
    give(ss_shared_bytes(size) / (size_t)size);
    *shared = (struct ss_shared){0};
}
