#!/usr/bin/env bash
# Partial allreduces under mpirun, with ranks that are late. All ranks have the same bits at every
# call; results add up to the inputs, to the last bit; the rest of the program is exact; it ends. Also
# the needs of a round, and ranks with unequal numbers of calls.
set -u
. tests/t/lib.sh

export SPARSESHIM_MODE=topk SPARSESHIM_REGISTER='count=1500::calls=1'
export SPARSESHIM_DENSITY=0.1 SPARSESHIM_ALGORITHM=allgather SPARSESHIM_TEST=identity_steps=1,quorum_period=16
export SPARSESHIM_QUORUM=solo SPARSESHIM_DEBUG=info LIMIT=40

# The number of rounds, where every rank says the same and no more than it may of results waited.
rounds() { # RANKS STALENESS
    sed -n 's/.*rank \([0-9]*\) took part in [0-9]* of \([0-9]*\) rounds.* most \([0-9]*\) results.*/\1 \2 \3/p' \
        "$WORK/err" | awk -v ranks="$1" -v most="$2" '
            { said++; if (said > 1 && $2 != count) bad = 1; count = $2; if ($3 > most) bad = 1 }
            END { print said == ranks && !bad ? count : 0 }'
}

# trains RANKS STALENESS ARGUMENT...: what there is to say of a run that ends well
trains() {
    local ranks=$1 staleness=$2 partial
    shift 2
    SPARSESHIM_TEST=$SPARSESHIM_TEST,quorum_staleness=$staleness preloaded "$ranks" late_ranks steps=25 "$@"
    passed
    tap $? "$ranks ranks, $SPARSESHIM_QUORUM, at most $staleness results wait: $*"
    partial=$(rounds "$ranks" "$staleness")
    tap $((partial < 40)) "it had $partial rounds, the same number on every rank"
}

for ranks in 2 3 5 8; do
    trains "$ranks" 8 late=one quiet=30
    SPARSESHIM_QUORUM=majority trains "$ranks" 4 late=random quiet=30 tensors=2
done
trains 3 8 late=random tensors=3 calls=nonblocking quiet=30
SPARSESHIM_QUORUM=majority trains 5 8 late=chain tensors=2 calls=nonblocking quiet=30
trains 4 1 late=stop type=double calls=inplace quiet=40
SPARSESHIM_TEST=identity_steps=1,quorum_period=1000 trains 3 8 late=stop spoiled=1 quiet=40
SPARSESHIM_QUORUM=majority trains 4 2 late=random spoiled=1 quiet=40 tensors=2
SPARSESHIM_ALGORITHM=recursive_doubling trains 5 8 late=one tensors=2 quiet=30
SPARSESHIM_ALGORITHM=auto trains 3 8 late=random type=double quiet=60
SPARSESHIM_ALGORITHM=oktopk trains 4 8 late=random tensors=2 quiet=30
trains 3 8 late=random tensors=2 exact=1 quiet=30
SPARSESHIM_MIN_COUNT=5000 SPARSESHIM_REGISTER='*:calls=1' trains 3 8 late=random n=6000 exact=8 quiet=30
SPARSESHIM_PROGRESS=off SPARSESHIM_DENSITY=8/64 SPARSESHIM_VALUE_TYPE=bf16 trains 3 8 late=one quiet=30

# The report accounts for every call: in or late, and a late one by when it was selected from.
preloaded 2 late_ranks late=one steps=25 quiet=30
perl -MJSON::PP -0777 -ne '
    my $calls = decode_json($_)->{rounds};
    my $stale = 0;
    $stale += $_ for values %{$calls->{rounds_stale}};
    exit !($calls->{rounds} > 40 && $calls->{rounds} == $calls->{rounds_in} + $calls->{rounds_late} &&
        $stale <= $calls->{rounds_late} && $stale + 2 >= $calls->{rounds_late} && $calls->{rounds_solo})' \
    "$WORK"/report/*.json
tap $? "the report has rounds, in and late, and how late"
perl -MJSON::PP -MList::Util=sum -0777 -ne '
    my $calls = decode_json($_)->{rounds};
    my $way = $calls->{rounds_stretches};
    my %all = (rounds => "rounds", in => "rounds_in", left => "rounds_left", late => "rounds_late");
    for (keys %all) { exit 1 if sum(@{$way->{$_}}) != $calls->{$all{$_}} }
    exit !($calls->{seconds_waited} > 0 && $calls->{rounds_steps} == $calls->{rounds} &&
        $calls->{seconds_thread} > 0 && $calls->{share_thread} < 1)' "$WORK"/report/*.json
tap $? "and how it went, round by round, and what the thread has used"
reported >"$WORK/out" && grep -q 'this rank was in [0-9]* of [0-9]* rounds' "$WORK/out"
tap $? "and sparseshim report prints them"
tap "$(grep -c 'QUORUM useless' "$WORK/out")" "without advice where there is no other call"

# All ranks in one: as many ranks in a round as their own reports say.
SPARSESHIM_REPORT=all SPARSESHIM_REPORT_DIR=$WORK/all timeout -k 5 60 "$MPIRUN" -n 3 -genv LD_PRELOAD "$LOADED $YIELDS" \
    "$PROGRAMS/late_ranks" late=one steps=25 quiet=30 >"$WORK/out" 2>"$WORK/err"
STATUS=$?
"$BUILD/sparseshim" report "$WORK/all" >"$WORK/out" && grep -q '^  partial  [0-9.]* of 3 ranks were in a round in the mean' "$WORK/out"
tap $? "the merged report says how many ranks were in a round"
"$BUILD/sparseshim" report --json "$WORK/all" >"$WORK/merged"
perl -MJSON::PP -MList::Util=sum -0777 -e '
    my ($merged, @ranks) = map { local @ARGV = $_; decode_json(scalar <>) } @ARGV;
    my %of = map { $_->{measure} => $_ } @{$merged->{spread}};
    exit !(@ranks == 3 && $of{rounds_in}{sum} == sum(map { $_->{rounds}{rounds_in} } @ranks) &&
        $of{rounds_late}{sum} == sum(map { $_->{rounds}{rounds_late} } @ranks) &&
        $of{rounds_in}{sum} + $of{rounds_late}{sum} == 3 * $of{rounds}{most} && $of{seconds_behind}{sum} > 0)' \
    "$WORK/merged" "$WORK"/all/*.json
tap $? "and adds up what the ranks say"

# Other calls in each step: counted, with their places. Two of the 33 are not followed by a round.
SPARSESHIM_REGISTER='count=2000:calls=1' preloaded 3 late_ranks late=one steps=25 quiet=8 exact=1
grep -q 'QUORUM useless' "$WORK"/report/*.json
tap $? "calls of each step that wait for all ranks: the report says it"
on_host "the calls come from tests/preload/to_device.c then, all from one place"
SPARSESHIM_REGISTER='count=2000:calls=1' preloaded 3 late_ranks late=one steps=25 quiet=8 exact=1
perl -MJSON::PP -0777 -ne '
    my @rows = @{decode_json($_)->{synchronous}};
    my %calls = map { $_->{count} => $_->{calls} } @rows;
    exit !($calls{3000} >= 31 && $calls{2} >= 31 && !grep { $_->{site} !~ /^late_ranks\+0x/ } @rows)' \
    "$WORK"/report/*.json
tap $? "how often, and where"
at_all_places

# A gradient that comes after the last round: the report names it, with its norm.
SPARSESHIM_TEST=identity_steps=1,quorum_period=1000 preloaded 2 late_ranks late=last steps=12 quiet=0
perl -MJSON::PP -0777 -ne '
    my ($tensor) = grep { $_->{late} } @{decode_json($_)->{tensors}};
    exit !($tensor && $tensor->{late} == 1 && $tensor->{residual_norm} > 0)' "$WORK"/report/*.json
tap $? "a gradient that came after the last round is reported with what it has left"
grep -q '1 gradient came late of which nothing has been sent; the tensor of 2,000 elements called from' "$WORK"/report/*.json
tap $? "in one line"

# Buffers in the memory of a device, of a pool and of another device: by copies on the host, said once.
if [ -e "$BUILD/libsparseshim_cuda.so" ]; then
    ON_DEVICE=DD,PP,SD TEST_CUDA_KERNELS=$BUILD/tests/gpu/kernels.so \
        LD_LIBRARY_PATH=$BUILD/tests/gpu/driver trains 3 8 late=random tensors=2 quiet=30
    tap "$(($(grep -c 'SPARSESHIM_QUORUM is for buffers of the host' "$WORK/err") != 1))" \
        "and with buffers in device memory it says once that they do without"
else
    skip "buffers in device memory" "libsparseshim_cuda.so is not built: there is no nvcc"
fi

# Communicators that a rank frees while others are late in their last calls.
for calls in blocking nonblocking; do
    preloaded 4 late_ranks late=random steps=48 quiet=0 comm=12 tensors=2 calls=$calls
    passed
    tap $? "a communicator is freed when its calls are over here, $calls"
    partial=$(counter rounds.rounds)
    tap $((partial < 60)) "there were $partial rounds"
done

# Nothing is partial but what a rule takes.
SPARSESHIM_REGISTER='count=100000::calls=1' preloaded 3 late_ranks late=one steps=20 quiet=5
passed
tap $? "gradients that no rule takes are exact"
tap "$(grep -c 'rounds;' "$WORK/err")" "and have no rounds"

# One rank that does not get MPI_THREAD_MULTIPLE: off on all, said once.
FUNNELED_RANK=1 PRELOAD="$LIB $PROGRAMS/funneled.so" preloaded 3 late_ranks late=one steps=20 quiet=30
passed
tap $? "a rank without MPI_THREAD_MULTIPLE: every call waits for all ranks"
tap "$(($(grep -c 'SPARSESHIM_QUORUM is off' "$WORK/err") != 1))" "which is said once"
tap "$(grep -c 'rounds;' "$WORK/err")" "and there are no rounds"

# A rank to which the system gives no thread takes part in its calls alone: it is waited for.
PRELOAD="$LIB $PROGRAMS/nothread.so" trains 3 8 late=random quiet=30

# Ranks with unlike numbers of calls: told at MPI_Finalize, or by TIMEOUT.
preloaded 3 late_ranks late=none fewer=4 quiet=4
tap "$STATUS" "a rank that makes four calls fewer: the others are not held up"
grep -q 'rank 2 is at MPI_Finalize and has not made 4 calls that other ranks have made' "$WORK/err"
tap $? "and it says so"
SPARSESHIM_TIMEOUT=3 preloaded 3 late_ranks late=none fewer=30 steps=20 quiet=20
[ "$STATUS" -ne 0 ] && [ "$STATUS" -ne 124 ] && grep -q 'rank [01]: timeout in the' "$WORK/err"
tap $? "thirty fewer: TIMEOUT ends the others' waits"

finish
