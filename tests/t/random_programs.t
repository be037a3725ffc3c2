#!/usr/bin/env bash
# Preloading alone changes nothing: random programs observe the same bare and preloaded. More of
# them, and under more settings: make check-more PART=campaign. RUNS=N: so many under another MPI
# library (FLAVOUR).
set -u
. tests/t/lib.sh
unset MPIR_CVAR_NOLOCAL # in MPICH's shared memory
unset SPARSESHIM_MIN_COUNT

# Actions at which the bare library crashes or hangs: wrong arguments, MPI_Cancel of a collective, and
# windows with collectives in flight.
case $FLAVOUR in
mpich) WITH='' ;;
abi) WITH='--without wrong,refused' ;;
*) WITH='--without wrong,refused,window' ;;
esac

# same PROGRAMS RANKS INIT SETTING [SEED]
same() {
    STATUS=0
    LIB=$LOADED YIELDS=$YIELDS PROGRAM=$PROGRAMS/random_programs MPIRUN=$MPIRUN timeout -k 5 "${LIMIT:-120}" \
        scripts/campaign --programs "$1" --ranks "$2" --init "$3" --settings "$4" --seed "${5:-1}" --with "$WITH" \
        --findings 1 >"$WORK/out" 2>"$WORK/err" || STATUS=$?
    tap "$STATUS" "$1 random programs on $2 ranks, begun by $3, $4"
}

if [ "$FLAVOUR" = mpich ]; then
    same 60 2 single MIN_COUNT=1,PROGRESS=off
    same 40 3 single MIN_COUNT=1,MODE=observe,PROGRESS=off
    same 20 4 single MIN_COUNT=1000,PROGRESS=off
    # Operators and keys of a program end the service of nonblocking calls: "none" makes none.
    same 60 2 multiple,none MIN_COUNT=1
    same 40 3 multiple,none MIN_COUNT=1,ALGORITHM=split_allgather
    same 40 3 multiple,early MIN_COUNT=1,ALGORITHM=split_allgather
    same 40 2 single,none MIN_COUNT=1,PROGRESS=watchdog 100
    same 20 2 serialized MIN_COUNT=1 200
    same 40 2 multiple,none MIN_COUNT=1,PROGRESS=watchdog,PROGRAMS=!random_programs 1000
    same 1 5 multiple,early MIN_COUNT=64,PROGRESS=watchdog,MODE=observe 710301 # persistent, with an operator of its own
else
    part=$((${RUNS:-200} / 5))
    same "$part" 2 single MIN_COUNT=1 1
    same "$part" 3 multiple MIN_COUNT=1,ALGORITHM=split_allgather $((1 + part))
    same "$part" 2 funneled MIN_COUNT=1,PROGRESS=thread $((1 + 2 * part))
    same "$part" 4 multiple,early MIN_COUNT=1 $((1 + 3 * part))
    same "$part" 3 single MIN_COUNT=1,PROGRESS=watchdog $((1 + 4 * part))
fi
finish
