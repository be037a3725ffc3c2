#!/usr/bin/env bash
# The floating-point environment of the program: traps, rounding, flushing to zero. Our own code
# neither meets nor changes it. Sums of floats made with traps or a rounding mode are the MPI
# library's (tests/t/interpose_rounding.t); what is ours then: see tests/mpi/exact/fptraps.c.
set -u
. tests/t/lib.sh
export SPARSESHIM_REGISTER=count=24000:calls=1 SPARSESHIM_TEST=identity_steps=1 SPARSESHIM_DENSITY=0.1

# What is measured decides about some calls; on emulated devices about more.
least=10
[ -z "$PLACES" ] || least=1

# tap_own NAME LEAST: as tap_passed, and sums of floats were the MPI library's for this reason.
tap_own() {
    tap_passed "$1" "$2"
    tap "$(($(passed_for environment) < 40))" "... and sums of floats the MPI library's"
}

# The UCX of the MPI library reports a trap with a backtrace and ends the program. UCX itself computes
# with floats where it joins fragments of a message, once in thousands of runs: then again.
eval "$(declare -f preloaded | sed '1s/preloaded/once/')"
preloaded() {
    once "$@"
    ! grep -Eq '^ *4  .*/libuc[pt]\.so' "$WORK/err" || once "$@"
}
for what in traps every; do
    bare 2 fptraps "$what"
    tap_passed "$what, bare"
    for mode in observe exact topk; do
        SPARSESHIM_MODE=$mode preloaded 2 fptraps "$what"
        tap_own "$what, MODE=$mode: measured, planned, run and reported" 0
    done
    SPARSESHIM_MODE=topk SPARSESHIM_ALPHA=2e-5 SPARSESHIM_BETA=8.1e-9 SPARSESHIM_TRACE=$WORK/trace preloaded 2 fptraps "$what"
    tap_passed "$what, MODE=topk, with a trace"
    SPARSESHIM_DEBUG=trace preloaded 2 fptraps "$what"
    tap_passed "$what, DEBUG=trace"
done

# Every exception is trapped in each algorithm and each way that a call can go.
what=every
for algorithm in $(algorithms EXACT) dense; do
    SPARSESHIM_ALGORITHM=$algorithm preloaded 2 fptraps "$what"
    tap_passed "$what, ALGORITHM=$algorithm"
done
export SPARSESHIM_ALPHA=2e-5 SPARSESHIM_BETA=8.1e-9 # oktopk and gtopk leave the exact calls to what is cheaper
for algorithm in split_allgather dsar oktopk gtopk; do
    SPARSESHIM_MODE=topk SPARSESHIM_REGISTER='*' SPARSESHIM_ALGORITHM=$algorithm SPARSESHIM_VALUE_TYPE=q4 \
        preloaded 2 fptraps "$what"
    tap_passed "$what, MODE=topk, ALGORITHM=$algorithm, values of 4 bits" "$least"
done
SPARSESHIM_MODE=topk preloaded 2 fptraps "$what"
tap_passed "$what, MODE=topk, nothing measured decides"
SPARSESHIM_PROGRESS=thread SPARSESHIM_MODE=topk preloaded 2 fptraps "$what"
tap_passed "$what, MODE=topk, PROGRESS=thread"
for more in MERGE=auto MERGE=1G QUORUM=majority QUORUM=solo; do
    export "SPARSESHIM_$more"
    SPARSESHIM_MODE=topk preloaded 2 fptraps "$what"
    tap_passed "$what, MODE=topk, $more"
    unset "SPARSESHIM_${more%%=*}"
done
unset SPARSESHIM_ALPHA SPARSESHIM_BETA

# Read in another rounding, 0.1 and 2e-5 are other numbers.
for what in upward downward zero flush; do
    for mode in exact topk; do
        SPARSESHIM_MODE=$mode SPARSESHIM_ALGORITHM=split_allgather SPARSESHIM_ALPHA=2e-5 \
            SPARSESHIM_BETA=8.1e-9 preloaded 2 fptraps "$what"
        text="$what before MPI_Init on one rank, MODE=$mode: equal results on all ranks"
        if [ "$what" = flush ]; then
            tap_passed "$text" 100
        else
            tap_own "$text" 40
        fi
        ! grep -q 'must be equal' "$WORK/err"
        tap "$?" "$what before MPI_Init on one rank, MODE=$mode: options are read alike"
    done
done

within 60 "${MPIFC:-mpifort.mpich}" -w -ffpe-trap=invalid,zero,overflow "-J$WORK" -o "$WORK/trapping" \
    tests/fortran/ftn_mpi.f90
tap "$STATUS" "a Fortran program is compiled with -ffpe-trap=invalid,zero,overflow"
for mode in observe exact topk; do
    SPARSESHIM_MODE=$mode within 60 "$MPIRUN" -n 2 -genv LD_PRELOAD "$LOADED $YIELDS" "$WORK/trapping"
    tap_passed "it ends well with a report, MODE=$mode"
done
finish
