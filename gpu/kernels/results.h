/* Results that kernels leave in device memory for the host and for later kernels, in C and CUDA
 * C++. Zero before a launch unless a comment says otherwise. */
#ifndef GPU_RESULTS_H
#define GPU_RESULTS_H

/* Result of a pass that claims. */
struct gpu_claimed {
    unsigned long long reached;    /* entries at or above the threshold, also those without room */
    unsigned long long not_finite; /* g or g + r is not finite */
    unsigned long long overflowed; /* not finite though g is: noted in the bitmap, if any */
    unsigned long long largest;    /* magnitude of the largest finite g + r */
    double input_square, sum_square; /* of the finite g + r; written by ss_sum */
    unsigned any_input;              /* some g is not zero */
    unsigned ticket, done, unused;
};

struct gpu_scanned {
    unsigned long long nnz, stop; /* stop is written only where the room does not suffice */
    unsigned negative_zero, not_finite;
    unsigned ticket, unused;
};

/* Result of a radix search. */
struct gpu_search {
    unsigned long long wanted; /* k, less what is above */
    unsigned long long low;    /* bits of the k-th largest that are known, the others zero */
    unsigned long long above;  /* entries larger than those that agree in these bits */
    unsigned long long count;  /* entries at or above low */
    unsigned few, done;        /* there are fewer than k */
};

/* Result of keeping the large entries of a list. */
struct gpu_kept {
    unsigned long long kept; /* entries that stay claims: those at or above the threshold */
    unsigned missed;         /* 1: the list lacked wanted entries, and all of it was put back */
    unsigned ticket;
};

/* Entries of a list that become a message, whose place in an area of them is `at`. Written by the
 * host. */
struct gpu_message {
    unsigned first, count; /* entries */
    unsigned at;           /* bytes, a multiple of 8 */
    unsigned last;         /* 1: the end of a stream */
};

/* Sums over a range of indices: struct ss_share of core/backend/backend.h. */
struct gpu_share {
    double square;                /* sum of the finite squares */
    unsigned long long first;     /* first entry of the range */
    unsigned long long count;     /* entries that are not zero */
    unsigned long long unbounded; /* entries whose square is not finite */
};

#endif
