#!/usr/bin/env bash
# Sums of floats made in a rounding mode of the program's, or with traps, are the MPI library's, and
# so are its exceptions; where a sum of ours overflows the program hears of it.
set -u
. tests/t/lib.sh
export SPARSESHIM_ALGORITHM=split_allgather SPARSESHIM_ALPHA=2e-5 SPARSESHIM_BETA=8.1e-9
on_host "exceptions of sums in device memory are not promised"

# tap_sums NAME SPARSE NATIVE: the program passed, so many of its calls were made sparse, and so many
# were the MPI library's because of the environment.
tap_sums() {
    local result=0
    passed && [ "$(counter calls.sparse)" = "$2" ] && [ "$(passed_for environment)" = "$3" ] ||
        result=1
    echo "sparse $(counter calls.sparse), native $(passed_for environment)" >>"$WORK/err"
    tap "$result" "$1"
}

for what in 'upward 1' 'downward -1' 'zero 0' 'overflow 1' 'divbyzero -1'; do
    # shellcheck disable=SC2086
    preloaded 2 fpsums mode $what
    tap_sums "mode, rank $what: sums are native on all ranks, integers and what follows are not" 4 16
done
for progress in thread off; do
    SPARSESHIM_PROGRESS=$progress preloaded 3 fpsums mode upward -1
    tap_passed "upward on 3 ranks, PROGRESS=$progress" 4
done
SPARSESHIM_MODE=observe preloaded 2 fpsums mode upward 1
tap_sums "MODE=observe reports it" 0 16
SPARSESHIM_MODE=topk SPARSESHIM_REGISTER='*:calls=1' SPARSESHIM_TEST=identity_steps=1 SPARSESHIM_DENSITY=0.05 \
    SPARSESHIM_ALGORITHM=allgather preloaded 2 fpsums mode downward 1
tap_sums "MODE=topk" 5 16
for what in x87 flush; do
    preloaded 2 fpsums control "$what"
    tap_sums "$what does not count" 3 0
done
preloaded 2 fpsums between
tap_sums "a mode set behind MPI_Iallreduce is kept and does not count" 3 0
while read -r progress sparse; do
    SPARSESHIM_PROGRESS=$progress preloaded 2 fpsums intervals
    tap_sums "bounds of intervals hold, PROGRESS=$progress" "$sparse" 20
    SPARSESHIM_PROGRESS=$progress preloaded 2 fpsums message
    tap_sums "a message that another rank sends behind its MPI_Wait, PROGRESS=$progress" "$sparse" 10
    SPARSESHIM_PROGRESS=$progress preloaded 2 fpsums own
    tap_passed "sums behind reductions with an own operator have their mode, PROGRESS=$progress"
done <<'END' # the first call passes through, unless MPI_Init has made the first exchange
auto 2
thread 3
END

# ---- exceptions ----

for algorithm in $(algorithms EXACT); do
    SPARSESHIM_ALGORITHM=$algorithm preloaded 3 fpsums raised
    tap_sums "$algorithm: overflow is raised on all ranks" 130 0
done
SPARSESHIM_PROGRESS=thread preloaded 2 fpsums raised
tap_sums "PROGRESS=thread: overflow is raised in the program's thread" 131 0
for progress in thread watchdog off; do
    SPARSESHIM_PROGRESS=$progress SPARSESHIM_ALGORITHM=dense preloaded 2 fpsums raised somewhere
    tap_sums "ALGORITHM=dense, PROGRESS=$progress: what the MPI library raises is there" 0 0
done
preloaded 2 fpsums quiet
tap_sums "nothing is raised without overflow, nor where Inf or NaN went in" 34 0
for more in MERGE=off MERGE=auto QUORUM=majority QUORUM=solo; do
    where=everywhere
    [ "${more%=*}" = MERGE ] || where=result
    export "SPARSESHIM_$more"
    SPARSESHIM_MODE=topk SPARSESHIM_REGISTER='*:calls=1' SPARSESHIM_TEST=identity_steps=1 SPARSESHIM_DENSITY=0.05 \
        SPARSESHIM_ALGORITHM=allgather preloaded 2 fpsums raised "$where"
    tap_passed "MODE=topk, $more: overflow is raised" 100
    unset "SPARSESHIM_${more%%=*}"
done

# ---- traps that are met ----

export UCX_HANDLE_ERRORS=none # no backtrace

for how in trapped itrapped; do
    # mpirun reports the status of the rank that met it, or of the one that it killed then.
    bare 2 fpsums "$how"
    met=$(grep -c "^the program's handler" "$WORK/out")
    for progress in auto thread; do
        SPARSESHIM_PROGRESS=$progress preloaded 2 fpsums "$how"
        [ "$met" -gt 0 ] && [ "$STATUS" -ne 0 ] && grep -q "^the program's handler" "$WORK/out"
        tap "$?" "$how, PROGRESS=$progress: the program's handler meets it, as without the library"
    done
done
cat >"$WORK/trapping.f90" <<'END'
program trapping
  use mpi
  implicit none
  real :: a(30000), b(30000)
  integer :: err
  call mpi_init(err)
  a = 0
  a(7) = 3
  call mpi_allreduce(a, b, 30000, MPI_REAL, MPI_SUM, MPI_COMM_WORLD, err)
  a(7) = huge(a)
  call mpi_allreduce(a, b, 30000, MPI_REAL, MPI_SUM, MPI_COMM_WORLD, err)
  call mpi_finalize(err)
end program
END
within 60 "${MPIFC:-mpifort.mpich}" -w -ffpe-trap=overflow "-J$WORK" -o "$WORK/trapping" \
    "$WORK/trapping.f90"
tap "$STATUS" "a Fortran program is compiled with -ffpe-trap=overflow"
within 60 "$MPIRUN" -n 2 "$WORK/trapping"
was=$STATUS
within 60 "$MPIRUN" -n 2 -genv LD_PRELOAD "$LIB" "$WORK/trapping"
[ "$STATUS" -ne 0 ] && [ "$was" -ne 0 ] && grep -q 'SIGFPE' "$WORK/err"
tap "$?" "its sum that overflows ends it by SIGFPE"
finish
