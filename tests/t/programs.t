#!/usr/bin/env bash
# PROGRAMS: which programs are served; the others, and communicators on which another runs as well,
# pass through, whatever the ranks are.
set -u
. tests/t/lib.sh
. tests/t/python.sh
export SPARSESHIM_ALGORITHM=split_allgather
cp "$PROGRAMS/fewcalls" "$WORK/other"

sparse() {
    sed -n 's/^ *calls .* seen: \([0-9]*\) made sparse.*/\1/p' "$WORK/err"
}

# served PROGRAMS COUNT NAME
served() {
    SPARSESHIM_PROGRAMS=$1 preloaded 2 fewcalls 3 5000
    passed && [ "$(sparse)" = "$2" ]
    tap "$?" "$3: PROGRAMS='$1'"
}
served '' 2 "empty: all"
served 'fewcalls' 2 "its name"
served 'train* few?alls' 2 "a pattern"
served '!train !other*' 2 "others are left out"
served 'train other' 0 "not among them"
grep -q ' this program is not among PROGRAMS=train other$' "$WORK/err"
tap "$?" "and the report says so"
served '!few*' 0 "left out"
served 'few* !fewcalls' 0 "left out of a pattern"
served 'few[' 0 "a pattern that is none matches nothing"

# Ranks of unlike programs on one communicator: all pass through, nobody waits.
for order in "$PROGRAMS/fewcalls $WORK/other" "$WORK/other $PROGRAMS/fewcalls"; do
    read -r first second <<<"$order"
    SPARSESHIM_PROGRAMS=fewcalls within 60 "$MPIRUN" -genv LD_PRELOAD "$LOADED $YIELDS" -n 1 "$first" 3 5000 : -n 2 "$second" 3 5000
    passed && [ "$(sparse)" = 0 ]
    tap "$?" "three ranks of two programs, ${first##*/} first: all pass through"
done
SPARSESHIM_PROGRAMS='fewcalls oth*' within 60 "$MPIRUN" -genv LD_PRELOAD "$LOADED $YIELDS" -n 1 "$PROGRAMS/fewcalls" 3 5000 : -n 2 "$WORK/other" 3 5000
passed && [ "$(sparse)" = 2 ]
tap "$?" "both among them: served"

# The first call is a nonblocking one, and the ranks meet in the second.
cp "$PROGRAMS/nb_mixed" "$WORK/beside"
for level in '' funneled; do
    # shellcheck disable=SC2086
    SPARSESHIM_PROGRESS=watchdog SPARSESHIM_PROGRAMS='!beside' within 60 "$MPIRUN" -genv LD_PRELOAD "$LOADED $YIELDS" \
        -n 2 "$PROGRAMS/nb_mixed" nonblocking : -n 1 "$WORK/beside" nonblocking $level
    passed && [ "$(sparse)" = 0 ]
    tap "$?" "nonblocking calls beside a program that is left out ($level): all pass through"
done

if have_mpi4py; then
    on_host "mpi4py comes by itself, device memory of Python is in device.t"
    for list in 'allreduce.py 1' 'python* 0' '!allreduce* 0'; do
        SPARSESHIM_PROGRAMS=${list% *} within 60 "$MPIRUN" -n 2 -genv LD_PRELOAD "$LOADED $YIELDS" "$VENV/bin/python" -u -W ignore tests/py/allreduce.py
        [ "$STATUS" -eq 0 ] && [ "$(($(sparse) > 0))" -eq "${list##* }" ]
        tap "$?" "Python goes by its script: PROGRAMS='${list% *}'"
    done
else
    skip "Python goes by its script" "mpi4py is missing and could not be built"
fi
finish
