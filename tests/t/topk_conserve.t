#!/usr/bin/env bash
# No gradient is lost: what goes in comes out, for every number of ranks, collective, value type
# and pattern, whatever the norms do (steps, drifts, log-normal) and with Inf and NaN in between,
# all other options at their defaults. TOPK_FULL=1 runs all combinations on 1 to 9 ranks (some
# hours), TOPK_FULL="2 3" those of 2 and 3 ranks; else every collective, value type, density, form
# and number of ranks comes up, and what it comes up with takes turns.
set -u
. tests/t/lib.sh

export SPARSESHIM_MODE=topk

mapfile -t ALGORITHMS < <(echo auto && algorithms EXACT && algorithms GLOBAL)
VALUES=(same bf16 q8 q4 q2)
TYPES=(float double both)
PLACES=(out in turns)
DENSITIES=(0.05 4/64 0.1 16/128)
PATTERNS=("heavy,opposite,magnitudes" "sparse,equal,cancelling" "region,heavy,magnitudes")
EVERY=heavy,sparse,equal,region,opposite,magnitudes,cancelling

# forms_of ALGORITHM VALUES: what sums are promised to the last bit. Full width and bf16 lose no bit
# of integers times powers of two; q2 none of those with one power of two, as a value becomes the
# largest of its bucket or zero. A seventh of the largest is no such number: eight and four bits are
# held to the bound. So is auto, which may send a residual in a dense call, a sixteenth at a time.
forms_of() {
    case $1,$2 in
    auto,*) echo fractions:eps scaled:eps ;;
    *,same | *,bf16) echo scaled:exact fractions:eps ;;
    *,q2) echo whole:exact fractions:eps ;;
    *) echo fractions:eps whole:eps ;;
    esac
}

# conserve RANKS ALGORITHM VALUES DENSITY FORM:BOUND ARGUMENT...
conserve() {
    local ranks=$1 algorithm=$2 values=$3 density=$4 form=$5 least=40
    local -a setting=(SPARSESHIM_ALGORITHM="$algorithm" SPARSESHIM_DENSITY="$density"
        SPARSESHIM_REGISTER='*:calls=1' SPARSESHIM_TEST=identity_steps=1)
    # With measured costs every call may be dense, and what is held back then takes long to drain.
    [ "$algorithm" = auto ] && setting+=(SPARSESHIM_ALPHA=1e-6 SPARSESHIM_BETA=1e-8)
    [ "$values" = same ] || setting+=(SPARSESHIM_VALUE_TYPE="$values")
    shift 5
    local lossy=yes comm=same
    # auto may find dense the fastest.
    [ "$ranks" -eq 1 ] || [ "$algorithm" = auto ] && least=0 && lossy=no
    [ "$algorithm" != quantized ] || lossy=no
    [ "${form#*:}" = exact ] || comm=fresh
    local -a arguments=(form="${form%:*}" bound="${form#*:}" lossy="$lossy" comm="$comm" "$@")
    within "${LIMIT:-60}" "$MPIRUN" -n "$ranks" env "${setting[@]}" LD_PRELOAD="$LOADED $YIELDS" \
        "$PROGRAMS/conserve" "${arguments[@]}"
    tap_passed "$ranks ranks, ${setting[*]//SPARSESHIM_/}: ${arguments[*]}" "$least"
}

# Of every form, over all patterns: a share of all and of buckets, float and double in turn. With
# values of few bits what cancels between nine ranks kept the last of the rest back for 600 calls.
every_combination() {
    local ranks algorithm values form
    local -x SPARSESHIM_TEST=identity_steps=1,threshold_period=8
    local -a brief=(type=both n=1801 steps=12 quiet=300 limit=20000)
    for ranks in $RANKS; do
        for algorithm in "${ALGORITHMS[@]}"; do
            for values in "${VALUES[@]}"; do
                for form in $(forms_of "$algorithm" "$values"); do
                    conserve "$ranks" "$algorithm" "$values" 0.05 "$form" tensors=2 "${brief[@]}"
                    conserve "$ranks" "$algorithm" "$values" 4/64 "$form" tensors=3 place=turns \
                        "${brief[@]}"
                done
            done
        done
    done
}

# whole RANKS VALUES ARGUMENT...: MODE=quant, in which every element is sent at once.
whole() {
    local -x SPARSESHIM_MODE=quant SPARSESHIM_TEST=identity_steps=1
    conserve "$1" quantized "$2" 1 fractions:eps steps=12 quiet=24 "${@:3}"
}

# Here as there, thresholds are kept for 8 calls: a residual shows itself within as many, so that
# silence is short. Every collective on 2 to 4 ranks in turn, all patterns; on more ranks one.
in_turn() {
    local ranks turn=0 a values form patterns tensors
    local -a forms some=(heavy magnitudes cancelling)
    local -x SPARSESHIM_TEST=identity_steps=1,threshold_period=8
    for ranks in 2 3 4 5 6 7 8 9; do
        for a in "${!ALGORITHMS[@]}"; do
            [ "$ranks" -le 4 ] && [ $(((ranks + a) % 3)) -gt 0 ] && continue
            [ "$ranks" -gt 4 ] && [ $(((3 * ranks + a) % 8)) -gt 0 ] && continue
            turn=$((turn + 1))
            values=${VALUES[$((turn % ${#VALUES[@]}))]}
            read -ra forms <<<"$(forms_of "${ALGORITHMS[$a]}" "$values")"
            form=${forms[$((turn / 2 % ${#forms[@]}))]}
            patterns=$EVERY tensors=$((1 + turn % 2))
            [ "$ranks" -gt 3 ] && patterns=${PATTERNS[$((turn % 3))]}
            [ "$ranks" -gt 4 ] && patterns=${some[$((turn % 3))]} tensors=1
            conserve "$ranks" "${ALGORITHMS[$a]}" "$values" \
                "${DENSITIES[$((turn % ${#DENSITIES[@]}))]}" "$form" place="${PLACES[$((turn % 3))]}" \
                type="${TYPES[$((turn % 3))]}" tensors="$tensors" \
                n=1801 steps=12 quiet=24 pattern="$patterns"
        done
    done
    turn=0
    for ranks in 2 3 4 5 7 9; do
        turn=$((turn + 1))
        whole "$ranks" "${VALUES[$((1 + turn % 4))]}" type="${TYPES[$((turn % 3))]}" \
            place="${PLACES[$((turn / 2 % 3))]}" n=1801 tensors=2 pattern="$EVERY"
    done
    whole 5 q4 type=both n=2 pattern=heavy,opposite # ranks without a part
    for values in bf16 q4; do
        read -ra forms <<<"$(forms_of split_allgather "$values")"
        conserve 2 split_allgather "$values" 0.1 "${forms[0]}" type=both tensors=2 n=1801 \
            steps=12 quiet=24 pattern="$EVERY"
    done
}

# What cancels between ranks, and is larger than the rest, does not keep the rest from being sent.
MASKED=(auto oktopk)
[ "${TOPK_FULL:-0}" = 0 ] || MASKED=("${ALGORITHMS[@]}")
for algorithm in "${MASKED[@]}"; do
    SPARSESHIM_TEST=identity_steps=1,threshold_period=8 conserve 2 "$algorithm" same 0.05 "$(
        [ "$algorithm" = auto ] && echo scaled:eps || echo scaled:exact
    )" pattern=masked n=1801 steps=12 quiet=24
done

# Among equal elements those sent are never the same twice in a row.
conserve 2 ring same 0.1 scaled:exact pattern=equal n=8192 quiet=34

# Thresholds kept for the default of 32 calls, for ever, and for one; warm-up.
conserve 2 ring same 0.05 scaled:exact quiet=34 pattern=heavy,sparse
SPARSESHIM_TEST=identity_steps=1,threshold_period=1 conserve 2 recursive_doubling same 0.05 scaled:exact quiet=2 pattern=heavy,opposite
SPARSESHIM_TEST=identity_steps=1,threshold_period=1000 conserve 2 recursive_doubling same 0.05 scaled:exact quiet=10 pattern=heavy,region
SPARSESHIM_WARMUP_STEPS=10 conserve 2 allgather same 0.05 scaled:exact pattern=heavy quiet=34

# Without calls=N the return of the buffers shows the step.
SPARSESHIM_REGISTER='*' SPARSESHIM_DENSITY=0.05 SPARSESHIM_ALGORITHM=ring preloaded 3 conserve \
    pattern=heavy steps=50 tensors=3 quiet=34 n=1801 form=fractions bound=eps lossy=yes place=turns
tap_passed "registered by the return of the buffers" 100
tap "$(($(tensors state=registered) != 3))" "all three tensors are registered"

# Same input, same output: with the collective forced, and with the costs given.
bits() {
    sed -n 's/^# bits //p' "$WORK/out"
}
turn=0
REPEATED=(auto oktopk)
[ "${TOPK_FULL:-0}" = 0 ] || REPEATED=("${ALGORITHMS[@]}")
for algorithm in "${REPEATED[@]}"; do
    turn=$((turn + 1))
    values=${VALUES[$((turn % ${#VALUES[@]}))]}
    conserve $((2 + turn % 2)) "$algorithm" "$values" 0.05 fractions:eps \
        pattern=heavy n=1801 quiet=8
    once=$(bits)
    conserve $((2 + turn % 2)) "$algorithm" "$values" 0.05 fractions:eps \
        pattern=heavy n=1801 quiet=8
    [ -n "$once" ] && [ "$(bits)" = "$once" ]
    tap "$?" "$algorithm, VALUE_TYPE=$values: two runs give the same bits"
done
case ${TOPK_FULL:-0} in
0) in_turn ;;
*)
    LIMIT=300
    RANKS=$TOPK_FULL
    if [ "$RANKS" = 1 ]; then RANKS='1 2 3 4 5 6 7 8 9'; fi
    every_combination
    ;;
esac
# What goes with a freed communicator is told where the program makes them anew, and only there.
export SPARSESHIM_DENSITY=0.05 SPARSESHIM_ALGORITHM=split_allgather
for comms in 1 2 4; do
    SPARSESHIM_REGISTER='*:calls=1' preloaded 2 freed "$comms"
    told=$(grep -c 'was freed with residuals of norm [1-9]' "$WORK/err")
    tap "$((STATUS != 0 || told != (comms > 1)))" \
        "$comms communicators freed one after the other: $told times told what is lost with them"
done
SPARSESHIM_REGISTER='' preloaded 2 freed 3
tap "$((STATUS != 0 || $(grep -c 'was freed' "$WORK/err") != 0))" \
    'communicators freed without lossy calls: nothing is told'
finish
