#!/usr/bin/env bash
# Fortran through all three interfaces: the calls are seen and made sparse.
set -u
. tests/t/lib.sh

for program in ftn_mpif ftn_mpi ftn_f08; do
    for ranks in 2 3; do
        bare "$ranks" "$program"
        tap_passed "$program on $ranks ranks, bare"
        SPARSESHIM_ALGORITHM=split_allgather preloaded "$ranks" "$program"
        # 3 steps of 3 types, with and without MPI_IN_PLACE; the first call of all is delegated.
        tap_passed "$program on $ranks ranks, preloaded" 17
    done
    types=$(perl -MJSON::PP -e '
        local $/; my $report = decode_json(<STDIN>); my %seen;
        $seen{$_->{type}} += ($_->{sparse}{split_allgather} || 0) for @{$report->{lanes}};
        print join(" ", map { "$_=$seen{$_}" } sort grep { $seen{$_} } keys %seen)' \
        <"$(echo "$WORK"/report/*.json)")
    echo "$types" >"$WORK/out"
    [[ $types == *double=* && $types == *float=* && $types == *int*=* ]]
    tap "$?" "$program: floats, doubles and integers were made sparse"
done
SPARSESHIM_ALGORITHM=split_allgather preloaded 3 ftn_kinds
tap_passed "ftn_kinds on 3 ranks: all collectives" 30
[ "$(counter calls.seen)" = 121 ]
tap "$?" "ftn_kinds: every call is seen, once"
finish
