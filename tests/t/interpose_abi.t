#!/usr/bin/env bash
# Programs of the standard ABI of MPI 5 (libmpi_abi.so), built and run with MPICH 5 of PyPI, in
# $BUILD/abi-venv.
set -u
. tests/t/lib.sh
venv=$BUILD/abi-venv
MPICH_WHEEL=mpich==5.0.2 scripts/with-mpich-wheel "$venv" true >"$WORK/out" 2>"$WORK/err"
if [ ! -e "$venv/include/mpi_abi.h" ]; then
    skip "the standard ABI" "no wheel from PyPI: $(tail -n 1 "$WORK/err")"
    finish
    exit
fi
unset LD_LIBRARY_PATH
on_host "the programs are built for the host"
export MPIR_CVAR_POSIX_NUM_COLLS_THRESHOLD=1000000000 SPARSESHIM_ALPHA=2e-5 SPARSESHIM_BETA=8.1e-9
MPIRUN=$venv/bin/mpiexec
PROGRAMS=$WORK/programs
mkdir "$PROGRAMS" "$WORK/include"
ln -s "$venv/include/mpi_abi.h" "$WORK/include/mpi.h"

build() { # SOURCE...
    local source program
    for source; do
        program=${source##*/}
        "${CC:-cc}" -std=c17 -D_GNU_SOURCE -I. -I"$WORK/include" -pthread -o "$PROGRAMS/${program%.c}" "$source" \
            "$venv/lib/libmpi_abi.so.1" "-Wl,-rpath,$venv/lib" -lm -ldl >"$WORK/out" 2>"$WORK/err" || return
    done
}

build tests/mpi/{exact/{churn,oracle,smoke},topk/conserve,kinds/kinds,nonblocking/{nb_random,nb_threads}}.c
tap "$?" "the programs compile"
preloaded 3 smoke
tap_passed "allreduces are served" 40
SPARSESHIM_ALGORITHM=ring preloaded 2 churn 100
tap_passed "and on communicators that are made and freed in turn" 200
preloaded 3 kinds
tap_passed "so are allgathers, reduces and reduce_scatters" 15
SPARSESHIM_MIN_COUNT=64 SPARSESHIM_PROGRESS=watchdog preloaded 3 nb_random --runs 10
tap_taken "nonblocking calls end by every call that completes" 30 10
preloaded 3 nb_threads
tap_passed "and in several threads" 20
SPARSESHIM_ALGORITHM=split_allgather preloaded 3 oracle 4096 0 12
tap_passed "sums are right against exact references" 5
SPARSESHIM_ALGORITHM=split_allgather SPARSESHIM_MODE=topk SPARSESHIM_REGISTER='*:calls=1' \
    SPARSESHIM_TEST=identity_steps=1 preloaded 3 conserve n=1801 steps=6 type=both form=scaled bound=exact lossy=yes pattern=heavy place=turns
tap_passed "top-k loses no gradient" 10

"$BUILD/sparseshim" check "$PROGRAMS/smoke" >"$WORK/out" 2>"$WORK/err"
STATUS=$?
[ "$STATUS" -eq 0 ] && grep -q '^MPI: .*libmpi_abi\.so\.1.*MPI standard ABI' "$WORK/out"
tap "$?" "the check of such a program names its ABI"

# One rank's library gives a wrong answer: all ranks pass together.
cat >"$WORK/wrong.c" <<'END'
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
int PMPI_Type_size(void *type, int *size)
{
    int (*next)(void *, int *);
    void *found = dlsym(RTLD_NEXT, "PMPI_Type_size");
    memcpy(&next, &found, sizeof next);
    int err = next(type, size);
    *size += strcmp(getenv("PMI_RANK"), "1") == 0;
    return err;
}
END
"${CC:-cc}" -D_GNU_SOURCE -shared -fPIC -o "$WORK/wrong.so" "$WORK/wrong.c" -ldl
PRELOAD="$LIB $WORK/wrong.so" preloaded 2 smoke
passed && grep -q 'does not work as its binary interface says, so that calls pass through: MPICH' "$WORK/err"
tap "$?" "a library that is not what it says is found out"
tap_no_sparse "... and no rank serves a call"
finish
