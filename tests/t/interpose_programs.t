#!/usr/bin/env bash
# C programs that do what programs do around an eligible call.
set -u
. tests/t/lib.sh

mapfile -t ALGORITHMS < <(algorithms EXACT)
turn=0

# after_bare RANKS LEAST PROGRAM [ARGUMENT...]: passes preloaded with LEAST calls made sparse; that it
# passes bare has been shown.
after_bare() {
    local ranks=$1 least=$2
    shift 2
    turn=$((turn + 1))
    local algorithm=${ALGORITHMS[$((turn % ${#ALGORITHMS[@]}))]}
    SPARSESHIM_ALGORITHM=${SPARSESHIM_ALGORITHM:-$algorithm} preloaded "$ranks" "$@"
    tap_passed "$* on $ranks ranks, preloaded (${SPARSESHIM_ALGORITHM:-$algorithm})" "$least"
}

# both RANKS LEAST PROGRAM [ARGUMENT...]: passes bare, and preloaded with LEAST calls made sparse.
both() {
    bare "$1" "${@:3}"
    tap_passed "${*:3} on $1 ranks, bare"
    after_bare "$@"
}

# Exactly none, one, two eligible calls before MPI_Finalize: the first is delegated.
for ranks in 1 2 3; do
    SPARSESHIM_ALGORITHM=ring preloaded "$ranks" fewcalls 0
    tap_passed "no eligible call on $ranks ranks"
    SPARSESHIM_ALGORITHM=ring preloaded "$ranks" fewcalls 1
    tap_passed "one eligible call on $ranks ranks"
    SPARSESHIM_ALGORITHM=ring preloaded "$ranks" fewcalls 2
    tap_passed "two eligible calls on $ranks ranks"
done
both 5 3 fewcalls 4

# Three calls of 4 kB: their bytes are in the report, and those that measure the network apart.
# measured LEAST MOST NAME
measured() {
    local apart result=0
    apart=$(counter bytes.bytes_calibration)
    echo "sent $(counter bytes.bytes_sent), dense $(counter bytes.bytes_dense), apart $apart" >>"$WORK/err"
    [ "$(counter bytes.bytes_sent)" -le "$(($(counter bytes.bytes_dense) + 4096))" ] &&
        [ "$apart" -ge "$1" ] && [ "$apart" -le "$2" ] || result=1
    tap "$result" "$3"
}
for mode in exact observe; do
    SPARSESHIM_MODE=$mode preloaded 2 fewcalls 4 1024
    measured 100000 20000000 "MODE=$mode: bytes that measure the network are no call's"
    reported >"$WORK/out" 2>>"$WORK/err"
    grep -q '^  network  [0-9.]* [kM]B sent once to measure it, not in the bytes above' "$WORK/out"
    tap "$?" "MODE=$mode: sparseshim report says so"
done
SPARSESHIM_ALPHA=1us SPARSESHIM_BETA=1e-9 preloaded 2 fewcalls 4 1024
measured 0 0 "where its costs are given none are sent"

both 3 7 special sparse
SPARSESHIM_ALGORITHM=auto preloaded 3 special sparse
tap_passed "special sparse under auto"
both 2 600 churn 300 1900 # MPICH has 2048 at a time
# A handle that one thread frees is given to another before the call that frees it has returned.
SPARSESHIM_ALGORITHM=ring PRELOAD="$LIB $PROGRAMS/slow_free.so" preloaded 2 churn_threads 100
tap_passed "communicators of two threads, slow to free: right sums" 333
both 2 1 manycomms 2100
after_bare 2 100 manycomms 1950
# The library leaves the program all communicators but some 100, with partial calls too, which take two
# private ones for each communicator.
both 2 64 dups 1900
SPARSESHIM_MODE=topk SPARSESHIM_QUORUM=solo SPARSESHIM_REGISTER=count=65 preloaded 2 dups 1900
tap_passed "dups 1900 on 2 ranks, each served one with two private communicators" 32
SPARSESHIM_PROGRESS=watchdog SPARSESHIM_ALGORITHM=ring preloaded 3 dups 1900
tap_passed "dups 1900 on 3 ranks, with a thread" 64
both 2 42 threads
both 3 10 sessions
both 2 4 forked

# A child's exit handlers must not write a second report.
reports=("$WORK"/report/*)
tap "$((${#reports[@]} != 1))" "forked children write no report"

# A program of sessions never says that it ends.
SPARSESHIM_ALGORITHM=ring preloaded 3 sessions
reports=("$WORK"/report/*)
[ "${#reports[@]}" -eq 1 ] && [ "$(grep -c '^sparseshim .* rank 0 of 3' "$WORK/err")" -eq 1 ]
tap "$?" "a program of sessions: one file, and the text once"

# Two job steps have one job id.
SPARSESHIM_REPORT=rank0 SPARSESHIM_REPORT_DIR="$WORK/steps" SLURM_JOB_ID=17 timeout -k 5 60 \
    "$MPIRUN" -n 2 -genv LD_PRELOAD "$LOADED" "$PROGRAMS/fewcalls" 3 >"$WORK/out" 2>"$WORK/err"
SPARSESHIM_REPORT=rank0 SPARSESHIM_REPORT_DIR="$WORK/steps" SLURM_JOB_ID=17 timeout -k 5 60 \
    "$MPIRUN" -n 2 -genv LD_PRELOAD "$LOADED" "$PROGRAMS/fewcalls" 3 >"$WORK/out" 2>"$WORK/err"
reports=("$WORK"/steps/sparseshim-17-0-*.json)
[ "${#reports[@]}" -eq 2 ]
tap "$?" "a second run of the same job id leaves the first one's report"

# What a rank alone runs out of, or knows, must not make the others wait. A device that it meets
# without memory it cannot copy from.
at_one_place
SPARSESHIM_ALGORITHM=ring PRELOAD="$LIB $PROGRAMS/failing.so" preloaded 3 starved
tap_passed "a rank without memory in the first exchange: nobody waits, memory later is used" 2
at_all_places
for memory in 1Mi 2Mi 2500Ki 4Mi; do
    for algorithm in auto dense; do
        SPARSESHIM_MAX_MEMORY=$memory SPARSESHIM_ALGORITHM=$algorithm preloaded 2 little_memory 1500001
        tap_passed "whatever MAX_MEMORY=$memory leaves room for, each call ends (ALGORITHM=$algorithm)"
    done
done
# Where the system refuses the library memory, the MPI library's call finds what a bare run leaves it:
# work space is given back. Threads of ours are to share the heap here.
for what in same others nonblocking; do
    LIMIT=60 bare 2 address_space "$what"
    if ! passed || [ -n "$ON_DEVICE" ]; then
        skip "address_space $what" "the MPI library needs more, or buffers are on a device"
        continue
    fi
    MALLOC_ARENA_MAX=1 SPARSESHIM_ALGORITHM=recursive_doubling preloaded 2 address_space "$what"
    tap_passed "address_space $what: what a bare run survives, a preloaded one does" 7
    [ "$(passed_for memory)" -ge 1 ]
    tap "$?" "a call of it found no memory"
done
PRELOAD="$LIB $PROGRAMS/failing.so" preloaded 4 costs
tap_passed "the network is measured once for each group of ranks"

# DEBUG=trace: a line for each eligible call, of each rank.
SPARSESHIM_DEBUG=trace SPARSESHIM_DEBUG_FILE="$WORK/trace.%r" SPARSESHIM_ALGORITHM=ring preloaded 2 stacked
cat "$WORK"/trace.[01] >>"$WORK/err"
[ "$(grep -c '^sparseshim\[[01]\]: communicator "MPI_COMM_WORLD", call 1: 4096 float, native: first call on its communicator, density not looked at, [0-9.]* ms$' "$WORK/err")" -eq 2 ] &&
    [ "$(grep -c '^sparseshim\[[01]\]: communicator "MPI_COMM_WORLD", call [234]: 4096 float, ring, density 0\.0[0-9]*, [0-9.]* ms$' "$WORK/err")" -eq 6 ] &&
    [ "$(grep -c ', call [0-9]*: ' "$WORK/err")" -eq 8 ]
tap "$?" "DEBUG=trace: one line for each eligible call"
SPARSESHIM_DEBUG=trace SPARSESHIM_ALGORITHM=dense preloaded 2 stacked
grep -q ', call 2: 4096 float, native: dense is faster, density 0\.0[0-9]*, [0-9.]* ms$' "$WORK/err"
tap "$?" "DEBUG=trace: why a call was native"
SPARSESHIM_DEBUG=info SPARSESHIM_ALGORITHM=ring preloaded 2 stacked
! grep -q ', call [0-9]*: ' "$WORK/err"
tap "$?" "DEBUG=info: no line for a call"

# Together with nothing to agree on: one rank passes through.
SPARSESHIM_ALGORITHM=ring preloaded 1 special native
tap_passed "one rank: bit for bit native"
tap_no_sparse "one rank: no call is made sparse"

# DISABLE, and counts below MIN_COUNT: bit for bit the MPI library.
for ranks in 2 3; do
    SPARSESHIM_DISABLE=1 preloaded "$ranks" special native
    tap_passed "DISABLE=1 on $ranks ranks: bit for bit native"
    SPARSESHIM_DISABLE=1 preloaded "$ranks" same_as_native
    tap_passed "DISABLE=1 on $ranks ranks: bit for bit native, fractions"
    SPARSESHIM_MIN_COUNT=4097 preloaded "$ranks" special native
    tap_passed "below MIN_COUNT on $ranks ranks: bit for bit native"
    tap_no_sparse "below MIN_COUNT: no call is made sparse"
    SPARSESHIM_MODE=observe preloaded "$ranks" special native
    tap_passed "MODE=observe on $ranks ranks: bit for bit native"
    tap "$(($(passed_for observe) == 0))" "MODE=observe on $ranks ranks: calls were observed"
done

# Started without mpirun: one rank.
SPARSESHIM_ALGORITHM=ring within 60 env LD_PRELOAD="$LOADED" "$PROGRAMS/smoke"
tap_passed "without mpirun: one rank, preloaded"
finish
