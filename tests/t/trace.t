#!/usr/bin/env bash
# SPARSESHIM_TRACE: each rank's spans are in the trace-event format, whatever its calls do, change no
# bit of a result, and show on one clock which rank the others waited for.
set -u
. tests/t/lib.sh

TRACES=$WORK/traces
export SPARSESHIM_REPRODUCIBLE=on
# The interpreter itself, not a script that looks for it: a start takes a third of the processor time.
PATH=$(python3 -c 'import os, sys; print(os.path.dirname(sys.executable))'):$PATH

bits() {
    sed -n 's/^# bits //p' "$WORK/out"
}

# value EXPRESSION: of what tests/py/trace.py printed last, as `t`.
value() {
    python3 -c 'import json, sys; t = json.load(open(sys.argv[1])); print(eval(sys.argv[2]))' "$WORK/trace" "$1"
}

# is EXPRESSION...: they hold.
is() {
    local all
    all=$(printf ' and (%s)' "$@")
    [ "$(value "True$all" 2>>"$WORK/err")" = True ] && return
    { echo "not so: $*"; cat "$WORK/trace"; } >>"$WORK/err"
    return 1
}

# strict [--open] FILE...: each is in the format; what the last holds is left for `value`.
strict() {
    local open=()
    [ "$1" != --open ] || { open=(--open) && shift; }
    python3 tests/py/trace.py "${open[@]}" "$@" >"$WORK/trace" 2>>"$WORK/err"
}

# traced RANKS PROGRAM [ARGUMENT...]: with a trace.
traced() {
    rm -rf "$TRACES"
    mkdir "$TRACES"
    SPARSESHIM_TRACE=$TRACES preloaded "$@"
}

# merged [FILE...]: those of the ranks can be merged; FILEs are in the format, and what is made of them.
merged() {
    "$BUILD/sparseshim" report --trace "$TRACES" -o "$WORK/merged.json" 2>"$WORK/told" && strict "$@" "$WORK/merged.json"
}

# same NAME RANKS PROGRAM [ARGUMENT...]: the trace of each rank and of all is valid, and the results
# have the bits of a run without.
same() {
    local name=$1 ranks=$2 files result=0
    shift
    preloaded "$@"
    local before
    before=$(bits)
    traced "$@"
    passed && [ -n "$before" ] && [ "$(bits)" = "$before" ] || result=1
    files=("$TRACES"/trace-*.json)
    [ "${#files[@]}" -eq "$ranks" ] && merged "${files[@]}" && is "t['ranks'] == list(range($ranks))" || result=1
    tap "$result" "$name on $ranks ranks: valid, and the same bits"
}

for ranks in 1 2 3 5; do
    same exact "$ranks" traced
done
is "all(t['spans'].get(s, 0) > 0 for s in ('allreduce', 'scan', 'vote', 'exchange', 'round', 'encode', 'decode', 'merge', 'scatter', 'wait'))" \
    "t['args'][0]['ranks'] == 5 and t['args'][0]['count'] == 50000 and t['args'][0]['bytes'] > 0" \
    "t['args'][0]['bytes_inside'] == t['args'][0]['bytes']" \
    "t['args'][0]['algorithm'] and 0.04 < t['args'][0]['density'] < 0.06 and t['clocks'] == 'measured'"
tap "$?" "... every phase has its spans, a call its arguments, the clocks their offsets"
SPARSESHIM_ALGORITHM=ring same "exact, ring" 3 traced
SPARSESHIM_ALGORITHM=split_allgather SPARSESHIM_NODE_AGGREGATION=off SPARSESHIM_TEST=layout=122 traced 3 traced
passed && merged && is "0 < t['args'][0]['bytes_inside'] < t['args'][0]['bytes']"
tap "$?" "two hosts: a call has the bytes that stay inside one"
export SPARSESHIM_MODE=topk SPARSESHIM_REGISTER='*:calls=1' SPARSESHIM_TEST=identity_steps=1
for algorithm in auto oktopk gtopk; do
    SPARSESHIM_ALGORITHM=$algorithm same "top-k, $algorithm" 3 traced
done
is "t['spans'].get('select', 0) > 0"
tap "$?" "... with spans of selections"
SPARSESHIM_MODE=quant SPARSESHIM_ALGORITHM=quantized same "quant" 3 traced
unset SPARSESHIM_MODE SPARSESHIM_REGISTER SPARSESHIM_TEST
SPARSESHIM_PROGRESS=watchdog same "nonblocking calls" 3 nb_beside --steps 1
is "t['lanes'] > 1"
tap "$?" "... several at the same time, each on a lane of its own"
SPARSESHIM_MODE=topk SPARSESHIM_REGISTER='*:calls=1' SPARSESHIM_TEST=identity_steps=1 SPARSESHIM_PROGRESS=watchdog SPARSESHIM_MERGE=512Ki \
    traced 3 nb_beside --steps 2
merged && is "t['spans'].get('merge', 0) > 0 and t['spans'].get('select', 0) > 0"
tap "$?" "merged calls, agreed on in parts: spans lie in the right ones"
"$BUILD/sparseshim" report --trace "$TRACES" -o "$(ls "$TRACES"/trace-*-0-*.json)" 2>"$WORK/told"
[ "$?" -eq 1 ] && grep -q 'is one of the traces' "$WORK/told"
tap "$?" "a trace is not written over by those merged"
SPARSESHIM_MODE=topk SPARSESHIM_REGISTER='count=1500::calls=1' SPARSESHIM_DENSITY=0.1 SPARSESHIM_TEST=identity_steps=1,quorum_period=16 \
    SPARSESHIM_REPRODUCIBLE=off SPARSESHIM_ALGORITHM=allgather SPARSESHIM_QUORUM=solo traced 3 late_ranks steps=25 late=one quiet=30
passed && merged && is "all(t['spans'].get(s, 0) >= 3 * 40 for s in ('partial round', 'start', 'round', 'encode', 'decode', 'merge'))" \
    "t['spans']['wait'] > 0 and t['spans']['select'] > 0 and t['lanes'] == 2" \
    "all(r['ranks'] == 3 and r['bytes'] > 0 and 0 <= r['density'] <= 1 and r['algorithm'] == 'allgather' and 'because' not in r for r in t['rounds'])" \
    "all(n % 3 == 0 for n in [sum(r['call'] == c for r in t['rounds']) for c in {r['call'] for r in t['rounds']}])"
tap "$?" "QUORUM: each round has its spans on every rank, called for there or not"
SPARSESHIM_TEST=layout=1234 traced 4 smoke
passed && merged && ! grep -q bytes_inside "$WORK/merged.json"
tap "$?" "calls that pass through leave a valid trace"

# A rank that comes late, and who waits for it.
traced 4 traced --slow=2 --ms=2000
passed && merged && is "t['slow']['rank'] == 2 and t['slow']['call'] == 10 and t['slow']['late'] > 0" \
    "all(s > t['slow']['waited']['2'] for r, s in t['slow']['waited'].items() if r != '2')"
tap "$?" "the rank that slept before a call is the one that the others waited for"
"$BUILD/sparseshim" report --trace="$TRACES" 2>/dev/null | cmp - "$WORK/merged.json"
tap "$?" "... and without -o the same goes to the standard output"
cp "$TRACES"/trace-*-0-*.json "$TRACES/trace-x-0-x.json"
"$BUILD/sparseshim" report --trace "$TRACES"/* >"$WORK/two.json" 2>"$WORK/told"
[ "$?" -eq 1 ] && grep -q 'are not of one job: both are of rank 0' "$WORK/told"
tap "$?" "two traces of one rank are refused"
merged && grep -q 'has 2 jobs' "$WORK/told"
tap "$?" "... and in a folder they are of two jobs"

# killed CHECK ARGUMENT...: the job has ended by SIGTERM while rank 1 rested before a call, as soon as CHECK
# held for the traces so far.
killed() {
    local check=$1
    shift
    rm -rf "$TRACES" "$WORK/pid"
    mkdir "$TRACES"
    {
        for _ in {1..250}; do
            if "$check" || { [ -e "$WORK/pid" ] && ! kill -0 "$(cat "$WORK/pid")"; }; then
                break
            fi 2>/dev/null
            sleep 0.2
        done
        kill -TERM "$(cat "$WORK/pid")" 2>/dev/null
    } &
    # shellcheck disable=SC2016 # the shell's own
    SPARSESHIM_TRACE=$TRACES within 60 sh -c 'echo "$$" >"$0"; exec "$@"' "$WORK/pid" \
        "$MPIRUN" -n 3 -genv LD_PRELOAD "$LOADED $YIELDS" "$PROGRAMS/traced" --slow=1 --ms=60000 "$@"
    wait "$!"
}

# Killed while it waits: what began and did not end tells where it was.
waits_for_the_vote() {
    strict --open "$TRACES"/trace-*-0-*.json && is "'wait' in t['open'] and t['waits'][0]['phase'] == 'vote' and t['spans']['allreduce'] == 8"
}
killed waits_for_the_vote
waits_for_the_vote
tap "$?" "a job that is killed leaves what it was waiting for"
"$BUILD/sparseshim" report --trace "$TRACES" -o "$WORK/merged.json" 2>"$WORK/told" &&
    grep -q '^rank 0 had not ended' "$WORK/told" && strict --open "$WORK/merged.json"
tap "$?" "... and its traces can be merged"
knows_its_clocks() {
    "$BUILD/sparseshim" report --trace "$TRACES" -o "$WORK/merged.json" 2>"$WORK/told" && strict --open "$WORK/merged.json" &&
        is "t['notes'] == ['clock'] * 3 and t['clocks'] == 'measured' and t['spans']['allreduce'] > 3" && grep -q 'clocks within' "$WORK/told"
}
SPARSESHIM_PROGRESS=watchdog killed knows_its_clocks --nonblocking=1
knows_its_clocks
tap "$?" "... and its clocks are known, where its first exchange was nonblocking, too"

# No place to write to.
SPARSESHIM_MIN_COUNT=1Mi SPARSESHIM_TRACE=$WORK/none/deep preloaded 2 traced
grep -q "SPARSESHIM_TRACE: $WORK/none/deep cannot be written" "$WORK/err"
tap "$?" "a folder that is not there is told where all calls are small, too"
preloaded 2 traced
before=$(bits)
SPARSESHIM_TRACE=$WORK/none/deep preloaded 2 traced
passed && [ "$(bits)" = "$before" ] && [ ! -e "$WORK/none" ] &&
    [ "$(grep -c "SPARSESHIM_TRACE: $WORK/none/deep cannot be written: No such file or directory; no trace of this rank" "$WORK/err")" -eq 2 ]
tap "$?" "a folder in one that is not there is told by each rank, and the job goes on"
rm -rf "$TRACES"
SPARSESHIM_TRACE=$TRACES preloaded 3 traced
passed && [ "$(bits)" != "" ] && [ "$(find "$TRACES" -name 'trace-*.json' | wc -l)" -eq 3 ] && [ -z "$(find "$TRACES" -maxdepth 0 -perm /077)" ]
tap "$?" "the last folder is made by the ranks, for their user alone"
rm -rf "$TRACES"
SPARSESHIM_TRACE=$TRACES-%r preloaded 2 traced
passed && strict "$TRACES"-0/trace-*-0-*.json && strict "$TRACES"-1/trace-*-1-*.json
tap "$?" "so is a folder of each rank"
SPARSESHIM_TRACE=/dev/null preloaded 2 traced
passed && [ "$(bits)" = "$before" ] && grep -q 'SPARSESHIM_TRACE: /dev/null cannot be written: Not a directory' "$WORK/err"
tap "$?" "so is what is no folder"
rm -rf "$TRACES"
mkdir -p "$TRACES/0"
touch "$TRACES/1"
SPARSESHIM_TRACE=$TRACES/%r preloaded 2 traced
passed && grep -q "SPARSESHIM_TRACE: $TRACES/1 cannot be written" "$WORK/err" && strict "$TRACES"/0/trace-*.json &&
    is "t['notes'] == ['clock', 'clock']"
tap "$?" "where one rank cannot write, the other's trace is whole, and its clock was compared"
on_host "the memory of a device of the driver for tests is a file, which cannot grow either"
traced 2 traced --limit=20000
passed && [ "$(bits)" = "$before" ] && strict --open "$TRACES"/trace-*.json &&
    [ "$(grep -c 'trace-.*json lacks [0-9]* events: File too large' "$WORK/err")" -eq 2 ]
tap "$?" "a file that cannot grow holds whole events, and one message says how many are missing"
finish
