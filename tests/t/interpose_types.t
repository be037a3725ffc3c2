#!/usr/bin/env bash
# What becomes of each predefined datatype, and types that ranks name differently.
set -u
. tests/t/lib.sh
export UCX_HANDLE_ERRORS=none # no backtrace
export SPARSESHIM_ALGORITHM=split_allgather SPARSESHIM_ALPHA=2e-5 SPARSESHIM_BETA=8.1e-9

# as_bare LEAST RANKS ARGUMENT: the program ends as without the library, and at least so many of its
# calls were made sparse. Some MPI libraries fail in an assertion where others return an error.
as_bare() {
    local was
    bare "$2" datatypes "$3"
    was=$STATUS
    preloaded "$2" datatypes "$3"
    # Of two ranks that end badly mpirun reports one, which is chance; 124 is the deadline.
    [ "$((STATUS != 0))" -eq "$((was != 0))" ] && [ "$STATUS" -ne 124 ] && { [ "$was" -ne 0 ] || { passed && sparse_calls "$1"; }; }
    tap "$?" "$3 on $2 ranks: as without the library, status $was"
}

echo '#include <mpi.h>' | "${MPICC:-mpicc.mpich}" -E -dM -x c - |
    sed -n 's/^#define \(MPIX*_[A-Z0-9_]*\) *((MPI_Datatype)[0M].*/\1/p' | sort >"$WORK/named"
"$PROGRAMS/datatypes" list | cut -d ' ' -f 1 | sort >"$WORK/listed"
[ -s "$WORK/named" ] && [ -z "$(comm -23 "$WORK/named" "$WORK/listed" | tee "$WORK/err")" ]
tap "$?" "the program lists all datatypes of mpi.h"
as_bare 80 2 served
[ "$(sed -n 's/^# \([0-9]*\) calls that.*/\1/p' "$WORK/out")" = "$(($(counter calls.sparse) - 1))" ]
tap "$?" "all sums of types that are served were sparse, and what bit operators made"
as_bare 1 2 passed
[ "$(counter calls.sparse)" = 1 ] || [ "$STATUS" -ne 0 ]
tap "$?" "no sum of another type was"
for ranks in 2 3; do
    as_bare 50 "$ranks" names
    SPARSESHIM_MODE=observe as_bare 0 "$ranks" names
done
as_bare 2 2 wrong
as_bare 0 2 gone

bare 2 dirty_words
tap_passed "bare: the MPI library ignores the upper half of a handle"
preloaded 2 dirty_words
tap_taken "so does the preload, which serves the calls" 10 60
finish
