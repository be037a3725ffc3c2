#!/usr/bin/env bash
# Jobs of a real Slurm of two nodes (scripts/slurm): steps are preloaded and nothing else is, jobs
# end as they do without the library, and each step's report is found by the number of its job.
# make check-more PART=cluster runs it.
set -u
PATH=$PATH:/usr/sbin:/sbin
if [ -z "${SLURM_CONF:-}" ]; then
    if [ "$(id -u)" != 0 ] || ! command -v slurmctld >/dev/null; then
        echo "1..0 # SKIP no Slurm can be started: as root, after scripts/install-deps cluster"
        exit 0
    fi
    exec scripts/slurm bash tests/t/slurm.t
fi
. tests/t/lib.sh
unset SPARSESHIM_MIN_COUNT
export SPARSESHIM_MIN_COUNT=1000
REPORTS=$WORK/reports
PRELOADED=SRUN_EXPORT_ENV=ALL,LD_PRELOAD=$LIB:$YIELDS
STEP=(srun --mpi=pmi2 -N2 -n4 --overlap)

# batch LINE...: a batch script of these lines, with the options in LIMITS, run to its end; its output
# is in $WORK/out, its number in JOB, how it ended in STATUS.
LIMITS=()
batch() {
    {
        echo '#!/bin/bash'
        printf '%s\n' "$@"
    } >"$WORK/batch.sh"
    : >"$WORK/out"
    JOB=$(sbatch --parsable -N2 -n4 --overcommit --chdir="$PWD" -o "$WORK/out" -e "$WORK/err" \
        ${LIMITS[@]+"${LIMITS[@]}"} "$WORK/batch.sh")
    for _ in {1..600}; do
        squeue -h -j "$JOB" -o %T 2>/dev/null | grep -qE 'PENDING|CONFIGURING|RUNNING|COMPLETING' || break
        sleep 0.2
    done
    STATUS=$(scontrol show job "$JOB" | sed -n 's/.*ExitCode=\([0-9]*\):.*/\1/p' | head -n 1)
    STATUS=${STATUS:-1}
}

# reports JOB: how many there are of it.
reports() {
    find "$REPORTS" -name "sparseshim-$1-*.json" 2>/dev/null | wc -l
}

# lost JOB: whether a report of it is not complete, and its residuals are not zero.
lost() {
    local report
    for report in "$REPORTS/sparseshim-$1-"*.json; do
        rm -rf "$WORK/report"
        mkdir "$WORK/report"
        cp "$report" "$WORK/report"
        [ "$(counter job.complete)" = 0 ] && [ "$(tensors state=registered)" -ge 1 ] &&
            [ "$(tensors state=registered residual_norm=0)" = 0 ] && return
    done
    return 1
}

within 60 "${STEP[@]}" "$PROGRAMS/fewcalls" 3
passed
tap "$?" "a step on two nodes, bare"
SPARSESHIM_ALGORITHM=split_allgather SPARSESHIM_REPORT=rank0 within 60 env "$PRELOADED" "${STEP[@]}" "$PROGRAMS/fewcalls" 5
passed && grep -q 'calls .*5 seen: [1-9]' "$WORK/err"
tap "$?" "a step with SRUN_EXPORT_ENV: calls are made sparse across the nodes"
within 60 "${STEP[@]}" printenv SLURMD_NODENAME
[ "$(sort -u "$WORK/out" | tr '\n' ' ')" = "n1 n2 " ]
tap "$?" "... the ranks are on both"

# Open MPI, which Slurm starts by PMIx.
. tests/t/python.sh
if have_torch; then
    LD_PRELOAD='' PYTHONPATH=$WORK/path:$PWD/tests/py within 120 "${STEP[@]}" "$BUILD/sparseshim" run --report=rank0 \
        "$PYTHON3" tests/py/torch_losses.py
    [ "$STATUS" -eq 0 ] && [ "$(wc -l <"$WORK/out")" -ge 12 ] && grep -q 'calls  *[0-9]* seen' "$WORK/err"
    tap "$?" "torch.distributed under srun, as torchrun would start it"
else
    skip "torch.distributed under srun" "python3-torch or mpi4py is missing"
fi
if command -v mpicc.openmpi >/dev/null && srun --mpi=list 2>&1 | grep -qw pmix; then
    within 60 mpicc.openmpi -o "$WORK/sum" scripts/examples/sum.c
    within 60 "$BUILD/sparseshim" run --report=rank0 --algorithm=split_allgather -- srun --mpi=pmix -N2 -n4 --overlap "$WORK/sum"
    grep -qx 'sum 40000' "$WORK/out" && grep -q 'sum, rank 0 of 4 ' "$WORK/err" && grep -q 'calls .*20 seen: 19 made sparse' "$WORK/err"
    tap "$?" "a program of Open MPI, by srun --mpi=pmix behind sparseshim run"
else
    skip "a program of Open MPI, by srun" "there is no Open MPI, or no PMIx in Slurm"
fi

# A batch script: its own commands are not preloaded, its steps are.
batch "export $PRELOADED SPARSESHIM_REPORT=rank0 SPARSESHIM_REPORT_DIR=$REPORTS" \
    "echo \"script: \${LD_PRELOAD:-nothing}\"" "/bin/sh -c 'echo \"command: \${LD_PRELOAD:-nothing}\"'" \
    "${STEP[*]} $PROGRAMS/fewcalls 4" "${STEP[*]} $PROGRAMS/fewcalls 6"
[ "$STATUS" = 0 ] && ! grep -q '^not ok' "$WORK/out" && [ "$(grep -c '^1\.\.' "$WORK/out")" = 2 ]
tap "$?" "a batch job of two steps"
grep -qx 'script: nothing' "$WORK/out" && grep -qx 'command: nothing' "$WORK/out"
tap "$?" "... its script and its commands are not preloaded"
[ "$(reports "$JOB")" = 2 ]
tap "$?" "... each step has its report, named by the job"
[ "$(cat "$REPORTS/sparseshim-$JOB-"*.json | grep -c '"seen": *[46]')" = 2 ]
tap "$?" "... of its own calls"

batch "export $PRELOADED SPARSESHIM_REPORT=rank0 SPARSESHIM_REPORT_DIR=$REPORTS SPARSESHIM_ALGORITHM=ring" \
    "${STEP[*]} $PROGRAMS/fewcalls 4"
grep -q '"ring"' "$REPORTS/sparseshim-$JOB-"*.json
tap "$?" "an option of the job's environment holds on all ranks"

for program in 'sh -c "exit 3"' "$PROGRAMS/unending exit"; do
    batch "${STEP[*]} $program"
    bare=$STATUS
    batch "export $PRELOADED" "${STEP[*]} $program"
    [ "$STATUS" = "$bare" ] && [ "$bare" != 0 ]
    tap "$?" "exit status $bare of a step (${program##*/}) is what it is without the library"
done

# An array: a number for each task.
LIMITS=(--array=1-2)
batch "export $PRELOADED SPARSESHIM_REPORT=rank0 SPARSESHIM_REPORT_DIR=$WORK/array" \
    "${STEP[*]} $PROGRAMS/fewcalls 4"
LIMITS=()
[ "$(find "$WORK/array" -name 'sparseshim-*.json' | sed 's/.*sparseshim-\([0-9]*\)-.*/\1/' | sort -u | wc -l)" = 2 ]
tap "$?" "the tasks of an array have reports of their own"

# The recipe of the manual, with the example scripts and a module command that does what the module
# does.
. tests/t/recipes.sh
# shellcheck disable=SC2317 # the jobs call it
module() {
    export SRUN_EXPORT_ENV=ALL,LD_PRELOAD=$LIB:$YIELDS
}
export -f module
export LIB YIELDS
recipe C "$WORK/C"
typed "$WORK/C" mpicc
tap "$?" "the programs of the manual's recipe for C"
recipe Slurm "$WORK/Slurm"
cp "$WORK/C"/{sum,train} "$WORK/Slurm"
printf 'mode = topk\nregister = count=200000\n' >"$WORK/Slurm/train.conf"
tool sbatch "$(command -v sbatch) --wait --overcommit"
LIMIT=120 typed "$WORK/Slurm" sbatch
tap "$?" "the manual's recipe for Slurm: $COMMANDS jobs"
JOB=$(sed -n 's/^Submitted batch job //p' "$WORK/out")
[ "$(find "$WORK/Slurm/reports" -name "sparseshim-$JOB-*.json" | wc -l)" = 4 ] &&
    typed "$WORK/Slurm" '^sparseshim report' && grep -q '^sparseshim .* 4 ranks' "$WORK/out"
tap "$?" "... the ranks of one of them in one report, beside those of the other"
cat "$WORK/Slurm"/slurm-*.out >"$WORK/out"
[ "$(grep -cx 'sum 40000' "$WORK/out")" = 1 ] && grep -q '^step 400: error 0\.0' "$WORK/out" &&
    [ "$(grep -c '^ *calls .* seen: ' "$WORK/out")" = 2 ]
tap "$?" "... the jobs' output has their results, and their reports"
unset -f module
export SPARSESHIM_MIN_COUNT=1000

# A job that is ended in the middle leaves its last report. The commands wait until its program has
# made its calls, and until it has left a report of what it keeps back.
BEGUN="until grep -q '^# begun' '$WORK/out'; do sleep 0.2; done"
LEFT="until grep -qsE '\"residual_norm\": *[0-9.]*[1-9]' '$REPORTS/sparseshim-'\$SLURM_JOB_ID-*.json; do sleep 0.2; done"
batch "export $PRELOADED SPARSESHIM_REPORT=rank0 SPARSESHIM_REPORT_DIR=$REPORTS" \
    "${STEP[*]} $PROGRAMS/unending wait &" "$BEGUN" "scancel --signal=TERM \$SLURM_JOB_ID.0" "wait"
[ "$(reports "$JOB")" -ge 1 ] && grep -q '"seen": *[1-9]' "$REPORTS/sparseshim-$JOB-"*.json
tap "$?" "a step ended by SIGTERM has left a report"
LIMITS=(--time=1) # minutes are the least
LOSSY="export SPARSESHIM_MODE=topk SPARSESHIM_REGISTER='*:calls=1' SPARSESHIM_TEST=identity_steps=1 SPARSESHIM_ALGORITHM=split_allgather"
batch "export $PRELOADED SPARSESHIM_REPORT=rank0 SPARSESHIM_REPORT_DIR=$REPORTS" "$LOSSY" "${STEP[*]} $PROGRAMS/unending wait"
LIMITS=()
scontrol show job "$JOB" | grep -q 'JobState=TIMEOUT'
tap "$?" "a job reaches its time limit"
elapsed=$(sed -n 's/.*"seconds_elapsed": *\([0-9]*\).*/\1/p' "$REPORTS/sparseshim-$JOB-"*.json | head -n 1)
[ "${elapsed:-0}" -ge 30 ]
tap "$?" "... its last report is of its last seconds: after ${elapsed:-no} s of 60"
lost "$JOB"
tap "$?" "... is not complete, and has the norm of what was lost"

# Queued again while it runs.
batch "export $PRELOADED SPARSESHIM_REPORT=rank0 SPARSESHIM_REPORT_DIR=$REPORTS" "$LOSSY" \
    "[ -z \"\${SLURM_RESTART_COUNT:-}\" ] || exec ${STEP[*]} $PROGRAMS/fewcalls 4" \
    "${STEP[*]} $PROGRAMS/unending wait &" "$LEFT" "scontrol requeue \$SLURM_JOB_ID" "wait"
[ "$(reports "$JOB")" = 2 ] && grep -q '"complete": *true' "$REPORTS/sparseshim-$JOB-"*.json
tap "$?" "a job that is queued again leaves a report of each run"
lost "$JOB"
tap "$?" "... that of the first has the norm of what was lost"

# A cluster that is ended in the middle, as where the tests are interrupted, leaves no daemon.
SLURM_DIR=$WORK/second scripts/slurm sh -c "cat '$WORK/second/run/'*.pid >'$WORK/daemons'; exec sleep 300" \
    >"$WORK/out" 2>"$WORK/err" </dev/null &
cluster=$!
for _ in {1..300}; do
    [ ! -s "$WORK/daemons" ] || break
    sleep 0.2
done
kill -TERM "$cluster"
for _ in {1..150}; do
    kill -0 "$cluster" 2>/dev/null || break
    sleep 0.2
done
left=
while read -r pid; do
    ! kill -0 "$pid" 2>/dev/null || left="$left $pid"
done <"$WORK/daemons"
[ "$(wc -l <"$WORK/daemons")" = 4 ] && [ -z "$left" ] && [ ! -e "$WORK/second" ] && ! kill -0 "$cluster" 2>/dev/null
tap "$?" "a cluster that is ended by SIGTERM leaves neither daemons nor files"
kill "$cluster" 2>/dev/null
finish
