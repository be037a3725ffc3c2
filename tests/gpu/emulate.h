/* The part of CUDA C++ that the kernels use, on a host: a grid of blocks whose threads are fibers
 * of one host thread. Barriers and warp functions switch to the next fiber; blocks that are
 * resident at once are interleaved, in an order drawn from a seed. Warp functions take all lanes.
 * What it cannot show: speed; and only where accesses are watched, with EMULATED_WATCHED, missing
 * fences and races within a step of a warp. */
#pragma once
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <utility>

#define __device__
#define DEVICE static inline
#define UNROLL
#define KERNEL(name, least) extern "C" void name
#define SHARED(type, name)  type &name = *(type *)emulated_shared(sizeof(type), alignof(type))

struct emulated_dim {
    unsigned x, y, z;
};
struct emulated_block;
struct emulated_thread {
    emulated_dim thread, block, block_size, grid_size;
    unsigned lane, warp;
    size_t shared_used;
    emulated_block *of;
    uint32_t warp_turn, block_turn, warp_barriers;
    void *fiber;
    const char *stack;
};
enum { EMULATED_STACK = 64 * 1024 };
extern __thread emulated_thread *emulated_self;
#define threadIdx (emulated_self->thread)
#define blockIdx  (emulated_self->block)
#define blockDim  (emulated_self->block_size)
#define gridDim   (emulated_self->grid_size)

struct alignas(16) uint4 {
    unsigned x, y, z, w;
};
struct alignas(16) ulonglong2 {
    unsigned long long x, y;
};

extern "C" {
void emulated_yield(void);
void *emulated_shared(size_t size, size_t align); /* one place for all threads of a block */
uint64_t *emulated_exchange(uint64_t mine);       /* the 32 values of the warp */
void emulated_barrier(void);
void *emulated_place(const void *device_pointer); /* where the host finds it */

/* tests/gpu/hazards.cpp. Shared memory is where the block is. */
#define WEAK __attribute__((weak))
WEAK void emulated_begins_launch(void);
WEAK void emulated_begins_block(const emulated_block *block, unsigned threads);
WEAK void emulated_meets(unsigned long long group, unsigned turn, const void *site);
void emulated_fences(void);
void emulated_atomic(const void *p, size_t size, bool reads, bool writes);
}

/* What is in here is no access of a kernel's. */
#ifdef EMULATED_WATCHED
#define UNWATCHED static __attribute__((noinline, unused, no_sanitize("thread")))
#else
#define UNWATCHED                   static inline
#define emulated_fences()           (void)0
#define emulated_atomic(p, n, r, w) (void)0
#endif

static inline void __syncthreads(void)
{
    emulated_barrier();
}
static inline void __syncwarp(void)
{
    emulated_exchange(0);
    emulated_self->warp_barriers++;
}
UNWATCHED unsigned emulated_ballot(const uint64_t *v)
{
    unsigned b = 0;
    for (int i = 0; i < 32; i++)
        b |= (unsigned)v[i] << i;
    return b;
}
static inline unsigned __ballot_sync(unsigned, int p)
{
    return emulated_ballot(emulated_exchange(p != 0));
}
UNWATCHED uint64_t emulated_value(const uint64_t *v, unsigned from)
{
    return v[from & 31];
}
template <class T> static inline T emulated_shuffle(T x, unsigned from)
{
    uint64_t bits = 0;
    memcpy(&bits, &x, sizeof x);
    bits = emulated_value(emulated_exchange(bits), from);
    memcpy(&x, &bits, sizeof x);
    return x;
}
template <class T> static inline T __shfl_sync(unsigned, T x, int from)
{
    return emulated_shuffle(x, (unsigned)from);
}
template <class T> static inline T __shfl_xor_sync(unsigned, T x, int mask)
{
    return emulated_shuffle(x, emulated_self->lane ^ (unsigned)mask);
}
template <class T> static inline T __shfl_up_sync(unsigned, T x, unsigned d)
{
    unsigned lane = emulated_self->lane;
    return emulated_shuffle(x, lane >= d ? lane - d : lane);
}
static inline int __popc(unsigned x)
{
    return __builtin_popcount(x);
}
static inline int __ffs(int x)
{
    return __builtin_ffs(x);
}
static inline int __clzll(long long x)
{
    return x ? __builtin_clzll((unsigned long long)x) : 64;
}
template <class To, class From> static inline To emulated_cast(From x)
{
    static_assert(sizeof(To) == sizeof(From), "the same bits");
    To to;
    memcpy(&to, &x, sizeof to);
    return to;
}
static inline unsigned __float_as_uint(float x)
{
    return emulated_cast<unsigned>(x);
}
static inline float __uint_as_float(unsigned x)
{
    return emulated_cast<float>(x);
}
static inline long long __double_as_longlong(double x)
{
    return emulated_cast<long long>(x);
}
static inline double __longlong_as_double(long long x)
{
    return emulated_cast<double>(x);
}
/* Arithmetic on floats gives one NaN, whatever those are that it is given. */
static inline float emulated_float(float x)
{
    return x == x ? x : __uint_as_float(0x7fffffffu);
}
static inline float __fadd_rn(float a, float b)
{
    return emulated_float(a + b);
}
static inline double __dadd_rn(double a, double b)
{
    return a + b;
}
static inline float __fmul_rn(float a, float b)
{
    return emulated_float(a * b);
}
static inline double __dmul_rn(double a, double b)
{
    return a * b;
}
static inline double __fma_rn(double a, double b, double c)
{
    return __builtin_fma(a, b, c);
}
static inline float __double2float_rn(double x)
{
    return emulated_float((float)x);
}
static inline long long __double2ll_rn(double x)
{
    return llrint(x);
}
static inline void __nanosleep(unsigned)
{
    emulated_yield();
}
static inline void __threadfence(void)
{
    emulated_fences();
}
template <class T> UNWATCHED T emulated_exchange_add(T *p, T x)
{
    emulated_atomic(p, sizeof *p, true, true);
    T old = *p;
    *p = old + x;
    return old;
}
static inline unsigned atomicAdd(unsigned *p, unsigned x)
{
    return emulated_exchange_add(p, x);
}
static inline unsigned long long atomicAdd(unsigned long long *p, unsigned long long x)
{
    return emulated_exchange_add(p, x);
}
UNWATCHED unsigned long long atomicMax(unsigned long long *p, unsigned long long x)
{
    emulated_atomic(p, sizeof *p, true, true);
    unsigned long long old = *p;
    *p = x > old ? x : old;
    return old;
}
UNWATCHED unsigned atomicOr(unsigned *p, unsigned x)
{
    emulated_atomic(p, sizeof *p, true, true);
    unsigned old = *p;
    *p = old | x;
    return old;
}
UNWATCHED unsigned long long load_relaxed(const unsigned long long *p)
{
    emulated_atomic(p, sizeof *p, true, false);
    return *(const volatile unsigned long long *)p;
}
UNWATCHED void store_relaxed(unsigned long long *p, unsigned long long x)
{
    emulated_atomic(p, sizeof *p, false, true);
    *(volatile unsigned long long *)p = x;
}
UNWATCHED void store_same(unsigned *p, unsigned x)
{
    emulated_atomic(p, sizeof *p, false, true);
    *p = x;
}
template <class T> static inline T load_foreign(const T *p)
{
    return *p;
}
template <class T> static inline T load_once(const T *p)
{
    return *p;
}
template <class T> static inline void store_once(T *p, T x)
{
    *p = x;
}

/* What a launch needs to know of a kernel. */
struct emulated_kernel {
    void (*run)(void **params);
    unsigned params;
    const size_t *sizes;
};
template <class T> static inline T emulated_argument(T x)
{
    return x;
}
template <class T> static inline T *emulated_argument(T *x)
{
    return (T *)emulated_place((const void *)x);
}
template <auto F> struct emulated_thunk;
template <class... A, void (*F)(A...)> struct emulated_thunk<F> {
    static constexpr size_t sizes[] = {sizeof(A)...};
    template <size_t... I> static void call(void **p, std::index_sequence<I...>)
    {
        F(emulated_argument(*(A *)p[I])...);
    }
    static void run(void **p)
    {
        call(p, std::index_sequence_for<A...>());
    }
};
#define KERNEL_END(name)                                                                           \
    extern "C" __attribute__((visibility("default"))) const emulated_kernel emulated_##name = {    \
        emulated_thunk<name>::run, sizeof emulated_thunk<name>::sizes / sizeof(size_t),            \
        emulated_thunk<name>::sizes};
