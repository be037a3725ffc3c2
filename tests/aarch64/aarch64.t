#!/usr/bin/env bash
# The library on aarch64, by programs that run under qemu-user: exact sums and top-k with both binary
# interfaces of MPICH, other kinds of calls with the first. scripts/aarch64 builds what runs here.
set -u
. tests/t/lib.sh
MPIRUN=tests/aarch64/mpirun
LIMIT=300
export SPARSESHIM_ALPHA=2e-5 SPARSESHIM_BETA=8.1e-9
# qemu has no process_vm_readv. With more ranks than cores, MPICH's sums in shared memory take long.
export UCX_TLS=sysv,self MPIR_CVAR_CH4_CMA_ENABLE=0 MPIR_CVAR_POSIX_NUM_COLLS_THRESHOLD=1000000000

# sums_of ABI: exact sums, and gradients.
sums_of() {
    local algorithm turn=0 ranks
    for algorithm in recursive_doubling split_allgather dsar ring allgather two_level; do
        turn=$((turn + 1)) ranks=$((2 + turn % 2))
        SPARSESHIM_ALGORITHM=$algorithm preloaded $ranks oracle 4096 $turn 6
        tap_passed "$1: exact sums by $algorithm on $ranks ranks" 5
    done
    for algorithm in split_allgather oktopk gtopk; do
        SPARSESHIM_MODE=topk SPARSESHIM_REGISTER='*:calls=1' SPARSESHIM_TEST=identity_steps=1,threshold_period=8 \
            SPARSESHIM_ALGORITHM=$algorithm preloaded 3 conserve form=fractions bound=eps lossy=yes type=both n=1801 steps=12
        tap_passed "$1: no gradient is lost by $algorithm" 40
    done
    preloaded 3 smoke
    tap_passed "$1: on several communicators" 5
}

sums_of "MPICH's interface"
preloaded 3 kinds
tap_passed "allgathers, reduces and reduce_scatters" 15
SPARSESHIM_MIN_COUNT=64 SPARSESHIM_PROGRESS=watchdog preloaded 3 nb_random --runs 10
tap_taken "nonblocking calls end by every call that completes" 30 10
export SPARSESHIM_ALGORITHM=split_allgather
preloaded 2 fpsums mode upward 1
tap_passed "sums in a rounding mode of the program's are the MPI library's" 4
preloaded 2 fpsums raised
tap_passed "a sum that overflows raises the exception" 130
PRELOAD="$LIB $PROGRAMS/profiler.so" preloaded 2 stacked
[ "$(grep -c 'profiler: level 4 with 1 2 3 4 5 6 7$' "$WORK/err")" -eq 2 ]
tap "$?" "all words that registers pass to MPI_Pcontrol arrive"
unset SPARSESHIM_ALGORITHM

PROGRAMS=$BUILD/abi/tests/mpi
sums_of "MPI 5's interface"
within 60 qemu-aarch64-static -L /usr/aarch64-linux-gnu "$BUILD/sparseshim" check "$PROGRAMS/smoke"
[ "$STATUS" -eq 0 ] && grep -q '^MPI: .*libmpi_abi\.so\.1' "$WORK/out"
tap "$?" "the command reads a program of aarch64"

wheel=$(echo "$BUILD"/sparseshim-*.whl) # make wheel removes older ones
[[ $wheel == *-py3-none-manylinux_2_*_aarch64.whl ]] && python3 -m zipfile -e "$wheel" "$WORK/wheel" && chmod +x "$WORK"/wheel/*.data/scripts/*
tap "$?" "a wheel for aarch64"
data=$(echo "$WORK"/wheel/*.data)
[ "$(readelf -h "$data/data/lib/libsparseshim.so" "$data/scripts/sparseshim" "$data/data/libexec/sparseshim/sparseshim-simulate" |
    grep -c 'Machine: *AArch64')" -eq 3 ] && ! readelf -d "$data/data/lib/libsparseshim.so" | grep -q 'RPATH\|RUNPATH'
tap "$?" "its binaries are those of aarch64, without a path of the build"
within 60 qemu-aarch64-static -L /usr/aarch64-linux-gnu "$data/scripts/sparseshim" --version
[ "$STATUS" -eq 0 ] && grep -q '^sparseshim [0-9]' "$WORK/out"
tap "$?" "its command starts"
PROGRAMS=$BUILD/tests/mpi PRELOAD=$data/data/lib/libsparseshim.so SPARSESHIM_ALGORITHM=ring preloaded 3 oracle 4096 1 6
tap_passed "and its library sums" 5
finish
