#!/usr/bin/env bash
# A legal program with operators or attribute keys of its own does not hang beside nonblocking calls
# that are taken over, and they run in no thread of the library's.
set -u
# shellcheck disable=SC2034
YIELDS='' # threads that sleep in the MPI library keep others out of it
. tests/t/lib.sh
export LIMIT=40
export SPARSESHIM_MIN_COUNT=65536 SPARSESHIM_ALGORITHM=split_allgather

# scene RANKS SCENE FORM RANK NAME [SPARSE]: so many sums were sparse, three of them blocking or
# waited for at once, the other one under way; the last ones are the MPI library's.
scene() {
    preloaded "$1" nb_own "$2" "$3" "$4"
    if [ "$(passed_for callbacks)" -gt 0 ]; then
        tap_taken "$5" "$((${6:-4} - 2))" "${6:-4}"
    else
        echo "no call was the MPI library's behind it" >>"$WORK/err"
        tap 1 "$5"
    fi
}

bare 2 nb_own late
tap_passed "bare"
scene 2 operator allreduce 0 "an operator that is never used: a sum under way moves while its rank is in MPI_Recv"
scene 2 keyval allreduce 1 "... so it does beside a key with a copy function"
scene 3 attached allreduce 0 "... and one whose attribute was copied and deleted"
scene 2 sum allreduce 0 "a sum, then a reduction with an own operator: the others wait for the sum"
scene 2 late allreduce 1 "... and come to the reduction only then"
scene 3 own scan 0 "... or wait for the reduction"
scene 2 more allreduce 0 "... or for a sum behind it"
scene 2 before exscan 1 "a sum behind such a reduction" 3
scene 2 freed scatter 0 "operator, datatype and counts are gone before the reduction is posted"
scene 2 other block 0 "a reduction on a communicator that has met nobody has ended before the sum" 3
scene 2 alone allreduce 0 "a sum moves beside a reduction on MPI_COMM_SELF"
scene 3 alone scan 1 "... MPI_Iscan"
scene 2 alone reduce 1 "... MPI_Ireduce"
scene 2 persistent allreduce 0 "an operator, a blocking sum, a persistent request: a sum behind them moves" 3
scene 3 type allreduce 1 "... a key, a blocking sum, an attribute of a datatype" 3
scene 2 threads allreduce 0 "another thread of the program's reduces while one waits for the sum"
scene 2 blocking allreduce 0 "a blocking reduction while the others wait for the sum"
scene 3 blocking scan 1 "... MPI_Scan"
scene 2 blocking scatter 0 "... MPI_Reduce_scatter"
for progress in thread watchdog; do
    SPARSESHIM_PROGRESS=$progress scene 3 late reduce 2 "PROGRESS=$progress: the reduction comes late" 3
    SPARSESHIM_PROGRESS=$progress preloaded 2 nb_own early reduce 0
    tap_passed "PROGRESS=$progress: the ranks first meet while a reduction is under way"
done
export SPARSESHIM_MODE=topk SPARSESHIM_REGISTER=count=70000 SPARSESHIM_DENSITY=1
SPARSESHIM_MERGE=auto scene 2 sum allreduce 1 "MERGE=auto: the others wait for the sum"
SPARSESHIM_MERGE=auto scene 2 blocking reduce 0 "MERGE=auto: a blocking reduction"
finish
