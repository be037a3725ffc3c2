#!/usr/bin/env bash
# Programs that forbid system calls once MPI is up (tests/mpi/process/seccomp.c): what a bare run
# survives, a preloaded one does.
set -u
. tests/t/lib.sh
on_host "emulated devices are files"
export SPARSESHIM_ALGORITHM=recursive_doubling SPARSESHIM_DEBUG=info

bare 1 seccomp errno
if ! passed; then
    skip "programs that forbid system calls" "the system takes no filter"
    finish
    exit
fi
tap_passed "bare, one rank, errno"
bare 1 seccomp kill forbidden
tap "$((STATUS == 0))" "bare, a call that is forbidden ends the program"

# made LEAST: whether at least so many calls were made sparse, by the line at the end.
made() {
    local sparse
    sparse=$(sed -n 's/.* calls seen, \([0-9]*\) made sparse.*/\1/p' "$WORK/err")
    echo "made sparse: ${sparse:-no line}" >>"$WORK/err"
    [ "${sparse:-0}" -ge "$1" ]
}

# killing NAME RANKS LEAST [VARIABLE VALUE]...: with what LIMITS asks for where a call kills.
killing() {
    local name=$1 ranks=$2 least=$3 result=0 options=()
    shift 3
    for option; do
        options+=(-genv "SPARSESHIM_${option%%=*}" "${option#*=}")
    done
    bare "$ranks" seccomp kill
    if ! passed; then
        skip "killed at a forbidden call: $name" "the MPI library makes one"
        return
    fi
    within 60 "$MPIRUN" -n "$ranks" -genv LD_PRELOAD "$LIB $YIELDS" -genv SPARSESHIM_REPORT off \
        -genv SPARSESHIM_PROGRESS off \
        -genv SPARSESHIM_NODE_AGGREGATION off "${options[@]}" "$PROGRAMS/seccomp" kill
    passed && made "$least" || result=1
    tap "$result" "killed at a forbidden call: $name"
}
killing "one rank" 1 0
killing "one rank, MAX_MEMORY" 1 0 MAX_MEMORY=64Mi
killing "two ranks" 2 14
killing "two ranks, observe" 2 0 MODE=observe
killing "two ranks, topk by call site" 2 14 MODE=topk REGISTER='*' WARMUP_STEPS=1000

preloaded 2 seccomp errno
tap_passed "refused: two ranks" 14
result=0
grep -q 'memory limit [1-9][0-9]* bytes' "$WORK/err" || result=1
tap "$result" "and the limit of memory is that of the host"
export SPARSESHIM_PROGRESS=watchdog
preloaded 2 seccomp errno nonblocking
tap_taken "refused: nonblocking, with no thread to be had" 40 40
result=0
grep -q 'no thread for the progress of nonblocking calls (Operation not permitted)' "$WORK/err" || result=1
tap "$result" "which is said"
unset SPARSESHIM_PROGRESS
SPARSESHIM_MODE=topk SPARSESHIM_QUORUM=solo SPARSESHIM_REGISTER='*' SPARSESHIM_WARMUP_STEPS=1000 \
    preloaded 2 seccomp errno
tap_passed "refused: partial calls" 14
finish
