#!/usr/bin/env bash
# The site's policy in a job: lines `lock` and `allow_modes` of the system's file hold over the
# user's file and the environment, a line of rank 0 says what was ignored, and ranks with other
# policies pass their calls through.
set -u
. tests/t/lib.sh

# site DIR: a library and a command whose SYSCONFDIR is DIR/etc, from what is compiled already.
site() {
    mkdir -p "$1/etc"
    cp -a "$BUILD/obj" "$BUILD/libsparseshim_core.a" "$BUILD/cli-libs" "$1"
    rm -f "$1/obj/config/where.o"
    within 200 make --no-print-directory BUILD="$1" NVCC= SYSCONFDIR="$1/etc" \
        "$1/libsparseshim.so" "$1/sparseshim" "$1"/libexec/{sparseshim-learn,learn_judge.py,learn_records.py,sparseshim-bench}
    [ "$STATUS" -eq 0 ] && cp "$BUILD/tests/bench/bench_allreduce" "$1/libexec"
}

# said NUMBER TEXT: so many lines of the last job hold the text.
said() {
    [ "$(grep -cF -- "$2" "$WORK/err")" -eq "$1" ]
}

SITE=$(realpath "$WORK")/site
CONF=$SITE/etc/sparseshim.conf
site "$SITE"
tap "$?" "a library with a system's file of its own"
export PRELOAD=$SITE/libsparseshim.so

printf 'mode = observe\ntimeout = 50\nlock = MODE TIMEOUT REPORT\n' >"$CONF"
for ranks in 2 4; do
    SPARSESHIM_MODE=topk SPARSESHIM_TIMEOUT=90 preloaded "$ranks" fewcalls 4
    tap_passed "$ranks ranks: a job that a lock overrules runs"
    said 1 "sparseshim[0]: SPARSESHIM_MODE=topk is ignored: $CONF:3 locks MODE; observe stands" &&
        said 1 "sparseshim[0]: SPARSESHIM_TIMEOUT=90 is ignored: $CONF:3 locks TIMEOUT; 50 stands" &&
        said 3 "is ignored"
    tap "$?" "$ranks ranks: each is told once, with file and line"
done
[ ! -e "$WORK/report" ] || [ -z "$(ls -A "$WORK/report")" ]
tap "$?" "the locked REPORT is the site's: off"

within 30 env SPARSESHIM_MODE=topk "$SITE/sparseshim" info
grep -Eq "^SPARSESHIM_MODE +observe +locked by $CONF:3\$" "$WORK/out" &&
    grep -Eq "^SPARSESHIM_REPORT +off +locked by $CONF:3\$" "$WORK/out" &&
    grep -Eq '^SPARSESHIM_MIN_COUNT +1 +environment$' "$WORK/out"
tap "$?" "sparseshim info: locked by FILE:LINE"
grep -qxF "Policy of the site, in $CONF: lock = MODE TIMEOUT REPORT" "$WORK/out"
tap "$?" "and the policy with its file"
within 30 "$SITE/sparseshim" info -f
grep -qxF "    Value from: locked by $CONF:3" "$WORK/out"
tap "$?" "and with -f"
within 30 "$SITE/sparseshim" run -n --lock=MODE true
[ "$STATUS" -eq 2 ] && said 1 "--lock is allowed as a line of the system's sparseshim.conf only"
tap "$?" "sparseshim run takes no policy"

printf 'allow_modes = observe exact\n' >"$CONF"
SPARSESHIM_REGISTER='*' SPARSESHIM_MODE=topk preloaded 2 fewcalls 4
tap_passed "MODE=topk where the site allows observe and exact: it runs"
said 1 "sparseshim[0]: SPARSESHIM_MODE=topk (environment) is not in allow_modes = observe exact ($CONF:1); exact stands"
tap "$?" "which is told once, with file and line"

printf 'allow_modes = topk\n' >"$CONF"
preloaded 2 fewcalls 4
tap_passed "where no allowed mode does as little, the job runs without the library"
said 1 "no mode is allowed that does as little as MODE asks for: $CONF:1; every call passes through"
tap "$?" "which is told once"
printf 'allow_modes = exact\n' >"$CONF"
SPARSESHIM_MODE=observe preloaded 2 fewcalls 4
passed && said 1 "no mode is allowed that does as little as MODE asks for: $CONF:1; every call passes through, and no report is written" &&
    ! grep -q 'calls .*seen' "$WORK/err" && [ ! -e "$WORK/report" ]
tap "$?" "MODE=observe where only exact is allowed: it is said that there is no report"
within 30 env -u SPARSESHIM_REPORT "$MPIRUN" -n 2 -genv SPARSESHIM_MODE observe -genv LD_PRELOAD "$PRELOAD $YIELDS" "$PROGRAMS/fewcalls" 4
passed && said 1 "every call passes through" && said 0 "no report"
tap "$?" "and not where none was asked for"

# Switched off by the site, whatever users set.
printf 'allow_modes = none\n' >"$CONF"
for set in MODE=exact MODE=observe DISABLE=off STRICT=on; do
    within 60 env "SPARSESHIM_$set" "$MPIRUN" -n 2 -genv LD_PRELOAD "$PRELOAD $YIELDS" "$PROGRAMS/fewcalls" 4
    passed && [ "$(grep -c . "$WORK/err")" -eq 1 ] && [ ! -e "$WORK/report" ] &&
        said 1 "the site has switched this library off for all jobs: $CONF:1; every call passes through, and no report is written"
    tap "$?" "allow_modes = none, $set: every call passes through, which is told once"
done
within 30 "$SITE/sparseshim" info
[ "$STATUS" -eq 0 ] && grep -Eq "^SPARSESHIM_DISABLE +on +locked by $CONF:1\$" "$WORK/out" &&
    grep -qxF "Policy of the site, in $CONF: allow_modes = none" "$WORK/out"
tap "$?" "sparseshim info says so"
within 30 "$SITE/sparseshim" check "$PROGRAMS/fewcalls"
[ "$STATUS" -eq 1 ] &&
    grep -qF "not be seen because the site has switched this library off for all jobs: $CONF:1" "$WORK/out"
tap "$?" "and sparseshim check"
within 30 env -u SPARSESHIM_MODE "$SITE/sparseshim" learn --steps=9 -- touch "$WORK/ran"
[ "$STATUS" -eq 126 ] && said 1 "which the site does not allow: locked by $CONF:1" && [ ! -e "$WORK/ran" ]
tap "$?" "sparseshim learn as well"
# benched OPTION...: a small measurement.
benched() {
    within 60 env -u SPARSESHIM_REPORT -u SPARSESHIM_REPORT_DIR "$SITE/sparseshim" bench --blocks 1 --count 5000 "$@" -- "$MPIRUN" -n 2
}
benched --algorithm auto,ring
[ "$STATUS" -eq 0 ] && said 1 "sparseshim bench: the site allows no mode here, so that both times are of the MPI library alone (locked by $CONF:1)" &&
    [ "$(grep -c ' 5000 ' "$WORK/out")" -eq 2 ]
tap "$?" "sparseshim bench says once that the site allows no mode, and what it has measured"
printf 'allow_modes = observe exact\n' >"$CONF"
benched --mode topk
[ "$STATUS" -eq 0 ] && said 1 "SPARSESHIM_MODE=topk (environment) is not in allow_modes = observe exact ($CONF:1); exact stands" &&
    grep -Eq '^ +2 +5000 +float +exact ' "$WORK/out"
tap "$?" "and that a lossy mode is not allowed, and that it has measured exact"

printf 'lock = DISABLE\n' >"$CONF"
SPARSESHIM_DISABLE=1 preloaded 2 fewcalls 4
passed && [ ! -s "$WORK/err" ]
tap "$?" "lock = DISABLE does not keep a user from switching the library off"
preloaded 2 fewcalls 4
said 1 "$CONF:1: lock = DISABLE is not allowed: a user can always switch the library off"
tap "$?" "and is told"

# A policy that cannot be read or understood: nothing is served under it, whatever it was meant to
# forbid, until it is corrected.
sparse_calls() {
    counter calls.sparse
}
understood() {
    SPARSESHIM_ALGORITHM=ring preloaded 2 fewcalls 4
    passed && [ "$(sparse_calls)" -gt 0 ] && said 0 "until the site corrects it"
}
misread() {
    local mode
    for mode in exact topk; do
        SPARSESHIM_ALGORITHM=ring SPARSESHIM_REGISTER='*' SPARSESHIM_MODE=$mode preloaded 2 fewcalls 4
        passed && [ "$(sparse_calls)" -eq 0 ] && said 1 "sparseshim[0]: $1" &&
            said 1 "until the site corrects it" &&
            said 1 "the site's policy cannot be understood: $CONF" || return 1
    done
    within 30 "$SITE/sparseshim" info
    [ "$STATUS" -eq 1 ] && said 1 "sparseshim: $1"
}
printf 'allow_modes = observe exact\n' >"$CONF"
understood
tap "$?" "under a policy that is understood calls are sparse"
while IFS='|' read -r line message; do
    printf '%s\n' "$line" >"$CONF"
    misread "$CONF:1: $message; every call passes through until the site corrects it"
    tap "$?" "$line: told once per job, nothing is sparse, info ends with 1"
done <<'EOF'
allow_mode = observe|allow_mode is not known (did you mean allow_modes?)
lock = MAX_MEM|lock = MAX_MEM is not allowed (allowed: names of options but DISABLE, separated by blanks; did you mean MAX_MEMORY?)
lock MODE|'lock MODE' is not a setting; allowed are lines 'name = value'
allow_modes = observ|allow_modes = observ is not allowed (allowed: observe, learn, exact, topk, quant, separated by blanks, or none alone; did you mean observe?)
EOF
rm "$CONF"
mkdir "$CONF"
misread "$CONF cannot be read: "
tap "$?" "and so is a site's file that cannot be read"
rmdir "$CONF"
printf 'lock = MAX_MEMORY\nmoed = observe\n' >"$CONF"
understood && said 1 "$CONF:2: moed is not known (did you mean mode?)"
tap "$?" "corrected, calls are sparse again, beside a mistake that is none in the policy"
within 30 "$SITE/sparseshim" info
[ "$STATUS" -eq 0 ]
tap "$?" "and info ends with 0"

# A policy that only one rank can read: all pass through, and nobody waits.
printf 'lok = MODE\n' >"$CONF"
within 60 "$MPIRUN" -n 1 -genv SPARSESHIM_ALGORITHM ring -genv LD_PRELOAD "$PRELOAD $YIELDS" "$PROGRAMS/fewcalls" 4 : \
    -n 1 env LD_PRELOAD="$LIB $YIELDS" "$PROGRAMS/fewcalls" 4
passed && [ "$(sparse_calls)" -eq 0 ] && said 1 "$CONF:1: lok is not known"
tap "$?" "understood on one rank of two only: both pass through"

# Rank 0 with a policy, rank 1 without one.
printf 'lock = MODE\n' >"$CONF"
within 60 "$MPIRUN" -n 1 -genv LD_PRELOAD "$PRELOAD $YIELDS" "$PROGRAMS/fewcalls" 4 : \
    -n 1 env LD_PRELOAD="$LIB $YIELDS" "$PROGRAMS/fewcalls" 4
passed && said 1 'the policy of sparseshim.conf (lock = MODE on rank 0) must be equal on all ranks and is not'
tap "$?" "ranks with other policies are told and pass through"

# learn says so where the site does not let it look.
printf 'allow_modes = observe exact\n' >"$CONF"
within 30 env -u SPARSESHIM_MODE "$SITE/sparseshim" learn --steps=9 -- touch "$WORK/ran"
[ "$STATUS" -eq 126 ] && said 1 "sparseshim learn: the run needs SPARSESHIM_MODE=learn, which the site does not allow: locked by $CONF:1" && [ ! -e "$WORK/ran" ]
tap "$?" "sparseshim learn where MODE=learn is not allowed"
finish
