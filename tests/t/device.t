#!/usr/bin/env bash
# Collectives on buffers in device memory, on a driver for tests whose memory the host cannot touch
# (tests/gpu/libcuda.cpp): through copies on the host, with the bits that buffers of the host give.
# GPU_FULL: every case; make check-more PART=emulated runs it so.
set -u
. tests/t/lib.sh
. tests/t/python.sh

needs_devices "buffers in device memory"
export LD_LIBRARY_PATH=$BUILD/tests/gpu/driver${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
export TEST_CUDA_KERNELS=$BUILD/tests/gpu/kernels.so
export SPARSESHIM_MIN_COUNT=1000 SPARSESHIM_REPRODUCIBLE=on
PRELOAD="$LIB $PROGRAMS/locks.so" # a program that waits for the driver under a lock ends

# said TEXT COUNT NAME: so many lines of the standard error have it.
said() {
    local lines
    lines=$(grep -c -- "$1" "$WORK/err")
    [ "$lines" = "$2" ]
    tap "$?" "$3"
}

# some SHORT ALL: what to go through.
some() {
    if [ -n "${GPU_FULL:-}" ]; then echo "$2"; else echo "$1"; fi
}

# ends_at_a_fault NAME
ends_at_a_fault() {
    [ "$STATUS" -ne 0 ] && grep -qi 'segmentation fault' "$WORK/err" "$WORK/out"
    tap "$?" "$1"
}

bare 3 device_calls
ends_at_a_fault "without the library: a segmentation fault"
for ranks in $(some '1 2' '1 2 3 4'); do
    TEST_CUDA_SEED=$ranks preloaded "$ranks" device_calls
    tap_passed "all collectives on $ranks ranks" $((ranks > 1 ? 100 : 0))
done
SPARSESHIM_ALGORITHM=split_allgather TEST_CUDA_SEED=5 preloaded 3 device_calls
tap_passed "all collectives, always sparse" 200
SPARSESHIM_ALGORITHM=dense TEST_CUDA_SEED=6 preloaded 3 device_calls
tap_passed "all collectives, always the MPI library's"
SPARSESHIM_MODE=observe preloaded 3 device_calls
tap_passed "all collectives, MODE=observe"
SPARSESHIM_PROGRESS=watchdog preloaded 3 device_calls
tap_passed "all collectives, PROGRESS=watchdog" 100
SPARSESHIM_REPORT=off SPARSESHIM_REPORT_DIR='' timeout -k 5 60 "$MPIRUN" -n 3 -genv LD_PRELOAD "$LIB $YIELDS" \
    "$PROGRAMS/device_calls" >"$WORK/out" 2>"$WORK/err"
STATUS=$?
tap_passed "all collectives where nobody counts calls"

for algorithm in $(some 'split_allgather oktopk gtopk' 'allgather split_allgather dsar ring oktopk gtopk'); do
    SPARSESHIM_MODE=topk SPARSESHIM_REGISTER=count=5000:calls=1 SPARSESHIM_TEST=identity_steps=1 \
        SPARSESHIM_ALGORITHM=$algorithm preloaded 3 device_calls steps
    tap_passed "MODE=topk, $algorithm: the bits of buffers of the host" 100
    [ "$(tensors state=registered)" = 2 ]
    tap "$?" "... and both are lossy"
done
SPARSESHIM_MODE=topk SPARSESHIM_REGISTER=count=5000:calls=1 SPARSESHIM_VALUE_TYPE=q8 preloaded 2 device_calls steps
tap_passed "MODE=topk with values of 8 bits"

# Costs of the network are measured, and the plan may be another one each time.
for ranks in $(some 3 '2 3'); do
    SPARSESHIM_REPRODUCIBLE=off TEST_CUDA_SEED=$ranks preloaded "$ranks" device_calls agree
    tap_passed "costs that are measured, buffers on devices and hosts by turns: all of $ranks ranks get the same"
    SPARSESHIM_REPRODUCIBLE=off SPARSESHIM_MODE=topk SPARSESHIM_REGISTER=count=5000:calls=1 SPARSESHIM_TEST=identity_steps=1 \
        TEST_CUDA_SEED=$ranks preloaded "$ranks" device_calls agree
    tap_passed "... and of lossy sums"
done

SPARSESHIM_REPRODUCIBLE=off SPARSESHIM_DEBUG=trace preloaded 2 device_busy
tap_passed "a program that has always work under way"
said 'costs in device memory: ' 2 "... learns what work costs there when a call has ended, on both ranks"
SPARSESHIM_PROGRESS=watchdog LIMIT=30 preloaded 2 device_busy holds
tap_passed "a thread whose call waits for the device does not hold up another's call"

for algorithm in split_allgather dense; do
    SPARSESHIM_ALGORITHM=$algorithm preloaded 3 device_counts
    tap_passed "large counts, $algorithm" "$([ "$algorithm" = dense ] && echo 0 || echo 20)"
    SPARSESHIM_PROGRESS=watchdog SPARSESHIM_ALGORITHM=$algorithm preloaded 3 device_counts nonblocking
    tap_taken "... of nonblocking calls" 18
done

for algorithm in recursive_doubling split_allgather ring; do
    SPARSESHIM_ALGORITHM=$algorithm preloaded 2 device_calls stays
    tap_passed "$algorithm: only what is not zero crosses" 50
done

for ranks in $(some 3 '2 3'); do
    SPARSESHIM_ALGORITHM=allgather preloaded "$ranks" device_long
    tap_passed "long messages of $ranks ranks cross as they came" 3
done

SPARSESHIM_MODE=topk SPARSESHIM_REGISTER=count=120000:calls=1 SPARSESHIM_TEST=identity_steps=1 SPARSESHIM_DENSITY=0.125 \
    SPARSESHIM_ALGORITHM=allgather preloaded 3 device_long claims
tap_passed "what is claimed of long messages leaves the device as a message" 3
SPARSESHIM_MODE=topk SPARSESHIM_REGISTER=count=120000:calls=1 SPARSESHIM_TEST=identity_steps=1 SPARSESHIM_DENSITY=0.125 \
    SPARSESHIM_ALGORITHM=allgather SPARSESHIM_MERGE=1G SPARSESHIM_GUARD=off SPARSESHIM_DEBUG=info \
    preloaded 3 device_long claims twice
tap_taken "... with MERGE, too" 8 8
said 'SPARSESHIM_MERGE is for buffers of the host: calls .* do without it' 1 "... by themselves, which is said once"

# A device that lacks a feature: one message from each rank and device, and the sums are right.
not_used() {
    tap_passed "$1: the sums"
    said "a device is not used, its buffers are copied.*: $3" "$2" "... and $2 messages of two ranks: $3"
}
TEST_CUDA_VERSION=12040 preloaded 2 device_calls steps
not_used "an old driver" 4 'the driver is for CUDA 12.4, the kernels need'
TEST_CUDA_FAIL=cuModuleLoadData:1:209 preloaded 2 device_calls steps
not_used "no kernels for one device" 2 'no kernels for test device .: CUDA_ERROR_NO_BINARY_FOR_GPU'
TEST_CUDA_FAIL=cuMemHostAlloc:9:2 preloaded 2 device_calls steps
not_used "no pinned memory for one device, at first" 2 'no pinned memory'
TEST_CUDA_MEMORY=2000000 preloaded 2 device_calls steps
tap_passed "too little device memory: the sums"
for call in $(some '5 9' '5 6 7 8 9 10 11'); do # the first four are the program's
    TEST_CUDA_FAIL=cuMemAlloc_v2:$call:2 SPARSESHIM_ALGORITHM=split_allgather preloaded 2 device_calls steps
    tap_passed "no device memory at allocation $call: the sums"
    TEST_CUDA_FAIL=cuMemAlloc_v2:$call:2 SPARSESHIM_MODE=topk SPARSESHIM_REGISTER=count=5000:calls=1 \
        SPARSESHIM_TEST=identity_steps=1 SPARSESHIM_ALGORITHM=ring preloaded 2 device_calls agree
    tap_passed "... and lossy ones"
done
SPARSESHIM_MODE=topk SPARSESHIM_REGISTER=count=5000:calls=1 SPARSESHIM_TEST=identity_steps=1 SPARSESHIM_ALGORITHM=ring \
    preloaded 2 device_calls reset
tap_passed "a reset of the device: the communicator fails on all ranks" 5

SPARSESHIM_MODE=topk SPARSESHIM_REGISTER=count=5000:calls=1 SPARSESHIM_TEST=identity_steps=1 SPARSESHIM_ALGORITHM=ring \
    preloaded 2 device_edges lost
tap_passed "a reset of the device after the last call" 5
said "held this rank's residual has failed: its residual, of norm [0-9.]*, is lost" 2 "... what is lost is said at the end"
for type in same q8; do # what rounding leaves is added when a call has ended
    SPARSESHIM_MODE=topk SPARSESHIM_REGISTER=count=5000:calls=1 SPARSESHIM_TEST=identity_steps=1 SPARSESHIM_ALGORITHM=ring \
        SPARSESHIM_VALUE_TYPE=$type preloaded 2 device_edges destroyed
    tap_passed "a context of the program's own is not looked at once it is destroyed, VALUE_TYPE=$type"
done

for algorithm in auto split_allgather; do
    SPARSESHIM_REPRODUCIBLE=off SPARSESHIM_ALGORITHM=$algorithm preloaded 2 device_capture
    tap_passed "a capture under way is left alone, $algorithm"
done

# Finding out whose memory a buffer is.
preloaded 2 device_calls late
tap_passed "nothing is opened before the program loads CUDA, and all is served after" 100
within 60 "$MPIRUN" -n 2 -genv LD_DEBUG files -genv LD_PRELOAD "$LIB $YIELDS" "$PROGRAMS/smoke"
tap_passed "a program without CUDA, beside a driver"
grep -q 'file=libmpich' "$WORK/err"
tap "$?" "... the libraries that it opens are told"
said 'libcuda\.so\|libsparseshim_cuda' 0 "... CUDA is not among them, nor what serves it"
TEST_CUDA_DEVICES=0 SPARSESHIM_MIN_COUNT=1 SPARSESHIM_ALGORITHM=split_allgather \
    PRELOAD="$LIB $BUILD/tests/gpu/driver/libcuda.so.1" preloaded 2 oracle 4096 0 12
tap_passed "a driver without any device: the sums of buffers of the host" 5
said '^sparseshim\(\[[0-9]*\]\)\?: ' 0 "... and nothing is said"
preloaded 2 device_calls host
grep -q 'libsparseshim_cuda.so is there' "$WORK/out"
tap_passed "pinned memory is the host's"
SPARSESHIM_DEVICE=cpu preloaded 2 device_calls host
grep -q 'libsparseshim_cuda.so is not there' "$WORK/out"
tap "$?" "DEVICE=cpu: nothing asks CUDA"
tap_passed "... the sums are right"
SPARSESHIM_DEVICE=cpu preloaded 2 device_calls
ends_at_a_fault "DEVICE=cpu: buffers in device memory are read as if they were the host's"

# An MPI library that is CUDA-aware gets buffers in device memory as they are.
AWARE="$LIB $PROGRAMS/cuda_takes.so"
given() { # given LEAST NAME: so many calls with such buffers came to the MPI library
    local calls
    calls=$(sed -n 's/^cuda_takes: \([0-9]*\) calls.*/\1/p' "$WORK/err" | sort -n | head -1)
    [ "${calls:-0}" -ge "$1" ]
    tap "$?" "... $2"
}
for ranks in 2 3; do
    SPARSESHIM_ALGORITHM=split_allgather SPARSESHIM_DEBUG=info PRELOAD=$AWARE preloaded "$ranks" device_aware
    tap_passed "a CUDA-aware MPI library gets calls with buffers in device memory as they are, $ranks ranks" 1
    given 50 "all of them"
    said 'it gets buffers in device memory as they are' 1 "... which is said once"
    SPARSESHIM_ALGORITHM=split_allgather SPARSESHIM_PROGRESS=watchdog PRELOAD=$AWARE \
        preloaded "$ranks" device_aware nonblocking
    tap_taken "... nonblocking ones" 50
    given 50 "all of them"
    SPARSESHIM_ALGORITHM=split_allgather SPARSESHIM_MODE=topk SPARSESHIM_REGISTER=count=5000:calls=1 PRELOAD=$AWARE \
        preloaded "$ranks" device_aware steps
    tap_passed "... a gradient whose buffers are on the host, then on a device of one rank" 8
    given 4 "those of the device"
done
SPARSESHIM_MODE=observe PRELOAD=$AWARE preloaded 2 device_aware
tap_passed "... with MODE=observe"
SPARSESHIM_MODE=topk SPARSESHIM_REGISTER=count=5000:calls=1 SPARSESHIM_MERGE=1G SPARSESHIM_PROGRESS=watchdog PRELOAD=$AWARE \
    preloaded 2 device_aware nonblocking
tap_taken "... with MERGE" 50
SPARSESHIM_ALGORITHM=split_allgather PRELOAD=$AWARE preloaded 2 device_aware alone
tap_passed "... and sums of buffers of the host are served as ever" 23
SPARSESHIM_MODE=learn PRELOAD=$AWARE preloaded 2 device_aware
tap_passed "... MODE=learn reads none of them"
said 'sums of buffers in device memory are not recorded' 1 "... and says so"
# Short buffers: served on the emulated device, an element costs far more than in the MPI library.
SPARSESHIM_DEVICE=cuda SPARSESHIM_ALGORITHM=split_allgather PRELOAD=$AWARE preloaded 2 device_aware blocking 100000
tap_passed "... with DEVICE=cuda it gets copies on the host" 40
said '^cuda_takes' 0 "... and no buffer in device memory"
SPARSESHIM_QUORUM=solo SPARSESHIM_MODE=topk SPARSESHIM_REGISTER=count=5000:calls=1 SPARSESHIM_REPRODUCIBLE=off PRELOAD=$AWARE \
    preloaded 2 device_aware steps
tap_passed "... with QUORUM as well"
said '^cuda_takes' 0 "... and no buffer in device memory"
mkdir "$WORK/lone"
cp "$LIB" "$WORK/lone/"
SPARSESHIM_ALGORITHM=split_allgather PRELOAD="$WORK/lone/libsparseshim.so $PROGRAMS/cuda_takes.so" preloaded 2 device_aware
tap_passed "... without the part for CUDA, too"
said 'the MPI library gets all calls' 2 "... where it gets all calls, which each rank says"
PRELOAD="$LIB $PROGRAMS/cuda_aware.so" SPARSESHIM_DEBUG=info preloaded 2 device_calls host
said 'the MPI library is CUDA-aware' 1 "a program with pinned memory alone: the MPI library is asked"
tap_passed "... the sums are right"
# Only by Open MPI's name, which is asked where MPICH's is not there.
mpi=$(ldd "$PROGRAMS/device_calls" | awk '/libmpi/ { print $3; exit }')
mkdir "$WORK/query"
LC_ALL=C sed 's/MPIX_GPU_query_support/MPIX_GPU_query_missing/g' "$mpi" >"$WORK/query/${mpi##*/}"
for answer in 1 0; do
    LD_LIBRARY_PATH=$WORK/query:$LD_LIBRARY_PATH CUDA_QUERY=$answer PRELOAD="$LIB $PROGRAMS/cuda_query.so" \
        SPARSESHIM_DEBUG=info preloaded 2 device_calls host
    said 'the MPI library is CUDA-aware' "$answer" "one that has MPIX_Query_cuda_support alone is asked by that, and says $answer"
    tap_passed "... the sums are right"
done
SPARSESHIM_DEVICE=cuda PRELOAD="$LIB $PROGRAMS/cuda_aware.so" preloaded 2 device_calls
tap_passed "DEVICE=cuda: copies under such a library, too" 100

# MODE=learn records the buffers of the program, not the copies, which are the same for all layers.
mkdir "$WORK/learned"
ON_DEVICE=DD SPARSESHIM_MODE=learn SPARSESHIM_REPORT_DIR=$WORK/learned timeout -k 5 60 "$MPIRUN" -n 2 \
    -genv LD_PRELOAD "$PROGRAMS/to_device.so $PRELOAD $YIELDS" "$BUILD/tests/gradients/positives" equal8 20 1 plain \
    >"$WORK/out" 2>"$WORK/err"
STATUS=$?
[ "$STATUS" -eq 0 ] && python3 -c '
import sys
sys.path.insert(0, "shim/cli")
sys.dont_write_bytecode = True
import learn_records
found = [[call[1] for calls in rank.calls.values() for call in calls]
         for rank in learn_records.read(sys.argv[1], {}).values()]
print([(len(calls), "calls", len(set(calls)), "buffers") for calls in found])
sys.exit([(len(calls), len(set(calls))) for calls in found] != [(160, 8)] * 2)
' "$WORK/learned" >>"$WORK/err" 2>&1
tap "$?" "MODE=learn: eight layers in device memory have eight buffers in the records"

# Files in the folder of the library.
mkdir "$WORK/alone"
cp "$LIB" "$WORK/alone/"
PRELOAD=$WORK/alone/libsparseshim.so preloaded 1 device_calls host
said 'the program uses CUDA, but .*libsparseshim_cuda.so' 1 "without its part for CUDA: one message"
tap_passed "... the MPI library gets the calls"
echo 'const struct { unsigned version; } sparseshim_cuda = {0};' >"$WORK/old.c"
"${CC:-cc}" -shared -fPIC -o "$WORK/alone/libsparseshim_cuda.so" "$WORK/old.c"
PRELOAD=$WORK/alone/libsparseshim.so preloaded 1 device_calls host
said 'belongs to another version' 1 "with that of another version: one message"
tap_passed "... the MPI library gets the calls"

# Nonblocking.
for progress in watchdog thread; do
    SPARSESHIM_ALGORITHM=split_allgather SPARSESHIM_PROGRESS=$progress preloaded 3 device_calls nonblocking
    tap_taken "nonblocking calls, PROGRESS=$progress" 100 100
    SPARSESHIM_ALGORITHM=dense SPARSESHIM_PROGRESS=$progress preloaded 2 device_calls nonblocking
    tap_taken "nonblocking calls that the MPI library's run, PROGRESS=$progress" 100
done
SPARSESHIM_MODE=topk SPARSESHIM_REGISTER=count=77:calls=1 preloaded 2 device_calls nonblocking
tap_taken "nonblocking calls, MODE=topk" 100

# Staged calls together with other calls and failures.
SPARSESHIM_ALGORITHM=ring SPARSESHIM_PROGRESS=watchdog preloaded 2 device_edges order
tap_passed "calls handed to the MPI library keep their order while one is copied"
for algorithm in $(some ring 'ring dense'); do
    SPARSESHIM_ALGORITHM=$algorithm SPARSESHIM_PROGRESS=watchdog preloaded 3 device_edges operator
    tap_passed "an operator of the program's beside nonblocking calls, $algorithm"
done
SPARSESHIM_ALGORITHM=ring SPARSESHIM_PROGRESS=watchdog preloaded 2 device_edges receives
tap_passed "a nonblocking call behind an operator of the program's goes on while the program waits for a message"
for algorithm in $(some split_allgather 'auto split_allgather'); do
    for how in '' nonblocking; do
        # shellcheck disable=SC2086 # none, or one more
        SPARSESHIM_REPRODUCIBLE=off SPARSESHIM_ALGORITHM=$algorithm SPARSESHIM_PROGRESS=watchdog LIMIT=30 \
            preloaded 3 device_edges dead cuEventRecord:+1:700 $how
        tap_passed "a device that fails for good on one rank is an error on all ($algorithm${how:+, }$how)"
    done
done
for ranks in $(some 3 '2 3'); do
    SPARSESHIM_PROGRESS=watchdog preloaded "$ranks" device_edges gaps
    tap_passed "gaps between the slices of $ranks ranks are not written"
done
SPARSESHIM_ALGORITHM=ring preloaded 2 device_layouts words
tap_passed "gathers of words at addresses between theirs" 3
MPIR_CVAR_DEFAULT_THREAD_LEVEL=MPI_THREAD_MULTIPLE preloaded 2 device_edges refused
tap_passed "a nonblocking call that an operator of the program keeps from being served: an error that says so"
for progress in auto watchdog; do
    SPARSESHIM_PROGRESS=$progress preloaded 3 device_layouts nothing
    tap_passed "a call that touches no memory of a device is the MPI library's, PROGRESS=$progress"
done
for ranks in 1 2; do
    SPARSESHIM_PROGRESS=watchdog preloaded "$ranks" device_layouts alone
    tap_passed "nonblocking calls on a communicator of one of $ranks ranks"
done
for kind in $(some 'allgather reduce iallgather' 'allgather reduce_scatter reduce iallgather allreduce iallreduce'); do
    SPARSESHIM_PROGRESS=watchdog LIMIT=30 preloaded 3 device_failing told "$kind"
    tap_passed "a device that has failed on one rank is an error on all ($kind)"
done
SPARSESHIM_MODE=observe LIMIT=30 preloaded 3 device_failing told allreduce
tap_passed "... with MODE=observe"
SPARSESHIM_MODE=topk SPARSESHIM_REGISTER=count=70000:calls=1 SPARSESHIM_MERGE=auto SPARSESHIM_ALGORITHM=ring \
    SPARSESHIM_PROGRESS=watchdog LIMIT=30 preloaded 3 device_failing told iallreduce
tap_passed "... with MERGE"
# The ranks end without MPI_Finalize: mpirun may take that for a hangup (1), kill the one that ends
# last (9) or, once in hundreds, not notice (124). What they said counts, and that they were not
# killed by anything else.
SPARSESHIM_TIMEOUT=2 SPARSESHIM_ALGORITHM=dense LIMIT=20 \
    preloaded 2 device_edges copy cuMemcpyDtoHAsync_v2:+1:2
[[ $STATUS == @(0|1|9|124) ]] && [ "$(grep -c 'an error' "$WORK/out")" = 2 ]
tap "$?" "a copy that fails on one rank is an error on all, with TIMEOUT"
for version in $(some 12040 '12040 13000'); do
    for reproducible in $(some off 'on off'); do
        TEST_CUDA_VERSION=$version SPARSESHIM_REPRODUCIBLE=$reproducible SPARSESHIM_TIMEOUT=2 LIMIT=30 \
            preloaded 2 device_failing beside
        [[ $STATUS == @(0|1|9|124) ]] && [ "$(grep -c 'an error, and no wrong sum' "$WORK/out")" = 2 ]
        tap "$?" "what cannot be copied on one rank is an error on all, and no later sum is wrong (CUDA $version, REPRODUCIBLE=$reproducible)"
    done
done
SPARSESHIM_PROGRESS=watchdog LIMIT=20 preloaded 2 device_edges missed
grep -q 'an error, then another' "$WORK/out"
tap "$?" "a call of the MPI library's that one rank cannot make: no later one takes its place"

SPARSESHIM_ALGORITHM=dense SPARSESHIM_PROGRESS=watchdog preloaded 2 device_edges many
tap_taken "more calls under way than blocks of pinned memory" 16

# Long sums of the MPI library's, in pieces.
for part in $(some 3 '0 1 2 3'); do
    ranks=$((part < 3 ? part + 2 : 3))
    SPARSESHIM_REPRODUCIBLE=off SPARSESHIM_ALGORITHM=dense SPARSESHIM_PROGRESS=watchdog TEST_CUDA_SEED=$part \
        preloaded "$ranks" device_pieces sums "$part"
    tap_passed "in pieces: the sums of $ranks ranks, part $part of the places"
done
SPARSESHIM_TIMEOUT=60 SPARSESHIM_ALGORITHM=dense SPARSESHIM_PROGRESS=watchdog preloaded 3 device_pieces several
tap_taken "in pieces: nonblocking calls beside each other" "$(some 4 8)"
SPARSESHIM_MODE=topk SPARSESHIM_REGISTER='*:calls=1' SPARSESHIM_TEST=identity_steps=1 SPARSESHIM_ALGORITHM=ring \
    preloaded 2 device_pieces steps
tap_passed "in pieces: what is switched off among lossy calls" "$(some 3 4)"
SPARSESHIM_REPRODUCIBLE=off SPARSESHIM_ALGORITHM=dense preloaded 2 device_pieces order
tap_passed "in pieces: copies beside sums, and little pinned memory"
for fault in $(some cuMemcpyHtoDAsync_v2:+2:2 \
    'cuMemcpyDtoHAsync_v2:+1:2 cuMemcpyDtoHAsync_v2:+3:2 cuMemcpyHtoDAsync_v2:+2:2 cuEventQuery:+5:2'); do
    SPARSESHIM_ALGORITHM=dense SPARSESHIM_PROGRESS=watchdog preloaded 3 device_pieces fails "$fault"
    tap_passed "in pieces: copies that fail on one rank ($fault) are errors on all"
done
# With this algorithm of the MPI library the bits of a sum depend on how long it is.
export MPIR_CVAR_IALLREDUCE_INTRA_ALGORITHM=tsp_ring
for form in $(some nonblocking 'blocking nonblocking'); do
    SPARSESHIM_ALGORITHM=dense SPARSESHIM_PROGRESS=watchdog preloaded 3 device_pieces bits "$form"
    tap_passed "in pieces, REPRODUCIBLE=on: the bits of $form calls wherever the buffers lie"
done
if [ -n "${GPU_FULL:-}" ]; then
    SPARSESHIM_REPRODUCIBLE=off SPARSESHIM_ALGORITHM=dense preloaded 3 device_pieces bits
    grep -q '^not ok' "$WORK/out"
    tap "$?" "... which differ where it is off"
fi
unset MPIR_CVAR_IALLREDUCE_INTRA_ALGORITHM
SPARSESHIM_REPRODUCIBLE=off SPARSESHIM_ALGORITHM=dense preloaded 3 device_pieces whole
tap_passed "nothing on a device: the MPI library has the call as a whole"

# Python: what mpi4py knows by __cuda_array_interface__.
# of_python RANKS [nonblocking]
of_python() {
    local ranks=$1
    shift
    within 120 "$MPIRUN" -n "$ranks" -genv LD_PRELOAD "$LIB $YIELDS" "$VENV/bin/python" tests/py/device.py "$@"
}
if have_mpi4py; then
    SPARSESHIM_ALGORITHM=split_allgather of_python 2
    tap_passed "mpi4py" 110
    SPARSESHIM_ALGORITHM=dense of_python 3
    tap_passed "mpi4py, always the MPI library's"
    SPARSESHIM_ALGORITHM=split_allgather SPARSESHIM_PROGRESS=watchdog of_python 2 nonblocking
    tap_taken "mpi4py, nonblocking calls among them" 60 180
else
    skip "mpi4py" "it could not be built from PyPI"
fi

# make gpu-check and make gpu-bench. A machine with a GPU has no library that others have for tests.
for program in gpu_check gpu_bench gpu_large; do
    readelf -d "$BUILD/tests/gpu/$program" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' |
        grep -vE '^(libc|libm|libdl|ld-linux[^.]*)\.so' >"$WORK/out"
    [ ! -s "$WORK/out" ]
    tap "$?" "$program needs libc and nothing more"
done
for what in $(some bench 'check bench'); do
    TEST_CUDA_DEVICES=1 within 300 env BUILD="$(realpath --relative-to=. "$BUILD")" OUT="$WORK/gpu" SIZES=0 \
        JOB_ELEMENTS=7000 LARGE=30001 VARIANTS="$(some '' -DNO_CACHE_HINTS)" \
        GPU_LIBCUDA="$BUILD/tests/gpu/driver/libcuda.so.1" scripts/gpu "$what"
    # 3: without compute-sanitizer, ncu or PyTorch
    [[ $STATUS == [03] ]] && grep -q '"result": "ok"' "$WORK/gpu/$what.json" && ! grep -q failed "$WORK/gpu/table.txt"
    tap "$?" "make gpu-$what, on the driver for tests"
done
within 60 env BUILD="$(realpath --relative-to=. "$BUILD")" OUT="$WORK/gpu" LIMIT=0 \
    GPU_LIBCUDA="$BUILD/tests/gpu/driver/libcuda.so.1" scripts/gpu bench
[ "$STATUS" -eq 1 ] && grep -q '"step": "kernels", "result": "not reached"' "$WORK/gpu/bench.json" &&
    grep -q '"figure": "scan".*"not measured"' "$WORK/gpu/bench.json"
tap "$?" "... whose time is over names what it has not reached"

# What fails.
preloaded 2 device_calls refused
tap_passed "calls that are not served give an error"
TEST_CUDA_FAIL=cuMemcpyDtoHAsync_v2:1:700 preloaded 2 device_calls broken
grep -q 'copied: CUDA_ERROR_ILLEGAL_ADDRESS' "$WORK/out"
tap_passed "an error of the driver is an MPI error with its name"
for calls in 0 5; do
    preloaded 2 device_failing sticky "$calls"
    tap_passed "an error of the program's own behind $calls calls: the driver does not say whose memory it is"
done
finish
