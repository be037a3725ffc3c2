#!/usr/bin/env bash
# Nonblocking calls of one communicator under way beside each other give what they give one after
# another, bit for bit, whatever order they are waited for in.
set -u
. tests/t/lib.sh

# The program does not run at MPI_THREAD_MULTIPLE itself.
export SPARSESHIM_PROGRESS=watchdog LIMIT=90

bits() {
    sed -n 's/^# bits //p' "$WORK/out"
}

# Whether a call of rank 0 ended before one that was made earlier, by the trace.
overtaken() {
    sed -n 's/^.*sparseshim.*\[0\].*communicator "MPI_COMM_WORLD", call \([0-9]*\):.*/\1/p' "$WORK/err" |
        awk '$1 < last { found = 1 } { last = $1 } END { exit !found }'
}

# same_as_one NAME RANKS BESIDE ARGUMENT...: one call at a time, and so many.
same_as_one() {
    local name=$1 ranks=$2 beside=$3 once
    shift 3
    SPARSESHIM_TEST=in_flight=1 preloaded "$ranks" nb_beside "$@"
    tap_taken "$name: one after another" 480 200
    once=$(bits)
    SPARSESHIM_TEST=in_flight=$beside preloaded "$ranks" nb_beside "$@"
    [ -n "$once" ] && [ "$(bits)" = "$once" ] && passed
    tap "$?" "$name: the same bits with $beside calls beside each other"
}

export SPARSESHIM_REPRODUCIBLE=on
same_as_one "exact on 2 ranks" 2 8
SPARSESHIM_PROGRESS=thread same_as_one "exact on 5 ranks, PROGRESS=thread" 5 3 --steps 4
SPARSESHIM_ALGORITHM=ring same_as_one "ring on 3 ranks" 3 8
export SPARSESHIM_MODE=topk SPARSESHIM_REGISTER='*:calls=1' SPARSESHIM_TEST=identity_steps=1
same_as_one "top-k on 4 ranks" 4 8
SPARSESHIM_ALGORITHM=oktopk same_as_one "oktopk on 3 ranks" 3 8 --steps 4
unset SPARSESHIM_MODE SPARSESHIM_REGISTER SPARSESHIM_TEST SPARSESHIM_REPRODUCIBLE

# Where costs are measured the collectives differ from run to run, sums of whole numbers do not.
bare 4 nb_beside --whole 1
once=$(bits)
SPARSESHIM_DEBUG=trace preloaded 4 nb_beside --whole 1
[ -n "$once" ] && [ "$(bits)" = "$once" ]
tap "$?" "measured costs on 4 ranks: the sums of the MPI library"
if [ -z "$PLACES" ]; then
    for _ in {1..10}; do # the scheduler decides whether a run shows it
        ! overtaken || break
        SPARSESHIM_DEBUG=trace preloaded 4 nb_beside --whole 1
    done
    if overtaken; then
        tap 0 "... and calls have ended before others that were made earlier"
    else
        skip "... and calls have ended before others that were made earlier" "none did in 11 runs"
    fi
else
    skip "... and calls have ended before others that were made earlier" \
        "by the costs of an emulated device every call is dense, and dense calls keep their order"
fi
SPARSESHIM_ALGORITHM=dense preloaded 4 nb_beside --whole 1
[ -n "$once" ] && [ "$(bits)" = "$once" ]
tap "$?" "... and every leg dense"
# Calls between devices need images for as long as they are under way, and end with an error where
# those are more than MAX_MEMORY allows.
at_one_place
SPARSESHIM_MAX_MEMORY=3M preloaded 4 nb_beside --whole 1
[ -n "$once" ] && [ "$(bits)" = "$once" ]
tap "$?" "... also where memory is short"
finish
