#!/usr/bin/env bash
# scripts/trainings: what it plans, runs, keeps, repeats and refuses, on short trainings; and the one
# option parser of the training programs (tests/apps/app.h).
set -u
. tests/t/lib.sh
python_without_shim

# A build folder of its own, so that no finished run of another is met or forgotten.
mkdir "$WORK/build"
ln -s "$LIB" "$BUILD/tests" "$WORK/build"
KEPT=$WORK/build/trainings/quick/runs
SHORT=(--quick --only c --parts bar --settings 0.01)

trainings() {
    BUILD=$WORK/build MPIRUN=$MPIRUN within "${LIMIT:-120}" scripts/trainings "$@"
}

# ended STATUS PATTERN...: how it ended, and what its output or its errors have in a line each.
ended() {
    local pattern
    [ "$STATUS" -eq "$1" ] || return 1
    for pattern in "${@:2}"; do
        cat "$WORK/out" "$WORK/err" | grep -q -- "$pattern" && continue
        echo "lacks: $pattern" >>"$WORK/err"
        return 1
    done
}

# runs STATUS NUMBER: so many runs were begun.
runs() {
    local begun
    begun=$(grep -c '^\[' "$WORK/out")
    echo "$begun runs begun, expected $2" >>"$WORK/err"
    [ "$STATUS" -eq "$1" ] && [ "$begun" -eq "$2" ]
}

# Whether a program of this test runs, or what has started it.
at_work() {
    grep -lsz -- "^$WORK/build/tests/apps/" /proc/[0-9]*/cmdline >"$WORK/at_work"
}

# ended_all: within 10 s none does.
ended_all() {
    local i
    for ((i = 0; i < 100; i++)); do
        at_work || return 0
        sleep 0.1
    done
    return 1
}

# --- plans ---

trainings --plan
planned=$(grep -c 's  \(fmnist\|charlm\|langid\|gpt\), ' "$WORK/out")
expected=$((3 * 41 + 44)) # and on networks 9 and 3 each, and 16 of gpt
[ "$EUID" -ne 0 ] || expected=$((expected + 3 * 12 + 16))
echo "$planned runs planned, expected $expected" >>"$WORK/err"
ended 0 "^$expected runs, 0 of them finished before; the others take about [0-9:]* " \
    '^ *180 s  fmnist, 4 ranks, 8/512q4, seed 3, this machine' \
    '^ *50 s  langid, 8 ranks, 0.01, seed 1, this machine' \
    '^ *300 s  gpt, 4 ranks, dense+bf16, seed 3, this machine' \
    '^ *300 s  gpt, 4 ranks, 0.1+local10, seed 1, this machine' && [ "$planned" -eq "$expected" ]
tap "$?" "the plan of the default lists every run and its time"

[ ! -e "$WORK/build/trainings/runs" ]
tap "$?" "a plan runs nothing"

# --- what is not allowed ---

while read -r option value allowed; do
    trainings "$option" "$value"
    ended 2 "argument $option: '$value' is .*$allowed"
    tap "$?" "$option $value: the error names option, value and what is allowed"
done <<'OPTIONS'
--seeds 0 a whole number from 1 to 99
--ranks many a whole number from 1 to 64
--only e none of a, b, c, d
--parts foo none of bar, controls, xi, shown, wide, gpt, remedies, time, gigabit
--settings 2.5 none of K/B, K/BqN, a density up to 1
--deadline 1.5 a whole number from 1 to
OPTIONS
trainings --plans
ended 2 'unrecognized arguments: --plans'
tap "$?" "an option that there is not is refused"

# --- a run, and what it leaves ---

trainings "${SHORT[@]}"
runs 0 2 && ended 0 '^| 0.01  .* too short for one | oktopk' '(c) .langid., points' '^A quick run shows'
tap "$?" "a short training, dense and top-k: the tables"

for name in steps time; do
    [ -s "$WORK/build/trainings/quick/plots/langid-local2-$name.dat" ]
    tap "$?" "the data of the plot of loss by $name"
    legend=$(sed -n 's/^x "\(.*\)"$/\1/p' "$WORK/build/trainings/quick/plots/langid-local2-$name.dat" | sort | paste -sd,)
    [ "$legend" = 'dense,top-k 1 %' ]
    tap "$?" "the legend of loss by $name says top-k and per cent"
    if command -v gnuplot >/dev/null; then
        python3 -c 'import sys, xml.dom.minidom; xml.dom.minidom.parse(sys.argv[1])' \
            "$WORK/build/trainings/quick/plots/langid-local2-$name.svg" 2>>"$WORK/err"
        tap "$?" "the plot of loss by $name is XML"
    else
        ended 0 '^No plots: gnuplot is missing'
        tap "$?" "no plot of loss by $name, which is said: gnuplot is missing"
    fi
done

trainings "${SHORT[@]}"
runs 0 0 && ended 0 '^2 runs, 2 of them finished before' '^| 0.01 '
tap "$?" "finished runs do not run again, their tables stand"

trainings "${SHORT[@]}" --parts bar,controls,xi --table
runs 0 0 && ended 0 '^| 0.01 '
tap "$?" "--table runs nothing"

sed -i 's/"seconds": [0-9.]*/"seconds": 100/' "$KEPT/langid-local2-dense-s1/done"
sed -i 's/"seconds": [0-9.]*/"seconds": 200/' "$KEPT/langid-local2-0.01-s1/done"
trainings "${SHORT[@]}" --plan --seeds 2
ended 0 '^ *150 s  langid, 2 ranks, dense, seed 2, this machine' '^4 runs, 2 .* about 0:05:00'
tap "$?" "the estimate is the mean of what has run"

# --- runs that are not complete ---

cp -r "$KEPT" "$WORK/whole"
damage() { # NAME RUN COMMAND...
    rm -rf "$KEPT"
    cp -r "$WORK/whole" "$KEPT"
    "${@:3}"
    trainings "${SHORT[@]}" --plan
    ended 0 "/$2 is not complete" '^2 runs, 1 of them finished before'
    tap "$?" "$1: the run does not count"
}
sparse=langid-local2-0.01-s1
damage 'a log cut off in a line' "$sparse" truncate -s -3 "$KEPT/$sparse/log.csv"
damage 'a log that ends too early' "$sparse" sed -i 3q "$KEPT/$sparse/log.csv"
damage 'no line of results' "$sparse" sed -i '/^result/d' "$KEPT/$sparse/out"
damage 'a line of results without its end' "$sparse" sed -i 's/ replicas.*//' "$KEPT/$sparse/out"
damage 'no output' "$sparse" rm "$KEPT/$sparse/out"
damage 'no record of the run' "$sparse" truncate -s 0 "$KEPT/$sparse/done"
damage 'a report cut off' "$sparse" find "$KEPT/$sparse" -name '*.json' -exec truncate -s 900 {} +
damage 'a report lacks' "$sparse" find "$KEPT/$sparse" -name '*-0-*.json' -delete

trainings "${SHORT[@]}"
runs 0 1 && ended 0 '^\[1/1\] langid, 2 ranks, 0.01, seed 1' '^| 0.01 '
tap "$?" "a damaged run, and it alone, runs again"

trainings "${SHORT[@]}" --plan --fresh
ended 0 '^2 runs, 0 of them finished before' && [ -e "$KEPT/$sparse/done" ]
tap "$?" "a plan with --fresh counts every run and forgets none"

LANGID_ARGS='--words 20000 --dim 16 --batch 256' trainings "${SHORT[@]}" --plan
ended 0 '^2 runs, 0 of them finished before'
tap "$?" "runs with other options do not count"

LANGID_ARGS='--words 20000 --dim 16 --batch 256' trainings "${SHORT[@]}" --settings exact
ended 0 '^| exact .* too short' && trainings "${SHORT[@]}" --plan && ended 0 '^2 runs, 2 of them finished before'
tap "$?" "runs with other options, in exact mode, leave finished ones alone"

# --- runs that fail ---

CHARLM_ARGS='--epochs none' trainings "${SHORT[@]}" --only b,c
log=$(echo "$KEPT"/charlm-local2-dense-s1-*.failed/err)
cp "$log" "$WORK/log" 2>/dev/null
ended 1 "^trainings: this run failed: charlm, 2 ranks, dense, .* exit status [0-9]*; see $log" \
    "^trainings: this run failed: charlm, 2 ranks, 0.01," '^| 0.01 .* oktopk' &&
    grep -q -- "--epochs takes a whole number from 1 to 1000000, not 'none'" "$WORK/log"
tap "$?" "a run that fails is named with its log, the others are not lost"

LANGID_ARGS='--words 20000 --dim 16 --batch 16 --epochs 1000' trainings "${SHORT[@]}" --deadline 2
ended 1 'langid, 2 ranks, dense, seed 1, this machine: more than 2 s; see ' && ended_all
tap "$?" "a run over its deadline is ended and named"

rm -rf "$KEPT"
LANGID_ARGS='--words 20000 --dim 16 --batch 16 --epochs 1000' BUILD=$WORK/build MPIRUN=$MPIRUN \
    timeout -k 30 90 scripts/trainings "${SHORT[@]}" --deadline 600 >"$WORK/out" 2>"$WORK/err" </dev/null &
job=$!
for ((i = 0; i < 300; i++)); do
    ! at_work || break
    sleep 0.1
done
kill -TERM "$job"
wait "$job"
STATUS=$?
ended 130 'interrupted; the same command goes on' && ended_all
tap "$?" "interrupted, it ends what it started"

ln -sfn "$WORK/nowhere" "$WORK/build/libsparseshim.so"
trainings "${SHORT[@]}"
runs 1 0 && ended 1 'libsparseshim.so is missing: make all tests'
tap "$?" "a library that is missing is named before anything runs"

# --- the options of the training programs ---

refused() { # PROGRAM MESSAGE ARGUMENT...
    within 60 "$MPIRUN" -n 1 "$BUILD/tests/apps/$1" "${@:3}"
    [ "$STATUS" -ne 0 ] && grep -qxF -- "$1: $2" "$WORK/err"
    tap "$?" "$1 ${*:3}: refused with what is allowed"
}
refused scd "--call takes allgather, allgatherv, iallgather or iallgatherv, not 'gather'" --call gather
refused scd "--rate takes a number from 0 to 2, not 'x'" --rate=x
refused langid "--dim takes a whole number from 10 to 30, not '31'" --dim 31
refused langid "--words takes a whole number from 0 to 1000000000, not '1.5'" --words 1.5
refused langid "--epochs lacks its value, a whole number from 1 to 1000000" --epochs
refused langid "--in-place takes no value, not '3'" --in-place=3
refused charlm "--hidden takes a multiple of 16 from 16 to 4096, not '40'" --hidden 40
refused charlm "'--layer-norm' names no option, or more than one; see --help" --layer-norm
refused fmnist "--momentum takes a number from 0 to 1, not '2'" --momentum 2
refused fmnist "'word' is not an option; see --help" word

for program in scd langid charlm fmnist; do
    within 60 "$MPIRUN" -n 2 "$BUILD/tests/apps/$program" --epochs 2 --help
    ended 0 "^usage: mpirun -n P $program " '^  --seed N .* (default 1)' '^  --epochs N .*(default 2)' &&
        [ "$(grep -c '^usage' "$WORK/out")" -eq 1 ]
    tap "$?" "$program --help: one list of the options and what they are"
done

finish
