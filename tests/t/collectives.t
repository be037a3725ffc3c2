#!/usr/bin/env bash
# Allgather, reduce_scatter (also with a list of counts) and reduce give what the MPI library gives;
# persistent allreduces are the MPI library's, unseen; MPI_Pcontrol.
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

bare 4 scatter_counts 500
tap_passed "scatter_counts on 4 ranks, bare"
SPARSESHIM_MIN_COUNT=500 SPARSESHIM_ALGORITHM=split_allgather preloaded 9 scatter_counts 500
tap_passed "scatter_counts on 1 to 9 ranks: MPI_Reduce_scatter with equal counts is served" $((8 * 9))
[ "$(passed_for buffer)" = $((8 * 4)) ] && [ "$(passed_for small)" = $((8 * 2)) ]
tap "$?" "... and passes through with unequal ones, and with few elements"

# Calls that are not counted find their way without the shim's own counters (shim/entry/served.c).
quick() {
    within 60 "$MPIRUN" -n "$1" -genv LD_PRELOAD "$LIB $YIELDS" -genv SPARSESHIM_REPORT off \
        -genv SPARSESHIM_MIN_COUNT "$2" -genv SPARSESHIM_ALGORITHM split_allgather \
        -genv SPARSESHIM_PROGRESS "$3" "$PROGRAMS/$4" "${@:5}"
    tap_passed "${*:4} on $1 ranks, MIN_COUNT=$2, PROGRESS=$3, no report"
}
quick 9 500 auto scatter_counts 500
quick 3 15000 auto kinds
quick 3 19000 thread kinds

# A list that is NULL is the MPI library's to judge (MPICH reads it).
cat >"$WORK/judge.c" <<'END'
#include <stddef.h>
int MPI_Allgatherv(const void *in, int n, int t, void *out, const int *counts, const int *displs,
                   int type, int comm) { return counts ? 1 : 77; }
int MPI_Reduce_scatter(const void *in, void *out, const int *counts, int type, int op, int comm)
{ return counts ? 1 : 78; }
END
cat >"$WORK/null.c" <<'END'
#include <mpi.h>
#include <stdio.h>
int main(int argc, char **argv)
{
    int in[9] = {0}, out[9], displs[9] = {0};
    MPI_Init(&argc, &argv);
    int gathered = MPI_Allgatherv(in, 1, MPI_INT, out, NULL, displs, MPI_INT, MPI_COMM_WORLD);
    int scattered = MPI_Reduce_scatter(in, out, NULL, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    printf("%d %d\n", gathered, scattered);
    return MPI_Finalize();
}
END
within 60 "${CC:-cc}" -w -shared -fPIC -o "$WORK/judge.so" "$WORK/judge.c" &&
    within 60 mpicc.mpich -o "$WORK/null" "$WORK/null.c" &&
    within 60 "$MPIRUN" -n 1 -genv LD_PRELOAD "$LIB $WORK/judge.so" "$WORK/null"
[ "$(cat "$WORK/out")" = "77 78" ]
tap "$?" "a list of counts that is NULL comes to the function that the program called"

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
