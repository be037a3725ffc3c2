#!/usr/bin/env bash
# The programs of nonblocking calls with their buffers in device memory, of the host and of both by
# turns: each a short run; `make check-more PART=emulated` runs the tests of nonblocking
# calls whole. A call that is refused there is made with buffers of the host (tests/preload/to_device.c).
set -u
export SPARSESHIM_MIN_COUNT=1000 ON_DEVICE=${ON_DEVICE:-DD,PP,DS,HH,DD}
. tests/t/lib.sh

needs_devices "nonblocking calls on device memory"
# These programs do not run at MPI_THREAD_MULTIPLE themselves.
export SPARSESHIM_PROGRESS=watchdog

PRELOAD="$LIB $PROGRAMS/locks.so" # a program that waits for the driver under a lock ends

# on_devices LEAST: whether each rank has had at least so many nonblocking calls on devices.
on_devices() {
    local least
    least=$(sed -n 's/^to_device: \([0-9]*\) nonblocking calls on devices.*/\1/p' "$WORK/err" | sort -n | head -n 1)
    [ -n "$least" ] && [ "$least" -ge "$1" ] && return 0
    echo "nonblocking calls on devices: ${least:-none} on some rank, expected at least $1" >>"$WORK/err"
    return 1
}

# tap_served NAME LEAST: the program passed, at least so many nonblocking calls were taken over, and of
# those most on devices.
tap_served() {
    on_devices $(($2 / 2)) || STATUS=1
    tap_taken "$1" "$2"
}

SPARSESHIM_PROGRESS=thread SPARSESHIM_ALGORITHM=ring SPARSESHIM_MIN_COUNT=64 preloaded 2 nb_random --runs 6 --seed 7
tap_served "6 random programs on 2 ranks, ring, PROGRESS=thread" 18
SPARSESHIM_PROGRESS=off SPARSESHIM_MIN_COUNT=64 preloaded 2 nb_random --runs 6
tap_taken_none "PROGRESS=off: calls on devices are refused, those with buffers of the host right"
[ "$(grep -c 'to_device: 0 nonblocking calls on devices, [1-9]' "$WORK/err")" = 2 ]
tap "$?" "... with a message that names PROGRESS=watchdog"
preloaded 3 nb_order_f08 20
tap_served "sums move while a rank waits, in mpi_f08, whose requests complete under other names" 18
# Threads that sleep in the MPI library keep others out of it.
YIELDS='' SPARSESHIM_ALGORITHM=split_allgather preloaded 2 nb_threads --rounds 2
tap_served "threads, 2 ranks" 30
preloaded 3 nb_blocking
tap_served "a blocking call beside a nonblocking one" 79
YIELDS='' SPARSESHIM_ALGORITHM=split_allgather preloaded 3 nb_callbacks operator 4
tap_served "a rank makes an operator of its own" 4
SPARSESHIM_ALGORITHM=dense SPARSESHIM_MIN_COUNT=64 preloaded 3 nb_random --runs 6
tap_served "6 random programs on 3 ranks, dense" 18
SPARSESHIM_MIN_COUNT=64 preloaded 3 nb_random --runs 6
tap_served "6 random programs on 3 ranks" 18
preloaded 3 kinds
on_devices 2
tap_passed "nonblocking gathers, 3 ranks"
SPARSESHIM_PROGRESS=thread preloaded 3 nb_finalize 3
passed
tap "$?" "the job ends while its ranks still meet"

# MERGE: the bits of buffers of the host, for calls alone and in groups.
export SPARSESHIM_MODE=topk SPARSESHIM_REGISTER='*:calls=1' SPARSESHIM_TEST=identity_steps=1 SPARSESHIM_GUARD=off \
    SPARSESHIM_REPRODUCIBLE=on SPARSESHIM_ALGORITHM=allgather SPARSESHIM_MIN_COUNT=1
for merge in off 20000; do
    ON_DEVICE='' SPARSESHIM_MERGE=$merge preloaded 2 nb_beside --steps 1 --divide 1024
    host=$(sed -n 's/^# bits //p' "$WORK/out")
    SPARSESHIM_MERGE=$merge preloaded 2 nb_beside --steps 1 --divide 1024
    tap_served "layers of ResNet-50, MERGE=$merge" 160
    [ -n "$host" ] && [ "$(sed -n 's/^# bits //p' "$WORK/out")" = "$host" ]
    tap "$?" "... with the bits that buffers of the host give"
done
SPARSESHIM_DENSITY=1 SPARSESHIM_MERGE=3000 SPARSESHIM_MIN_COUNT=64 preloaded 3 nb_merged --times 1
tap_served "groups that would wait for calls to come" 60
# Thousands of calls: none is encoded by emulated kernels.
SPARSESHIM_ALGORITHM=ring SPARSESHIM_DENSITY=0.05 SPARSESHIM_MERGE=5000 SPARSESHIM_MIN_COUNT=1000 preloaded 2 nb_steps --runs 1
tap_served "a random training in groups" 20
SPARSESHIM_MERGE=1G SPARSESHIM_MIN_COUNT=1000 SPARSESHIM_DENSITY=1 SPARSESHIM_REGISTER='count=70:100; *' preloaded 3 nb_small
tap_served "small calls that join larger ones" 60
finish
