/* Implements names for reports and messages, and a power, square root and logarithm without
 * libm. */
#include "core/base/types.h"

const char *ss_type_name(enum ss_type type)
{
    static const char *const names[SS_TYPES] = {"float", "double", "int32", "int64"};
    return names[type];
}

const char *ss_op_name(enum ss_op op)
{
    static const char *const names[SS_OPS] = {"sum", "bor", "bxor", "lor", "lxor"};
    return names[op];
}

const char *ss_algorithm_name(enum ss_algorithm algorithm)
{
#define WORD(id, word) #word,
    static const char *const names[SS_ALGORITHMS] = {"auto", SS_ALGORITHM_LIST(WORD) "dense"};
    return names[algorithm];
}

const char *ss_status_text(int status)
{
    switch (status) {
    case SS_PENDING:
        return "not finished";
    case SS_OK:
        return "success";
    case SS_ERR_MEMORY:
        return "out of memory";
    case SS_ERR_MESSAGE:
        return "malformed message";
    case SS_ERR_TRANSPORT:
        return "the MPI library reported an error";
    case SS_ERR_TIMEOUT:
        return "timeout";
    case SS_ERR_PEER:
        return "another rank failed";
    case SS_ERR_PROTOCOL:
        return "ranks disagree about the call";
    case SS_ERR_DIFFERENT:
        return "ranks called it with different counts, datatypes or operators";
    case SS_ERR_DEVICE:
        return "the device that holds the buffers failed";
    default:
        return "unknown status";
    }
}

double ss_power(double x, uint64_t n)
{
    double y = 1;

    for (; n > 0; n >>= 1, x *= x)
        if (n & 1)
            y *= x;
    return y;
}

/* Runs Newton's method from half the exponent. */
double ss_root(double x)
{
    union {
        double d;
        uint64_t u;
    } y = {.d = x};

    if (!(x > 0))
        return 0;
    y.u = (y.u >> 1) + ((uint64_t)1023 << 51);
    for (int i = 0; i < 6; i++)
        y.d = 0.5 * (y.d + x / y.d);
    return y.d;
}

const char *ss_value_type_name(unsigned value_type)
{
    static const char *const names[SS_VALUE_CHOICES] = {SS_VALUES_LIST(WORD) SS_QSGD_LIST(WORD)};
    return names[value_type];
}
