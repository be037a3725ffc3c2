#!/usr/bin/env bash
# Nonblocking calls below MIN_COUNT go with larger ones where MERGE is on and a rule of REGISTER names
# their count, and nowhere else.
set -u
export SPARSESHIM_MIN_COUNT=1000
. tests/t/lib.sh

export SPARSESHIM_MODE=topk SPARSESHIM_GUARD=off SPARSESHIM_DENSITY=1 \
    SPARSESHIM_ALGORITHM=allgather SPARSESHIM_REPRODUCIBLE=on SPARSESHIM_TEST=identity_steps=1,threshold_period=1
SMALL=small
STEPS=10

noted() { # WORD: a remark of the program
    sed -n "s/^# $1 //p" "$WORK/out"
}

declare -A BITS
for steps in 10 80; do
    bare 3 nb_small --steps "$steps"
    tap_passed "nb_small on 3 ranks, $steps steps, bare"
    [ "$(noted whole)" -eq $((3 * steps)) ] && BITS[$steps]=$(noted bits)
    tap "$?" "its small sums are whole"
done

# tap_small NAME TAKEN SMALL WHOLE: of the calls of a step so many were taken over, so many passed for
# their size, and of those that a rule may name so many are whole sums. No other has other bits.
tap_small() {
    local result=0 got
    passed || result=1
    got="$(counter calls.nonblocking) $(passed_for "$SMALL") $(noted whole)"
    if [ "$got" != "$(($2 * STEPS)) $(($3 * STEPS)) $(($4 * STEPS))" ] ||
        [ "$(noted bits)" != "${BITS[$STEPS]}" ]; then
        echo "taken, small, whole: $got; bits $(noted bits), bare ${BITS[$STEPS]}" >>"$WORK/err"
        result=1
    fi
    tap "$result" "$1"
}

# RULES, each with calls=1: what a rule takes is lossy from its second call on.
lossy() {
    printf '%s' "$1" | sed 's/;/:calls=1;/g; s/$/:calls=1/'
}

# small RULES TAKEN SMALL WHOLE [NAME]
small() {
    SPARSESHIM_REGISTER=$(lossy "$1") preloaded 3 nb_small --steps "$STEPS"
    tap_small "MERGE=${SPARSESHIM_MERGE:-off}, REGISTER=$1${5:+, $5}" "$2" "$3" "$4"
}

small 'count=77; count=1000:' 3 6 3
export SPARSESHIM_MERGE=1G
small 'count=1000:' 3 6 3
small '*' 3 6 3
small 'site=*; type=float; count=1000:' 3 6 3
small 'count=78:98; count=1000:' 3 6 3 "no count between the ends"
small 'count=77; count=1000:' 5 4 3
small 'count=77,type=double; count=1000:' 3 6 3
small 'count=70:100; count=1000:' 6 3 3
small 'count=70:100:density=0.02; *' 6 3 0 "which is lossy"
small 'count=99:density=0.02; count=77,comm=MPI_COMM_*:density=0.02; count=1000:' 6 3 1 \
    "which is lossy on one communicator"
SPARSESHIM_MERGE=4000 small '*; count=60:90' 5 4 3
SPARSESHIM_MERGE=auto STEPS=80 small 'count=70:100:density=0.02; *' 6 3 0
SPARSESHIM_PROGRESS=thread small 'count=70:100; *' 6 3 3 PROGRESS=thread
SPARSESHIM_EXCLUDE=count=77 small 'count=70:100:density=0.02; *' 6 3 2 "77 excluded"
[ "$(tensors count=77 state=exact)" -gt 0 ] && [ "$(tensors count=99 state=registered)" -gt 0 ]
tap "$?" "what EXCLUDE names is kept exact with them"

printf 'register = %s\n' "$(lossy 'count=77:density=0.02; count=1000:')" >"$WORK/rules.conf"
SPARSESHIM_CONFIG=$WORK/rules.conf preloaded 3 nb_small --steps "$STEPS"
tap_small "rules of a file of CONFIG" 5 4 1

# Without a report small calls are not counted: another way through the library.
unreported() { # RULES WHOLE
    SPARSESHIM_REGISTER=$(lossy "$1") within 60 "$MPIRUN" -n 3 -genv LD_PRELOAD "$LOADED $YIELDS" -genv SPARSESHIM_REPORT off \
        "$PROGRAMS/nb_small" --steps "$STEPS"
    passed && [ "$(noted whole)" -eq $(($2 * STEPS)) ] && [ "$(noted bits)" = "${BITS[$STEPS]}" ]
    tap "$?" "without a report, MERGE=${SPARSESHIM_MERGE:-off}, REGISTER=$1"
}
unreported 'count=70:90:density=0.02; *' 1
unreported 'count=:1:density=0.02; *' 3
SPARSESHIM_MERGE=off unreported 'count=70:90:density=0.02; *' 3

# ---- where nothing is taken over, or ranks differ ----

SPARSESHIM_REGISTER=$(lossy 'count=77:density=0.02; count=500; count=1000:')
export SPARSESHIM_REGISTER
preloaded 3 nb_small --steps "$STEPS" --operator 1
[ "$(noted whole)" -eq $((3 * STEPS)) ] && [ "$(noted bits)" = "${BITS[$STEPS]}" ] || STATUS=1
tap_taken_none "none where a rank has an operator of its own"
differing() { # NAME VALUE: of the last rank
    within 60 "$MPIRUN" -genv LD_PRELOAD "$LOADED $YIELDS" -n 2 "$PROGRAMS/nb_small" --steps "$STEPS" : \
        -n 1 -env "$1" "$2" "$PROGRAMS/nb_small" --steps "$STEPS"
    grep -q "$1 .*must be equal on all ranks and is not" "$WORK/err" || STATUS=1
    tap_small "none where $1 differs" 3 6 3
}
differing SPARSESHIM_REGISTER 'count=1000::calls=1'

# ---- rules that are not met ----

preloaded 3 nb_small --steps "$STEPS"
grep -qF "no call of rank 0 matched 'count=500:calls=1' (MIN_COUNT=1000 leaves so small calls alone, but for nonblocking ones among larger ones)" \
    "$WORK/err"
tap "$?" "a small count that no call had is named, and which ones would do"
SPARSESHIM_MERGE=off preloaded 3 nb_small --steps "$STEPS"
grep -qF "no call of rank 0 matched 'count=77:density=0.02:calls=1' (MIN_COUNT=1000 leaves so small calls alone), 'count=500:calls=1' (MIN" \
    "$WORK/err"
tap "$?" "without MERGE all small ones are"
# Calls posted at once, none of them blocking: the ranks meet while small ones follow, and one of them
# has another rule.
for rule in 'count=1000:' 'count=1:500;count=1000:'; do
    # shellcheck disable=SC2016
    SPARSESHIM_MIN_COUNT=1000 SPARSESHIM_MERGE=1G within 60 "$MPIRUN" -n 3 sh -c '
        SPARSESHIM_REGISTER="count=1:500;count=1000::calls=1"
        [ "$PMI_RANK" != 1 ] || SPARSESHIM_REGISTER=$1:calls=1
        export SPARSESHIM_REGISTER
        LD_PRELOAD=$2 exec "$3" --steps 2' sh "$rule" "$LOADED $YIELDS" "$PROGRAMS/nb_beside"
    tap_passed "nonblocking calls alone, REGISTER=$rule on one rank"
done
finish
