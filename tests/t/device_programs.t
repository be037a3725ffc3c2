#!/usr/bin/env bash
# Programs of tests/mpi with the buffers of their collectives in device memory, of the host and of both
# by turns (tests/preload/to_device.c): each a short run. `make check-more PART=emulated` runs
# whole tests so.
# Those of nonblocking calls are in device_nonblocking.t, those of device memory in device.t.
set -u
export ON_DEVICE=${ON_DEVICE:-DD,PP,DS,HH,DD}
. tests/t/lib.sh

needs_devices "programs on device memory"

# ---- exact ----

export SPARSESHIM_ALGORITHM=split_allgather
preloaded 2 churn 30
tap_passed "communicators come and go" 60
SPARSESHIM_ALGORITHM=ring PRELOAD="$LIB $PROGRAMS/slow_free.so" preloaded 2 churn_threads 20
tap_passed "communicators of two threads, slow to free" 60
preloaded 2 manycomms 30
[ "$STATUS" -eq 1 ] && [ "$(grep -c '^not ok' "$WORK/out")" = 1 ] && grep -q '^not ok 1 - more than a thousand' "$WORK/out"
tap "$?" "thirty communicators beside each other"
preloaded 3 control
tap_passed "persistent calls of the host, MPI_Pcontrol" 3
PRELOAD="$LIB $PROGRAMS/failing.so" preloaded 4 costs
tap_passed "the network is measured once for each group of ranks"
preloaded 2 differ count
tap_passed "ranks differ in the count: an error on each"
preloaded 2 datatypes names
tap_passed "each rank has another name for one type"
preloaded 3 fewcalls 4
tap_passed "four calls" 3
SPARSESHIM_MODE=observe preloaded 2 fptraps upward
tap_passed "a program that rounds upward"
SPARSESHIM_ALPHA=1e-6 SPARSESHIM_BETA=1e-9 SPARSESHIM_TIMEOUT=3 PRELOAD="$LIB $PROGRAMS/failing.so" \
    FAILING_RANK=1 FAILING_CALL=10 preloaded 3 until_error 3000
tap_passed "a send fails under way: an error on each rank, in one call"
preloaded 2 oracle 4096 0 12
tap_passed "sums against exact references" 5
preloaded 2 same_as_native 4096 1
tap_passed "a rank turns the library off: the sums of the MPI library"
SPARSESHIM_MAX_MEMORY=200Ki preloaded 2 little_memory 60001
tap_passed "inputs of every density, little memory"
SPARSESHIM_ALGORITHM=auto preloaded 2 smoke
tap_passed "one call of each kind"
preloaded 3 special sparse
tap_passed "inputs that are not finite" 7
SPARSESHIM_PROGRESS=watchdog preloaded 2 sums ia 2000 10
tap_passed "a nonblocking sum per step" 5
preloaded 2 threads
tap_passed "several threads reduce at once" 20

# ---- kinds, nonblocking calls ----

SPARSESHIM_PROGRESS=watchdog preloaded 2 nb_layers --divide 256 --steps 1
tap_taken "a sum for each layer" 100
SPARSESHIM_PROGRESS=watchdog preloaded 3 nb_mixed blocking
tap_taken "nonblocking and blocking sums in turn" 70

# ---- process ----

preloaded 2 forked
tap_passed "ranks fork between calls" 4
preloaded 2 idle max
tap "$STATUS" "maxima, which are not served"
preloaded 3 sessions
tap_passed "MPI sessions alone" 5
PRELOAD="$LIB $PROGRAMS/profiler.so" preloaded 3 stacked
tap_passed "a profiler below" 3
preloaded 2 traced
bits=$(sed -n 's/^# bits //p' "$WORK/out")
ON_DEVICE='' preloaded 2 traced
passed && [ -n "$bits" ] && [ "$(sed -n 's/^# bits //p' "$WORK/out")" = "$bits" ]
tap "$?" "sums of 50,000 elements: the bits of buffers of the host"
preloaded 2 unending exit
[ "$STATUS" -eq 3 ]
tap "$?" "a job that does not reach MPI_Finalize"

# ---- top-k ----

export SPARSESHIM_MODE=topk SPARSESHIM_DENSITY=0.1
at_one_place # gradients are named by their buffers
SPARSESHIM_TEST=identity_steps=1 preloaded 2 header_api use
tap_passed "buffers registered by the program" 30
mkdir "$WORK/checkpoint"
for how in end keep; do
    SPARSESHIM_REGISTER='*:calls=1' SPARSESHIM_TEST=identity_steps=1 preloaded 2 resume "$how" "$WORK/checkpoint"
    tap_passed "a job that is started again: $how" 50
done
SPARSESHIM_MIN_COUNT=1000 SPARSESHIM_REGISTER=count=1500:2999:calls=1 SPARSESHIM_TEST=identity_steps=1,quorum_period=16 SPARSESHIM_ALGORITHM=allgather \
    SPARSESHIM_QUORUM=solo preloaded 2 quorum_edges withdraw
tap_passed "a gradient that is taken back from partial calls"
SPARSESHIM_MIN_COUNT=1000 SPARSESHIM_REGISTER=count=2000:2010 SPARSESHIM_ALGORITHM=split_allgather \
    preloaded 2 steps own first=3
tap_passed "gradients are lossy from the third step on" 2
at_all_places
SPARSESHIM_MIN_COUNT=1000 SPARSESHIM_REGISTER='*:calls=1' SPARSESHIM_QUORUM=solo preloaded 2 late_ranks late=one steps=10 quiet=20
tap_passed "partial calls of late ranks"
export SPARSESHIM_REGISTER='*:calls=1' SPARSESHIM_TEST=identity_steps=1
preloaded 2 conserve n=1801 steps=6 type=both form=scaled bound=exact lossy=yes pattern=heavy place=turns
tap_passed "no gradient is lost" 10
SPARSESHIM_MODE=quant SPARSESHIM_DENSITY=1 SPARSESHIM_ALGORITHM=dsar \
    preloaded 2 conserve n=1801 steps=6 type=both form=fractions bound=eps pattern=heavy place=turns
tap_passed "quant: no gradient is lost" 10
preloaded 2 freed 2
[ "$STATUS" -eq 0 ] && grep -q 'was freed with residuals of norm [1-9]' "$WORK/err"
tap "$?" "what is lost with a communicator is told"
SPARSESHIM_REGISTER='' preloaded 2 layers native steps=20
tap_passed "what no rule names is the sum of the MPI library"
SPARSESHIM_REPRODUCIBLE=on preloaded 4 replicas n=2000 calls=12
tap_passed "two communicators agree bit for bit" 5
preloaded 2 sites 2 20
tap_passed "layers that share a wrapper and a buffer"
unset SPARSESHIM_MODE SPARSESHIM_DENSITY SPARSESHIM_REGISTER SPARSESHIM_TEST SPARSESHIM_ALGORITHM

# ---- harmless ----

# harmless CASE NAME: cases of harmless.t end alike, bare and preloaded on devices.
harmless() {
    local result=0
    HARMLESS_FORMS=small HARMLESS_ONLY=$1 tests/t/harmless.t >"$WORK/out" 2>"$WORK/err" || result=1
    grep -q '^ok .*(small)$' "$WORK/out" && ! grep -q '^not ok' "$WORK/out" || result=1
    tap "$result" "$2"
}

harmless 'edge_args read-only-multiple' "buffers that cannot be written"
harmless 'edge_exchange messages-multiple' "messages of the program are its own at first exchange"
harmless 'edge_errors sums' "an error handler makes sums"
harmless 'edge_finalize outlives 1' "sessions outlive MPI_Finalize, and make the first call after it"
harmless 'edge_finalize atexit' "MPI_Finalize in an exit handler"
harmless 'edge_freed freed-gathers-multiple' "callbacks of a communicator that is freed gather on it"
harmless 'edge_process interrupted' "a timer interrupts sums"
harmless 'edge_threads threads' "no thread but the program's"
harmless 'edge_wrong wrong counting' "wrong arguments of each call"
LIB=$LOADED scripts/campaign --programs 20 --ranks 2 --init single --settings MIN_COUNT=1,PROGRESS=off --findings 1 \
    >"$WORK/out" 2>"$WORK/err" # random_programs
tap "$?" "random programs observe the same bare and preloaded"

# ---- none is forgotten ----

# Those of tests/mpi/device have device memory of their own (device.t). Not by place: nb_protected protects memory of the host, address_space limits it; sums on a device raise no
# floating-point exceptions (fpsums), and operators of the program read host memory (nb_own). The plugin and names bring
# an MPI of their own, where tests/preload/to_device.c does not find it; seccomp forbids what the driver for tests asks
# of the system; dups makes no sum; without memory of the host nothing can be copied to it (starved). Memory that the
# ranks of a host share is for buffers of the host (in_memory); dirty_words makes sums of few types to try handles; half_sums runs
# without the library. direct calls PMPI names, and scatter_counts MPI_Reduce_scatter with operators of its own:
# to_device.c handles neither. To a first exchange it is the same where buffers lie (copied, nb_first).
ran() {
    grep -v '^ *#' tests/t/device_nonblocking.t tests/t/device_programs.t |
        grep -qE "(preloaded [^ ]+ |harmless '|# )$1( |;|\$)"
}
for file in tests/mpi/*/*.c; do
    program=${file##*/}
    program=${program%.c}
    case $file in
    */device/* | */nb_protected.c | */plugin.c) continue ;;
    */address_space.c | */copied.c | */direct.c | */dirty_words.c | */dups.c | */fpsums.c | */half_sums.c | */in_memory.c | */names.c | */nb_births.c | */nb_crowd.c | */nb_first.c | */nb_lone.c | */nb_own.c) continue ;;
    */scatter_counts.c | */seccomp.c | */starved.c) continue ;;
    esac
    ran "$program" || echo "$file"
done >"$WORK/out"
[ ! -s "$WORK/out" ]
tap "$?" "each program of tests/mpi runs with its buffers in device memory, here or in device_nonblocking.t"
finish
