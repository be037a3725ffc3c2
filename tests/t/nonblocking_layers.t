#!/usr/bin/env bash
# One nonblocking allreduce for each layer and one MPI_Waitall, as frameworks do it.
set -u
. tests/t/lib.sh

# These programs do not run at MPI_THREAD_MULTIPLE themselves.
export SPARSESHIM_PROGRESS=watchdog

bare 2 nb_layers --divide 256 --steps 1
tap_passed "nb_layers on 2 ranks, bare"
for progress in watchdog thread; do
    SPARSESHIM_PROGRESS=$progress preloaded 2 nb_layers --divide 64 --steps 4
    tap_taken "161 tensors of ResNet-50 on 2 ranks, PROGRESS=$progress" 1000
    SPARSESHIM_ALGORITHM=ring SPARSESHIM_PROGRESS=$progress preloaded 4 nb_layers --divide 256 --steps 3
    tap_taken "161 tensors of ResNet-50 on 4 ranks, ring, PROGRESS=$progress" 700 700
done
SPARSESHIM_MIN_COUNT=1000 preloaded 3 nb_layers --divide 64 --steps 3
tap_taken "161 tensors of ResNet-50 on 3 ranks, small ones passed through" 200
SPARSESHIM_ALGORITHM=dense preloaded 2 nb_layers --divide 256 --steps 2
tap_taken "161 tensors of ResNet-50 on 2 ranks, every leg dense" 400
finish
