#!/usr/bin/env bash
# One job whose ranks are programs of different languages: they agree on taking over nonblocking
# calls, whether the first call on the communicator is a nonblocking one or a blocking one.
set -u
. tests/t/lib.sh
. tests/t/python.sh

# together FIRST LANGUAGE...: one job with a rank of each language, in this order.
together() {
    local first=$1 language ranks=()
    shift
    for language; do
        case $language in
        # Its MPI is in a scope where tests/preload/to_device.c does not find it: buffers of the host.
        python) ranks+=(: -n 1 ${PRELOAD:+-env LD_PRELOAD "$LIB $YIELDS"} "$PYTHON" tests/py/mixed.py "$first") ;;
        c) ranks+=(: -n 1 "$PROGRAMS/nb_mixed" "$first") ;;
        funneled) ranks+=(: -n 1 "$PROGRAMS/nb_mixed" "$first" funneled) ;;
        *) ranks+=(: -n 1 "$PROGRAMS/nb_mixed_$language" "$first") ;;
        esac
    done
    within 60 "$MPIRUN" -genv LD_PRELOAD "${PRELOAD:-} $YIELDS" "${ranks[@]:1}"
}

languages=(c f08 mpi mpif python)
PYTHON=$BUILD/venv/bin/python
if ! have_mpi4py; then
    skip "a rank in mpi4py" "it could not be built from PyPI: $(tail -n 1 "$WORK/err")"
    languages=(c f08 mpi mpif)
fi

# 20 steps of 4 nonblocking calls and a blocking one. The first call of all is native, and the second
# where both are nonblocking.
for first in nonblocking blocking; do
    PRELOAD='' together "$first" "${languages[@]}"
    tap_passed "${languages[*]}: $first call first, bare"
    PRELOAD=$LOADED
    # Each order runs with both, over the two first calls.
    progress=watchdog other=thread
    [ "$first" = nonblocking ] || { progress=thread other=watchdog; }
    for ((i = 0; i < ${#languages[@]}; i++)); do
        order=("${languages[@]:i}" "${languages[@]:0:i}")
        SPARSESHIM_ALGORITHM=split_allgather SPARSESHIM_PROGRESS=$progress \
            together "$first" "${order[@]}"
        tap_taken "${order[*]}: $first call first, PROGRESS=$progress" 78 98
        read -r progress other <<<"$other $progress"
    done
    order=(funneled "${languages[@]:1}")
    SPARSESHIM_PROGRESS=watchdog together "$first" "${order[@]}"
    tap_taken "${order[*]}: $first call first, ranks ask for different thread levels" 78
    together "$first" "${order[@]}"
    tap_taken_none "${order[*]}: $first call first, only some ranks run at MPI_THREAD_MULTIPLE"
    SPARSESHIM_PROGRESS=off together "$first" "${languages[@]}"
    tap_taken_none "${languages[*]}: $first call first, PROGRESS=off"
done

# MPI_Init leaves the level to this variable, MPI_Init_thread does not: all ranks raise it.
for first in nonblocking blocking; do
    SPARSESHIM_PROGRESS=watchdog MPIR_CVAR_DEFAULT_THREAD_LEVEL=mpi_thread_funneled \
        together "$first" funneled f08 mpi c
    tap_taken "$first call first, the user names a level for MPI_Init" 78
done

finish
