#!/usr/bin/env bash
# At its end a preloaded program has lost no memory that a bare one has not lost.
set -u
. tests/t/lib.sh
on_host "emulated devices are files"
if ! command -v valgrind >/dev/null; then
    skip "memory at the end of programs" "there is no valgrind"
    finish
    exit
fi
export UCX_MEM_EVENTS=n SPARSESHIM_ALGORITHM=recursive_doubling

# checked RANKS LIBRARY [ARGUMENT...]: runs `traced` under valgrind, and leaves in LOST the most bytes
# that a rank has lost.
checked() {
    local ranks=$1 library=$2
    shift 2
    rm -f "$WORK"/valgrind.*
    within 120 "$MPIRUN" -n "$ranks" -genv LD_PRELOAD "$library" valgrind --undef-value-errors=no --leak-check=full \
        --errors-for-leak-kinds=none --log-file="$WORK/valgrind.%p" "$PROGRAMS/traced" --calls=4 "$@"
    LOST=$(sed -n 's/.* definitely lost: \([0-9,]*\) bytes.*/\1/p' "$WORK"/valgrind.* | tr -d , | sort -n |
        tail -n 1)
    grep -h -A 12 'definitely lost in' "$WORK"/valgrind.* >>"$WORK/err"
}

checked 1 ""
bare=$LOST
[ "$STATUS" -eq 0 ] && [ -n "$bare" ]
tap "$?" "bare: $bare bytes are lost"

# same NAME RANKS SPARSE [ARGUMENT...]
same() {
    local name=$1 ranks=$2 sparse=$3 result=0
    shift 3
    checked "$ranks" "$LIB" "$@"
    [ "$STATUS" -eq 0 ] && [ -n "$LOST" ] && [ "$LOST" -le "$bare" ] && sparse_calls "$sparse" || result=1
    tap "$result" "$name: $LOST bytes are lost"
}

same "one rank" 1 0
mkdir "$WORK/trace"
SPARSESHIM_TRACE=$WORK/trace same "exact, with report and trace" 2 3
SPARSESHIM_MODE=topk SPARSESHIM_REGISTER='*' SPARSESHIM_MERGE=auto \
    same "topk, nonblocking and merged" 2 2 --nonblocking=1
finish
