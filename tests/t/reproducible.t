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

for mode in exact topk; do
    export SPARSESHIM_MODE=$mode SPARSESHIM_REGISTER='*' SPARSESHIM_REGISTER_AFTER=0
    SPARSESHIM_REPRODUCIBLE=on repeats "REPRODUCIBLE=on, MODE=$mode" 4
    SPARSESHIM_REPRODUCIBLE=on repeats "REPRODUCIBLE=on, MODE=$mode, 3 ranks each" 6
    SPARSESHIM_ALPHA=2e-5 SPARSESHIM_BETA=1e-9 repeats "ALPHA and BETA given, MODE=$mode" 6
done
finish
