/* The operators: a op b, as enum ss_op of core/base/types.h numbers them. Integers are unsigned, so
 * that sums wrap. */
#pragma once

#include "gpu/kernels/subset.h"

enum { OP_SUM, OP_BOR, OP_BXOR, OP_LOR, OP_LXOR };

template <u32 OP, class B> DEVICE B combined(B a, B b)
{
    return OP == OP_SUM    ? a + b
           : OP == OP_BOR  ? (a | b)
           : OP == OP_BXOR ? (a ^ b)
           : OP == OP_LOR  ? (B)((a | b) != 0)
                           : (B)((a != 0) != (b != 0));
}

/* what<OP> arguments; with the operator known the loop has no branch. */
#define BY_OPERATOR(op, what, arguments)                                                           \
    do {                                                                                           \
        if ((op) == OP_SUM)                                                                        \
            what<OP_SUM> arguments;                                                                \
        else if ((op) == OP_BOR)                                                                   \
            what<OP_BOR> arguments;                                                                \
        else if ((op) == OP_BXOR)                                                                  \
            what<OP_BXOR> arguments;                                                               \
        else if ((op) == OP_LOR)                                                                   \
            what<OP_LOR> arguments;                                                                \
        else                                                                                       \
            what<OP_LXOR> arguments;                                                               \
    } while (0)
