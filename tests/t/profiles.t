#!/usr/bin/env bash
# The profiles of config/profiles load without a complaint, from the build directory by their names,
# have the values that they promise, and say in their first lines what they are for and what
# is not from the paper.
set -u
. tests/t/lib.sh
unset SPARSESHIM_MIN_COUNT
export HOME=$WORK XDG_CONFIG_HOME=$WORK/none
CLI=$BUILD/sparseshim

# Prints the options of each profile, in the order of the table.
expected() {
    case $1 in
    gigabit-ethernet) echo 'MODE=exact MIN_COUNT=16384 ALPHA=50us BETA=8e-9' ;;
    infiniband) echo 'MODE=exact MIN_COUNT=262144 ALPHA=2us BETA=1.5e-10' ;;
    esac
}

# set_by_profile: what info has from the profile, on one line.
set_by_profile() {
    sed -n 's/^SPARSESHIM_\([A-Z_]*\) *\([^ ]*\) *file named by CONFIG$/\1=\2/p' "$WORK/out" | paste -sd' '
}

for file in config/profiles/*.conf; do
    name=$(basename "$file" .conf)
    within 30 env SPARSESHIM_CONFIG="@$name" "$CLI" info
    set=$(set_by_profile)
    [ "$STATUS" -eq 0 ] && [ ! -s "$WORK/err" ] && [ -n "$set" ] && [ "$set" = "$(expected "$name")" ]
    tap "$?" "@$name: $set"
    grep -q "^  .*/config/profiles/$name.conf: read$" "$WORK/out"
    tap "$?" "@$name is found from the build directory"
    within 30 "$CLI" run -n --config="@$name" true
    cp "$WORK/out" "$WORK/first"
    within 30 "$CLI" run --config="@$name" -n true
    cmp -s "$WORK/first" "$WORK/out" || STATUS=1
    [ "$STATUS" -eq 0 ] && grep -qx "SPARSESHIM_CONFIG=@$name" "$WORK/out" && [ ! -s "$WORK/err" ]
    tap "$?" "sparseshim run --config=@$name"
    head -n 1 "$file" | grep -q '^# [A-Z0-9]' && grep -q '^# Not from the paper: ' "$file" &&
        sed '/^$/q' "$file" | tr '\n#' '  ' | tr -s ' ' | grep -Eq '(section|table) [0-9IVX]+' &&
        ! grep -nE '.{101}' "$file"
    tap "$?" "$file says what it is for, and where it is from"
done

# A job takes one, and nothing is complained of.
for name in gigabit-ethernet infiniband; do
    within 60 "$MPIRUN" -n 2 -genv LD_PRELOAD "$LOADED $YIELDS" -genv SPARSESHIM_CONFIG "@$name" "$PROGRAMS/fewcalls" 3 70000
    passed && [ "$(grep -c '^sparseshim\[[0-9]*\]:' "$WORK/err")" -eq 0 ]
    tap "$?" "a job with @$name"
done

mkdir -p "$WORK/.config/sparseshim"
echo 'timeout = 3' >"$WORK/.config/sparseshim/infiniband.conf"
# A queued job must not run with other options than meant.
within 60 "$MPIRUN" -n 2 -genv LD_PRELOAD "$LOADED $YIELDS" -genv SPARSESHIM_CONFIG "$WORK/gone.conf" "$PROGRAMS/fewcalls" 3 70000
[ "$STATUS" -ne 0 ] && grep -q "gone.conf cannot be read: No such file" "$WORK/err" &&
    grep -q 'the file of SPARSESHIM_CONFIG cannot be read, and the job would run' "$WORK/err" "$WORK/out"
tap "$?" "a file of CONFIG that is missing is an MPI error where the library is preloaded without sparseshim run"
within 60 "$MPIRUN" -n 2 -genv LD_PRELOAD "$LOADED $YIELDS" -genv SPARSESHIM_CONFIG "$WORK/gone.conf" -genv SPARSESHIM_DISABLE on "$PROGRAMS/fewcalls" 3
[ "$STATUS" -eq 0 ]
tap "$?" "... but not if the library is switched off"
unset XDG_CONFIG_HOME
within 30 env SPARSESHIM_CONFIG=@infiniband "$CLI" info
[ "$(set_by_profile)" = TIMEOUT=3 ]
tap "$?" "a profile of the user's comes before one of that name"

# refused TEXT ARGUMENT...: sparseshim run ends with a line that holds the text.
refused() {
    local text=$1
    shift
    within 30 "$CLI" run "$@"
    [ "$STATUS" -eq 2 ] && [ "$(wc -l <"$WORK/err")" -eq 1 ] && grep -qF -- "$text" "$WORK/err"
    tap "$?" "sparseshim run $*: $text"
}
refused 'none.conf cannot be read: No such file' --config=@none true
refused "is not allowed (allowed: after '@' the name of a profile" --config=@../infiniband true
refused "is not allowed (allowed: after '@' the name of a profile" --config=@ true
refused '--profile NAME is replaced by --config=@NAME' --profile infiniband true
refused 'no program given' --config=@infiniband
finish
