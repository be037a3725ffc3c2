# shellcheck shell=bash
# What the tests of trainings share. Sourced after lib.sh; STEPS is how many a run makes.

# value KEY, from the line of results
value() {
    sed -n "s/^result: .*\<$1=\([^ ]*\).*/\1/p" "$WORK/out"
}

# trained NAME: the run came to its end, and its replicas are the same bit for bit.
trained() {
    [ "$STATUS" -eq 0 ] && [ "$(value replicas)" = identical ] && [ "$(value steps)" = "$STEPS" ]
    tap "$?" "$1: $STEPS steps, replicas identical"
}

# topk_calls: calls of registered tensors that were sent as top-k, the mean density selected, and
# the mean |selected - k| / k of a rank and of the sum of the first of them, by the report.
topk_calls() {
    cat "$WORK"/report/*.json 2>/dev/null | perl -MJSON::PP -e '
        my $report = eval { local $/; decode_json(<STDIN>) } || {};
        my @registered = grep { $_->{state} eq "registered" } @{$report->{tensors} || []};
        my ($calls, $density) = (0, 0);
        for (@registered) {
            $calls += $_->{topk_calls};
            $density += $_->{density_sum};
        }
        printf "%d %.6f %.4f %.4f\n", $calls, $calls ? $density / $calls : 0,
            map { $registered[0]{$_} // 1 } qw(off global_off)'
}
