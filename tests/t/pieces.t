#!/usr/bin/env bash
# Programs that sum in pieces. A map is summed in place and stays the same; a gradient in equal pieces
# from one scratch buffer has a residual for each piece, if the rule says calls=N.
set -u
SPARSESHIM_MIN_COUNT=4096
. tests/t/lib.sh
. tests/t/train.sh
PROGRAMS=$BUILD/tests/apps
FOLDER=/usr/share/datasets/fashion-mnist
export SPARSESHIM_ALGORITHM=split_allgather
MAP=(mapmaking --rows 128 --readings 4000 --baseline 100 --iterations 5 --piece 10000)

LIMIT=60 bare 3 "${MAP[@]}"
error=$(value error)
LIMIT=60 preloaded 3 "${MAP[@]}"
[ "$STATUS" -eq 0 ] && [ -n "$error" ] && [ "$(value error)" = "$error" ] && [ "$(value replicas)" = identical ] &&
    [ "$(sed -n 's/^ *calls .* seen: \([0-9]*\) made sparse.*/\1/p' "$WORK/err")" -gt 20 ]
tap "$?" "a map summed in pieces, in place: the same map, by sparse sums"

if [ -e "$FOLDER/train-images-idx3-ubyte.gz" ]; then
    export SPARSESHIM_MODE=topk SPARSESHIM_REGISTER=count=4096:calls=4
    STEPS=20
    LIMIT=60 preloaded 2 fmnist --epochs 2 --hidden 16 --limit 640 --batch 64 --piece 4096 --progress 0
    trained "a gradient in 4 equal pieces from one buffer"
    grep -q '^  lossy *4 of 4 tensors registered' "$WORK/err"
    tap "$?" "... with calls=4 each piece has a residual of its own"
else
    skip "a gradient in pieces" "$FOLDER is missing; Debian's package is dataset-fashion-mnist"
fi
finish
