#!/usr/bin/env bash
# Together or not at all: where one rank cannot, or will not, all go native in that call; where one
# fails under way, all get the error; nobody hangs.
set -u
. tests/t/lib.sh
export SPARSESHIM_ALGORITHM=${SPARSESHIM_ALGORITHM:-split_allgather}

# one_rank_with VARIABLE VALUE FIRST REST PROGRAM...: a job whose ranks from FIRST on, one of them,
# have VARIABLE=VALUE, and REST ranks after it do not.
one_rank_with() {
    local variable=$1 value=$2 before=$3 after=$4 program=$PROGRAMS/$5
    shift 5
    local odd=(-n 1 -env "$variable" "$value" "$program" "$@") line=()
    [ "$before" -gt 0 ] && line+=(-n "$before" "$program" "$@" :)
    line+=("${odd[@]}")
    [ "$after" -gt 0 ] && line+=(: -n "$after" "$program" "$@")
    within 60 "$MPIRUN" -genv LD_PRELOAD "$LOADED $YIELDS" "${line[@]}"
}

# native_for REASON NAME: the program's comparisons with the bare library held, no call was made
# sparse, and the report names the reason.
native_for() {
    local result=0
    passed && [ "$(counter calls.sparse)" = 0 ] && [ "$(passed_for "$1")" -gt 0 ] || result=1
    tap "$result" "$2: all calls native, bit for bit"
}

for place in "0 3" "3 0" "1 1" "1 0" "2 2"; do
    read -r before after <<<"$place"
    who="rank $before of $((before + after + 1))"
    one_rank_with SPARSESHIM_MAX_MEMORY 1 "$before" "$after" same_as_native
    native_for "$([ "$before" -gt 0 ] || echo max_)memory" "$who has no memory"
    one_rank_with SPARSESHIM_MODE observe "$before" "$after" same_as_native
    native_for settings "$who has MODE=observe"
    one_rank_with SPARSESHIM_ALGORITHM ring "$before" "$after" same_as_native
    native_for settings "$who has another ALGORITHM"
    one_rank_with SPARSESHIM_MIN_COUNT 100 "$before" "$after" same_as_native
    native_for settings "$who has another MIN_COUNT"
done

# MAX_MEMORY that is too small, for an input or for a collective, is a reason of its own; the report
# names a value with which the calls are sparse.
on_host "a device takes part of the memory"
for limited in "exact 100k" "exact 1300k" "topk 200k"; do
    read -r mode limit <<<"$limited"
    export SPARSESHIM_MODE=$mode SPARSESHIM_REGISTER='count=100000'
    SPARSESHIM_MAX_MEMORY=$limit preloaded 2 fewcalls 6 100000
    native_for max_memory "MODE=$mode, MAX_MEMORY=$limit is too small"
    enough=$(sed -n 's/^  note     [56] calls passed through, since MAX_MEMORY .* is too small for them: MAX_MEMORY=\([0-9]*Mi\) would do$/\1/p' "$WORK/err")
    [ -n "$enough" ] && SPARSESHIM_MAX_MEMORY=$enough preloaded 2 fewcalls 6 100000 &&
        { [ "$STATUS" -eq 0 ] || [ "$mode" = topk ]; } && [ "$(passed_for max_memory)" -eq 0 ] && [ "$(counter calls.sparse)" -gt 0 ]
    tap "$?" "the report names $enough, with which calls are sparse"
done
unset SPARSESHIM_MODE SPARSESHIM_REGISTER
at_all_places

# MPI_Pcontrol(0) on one rank for calls 3, 4 and 5 of 8.
for ranks in 2 3 4; do
    preloaded "$ranks" same_as_native 4096 $((ranks - 1))
    tap_passed "MPI_Pcontrol(0) on one rank of $ranks: native while it lasts" 4
    [ "$(passed_for off)" -eq 3 ]
    tap "$?" "three calls were passed through for it"
done

# The option that differs is named.
one_rank_with SPARSESHIM_TIMEOUT 70 1 1 fewcalls 4
grep -q 'SPARSESHIM_TIMEOUT (.*) must be equal on all ranks' "$WORK/err"
tap "$?" "an option that differs is named"

# A program whose ranks do not mean the same call: told where all of them vote, by TIMEOUT where one
# does not.
for what in count type op kind nonblocking; do
    for ranks in 2 3; do
        SPARSESHIM_PROGRESS=watchdog SPARSESHIM_MIN_COUNT=1000 preloaded "$ranks" differ "$what"
        tap_passed "the last of $ranks ranks differs in one call ($what): all get an error in words"
    done
done
SPARSESHIM_TIMEOUT=2 SPARSESHIM_MIN_COUNT=1000 preloaded 3 differ below
tap_passed "its count is below MIN_COUNT: TIMEOUT ends the others' wait and names what may be the cause"

# one_number: rank 0's error names the call by the number of its line of DEBUG=trace.
one_number() {
    local failed
    failed=$(sed -n 's/^sparseshim\[0\]: communicator .*, call \([0-9]*\): .*, failed: .*/\1/p' "$WORK/err" | head -n 1)
    [ -n "$failed" ] && passed && grep -q "^sparseshim\[0\]: rank 0: .* of call $failed (4096 int32" "$WORK/err"
}
export SPARSESHIM_DEBUG=trace SPARSESHIM_MIN_COUNT=1000 SPARSESHIM_TIMEOUT=2
SPARSESHIM_PROGRESS=watchdog SPARSESHIM_ALGORITHM=dense preloaded 2 differ nonblocking
one_number
tap "$?" "behind calls without a vote an error has the number that the log has"
SPARSESHIM_ALGORITHM=ring SPARSESHIM_TRACE=$WORK preloaded 2 differ count
one_number && grep -q '"call":5,' "$WORK"/trace-*.json
tap "$?" "so it has behind sparse calls, and in the trace"
number=$(sed -n 's/^sparseshim\[0\]: allreduce of 4096 .*: ring by call \([0-9]*\),.*/\1/p' "$WORK/err")
[ -n "$number" ] && grep -q ", call $number: 4096 int32, ring," "$WORK/err" && [ "$number" = 2 ]
tap "$?" "so has the line that names the first call of a collective"
SPARSESHIM_ALGORITHM=ring preloaded 2 differ below
one_number
tap "$?" "so has the error of TIMEOUT"
unset SPARSESHIM_DEBUG SPARSESHIM_TIMEOUT
export SPARSESHIM_MIN_COUNT=1

# Ranks that do not take part at all: an error by TIMEOUT that names the cause.
ended_by_timeout() {
    local result=0
    [ "$STATUS" -ne 0 ] && [ "$STATUS" -ne 124 ] || result=1
    grep -q 'preloaded on every rank, with the same SPARSESHIM_MIN_COUNT, SPARSESHIM_PROGRESS and SPARSESHIM_DISABLE, and do all ranks .* (SPARSESHIM_TIMEOUT has ended the wait)' "$WORK/err" || result=1
    tap "$result" "$1: ended by TIMEOUT with the causes"
}
export SPARSESHIM_TIMEOUT=2
within 60 "$MPIRUN" -n 1 -env LD_PRELOAD "$YIELDS" "$PROGRAMS/fewcalls" 4 : -n 2 -env LD_PRELOAD "$LOADED $YIELDS" "$PROGRAMS/fewcalls" 4
ended_by_timeout "rank 0 without the preload"
within 60 "$MPIRUN" -n 1 -env LD_PRELOAD "$LOADED $YIELDS" "$PROGRAMS/fewcalls" 4 : -n 1 -env LD_PRELOAD "$YIELDS" "$PROGRAMS/fewcalls" 4
ended_by_timeout "rank 1 without the preload"
one_rank_with SPARSESHIM_DISABLE 1 1 1 fewcalls 4
ended_by_timeout "rank 1 with DISABLE=1"
one_rank_with SPARSESHIM_MIN_COUNT 5000 1 1 fewcalls 4
ended_by_timeout "rank 1 with a MIN_COUNT above the count"
unset SPARSESHIM_TIMEOUT
finish
