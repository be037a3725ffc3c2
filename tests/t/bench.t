#!/usr/bin/env bash
# sparseshim bench: each combination of its lists is run once under the given launcher, and printed
# as a line of plain columns.
set -u
. tests/t/lib.sh
unset SPARSESHIM_MIN_COUNT
CLI=$BUILD/sparseshim
CHOICES=$(algorithms EXACT && echo dense)
mkdir "$WORK/here" && cd "$WORK/here" || exit 1

# measured OPTION...: two ranks.
measured() {
    within 120 env -u SPARSESHIM_REPORT -u SPARSESHIM_REPORT_DIR "$CLI" bench --blocks 2 "$@" -- "$MPIRUN" -n 2 -genv UCX_RNDV_THRESH inf
}

# column NAME: of what was printed, values joined by blanks.
column() {
    awk -v name="$1" '/^#/ { next } NR == 1 { for (i = 1; i <= NF; i++) if ($i == name) c = i; next } { printf "%s%s", s, $c; s = " " }' "$WORK/out"
}

measured --count 64Ki,20000 --density 0.01,5% --algorithm split_allgather,ring
[ "$STATUS" -eq 0 ] && [ "$(column count)" = "65536 65536 65536 65536 20000 20000 20000 20000" ] &&
    [ "$(column density)" = "0.01 0.01 0.05 0.05 0.01 0.01 0.05 0.05" ] &&
    [ "$(column algorithm)" = "split_allgather ring split_allgather ring split_allgather ring split_allgather ring" ]
tap "$?" "exact: all combinations, once each"
awk '/^#/ { next } NR > 1 { n++; if (NF != 17 || $1 != 2 || $8 <= 0 || $9 <= 0 || $11 > $10 || $12 < $10 || $16 > 1e-6) bad = 1 } END { exit bad || n != 8 }' "$WORK/out"
tap "$?" "times are there, quartiles enclose the median, the sums are those of the MPI library"
awk '/^#/ { next } NR > 1 { d = $5; want = 4 * $2; if ($13 != want || $14 > 12 * d * $2 + 3000 || $14 < d * $2 || $15 < d || $15 > 2 * d * 1.1) bad = 1 } END { exit bad }' "$WORK/out"
tap "$?" "bytes: dense 2 (P-1)/P 4N, sparse some bytes an entry; density of the result"
[ "$(grep -c '^#' "$WORK/out")" -eq 1 ] && grep -qx "# MPI.* Version: [^;]*; 1 host: $(hostname)" "$WORK/out" &&
    [ "$(column ran)" = "$(column algorithm)" ]
tap "$?" "a line names the MPI library and the hosts, a column the algorithm that ran"

measured --count 64Ki --density 0.01 --algorithm auto
[ "$STATUS" -eq 0 ] && grep -qx -- "$(column ran)" <<<"$CHOICES"
tap "$?" "auto: the column names what auto has chosen ($(column ran))"

SPARSESHIM_PROGRAMS='train*' measured --count 64Ki --density 0.01 --algorithm ring
[ "$STATUS" -eq 0 ] && [ "$(column ran)" = ring ]
tap "$?" "it is served whatever PROGRAMS names"

measured --mode topk --count 50000 --density 1%,4/512 --algorithm auto,oktopk --value-type=same,bf16
[ "$STATUS" -eq 0 ] && [ "$(column value_type)" = "same bf16 same bf16 same bf16 same bf16" ] &&
    awk 'NR > 1 && $6 == "oktopk" { n++; if ($14 > 0.2 * $13 || $16 != "-" || $15 > 0.03) bad = 1 } END { exit bad || n != 4 }' "$WORK/out"
tap "$?" "topk: value types, k of each B, collectives with a global top-k"

measured --mode quant --count 50000 --algorithm auto,quantized
[ "$STATUS" -eq 0 ] && [ "$(column value_type)" = "q4 q4" ] &&
    awk 'NR > 1 && $6 == "quantized" { n++; if ($5 != 1 || $14 > 0.15 * $13 || $16 != "-" || $15 < 0.5) bad = 1 } END { exit bad || n != 1 }' "$WORK/out"
tap "$?" "quant: every element in 4 bits"

# What a rank sends depends on the rank; its report is kept.
cat >"$WORK/three" <<'SH'
#!/bin/sh
mpirun=$1
shift
"$mpirun" -n 3 -genv UCX_RNDV_THRESH inf "$@" || exit
for report in sparseshim-bench-*/sparseshim-*.json; do
    cp "$report" "$(perl -MJSON::PP -0777 -ne 'print decode_json($_)->{job}{rank}' "$report").kept"
done
SH
chmod +x "$WORK/three"
within 60 env -u SPARSESHIM_REPORT -u SPARSESHIM_REPORT_DIR "$CLI" bench --blocks 1 --count 20000 --algorithm recursive_doubling -- "$WORK/three" "$MPIRUN"
# sent RANK: bytes of a call, by its report.
sent() {
    perl -MJSON::PP -0777 -ne '($l) = grep { $_->{count} == 20000 } @{decode_json($_)->{lanes}};
        printf "%.0f", $l->{bytes_sent} / $l->{calls} if $l->{sparse}{recursive_doubling} == $l->{calls}' "$1.kept"
}
[ "$STATUS" -eq 0 ] && [ "$(column bytes_sent)" = "$(sent 0)" ] && [ "$(sent 0)" != "$(sent 1)" ] && [ -n "$(sent 1)" ]
tap "$?" "3 ranks: the bytes are those of rank 0 ($(sent 0), $(sent 1), $(sent 2))"
rm -f ./*.kept

# The second of three runs ends bench.
cat >"$WORK/ends" <<'SH'
#!/bin/sh
[ -e begun ] && kill -TERM "$PPID" && exec sleep 60
touch begun
exec "$@"
SH
chmod +x "$WORK/ends"
within 60 "$CLI" bench --blocks 1 --count 1000,2000,3000 -- "$WORK/ends" "$MPIRUN" -n 2
[ "$STATUS" -eq 3 ] && [ "$(column count)" = 1000 ]
tap "$?" "SIGTERM: exit status 3, and what was measured is printed"
rm -f begun

within 60 "$CLI" bench --count 1000,2000 -- "$MPIRUN" -n 2 sh -c 'echo it fails; exit 3' --
[ "$STATUS" -eq 3 ] && [ "$(grep -c 'the run failed; it said:' "$WORK/err")" -eq 2 ] && grep -q 'it fails' "$WORK/err"
tap "$?" "a run that fails: its words, exit status 3, and the next is made"
within 60 "$CLI" bench --count 1000 -- "$MPIRUN" -n 1
[ "$STATUS" -eq 3 ] && grep -q 'ran as a job of one rank' "$WORK/err"
tap "$?" "ranks that do not find one another are no measurement: exit status 3"
within 60 "$CLI" bench --count 1000,2000 -- ./absent
[ "$STATUS" -eq 127 ] && [ "$(grep -c './absent cannot be run' "$WORK/err")" -eq 1 ]
tap "$?" "a launcher that is not there: exit status 127, once"
[ -z "$(find . -mindepth 1)" ]
tap "$?" "nothing is left of all these"

# refused TEXT ARGUMENT...: nothing is run.
refused() {
    local text=$1
    shift
    within 20 "$CLI" bench "$@" -- touch ran
    [ "$STATUS" -eq 2 ] && grep -qF -- "$text" "$WORK/err" && [ ! -s "$WORK/out" ] && [ ! -e ran ]
    tap "$?" "$*: $text"
}
refused '--count=0: elements, 1 to' --count 0
refused '--count=many: ' --count many
refused 'SPARSESHIM_DENSITY=' --mode=topk --density 0.1,,0.2
refused '--density=2: a share' --density 2
refused '--density=4/512: a share' --density 4/512
refused '--algorithm=oktopk is for --mode=topk' --algorithm ring,oktopk
refused '--algorithm=quantized is for --mode=quant' --algorithm quantized
refused '--value-type=q8 is for --mode=quant and topk' --value-type q8
refused 'SPARSESHIM_ALGORITHM=fastest is not allowed' --algorithm fastest
refused 'lossy: allowed are exact, quant and topk' --mode lossy
refused '--blocks=0: a whole number, 1 to 1000' --blocks 0
refused '--contention is not known' --contention=1
within 20 "$CLI" bench --count 5
[ "$STATUS" -eq 2 ] && grep -q 'no launcher given' "$WORK/err"
tap "$?" "no launcher"
finish
