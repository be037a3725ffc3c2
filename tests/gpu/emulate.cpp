/* Runs grids of emulated kernels. */
#include "tests/gpu/emulate.h"

#include <memory>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <ucontext.h>
#include <vector>

enum { SHARED_MOST = 48 * 1024, THREADS_MOST = 1024 };
static const uint64_t PATIENCE = 30000000; /* yields without a barrier passed or a thread ended */
static const char STUCK[] =
    "no progress: a barrier that not all threads reach, or a wait without end";

struct emulated_warp {
    uint64_t value[2][32];
    uint32_t arrived = 0, turn = 0;
    unsigned threads = 0;
};
struct emulated_block {
    alignas(64) unsigned char shared[SHARED_MOST];
    std::vector<emulated_warp> warps;
    uint32_t arrived = 0, turn = 0;
    unsigned threads = 0, running = 0;
};
/* A fiber runs thread after thread: making one anew costs two system calls. */
struct fiber {
    jmp_buf at;
    bool begun = false, done = true;
    const uint32_t *turn = nullptr; /* waits while this is `old` */
    uint32_t old = 0;
    emulated_thread self;
    std::unique_ptr<char[]> stack;
    ucontext_t first;
};

__thread emulated_thread *emulated_self;
struct machine_state {
    jmp_buf home;
    std::vector<std::unique_ptr<fiber>> pool;
    std::vector<fiber *> ring; /* of all resident blocks, in drawn order */
    size_t at;
    uint64_t steps, progress;
    void (*run)(void **);
    void **params;
    void *(*place)(const void *);
};
static __thread machine_state *machine;

/* Exit handlers come after this, and may launch kernels: they have another machine. */
struct end_of_thread {
    ~end_of_thread()
    {
        delete machine;
        machine = nullptr;
    }
};

static __attribute__((noreturn)) void fail(const char *what)
{
    fprintf(stderr, "emulated kernel: %s\n", what);
    abort();
}

static __attribute__((noreturn)) void go(fiber *f)
{
    emulated_self = &f->self;
    if (f->begun)
        _longjmp(f->at, 1);
    f->begun = true;
    setcontext(&f->first);
    fail("no context");
}

static __attribute__((noreturn)) void next_fiber(machine_state *m)
{
    bool waits = false;

    for (size_t n = m->ring.size(); n > 0; n--) {
        m->at = m->at + 1 < m->ring.size() ? m->at + 1 : 0;
        fiber *f = m->ring[m->at];
        if (f->done)
            continue;
        if (!f->turn || *f->turn != f->old)
            go(f);
        waits = true;
    }
    if (waits)
        fail(STUCK);
    _longjmp(m->home, 1);
}

extern "C" void emulated_yield(void)
{
    machine_state *m = machine;

    if (++m->steps - m->progress > PATIENCE)
        fail(STUCK);
    if (!_setjmp(((fiber *)emulated_self->fiber)->at))
        next_fiber(m);
}

/* Others run while *turn is `old`. */
static void wait_for(const uint32_t *turn, uint32_t old)
{
    fiber *f = (fiber *)emulated_self->fiber;

    if (*turn != old)
        return;
    f->turn = turn;
    f->old = old;
    if (!_setjmp(f->at))
        next_fiber(machine);
    f->turn = nullptr;
}

extern "C" void *emulated_shared(size_t size, size_t align)
{
    size_t at = (emulated_self->shared_used + align - 1) & ~(align - 1);
    emulated_self->shared_used = at + size;
    if (emulated_self->shared_used > SHARED_MOST)
        fail("more than 48 KiB of shared memory");
    return emulated_self->of->shared + at;
}

extern "C" uint64_t *emulated_exchange(uint64_t mine)
{
    emulated_warp *w = &emulated_self->of->warps[emulated_self->warp];
    uint32_t turn = emulated_self->warp_turn++;
    if (emulated_meets)
        emulated_meets(emulated_self->warp, turn, __builtin_return_address(0));
    w->value[turn & 1][emulated_self->lane] = mine;
    if (++w->arrived == w->threads) {
        w->arrived = 0;
        w->turn = turn + 1;
        machine->progress = machine->steps;
    }
    wait_for(&w->turn, turn);
    return w->value[turn & 1];
}

extern "C" void emulated_barrier(void)
{
    emulated_block *b = emulated_self->of;
    uint32_t turn = emulated_self->block_turn++;
    if (emulated_meets)
        emulated_meets(THREADS_MOST, turn, __builtin_return_address(0));
    if (++b->arrived == b->threads) {
        b->arrived = 0;
        b->turn = turn + 1;
        machine->progress = machine->steps;
    }
    wait_for(&b->turn, turn);
}

extern "C" void *emulated_place(const void *p)
{
    return machine->place ? machine->place(p) : (void *)p;
}

static void body(void)
{
    for (;;) {
        machine->run(machine->params);
        fiber *f = (fiber *)emulated_self->fiber;
        f->done = true;
        f->self.of->running--;
        machine->progress = machine->steps;
        if (_setjmp(f->at))
            continue; /* another thread */
        if (f->self.of->running == 0)
            _longjmp(machine->home, 1); /* room for another block */
        next_fiber(machine);
    }
}

static uint64_t draw(uint64_t *seed)
{
    uint64_t x = *seed += 0x9e3779b97f4a7c15ull;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ x >> 27) * 0x94d049bb133111ebull;
    return x ^ x >> 31;
}

template <class T> static void shuffle(std::vector<T> &v, uint64_t *seed)
{
    if (*seed == 0)
        return;
    for (size_t i = v.size(); i > 1; i--)
        std::swap(v[i - 1], v[draw(seed) % i]);
}

static fiber *idle_fiber(size_t &used)
{
    while (used < machine->pool.size() && !machine->pool[used]->done)
        used++;
    if (used == machine->pool.size()) {
        fiber *f = new fiber;
        machine->pool.emplace_back(f);
        f->stack.reset(new char[EMULATED_STACK]);
        getcontext(&f->first);
        f->first.uc_stack.ss_sp = f->stack.get();
        f->first.uc_stack.ss_size = EMULATED_STACK;
        f->first.uc_link = nullptr;
        makecontext(&f->first, body, 0);
    }
    return machine->pool[used++].get();
}

static void start_block(emulated_block *b, unsigned at, unsigned threads, unsigned grid,
                        size_t &used)
{
    memset(b->shared, 0xa5, sizeof b->shared);
    b->warps.assign((threads + 31) / 32, emulated_warp());
    b->arrived = b->turn = 0;
    b->threads = b->running = threads;
    if (emulated_begins_block)
        emulated_begins_block(b, threads);
    for (unsigned t = 0; t < threads; t++) {
        fiber *f = idle_fiber(used);
        f->done = false;
        f->self = emulated_thread{
            {t, 0, 0}, {at, 0, 0}, {threads, 1, 1}, {grid, 1, 1}, t % 32, t / 32, 0, b, 0, 0,
            0,         f,          f->stack.get()};
        b->warps[t / 32].threads++;
    }
}

/* Until a block has ended, or nothing can run any more. */
static __attribute__((noinline)) void run_fibers(void)
{
    if (!_setjmp(machine->home))
        next_fiber(machine);
}

/* Runs a grid of one dimension; `resident` blocks at once, in an order drawn from the seed (0: as
 * they are numbered). */
extern "C" __attribute__((visibility("default"))) void
emulated_launch(void (*run)(void **), void **params, unsigned grid, unsigned threads,
                unsigned resident, uint64_t seed, void *(*place)(const void *))
{
    std::vector<std::unique_ptr<emulated_block>> blocks;
    std::vector<unsigned> order(grid);
    unsigned begun = 0;

    if (threads == 0 || threads > THREADS_MOST || grid == 0)
        fail("a launch without threads, or with too many");
    for (unsigned i = 0; i < grid; i++)
        order[i] = i;
    shuffle(order, &seed);
    for (unsigned i = 0; i < resident && i < grid; i++)
        blocks.emplace_back(new emulated_block);
    if (emulated_begins_launch)
        emulated_begins_launch();
    static thread_local end_of_thread end;
    (void)end;
    if (!machine)
        machine = new machine_state();
    machine->run = run, machine->params = params, machine->place = place;
    for (;;) {
        size_t used = 0;
        bool any = false;
        for (auto &b : blocks) {
            if (b->running == 0 && begun < grid)
                start_block(b.get(), order[begun++], threads, grid, used);
            any |= b->running > 0;
        }
        if (!any)
            break;
        machine->ring.clear();
        for (auto &f : machine->pool)
            if (!f->done)
                machine->ring.push_back(f.get());
        shuffle(machine->ring, &seed);
        machine->at = 0;
        run_fibers();
    }
    emulated_self = nullptr;
}
