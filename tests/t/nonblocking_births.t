#!/usr/bin/env bash
# Where nonblocking calls are taken over, sums are right on communicators made in every way, whether
# the ranks serve them or not, and whatever else the program does between them: under MPICH, Debian's
# Open MPI, and the standard ABI.
set -u
. tests/t/lib.sh
on_host "the calls are of the host"
export SPARSESHIM_MIN_COUNT=1000 SPARSESHIM_ALPHA=2e-5 SPARSESHIM_BETA=8.1e-9 LIMIT=${LIMIT:-180}
WATCHDOG=SPARSESHIM_PROGRESS=watchdog
# A rule that names none of the counts here: all sums stay exact.
TOPK='SPARSESHIM_MODE=topk SPARSESHIM_REGISTER=count=5000:5001:calls=1'
OUT='SPARSESHIM_PROGRAMS=!nb_*'

# with SETTINGS RANKS PROGRAM [ARGUMENT...]: a run under these settings, NAME=VALUE each. LEAST: so many
# calls at least are made sparse.
with() {
    local setting settings
    read -ra settings <<<"$1"
    for setting in "${settings[@]}"; do
        local -x "${setting?}"
    done
    shift
    preloaded "$@"
    tap_passed "$NAME, ${settings[*]#SPARSESHIM_}: $2 ${*:3} on $1 ranks" ${LEAST:+"$LEAST"}
}

# made COUNT: calls with so many elements that the report says were made sparse.
made() {
    cat "$WORK"/report/*.json 2>/dev/null | sed -n "s/.*\"lane\": .*\"count\": $1, .*\"sparse\": {\([^}]*\)}.*/\1/p" |
        grep -o '[0-9]*' | awk '{ calls += $1 } END { print calls + 0 }'
}

# served SETTINGS: sums on communicators made in every way are served with these settings.
served() {
    local result=0 count sparse setting settings
    read -ra settings <<<"$1"
    for setting in "${settings[@]}"; do
        local -x "${setting?}"
    done
    local -x MPIR_CVAR_NOLOCAL=0 # MPI_Comm_split_type finds all ranks on one host
    preloaded 3 nb_births served
    passed || result=1
    while read -r count; do
        sparse=$(made "$count")
        [ "$sparse" -lt 8 ] || continue
        echo "$count floats: $sparse of 10 sums were made sparse" >>"$WORK/err"
        result=1
    done < <(sed -n 's/.* \([0-9]*\) floats, served$/\1/p' "$WORK/out")
    grep -q 'floats, served$' "$WORK/out" || result=1
    tap "$result" "$NAME, ${settings[*]#SPARSESHIM_}: sums are served, however the communicator is made"
}

# between_programs SETTINGS: rank 1 runs a program that is left out.
between_programs() {
    cp "$PROGRAMS/nb_births" "$WORK/left_out"
    within "$LIMIT" "$MPIRUN" -n 1 env LD_PRELOAD="$LIB" "SPARSESHIM_PROGRAMS=!left_out" "$1" "$PROGRAMS/nb_births" fourth : \
        -n 1 env LD_PRELOAD="$LIB" "SPARSESHIM_PROGRAMS=!left_out" "$1" "$WORK/left_out" fourth
    tap_passed "$NAME, ${1#SPARSESHIM_}: the program of one rank is left out"
}

# lone COMPILER: one rank makes communicators in another way than the others, with a profiler below.
lone() {
    local what
    printf '%s\n' '#include <mpi.h>' 'int MPI_Comm_dup(MPI_Comm c, MPI_Comm *made)' \
        '{ int r; PMPI_Comm_rank(c, &r); return PMPI_Comm_split(c, 0, r, made); }' >"$WORK/splits.c"
    printf '%s\n' '#include <mpi.h>' 'int MPI_Comm_dup(MPI_Comm c, MPI_Comm *made) { return PMPI_Comm_dup(c, made); }' \
        >"$WORK/dups.c"
    for what in splits dups; do
        "$1" -shared -fPIC -o "$WORK/$what.so" "$WORK/$what.c" 2>"$WORK/err" || return
    done
    for what in failed copied; do
        with "$WATCHDOG" 2 nb_lone "$what"
    done
    PRELOAD="$LIB $WORK/dups.so" with "$WATCHDOG" 2 nb_lone register
    PRELOAD="$LIB $WORK/splits.so" with "$WATCHDOG" 2 nb_lone wrapped
    with "SPARSESHIM_MODE=topk SPARSESHIM_REGISTER=comm=gradients:calls=2 SPARSESHIM_DENSITY=1 SPARSESHIM_MIN_COUNT=1000" \
        2 nb_lone named
    grep -q 'lossy .*1 of 1 tensors\|lossy .*2 of 2 tensors' "$WORK/err"
    tap "$?" "$NAME: a rule takes the sums of a communicator by the name that it was given later"
}

births() {
    local scenario kind
    served "$WATCHDOG"
    LEAST=250 with "$WATCHDOG" 3 nb_births fourth
    for scenario in operator type keyval copy; do
        with "$WATCHDOG" 3 nb_births "$scenario"
    done
    for scenario in pairs crossed chain churn; do
        with "$WATCHDOG" 3 nb_crowd "$scenario"
    done
    for kind in max double dup; do
        with "$WATCHDOG $OUT" 2 nb_births fourth world "$kind"
    done
    with "$WATCHDOG $OUT" 2 nb_births fourth
    with "$WATCHDOG $OUT" 2 nb_births copy
    with "$WATCHDOG SPARSESHIM_MODE=observe" 2 nb_births operator
    between_programs "$WATCHDOG"
    with "$TOPK" 3 nb_births operator
    with "$TOPK" 2 nb_births fourth
    with SPARSESHIM_PROGRESS=auto 2 nb_births fourth
    with SPARSESHIM_PROGRESS=auto 3 nb_births operator
    with SPARSESHIM_PROGRESS=auto 3 nb_crowd crossed
}

# Without Open MPI, which crashes if a communicator with a call in flight is freed.
more() {
    with "$WATCHDOG" 3 nb_births free
    with "$TOPK" 2 nb_births free
    with "$TOPK $OUT" 2 nb_births fourth
    with SPARSESHIM_PROGRESS=thread 3 nb_births fourth
    with SPARSESHIM_PROGRESS=thread 3 nb_crowd pairs
    with SPARSESHIM_PROGRESS=auto 2 nb_births copy
    with SPARSESHIM_PROGRESS=auto 2 nb_births free
}

# compile COMPILER [OPTION...]: builds the programs with the library in LIBRARY.
compile() {
    local program
    PROGRAMS=$WORK/$FLAVOUR
    mkdir "$PROGRAMS"
    for program in nb_births nb_crowd nb_lone; do
        "$1" -std=c17 -D_GNU_SOURCE -I. "${@:2}" -pthread -o "$PROGRAMS/$program" "tests/mpi/nonblocking/$program.c" \
            "${LIBRARY[@]}" -lm -ldl 2>"$WORK/err" || return
    done
}

NAME=MPICH
births
lone "${MPICC:-mpicc.mpich}"
more
FLAVOUR=abi
VENV=$BUILD/abi-venv
MPICH_WHEEL=mpich==5.0.2 scripts/with-mpich-wheel "$VENV" true >"$WORK/out" 2>"$WORK/err"
if [ -e "$VENV/include/mpi_abi.h" ]; then
    use_flavour abi
    unset MPIR_CVAR_NOLOCAL # MPI_Dist_graph_create of MPICH 5 hangs with it
    NAME="standard ABI"
    mkdir "$WORK/include"
    ln -s "$VENV/include/mpi_abi.h" "$WORK/include/mpi.h"
    LIBRARY=("$VENV/lib/libmpi_abi.so.1" "-Wl,-rpath,$VENV/lib")
    compile "${CC:-cc}" "-I$WORK/include"
    tap "$?" "$NAME: the programs compile"
    served "$WATCHDOG"
    with "$WATCHDOG" 3 nb_births operator
    with "$WATCHDOG $OUT" 2 nb_births fourth
    with "$WATCHDOG" 3 nb_crowd pairs
    with "$WATCHDOG" 3 nb_crowd crossed
    with "$WATCHDOG" 3 nb_births free
    with "$TOPK" 2 nb_births fourth
else
    skip "the standard ABI" "no wheel from PyPI: $(tail -n 1 "$WORK/err")"
fi
FLAVOUR=openmpi4
if command -v mpicc.openmpi >"$WORK/out" && command -v mpirun.openmpi >"$WORK/out"; then
    use_flavour openmpi4
    NAME="Open MPI 4.1" YIELDS='' LIBRARY=()
    compile mpicc.openmpi -include tests/mpi/support/older_mpi.h
    tap "$?" "$NAME: the programs compile"
    births
    lone mpicc.openmpi
else
    skip "Open MPI 4.1" "it is not installed (openmpi-bin, libopenmpi-dev)"
fi
finish
