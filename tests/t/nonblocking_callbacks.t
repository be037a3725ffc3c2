#!/usr/bin/env bash
# Code of the program's runs in no thread of the library's, and what nonblocking calls are taken over
# under PROGRESS=auto.
set -u
YIELDS='' # threads that sleep in the MPI library keep others out of it
. tests/t/lib.sh
export LIMIT=150

bare 3 nb_callbacks operator
tap_passed "callbacks on 3 ranks, bare"
for what in operator keyval; do
    for ranks in 2 3 4; do
        for progress in auto thread; do
            # A lane that found dense faster would seldom vote.
            SPARSESHIM_ALGORITHM=split_allgather SPARSESHIM_PROGRESS=$progress \
                preloaded "$ranks" nb_callbacks "$what"
            tap_taken "a rank makes an $what of its own: sums on $ranks ranks, PROGRESS=$progress" 6
            tap "$(($(passed_for callbacks) == 0))" "... from then on calls are the MPI library's"
        done
    done
done
SPARSESHIM_PROGRESS=auto preloaded 3 nb_callbacks nothing
tap_taken "a rank passes MPI_OP_NULL" 50
tap "$(($(passed_for callbacks) != 0))" "... which is no operator: calls are taken over as before"

# The programs of the other tests ask for no thread level.
preloaded 3 nb_layers --divide 256 --steps 3
tap_taken_none "PROGRESS=auto raises no program: nonblocking calls pass through"
grep -q 'PROGRESS=watchdog or thread would raise the program' "$WORK/err"
tap "$?" "... and the report says what would take them over"
MPIR_CVAR_DEFAULT_THREAD_LEVEL=MPI_THREAD_MULTIPLE OMPI_MPI_THREAD_LEVEL=3 preloaded 3 nb_layers --divide 256 --steps 3
tap_taken_none "at MPI_THREAD_MULTIPLE without a blocking call before: they pass through"
[ "$(passed_for before_blocking)" -gt 0 ] && grep -q 'no eligible blocking call on their' "$WORK/err"
tap "$?" "... and the report says why"
SPARSESHIM_MODE=topk SPARSESHIM_REGISTER=count=1:2 SPARSESHIM_EXCLUDE='*' preloaded 3 nb_layers --divide 256 --steps 3
tap_taken "MODE=topk with a rule raises the program and takes them over" 300
finish
