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
{
    printf '%s\n' MPI_Allreduce MPI_Iallreduce MPI_Allgather MPI_Iallgather MPI_Allgatherv \
        MPI_Iallgatherv MPI_Reduce_scatter_block MPI_Reduce_scatter MPI_Reduce MPI_Ireduce MPI_Iscan MPI_Iexscan \
        MPI_Ireduce_scatter_block MPI_Ireduce_scatter |
        sed 'p; s/$/_c/'
    printf '%s\n' MPI_Pcontrol MPI_Init MPI_Init_thread PMPI_Init PMPI_Init_thread \
        MPI_Query_thread MPI_Finalize PMPI_Finalize MPI_Request_get_status \
        PMPI_Request_get_status MPI_Cancel MPI_Request_free MPI_Wait MPI_Test MPI_Waitall \
        MPI_Testall MPI_Waitany MPI_Testany MPI_Waitsome MPI_Testsome MPI_Op_create \
        MPI_Op_free PMPI_Op_free MPI_Start MPI_Startall MPI_Type_set_attr \
        MPI_Comm_create_keyval MPI_Keyval_create MPI_Type_create_keyval MPI_Comm_set_attr \
        MPI_Attr_put MPI_Comm_free MPI_Comm_disconnect MPI_Comm_idup MPI_Comm_idup_with_info
    # Calls that make a communicator; mpi_f08 of MPICH calls their PMPI_ names.
    printf 'MPI_%s\nPMPI_%s\n' Comm_dup{,} Comm_dup_with_info{,} Comm_split{,} Comm_split_type{,} \
        Comm_create{,} Comm_create_group{,} Cart_create{,} Cart_sub{,} Graph_create{,} Dist_graph_create{,} \
        Dist_graph_create_adjacent{,} Intercomm_merge{,}
    # Names that Open MPI's Fortran libraries call.
    printf 'PMPI_%s\n' Allreduce Iallreduce Allgather Iallgather Allgatherv Iallgatherv \
        Reduce_scatter_block Reduce_scatter Reduce Ireduce Iscan Iexscan Ireduce_scatter_block Ireduce_scatter \
        Pcontrol Query_thread Cancel Request_free Op_create Start Startall Comm_free \
        Comm_disconnect Comm_idup Comm_idup_with_info Wait Test Waitall Testall Waitany Testany Waitsome Testsome
    echo ompi_attr_create_keyval_aint # behind the keys of Fortran
    echo ompi_attr_create_keyval_fint
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
    .init_array | .fini_array) [ $((16#$bytes)) -le "$pointer" ] || result=1 ;;
    '') ;;
    *) result=1 ;;
    esac
done <<<"$sections"
echo "$sections" >"$WORK/out"
tap "$result" "no constructor or destructor but the toolchain's"

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
