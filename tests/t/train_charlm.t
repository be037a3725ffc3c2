#!/usr/bin/env bash
# charlm itself: its gradient is the slope of its loss, and how it is reduced makes no difference, or in
# 16 bits a small one.
set -u
. tests/t/lib.sh

PROGRAMS=$BUILD/tests/apps
SHORT=(charlm --chars 100000 --steps 12 --progress 0)

bare 4 charlm --check-gradient
[ "$STATUS" -eq 0 ] && [ "$(grep -c '^gradient of ' "$WORK/out")" -eq 6 ]
tap "$?" "the gradient of every tensor agrees with differences of the loss"

# ends: held-out bits per character of the last run, if it came to its end with equal replicas
ends() {
    [ "$STATUS" -eq 0 ] && sed -n 's/^result: .*held_out_bpc=\([^ ]*\) .*replicas=identical.*/\1/p' "$WORK/out"
}

bare 4 "${SHORT[@]}"
flat=$(ends)
[ -n "$flat" ]
tap "$?" "one reduction of all: replicas identical"
for option in --layers --nonblocking --in-place; do
    bare 4 "${SHORT[@]}" "$option"
    echo "held out $(ends), with one reduction of all $flat" >>"$WORK/err"
    awk -v a="$(ends)" -v b="${flat:-0}" 'BEGIN { d = a - b; exit !(a > 0 && d < 1e-4 && d > -1e-4) }'
    tap "$?" "$option: replicas identical, the same training but for the order of additions"
done
for sums in alltoall16 operator16; do
    bare 4 "${SHORT[@]}" --sums "$sums"
    echo "held out $(ends), in 32 bits $flat" >>"$WORK/err"
    awk -v a="$(ends)" -v b="${flat:-0}" 'BEGIN { d = a - b; exit !(a > 0 && d != 0 && d < 0.01 && d > -0.01) }'
    tap "$?" "--sums $sums: replicas identical, nearly the same training"
done

use_flavour "$FLAVOUR" # the programs of tests/mpi
bare 9 half_sums
passed
tap "$?" "sums in 16 bits are right on 1 to 9 ranks, whatever the count"

finish
