#!/usr/bin/env bash
# collectives.t with its buffers in device memory, of a pool, of two devices and of the host, by turns;
# `make check-more PART=emulated` runs the other tests so.
set -u
export ON_DEVICE=${ON_DEVICE:-DD,PP,DS,HH}
. tests/t/lib.sh

needs_devices "collectives on device memory"
tests/t/collectives.t
