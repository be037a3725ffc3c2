#!/usr/bin/env bash
# sparseshim bench: each combination of its lists is run once, under the launcher given; table, CSV,
# JSON and plot have what was measured.
set -u
. tests/t/lib.sh
unset SPARSESHIM_MIN_COUNT
CLI=$BUILD/sparseshim
mkdir "$WORK/here" && cd "$WORK/here" || exit 1

# measured OPTION...: two ranks.
measured() {
    within 120 env -u SPARSESHIM_REPORT -u SPARSESHIM_REPORT_DIR "$CLI" bench --blocks 2 --calls 2 --warm 4 "$@" -- \
        "$MPIRUN" -n 2 -genv UCX_RNDV_THRESH inf
}

# column NAME: of x.csv, values joined by blanks.
column() {
    awk -F, -v name="$1" 'NR == 1 { for (i = 1; i <= NF; i++) if ($i == name) c = i; next } { printf "%s%s", s, $c; s = " " }' x.csv
}

measured --count 64Ki,20000 --density 0.01,5% --algorithm split_allgather,ring --csv x.csv --json x.json
[ "$STATUS" -eq 0 ] && [ "$(column count)" = "65536 65536 65536 65536 20000 20000 20000 20000" ] &&
    [ "$(column density)" = "0.01 0.01 0.05 0.05 0.01 0.01 0.05 0.05" ] &&
    [ "$(column algorithm | tr ' ' '\n' | sort | uniq -c | awk '{ print $1 }' | tr '\n' ' ')" = "4 4 " ]
tap "$?" "exact: all combinations, once each"
awk -F, 'NR > 1 { n++; if (NF != 17 || $1 != 2 || $8 <= 0 || $9 <= 0 || $11 > $10 || $12 < $10 || $17 > 1e-6) bad = 1 } END { exit bad || n != 8 }' x.csv
tap "$?" "times are there, quartiles enclose the median, the sums are those of the MPI library"
awk -F, 'NR > 1 { d = $5; want = 4 * $2; if ($13 != want || $14 > 12 * d * $2 + 3000 || $14 < d * $2 || $16 < d || $16 > 2 * d * 1.1) bad = 1 } END { exit bad }' x.csv
tap "$?" "bytes: dense 2 (P-1)/P 4N, sparse some bytes an entry; density of the result"
perl -MJSON::PP -e 'local $/; open my $f, "<", "x.json"; my $r = decode_json(<$f>)->{runs};
    exit !(@$r == 8 && $r->[0]{ranks} == 2 && $r->[7]{count} == 20000 && $r->[2]{density} eq "0.05" && $r->[0]{seconds} > 0)'
tap "$?" "JSON has the same runs"
[ "$(grep -cE '^ +2 ' "$WORK/out")" -eq 8 ] && grep -q 'collective' "$WORK/out"
tap "$?" "so has the table"

measured --mode topk --count 50000 --density 1%,4/512 --algorithm auto,oktopk --value-type same,bf16 --csv x.csv
[ "$STATUS" -eq 0 ] && [ "$(column value_type)" = "same same same same bf16 bf16 bf16 bf16" ] &&
    awk -F, 'NR > 1 && $6 == "oktopk" { n++; if ($14 > 0.2 * $13 || $17 != "" || $16 > 0.03) bad = 1 } END { exit bad || n != 4 }' x.csv
tap "$?" "topk: value types, k of each B, collectives with a global top-k"

drawn=0 left='./x.csv ./x.json ./x.svg '
command -v gnuplot >/dev/null || drawn=3 left='./x.csv ./x.json ' # a plot that is lacking is a failure
measured --count 20000 --density 0.01,0.1 --csv - --plot x.svg
[ "$STATUS" -eq "$drawn" ] && [ "$(grep -c '^2,20000,float,exact,' "$WORK/out")" -eq 2 ] && ! grep -q collective "$WORK/out"
tap "$?" "--csv - takes the place of the table"
if [ "$drawn" -eq 0 ]; then
    grep -q '<svg' x.svg && grep -q auto x.svg
    tap "$?" "a plot"
else
    grep -q 'gnuplot is not installed' "$WORK/err"
    tap "$?" "a plot needs gnuplot, and it is said"
fi
# Without gnuplot what was measured stays.
mkdir "$WORK/tools"
for tool in env "$MPIRUN" hydra_pmi_proxy; do
    found=$(command -v "$tool") && ln -s "$found" "$WORK/tools"
done
within 120 env -u SPARSESHIM_REPORT -u SPARSESHIM_REPORT_DIR PATH="$WORK/tools" "$CLI" bench --blocks 1 --calls 2 --warm 4 \
    --count 20000 --plot y.svg -- "$MPIRUN" -n 2 -genv UCX_RNDV_THRESH inf
[ "$STATUS" -eq 3 ] && grep -q 'no plot: gnuplot is not installed; what it would show is in y.svg.csv' "$WORK/err" &&
    [ "$(grep -c '^2,20000,float,exact,' y.svg.csv)" -eq 1 ] && grep -q collective "$WORK/out"
tap "$?" "--plot without gnuplot: said, and CSV and table are there"
rm -f y.svg.csv
[ "$(find . -mindepth 1 | sort | tr '\n' ' ')" = "$left" ]
tap "$?" "nothing else is left"

# What a rank sends depends on the rank. keep: the reports as well; lose: but that of rank 0.
cat >"$WORK/three" <<'SH'
#!/bin/sh
form=$1 mpirun=$2
shift 2
"$mpirun" -n 3 -genv UCX_RNDV_THRESH inf "$@" || exit
for report in sparseshim-bench-*/sparseshim-*.json; do
    rank=$(perl -MJSON::PP -0777 -ne 'print decode_json($_)->{job}{rank}' "$report")
    [ "$form" = keep ] && cp "$report" "$rank.kept"
    [ "$form$rank" = lose0 ] && rm "$report"
done
true
SH
chmod +x "$WORK/three"
# of_three FORM: 20000 elements on 3 ranks.
of_three() {
    within 60 env -u SPARSESHIM_REPORT -u SPARSESHIM_REPORT_DIR "$CLI" bench --blocks 1 --calls 2 --warm 4 --count 20000 \
        --algorithm " Recursive-Doubling " --csv x.csv -- "$WORK/three" "$1" "$MPIRUN"
}
of_three keep
# sent RANK: bytes of a call, by its report.
sent() {
    perl -MJSON::PP -0777 -ne '($l) = grep { $_->{count} == 20000 } @{decode_json($_)->{lanes}};
        print $l->{bytes_sent} / $l->{calls} if $l->{sparse}{recursive_doubling} == $l->{calls}' "$1.kept"
}
[ "$STATUS" -eq 0 ] && [ "$(column bytes_sent)" = "$(sent 0)" ] && [ "$(sent 0)" != "$(sent 1)" ] && [ -n "$(sent 1)" ]
tap "$?" "3 ranks: the bytes are those of rank 0 ($(sent 0), $(sent 1), $(sent 2))"
of_three lose
[ "$STATUS" -eq 0 ] && [ "$(column count)" = 20000 ] && [ -z "$(column bytes_sent)$(column bytes_dense)" ] && [ "$(column seconds)" != "" ]
tap "$?" "nor are they another rank's where rank 0 has no report"
rm -f ./*.kept
[ "$(column algorithm)" = recursive_doubling ]
tap "$?" "a word is the library's, whatever its cases and blanks"
measured --count 20000 --density ' 5% ' --value-type Same --mode EXACT --type Float --csv x.csv
[ "$STATUS" -eq 0 ] && [ "$(column density) $(column value_type) $(column mode) $(column type)" = "0.05 same exact float" ]
tap "$?" "so are the words of other options, and shares"

# The second of three runs ends bench.
cat >"$WORK/ends" <<'SH'
#!/bin/sh
[ -e begun ] && kill -TERM "$PPID" && exec sleep 60
touch begun
exec "$@"
SH
chmod +x "$WORK/ends"
begin=$SECONDS
within 60 "$CLI" bench --blocks 1 --calls 2 --warm 4 --count 1000,2000,3000 --csv x.csv -- "$WORK/ends" "$MPIRUN" -n 2
[ "$STATUS" -eq 3 ] && [ "$(column count)" = 1000 ] && [ "$(column seconds)" != "" ] && grep -qE '^ +2 +1,000 ' "$WORK/out" &&
    grep -qx 'sparseshim bench: interrupted in run 2 of 3' "$WORK/err" && [ $((SECONDS - begin)) -lt 40 ]
tap "$?" "SIGTERM: exit status 3, said where, and what was measured is kept"
rm -f begun x.csv

# A launcher that makes a folder of the file for the output.
cat >"$WORK/folder" <<'SH'
#!/bin/sh
for out in sparseshim-bench-*/sparseshim-out; do rm "$out" && mkdir "$out"; done
SH
chmod +x "$WORK/folder"
within 60 "$CLI" bench --count 1000 -- "$WORK/folder"
[ "$STATUS" -eq 3 ] && grep -q 'sparseshim-out cannot be read: Is a directory$' "$WORK/err"
tap "$?" "an output that cannot be read is said to be so"
rm -rf sparseshim-bench-*
within 60 "$CLI" bench --count 1000,2000 -- "$WORK/folder"
[ "$STATUS" -eq 126 ] && grep -q 'sparseshim-out: Is a directory$' "$WORK/err" && [ "$(grep -c directory "$WORK/err")" -eq 2 ]
tap "$?" "so is one that cannot be written: exit status 126"
rm -rf sparseshim-bench-*

within 60 "$CLI" bench --count 1000 --plot "it's.svg" -- touch ran
[ "$STATUS" -eq 2 ] && grep -qF -- "--plot=it's.svg: a path without quotes" "$WORK/err" && [ ! -e ran ]
tap "$?" "--plot with a quote in it is refused before anything is run"
[ -z "$(find . -mindepth 1 ! -name '*.csv' ! -name '*.svg' ! -name '*.json')" ]
tap "$?" "and nothing is left of all these"

within 60 "$CLI" bench --count 1000 -- "$MPIRUN" -n 2 sh -c 'echo it fails; exit 3' --
[ "$STATUS" -eq 3 ] && grep -q 'the run failed; it said:' "$WORK/err" && grep -q 'it fails' "$WORK/err" && grep -q ' - ' "$WORK/out"
tap "$?" "a run that fails: its words, a row without numbers, exit status 3"
within 60 "$CLI" bench --count 1000 --limit 1 -- sh -c 'sleep 60' --
[ "$STATUS" -eq 3 ] && grep -q -- '--limit reached' "$WORK/err"
tap "$?" "one that takes too long is ended"
within 60 "$CLI" bench --count 1000,2000 -- ./absent
[ "$STATUS" -eq 127 ] && [ "$(grep -c './absent cannot be run' "$WORK/err")" -eq 1 ]
tap "$?" "a launcher that is not there: exit status 127, once"

# Options behind the launcher, which would not know them.
for words in '--blocks 2' '--blocks=2' '--csv - --blocks 2' '--min-count=5' '--mode=topk --density 0.1' '--min-count=5 --seed=1'; do
    # shellcheck disable=SC2086
    within 20 "$CLI" bench -- touch ran $words
    [ "$STATUS" -eq 2 ] && [ ! -s "$WORK/out" ] && [ ! -e ran ] &&
        grep -qF -- "sparseshim bench: ${words%% *} stands behind the launcher, touch: options go before it" "$WORK/err"
    tap "$?" "touch ran $words: refused, and nothing is run"
done
printf '#!/bin/sh\nshift 2\nexec "%s" "$@"\n' "$MPIRUN" >"$WORK/launcher" && chmod +x "$WORK/launcher"
within 60 "$CLI" bench --count 1000 --blocks 1 --calls 2 --warm 4 -- "$WORK/launcher" --timeout=9 --blocked -n 2
[ "$STATUS" -eq 0 ]
tap "$?" "a launcher's own options are the launcher's"

# refused TEXT ARGUMENT...
refused() {
    local text=$1
    shift
    within 20 "$CLI" bench "$@" -- true
    [ "$STATUS" -eq 2 ] && grep -qF -- "$text" "$WORK/err"
    tap "$?" "$*: $text"
}
refused '--count=0: elements, 1 to' --count 0
refused '--count: ' --count many
refused '1 to 64 values, separated by commas' --density 0.1,,0.2
refused '--density: ' --density 2
refused '--density=4/512 is for --mode=topk' --density 4/512
refused '--algorithm=oktopk is for --mode=topk' --algorithm oktopk
refused '--algorithm=oktopk is for --mode=topk' --algorithm 'ring, OkTopk'
refused '--value-type=q8 is for --mode=topk' --value-type q8
refused '--algorithm: ' --algorithm fastest
refused '--mode=lossy: exact or topk' --mode lossy
refused '--blocks=0: a whole number, 1 to 1000' --blocks 0
refused '--plot=x.gif: a file that ends in .png or .svg' --plot x.gif
refused '--contention is not known' --contention=1
within 20 "$CLI" bench --count 5
[ "$STATUS" -eq 2 ] && grep -q 'no launcher given' "$WORK/err"
tap "$?" "no launcher"
finish
