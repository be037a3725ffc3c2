#!/usr/bin/env bash
# Ranks on one host exchange entries in memory that they share: with the same results as messages, on
# all ranks or on none, and nothing is left behind.
set -u
. tests/t/lib.sh
unset MPIR_CVAR_NOLOCAL # in MPICH's shared memory

on_host "device buffers do not use shared memory"
export SPARSESHIM_ALGORITHM=allgather

for ranks in 4 5; do
    preloaded $ranks in_memory
    passed
    tap "$?" "$ranks ranks: communicators share memory and free it"
done
for mode in file descriptors; do
    preloaded 4 in_memory $mode
    passed
    tap "$?" "one rank reaches its limit for ${mode}: all use messages"
done
SPARSESHIM_MAX_MEMORY=6Mi preloaded 4 in_memory messages
passed
tap "$?" "a sixteenth of MAX_MEMORY has no room for it: messages, and room for calls"
SPARSESHIM_NODE_AGGREGATION=off preloaded 4 in_memory messages
passed
tap "$?" "NODE_AGGREGATION=off: messages"
SPARSESHIM_TEST=layout=1122 preloaded 4 in_memory messages
[ "$STATUS" -eq 0 ] || grep -q '^ok 2 - they share no memory' "$WORK/out"
tap "$?" "several hosts: messages"
SPARSESHIM_ALGORITHM=auto preloaded 3 oracle 300000 3 12
passed
tap "$?" "ALGORITHM=auto: the oracle"
sent=$(counter bytes.bytes_sent_inside)
[ "$sent" != none ] && [ "$sent" -gt 0 ] && [ "$sent" = "$(counter bytes.bytes_sent)" ]
tap "$?" "the report has all bytes inside the host"

preloaded 4 in_memory kill "$WORK/out"
[ "$STATUS" -ne 0 ] && grep -q '^ok 2 - they share memory' "$WORK/out" &&
    ! compgen -G '/dev/shm/*sparseshim*' >/dev/null
tap "$?" "a killed rank leaves nothing behind"

# The bits are those of messages.
bits() {
    SPARSESHIM_NODE_AGGREGATION=$1 preloaded 4 oracle 4096 0 6
    sed -n 's/^# bits //p' "$WORK/out"
}
messages=$(bits off)
[ -n "$messages" ] && [ "$(bits auto)" = "$messages" ]
tap "$?" "the bits are those of messages"
finish
