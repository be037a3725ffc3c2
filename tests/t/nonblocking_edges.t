#!/usr/bin/env bash
# The end of a job while its ranks still meet, calls beside each other, and protected pages.
set -u
. tests/t/lib.sh

# These programs do not run at MPI_THREAD_MULTIPLE themselves.
export SPARSESHIM_PROGRESS=watchdog

result=0
for i in 1 2 3 4 5 6; do
    for progress in watchdog thread; do
        SPARSESHIM_PROGRESS=$progress preloaded 4 nb_finalize $((i % 3 * 2 + 1))
        passed || result=1
        [ $result -eq 0 ] || break 2
    done
done
tap $result "a_job_may_end_while_its_ranks_still_meet"

bare 4 nb_blocking
tap_passed "nb_blocking on 4 ranks, bare"
for algorithm in auto split_allgather dense; do
    SPARSESHIM_ALGORITHM=$algorithm preloaded 4 nb_blocking
    tap_taken "a blocking call beside a nonblocking one, $algorithm" 79
    SPARSESHIM_ALGORITHM=$algorithm PRELOAD="$LIB $PROGRAMS/nothread.so" LIMIT=30 preloaded 4 nb_blocking one
    tap_taken "the same on one communicator without the watchdog, $algorithm" 39
    grep -q 'no thread for the progress of nonblocking calls' "$WORK/err"
    tap $? "... which a warning says"
done

on_host "pages of the host are protected"
bare 2 nb_protected
tap_passed "a handler that opens the pages of a buffer, bare"
for algorithm in auto split_allgather dense; do
    for ranks in 2 3; do
        SPARSESHIM_PROGRESS=auto SPARSESHIM_ALGORITHM=$algorithm preloaded "$ranks" nb_protected
        tap_taken "... on $ranks ranks, $algorithm" 30
    done
done

finish
