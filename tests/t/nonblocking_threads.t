#!/usr/bin/env bash
# Threads of an MPI_THREAD_MULTIPLE program: blocking and nonblocking calls at once.
set -u
YIELDS='' # threads that sleep in the MPI library keep others out of it
. tests/t/lib.sh

# These programs do not run at MPI_THREAD_MULTIPLE themselves.
export SPARSESHIM_PROGRESS=watchdog

bare 2 nb_threads --rounds 1
tap_passed "nb_threads on 2 ranks, bare"
for ranks in 2 3; do
    preloaded "$ranks" nb_threads --rounds 4
    tap_taken "nb_threads on $ranks ranks" 80
    SPARSESHIM_PROGRESS=thread SPARSESHIM_ALGORITHM=ring preloaded "$ranks" nb_threads --rounds 4
    tap_taken "nb_threads on $ranks ranks, PROGRESS=thread" 80 150
done
SPARSESHIM_ALGORITHM=dense preloaded 2 nb_threads --rounds 4
tap_taken "nb_threads on 2 ranks, every leg dense" 80
SPARSESHIM_ALGORITHM=split_allgather preloaded 2 nb_threads --rounds 4
tap_taken "nb_threads on 2 ranks, split_allgather" 80 150
finish
