#!/usr/bin/env bash
# Fortran under Open MPI, whose Fortran libraries call PMPI names: their calls are served, those of
# others are not, under Open MPI and MPICH.
set -u
. tests/t/lib.sh

# A C program that calls PMPI names, under MPICH.
bare 3 direct
tap_passed "direct calls of PMPI names under MPICH, bare"
SPARSESHIM_ALGORITHM=ring preloaded 3 direct
tap_passed "direct calls of PMPI names under MPICH, preloaded"
[ "$(counter calls.seen)" = 0 ]
tap "$?" "... and we see none"

if ! command -v mpifort.openmpi >"$WORK/out" || ! command -v mpirun.openmpi >"$WORK/out"; then
    skip "Fortran under Open MPI" "it is not installed (openmpi-bin, libopenmpi-dev, gfortran)"
    finish
    exit
fi
OPEN=(mpirun.openmpi --oversubscribe --mca btl "self,vader,tcp" -n 3)
[ "$(id -u)" -eq 0 ] && OPEN+=(--allow-run-as-root)
# Debian's mpifort.openmpi finds the libmpi.so of another MPI library otherwise.
OWN=-L$(mpicc.openmpi --showme:libdirs | sed 's/ .*//')

# open_preloaded LIBRARIES PROGRAM [ARGUMENT...]
open_preloaded() {
    local libraries=$1
    shift
    SPARSESHIM_ALGORITHM=ring within 60 "${OPEN[@]}" -x "LD_PRELOAD=$libraries" -x SPARSESHIM_ALGORITHM "$@"
}

# names KIND LIBRARY...: names of MPI that they define or need.
names() {
    nm -D "--$1-only" "${@:2}" | awk '{ print $NF }' | sed 's/@.*//' | grep -E '^P?MPI_' | sort -u
}
libraries=$(mpicc.openmpi --showme:libdirs | sed 's/ .*//')
names undefined "$libraries"/libmpi_mpifh.so "$libraries"/libmpi_usempif08.so | grep '^PMPI_' >"$WORK/needed"
names defined "$LIB" >"$WORK/ours"
# Names MPI_X that the library defines and that Open MPI's Fortran libraries call as PMPI_X.
grep '^MPI_' "$WORK/ours" | sed 's/^/P/' | sort | comm -12 - "$WORK/needed" >"$WORK/wrapped"
grep '^PMPI_' "$WORK/ours" | comm -23 "$WORK/wrapped" - >"$WORK/out"
[ "$(wc -l <"$WORK/wrapped")" -ge 15 ] && [ ! -s "$WORK/out" ]
tap "$?" "each name that is wrapped is taken over from Fortran, too"

# program NAME SPARSE: it passes bare and preloaded, with so many sparse calls or more.
program() {
    within 60 mpifort.openmpi "$OWN" -O1 -w -fallow-argument-mismatch -J"$WORK" -o "$WORK/$1" tests/fortran/"$1".f*
    tap "$STATUS" "$1 is built with Open MPI"
    within 60 "${OPEN[@]}" "$WORK/$1"
    tap_passed "$1 under Open MPI, bare"
    open_preloaded "$LIB" "$WORK/$1"
    tap_passed "$1 under Open MPI, preloaded: at least $2 calls are made sparse" "$2"
}
program ftn_mpif 17
program ftn_mpi 20
program ftn_f08 20
program nb_mpif 0
program ftn_kinds 30
# Ten rounds of twelve calls, the last with MPI_Pcontrol(0), and a small sum.
[ "$(counter calls.seen)" = 121 ] && [ "$(passed_for off)" -ge 6 ]
tap "$?" "ftn_kinds: every call is seen, and MPI_Pcontrol of Fortran is heard"
for progress in watchdog thread; do
    SPARSESHIM_PROGRESS=$progress open_preloaded "$LIB" "$WORK/ftn_kinds"
    tap_taken "ftn_kinds with PROGRESS=$progress: nonblocking calls are taken over" 30 40
    SPARSESHIM_PROGRESS=$progress open_preloaded "$LIB" "$WORK/nb_mpif"
    tap_taken "nb_mpif with PROGRESS=$progress: nonblocking calls are taken over, and sparse" 15 15
done
program ftn_callbacks 14
SPARSESHIM_PROGRESS=watchdog open_preloaded "$LIB" "$WORK/ftn_callbacks" nonblocking
tap_passed "ftn_callbacks of nonblocking calls alone: no thread of the library runs a copy function"
SPARSESHIM_MODE=topk SPARSESHIM_REGISTER=count=4096 open_preloaded "$LIB" -x SPARSESHIM_MODE -x SPARSESHIM_REGISTER "$WORK/ftn_mpi"
# shellcheck disable=SC2119 # all of them
[ "$(tensors)" -ge 4 ]
tap "$?" "MODE=topk tells the calls of a Fortran program apart by their sites"

# saw COUNT: every rank's profiler saw as many calls.
saw() {
    [ "$(grep -c "profiler: rank [0-9]* saw $1\$" "$WORK/err")" -eq 3 ]
}

# A profiler: it sees no call of Fortran, with or without us.
within 60 mpicc.openmpi -std=c17 -fPIC -shared -o "$WORK/profiler.so" tests/preload/profiler.c
tap "$STATUS" "a profiler is built with Open MPI"
for order in "$LIB:$WORK/profiler.so" "$WORK/profiler.so:$LIB"; do
    open_preloaded "$order" "$WORK/ftn_f08"
    tap_passed "ftn_f08 with a profiler ${order##*/} last: at least 20 calls are made sparse" 20
done

# C programs.
for name in direct stacked; do
    within 60 mpicc.openmpi -std=c17 -D_GNU_SOURCE -I. -o "$WORK/$name" tests/mpi/process/"$name".c -ldl
    tap "$STATUS" "$name is built with Open MPI"
done
open_preloaded "$LIB" "$WORK/direct"
tap_passed "direct calls of PMPI names under Open MPI"
[ "$(counter calls.seen)" = 0 ]
tap "$?" "... and we see none"
open_preloaded "$LIB" "$WORK/direct" fortran
tap_passed "a Fortran library opened after such calls: its calls are made sparse" 4
[ "$(counter calls.seen)" = 6 ]
tap "$?" "... and they alone are seen"

open_preloaded "$LIB:$WORK/profiler.so" "$WORK/direct" fortran
tap_passed "... with a profiler below as well" 4
saw 0
tap "$?" "... which sees no call of Fortran, as without us"

open_preloaded "$WORK/profiler.so" "$WORK/stacked"
saw 7
tap "$?" "the profiler alone sees all 7 calls of a C program"
open_preloaded "$LIB:$WORK/profiler.so" "$WORK/stacked"
tap_passed "with a profiler below: calls of C are made sparse" 3
saw 3 || saw 4
tap "$?" "a profiler below sees the calls that pass through"
open_preloaded "$WORK/profiler.so:$LIB" "$WORK/stacked"
tap_passed "with a profiler above: the results are right"
saw 7 && [ "$(counter calls.seen)" = 0 ]
tap "$?" "that profiler calls the PMPI names, and we see none"
finish
