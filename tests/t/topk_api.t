#!/usr/bin/env bash
# sparseshim.h, and call sites: programs that know the library, and those that call it through
# wrappers of their own.
set -u
. tests/t/lib.sh

# ---- sparseshim.h ----

at_one_place # gradients are named by their buffers
bare 2 header_api bare
tap_passed "without the library every function says so, and the program runs"
SPARSESHIM_DISABLE=1 preloaded 2 header_api inactive
tap_passed "SPARSESHIM_DISABLE=1: not active"
SPARSESHIM_MODE=exact preloaded 2 header_api inactive
tap_passed "MODE=exact: not active"
export SPARSESHIM_MODE=topk SPARSESHIM_ALGORITHM=split_allgather
# in_quant COMMAND...: with every element in few bits. A call of which a part is sent takes quantized for
# auto: on a slow link that is not dense, whatever is measured here.
in_quant() {
    SPARSESHIM_MODE=quant SPARSESHIM_ALGORITHM=quantized SPARSESHIM_ALPHA=1us SPARSESHIM_BETA=8e-7 "$@"
}
for ranks in 2 3; do
    SPARSESHIM_TEST=identity_steps=1 SPARSESHIM_DENSITY=0.1 preloaded "$ranks" header_api use
    tap_passed "$ranks ranks: buffers registered by the program" 30
    SPARSESHIM_TEST=identity_steps=1 in_quant preloaded "$ranks" header_api use 1
    tap_passed "$ranks ranks: and in few bits" 30
done
SPARSESHIM_EXCLUDE=count=4000 SPARSESHIM_TEST=identity_steps=1 preloaded 2 header_api use
[ "$(tensors state=exact reason=excluded)" = 2 ] && [ "$(tensors state=registered)" = 0 ]
tap "$?" "EXCLUDE stands against the program's word"

# ---- a job that is started again ----

mkdir "$WORK/checkpoint"
for ranks in 2 3; do
    for how in end keep lose; do
        SPARSESHIM_REGISTER='*:calls=1' SPARSESHIM_TEST=identity_steps=1 preloaded "$ranks" resume "$how" "$WORK/checkpoint"
        case $how in
        end) tap_passed "$ranks ranks: a job ends, with what it holds back in its checkpoint" 50 ;;
        keep) tap_passed "$ranks ranks: what was held back is added to the first gradient: nothing is lost" 50 ;;
        lose) tap_passed "$ranks ranks: what was held back is forgotten: that is what is lost" 50 ;;
        esac
    done
    for how in end keep; do
        SPARSESHIM_REGISTER='*:calls=1' SPARSESHIM_TEST=identity_steps=1 in_quant preloaded "$ranks" resume "$how" "$WORK/checkpoint"
        tap_passed "$ranks ranks: in few bits: $how" 50
    done
done

MPI_FLAGS=$(mpicc.mpich -show 2>/dev/null | tr ' ' '\n' | grep -E '^-(I|L|l|Wl)' | tr '\n' ' ')
# compiled NAME COMPILER FLAG...: the program calls the library, compiled in another way.
compiled() {
    local name=$1 compiler=$2
    shift 2
    if ! command -v "$compiler" >/dev/null; then
        skip "$name" "$compiler is not installed"
        return
    fi
    # shellcheck disable=SC2086 # several flags
    within 60 "$compiler" "$@" -Wall -Wextra -Werror -O2 -I. -o "$WORK/api" tests/mpi/topk/header_api.c $MPI_FLAGS -lm
    if [ "$STATUS" -eq 0 ]; then
        SPARSESHIM_TEST=identity_steps=1 SPARSESHIM_DENSITY=0.1 within 60 "$MPIRUN" -n 2 \
            -genv LD_PRELOAD "$LOADED $YIELDS" "$WORK/api" use
        tap_passed "$name: finds the library" 30
        within 60 "$MPIRUN" -n 2 "$WORK/api" bare
        tap_passed "$name: runs without it"
    else
        tap 1 "$name: compiles"
    fi
}
compiled "gcc, position independent" gcc -fPIE -pie
compiled "gcc, not position independent" gcc -fno-pie -no-pie
compiled "clang" clang

# ---- call sites ----

on_host "the calls come from tests/preload/to_device.c then"
export SPARSESHIM_TEST=identity_steps=1
unset SPARSESHIM_ALGORITHM
for layers in 1 2 3; do
    SPARSESHIM_REGISTER="site=*:calls=$layers" preloaded 2 sites "$layers" 20
    tap_passed "$layers layers through one wrapper and one buffer"
    [ "$(tensors)" = "$layers" ] && [ "$(tensors state=registered)" = "$layers" ]
    tap "$?" "a tensor for each of calls=$layers, also when called from elsewhere: $(tensors state=registered) of $(tensors)"
done
export SPARSESHIM_REGISTER='site=*:calls=1'
within 60 "$MPIRUN" -n 2 -genv LD_PRELOAD "$LOADED $YIELDS" setarch -R "$PROGRAMS/sites" 1
plain=$(grep -o 'sites+0x[0-9a-f]*' "$WORK"/report/*.json | sort -u)
preloaded 2 sites 1
[ -n "$plain" ] && [ "$(grep -o 'sites+0x[0-9a-f]*' "$WORK"/report/*.json | sort -u)" = "$plain" ]
tap "$?" "a call site has one name wherever the program is loaded: ${plain##*:}"

# Communicators that are gone at the end of the job.
at_all_places
SPARSESHIM_EXCLUDE='*' preloaded 2 smoke
tap_passed "communicators come and go, everything excluded: exact"
[ "$(tensors)" -gt 0 ] && [ "$(tensors ranks=0)" = 0 ]
tap "$?" "tensors of communicators that were freed are in the report: $(tensors)"

# A library of this name that is none.
on_host "the calls come from tests/preload/to_device.c then"
mkdir "$WORK/broken"
echo broken >"$WORK/broken/libunwind.so.8"
SPARSESHIM_DEBUG=info within 60 "$MPIRUN" -n 2 -genv LD_PRELOAD "$LOADED $YIELDS" \
    -genv LD_LIBRARY_PATH "$WORK/broken${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}" "$PROGRAMS/sites" 2 20
tap_passed "without libunwind the program runs"
tap "$(($(grep -c 'sparseshim\[0\]: no call sites by libunwind' "$WORK/err") != 1))" \
    "it is said once that there is none"
[ "$(tensors)" = 1 ] && grep -q '"site": "sites+0x' "$WORK"/report/*.json
tap "$?" "the call site is the return address then"

at_all_places
# C++ exceptions, before and after libunwind has been opened.
cat >"$WORK/throw.cpp" <<'END'
#include <mpi.h>
#include <cstdio>
#include <stdexcept>
#include <string>
#include <vector>
#include "shim/sparseshim.h"

struct guard {
    int &left;
    ~guard() { left--; }
};

static std::vector<float> x(2000);

static void reduce(int depth, int &left)
{
    guard g{++left};
    if (depth > 0)
        return reduce(depth - 1, left);
    for (std::size_t i = 0; i < x.size(); i++)
        x[i] = float(i % 17) - 8;
    MPI_Allreduce(MPI_IN_PLACE, x.data(), int(x.size()), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    throw std::runtime_error("from below");
}

int main(int argc, char **argv)
{
    int left = 0, caught = 0;
    MPI_Init(&argc, &argv);
    for (int step = 0; step < 50; step++)
        try {
            reduce(step % 9, left);
        } catch (const std::exception &e) {
            caught += std::string(e.what()) == "from below";
        }
    sparseshim_stats(x.data(), 0, nullptr);
    int rank;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == 0)
        std::printf("%s 1 - %d caught, %d left\n1..1\n", caught == 50 && left == 0 ? "ok" : "not ok",
                    caught, left);
    MPI_Finalize();
    return 0;
}
END
if command -v g++ >/dev/null; then
    # shellcheck disable=SC2086 # several flags
    within 60 g++ -Wall -Wextra -Wpedantic -Werror -Wno-error=pedantic -O1 -I. -o "$WORK/throw" "$WORK/throw.cpp" \
        ${MPI_FLAGS//-I/-isystem }
    [ "$STATUS" -eq 0 ] && within 60 "$MPIRUN" -n 2 -genv LD_PRELOAD "$LOADED $YIELDS" "$WORK/throw"
    tap_passed "C++ exceptions pass through frames above MPI_Allreduce"
    [ "$(tensors)" -ge 1 ]
    tap "$?" "and sites were found meanwhile"
else
    skip "C++ exceptions pass through frames above MPI_Allreduce" "g++ is not installed"
fi
finish
