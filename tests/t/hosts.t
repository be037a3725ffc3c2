#!/usr/bin/env bash
# Several hosts without a batch system: one job is one job in reports, traces and learn, although no
# number of a process is the same on two hosts. On the virtual cluster (scripts/vcluster).
set -u
. tests/t/lib.sh
python_without_shim
CLI=$BUILD/sparseshim
export VCLUSTER_PREFIX=sshosts
unset UCX_TLS SPARSESHIM_MIN_COUNT # for one host

if ! scripts/vcluster up -n 4 --rate none >"$WORK/out" 2>"$WORK/err"; then
    skip "jobs on several hosts" "there is no virtual cluster here: $(tail -n 1 "$WORK/err")"
    finish
    exit
fi
trap 'scripts/vcluster down >"$WORK/out" 2>&1; rm -rf "$WORK"' EXIT

hosts() { # [NAME=VALUE...] -- PROGRAM [ARGUMENT...]
    local names=()
    while [ "$1" != -- ]; do
        names+=(-x "$1")
        shift
    done
    timeout -k 5 60 scripts/vcluster run -x LD_PRELOAD="$LIB" -x SPARSESHIM_MIN_COUNT=1 "${names[@]}" "$@" </dev/null
}

# listed JOBS WORDS: the folder has so many jobs, and WORDS stand in the line of each.
listed() {
    "$CLI" report --job=none "$WORK/reports" >"$WORK/out" 2>"$WORK/err"
    [ "$(grep -c '^    ' "$WORK/err")" -eq "$1" ] && [ "$(grep -c "^    .*$2" "$WORK/err")" -eq "$1" ]
}

# Rank 2 is killed, by itself, and the launcher ends the others.
cat >"$WORK/one" <<'SH'
#!/bin/sh
rank=${PMI_RANK:-$OMPI_COMM_WORLD_RANK}
[ "$rank" != 2 ] || exec "$1" kill
exec "$1" wait
SH
chmod +x "$WORK/one"

of_hosts() { # MPI
    local all=(SPARSESHIM_REPORT=all "SPARSESHIM_REPORT_DIR=$WORK/reports") begun=()
    rm -rf "$WORK/reports" "$WORK/traces"
    for job in 1 2; do
        mkdir -p "$WORK/$job"
        OMPI_MCA_orte_tmpdir_base=$WORK/$job \
            hosts "${all[@]}" SPARSESHIM_TRACE="$WORK/traces" -- "$PROGRAMS/fewcalls" 3 >"$WORK/out.$job" 2>&1 &
        begun+=($!)
    done
    wait "${begun[@]}"
    listed 2 ' fewcalls, 4 of 4 ranks, ran [0-9]* s$'
    tap "$?" "$1: two jobs at a time in one folder are two, of all ranks each"
    "$CLI" report "$WORK/reports" >"$WORK/out" 2>"$WORK/err" && grep -q '^sparseshim .*: fewcalls, 4 of 4 ranks' "$WORK/out" &&
        ! grep -q missing "$WORK/out"
    tap "$?" "$1: ... the report has all ranks of the newest"
    "$CLI" report --html "$WORK/reports" -o "$WORK/page.html" 2>"$WORK/err" && grep -q '4 of 4 ranks' "$WORK/page.html"
    tap "$?" "$1: ... and so has the page"
    "$CLI" report --trace "$WORK/traces" -o "$WORK/merged.json" 2>"$WORK/err" && grep -q '^4 of 4 ranks' "$WORK/err" &&
        [ "$(grep -c ' 4 of 4 ranks' "$WORK/err")" -eq 2 ]
    tap "$?" "$1: ... and so have the traces"
    number=$(sed -n 's/^    \([^ ]*\) .*/\1/p' "$WORK/err")
    "$CLI" report --trace "$WORK/traces" --job="$number" -o "$WORK/other.json" 2>"$WORK/err" && ! cmp -s "$WORK/merged.json" "$WORK/other.json"
    tap "$?" "$1: ... of which --job chooses the other"

    rm -rf "$WORK/reports"
    hosts "${all[@]}" -- "$WORK/one" "$PROGRAMS/unending" >"$WORK/out" 2>&1
    listed 1 ' unending, 4 of 4 ranks, .*had not ended$'
    tap "$?" "$1: a job of which a rank was killed is one"
    rm "$WORK/reports"/sparseshim-*-2-*.json
    "$CLI" report "$WORK/reports" >"$WORK/out" 2>"$WORK/err" && grep -q 'unending, 3 of 4 ranks' "$WORK/out" &&
        grep -q 'missing  no report of rank 2$' "$WORK/out"
    tap "$?" "$1: ... and the rank that left no report is missing"

    rm -rf "$WORK/reports"
    hosts "${all[@]}" SPARSESHIM_MIN_COUNT=1Mi -- "$PROGRAMS/fewcalls" 3 >"$WORK/out" 2>&1
    listed 1 ' fewcalls, 4 of 4 ranks, '
    tap "$?" "$1: a job whose ranks have agreed on nothing is one, too"
}

use_flavour mpich
MPIEXEC=mpiexec.mpich of_hosts MPICH
"$CLI" learn --min-count=1 --out "$WORK/learned.conf" -- scripts/vcluster run -- "$PROGRAMS/fewcalls" 40 >"$WORK/out" 2>"$WORK/err"
grep -q 'of 4 ranks\|4 ranks' "$WORK/learned.conf" "$WORK/err"
tap "$?" "MPICH: learn joins the records of all hosts"

if ! command -v mpicc.openmpi >"$WORK/out" || ! command -v mpirun.openmpi >"$WORK/out"; then
    skip "Open MPI" "it is not installed (openmpi-bin, libopenmpi-dev)"
else
    mkdir "$WORK/programs"
    PROGRAMS=$WORK/programs
    for program in tests/mpi/exact/fewcalls tests/mpi/process/unending; do
        mpicc.openmpi -I. "$program.c" -o "$PROGRAMS/${program##*/}" || exit
    done
    export MPIEXEC=mpirun.openmpi
    of_hosts "Open MPI"
fi
finish
