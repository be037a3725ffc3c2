#!/usr/bin/env bash
# Nonblocking allreduces move while their rank is blocked elsewhere, and legs of one size are not
# mistaken for each other.
set -u
. tests/t/lib.sh

# These programs do not run at MPI_THREAD_MULTIPLE themselves.
export SPARSESHIM_PROGRESS=watchdog

export LIMIT=90

bare 4 nb_order --times 4 --count 256
tap_passed "nb_order on 4 ranks, bare"
preloaded 4 nb_order --times 200 --count 512
tap_taken "nb_order on 4 ranks, 200 times" 900
SPARSESHIM_PROGRESS=thread SPARSESHIM_ALGORITHM=ring preloaded 4 nb_order --times 10 --count 512
tap_taken "nb_order on 4 ranks, PROGRESS=thread" 420 420
for algorithm in split_allgather recursive_doubling; do
    SPARSESHIM_ALGORITHM=$algorithm preloaded 3 nb_order --times 10 --count 2048
    tap_taken "nb_order on 3 ranks, $algorithm" 400 400
done
preloaded 3 nb_order --key 1 --count 4096
tap_taken "a rank with a key of its own meets the others: the order of collectives stays" 1
SPARSESHIM_PROGRESS=off preloaded 4 nb_order --times 4 --count 256
tap_taken_none "nb_order with PROGRESS=off: passed through"

bare 4 nb_order_f08 5
tap_passed "nb_order_f08 on 4 ranks, bare"
SPARSESHIM_ALGORITHM=recursive_doubling preloaded 4 nb_order_f08 200
tap_taken "nb_order_f08 on 4 ranks, 200 times: calls of mpi_f08 are taken over" 190 190
SPARSESHIM_PROGRESS=thread preloaded 4 nb_order_f08 40
tap_taken "nb_order_f08 on 4 ranks, PROGRESS=thread" 30

bare 3 nb_dense --times 2
tap_passed "nb_dense on 3 ranks, bare"
for progress in watchdog thread; do
    export SPARSESHIM_PROGRESS=$progress
    preloaded 3 nb_dense --times 2
    tap_taken "nb_dense on 3 ranks, PROGRESS=$progress" 48
    SPARSESHIM_ALGORITHM=dense preloaded 4 nb_dense --times 2
    tap_taken "nb_dense on 4 ranks, every leg dense, PROGRESS=$progress" 66
done
SPARSESHIM_PROGRESS=watchdog
SPARSESHIM_ALGORITHM=ring preloaded 2 nb_dense --times 2
tap_taken "nb_dense on 2 ranks, ring" 50 50
# Registered tensors would not give sums: those here are told to stay exact.
SPARSESHIM_MODE=topk SPARSESHIM_REGISTER=count=1000000:2000000 preloaded 3 nb_dense --times 2
tap_taken "nb_dense on 3 ranks, MODE=topk, nothing registered" 50
finish
