#!/usr/bin/env bash
# Preloaded where there is no MPI: no trace of us.
# shellcheck disable=SC2016 # the shells under test expand, not this one
set -u
. tests/t/lib.sh

# same NAME COMMAND...: the command prints and returns the same with and without the library.
same() {
    local name=$1 result=0 expected
    shift
    timeout -k 5 30 "$@" >"$WORK/bare.out" 2>"$WORK/bare.err" </dev/null
    expected=$?
    STATUS=0
    LD_PRELOAD=$LIB SPARSESHIM_REPORT=all SPARSESHIM_DEBUG=trace \
        timeout -k 5 30 "$@" >"$WORK/out" 2>"$WORK/err" </dev/null || STATUS=$?
    [ "$STATUS" -eq "$expected" ] && cmp -s "$WORK/out" "$WORK/bare.out" &&
        cmp -s "$WORK/err" "$WORK/bare.err" || result=1
    tap "$result" "preloaded into $name: same output, same status"
}

same true true
same false false
same ls ls -l tests
same "ls of what is not there" ls /not/there
same "bash -c" bash -c 'echo "$((6 * 7))"; echo aside >&2; (exit 3)'
same perl perl -e 'print STDERR "aside\n"; print "x" x 10, "\n"; exit 5'
same "mpiexec --version" mpiexec.mpich --version
same "a shell that forks" bash -c 'for i in 1 2 3; do (echo $i) & wait; done; ls tests | wc -l'
LD_BIND_NOW=1 same "true under LD_BIND_NOW" true

within 30 nm -D --defined-only "$LIB"
awk '{ print $NF }' "$WORK/out" | sort >"$WORK/exported"
# The names of shim/mpi/wrapped.h: @NAME each.
cat >"$WORK/names.c" <<'END'
#include "shim/mpi/wrapped.h"
#define COUNTED(member, name, ...) @MPI_##name @MPI_##name##_c @PMPI_##name
#define ALWAYS(name) @PMPI_##name
#define FORTRAN(name) @PMPI_##name
#define NEVER(name)
#define HEARD(member, name, parameters, passed, whose, ...) @MPI_##name whose(name)
#define BOTH(member, name, ...) @MPI_##name @PMPI_##name
#define INNER(member, name, ...) @name
SHIM_WRAPPED_COUNTED(COUNTED) SHIM_WRAPPED_HEARD(HEARD) SHIM_WRAPPED_OPTIONAL(HEARD)
SHIM_WRAPPED_CREATIONS(BOTH) SHIM_WRAPPED_COMPLETIONS(BOTH) SHIM_WRAPPED_OTHERS(BOTH) SHIM_WRAPPED_INNER(INNER)
END
{
    "${CC:-cc}" -E -P -I. "$WORK/names.c" | grep -o '@ *[A-Za-z_]*' | tr -d '@ '
    grep -o 'sparseshim_1_[a-z_]*' shim/sparseshim.h
} | sort -u >"$WORK/allowed"
result=0
diff "$WORK/allowed" "$WORK/exported" >"$WORK/out" || result=1
tap "$result" "exported are the wrapped names of MPI and the functions of sparseshim.h, nothing else"

within 30 nm -D --undefined-only "$LIB"
result=0
grep -E '\bP?MPI' "$WORK/out" && result=1
tap "$result" "no MPI symbol is undefined"

within 30 readelf -d "$LIB"
result=0
sed -n 's/.*(NEEDED).*\[\(.*\)\].*/\1/p' "$WORK/out" |
    grep -vE '^(libc\.so\.6|libm\.so\.6|libdl\.so\.2|libpthread\.so\.0|ld-linux.*)$' && result=1
tap "$result" "needed is libc, and no more than its own companions"
result=0
grep -q 'BIND_NOW' "$WORK/out" || result=1
tap "$result" "linked with -z now"

# The toolchain's own: one entry (frame_dummy, __do_global_dtors_aux) of one pointer.
pointer=$(readelf -h "$LIB" | grep -q ELF64 && echo 8 || echo 4)
sections=$(readelf -SW "$LIB" | sed 's/^ *\[ *[0-9]*\] *//' |
    awk '$1 == ".init_array" || $1 == ".fini_array" || $1 == ".preinit_array" || $1 == ".ctors" {
        print $1, $5 }')
result=0
while read -r name bytes; do
    case $name in
    .init_array) [ $((16#$bytes)) -le $((2 * pointer)) ] || result=1 ;; # and shim/job/no_calls.c
    .fini_array) [ $((16#$bytes)) -le "$pointer" ] || result=1 ;;
    '') ;;
    *) result=1 ;;
    esac
done <<<"$sections"
echo "$sections" >"$WORK/out"
tap "$result" "no destructor but the toolchain's, and one constructor, for the process of run"
result=0
for process in '' 1 text -1 99999999999999999999; do
    LD_PRELOAD=$LIB SPARSESHIM_RUN_PROCESS=$process SPARSESHIM_REPORT=all SPARSESHIM_REPORT_DIR='' within 10 true
    [ "$STATUS" -eq 0 ] && [ ! -s "$WORK/out" ] && [ ! -s "$WORK/err" ] || result=1
done
tap "$result" "which does nothing in any other"

cat >"$WORK/main.c" <<'END'
int main(void)
{
    return 0;
}
END
within 30 "${CC:-cc}" -Wl,-z,now -Wl,--no-as-needed -o "$WORK/main" "$WORK/main.c" "$LIB"
[ "$STATUS" -eq 0 ] && within 30 env LD_LIBRARY_PATH="$BUILD" "$WORK/main"
tap "$STATUS" "a program without MPI links with it under -z now, and runs"

# mpirun and its proxies are preloaded as well.
LD_PRELOAD=$LIB SPARSESHIM_ALGORITHM=ring within 60 "$MPIRUN" -n 3 "$PROGRAMS/fewcalls" 3
tap_passed "preloaded into mpirun and its proxies: the program's calls are made sparse" 1
finish
