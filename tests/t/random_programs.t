#!/usr/bin/env bash
# Preloading alone changes nothing: random programs observe the same bare and preloaded. More of
# them, and under more settings: make campaign
set -u
. tests/t/lib.sh
unset MPIR_CVAR_NOLOCAL # in MPICH's shared memory
unset SPARSESHIM_MIN_COUNT

# same PROGRAMS RANKS INIT SETTING
same() {
    STATUS=0
    LIB=$LOADED YIELDS=$YIELDS timeout -k 5 "${LIMIT:-120}" scripts/campaign --programs "$1" --ranks "$2" --init "$3" \
        --settings "$4" --findings 1 >"$WORK/out" 2>"$WORK/err" || STATUS=$?
    tap "$STATUS" "$1 random programs on $2 ranks, begun by $3, $4"
}

same 60 2 single MIN_COUNT=1,PROGRESS=off
same 40 3 single MIN_COUNT=1,MODE=observe,PROGRESS=off
same 20 4 single MIN_COUNT=1000,PROGRESS=off
finish
