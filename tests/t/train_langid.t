#!/usr/bin/env bash
# Top-k and quant with error feedback train as dense does: langid with logistic loss, whose gradient is far
# denser than what is sent of it, and with weight decay outside the gradient. Same options, seed
# and data for all runs.
set -u
. tests/t/lib.sh
. tests/t/train.sh

export SPARSESHIM_MODE=topk SPARSESHIM_REGISTER='*:calls=1' SPARSESHIM_DENSITY=0.01 SPARSESHIM_MIN_COUNT=1024
STEPS=141
RANKS=4
PROGRAMS=$BUILD/tests/apps
OPTIONS=(langid --loss logistic --l2 1e-6 --words 100000 --dim 16 --batch 512 --epochs 3
    --seed 1 --progress 0)

# How far the accuracy may lie below the dense one, in points of 5,000 held-out words. Seeds 1, 2
# and 3 lost 0.32, 0.16, 0.14 with split_allgather and 0.60, 0.52, 0.54 with oktopk, which keeps a
# hundredth of the sum rather than of each rank's part.
BAR=1

LIMIT=120 bare "$RANKS" "${OPTIONS[@]}"
trained dense
dense=$(value accuracy)

for algorithm in split_allgather oktopk; do
    SPARSESHIM_ALGORITHM=$algorithm LIMIT=120 preloaded "$RANKS" "${OPTIONS[@]}"
    trained "$algorithm"

    accuracy=$(value accuracy)
    echo "accuracy $accuracy, dense $dense, at most $BAR points less are allowed" >>"$WORK/err"
    awk -v a="${accuracy:-0}" -v d="${dense:-1}" -v bar="$BAR" \
        'BEGIN { exit !(d > 0.8 && a > d - bar / 100) }'
    tap "$?" "$algorithm: accuracy as with dense"

    read -r calls density own global < <(topk_calls)
    echo "$calls calls sent as top-k, density $density" >>"$WORK/err"
    awk -v calls="$calls" -v steps="$STEPS" -v density="$density" \
        'BEGIN { exit !(calls > 0.75 * steps && density > 0.005 && density < 0.02) }'
    tap "$?" "$algorithm: registered calls were sent as top-k, a hundredth of the gradient"
done

# Selections of the run with oktopk. Batches differ, and the kept thresholds follow them.
echo "mean |selected - k| / k: $own of a rank, $global of the sum, at most 0.11 each" >>"$WORK/err"
awk -v own="${own:-1}" -v global="${global:-1}" 'BEGIN { exit !(own <= 0.11 && global <= 0.11) }'
tap "$?" "oktopk: the selections of a rank and of the sum are k, give or take 11 % in the mean"

# Every element in few bits. Seeds 1, 2 and 3 lost 0.02, -0.02 and 0.00.
SPARSESHIM_MODE=quant SPARSESHIM_DENSITY=1 SPARSESHIM_ALGORITHM=quantized LIMIT=120 preloaded "$RANKS" "${OPTIONS[@]}"
trained quant
accuracy=$(value accuracy)
echo "accuracy $accuracy, dense $dense, at most 0.3 points less are allowed" >>"$WORK/err"
awk -v a="${accuracy:-0}" -v d="${dense:-1}" 'BEGIN { exit !(d > 0.8 && a > d - 0.003) }'
tap "$?" "quant: accuracy as with dense"
read -r calls density _ < <(topk_calls)
echo "$calls calls sent in few bits, density $density" >>"$WORK/err"
awk -v calls="$calls" -v steps="$STEPS" -v density="$density" \
    'BEGIN { exit !(calls > 0.75 * steps && density == 1) }'
tap "$?" "quant: registered calls were sent in few bits, all of their elements"

finish
