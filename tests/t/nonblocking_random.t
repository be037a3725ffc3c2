#!/usr/bin/env bash
# Random legal programs of blocking, nonblocking, point-to-point and communicator operations give the
# right sums, also where a sum has to move while its rank is blocked elsewhere. More of them: RUNS=N SEED=S prove tests/t/nonblocking_random.t
set -u
export SPARSESHIM_MIN_COUNT=64 # the programs draw counts below and above
. tests/t/lib.sh

# These programs do not run at MPI_THREAD_MULTIPLE themselves.
export SPARSESHIM_PROGRESS=watchdog

SEED=${SEED:-1}
RUNS=${RUNS:-30}
export LIMIT=$((60 + RUNS))

bare 3 nb_random --runs 3 --seed "$SEED"
tap_passed "random programs, bare"
preloaded 4 nb_random --runs "$RUNS" --seed "$SEED"
tap_taken "$RUNS random programs on 4 ranks" "$((RUNS * 2))"
preloaded 2 nb_random --runs "$((RUNS * 2))" --seed "$((SEED + 1000))"
tap_taken "$((RUNS * 2)) random programs on 2 ranks" "$((RUNS * 4))"
# MODE=topk: nothing is registered.
export SPARSESHIM_REGISTER=count=1000000
for setting in PROGRESS=thread ALGORITHM=dense ALGORITHM=split_allgather ALGORITHM=recursive_doubling ALGORITHM=ring MODE=topk; do
    export "SPARSESHIM_$setting"
    preloaded 3 nb_random --runs "$((RUNS / 3))" --seed "$((SEED + 2000))"
    tap_taken "$((RUNS / 3)) random programs on 3 ranks, $setting" "$((RUNS / 3))"
    unset "SPARSESHIM_${setting%%=*}"
    export SPARSESHIM_PROGRESS=watchdog
done
# In 16 bits these sums are whole numbers and exact, with or without a residual.
export SPARSESHIM_MODE=quant SPARSESHIM_VALUE_TYPE=bf16 SPARSESHIM_ALGORITHM=quantized SPARSESHIM_REGISTER='*:calls=1' \
    SPARSESHIM_TEST=identity_steps=1
for ranks in 2 3 4; do
    preloaded "$ranks" nb_random --runs "$((RUNS / 3))" --seed "$((SEED + 2000))"
    tap_taken "$((RUNS / 3)) random programs on $ranks ranks, MODE=quant" "$((RUNS / 3))"
    lossy=$(($(tensors state=registered) - $(tensors state=registered topk_calls=0)))
    [ "$lossy" -gt "$((RUNS / 3))" ]
    tap "$?" "... in which $lossy tensors went in 16 bits"
done
unset SPARSESHIM_MODE SPARSESHIM_VALUE_TYPE SPARSESHIM_ALGORITHM SPARSESHIM_REGISTER SPARSESHIM_TEST
SPARSESHIM_PROGRESS=off preloaded 3 nb_random --runs 5 --seed "$((SEED + 2000))"
tap_taken_none "random programs on 3 ranks, PROGRESS=off"
preloaded 1 nb_random --runs 20 --seed "$((SEED + 3000))"
tap_passed "random programs on 1 rank"
for ranks in 5 6 7 8 9; do
    preloaded "$ranks" nb_random --runs "$((RUNS / 15))" --seed "$((SEED + 1000 * ranks))"
    tap_taken "$((RUNS / 15)) random programs on $ranks ranks" 1
done
finish
