/* Defines nonblocking reductions that are wrapped for the sake of an operator of the program. PMPI
 * names are those of Fortran under Open MPI (shim/entry/fortran.c). */
#include "shim/entry/entry.h"

/* A call, from arguments named alike in all functions below. */
#define CALL(is_large, what, ...)                                                                  \
    &(struct shim_call)                                                                            \
    {                                                                                              \
        .send = send, .recv = recv, .type = shim_abi_word(type), .op = shim_abi_word(op),          \
        .comm = shim_abi_word(comm), .large = is_large, .user = what, __VA_ARGS__                  \
    }

static bool is_user(uintptr_t op, const void *request)
{
    be_ready();
    return shim_is_user_operator(op) && request && shim_prepare();
}

#define CATCH(function, signature, N, from, next, call)                                            \
    int function(signature(N))                                                                     \
    {                                                                                              \
        if (from && is_user(op, request))                                                          \
            return shim_user_reduction(call, SHIM_NOT_COUNTED, request);                           \
        return next(signature##_ARGUMENTS);                                                        \
    }
#define USER_OPERATOR(name, member, signature, what, ...)                                          \
    CATCH(MPI_##name, signature, int, true, shim.next.member, CALL(false, what, __VA_ARGS__))      \
    CATCH(MPI_##name##_c, signature, int64_t, true, shim.next.member##_c,                          \
          CALL(true, what, __VA_ARGS__))                                                           \
    CATCH(PMPI_##name, signature, int, FROM_FORTRAN, shim.pmpi.member,                             \
          CALL(false, what, .pmpi = true, __VA_ARGS__))

USER_OPERATOR(Iscan, iscan, SHIM_IREDUCTION, SHIM_USER_ISCAN, .count = count)
USER_OPERATOR(Iexscan, iexscan, SHIM_IREDUCTION, SHIM_USER_IEXSCAN, .count = count)
USER_OPERATOR(Ireduce_scatter_block, ireduce_block, SHIM_IREDUCTION, SHIM_USER_IREDUCE_BLOCK,
              .count = count)
USER_OPERATOR(Ireduce, ireduce, SHIM_IREDUCE, SHIM_USER_IREDUCE, .count = count, .root = root)
USER_OPERATOR(Ireduce_scatter, ireduce_scatter, SHIM_ISCATTER, SHIM_USER_IREDUCE_SCATTER,
              .counts = counts)
