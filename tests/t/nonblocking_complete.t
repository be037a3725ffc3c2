#!/usr/bin/env bash
# A nonblocking call that is taken over completes under every completion call, with the status of one
# that is not, and refuses what the MPI library refuses.
set -u
export SPARSESHIM_MIN_COUNT=1000 # the program's small calls are below
. tests/t/lib.sh

# These programs do not run at MPI_THREAD_MULTIPLE themselves.
export SPARSESHIM_PROGRESS=watchdog

bare 3 nb_complete
tap_passed "nb_complete on 3 ranks, bare"
for ranks in 2 3; do
    preloaded "$ranks" nb_complete
    # Ten ways of completion with 6 calls each, and 10 others, some small.
    tap_taken "nb_complete on $ranks ranks" 70
    SPARSESHIM_PROGRESS=thread SPARSESHIM_ALGORITHM=ring preloaded "$ranks" nb_complete
    tap_taken "nb_complete on $ranks ranks, PROGRESS=thread" 70 60
    SPARSESHIM_ALGORITHM=dsar preloaded "$ranks" nb_complete
    tap_taken "nb_complete on $ranks ranks, dsar" 70 60
done
SPARSESHIM_PROGRESS=off preloaded 2 nb_complete
tap_taken_none "nb_complete with PROGRESS=off"
SPARSESHIM_DISABLE=1 preloaded 2 nb_complete
tap_passed "nb_complete with DISABLE=1"
finish
