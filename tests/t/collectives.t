#!/usr/bin/env bash
# Allgather, reduce_scatter and reduce give what the MPI library gives; persistent allreduces are
# the MPI library's, unseen; MPI_Pcontrol.
set -u
. tests/t/lib.sh

bare 3 kinds
tap_passed "kinds on 3 ranks, bare"
export SPARSESHIM_ALPHA=1e-6 SPARSESHIM_BETA=1e-7
for ranks in 1 2 3 5; do
    preloaded "$ranks" kinds
    tap_passed "kinds on $ranks ranks" $((ranks > 1 ? 20 : 0))
done
unset SPARSESHIM_ALPHA SPARSESHIM_BETA
SPARSESHIM_ALGORITHM=split_allgather SPARSESHIM_PROGRESS=thread preloaded 4 kinds
tap_taken "kinds on 4 ranks, always sparse, PROGRESS=thread" 8 45
SPARSESHIM_ALGORITHM=dense preloaded 3 kinds
tap_passed "kinds on 3 ranks, always the MPI library's"
tap_no_sparse "... none of them sparse"
SPARSESHIM_MODE=topk SPARSESHIM_REGISTER=count=1:1000000:calls=1 SPARSESHIM_TEST=identity_steps=1 \
    SPARSESHIM_ALGORITHM=split_allgather preloaded 3 kinds
tap_passed "kinds on 3 ranks, MODE=topk: they stay exact" 40
SPARSESHIM_MODE=observe preloaded 3 kinds
tap_passed "kinds on 3 ranks, MODE=observe"
tap_no_sparse "... none of them sparse"

bare 3 control
tap_passed "control on 3 ranks, bare"
SPARSESHIM_ALGORITHM=split_allgather preloaded 3 control
tap_passed "control on 3 ranks" 3
[ "$(passed_for off)" = 1 ] && [ "$(counter calls.seen)" = 5 ]
tap "$?" "the report counts a call that was switched off, and sees no persistent allreduce"
ls "$WORK"/report >"$WORK/out"
[ "$(wc -l <"$WORK/out")" = 1 ]
tap "$?" "MPI_Pcontrol(2) writes the report of the process, its end writes the same file anew"
finish
