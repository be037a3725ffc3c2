# shellcheck shell=bash
# The recipes of sparseshim(7), read from the page as it is shown. Sourced after lib.sh, which sets
# MIN_COUNT; recipes begin from the defaults.

unset SPARSESHIM_MIN_COUNT
groff -t -man -Tutf8 -P-cbou "$BUILD/man/sparseshim.7" >"$WORK/manual"

# recipe NAME FOLDER: the example programs into FOLDER; what is typed there, and what that is to print,
# into FOLDER.session, as 1.command, 1.printed, 2.command ...
recipe() {
    mkdir -p "$2" "$2.session"
    cp scripts/examples/* "$2"
    perl -e '
        my ($name, $folder) = @ARGV;
        my ($file, $typed, $open, $here, $recipes);
        sub into { close $file if $file; undef $file; open $file, ">", $_[0] or die $_[0] if @_ }
        while (<STDIN>) {
            ($recipes, $here) = (/^RECIPES$/, 0) if /^\S/;
            $here = $recipes && $_ eq "   $name\n" if /^   \S/;
            into() if /^ {0,10}\S/;
            next if !$here || !/^ {11}/;
            s/^ {11}//;
            if (/^\$ / || $open) {
                into("$folder.session/" . ++$typed . ".command") if s/^\$ //;
                print $file $_;
                $open = /\\$/;
                into("$folder.session/$typed.printed") if !$open;
            } elsif ($file) {
                print $file $_;
            }
        }' "$1" "$2" <"$WORK/manual"
}

# printed FILE: whether each of its lines is one that the last command printed, but for the width of
# blanks; ... stands for anything.
printed() {
    cat "$WORK/out" "$WORK/err" | perl -e '
        sub plain { join " ", split " ", $_[0] }
        my @said = map { plain($_) } <STDIN>;
        my $missing = 0;
        open my $file, "<", $ARGV[0] or die $ARGV[0];
        for (grep { /\S/ } <$file>) {
            my $like = join ".*", map { quotemeta } split /\.\.\./, plain($_), -1;
            next if grep { /^$like$/ } @said;
            print STDERR "not printed: $_";
            $missing = 1;
        }
        exit $missing' "$1" 2>"$WORK/missing"
}

# typed FOLDER [PATTERN]: types the session of a recipe in FOLDER, only those of its commands that
# match PATTERN. Whether all ended well and printed what they are to; COMMANDS is how many there were,
# CALLS how many calls their reports have as made sparse.
typed() {
    local command made
    COMMANDS=0
    CALLS=0
    while IFS= read -r command; do
        grep -qE -- "${2:-.}" "$command" || continue
        COMMANDS=$((COMMANDS + 1))
        (cd "$1" && within "${LIMIT:-60}" env -u SPARSESHIM_REPORT -u SPARSESHIM_REPORT_DIR PATH="$TOOLS:$PATH" bash "$command"
            echo "$STATUS" >"$WORK/status")
        STATUS=$(cat "$WORK/status")
        made=$(sed -n 's/^ *calls .* seen: \([0-9,]*\) made sparse.*/\1/p' "$WORK/out" "$WORK/err" | head -n 1 | tr -d ,)
        CALLS=$((CALLS + ${made:-0}))
        if ! ended_well "$command" || ! printed "${command%.command}.printed"; then
            { echo "typed: $(cat "$command")"; cat "$WORK/missing"; } >>"$WORK/err"
            return 1
        fi
    done < <(find "$1.session" -name '*.command' | sort -V)
    [ "$COMMANDS" -gt 0 ]
}

# A command that a time limit ends has ended well, too.
ended_well() {
    : >"$WORK/missing"
    [ "$STATUS" -eq 0 ] || { [ "$STATUS" -eq 124 ] && grep -q '^timeout ' "$1"; }
}

# tool NAME COMMAND: what NAME means where recipes are typed.
TOOLS=$WORK/tools
tool() {
    mkdir -p "$TOOLS"
    printf '#!/usr/bin/env bash\nexec %s "$@"\n' "$2" >"$TOOLS/$1"
    chmod +x "$TOOLS/$1"
}
tool mpirun "$(command -v "$MPIRUN") -genv LD_PRELOAD \"\${LD_PRELOAD:+\$LD_PRELOAD }$YIELDS\""
tool mpicc "$(command -v mpicc.mpich || command -v mpicc)"
tool mpifort "$(command -v mpifort.mpich || command -v mpifort)"
tool sparseshim "$BUILD/sparseshim"
