#!/usr/bin/env bash
# MODE=observe predicts the gain by top-k and by a lower MIN_COUNT. The report has the share of the
# job's time only if all calls were timed.
set -u
. tests/t/lib.sh

# column TABLE KEY: of the report's first row; "none" where there is none.
column() {
    cat "$WORK"/report/*.json 2>/dev/null | perl -MJSON::PP -e '
        my ($table, $key) = @ARGV;
        my $text = do { local $/; <STDIN> };
        my $rows = (eval { decode_json($text) } // {})->{$table};
        print $rows && @$rows ? $rows->[0]{$key} // "none" : "none", "\n"' "$1" "$2"
}

gradients() { # MIN_COUNT
    rm -rf "$WORK/report"
    within 60 env SPARSESHIM_MIN_COUNT="$1" "$MPIRUN" -n 2 -genv LD_PRELOAD "$LOADED $YIELDS" \
        "$BUILD/tests/gradients/positives" kept 40
}

export SPARSESHIM_MODE=observe

SPARSESHIM_DENSITY=0.05 gradients 1000
reported >"$WORK/out"
awk -v s="$(column lanes topk_density_sum)" -v n="$(column lanes topk_samples)" 'BEGIN { exit !(s / n > 0.049 && s / n < 0.051) }' &&
    grep -q '^ *1 .*[lL][oO][sS][sS][yY]' "$WORK/out"
tap "$?" "top-k at DENSITY is predicted, and called lossy"
[ "$(counter calls.sparse)" = 0 ] && [ "$(column lanes topk_samples)" -ge 3 ]
tap "$?" "from samples of calls that stay native"
[ "$(counter times.share_allreduce)" != none ] && [ "$(counter calls.not_timed)" = 0 ]
tap "$?" "blocking calls are timed, and their share of the job is told"

[[ $(counter summary.try_sums) == "5 of 5 call signatures are dense "* ]] &&
    [[ $(counter summary.try_quant) == "lossy, for gradients: "* ]] && [ "$(counter summary.try)" != none ] &&
    awk -v b="$(column lanes quant_bytes_sum)" 'BEGIN { exit !(b > 0) }'
tap "$?" "quant is predicted, and sentences say which sums are dense and what to do next"

gradients 1e6
calls=$(column small calls)
echo "calls $calls of MIN_COUNT $(column small min_count)" >>"$WORK/err"
[ "$calls" != none ] && [ "$calls" -ge 40 ] && [ "$(column small min_count)" -ge 512 ]
tap "$?" "a lower MIN_COUNT that would take the calls is named"

SPARSESHIM_PROGRESS=off preloaded 2 nb_layers --divide 256 --steps 1
passed && [ "$(counter times.share_allreduce)" = none ] && [ "$(counter calls.not_timed)" -ge 100 ]
tap "$?" "nonblocking calls that end in waits of the MPI library: their share of the job is not told"

# ---- predictions are per planned call ----

# predicts BYTES: of the calls that were taken over, only some are planned; the prediction for dense
# has the bytes of one call, within 5 %.
predicts() {
    local planned scans bytes
    planned=$(column lanes planned) scans=$(column lanes scans)
    bytes=$(cat "$WORK"/report/*.json | perl -MJSON::PP -e '
        my $lane = decode_json(do { local $/; <STDIN> })->{lanes}[0];
        print $lane->{predicted_bytes_sum}{dense} / $lane->{planned}')
    echo "planned $planned of $scans, dense predicted to send ${bytes:-none}" >>"$WORK/err"
    passed && [ "$planned" -ge 16 ] && [ "$planned" -lt 40 ] &&
        awk -v b="$bytes" -v e="$1" 'BEGIN { exit !(b > 0.95 * e && b < 1.05 * e) }'
}

export SPARSESHIM_MIN_COUNT=65536
SPARSESHIM_PROGRESS=watchdog preloaded 2 sums ia 100000 40
predicts 400000 && [ "$(column lanes scans)" -gt "$(column lanes planned)" ]
tap "$?" "dense is predicted at 400 kB for nonblocking sums of 400 kB, not at a share of it"
SPARSESHIM_PROGRESS=watchdog preloaded 3 sums ia 100000 40
predicts 533333
tap "$?" "so it is on 3 ranks"
preloaded 2 sums ar 100000 40
predicts 400000
tap "$?" "so it is for blocking sums"

preloaded 2 sums ia 100000 40
passed && [[ $(counter summary.try) == "no advice: no call was looked at"* ]] && [ "$(passed_for nonblocking)" = 40 ] &&
    grep -q '40 nonblocking calls passed through, .*: PROGRESS=watchdog or thread would ' "$WORK/err"
tap "$?" "nonblocking calls that observe does not see: no advice, and the setting that shows them"
finish
