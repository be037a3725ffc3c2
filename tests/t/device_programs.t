#!/usr/bin/env bash
# Programs of tests/mpi with the buffers of their collectives in device memory, of the host and of both
# by turns (tests/preload/to_device.c): each a short run; `make check-emulated` runs whole tests so.
set -u
export ON_DEVICE=${ON_DEVICE:-DD,PP,DS,HH,DD}
. tests/t/lib.sh

if [ ! -e "$BUILD/libsparseshim_cuda.so" ]; then
    skip "programs on device memory" "libsparseshim_cuda.so is not built: there is no nvcc"
    finish
    exit
fi

# harmless CASE NAME: cases of harmless.t end alike, bare and preloaded on devices.
harmless() {
    local result=0
    HARMLESS_FORMS=small HARMLESS_ONLY=$1 tests/t/harmless.t >"$WORK/out" 2>"$WORK/err" || result=1
    grep -q '^ok .*(small)$' "$WORK/out" && ! grep -q '^not ok' "$WORK/out" || result=1
    tap "$result" "$2"
}

harmless "edge_args in-place" "calls in place, whose send count means nothing"
finish
