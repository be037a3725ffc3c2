#!/usr/bin/env bash
# Other libraries in the process: a plugin that brings MPI in a scope of its own, a profiler above
# and below.
set -u
. tests/t/lib.sh

within 60 "${CC:-cc}" -std=c17 -D_GNU_SOURCE -I. -DHOST_ONLY -o "$WORK/host" tests/mpi/plugin.c -ldl
tap "$STATUS" "a program without MPI is built"
within 60 "${MPICC:-mpicc.mpich}" -std=c17 -D_GNU_SOURCE -I. -DPLUGIN_ONLY -fPIC -shared \
    -o "$WORK/plugin.so" tests/mpi/plugin.c
tap "$STATUS" "a plugin with MPI is built"
readelf -d "$WORK/host" >"$WORK/out"
! grep -q 'NEEDED.*mpi' "$WORK/out"
tap "$?" "the program does not link MPI"
within 60 "$MPIRUN" -n 3 "$WORK/host" "$WORK/plugin.so"
tap_passed "a plugin opened RTLD_LOCAL, bare"
SPARSESHIM_ALGORITHM=ring within 60 "$MPIRUN" -n 3 -genv LD_PRELOAD "$LIB" "$WORK/host" \
    "$WORK/plugin.so"
tap_passed "a plugin opened RTLD_LOCAL: its calls are made sparse" 3

# saw COUNT: every rank's profiler saw as many calls.
saw() {
    [ "$(grep -c "profiler: rank [0-9]* saw $1\$" "$WORK/err")" -eq 3 ]
}

PRELOAD=$PROGRAMS/profiler.so preloaded 3 stacked
saw 7
tap "$?" "the profiler alone sees all 7 calls"
PRELOAD="$LIB $PROGRAMS/profiler.so" SPARSESHIM_ALGORITHM=ring preloaded 3 stacked
tap_passed "with a profiler below: the results are right, calls are made sparse" 3
# Three maxima; the call that was delegated as the first may be one more.
saw 3 || saw 4
tap "$?" "a profiler below sees the calls that pass through"
PRELOAD="$PROGRAMS/profiler.so $LIB" SPARSESHIM_ALGORITHM=ring preloaded 3 stacked
tap_passed "with a profiler above: the results are right"
saw 7
tap "$?" "a profiler above sees all 7 calls"
SPARSESHIM_DISABLE=1 PRELOAD="$LIB $PROGRAMS/profiler.so" preloaded 3 stacked
saw 7
tap "$?" "with DISABLE=1 a profiler below sees all 7 calls"
finish
