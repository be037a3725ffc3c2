# shellcheck shell=bash
# What the scripts share that run MPI programs bare and preloaded, and print TAP. Sourced from the
# repository root.

BUILD=${BUILD:-build}
case $BUILD in
/*) ;;
*) BUILD=$PWD/$BUILD ;;
esac
LIB=$BUILD/libsparseshim.so
# python_without_shim: python3 is the interpreter itself from here on. A version manager has a script in
# PATH that takes ten times as long as Python to start.
python_without_shim() {
    mkdir "$WORK/python" || return
    printf '#!/bin/sh\nexec %s "$@"\n' "$(python3 -c 'import sys; print(sys.executable)')" >"$WORK/python/python3"
    chmod +x "$WORK/python/python3"
    PATH=$WORK/python:$PATH
}
# FLAVOUR is the MPI library that programs are built and run with: mpich (Debian's), abi (MPICH of
# PyPI by libmpi_abi), mpich5 (the same by libmpi), openmpi4 (Debian's), openmpi5, mpich3 (of PyPI).
# tests/t/other_mpi lists the tests that are skipped under the others than mpich.
FLAVOUR=${FLAVOUR:-mpich}
# use_flavour NAME: the programs that follow run with it, and are in $BUILD/tests/NAME.
use_flavour() {
    PROGRAMS=$BUILD/tests/$1
    case $1 in
    mpich) PROGRAMS=$BUILD/tests/mpi ;;
    abi | mpich5)
        MPIRUN=$BUILD/abi-venv/bin/mpiexec
        export MPIR_CVAR_POSIX_NUM_COLLS_THRESHOLD=1000000000
        ;;
    mpich3)
        MPIRUN=$BUILD/mpich3-venv/bin/mpiexec
        export MPIR_CVAR_POLLS_BEFORE_YIELD=1
        ;;
    openmpi4)
        MPIRUN=$PWD/tests/t/open-mpirun
        export OPEN_MPIRUN=mpirun.openmpi OPEN_BTL=self,vader,tcp
        ;;
    openmpi5)
        MPIRUN=$PWD/tests/t/open-mpirun
        export OPEN_MPIRUN=$BUILD/openmpi-venv/bin/mpirun OPEN_BTL=self,sm,tcp
        ;;
    esac
}
use_flavour "$FLAVOUR"
# Ranks that wait make room for others (tests/preload/yields.c). YIELDS= runs them without it.
YIELDS=${YIELDS-$BUILD/tests/mpi/yields.so}
MPIRUN=${MPIRUN:-mpirun.mpich}
# Ranks start in two thirds of the processor time if UCX does not look for networks and hwloc not for
# PCI devices, and in nine tenths of that if hwloc loads no plugins: one of them asks an X server for
# GPUs. These are the transports that UCX takes by itself on one host.
export UCX_TLS=sysv,cma,self HWLOC_COMPONENTS=-pci,-linux:pci,-linux:io HWLOC_PLUGINS_PATH=/nonexistent
# MPICH's shared memory is left out, too: in MPI_Init ranks poll in it without a call that yields.so
# hears, a third of the processor time of a start. UCX's shared memory carries the messages. Files that
# want MPICH's unset the variable; other builds of MPICH have it always.
[ "$MPIRUN" != mpirun.mpich ] || export MPIR_CVAR_NOLOCAL=${MPIR_CVAR_NOLOCAL:-1}
if [ ! -e "$LIB" ] || [ ! -x "$PROGRAMS/oracle" ]; then
    echo "Bail out! $LIB or the programs in $PROGRAMS are missing: run make tests"
    exit 1
fi
WORK=$(mktemp -d)
trap 'rm -rf "$WORK"' EXIT
# Open MPI 4 fails if two jobs make the folder of their files at the same time; Open MPI 5 has it elsewhere.
export OMPI_MCA_orte_tmpdir_base=$WORK PRTE_MCA_prte_tmpdir_base=$WORK
TESTS=0
STATUS=0
export SPARSESHIM_MIN_COUNT=${SPARSESHIM_MIN_COUNT:-1}

# ON_DEVICE puts the buffers of preloaded programs into device memory, of a driver for tests
# (tests/preload/to_device.c); its values are explained there. LOADED is what to preload then.
if [ -n "${ON_DEVICE:-}" ]; then
    export ON_DEVICE TEST_CUDA_KERNELS=$BUILD/tests/gpu/kernels.so
    export LD_LIBRARY_PATH=$BUILD/tests/gpu/driver${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
fi

# on_host REASON, at_one_place, at_all_places: where the buffers of the programs that follow are, of
# those that ON_DEVICE has said.
PLACES=${ON_DEVICE:-}
# shellcheck disable=SC2034 # tests preload it
on_host() {
    [ -z "$PLACES" ] || skip "buffers in device memory" "$1"
    ON_DEVICE=''
    LOADED=$LIB
}
# shellcheck disable=SC2034
at_one_place() {
    ON_DEVICE=${PLACES:+DD}
    LOADED=${PLACES:+$PROGRAMS/to_device.so }$LIB
}
at_all_places() {
    at_one_place
    ON_DEVICE=$PLACES
}
at_all_places

# LAYOUT puts the ranks of preloaded programs on hosts: digits, the hosts of ranks 0, 1, ..., again from
# the first digit on (make check-more PART=node). Exact sums are then made on two levels, in slices
# of SLICE elements or more. tests/t/one_level lists the tests that are skipped then.
LAYOUT=${LAYOUT:-}
ON_TWO_LEVELS=0
declare -A ONE_LEVEL=() LEFT_OUT=()
if [ -n "$LAYOUT" ]; then
    while IFS='|' read -r file test reason; do
        [ "$file" != "${0##*/}" ] || ONE_LEVEL[${test:-all}]=$reason
    done <tests/t/one_level
fi
if [ "$FLAVOUR" != mpich ]; then
    while IFS='|' read -r flavours file test reason; do
        # shellcheck disable=SC2053 # a pattern
        [ "$file" != "${0##*/}" ] || [[ $FLAVOUR != $flavours ]] || ONE_LEVEL[${test:-all}]=$reason
    done <tests/t/other_mpi
fi

# algorithms EXACT|GLOBAL: the words of that list of core/base/choices.h.
algorithms() {
    sed -n "/define SS_$1_LIST(X)/,/[^\\\\]\$/s/.*X(SS_[A-Z_]*, \([a-z_]*\)).*/\1/p" core/base/choices.h
}

# needs_devices WHAT: the file ends here where there is no part for CUDA.
needs_devices() {
    [ ! -e "$BUILD/libsparseshim_cuda.so" ] || return 0
    skip "$1" "libsparseshim_cuda.so is not built: there is no nvcc"
    finish
    exit
}

# tap RESULT NAME: one line; what the last command printed follows where RESULT is not 0.
tap() {
    local test
    for test in "${!ONE_LEVEL[@]}"; do
        # shellcheck disable=SC2053 # a pattern
        [[ $2 == $test ]] || continue
        LEFT_OUT[$test]=1
        skip "$2" "${ONE_LEVEL[$test]}"
        return
    done
    TESTS=$((TESTS + 1))
    if [ "$1" -eq 0 ]; then
        echo "ok $TESTS - $2"
        return
    fi
    echo "not ok $TESTS - $2"
    echo "# exit status $STATUS"
    sed 's/^/# out: /' "$WORK/out" 2>/dev/null
    sed 's/^/# err: /' "$WORK/err" 2>/dev/null | tail -n 40
}

skip() {
    TESTS=$((TESTS + 1))
    echo "ok $TESTS - $1 # SKIP $2"
}

# finish: the end of a file. With a LAYOUT, some calls must have been made on two levels.
finish() {
    if [ -n "$LAYOUT" ]; then
        echo "calls on two levels: $ON_TWO_LEVELS" >"$WORK/err"
        tap $((ON_TWO_LEVELS == 0)) "LAYOUT=$LAYOUT: calls are made on two levels"
        tap $((${#LEFT_OUT[@]} != ${#ONE_LEVEL[@]})) "LAYOUT=$LAYOUT: tests that tests/t/one_level leaves out exist"
    fi
    echo "1..$TESTS"
}

# on_two_levels: calls of the program that ran last that were made on two levels, by the reports.
on_two_levels() {
    cat "$WORK"/report/*.json 2>/dev/null | grep -o '"sparse": {[^}]*}' | grep -o '"two_level": [0-9]*' |
        awk '{ calls += $2 } END { print calls + 0 }'
}

# within SECONDS COMMAND...: runs it; what it printed is left in $WORK/out and $WORK/err, how it
# ended in STATUS (124: it had to be stopped). Emulated devices take their time. Once in thousands
# mpirun itself ends by SIGPIPE (141; a rank by one would be 13), as a rank ends that it writes to,
# and what the ranks said is lost: then again.
within() {
    local limit=$1 turn
    shift
    [ -z "${ON_DEVICE:-}" ] || limit=$((4 * limit))
    if [ -n "$LAYOUT" ]; then
        local -x SPARSESHIM_TEST=${SPARSESHIM_TEST:+$SPARSESHIM_TEST,}layout=$LAYOUT,slice=${SLICE:-16}
        local -x SPARSESHIM_NODE_AGGREGATION=${SPARSESHIM_NODE_AGGREGATION:-on}
    fi
    for turn in 1 2 3; do
        rm -rf "$WORK/report"
        STATUS=0
        SPARSESHIM_REPORT=rank0 SPARSESHIM_REPORT_DIR=$WORK/report \
            timeout -k 5 "$limit" "$@" >"$WORK/out" 2>"$WORK/err" </dev/null || STATUS=$?
        [ "$STATUS" -eq 141 ] && [ "$turn" -lt 3 ] || break
    done
    if grep -q 'HYDU_create_process' "$WORK/err"; then
        echo "Bail out! $* could not be started"
        exit 1
    fi
    [ -z "$LAYOUT" ] || ON_TWO_LEVELS=$((ON_TWO_LEVELS + $(on_two_levels)))
}

# bare RANKS PROGRAM [ARGUMENT...]
bare() {
    local ranks=$1 program=$2
    shift 2
    within "${LIMIT:-60}" "$MPIRUN" -n "$ranks" -genv LD_PRELOAD "$YIELDS" "$PROGRAMS/$program" "$@"
}

# preloaded RANKS PROGRAM [ARGUMENT...]
preloaded() {
    local ranks=$1 program=$2
    shift 2
    within "${LIMIT:-60}" "$MPIRUN" -n "$ranks" -genv LD_PRELOAD "${ON_DEVICE:+$PROGRAMS/to_device.so }${PRELOAD:-$LIB} $YIELDS" \
        "$PROGRAMS/$program" "$@"
}

# Succeeds if the program that ran last printed TAP to its end and no test of it failed.
passed() {
    [ "$STATUS" -eq 0 ] && grep -q '^1\.\.' "$WORK/out" && ! grep -q '^not ok' "$WORK/out"
}

# reported [OPTION...]: what `sparseshim report` prints of the report that rank 0 wrote last.
# shellcheck disable=SC2120
reported() {
    "$BUILD/sparseshim" report "$@" "$WORK"/report/*.json
}

# counter OBJECT.KEY: a value of the report that rank 0 wrote last (true: 1, false: 0); "none" without a
# report, without the key and for null. The report has a line for each key, which awk reads in a tenth
# of the time in which Perl loads its parser.
counter() {
    cat "$WORK"/report/*.json 2>/dev/null | awk -v object="  \"${1%.*}\": {" -v key="    \"${1#*.}\": " '
        /^  "/ { inside = $0 == object }
        inside && index($0, key) == 1 {
            value = substr($0, length(key) + 1)
            sub(/,$/, "", value)
            gsub(/^"|"$/, "", value)
        }
        END { print value == "true" ? 1 : value == "false" ? 0 : value == "" || value == "null" ? "none" : value }'
}

# passed_for KEY: calls passed through for this reason, by the report.
passed_for() {
    cat "$WORK"/report/*.json 2>/dev/null | awk -v begin="    {\"reason\": \"$1\", \"calls\": " '
        index($0, begin) == 1 { calls += substr($0, length(begin) + 1) }
        END { print calls + 0 }'
}

# tensors KEY=VALUE...: how many tensors of the report have all these values ("null": none).
tensors() {
    cat "$WORK"/report/*.json 2>/dev/null | awk '
        BEGIN { for (i = 1; i < ARGC; i++) wanted[i] = ARGV[i]; wanting = ARGC - 1; ARGC = 1 }
        index($0, "    {\"tensor\": ") == 1 {
            line = $0
            gsub(/"/, "", line)
            sub(/}[ ,]*$/, ",", line)
            has = 1
            for (i = 1; i <= wanting; i++) {
                key = wanted[i]
                sub(/=/, ": ", key)
                has = has && index(line, " " key ",") > 0
            }
            found += has
        }
        END { print found + 0 }' "$@"
}

# sparse_calls LEAST: whether at least so many calls were made sparse.
sparse_calls() {
    local made
    made=$(counter calls.sparse)
    [ "$made" != none ] && [ "$made" -ge "$1" ] && return 0
    echo "calls made sparse: $made, expected at least $1" >>"$WORK/err"
    return 1
}

# tap_no_sparse NAME: there is a report, and no call was made sparse.
tap_no_sparse() {
    local made
    made=$(counter calls.sparse)
    echo "calls made sparse: $made" >"$WORK/err"
    [ "$made" = 0 ]
    tap "$?" "$1"
}

# tap_passed NAME [LEAST]: the program passed, and at least so many of its calls were made sparse. If
# the program skipped a test of its own, the line says so.
tap_passed() {
    local result=0 skipped
    passed || result=1
    if [ "$result" -eq 0 ] && [ $# -gt 1 ]; then
        sparse_calls "$2" || result=1
    fi
    skipped=$(sed -n 's/^ok [0-9]* - \(.*\) # SKIP \(.*\)/\1: \2/p' "$WORK/out")
    if [ "$result" -eq 0 ] && [ -n "$skipped" ]; then
        skip "$1" "$skipped"
    else
        tap "$result" "$1"
    fi
}

# tap_taken NAME LEAST [SPARSE]: the program passed, and at least so many of its nonblocking calls
# were taken over, and at least SPARSE of all its calls made sparse, by the report.
tap_taken() {
    local result=0 taken
    passed || result=1
    taken=$(counter calls.nonblocking)
    if [ "$taken" = none ] || [ "$taken" -lt "$2" ]; then
        echo "nonblocking calls taken over: $taken, expected at least $2" >>"$WORK/err"
        result=1
    fi
    if [ $# -gt 2 ]; then
        sparse_calls "$3" || result=1
    fi
    tap "$result" "$1"
}

# tap_taken_none NAME: the program passed, there is a report, and no nonblocking call was taken over.
tap_taken_none() {
    local result=0 taken
    passed || result=1
    taken=$(counter calls.nonblocking)
    if [ "$taken" != 0 ]; then
        echo "nonblocking calls taken over: $taken, expected none" >>"$WORK/err"
        result=1
    fi
    tap "$result" "$1"
}
