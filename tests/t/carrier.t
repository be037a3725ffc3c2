#!/usr/bin/env bash
# What nonblocking calls lean on: the extended generalized requests of the MPI library itself.
set -u
. tests/t/lib.sh

bare 1 greq_probe
tap_passed "generalized requests with callbacks complete under every Wait and Test, by any thread"
grep '^# MPI_Request_get_status' "$WORK/out"
finish
