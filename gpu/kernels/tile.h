/* A tile: the part of a vector that a block takes at once, as rows of 16 bytes a thread. A vector
 * need not start at a multiple of 16 bytes. Positions count from such an address, `skew` elements
 * before the vector, so that the first tile lacks elements, as the last may. If the skews of two
 * vectors differ, or a vector is not aligned to its elements, `aligned` is 0, and elements are read
 * one by one. */
#pragma once

#include "gpu/kernels/subset.h"

template <class B> struct tile_of {
    static constexpr u32 LANES = pack<B>::LANES, VECTORS = 4, ROW = THREADS * LANES,
                         SIZE = VECTORS * ROW;
    u32 first; /* this thread's first element; before the vector it is past n */
    u32 n;
    bool whole;

    __device__ tile_of(u32 tile, u32 count, u32 skew, u32 aligned)
        : first(tile * SIZE + threadIdx.x * LANES - skew), n(count),
          whole(aligned && tile * SIZE >= skew && tile * SIZE + SIZE <= count + skew)
    {
    }

    /* Returns element c of this thread in row k; slot returns the begin of its row in an array of
     * SIZE. */
    __device__ u32 element(u32 k, u32 c) const
    {
        return first + k * ROW + c;
    }
    __device__ u32 slot(u32 k) const
    {
        return k * ROW + threadIdx.x * LANES;
    }

    /* Returns the bits of row k from a bit for each element; count_rows counts the bits of each
     * row, a byte for each. */
    static __device__ u32 of_row(u32 bits, u32 k)
    {
        return bits >> k * LANES & ((1u << LANES) - 1);
    }
    static __device__ u32 count_rows(u32 bits)
    {
        u32 counts = 0;

        UNROLL
        for (u32 k = 0; k < VECTORS; k++)
            counts |= (u32)__popc(of_row(bits, k)) << 8 * k;
        return counts;
    }

    /* Elements past the ends are zero. All loads stand before the first use. */
    __device__ void load(const B *v, B (&to)[VECTORS][LANES]) const
    {
        if (whole) {
            UNROLL
            for (u32 k = 0; k < VECTORS; k++)
                load_pack(v + element(k, 0), to[k]);
            return;
        }
        UNROLL
        for (u32 k = 0; k < VECTORS; k++)
            UNROLL
        for (u32 c = 0; c < LANES; c++)
            to[k][c] = element(k, c) < n ? v[element(k, c)] : 0;
    }

    __device__ void store(B *v, u32 k, const B (&from)[LANES]) const
    {
        if (whole) {
            store_pack(v + element(k, 0), from);
            return;
        }
        UNROLL
        for (u32 c = 0; c < LANES; c++)
            if (element(k, c) < n)
                v[element(k, c)] = from[c];
    }
};

/* Into shared memory. */
DEVICE void store_parked(u32 *p, const u32 (&from)[4])
{
    *(uint4 *)p = uint4{from[0], from[1], from[2], from[3]};
}

DEVICE void store_parked(u64 *p, const u64 (&from)[2])
{
    *(ulonglong2 *)p = ulonglong2{from[0], from[1]};
}
