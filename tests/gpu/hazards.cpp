/* What compute-sanitizer looks for, in emulated kernels: races, reads of what nobody has written,
 * addresses outside of allocations, threads that meet at unlike places. Whatever order the
 * emulation has drawn: accesses are compared by what orders them on a device, not by when they
 * came.
 *
 * Kernels are compiled with -fsanitize=thread, whose calls before each access come here. Ordered
 * are accesses of one thread; those of a block by __syncthreads, those of a warp by __syncwarp, too
 * (shuffles and votes order no memory); those of blocks of a launch by an atomic function that both
 * have called, with __threadfence before it here and behind it there; launches one behind the
 * other. Atomic functions do not race with each other. */
#include "tests/gpu/emulate.h"

#include <dlfcn.h>
#include <map>
#include <stdio.h>
#include <stdlib.h>
#include <string>
#include <unordered_map>
#include <vector>

namespace
{

enum { SHARED_MOST = 48 * 1024, WORD = 4, WARP = 32 };
typedef const void *code;

/* Who has touched some bytes of a word: one thread, or several of a warp or block that nothing
 * orders; then `thread` is one of them. */
enum reach : uint8_t { ONE, OF_WARP, OF_BLOCK };
struct touched {
    uint32_t block, barriers, warp_barriers, fences;
    uint16_t thread;
    uint8_t bytes;
    reach who;
    bool atomic;
    code at;
};
struct cell {
    uint64_t stamp = 0;
    std::vector<touched> writes, reads;
};

/* An atomic function that another block may learn from what was done before: accesses older than
 * the last fence of their own thread before it, or than a barrier before the last of the caller's.
 */
struct release {
    const void *by; /* the word */
    uint32_t block, barriers, fence_barriers;
    uint16_t thread;
    std::vector<uint32_t> fences;
};
struct acquired {
    const release *from;
    uint32_t barriers, fences, fence_barriers;
    uint16_t thread;
    bool fenced;
};
struct running_block {
    uint64_t stamp;
    std::vector<uint32_t> fences, fence_barriers;
    std::vector<acquired> known;
    std::vector<cell> cells;
    std::vector<uint8_t> written;
    std::map<uint64_t, code> sites; /* of barriers, by warp and number */
};
struct allocation {
    size_t size;
    std::vector<bool> written;
    bool all;
};

uint64_t launches, stamps;
std::unordered_map<const emulated_block *, running_block> blocks;
std::unordered_map<uint64_t, cell> words; /* of device memory, in this launch */
std::multimap<const void *, release> releases;
std::map<const char *, allocation> memory;
const char *arena_begin, *arena_end;

running_block &mine(void)
{
    return blocks[emulated_self->of];
}

/* ---- reports ---- */

std::string place_of(code at)
{
    Dl_info info;
    char text[300];

    if (!dladdr(at, &info) || !info.dli_fname)
        return "?";
    snprintf(text, sizeof text, "%s+%#zx (%s)", info.dli_fname,
             (size_t)((const char *)at - (const char *)info.dli_fbase - 1),
             info.dli_sname ? info.dli_sname : "?");
    return text;
}

void report(const char *what, const void *p, code at, const touched *other)
{
    const bool shared = (size_t)((const char *)p - (const char *)emulated_self->of) < SHARED_MOST;

    fprintf(stderr, "emulated kernel: %s: %s memory %p, thread %u of block %u at %s", what,
            shared ? "shared" : "device", p, emulated_self->thread.x, emulated_self->block.x,
            place_of(at).c_str());
    if (other)
        fprintf(stderr, ", and %sthread %u of block %u at %s",
                other->who == ONE ? "" : "others such as ", other->thread, other->block,
                place_of(other->at).c_str());
    fprintf(stderr, "\n");
    if (!getenv("EMULATED_HAZARDS_GO_ON"))
        abort();
}

/* ---- what comes before what ---- */

bool covers(const release &r, const touched &a, const void *p)
{
    return a.block == r.block &&
           (a.barriers < r.fence_barriers || (a.atomic && p == r.by && a.barriers <= r.barriers) ||
            (a.who == ONE && a.thread == r.thread && a.fences < r.fences[a.thread]) ||
            (a.who == ONE && a.barriers < r.barriers && a.fences < r.fences[a.thread]));
}

bool knows(const running_block &b, const acquired &k, const touched &me)
{
    if (me.thread == k.thread)
        return me.fences > k.fences;
    return me.barriers > k.barriers && ((k.fenced && k.fence_barriers < me.barriers) ||
                                        b.fence_barriers[me.thread] > k.barriers);
}

bool is_before(const touched &a, const touched &me, const void *p)
{
    if (a.block == me.block)
        return (a.who == ONE && a.thread == me.thread) || a.barriers < me.barriers ||
               (a.who != OF_BLOCK && a.thread / WARP == me.thread / WARP &&
                a.warp_barriers < me.warp_barriers);
    const running_block &b = mine();
    for (const acquired &k : b.known)
        if (covers(*k.from, a, p) && knows(b, k, me))
            return true;
    return false;
}

/* ---- accesses ---- */

/* The last one that begins at p or before. */
allocation *allocation_of(const char *p, const char **begin)
{
    auto it = memory.upper_bound(p);

    if (it == memory.begin())
        return nullptr;
    *begin = (--it)->first;
    return &it->second;
}

void compare(const std::vector<touched> &with, const touched &me, const char *what, const void *p)
{
    for (const touched &a : with)
        if ((a.bytes & me.bytes) && !(a.atomic && me.atomic) && !is_before(a, me, p))
            return report(what, p, me.at, &a);
}

/* What comes before takes the place of what it is before; others of a warp or block are added. */
void add(std::vector<touched> &to, const touched &me, const void *p)
{
    size_t kept = 0;
    bool joined = false;

    for (touched &a : to) {
        if ((a.bytes & me.bytes) && is_before(a, me, p))
            a.bytes &= (uint8_t)~me.bytes;
        else if (!joined && a.block == me.block && a.bytes == me.bytes && a.atomic == me.atomic) {
            a.who = a.thread / WARP == me.thread / WARP && a.who != OF_BLOCK &&
                            a.warp_barriers == me.warp_barriers
                        ? OF_WARP
                        : OF_BLOCK;
            joined = true;
        }
        if (a.bytes)
            to[kept++] = a;
    }
    to.resize(kept);
    if (!joined)
        to.push_back(me);
}

void touch(cell &c, const touched &me, bool writes, const void *p)
{
    compare(c.writes, me, writes ? "race of two writes" : "race of a read with a write", p);
    if (!writes)
        return add(c.reads, me, p);
    compare(c.reads, me, "race of a write with a read", p);
    size_t kept = 0;
    for (touched &a : c.reads)
        if ((a.bytes &= (uint8_t)~me.bytes) != 0)
            c.reads[kept++] = a;
    c.reads.resize(kept);
    add(c.writes, me, p);
}

void check_written(std::vector<uint8_t> &written, size_t at, size_t size, bool writes,
                   const void *p, code from)
{
    for (size_t i = at; i < at + size && !writes; i++)
        if (!written[i])
            return report("a read of what nobody has written", p, from, nullptr);
    for (size_t i = at; i < at + size && writes; i++)
        written[i] = 1;
}

/* What memory is filled with when it is made: tests write there behind the driver's back. */
bool is_untouched(const char *p)
{
    return *(const uint32_t *)((uintptr_t)p / WORD * WORD) == 0xa5a5a5a5u;
}

/* Of memory that the driver has told of. */
void check_allocation(const char *p, size_t size, bool writes, bool reads, code from)
{
    const char *begin = nullptr;
    allocation *found = allocation_of(p, &begin);
    if (!found)
        return;
    allocation &a = *found;
    const size_t at = (size_t)(p - begin);
    if (at + size > a.size)
        return; /* is_outside */
    for (size_t i = at; reads && !a.all && i < at + size; i++)
        if (!a.written[i] && is_untouched(p + (i - at)))
            return report("a read of what nobody has written", p, from, nullptr);
    for (size_t i = at; writes && !a.all && i < at + size; i++)
        a.written[i] = true;
}

bool is_outside(const char *p, size_t size)
{
    if (p < arena_begin || p >= arena_end)
        return false;
    const char *begin = nullptr;
    const allocation *a = allocation_of(p, &begin);
    return !a || (size_t)(p - begin) + size > a->size;
}

void access(const void *p, size_t size, bool reads, bool writes, bool atomic, code from)
{
    const emulated_thread *self = emulated_self;
    const char *at = (const char *)p;

    if (!self || p == &emulated_self || (size_t)(at - self->stack) < EMULATED_STACK)
        return;
    running_block &b = mine();
    const size_t in_shared = (size_t)(at - (const char *)self->of);
    const bool shared = in_shared < SHARED_MOST;
    if (!shared && at >= (const char *)self && at < (const char *)(self + 1))
        return;
    touched me = {self->block.x,
                  self->block_turn,
                  self->warp_barriers,
                  b.fences[self->thread.x],
                  (uint16_t)self->thread.x,
                  0,
                  ONE,
                  atomic,
                  from};
    if (shared) {
        check_written(b.written, in_shared, size, !reads, p, from);
    } else if (is_outside(at, size)) {
        return report("an address outside of any allocation", p, from, nullptr);
    } else {
        check_allocation(at, size, writes, reads, from);
    }
    for (size_t i = 0; i < size;) {
        const uint64_t word = (uint64_t)(at + i) / WORD;
        const size_t begin = (uint64_t)(at + i) % WORD,
                     count = size - i < WORD - begin ? size - i : WORD - begin;
        me.bytes = (uint8_t)(((1u << count) - 1) << begin);
        cell &c = shared ? b.cells[(in_shared + i) / WORD] : words[word];
        if (c.stamp != (shared ? b.stamp : launches)) {
            c.stamp = shared ? b.stamp : launches;
            c.writes.clear();
            c.reads.clear();
        }
        touch(c, me, writes, at + i);
        i += count;
    }
}

} // namespace

/* ---- what the emulation tells ---- */

extern "C" {

void emulated_begins_launch(void)
{
    launches++;
    words.clear();
    releases.clear();
    blocks.clear();
}

void emulated_begins_block(const emulated_block *block, unsigned threads)
{
    running_block &b = blocks[block];

    b.stamp = ++stamps;
    b.fences.assign(threads, 0);
    b.fence_barriers.assign(threads, 0);
    b.known.clear();
    b.cells.resize(SHARED_MOST / WORD);
    b.written.assign(SHARED_MOST, 0);
    b.sites.clear();
}

/* All that meet come from one place of the code. */
void emulated_meets(unsigned long long group, unsigned turn, const void *site)
{
    auto seen = mine().sites.emplace(group << 32 | turn, site);

    if (seen.first->second != site)
        report("threads meet at unlike places", site, site, nullptr);
}

void emulated_fences(void)
{
    running_block &b = mine();
    const unsigned thread = emulated_self->thread.x;

    b.fences[thread]++;
    b.fence_barriers[thread] = emulated_self->block_turn;
    for (acquired &k : b.known)
        if (k.thread == thread && !k.fenced) {
            k.fenced = true;
            k.fence_barriers = emulated_self->block_turn;
        }
}

__attribute__((noinline)) void emulated_atomic(const void *p, size_t size, bool reads, bool writes)
{
    running_block &b = mine();
    const emulated_thread *self = emulated_self;
    const uint16_t thread = (uint16_t)self->thread.x;

    access(p, size, reads, writes, true, __builtin_return_address(0));
    if (!writes || b.fences[thread] == 0)
        return;
    auto range = releases.equal_range(p);
    for (auto it = range.first; it != range.second; ++it)
        if (it->second.block != self->block.x)
            b.known.push_back({&it->second, self->block_turn, b.fences[thread], 0, thread, false});
    releases.emplace(
        p, release{p, self->block.x, self->block_turn, b.fence_barriers[thread], thread, b.fences});
}

/* ---- what the driver tells ---- */

#define EXPORT __attribute__((visibility("default")))

EXPORT void emulated_arena(const char *begin, size_t size)
{
    arena_begin = begin;
    arena_end = begin + size;
}

EXPORT void emulated_allocated(const char *p, size_t size, bool written)
{
    memory[p] = allocation{size, std::vector<bool>(written ? 0 : size), written};
}

EXPORT void emulated_freed(const char *p)
{
    memory.erase(p);
}

EXPORT void emulated_written(const char *p, size_t size)
{
    const char *begin = nullptr;
    allocation *a = allocation_of(p, &begin);

    for (size_t i = (size_t)(p - begin); a && !a->all && size > 0 && i < a->size; i++, size--)
        a->written[i] = true;
}

/* ---- what the compiler calls ---- */

#define HERE __builtin_return_address(0)
#define ACCESS(n)                                                                                  \
    void __tsan_read##n(void *p)                                                                   \
    {                                                                                              \
        access(p, n, true, false, false, HERE);                                                    \
    }                                                                                              \
    void __tsan_write##n(void *p)                                                                  \
    {                                                                                              \
        access(p, n, false, true, false, HERE);                                                    \
    }                                                                                              \
    void __tsan_unaligned_read##n(void *p)                                                         \
    {                                                                                              \
        access(p, n, true, false, false, HERE);                                                    \
    }                                                                                              \
    void __tsan_unaligned_write##n(void *p)                                                        \
    {                                                                                              \
        access(p, n, false, true, false, HERE);                                                    \
    }
ACCESS(1)
ACCESS(2)
ACCESS(4)
ACCESS(8)
ACCESS(16)
void __tsan_read_range(void *p, size_t size)
{
    access(p, size, true, false, false, HERE);
}
void __tsan_write_range(void *p, size_t size)
{
    access(p, size, false, true, false, HERE);
}
void __tsan_vptr_update(void **, void *)
{
}
void __tsan_init(void)
{
}
void __tsan_func_entry(void *)
{
}
void __tsan_func_exit(void)
{
}
}
