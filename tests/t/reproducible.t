#!/usr/bin/env bash
# REPRODUCIBLE=on, or ALPHA and BETA given: nothing timed enters any choice, so that communicators
# of equal size and layout give equal bits for equal inputs, and jobs repeat.
set -u
. tests/t/lib.sh

bits() {
    sed -n 's/^# bits //p' "$WORK/out"
}

# repeats NAME RANKS ARGUMENT...: equal bits in both communicators, and in a second job.
repeats() {
    local name=$1 ranks=$2 once
    shift 2
    preloaded "$ranks" replicas "$@"
    tap_passed "$name: two communicators agree bit for bit" 5
    once=$(bits)
    preloaded "$ranks" replicas "$@"
    [ -n "$once" ] && [ "$(bits)" = "$once" ]
    tap "$?" "$name: two jobs agree bit for bit"
}

for mode in exact topk quant; do
    export SPARSESHIM_MODE=$mode SPARSESHIM_REGISTER='*:calls=1' SPARSESHIM_TEST=identity_steps=1
    [ "$mode" != quant ] || export SPARSESHIM_ALGORITHM=quantized # dense is faster here
    SPARSESHIM_REPRODUCIBLE=on repeats "REPRODUCIBLE=on, MODE=$mode" 4
    SPARSESHIM_REPRODUCIBLE=on repeats "REPRODUCIBLE=on, MODE=$mode, 3 ranks each" 6
    SPARSESHIM_ALPHA=2e-5 SPARSESHIM_BETA=1e-9 repeats "ALPHA and BETA given, MODE=$mode" 6
done

unset SPARSESHIM_ALGORITHM

# When a program that tests for ends sees them is a matter of time.
export SPARSESHIM_MODE=topk SPARSESHIM_MIN_COUNT=1000 SPARSESHIM_REPRODUCIBLE=on SPARSESHIM_PROGRESS=watchdog
unset SPARSESHIM_TEST
first=
for run in 1 2 3; do
    SPARSESHIM_ALGORITHM=ring PROGRAMS=$BUILD/tests/gradients preloaded 2 astray 36 changing 60 tested
    once=$(sed -n 's/^# digest //p' "$WORK/out")
    first=${first:-$once}
    [ -n "$once" ] && [ "$once" = "$first" ] && passed
    tap "$?" "calls that are tested for, run $run: the same bits"
done
finish
