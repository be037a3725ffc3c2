#!/usr/bin/env bash
# Sums on two levels, with layouts of the ranks on hosts that SPARSESHIM_TEST gives: exact, alike on
# all ranks, blocking and nonblocking, and together with what goes on one level.
set -u
. tests/t/lib.sh
unset MPIR_CVAR_NOLOCAL # in MPICH's shared memory

on_host "device buffers are summed on one level"

# two_levels LAYOUT ALGORITHM NAME LEAST RANKS PROGRAM [ARGUMENT...]: the program passes, and at least
# so many of its calls are made on two levels.
two_levels() {
    local layout=$1 algorithm=$2 name=$3 least=$4 result=0 made
    shift 4
    # With this network auto does not depend on what the machine does.
    SPARSESHIM_TEST=layout=$layout,slice=500 SPARSESHIM_NODE_AGGREGATION=on \
        SPARSESHIM_ALPHA=1us SPARSESHIM_BETA=1e-7 SPARSESHIM_ALGORITHM=$algorithm LIMIT=120 preloaded "$@"
    passed || result=1
    made=$(on_two_levels)
    if [ "$made" -lt "$least" ]; then
        echo "calls on two levels: $made, expected at least $least" >>"$WORK/err"
        result=1
    fi
    tap "$result" "$name: layout $layout, ALGORITHM=$algorithm"
}

row=0
for layout in 112 1122 1212 11223 123123 111223 1111222 12341234 112233441; do
    for algorithm in auto $(algorithms EXACT); do
        row=$((row + 1))
        ((row % 3)) && continue
        two_levels "$layout" "$algorithm" "the oracle" 5 "${#layout}" oracle 4096 $((row % 8)) 8
    done
done
two_levels 1122 auto "long vectors" 1 4 oracle 2000000 3 12
two_levels 1123 two_level "many communicators" 1 4 smoke
SPARSESHIM_PROGRESS=watchdog two_levels 1122 auto "calls under way together" 20 4 nb_random --runs 12 --seed 1
SPARSESHIM_PROGRESS=watchdog two_levels 11232 split_allgather "calls under way together" 20 5 nb_random --runs 6 --seed 3
two_levels 11122 split_allgather "smoke" 10 5 smoke
# Programs with the widest reach; make check-more PART=node runs all.
two_levels 1212 ring "other kinds stay on one level" 0 4 kinds
two_levels 12 split_allgather "communicators made and freed" 100 4 churn 100
two_levels 122 split_allgather "threads" 10 3 threads
SPARSESHIM_PROGRESS=watchdog two_levels 112 split_allgather "threads, blocking and nonblocking calls" 80 3 nb_threads --rounds 2
two_levels 122 dsar "sessions" 5 3 sessions

# One rank on each host: nothing is made on two levels.
two_levels 1234 auto "one rank on each host" 0 4 smoke
[ "$(on_two_levels)" = 0 ]
tap "$?" "one rank on each host: all calls on one level"
SPARSESHIM_TEST=layout=1122 SPARSESHIM_NODE_AGGREGATION=off preloaded 4 smoke
[ "$(on_two_levels)" = 0 ]
tap "$?" "NODE_AGGREGATION=off: all calls on one level"

# Whole runs repeat bit for bit, as on one level.
bits() {
    sed -n 's/^# bits //p' "$WORK/out"
}
for turn in 1 2; do
    two_levels 11223 split_allgather "bits, turn $turn" 5 5 oracle 4096 0 6
    [ "$turn" = 1 ] && once=$(bits)
done
[ -n "$once" ] && [ "$(bits)" = "$once" ]
tap "$?" "two runs give the same bits"

# Top-k with one residual per host: nothing is lost, and the report says whose residual it is.
by_host() { # LAYOUT ALGORITHM VALUES REGISTER NODE_AGGREGATION NAME PROGRAM [ARGUMENT...]
    local layout=$1 algorithm=$2 values=$3 rules=$4 aggregation=$5 name=$6 result=0
    shift 6
    SPARSESHIM_TEST=layout=$layout,slice=300,identity_steps=1,threshold_period=${PERIOD:-8} \
        SPARSESHIM_MODE=topk SPARSESHIM_NODE_AGGREGATION=$aggregation SPARSESHIM_ALGORITHM=$algorithm \
        SPARSESHIM_VALUE_TYPE=$values SPARSESHIM_REGISTER=$rules LIMIT=120 preloaded "${#layout}" "$@"
    passed || result=1
    if [ "$(on_two_levels)" -lt 20 ] || ! grep -q '"residual_of": *"host"' "$WORK"/report/*.json; then
        echo "calls on two levels: $(on_two_levels), or no residual of a host" >>"$WORK/err"
        result=1
    fi
    tap "$result" "$name, one residual per host: layout $layout, ALGORITHM=$algorithm, VALUE_TYPE=$values"
}
export SPARSESHIM_DENSITY=0.05
KEPT=(form=fractions bound=eps lossy=yes comm=fresh tensors=2 type=both n=1801 steps=12 quiet=24)
by_host 1122 split_allgather bf16 '*:calls=1' on conserve conserve "${KEPT[@]}" pattern=heavy
by_host 12123 recursive_doubling same '*:calls=1:node' auto conserve conserve "${KEPT[@]}" pattern=cancelling
by_host 111222 dsar q8 '*:calls=1' on conserve conserve "${KEPT[@]}" pattern=heavy
SPARSESHIM_DENSITY=0.2 by_host 112233 oktopk bf16 '*:calls=1' on conserve conserve "${KEPT[@]}" pattern=heavy
SPARSESHIM_DENSITY=1 PERIOD=1 SPARSESHIM_GUARD=off SPARSESHIM_PROGRESS=watchdog \
    by_host 1122 ring same '*:calls=1' on "layers under way together" nb_layers --divide 256 --steps 2

# The sum of a host: its ranks read each other's memory, unless the system keeps a rank from it. A
# rank in a namespace of its own has another number there.
cat >"$WORK/hidden" <<SH
#!/bin/sh
[ "\$PMI_RANK" = 3 ] || exec "$PROGRAMS/conserve" "\$@"
exec unshare --pid --fork --kill-child "$PROGRAMS/conserve" "\$@"
SH
chmod +x "$WORK/hidden"
export SPARSESHIM_DEBUG=info
by_host 1122 split_allgather same '*:calls=1' on "in memory" conserve "${KEPT[@]}" pattern=heavy
grep -q "the ranks of a host read each other's memory" "$WORK/err"
tap "$?" "ranks of a host read each other's memory"
name="a rank that cannot be read"
if unshare --pid --fork true 2>/dev/null; then
    PROGRAMS=$WORK by_host 1122 split_allgather same '*:calls=1' on "$name" hidden "${KEPT[@]}" pattern=heavy
    grep -q "the ranks of a host cannot read each other's memory" "$WORK/err"
    tap "$?" "$name: all ranks use messages"
    # All have number 1 and the same addresses, so that a rank finds itself where it looks for others.
    printf '#!/bin/sh\nexec setarch -R unshare --pid --fork --kill-child "%s/conserve" "$@"\n' "$PROGRAMS" >"$WORK/hidden"
    PROGRAMS=$WORK by_host 1222 split_allgather same '*:calls=1' on "ranks in containers of their own" hidden "${KEPT[@]}" pattern=heavy
else
    skip "$name" "only root makes a namespace of processes"
fi
unset SPARSESHIM_DEBUG SPARSESHIM_DENSITY

# Bytes inside hosts and between them: of all ranks, by `sparseshim report`.
cat >"$WORK/all" <<SH
#!/bin/sh
exec $MPIRUN -genv SPARSESHIM_REPORT all "\$@"
SH
chmod +x "$WORK/all"

# shares LAYOUT: which part of the bytes is inside hosts, sent and of dense: none, some or all.
shares() {
    MPIRUN=$WORK/all SPARSESHIM_TEST=layout=$1,slice=500 SPARSESHIM_NODE_AGGREGATION=on \
        SPARSESHIM_ALGORITHM=split_allgather preloaded "${#1}" oracle 4096 0 4
    "$BUILD/sparseshim" report "$WORK/report" >"$WORK/merged" 2>>"$WORK/err" || STATUS=1
    passed && cat "$WORK"/report/*.json | perl -MJSON::PP -e '
        my ($json, %sum) = (JSON::PP->new, ());
        $json->incr_parse($_) while <STDIN>;
        while (my $report = $json->incr_parse) {
            for my $part ($report->{bytes}, @{$report->{lanes}}) {
                my ($apart, $ratio) = (0, $part->{ratio_between});
                for my $kind (qw(dense sent)) {
                    my ($all, $inside) = @$part{"bytes_$kind", "bytes_${kind}_inside"};
                    die "$inside of $all bytes are inside" if $inside > $all;
                    $apart ||= $inside > 0 && $inside < $all;
                }
                die "a ratio of nothing" if defined $ratio && !$apart;
            }
            $sum{$_} += $report->{bytes}{$_} for keys %{$report->{bytes}};
        }
        for my $kind (qw(sent dense)) {
            my ($all, $inside) = @sum{"bytes_$kind", "bytes_${kind}_inside"};
            print $inside == 0 ? "none" : $inside == $all ? "all" : "some", "\n";
        }' | tr '\n' ' '
}
for layout in 1122 1212 111222; do
    [ "$(shares "$layout")" = "some some " ] && grep -q 'sent between hosts, .* % of all that was sent' "$WORK/merged" &&
        grep -q 'dense between  sent between  ratio between' "$WORK/merged" &&
        grep -q '^  bytes .* sent to other hosts, .* % of all that it sent, instead of' "$WORK/err"
    tap "$?" "bytes inside hosts and between them are apart, layout $layout"
done
[ "$(shares 1234)" = "none none " ] && ! grep -q 'between\|inside' "$WORK/merged" "$WORK/err"
tap "$?" "one rank on each host: the report tells nothing apart"
[ "$(shares 1111)" = "all all " ] && ! grep -q 'between' "$WORK/merged" && grep -q '; all inside one host$' "$WORK/merged"
tap "$?" "one host: all bytes are inside"

# Hosts share a name at times, but no boot id.
cat >"$WORK/booted" <<SH
#!/bin/sh
echo "boot \$((PMI_RANK / 2))" >"$WORK/boot.\$PMI_RANK"
exec unshare --mount sh -c 'mount --bind "\$0" /proc/sys/kernel/random/boot_id && exec "\$@"' \
    "$WORK/boot.\$PMI_RANK" "$PROGRAMS/smoke" "\$@"
SH
chmod +x "$WORK/booted"
name="two hosts of one name are told apart by their boot ids"
if unshare --mount mount --bind /dev/null /proc/sys/kernel/random/boot_id 2>/dev/null; then
    PROGRAMS=$WORK SPARSESHIM_NODE_AGGREGATION=on SPARSESHIM_ALGORITHM=split_allgather preloaded 4 booted
    passed && [ "$(on_two_levels)" -ge 10 ]
    tap "$?" "$name"
else
    skip "$name" "only root mounts a boot id"
fi

# Rank 3 sends nothing more in a call: a rank of its host and one of another host wait for it, and name it.
export SPARSESHIM_TIMEOUT=2 FAILING_RANK=3 FAILING_CALL=7 FAILING_FOREVER=1
PRELOAD="$LIB $PROGRAMS/failing.so" two_levels 1122 split_allgather "TIMEOUT ends a call on all ranks" 1 4 until_error 3000
unset SPARSESHIM_TIMEOUT FAILING_RANK FAILING_CALL FAILING_FOREVER
for rank in 1 2; do
    grep -q "^sparseshim\[$rank\]: rank $rank: timeout in the .* of call 3 .* talking to rank 3 " "$WORK/err"
    tap "$?" "rank $rank names the rank that it waited for"
done

SPARSESHIM_NODE_AGGREGATION=some preloaded 2 smoke
grep -q "SPARSESHIM_NODE_AGGREGATION.*some.*auto, on, off" "$WORK/err"
tap "$?" "a bad value is named with those allowed"
finish
