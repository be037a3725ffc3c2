#!/usr/bin/env bash
# README's first command, on this machine alone and with few words: both trainings end, and each row of
# the tables comes from its own run.
set -u
. tests/t/lib.sh

if [ ! -e /usr/share/datasets/fashion-mnist/train-images-idx3-ubyte.gz ]; then
    skip "make demo" "dataset-fashion-mnist is not installed"
    finish
    exit
fi
# The costs of 100 Mbit/s choose the algorithms.
export SPARSESHIM_ALPHA=1e-4 SPARSESHIM_BETA=8e-8
DEMO=loopback within 400 scripts/demo --words 200000
[ "$STATUS" -eq 0 ]
tap "$?" "make demo ends well" || sed 's/^/# /' "$WORK/err" "$WORK/out"
# row TITLE: its numbers.
row() {
    grep -F "  $1 " "$WORK/out" | tail -1 | sed "s/.*$1//; s/ x//g"
}
read -r dense quant topk _ < <(row 'bytes sent per rank, MB')
awk -v d="$dense" -v q="$quant" -v t="$topk" 'BEGIN { exit !(t > 0 && t * 2 < q && q * 2 < d) }'
tap "$?" "bytes of dense, quant and top-k: $dense, $quant, $topk"
read -r dense quant topk < <(row 'training loss')
[ "$dense" != "$quant" ] && [ "$quant" != "$topk" ]
tap "$?" "three losses: $dense, $quant, $topk"
finish
