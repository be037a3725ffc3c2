/* The small part of CUDA C++ in which kernels are written: flat arguments, grids and blocks of one
 * dimension, warp functions with all lanes, shared memory by one macro. The same files compile for
 * a host with tests/gpu/emulate.h included before this header. */
#pragma once

typedef unsigned u32;
typedef unsigned long long u64;

enum { WARP = 32, THREADS = 256, WARPS = THREADS / WARP };
#define ALL 0xffffffffu

#ifdef __CUDACC__
/* A kernel that is found by its name; at least `blocks` of its blocks fit a multiprocessor. */
#define KERNEL(name, blocks) extern "C" __global__ void __launch_bounds__(THREADS, blocks) name
#define KERNEL_END(name)
#define SHARED(type, name) __shared__ type name
#define DEVICE             static __device__ __forceinline__
#define UNROLL             _Pragma("unroll")

/* A word that other blocks read and write, and that says all there is to say: nothing else is
 * ordered by it. */
DEVICE u64 load_relaxed(const u64 *p)
{
    u64 x;
    asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(x) : "l"(p) : "memory");
    return x;
}

DEVICE void store_relaxed(u64 *p, u64 x)
{
    asm volatile("st.relaxed.gpu.global.u64 [%0], %1;" ::"l"(p), "l"(x) : "memory");
}

/* A word that several threads write, and all the same; it may be the host's. */
DEVICE void store_same(u32 *p, u32 x)
{
    asm volatile("st.relaxed.sys.global.u32 [%0], %1;" ::"l"(p), "r"(x) : "memory");
}

/* Loads a value that another block has written. */
template <class T> DEVICE T load_foreign(const T *p)
{
    return __ldcg(p);
}

/* 16 bytes that are used once: first in line to leave the cache. NO_CACHE_HINTS: as any other. */
template <class T> DEVICE T load_once(const T *p)
{
#ifdef NO_CACHE_HINTS
    return *p;
#else
    return __ldcs(p);
#endif
}

template <class T> DEVICE void store_once(T *p, T x)
{
#ifdef NO_CACHE_HINTS
    *p = x;
#else
    __stcs(p, x);
#endif
}
#endif

/* ---- numbers as bits: floats are u32, doubles u64 ---- */

template <class B> struct number;

template <> struct number<u32> {
    static constexpr u32 MAGNITUDE = 0x7fffffffu, INFINITE = 0x7f800000u;
    static constexpr double LARGEST = 0x1.fffffep127;
};

template <> struct number<u64> {
    static constexpr u64 MAGNITUDE = 0x7fffffffffffffffu, INFINITE = 0x7ff0000000000000u;
    static constexpr double LARGEST = 0x1.fffffffffffffp1023;
};

template <class B> DEVICE B magnitude(B x)
{
    return x & number<B>::MAGNITUDE;
}

template <class B> DEVICE bool is_finite(B x)
{
    return magnitude(x) < number<B>::INFINITE;
}

DEVICE u32 bits_of(float x)
{
    return __float_as_uint(x);
}

DEVICE u64 bits_of(double x)
{
    return (u64)__double_as_longlong(x);
}

DEVICE float number_of(u32 bits)
{
    return __uint_as_float(bits);
}

DEVICE double number_of(u64 bits)
{
    return __longlong_as_double((long long)bits);
}

/* Round once each and are never fused. */
DEVICE float add(float a, float b)
{
    return __fadd_rn(a, b);
}

DEVICE double add(double a, double b)
{
    return __dadd_rn(a, b);
}

DEVICE float multiply(float a, float b)
{
    return __fmul_rn(a, b);
}

DEVICE double multiply(double a, double b)
{
    return __dmul_rn(a, b);
}

/* Adds two numbers given as bits. */
template <class B> DEVICE B sum_of(B a, B b)
{
    return bits_of(add(number_of(a), number_of(b)));
}

/* At most the largest finite number. */
template <class B> DEVICE B sum_saturating(B a, B b)
{
    const B sum = sum_of(a, b);
    return is_finite(sum) ? sum : (sum & ~number<B>::MAGNITUDE) | (number<B>::INFINITE - 1);
}

template <class B> DEVICE B negative(B x)
{
    return x ^ ~number<B>::MAGNITUDE;
}

/* ---- 16 bytes at once ---- */

template <class B> struct pack {
    static constexpr u32 LANES = 16 / sizeof(B);
};

DEVICE void load_pack(const u32 *p, u32 (&to)[4])
{
    uint4 x = load_once((const uint4 *)p);
    to[0] = x.x, to[1] = x.y, to[2] = x.z, to[3] = x.w;
}

DEVICE void load_pack(const u64 *p, u64 (&to)[2])
{
    ulonglong2 x = load_once((const ulonglong2 *)p);
    to[0] = x.x, to[1] = x.y;
}

DEVICE void store_pack(u32 *p, const u32 (&from)[4])
{
    store_once((uint4 *)p, uint4{from[0], from[1], from[2], from[3]});
}

DEVICE void store_pack(u64 *p, const u64 (&from)[2])
{
    store_once((ulonglong2 *)p, ulonglong2{from[0], from[1]});
}

/* ---- a warp ---- */

template <class T> DEVICE T warp_sum(T x)
{
    UNROLL
    for (int d = WARP / 2; d > 0; d /= 2)
        x += __shfl_xor_sync(ALL, x, d);
    return x;
}

/* Adds counts over a warp, by one instruction if the architecture has it. */
DEVICE u32 warp_count(u32 x)
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    return __reduce_add_sync(ALL, x);
#else
    return warp_sum(x);
#endif
}

template <class T> DEVICE T warp_max(T x)
{
    UNROLL
    for (int d = WARP / 2; d > 0; d /= 2) {
        T y = __shfl_xor_sync(ALL, x, d);
        x = y > x ? y : x;
    }
    return x;
}

/* Adds x over all lanes up to this one. */
template <class T> DEVICE T warp_scan(T x, u32 lane)
{
    UNROLL
    for (u32 d = 1; d < WARP; d *= 2) {
        T y = __shfl_up_sync(ALL, x, d);
        x += lane >= d ? y : 0;
    }
    return x;
}

DEVICE u32 lanes_below(u32 lane)
{
    return (1u << lane) - 1;
}

DEVICE bool warp_any(bool x)
{
    return __ballot_sync(ALL, x) != 0;
}

/* ---- a grid ---- */

/* The element of a thread, and what all threads stride by. */
DEVICE u32 first_element(void)
{
    return blockIdx.x * blockDim.x + threadIdx.x;
}

DEVICE u32 all_threads(void)
{
    return gridDim.x * blockDim.x;
}

/* Returns true in the last block to call it, which then sees the earlier writes of all other
 * blocks. Every thread of a block calls it; `done` is zero before the launch. */
DEVICE bool last_block(u32 *done, u32 *seen)
{
    __syncthreads();
    if (threadIdx.x == 0) {
        __threadfence(); /* what the block wrote, before it is counted */
        *seen = atomicAdd(done, 1u);
        __threadfence(); /* what all others wrote, behind that */
    }
    __syncthreads();
    return *seen == gridDim.x - 1;
}
