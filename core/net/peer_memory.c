/* Implements reading the memory of other ranks. */
#include "core/net/peer_memory.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <sys/uio.h>
#include <unistd.h>

struct ss_peers *ss_peers_create(int size)
{
    struct ss_peers *p = calloc(1, sizeof *p + (size_t)size * sizeof p->peer[0]);

    if (p)
        p->process = (uint64_t)getpid();
    return p;
}

void ss_peers_free(struct ss_peers *p)
{
    free(p);
}

struct ss_peer ss_peers_own(const struct ss_peers *p)
{
    return (struct ss_peer){.process = p->process, .shown = (uintptr_t)&p->shown};
}

static bool read_from(uint64_t process, uint64_t address, void *to, size_t bytes)
{
    const struct iovec here = {.iov_base = to, .iov_len = bytes},
                       there = {.iov_base = (void *)(uintptr_t)address, .iov_len = bytes};

    return process_vm_readv((pid_t)process, &here, 1, &there, 1, 0) == (ssize_t)bytes;
}

bool ss_peers_show(struct ss_peers *p, uint64_t call, const void *buffer, size_t bytes)
{
    const uint64_t address = (uintptr_t)buffer;
    char byte;

    p->shown = (struct ss_shown){.call = call, .address = address};
    return bytes == 0 || (read_from(p->process, address, &byte, 1) &&
                          read_from(p->process, address + bytes - 1, &byte, 1));
}

void ss_peers_hide(struct ss_peers *p, uint64_t call)
{
    if (p->shown.call == call)
        p->shown.call = 0;
    atomic_thread_fence(memory_order_seq_cst); /* before the program writes to the buffer */
}

bool ss_peers_look(const struct ss_peers *p, int rank, uint64_t call, uint64_t *address)
{
    struct ss_shown shown;

    if (!read_from(p->peer[rank].process, p->peer[rank].shown, &shown, sizeof shown))
        return false;
    *address = shown.address;
    return shown.call == call;
}

bool ss_peers_read(const struct ss_peers *p, int rank, uint64_t call, size_t from, void *to,
                   size_t bytes)
{
    uint64_t address;

    return ss_peers_look(p, rank, call, &address) &&
           read_from(p->peer[rank].process, address + from, to, bytes);
}
