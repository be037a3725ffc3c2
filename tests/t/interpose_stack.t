#!/usr/bin/env bash
# Other libraries in the process: a plugin that brings MPI in a scope of its own, a profiler above
# and below.
set -u
. tests/t/lib.sh

within 60 "${CC:-cc}" -std=c17 -D_GNU_SOURCE -I. -DHOST_ONLY -o "$WORK/host" tests/mpi/process/plugin.c -ldl
tap "$STATUS" "a program without MPI is built"
within 60 "${MPICC:-mpicc.mpich}" -std=c17 -D_GNU_SOURCE -I. -DPLUGIN_ONLY -fPIC -shared \
    -o "$WORK/plugin.so" tests/mpi/process/plugin.c
tap "$STATUS" "a plugin with MPI is built"
readelf -d "$WORK/host" >"$WORK/out"
! grep -q 'NEEDED.*mpi' "$WORK/out"
tap "$?" "the program does not link MPI"
within 60 "$MPIRUN" -n 3 "$WORK/host" "$WORK/plugin.so"
tap_passed "a plugin opened RTLD_LOCAL, bare"
SPARSESHIM_ALGORITHM=ring within 60 "$MPIRUN" -n 3 -genv LD_PRELOAD "$LIB" "$WORK/host" \
    "$WORK/plugin.so"
tap_passed "a plugin opened RTLD_LOCAL: its calls are made sparse" 3

# A plugin's MPI is in a scope where tests/preload/to_device.c does not find it; the MPI library alone
# cannot read the memory of a device.
on_host "where calls pass us by nobody serves them"

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
# On every rank.
[ "$(grep -c 'profiler: level 2 with 3.25$' "$WORK/err")" -eq 3 ] &&
    [ "$(grep -c 'profiler: level 3 with 7 -0.5 region 1e+100$' "$WORK/err")" -eq 3 ] &&
    [ "$(grep -Ec 'profiler: level 4 with 1 2 3 4 5( 6 7)?$' "$WORK/err")" -eq 3 ]
tap "$?" "what follows the level of MPI_Pcontrol arrives, words and floating-point numbers"
PRELOAD="$PROGRAMS/profiler.so $LIB" SPARSESHIM_ALGORITHM=ring preloaded 3 stacked
tap_passed "with a profiler above: the results are right"
saw 7
tap "$?" "a profiler above sees all 7 calls"
[ "$(counter calls.seen)" = 0 ]
tap "$?" "that profiler calls the PMPI names, and we see none"
SPARSESHIM_ALGORITHM=ring within 60 "$MPIRUN" -n 3 -genv LD_PRELOAD "$PROGRAMS/profiler.so $LIB" \
    "$BUILD/sparseshim" run "$PROGRAMS/stacked"
tap_passed "sparseshim run puts the library before the profiler: calls are made sparse" 3
saw 3 || saw 4
tap "$?" "and the profiler sees the calls that pass through"
SPARSESHIM_DISABLE=1 PRELOAD="$LIB $PROGRAMS/profiler.so" preloaded 3 stacked
saw 7
tap "$?" "with DISABLE=1 a profiler below sees all 7 calls"

# A module's copy and one's own, say.
mkdir "$WORK/copy"
cp "$LIB" "$WORK/copy/libsparseshim.so"
PRELOAD="$LIB $WORK/copy/libsparseshim.so" SPARSESHIM_ALGORITHM=ring preloaded 3 stacked
tap_passed "two copies of the library: the results are right"
[ "$(grep -c "^sparseshim: two copies of this library are preloaded: $(realpath "$LIB") and $WORK/copy/libsparseshim.so; every call passes through" "$WORK/err")" -eq 1 ] &&
    ! grep -v '^profiler' "$WORK/err" | grep -v '^sparseshim: two copies'
tap "$?" "one line says so, and names both"

# An MPICH whose handles are pointers, as the MPI 5 standard has them: told by the file's name. The
# library made here has just what the first call needs.
cat >"$WORK/abi.c" <<'END'
#include <stdio.h>
#include <string.h>
int PMPI_Allreduce(const void *in, void *out, int count, void *type, void *op, void *comm)
{
    (void)type, (void)op;
    memcpy(out, in, (size_t)count * sizeof(float));
    return comm != (void *)0x7654321089abcdefUL;
}
int MPI_Allreduce(const void *in, void *out, int count, void *type, void *op, void *comm)
{
    return PMPI_Allreduce(in, out, count, type, op, comm);
}
int PMPI_Get_library_version(char *text, int *length)
{
    *length = sprintf(text, "MPICH Version: 5.0.0");
    return 0;
}
END
cat >"$WORK/uses.c" <<'END'
#include <stdio.h>
int MPI_Allreduce(const void *in, void *out, int count, void *type, void *op, void *comm);
int main(void)
{
    static float in[9000] = {[8999] = 3.5f}, out[9000];
    int failed = 0;
    for (int call = 0; call < 3; call++) {
        out[8999] = 0;
        failed |= MPI_Allreduce(in, out, 9000, (void *)0x4c00040aUL, (void *)0x58000003UL,
                                (void *)0x7654321089abcdefUL) || out[8999] != 3.5f;
    }
    puts(failed ? "not ok 1" : "ok 1");
    puts("1..1");
    return failed;
}
END
result=0
mkdir -p "$WORK/abi"
"${CC:-cc}" -shared -fPIC -Wl,-soname,libmpi_abi.so.0 -o "$WORK/abi/libmpi_abi.so.0" "$WORK/abi.c" &&
    "${CC:-cc}" -o "$WORK/uses" "$WORK/uses.c" "$WORK/abi/libmpi_abi.so.0" || result=1
within 60 env LD_LIBRARY_PATH="$WORK/abi" LD_PRELOAD="$LIB" "$WORK/uses"
passed || result=1
[ "$(wc -l <"$WORK/err")" -eq 1 ] &&
    grep -q 'standard MPI ABI (libmpi_abi).*MPICH Version: 5.0.0; every call passes through' "$WORK/err" ||
    result=1
tap "$result" "an MPICH of the standard ABI: every call passes through, one line says so"
finish
