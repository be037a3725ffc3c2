#!/usr/bin/env bash
# Partial allreduces of gradients that come and go: steps that change, gradients taken back,
# communicators freed; and what the report says of partial calls.
set -u
. tests/t/lib.sh

export SPARSESHIM_MODE=topk SPARSESHIM_REGISTER='count=1500:2999:calls=1' SPARSESHIM_MIN_COUNT=1000
export SPARSESHIM_DENSITY=0.1 SPARSESHIM_ALGORITHM=allgather SPARSESHIM_TEST=identity_steps=1,quorum_period=16
export SPARSESHIM_QUORUM=solo LIMIT=60

at_one_place # gradients are named by their buffers
for ranks in 2 3; do
    preloaded "$ranks" quorum_edges pattern
    passed
    tap $? "$ranks ranks: steps that change lose nothing"
    preloaded "$ranks" quorum_edges withdraw
    passed
    tap $? "$ranks ranks: a gradient that is taken back becomes exact, at a call with all ranks"
done

# Values that tests force must be equal on all ranks, or rounds and votes would wait for each other.
within 60 "$MPIRUN" -genv LD_PRELOAD "$LOADED $YIELDS" -n 1 -env SPARSESHIM_TEST identity_steps=1,quorum_period=5 \
    "$PROGRAMS/quorum_edges" pattern : -n 1 "$PROGRAMS/quorum_edges" pattern
[ "$STATUS" -ne 124 ] && grep -q 'SPARSESHIM_TEST (set otherwise on rank 0) must be equal on all ranks' "$WORK/err"
tap $? "a value of SPARSESHIM_TEST that differs on a rank is named, and no call waits"

# A communicator that was freed keeps none of the 64, and its gradients are in the report.
SPARSESHIM_DEBUG=info PRELOAD="$LIB $PROGRAMS/nothread.so" preloaded 2 quorum_edges freed
passed
tap $? "communicators freed under QUORUM"
tap "$(grep -c "QUORUM is off" "$WORK/err")" "and each of them had its rounds"

# Partial calls are not looked at as a whole: they count in no density. Their collective and their
# bytes are those of the rounds, also of a rank that is late in all of them: it sends what the others do.
SPARSESHIM_TEST=identity_steps=1 SPARSESHIM_ALGORITHM=recursive_doubling SPARSESHIM_ALPHA=1us SPARSESHIM_BETA=1e-9 \
    within 60 "$MPIRUN" -n 2 -genv SPARSESHIM_REPORT all -genv LD_PRELOAD "$LOADED $YIELDS" \
    "$PROGRAMS/late_ranks" late=one steps=40 quiet=0
perl -MJSON::PP -e '
    for my $file (@ARGV) {
        open my $f, "<", $file or die $!;
        my $job = decode_json(join "", <$f>);
        my ($lane) = grep { $_->{count} == 2000 } @{$job->{lanes}};
        push @density, $lane->{density_mean};
        push @sent, $lane->{bytes_sent};
        $others += keys(%{$lane->{sparse}}) != 1 || !$lane->{sparse}{recursive_doubling};
    }
    ($least, $most) = sort { $a <=> $b } @sent;
    exit !(@sent == 2 && !$others && $least * 2 > $most && !grep { $_ < 0.05 || $_ > 0.2 } @density)' \
    "$WORK"/report/*.json
tap $? "the report has collective, density and bytes of partial calls, of a late rank, too"

finish
