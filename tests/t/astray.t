#!/usr/bin/env bash
# Where rules make gradients lossy, none leaves a trace in another, and all ranks hold the same bits.
set -u
. tests/t/lib.sh

PROGRAMS=$BUILD/tests/gradients
export SPARSESHIM_MODE=topk SPARSESHIM_MIN_COUNT=1000 SPARSESHIM_ALGORITHM=split_allgather
unset SPARSESHIM_REPORT

# Whatever the counts of the layers, which all go through one buffer: with their calls per step in the
# rules nothing comes from one into another.
steady() { # RANKS SEED
    SPARSESHIM_REGISTER=$("$PROGRAMS/astray" "$2" rules) preloaded "$1" astray "$2" steady
    tap_passed "layers of random counts, seed $2, $1 ranks: $(sed -n 's/^# layers/layers/p' "$WORK/out")" 40
}
for seed in 3 5 8 29 42 128 201 210; do
    steady 2 "$seed"
done
steady 3 334

# Calls of a step made all at once overlap: those of equal layers are told apart by that.
for seed in 6 11 14 36 52 55; do
    SPARSESHIM_REGISTER='*' preloaded 2 astray "$seed" steady 90 at_once
    tap_passed "calls made at once, seed $seed: $(sed -n 's/^# layers/layers/p' "$WORK/out")" 40
done
SPARSESHIM_REGISTER='*' preloaded 3 astray 58 steady 90 at_once
tap_passed "calls made at once on 3 ranks: $(sed -n 's/^# layers/layers/p' "$WORK/out")" 40

# Layers that are frozen, steps cut short: each with its own buffer, which nothing else uses.
for seed in 36 47; do
    SPARSESHIM_REGISTER='*' preloaded 2 astray "$seed" told 90 at_once
    tap_passed "a stack that changes, seed $seed: $(sed -n 's/^# layers/layers/p' "$WORK/out")" 40
done

# Through one buffer nothing tells the layers apart.
for seed in 24 36; do
    SPARSESHIM_REGISTER='*' preloaded 2 astray "$seed" told 90
    grep -q 'sparse 0 of .*, astray 0 ' "$WORK/out" && grep -q "calls are exact, as .*':calls=N'" "$WORK/err"
    tap "$?" "layers of one count through one buffer, seed $seed: exact, and a line names calls="
done

# From which step on a rule holds, whatever else is summed between.
while read -r program dense rule; do
    SPARSESHIM_REGISTER=$rule preloaded 2 positives "$program" 40
    passed && grep -q "found after $dense steps" "$WORK/out"
    tap "$?" "$program, by a rule: $dense dense steps"
done <<'END'
kept 2 *
single 2 *:calls=1
alone 2 *:calls=1
END

# With calls= where the buffers lie, on all ranks or on one, changes no bit of a result; and oktopk, whose parts
# and thresholds all ranks share, does not find them anew for it. Under oktopk calls that are not
# registered yet go as auto finds best, which must not be measured here.
export SPARSESHIM_REPRODUCIBLE=on
for algorithm in recursive_doubling split_allgather oktopk; do
    export SPARSESHIM_ALGORITHM=$algorithm SPARSESHIM_REGISTER='*:calls=1'
    for mode in one_set one_rank_in_turn two_sets; do
        preloaded 3 positives $mode
        now=$(sed -n 's/^# bits //p' "$WORK/out")
        [ "$algorithm" != oktopk ] || now="$now, $(counter bytes.bytes_sent) bytes sent"
        [ "$mode" != one_set ] || first=$now
        passed && [ "$now" = "$first" ]
        tap "$?" "$algorithm, $mode: as with one set of buffers: $now"
    done
done
finish
