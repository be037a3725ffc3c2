#!/usr/bin/env bash
# The report's advice for a buffer that stayed exact: a rule that registers it when pasted, if a rule
# can; else the remedy for its reason.
set -u
SPARSESHIM_MIN_COUNT=1000
. tests/t/lib.sh

cat >"$WORK/advice.c" <<'C'
/* usage: advice FORM: one buffer of 5000 elements, reduced in every step after one of 3000; places:
 * and another of 5000, alike on all ranks, from another place. */
#include <mpi.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { N = 5000, OTHER = 3000, STEPS = 90 };
static uint64_t state, shared = 77;

__attribute__((noinline)) static void average(float *w, float *sum)
{
    for (int i = 0; i < N; i++)
        w[i] = (float)i - 2000;
    MPI_Allreduce(w, sum, N, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    w[0] = sum[0];
}

static double draw(uint64_t *from)
{
    *from = *from * 6364136223846793005u + 1442695040888963407u;
    return (double)(int32_t)(*from >> 32) / 2147483648.0;
}

/* Of this rank, and what all ranks share. */
static double noise(void)
{
    return draw(&state) + draw(&shared);
}

int main(int argc, char **argv)
{
    static float x[N], sum[N], other[OTHER], others[OTHER];
    static int k[N], ksum[N];
    const char *form = argv[1];
    int rank;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (int s = 0; s < STEPS; s++) {
        state = (uint64_t)(rank + 1) + 1000u * (uint64_t)(s + 1);
        for (int i = 0; i < OTHER; i++)
            other[i] = (float)noise();
        MPI_Allreduce(other, others, OTHER, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
        for (int i = 0; i < N; i++) {
            x[i] = (float)noise();
            k[i] = (int)(1000 * x[i]);
        }
        if (strcmp(form, "type") == 0)
            MPI_Allreduce(k, ksum, N, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
        else
            MPI_Allreduce(x, sum, N, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
        if (strcmp(form, "places") == 0)
            average(x, sum);
    }
    MPI_Finalize();
    return 0;
}
C
mpicc.mpich -O1 -o "$WORK/advice" "$WORK/advice.c" || exit 1
export SPARSESHIM_MODE=topk SPARSESHIM_DENSITY=0.05 SPARSESHIM_ALGORITHM=split_allgather

# said KEY: of the tensor of 5000 elements, in the report of rank 0.
said() {
    cat "$WORK"/report/*.json | perl -MJSON::PP -e '
        my $report = decode_json(do { local $/; <STDIN> });
        print map { ($_->{$ARGV[0]} // "") . "\n" } grep { $_->{count} == 5000 } @{$report->{tensors}}' "$1"
}

# runs FORM
runs() {
    within 60 "$MPIRUN" -n 2 -genv LD_PRELOAD "$LOADED $YIELDS" "$WORK/advice" "$1"
}

# What no rule takes is registered by the rule that the report has.
SPARSESHIM_REGISTER=count=3000 runs plain
rule=$(said rule)
[ "$(said reason)" = no_rule ] && [ "$rule" = count=5000 ] && SPARSESHIM_REGISTER=$rule:calls=1 runs plain &&
    [ "$(said state)" = registered ] && [ "$(said topk_calls)" -gt 30 ] && ! grep -q 'no call of rank 0' "$WORK/err"
tap "$?" "the rule, pasted, registers it: $rule"

# It names the call site where the count does not separate; it works from whatever file.
on_host "the calls come from tests/preload/to_device.c then"
odd=$WORK/"adv ice, it's #1; x:y*"
long=$WORK/$(printf 'x%.0s' {1..112})
cp "$WORK/advice" "$odd"
cp "$WORK/advice" "$long"
for file in "$WORK/advice" "$odd" "$long"; do
    SPARSESHIM_REGISTER=count=3000 within 60 "$MPIRUN" -n 2 -genv LD_PRELOAD "$LOADED $YIELDS" "$file" places
    rule=$(said rule | head -n 1)
    SPARSESHIM_REGISTER=$rule:calls=1 within 60 "$MPIRUN" -n 2 -genv LD_PRELOAD "$LOADED $YIELDS" "$file" places
    [[ $rule == count=5000,site=* ]] && [ "$(tensors count=5000 state=registered)" = 1 ] &&
        [ "$(tensors count=5000 reason=no_rule)" = 1 ] && ! grep -q 'no call of rank 0' "$WORK/err"
    tap "$?" "one of two places: the rule, pasted, registers it alone: $rule"
done
at_all_places

# no_rule REASON FORM WHAT: there is no rule, and the report says what helps.
no_rule() {
    runs "$2"
    [ "$(said reason)" = "$1" ] && [ -z "$(said rule)" ] && [[ $(said remedy) == *"$3"* ]] && reported | grep -qF "$3"
    tap "$?" "$1: $(said remedy)"
}
export SPARSESHIM_REGISTER=count=5000:calls=1
no_rule type type "sums of float and double alone"
SPARSESHIM_EXCLUDE=count=5000 no_rule excluded plain "no rule can while it matches EXCLUDE"
# Room for the call's work, but not for a residual.
for room in 200k 250k 300k 350k; do
    SPARSESHIM_MAX_MEMORY=$room runs plain
    [ "$(said reason)" = memory ] && break
done
SPARSESHIM_MAX_MEMORY=$room no_rule memory plain "a larger MAX_MEMORY does"
finish
