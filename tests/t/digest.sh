# shellcheck shell=bash
# What tests/gradients/negatives prints, and whether two runs of it ended alike. Sourced.

# same DIGEST DIGEST: every value within the tolerance that the first names.
same() {
    perl -e '
        my (undef, $bound, @a) = split " ", $ARGV[0];
        my (undef, undef, @b) = split " ", $ARGV[1];
        exit 1 unless @a && @a == @b;
        for (0 .. $#a) {
            my $most = abs $a[$_] > abs $b[$_] ? abs $a[$_] : abs $b[$_];
            exit 1 if abs($a[$_] - $b[$_]) > $bound * ($most + 0.1);
        }' "$1" "$2"
}
