#!/usr/bin/env bash
# Reports and logs: what is never written over, who may read them, what is said where they cannot be
# written; the report of a job that is ended before MPI_Finalize, and of one with nothing to serve.
# shellcheck disable=SC2016 # the shells under test expand, not this one
set -u
. tests/t/lib.sh
umask 000
export SLURM_JOB_ID=17
REPORTS=$WORK/report

# Runs the program on 2 ranks; rank 0 first runs the shell lines in PLANT, where $file is the path of
# its report to come.
planted() {
    within 60 "$MPIRUN" -n 2 -genv plant "$PLANT" -genv dir "$REPORTS" -genv lib "$LOADED" \
        sh -c 'file=$dir/sparseshim-17-0-$$.json; mkdir -p "$dir"
            [ "$PMI_RANK" != 0 ] || eval "$plant"; LD_PRELOAD=$lib exec "$@"' sh "$PROGRAMS/fewcalls" 3
}

# warned VARIABLE REASON: one line says so, and there is no other warning.
warned() {
    local reason=$2
    [ "$1" != REPORT_DIR ] ||
        reason+='; make a directory of your own there before the job starts, on all nodes, or name another'
    [ "$(grep -c '^sparseshim\[' "$WORK/err")" -eq 1 ] &&
        grep -q "^sparseshim\[0\]: SPARSESHIM_$1: /[^ ]* cannot be written: $reason\$" "$WORK/err"
}

# untouched: what must not be written still is what it was, and nothing is left over.
untouched() {
    [ "$(cat "$WORK/victim")" = precious ] && ! compgen -G "$REPORTS/*.tmp" >/dev/null
}

mode() {
    stat -c %a "$1"
}

# tap_kept NAME REASON: the program passed, one warning says why there is no report.
tap_kept() {
    local result=0
    passed && untouched && warned REPORT_DIR "$2" || result=1
    tap "$result" "$1"
}

export WORK
echo precious >"$WORK/victim"
PLANT='ln -s "$WORK/victim" "$file"' planted
tap_kept "a link where the report goes: not followed" "it is a link"
PLANT='ln -s "$WORK/nobody" "$file"' planted
tap_kept "a link to nowhere: not followed" "it is a link"
[ ! -e "$WORK/nobody" ]
tap "$?" "... nothing is made at its end"
PLANT='mkfifo "$file"' planted
tap_kept "a pipe where the report goes: not written to" "it is not a regular file"
PLANT='mkdir "$file"' planted
tap_kept "a directory where the report goes" "it is not a regular file"
PLANT='ln "$WORK/victim" "$file"' planted
passed && untouched && [ "$(counter calls.seen)" = 3 ]
tap "$?" "a second name of another file: the report takes the name, the file stays"
PLANT='echo old >"$file"; chmod 640 "$file"' planted
passed && [ "$(counter calls.seen)" = 3 ] && [ "$(mode "$REPORTS"/*.json)" = 640 ]
tap "$?" "a file of one's own where the report goes: replaced, its mode kept"
if [ "$(id -u)" -eq 0 ]; then
    PLANT='cp -p "$WORK/victim" "$file"; chown 65534 "$file"' planted
    [ "$(cat "$REPORTS"/*.json)" = precious ]
    tap_kept "a file of another user where the report goes: kept" "it belongs to another user"
    PLANT='chown 65534 "$dir"; chmod 1777 "$dir"' planted
    passed && [ "$(counter calls.seen)" = 3 ]
    tap "$?" "a directory of another user serves"
else
    skip "a file of another user where the report goes: kept" "needs root to make one"
    skip "a directory of another user serves" "needs root to make one"
fi
PLANT='mkdir "$WORK/elsewhere"; rmdir "$dir"; ln -s "$WORK/elsewhere" "$dir"' planted
passed && [ "$(counter calls.seen)" = 3 ]
tap "$?" "REPORT_DIR may be a link"
rm -r "$REPORTS" "$WORK/elsewhere"

preloaded 2 fewcalls 3
passed && [ "$(mode "$REPORTS"/*.json)" = 600 ] && [ "$(mode "$REPORTS")" = 700 ]
tap "$?" "a new report is readable by its owner alone, so is its directory"
[ "$(counter job.complete)" = 1 ]
tap "$?" "at the end it says that the job has ended"

# reporting DIR: REPORT_DIR as given.
reporting() {
    within 60 env SPARSESHIM_REPORT_DIR="$1" "$MPIRUN" -n 2 -genv LD_PRELOAD "$LOADED $YIELDS" \
        "$PROGRAMS/fewcalls" 3
}
reporting /dev/null/reports
passed && warned REPORT_DIR "Not a directory"
tap "$?" "a directory that cannot be: one warning names variable, path and reason"
mkdir "$WORK/100%real"
reporting "$WORK/100%%real/%j.%r"
passed && ls "$WORK/100%real/17.0"/sparseshim-17-0-*.json >"$WORK/out"
tap "$?" "%% is a percent sign in REPORT_DIR, %j the job and %r the rank"
# %u is the user: USER, else LOGNAME, else the number; one part of a path, whatever the variables hold.
mkdir "$WORK/of"
USER=ada LOGNAME=bob reporting "$WORK/of/%u"
passed && ls "$WORK/of/ada"/sparseshim-17-0-*.json >"$WORK/out"
tap "$?" "%u in REPORT_DIR is USER"
USER='' LOGNAME=../bob/c reporting "$WORK/of/%u"
passed && ls "$WORK/of/.._bob_c"/sparseshim-17-0-*.json >"$WORK/out"
tap "$?" "... else LOGNAME, without its slashes"
mkdir "$WORK/of/$(id -u)-traces"
within 60 env -u USER -u LOGNAME SPARSESHIM_REPORT=off SPARSESHIM_DEBUG=info \
    SPARSESHIM_DEBUG_FILE="$WORK/of/%u.log" SPARSESHIM_TRACE="$WORK/of/%u-traces" \
    "$MPIRUN" -n 2 -genv LD_PRELOAD "$LOADED $YIELDS" "$PROGRAMS/fewcalls" 3
passed && grep -q version "$WORK/of/$(id -u).log" && [ "$(find "$WORK/of/$(id -u)-traces" -name 'trace-17-*' | wc -l)" -eq 2 ]
tap "$?" "... else the number, in DEBUG_FILE and TRACE alike"
reporting "$WORK/50%"
passed && ls "$WORK/50%"/sparseshim-17-0-*.json >"$WORK/out"
tap "$?" "a percent sign before no letter is one, too"
# A program that goes elsewhere between its first call and its end.
mkdir "$WORK/start" "$WORK/later"
LIB=$(realpath "$LIB") PROGRAM=$(realpath "$PROGRAMS/fewcalls")
(
    cd "$WORK/start" &&
        SPARSESHIM_REPORT=rank0 SPARSESHIM_REPORT_DIR=reports timeout -k 5 60 "$MPIRUN" -n 2 -genv LD_PRELOAD "$LOADED $YIELDS" \
            "$PROGRAM" 3 4096 "$WORK/later"
) >"$WORK/out" 2>"$WORK/err"
STATUS=$?
passed && [ "$(find "$WORK/start/reports" -name '*.json' | wc -l)" -ge 1 ] && [ ! -e "$WORK/later/reports" ]
tap "$?" "a relative REPORT_DIR is that of the directory in which the program began"
grep -q '"complete": *true' "$WORK"/start/reports/*.json
tap "$?" "... and the last report replaces those before it"

# logging FILE: rank 0's DEBUG_FILE, at DEBUG=info.
logging() {
    within 60 env LD_PRELOAD="$LOADED" SPARSESHIM_DEBUG_FILE="$1" "$MPIRUN" \
        -n 1 -env SPARSESHIM_DEBUG info "$PROGRAMS/fewcalls" 3 : \
        -n 1 -env SPARSESHIM_DEBUG none "$PROGRAMS/fewcalls" 3
}
# tap_refused NAME REASON: the log goes to stderr, which is told why.
tap_refused() {
    local result=0
    passed && untouched || result=1
    [ "$(grep -c "^sparseshim.*: SPARSESHIM_DEBUG_FILE: /[^ ]* cannot be written: $2\$" "$WORK/err")" -eq 1 ] &&
        grep -q '^sparseshim\[0\]: version' "$WORK/err" || result=1
    tap "$result" "$1"
}
# tap_logged NAME FILE MODE: the log stands in the file, and nothing of it on stderr.
tap_logged() {
    local result=0
    passed && grep -q '^sparseshim\[0\]: version' "$2" && [ "$(mode "$2")" = "$3" ] || result=1
    grep -q 'version .*memory limit' "$WORK/err" && result=1
    tap "$result" "$1"
}

logging "$WORK/new.log"
tap_logged "a new log is readable by its owner alone" "$WORK/new.log" 600
grep -q '^sparseshim\[0\]: version .*MPI' "$WORK/new.log" && ! grep -q '[[:cntrl:]]' "$WORK/new.log"
tap "$?" "... in which tabs, as of the MPI library's version, are blanks"
echo before >"$WORK/own.log"
chmod 640 "$WORK/own.log"
logging "$WORK/own.log"
tap_logged "a log of one's own is appended to, its mode kept" "$WORK/own.log" 640
[ "$(head -n 1 "$WORK/own.log")" = before ]
tap "$?" "... behind what it held"
ln -s "$WORK/victim" "$WORK/link.log"
logging "$WORK/link.log"
tap_refused "a link as DEBUG_FILE: not followed" "it is a link"
ln -s "$WORK/nobody" "$WORK/nowhere.log"
logging "$WORK/nowhere.log"
[ ! -e "$WORK/nobody" ]
tap "$?" "... nor one to nowhere"
ln "$WORK/victim" "$WORK/second.log"
logging "$WORK/second.log"
tap_refused "a second name of another file as DEBUG_FILE: not written to" "it has a second name (a hard link)"
mkfifo "$WORK/pipe.log"
logging "$WORK/pipe.log"
tap_refused "a pipe without reader as DEBUG_FILE: nobody waits" \
    "it is neither a regular file nor a character device"
cat "$WORK/pipe.log" >/dev/null &
reader=$!
logging "$WORK/pipe.log"
tap_refused "... nor does its reader end the job" "it is neither a regular file nor a character device"
kill "$reader" 2>/dev/null
if [ "$(id -u)" -eq 0 ]; then
    cp "$WORK/victim" "$WORK/theirs.log"
    chown 65534 "$WORK/theirs.log"
    logging "$WORK/theirs.log"
    tap_refused "a file of another user as DEBUG_FILE: not written to" "it belongs to another user"
else
    skip "a file of another user as DEBUG_FILE: not written to" "needs root to make one"
fi
logging /dev/full
tap_refused "a log that cannot take a line: told once, what follows goes to stderr" "No space left on device"
logging /dev/null
passed && ! grep -q 'SPARSESHIM_DEBUG_FILE\|memory limit' "$WORK/err"
tap "$?" "/dev/null as DEBUG_FILE takes everything"
logging /dev/stderr
passed && grep -q '^sparseshim\[0\]: version' "$WORK/err" && ! grep -q SPARSESHIM_DEBUG_FILE: "$WORK/err"
tap "$?" "/dev/stderr as DEBUG_FILE is the standard error, a pipe under mpirun"
logging "$WORK/rank%r-50%%.log"
tap_logged "%r in DEBUG_FILE is the rank, %% a percent sign" "$WORK/rank0-50%.log" 600

# ---- what nobody asked for ----
within 60 env -u SPARSESHIM_REPORT_DIR SPARSESHIM_REPORT=off "$MPIRUN" -n 3 -genv LD_PRELOAD "$LOADED $YIELDS" "$PROGRAMS/control"
passed && ! grep -v '^to_device: ' "$WORK/err"
tap "$?" "MPI_Pcontrol(2) of a program says nothing where REPORT is off"
within 60 env SPARSESHIM_REPORT=off SPARSESHIM_DEBUG=info "$MPIRUN" -n 3 -genv LD_PRELOAD "$LOADED $YIELDS" \
    "$PROGRAMS/control"
passed && grep -q 'MPI_Pcontrol(2) writes a report where' "$WORK/err"
tap "$?" "... with DEBUG=info it says what it would do"

# ---- a job that does not reach MPI_Finalize ----
for how in term exit; do
    preloaded 2 unending "$how"
    [ "$(counter calls.seen)" -ge 1 ] && [ "$(counter job.complete)" = 0 ]
    tap "$?" "a job that ends by $how leaves a report that says it had not ended"
done
for form in term kill 'kill small' 'kill nonblocking'; do
    # shellcheck disable=SC2086 # two words
    SPARSESHIM_MIN_COUNT=1000 SPARSESHIM_ALGORITHM=ring SPARSESHIM_PROGRESS=watchdog preloaded 2 unending $form
    [ "$(counter calls.sparse)" -ge 1 ] && [ "$(counter bytes.bytes_sent)" -gt 0 ] &&
        [ "$(counter job.complete)" = 0 ]
    tap "$?" "a job of a few calls that ends by a signal ($form) leaves one made sparse in its report"
done
"$BUILD/sparseshim" report "$REPORTS"/*.json >"$WORK/out" 2>"$WORK/err"
grep -q '^  state    the job had not ended' "$WORK/out"
tap "$?" "... and so says sparseshim report"

# sees LEAST: waits until the report has so many calls.
sees() {
    local made
    for _ in $(seq 600); do
        made=$(counter calls.seen)
        [ "$made" != none ] && [ "$made" -ge "$1" ] && return 0
        sleep 0.1
    done
    return 1
}
rm -rf "$REPORTS"
SPARSESHIM_REPORT=rank0 SPARSESHIM_REPORT_DIR=$REPORTS timeout -k 5 150 "$MPIRUN" -n 2 \
    -genv LD_PRELOAD "$LOADED" "$PROGRAMS/unending" wait >"$WORK/out" 2>"$WORK/err" </dev/null &
job=$!
sees 1 && first=$(counter calls.seen) && sees $((first + 1))
result=$?
kill -TERM "$job"
wait "$job"
[ "$result" -eq 0 ] && [ "$(counter job.complete)" = 0 ]
tap "$?" "the report is written anew while the job runs"
reports=("$REPORTS"/*)
[ "${#reports[@]}" -eq 1 ]
tap "$?" "... over the former one"

# ---- nothing to serve ----
# noted PATTERN: text and JSON say so.
noted() {
    grep -q "$1" "$WORK/err" && cat "$REPORTS"/*.json | grep -q "\"note\": .*$1"
}
preloaded 2 idle barrier
[ "$STATUS" -eq 0 ] && noted 'no call was eligible' && noted 'no MPI_Allreduce .* was seen' &&
    [ "$(counter calls.eligible)" = 0 ]
tap "$?" "a job without a collective of ours reports that it saw none"
preloaded 2 idle max
noted '1 of 1 calls have a datatype or operator that is not served'
tap "$?" "a job of operators that are not served says so"
SPARSESHIM_MIN_COUNT=5000 preloaded 2 fewcalls 3
grep -q '^  passed .*count below MIN_COUNT=5000 (largest 4096): 3' "$WORK/err"
tap "$?" "calls below MIN_COUNT: the summary has its value and the largest count"
noted '3 of 3 calls have fewer elements than MIN_COUNT=5000; the largest that could be served have 4096: MIN_COUNT=4096 would make the 3 calls of that size eligible'
tap "$?" "a job below MIN_COUNT is told which MIN_COUNT would take how many calls"
preloaded 2 fewcalls 3
passed && ! grep -q 'eligible' "$WORK/err" && [ "$(counter calls.eligible)" = 3 ]
tap "$?" "a job with eligible calls gets no such note"
preloaded 1 fewcalls 3
noted 'the job has one rank'
tap "$?" "a job of one rank is told that there is nothing to send"
cat >"$WORK/shadow.c" <<'END_OF_C'
#include <mpi.h>
int MPI_Allreduce(const void *in, void *out, int n, MPI_Datatype type, MPI_Op op, MPI_Comm comm)
{
    return PMPI_Allreduce(in, out, n, type, op, comm);
}
END_OF_C
within 60 "${MPICC:-mpicc.mpich}" -fPIC -shared -o "$WORK/libshadow.so" "$WORK/shadow.c"
on_host "where calls pass us by nobody serves them"
PRELOAD="$WORK/libshadow.so $LIB" preloaded 2 fewcalls 3
passed && noted 'libshadow.so defines MPI_Allreduce as well and comes before libsparseshim.so'
tap "$?" "a library in front that keeps the calls to itself is named"
PRELOAD="$LIB $WORK/libshadow.so" preloaded 2 fewcalls 3
passed && ! grep -q 'libshadow.so' "$WORK/err"
tap "$?" "... one behind is not"
finish
