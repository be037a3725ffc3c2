#!/usr/bin/env bash
# Preloading alone changes nothing: programs at the edges of MPI end alike with and without the
# library, in exit status, standard output and standard error.
#
# Each case runs bare, preloaded with every option at its default, and every fourth in a further form;
# HARMLESS_FORMS=all runs every form, and the long cases (more communicators than MPI has) that are
# left out otherwise: make check-more PART=campaign does; =small the form of few elements alone.
# HARMLESS_ONLY is a pattern that the case must match. Under another MPI library (FLAVOUR) a part runs,
# in one form.
set -u
. tests/t/lib.sh
unset SPARSESHIM_MIN_COUNT
[ "${HARMLESS_FORMS:-}" != all ] || unset MPIR_CVAR_NOLOCAL
FORMS=${HARMLESS_FORMS:-turn}
ONLY=${HARMLESS_ONLY:-}
if [ "$FLAVOUR" != mpich ]; then
    FORMS=${HARMLESS_FORMS:-small}
    ONLY=${HARMLESS_ONLY:-edge_@(exchange|freed)}
fi
TURN=0

# Each rank's output goes to a file: mpirun loses lines of a job that ends in MPI_Abort.
cat >"$WORK/rank" <<'END'
#!/bin/sh
rank=${PMI_RANK:-${OMPI_COMM_WORLD_RANK:-0}}
exec "$@" >"$EDGE_DIR/$rank.out" 2>"$EDGE_DIR/$rank.err"
END
chmod +x "$WORK/rank"

# settle: its input without what differs from run to run of the bare program.
settle() {
    sed -E '/^[^:]*:to_device: [0-9]+ nonblocking calls on devices/d
        s/0x[0-9a-f]+/ADDRESS/g; s/PID [0-9]+/PID/; s/Abort\([0-9]{4,}\)/Abort(CODE)/
        s/\[[^]:[]+:[0-9]+\]/[HOST:PID]/; s/\[\[[0-9]+,/[[JOB,/'
}

# ended NAME RANKS COMMAND...: runs it, and what it spawns, with the variables in VARIABLES; how it
# ended and what it printed are left in $WORK/NAME.
VARIABLES=()
ended() {
    local name=$1 ranks=$2 status set=() variable
    shift 2
    for variable in ${VARIABLES[@]+"${VARIABLES[@]}"}; do
        set+=(-genv "${variable%%=*}" "${variable#*=}")
    done
    # mpirun takes a rank that ends without MPI_Finalize for one that was hung up, or gives the end of
    # another that it killed for it, now and then: of 300 bare programs that exit with 3 beside a busy
    # processor three gave 1. Or it dies of SIGPIPE (141) where ranks end at once. Not three in a row.
    for _ in 1 2 3; do
        status=0
        rm -rf "$WORK/ranks" && mkdir "$WORK/ranks"
        EDGE_DIR=$WORK/ranks timeout -k 5 "${LIMIT:-60}" "$MPIRUN" -n "$ranks" \
            ${set[@]+"${set[@]}"} "$WORK/rank" "$@" \
            >"$WORK/ranks/mpirun.out" 2>"$WORK/ranks/mpirun.err" </dev/null || status=$?
        [ "$status" -eq 141 ] || grep -qE 'Hangup \(signal 1\)|Killed \(signal 9\)' "$WORK/ranks/mpirun.out" || break
    done
    if grep -q 'HYDU_create_process' "$WORK/ranks/mpirun.err"; then
        echo "Bail out! $* could not be started"
        exit 1
    fi
    # If a rank of Open MPI aborts, it depends on the time how far the other ranks come, and mpirun says
    # so in one of three ways.
    if [ "${FLAVOUR%[45]}" = openmpi ]; then
        [ "$status" -eq 0 ] || rm -f "$WORK"/ranks/*
        : >"$WORK/ranks/mpirun.err"
        [ -e "$WORK/ranks/mpirun.out" ] || : >"$WORK/ranks/mpirun.out"
    fi
    sort -o "$WORK/ranks/mpirun.out" "$WORK/ranks/mpirun.out" # children that it started
    {
        echo "exit status $status"
        (cd "$WORK/ranks" && grep -a '' -- *) | settle
    } >"$WORK/$name"
}

# form FORM: the settings of a form, as variables.
form() {
    case $1 in
    default) ;;
    small) echo EDGE_COUNT=1000 SPARSESHIM_MIN_COUNT=1 ;;
    observe) echo SPARSESHIM_MODE=observe ;;
    *) echo "SPARSESHIM_PROGRESS=$1" ;;
    esac
}

# alike FORM RANKS NAME COMMAND...: one line of TAP.
alike() {
    local form=$1 ranks=$2 name=$3 result=0
    shift 3
    read -ra VARIABLES <<<"$(form "$form")"
    VARIABLES+=("LD_PRELOAD=$LOADED $YIELDS")
    ended preloaded "$ranks" "$@"
    if ! diff "$WORK/bare" "$WORK/preloaded" >"$WORK/out" 2>&1; then
        result=1
        if [ "$form" = small ]; then # small messages may go other ways in the bare library, too
            VARIABLES=(EDGE_COUNT=1000 "LD_PRELOAD=$YIELDS")
            ended small "$ranks" "$@"
            diff "$WORK/small" "$WORK/preloaded" >"$WORK/out" 2>&1 && result=0
        fi
    fi
    VARIABLES=()
    if [ "$result" -ne 0 ]; then
        read -r _ _ STATUS <"$WORK/preloaded"
        rm -f "$WORK/err"
        head -n 30 "$WORK/out" >"$WORK/head" && mv "$WORK/head" "$WORK/out"
    fi
    tap "$result" "$name ($form)"
}

# edge KIND RANKS NAME PROGRAM [ARGUMENT...]. KIND: any; low, where what is shown depends on the
# level of threads, which PROGRESS=watchdog and thread raise; once, for the default form only;
# moved, for PROGRESS=watchdog and thread as well in every run; long, as moved, with
# HARMLESS_FORMS=all only.
edge() {
    local kind=$1 ranks=$2 name=$3 program=$4
    local -a forms=(small observe off) run
    shift 4
    [[ "$program $*" == *$ONLY* ]] || return 0
    if [ "$kind" = long ]; then
        [ "$FORMS" = all ] || return 0
        kind=moved
    fi
    [ "$kind" = any ] && forms+=(watchdog thread)
    run=(default)
    ((TURN % 4)) || run+=("${forms[TURN / 4 % ${#forms[@]}]}")
    [ "$kind" = once ] && run=(default)
    [ "$kind" = moved ] && run=(default watchdog thread)
    [ "$FORMS" = all ] && run=(default "${forms[@]}")
    [ "$FORMS" = small ] && run=(small)
    TURN=$((TURN + 1))
    VARIABLES=("LD_PRELOAD=$YIELDS")
    ended bare "$ranks" "$PROGRAMS/$program" "$@"
    if grep -qE '^exit status (124|137)$' "$WORK/bare"; then
        head -n 30 "$WORK/bare" >"$WORK/out"
        rm -f "$WORK/err"
        tap 1 "$name (the bare program does not end)"
        return
    fi
    for form in "${run[@]}"; do
        alike "$form" "$ranks" "$name" "$PROGRAMS/$program" "$@"
    done
}

# ---- error handlers ----
edge low 2 "a handler calls MPI_Abort before any sum" edge_errors abort-first
edge low 2 "a handler calls MPI_Abort after sums" edge_errors abort-after-sums
edge low 2 "a handler calls MPI_Abort while a nonblocking sum is under way" edge_errors abort-pending
edge low 2 "a handler calls MPI_Abort for an allreduce" edge_errors abort-allreduce
edge low 2 "a handler calls MPI_Abort for a nonblocking allreduce" edge_errors abort-iallreduce
edge low 2 "a handler calls MPI_Abort in MPI_Wait" edge_errors abort-wait
edge any 2 "a handler that the program calls itself calls MPI_Abort" edge_errors abort-own
edge low 2 "a window's handler calls MPI_Abort" edge_errors abort-window
edge any 2 "a file's handler calls MPI_Abort" edge_errors abort-file
edge any 2 "an error is fatal by default" edge_errors abort-default
edge any 2 "MPI_Abort's exit code" edge_errors abort
edge low 3 "a handler sends, probes and reduces" edge_errors talks
edge low 2 "a handler sends, probes and reduces at MPI_THREAD_FUNNELED" edge_errors talks-funneled
edge low 2 "a handler makes large sums" edge_errors sums
edge low 2 "callbacks of generalized requests call MPI" edge_errors greq

# ---- threads ----
for level in init 0 1 2 3; do
    edge any 2 "the level of threads is the MPI library's ($level)" edge_threads levels "$level"
done
edge any 2 "the level of threads that the user sets" edge_threads level-env
edge low 2 "the level of threads under MPICH's own progress thread" edge_threads async-progress
edge low 2 "no thread but the program's" edge_threads threads

# ---- first exchange ----
for level in "" -multiple; do
    at=${level:+" at MPI_THREAD_MULTIPLE"}
    edge long 2 "no communicator is left before the first call$at" edge_exchange "contexts$level" 0
    edge long 2 "one communicator is left before the first call$at" edge_exchange "contexts$level" 1
    edge any 2 "one rank has used up its communicators$at" edge_exchange "contexts-uneven$level"
    edge any 3 "messages of the program are its own$at" edge_exchange "messages$level"
done
# What moves buffers takes refusals under a handler of its own, which errors beside them meet, too.
on_host "what moves buffers sets other error handlers for a moment"
edge any 2 "errors on MPI_COMM_SELF beside first calls reach their handler" edge_exchange errors-self
edge any 2 "errors on a communicator beside its first call reach their handler" \
    edge_exchange errors-same
# A call that is refused for its buffers has an error code of its own, which MPI_LASTUSEDCODE counts.
on_host "the refusal of a nonblocking call is seen in an attribute"
edge any 2 "names, info and attributes of communicators" edge_exchange names
at_all_places
edge any 2 "gathers of datatypes that are not committed beside a first call" edge_args uncommitted
edge moved 2 "gathers of datatypes that are not committed while the ranks still meet" \
    edge_args uncommitted-multiple
edge any 2 "gathers of datatypes that are not committed where sparse ones are served" \
    edge_args uncommitted-zeros
edge moved 2 "gathers of datatypes that are not committed, served at MPI_THREAD_MULTIPLE" \
    edge_args uncommitted-zeros-multiple

# ---- arguments ----
for how in return counting; do
    edge any 2 "wrong arguments of each call ($how)" edge_wrong wrong "$how"
    edge any 2 "wrong arguments of each call at MPI_THREAD_MULTIPLE ($how)" \
        edge_wrong wrong-multiple "$how"
done
# Those that end the program.
for call in allreduce allreduce_c; do
    for mistake in count type-null type-bad; do
        edge once 2 "$call with a wrong argument ($mistake)" edge_wrong wrong return "$call" "$mistake"
    done
done
for level in "" -multiple; do
    at=${level:+" at MPI_THREAD_MULTIPLE"}
    edge any 2 "gathers more than 2^31 elements apart$at" edge_args "far$level"
    edge any 2 "buffers that end where no memory is$at" edge_args "page-ends$level"
    edge any 2 "send buffers that cannot be written$at" edge_args "read-only$level"
    edge any 2 "a thread with a stack of 256 KiB$at" edge_args "stack$level" 256
done
edge any 2 "errno stays" edge_args errno

# ---- the end ----
for level in "" -multiple; do
    at=${level:+" at MPI_THREAD_MULTIPLE"}
    edge any 2 "callbacks of MPI_COMM_SELF, set before the first call, sum$at" \
        edge_finalize "before$level"
    edge any 3 "callbacks of MPI_COMM_SELF, set after the first call, sum$at" \
        edge_finalize "after$level"
    edge any 2 "callbacks of MPI_COMM_SELF, set before on one rank and after on others, sum$at" \
        edge_finalize "mixed$level"
    edge any 2 "callbacks of MPI_COMM_WORLD, set before on one rank and after on others, sum$at" \
        edge_finalize "world$level"
    edge any 2 "callbacks of MPI_COMM_SELF make the first call$at" edge_finalize "alone$level"
    edge once 2 "a rank is 3 s late to MPI_Finalize$at" edge_finalize "late$level"
    edge once 3 "a rank is stopped for 3 s before MPI_Finalize$at" edge_finalize "stopped$level"
    edge any 2 "exit without MPI_Finalize$at" edge_finalize "exit$level" 3
done
edge any 2 "callbacks of MPI_COMM_SELF come in their order" edge_finalize order
edge any 2 "a callback of MPI_COMM_SELF fails" edge_finalize fails
edge any 2 "a rank is late to the last sum" edge_finalize last-sum
edge any 2 "a rank is late to complete the last sum" edge_finalize complete
edge any 2 "sessions outlive MPI_Finalize" edge_finalize outlives 0
edge any 2 "sessions outlive MPI_Finalize, and make the first call after it" \
    edge_finalize outlives 1
edge any 2 "sessions outlive MPI_Finalize, opened in another order on each rank" \
    edge_finalize outlives 2
edge any 2 "sessions outlive MPI_Finalize, longer on one rank" edge_finalize outlives 3
edge any 2 "two sessions, no MPI_Init" edge_finalize sessions
edge any 2 "MPI_Finalize in an exit handler" edge_finalize atexit
edge any 2 "a sum before MPI_Init" edge_finalize sum-before
edge any 2 "a sum after MPI_Finalize" edge_finalize sum-after
edge any 2 "a rank is killed" edge_finalize killed
edge any 2 "no sum is made" edge_finalize no-sum
edge any 2 "MPI is not initialised" edge_finalize no-init
edge any 2 "nothing but MPI_Init" edge_finalize init-only
edge any 2 "MPI_Pcontrol of a program that means something else" edge_finalize pcontrol
edge any 2 "MPI_Pcontrol after MPI_Finalize" edge_finalize pcontrol-after
edge any 2 "what may be asked after MPI_Finalize" edge_finalize after-finalize

# ---- processes ----
for level in "" -multiple; do
    at=${level:+" at MPI_THREAD_MULTIPLE"}
    edge any 2 "children of a rank$at" edge_process "forks$level"
    edge any 2 "children of a rank while a sum is under way$at" edge_process "forks-pending$level"
    edge any 2 "a timer interrupts sums$at" edge_process "interrupted$level"
    edge any 2 "no file stays open$at" edge_process "files$level"
    edge any 2 "limits that a program sets itself$at" edge_process "limited$level"
    edge any 2 "spawned processes and the merged communicator$at" edge_process "spawn$level"
    edge any 4 "worlds that meet by a port$at" edge_process "connect$level"
done
edge any 2 "another program after MPI_Finalize" edge_process replaced
edge any 2 "signals that a program waits for" edge_process awaited
edge any 2 "signals that a program waits for at MPI_THREAD_MULTIPLE" edge_process awaited multiple
edge any 2 "handlers and masks of signals" edge_process handlers-stay
edge any 2 "nothing is written to standard error's number" edge_process closed

# ---- communicators and requests ----
for level in "" -multiple; do
    at=${level:+" at MPI_THREAD_MULTIPLE"}
    edge any 3 "callbacks of a communicator that is freed sum on it$at" edge_freed "freed$level"
    edge any 3 "... and make its first calls$at" edge_freed "freed-first$level"
    edge any 3 "... by MPI_Comm_disconnect$at" edge_freed "disconnected$level"
    edge any 3 "... and gather on it$at" edge_freed "freed-gathers$level"
    edge any 2 "a communicator that one rank has is freed, its handle given to a larger one$at" \
        edge_freed "freed-alone$level"
    edge any 2 "a communicator lives on where a callback has failed$at" \
        edge_freed "free-fails$level"
done

# ---- Fortran ----
for level in init 0 1 2 3; do
    edge low 2 "mpi_f08: the level of threads is the MPI library's ($level)" \
        edge_f08 levels "$level"
done
for level in init 3; do
    edge low 3 "mpi_f08: lists of a nonblocking gather are let go at once ($level)" \
        edge_f08 lists "$level"
    edge low 2 "mpi_f08: operators run in the program's thread ($level)" edge_f08 operators "$level"
    edge low 2 "mpi_f08: a handler counts ($level)" edge_f08 handler "$level"
done
edge low 2 "mpi_f08: a handler calls MPI_Abort" edge_f08 abort init
finish
