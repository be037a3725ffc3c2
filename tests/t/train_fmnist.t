#!/usr/bin/env bash
# Top-k with error feedback trains as dense does: one epoch of a network of 203,530 weights on
# Fashion-MNIST, SGD with momentum after the allreduce. Same options, seed and data for both runs.
# With 128 hidden units top-k loses up to 2.05 points in three seeds, too much for a bar that a run
# without residuals misses; with 1,024 both runs take four times as long.
set -u
SPARSESHIM_MIN_COUNT=65536
. tests/t/lib.sh
. tests/t/train.sh

PROGRAMS=$BUILD/tests/apps
FOLDER=/usr/share/datasets/fashion-mnist
STEPS=469
OPTIONS=(fmnist --epochs 1 --hidden 256 --batch 128 --lr 0.02 --seed 1 --progress 0)

# How far the accuracy may lie below the dense one, in points of 10,000 test images. Seeds 1, 2 and
# 3 lost 0.72, 1.28 and 0.79 from 85.14, 85.57 and 85.48. Without residuals seed 1 loses 2.7.
BAR=2

if [ ! -e "$FOLDER/train-images-idx3-ubyte.gz" ]; then
    skip "fmnist" "$FOLDER is missing; Debian's package is dataset-fashion-mnist"
    finish
    exit 0
fi

LIMIT=240 bare 4 "${OPTIONS[@]}"
trained dense
dense=$(value accuracy)

export SPARSESHIM_MODE=topk SPARSESHIM_REGISTER='*:calls=1' SPARSESHIM_DENSITY=8/512 SPARSESHIM_ALGORITHM=split_allgather
LIMIT=240 preloaded 4 "${OPTIONS[@]}"
trained "top 8 of every 512"

accuracy=$(value accuracy)
echo "accuracy $accuracy, dense $dense, at most $BAR points less are allowed" >>"$WORK/err"
awk -v a="${accuracy:-0}" -v d="${dense:-1}" -v bar="$BAR" \
    'BEGIN { exit !(d > 0.84 && a > d - bar / 100) }'
tap "$?" "top 8 of every 512: accuracy as with dense"

# What is selected is 8/512 = 0.0156 of the elements; all calls but the first few are registered.
read -r calls density _ < <(topk_calls)
echo "$calls calls sent as top-k, density $density" >>"$WORK/err"
awk -v calls="$calls" -v steps="$STEPS" -v density="$density" \
    'BEGIN { exit !(calls > 0.9 * steps && density > 0.014 && density < 0.017) }'
tap "$?" "top 8 of every 512: registered calls were sent as top-k, a sixty-fourth of the gradient"

finish
