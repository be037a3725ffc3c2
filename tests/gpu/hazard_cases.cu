/* Kernels with one hazard each, and what would be right beside it: what tests/gpu/hazards.cpp has
 * to find, and to leave alone. Blocks of 64 threads; `out` has a word for each thread of the grid.
 */
#include "gpu/kernels/subset.h"

typedef u32 words[64];
enum { HALF = WARP / 2 };

#define ALONE  threadIdx.x
#define OTHER  (63 - threadIdx.x) /* of the other warp */
#define BESIDE (threadIdx.x ^ 1u) /* of this one */
#define MINE   out[blockIdx.x * 64 + ALONE]
#define CASE(name, ...)                                                                            \
    KERNEL(name, 1)(u32 * out)                                                                     \
    {                                                                                              \
        SHARED(words, s);                                                                          \
        __VA_ARGS__                                                                                \
    }                                                                                              \
    KERNEL_END(name)

CASE(barrier_missing, s[ALONE] = 0; __syncthreads(); s[ALONE] = 1; MINE = s[OTHER];)
CASE(barrier_of_a_warp_only, s[ALONE] = 0; __syncthreads(); s[ALONE] = 1; __syncwarp();
     MINE = s[OTHER];)
CASE(barrier_there, s[ALONE] = 1; __syncthreads(); MINE = s[OTHER];)

CASE(warp_barrier_missing, s[ALONE] = 0; __syncthreads(); s[ALONE] = 1; MINE = s[BESIDE];)
CASE(shuffle_for_a_barrier, s[ALONE] = 1; (void)__ballot_sync(ALL, 1); MINE = s[BESIDE];)
CASE(warp_barrier_there, s[ALONE] = 1; __syncwarp(); MINE = s[BESIDE];)

CASE(room_used_again, s[ALONE] = 1; __syncthreads(); MINE = s[OTHER]; s[ALONE] = 2;)
CASE(room_used_again_behind, s[ALONE] = 1; __syncthreads(); MINE = s[OTHER]; __syncthreads();
     s[ALONE] = 2;)

CASE(two_write, s[ALONE / 2] = 1; MINE = 0;)
CASE(two_add, s[ALONE] = 0; __syncthreads(); atomicAdd(&s[ALONE / 2], 1u); __syncthreads();
     MINE = s[ALONE / 2];)
CASE(read_beside_adds, s[ALONE] = 0; __syncthreads(); atomicAdd(&s[0], 1u); MINE = s[0];)
CASE(bytes_of_a_word, ((unsigned char *)s)[ALONE] = 1; MINE = ((unsigned char *)s)[ALONE];)

CASE(shared_not_written, if (ALONE != 7) s[ALONE] = 1; __syncthreads(); MINE = s[OTHER];)
CASE(device_not_written, MINE = MINE + 1; s[ALONE] = 0;)
CASE(one_past_the_end, s[ALONE] = 0; out[blockIdx.x * 64 + ALONE + 1] = 0;)

CASE(blocks_write, s[ALONE] = 0; out[ALONE] = 1;)
CASE(blocks_agree, s[ALONE] = 0; store_same(out + ALONE, 1);)

/* The last block sums up what all have written. */
CASE(last_without_fence, if (ALONE == 0) out[1 + blockIdx.x] = 1; __syncthreads();
     if (ALONE == 0) s[0] = atomicAdd(out, 1u); __syncthreads();
     if (s[0] == gridDim.x - 1 && ALONE < gridDim.x) s[ALONE] = out[1 + ALONE];)
CASE(last_with_fences, if (ALONE == 0) out[1 + blockIdx.x] = 1;
     if (last_block(out, &s[0]) && ALONE < gridDim.x) s[1 + ALONE] = out[1 + ALONE];)

CASE(votes_at_two_places, u32 who = 0; if (ALONE % WARP < HALF) who = __ballot_sync(ALL, 1);
     else who = __ballot_sync(ALL, 0); s[ALONE] = MINE = who;)
CASE(
    barriers_at_two_places, if (ALONE < WARP) __syncthreads(); else {
        s[ALONE] = 0;
        __syncthreads();
    } MINE = 0;)
