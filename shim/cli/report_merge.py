"""The ranks of a job in one."""
import json

import report_columns as c
from report_forms import operation
from report_jobs import BYTES, apart, between, lane_density, lane_seconds, tensor_density, tensor_ratio
from report_words import (Group, date, fewer, finite, first_line, in_bytes, line, plain, ratio, seconds, share, shown,
                          table, three)


def as_json(document, groups):
    """Objects of an array stand on a line each, with the keys of the group of that name."""
    keys, parts = {group.key: [col.key for col in group.keys()] for group in groups}, []
    for key, value in document.items():
        if isinstance(value, list):
            rows = [json.dumps({k: row.get(k) for k in keys[key]}, ensure_ascii=False) for row in value]
            value = "[\n    " + ",\n    ".join(rows) + "\n  ]" if rows else "[]"
        else:
            value = json.dumps(value, indent=2, ensure_ascii=False).replace("\n", "\n  ")
        parts.append(f"  {json.dumps(key)}: {value}")
    return "{\n" + ",\n".join(parts) + "\n}\n"


# ---- measures of a report ----

def phase(name):
    return lambda r: r.data["times"][f"seconds_{name}"]


def phases(*names):
    return lambda r: sum(r.data["times"][f"seconds_{name}"] or 0 for name in names)


def of(part, key):
    return lambda r: r.data.get(part, {}).get(key)


def between_hosts(which):
    return lambda r: between(r.data["bytes"])[which]


def added(rows):
    """The bytes of several ranks."""
    return {key: sum(row[key] or 0 for row in rows) for key in BYTES}


def largest_residual(report):
    return max(filter(finite, map(tensor_ratio, report.rows("tensors"))), default=None)


# key, what people read, kind, whether the sum over ranks means something, and the number.
MEASURES = (
    ("seconds_elapsed", "job, from its first call", "seconds", False, of("times", "seconds_elapsed")),
    ("seconds_allreduce", "in allreduce", "seconds", False, of("times", "seconds_allreduce")),
    ("share_allreduce", "f, its share", "share", False, of("times", "share_allreduce")),
    *((f"seconds_{name}", name, "seconds", False, phase(name)) for name in c.PHASES),
    ("seconds_work", "scan, merge, coding", "seconds", False, phases("scan", "merge", "coding")),
    ("seconds_waits", "vote, exchange, native", "seconds", False, phases("vote", "exchange", "native")),
    ("bytes_dense", "dense", "bytes", True, of("bytes", "bytes_dense")),
    ("bytes_sent", "sent", "bytes", True, of("bytes", "bytes_sent")),
    ("between_dense", "dense, between hosts", "bytes", True, between_hosts(0)),
    ("between_sent", "sent, between hosts", "bytes", True, between_hosts(1)),
    ("bytes_calibration", "to measure the network", "bytes", True, of("bytes", "bytes_calibration")),
    ("bytes_memory_peak", "memory", "bytes", True, of("bytes", "bytes_memory_peak")),
    ("calls_sparse", "calls made sparse", "count", False, of("calls", "sparse")),
    ("calls_passed", "calls passed through", "count", False, of("calls", "passed")),
    ("calls_errors", "errors", "count", False, of("calls", "errors")),
    ("residual_ratio", "largest residual to input", "factor", False, largest_residual),
    ("rounds", "partial allreduces", "count", False, of("rounds", "rounds")),
    ("rounds_in", "rounds it was in", "count", True, of("rounds", "rounds_in")),
    ("rounds_late", "gradients late", "count", True, of("rounds", "rounds_late")),
    ("seconds_waited", "waited in rounds", "seconds", False, of("rounds", "seconds_waited")),
    ("seconds_behind", "fell behind, not waited for", "seconds", True, of("rounds", "seconds_behind")),
    ("share_thread", "thread, of a core", "share", False, of("rounds", "share_thread")),
)
SELDOM = ("rounds", "seconds_waited", "seconds_behind", "share_thread", "between")  # shown if a report has them
OF = {key: number for key, _, _, _, number in MEASURES}


class Spread:
    """Least, median and most of a number over ranks, where it is known."""

    def __init__(self, pairs):
        pairs = sorted((value, rank) for value, rank in pairs if finite(value))
        self.n, values = len(pairs), [value for value, _ in pairs]
        self.least = self.median = self.most = self.sum = self.rank_least = self.rank_most = None
        if pairs:
            self.least, self.most, self.sum = values[0], values[-1], sum(values)
            middle = values[(self.n - 1) // 2], values[self.n // 2]
            self.median = middle[0] if middle[0] == middle[1] else sum(middle) / 2
            if self.most > self.least:
                self.rank_least, self.rank_most = pairs[0][1], pairs[-1][1]


# ---- rows of several reports ----

LANE = ("communicator", "count", "type", "kind", "op")
TENSOR = ("communicator", "count", "type", "ordinal")


def join(reports, part, keys):
    """Returns a list for each row that any of the reports has: the row of each report or None."""
    rows = {}
    for i, report in enumerate(reports):
        times = {}
        for row in report.rows(part):
            key = tuple(row[k] for k in keys)
            times[key] = times.get(key, 0) + 1
            rows.setdefault((key, times[key]), [None] * len(reports))[i] = row
    return list(rows.values())


def any_of(rows):
    return next(row for row in rows if row is not None)


def spread_of(reports, rows, number):
    return Spread((number(row), report.rank) for report, row in zip(reports, rows) if row is not None)


def sparse_calls(lane):
    return sum(lane["sparse"].values())


# ---- the ranks of a job in one ----

DOCUMENT = Group("", "Merged: the document", """
merged_schema | | integer | | version of the form of merged reports
program | | text | | name of the program
version | | text | | of libsparseshim
ranks | | rank | | ranks of the world
reports | | count | | ranks that report
start_unix | | integer | | when the first of them made its first call, in seconds since 1970
complete | | flag | | all of them had ended
""")
SUMMARY = Group("summary", "Merged: the first lines", """
headline | | text | 1 | version of libsparseshim, program, ranks that report, when the first of them began, and how long the last ran
missing | missing | text | 1 | ranks of which no report was given
state | state | text | 1 | that reports are of ranks that had not ended
bytes | bytes | text | 1 | bytes sent by all ranks that report, against dense collectives; with several hosts and several ranks on one, those between hosts
slowest | slowest | text | 1 | the rank that spent most time in scan, merge and coding, its own work
awaited | awaited | text | 1 | the rank that spent least time in vote, exchange and native, where ranks wait for each other: the others wait for it
partial | partial | text | 1 | partial allreduces: ranks whose gradients were in a round, and the time that they fell behind, for which the others would have waited
""")
SPREAD = Group("spread", "Merged: over the ranks", """
measure | | text | | the number compared, as in a rank's report; seconds_work: scan, merge and coding; seconds_waits: vote, exchange and native; between_dense, between_sent: bytes that leave the host
_shown | of a rank | text | 1 | the number compared, over all call signatures
least | least | shown | 1 | of the ranks that report
median | median | shown | 1 | of the ranks that report
most | most | shown | 1 | of the ranks that report
sum | sum | shown | 1 | over the ranks that report
rank_least | least at | integer | 1 | the rank that has the least; null where all are alike
rank_most | most at | integer | 1 | the rank that has the most; of times, the slowest
""")
LANES = Group("lanes", "Merged: call signatures", """
lane | signature | count | 12 | number of the call signature in this table
communicator | communicator | text | 1 | its MPI name
ranks | ranks | rank | 1 | ranks of the communicator
count | count | count | 1 | elements of the result
type | type | text | 1 | datatype of the elements
kind | | text | | the collective
op | | text | | the operator
_op | op | text | 1 | the operator; before it the collective where it is no allreduce
calls | calls | count | 1 | eligible calls of the rank that has most
calls_sparse | sparse | count | 1 | of them, those made sparse
density_median | density | share | 1! | median of the ranks' mean densities
density_most | largest | share | 1 | largest mean density of a rank
bytes_dense | dense | bytes | 1! | bytes that dense collectives would have sent, all ranks together
bytes_sent | sent | bytes | 1 | bytes sent, all ranks together
ratio | ratio | factor | 1 | dense / sent
bytes_dense_inside | | bytes | | those of bytes_dense inside hosts
bytes_sent_inside | | bytes | | those of bytes_sent inside hosts
_dense_between | dense between | bytes | 1!? | bytes between hosts that dense collectives would have sent: they sum inside each host first
_sent_between | sent between | bytes | 1? | bytes sent between hosts, all ranks together
ratio_between | ratio between | factor | 1? | dense between / sent between
seconds_scan | scan | seconds | 2 | time looking for entries, median of the ranks
seconds_vote | vote | seconds | 2 | time agreeing, median of the ranks
seconds_exchange | exchange | seconds | 2 | time sending and receiving, median of the ranks
seconds_merge | merge | seconds | 2 | time adding up, median of the ranks
seconds_coding | coding | seconds | 2 | time encoding and decoding, median of the ranks
seconds_native | native | seconds | 2 | time in the MPI library's own collective, median of the ranks
seconds_median | all | seconds | 2 | time in all phases, median of the ranks
seconds_most | most | seconds | 2 | most time of a rank in all phases
rank_most | most at | integer | 2 | that rank
""")
TENSORS = Group("tensors", "Merged: tensors (lossy modes)", """
tensor | tensor | count | 1 | number of the tensor in this table
site | called from | text | 1 | module and offset that it is called from
symbol | function | text | 1 | the function there
ordinal | | integer | | number of the call within the step, from 0; -1: out of step
count | count | count | 1 | elements
state | state | text | 1! | registered: its calls are lossy; exact; candidate: its position in the step is not known yet; differs: not the same on all ranks
calls | calls | count | 1 | calls of the rank that has most
topk_calls | lossy calls | count | 1 | of them, those sent in few bits or as top-k
density_median | selected | share | 1 | median of these shares
residual_norm_least | | factor | | least norm of a rank's residual
residual_norm_median | residual | factor | 1 | median of these norms
residual_norm_most | | factor | | largest of these norms
residual_ratio_median | to input | factor | 1! | norm of a rank's residual over that of its last input, median of the ranks
residual_ratio_most | most | factor | 1 | largest of these ratios
rank_most | most at | integer | 1 | the rank that has it
""")
GROUPS = (DOCUMENT, SUMMARY, SPREAD, LANES, TENSORS)


def missing(reports):
    """Returns "3, 5-7": ranks of the world that do not report."""
    there, parts, after = sorted({r.rank for r in reports}), [], 0
    for rank in [*there, reports[0].job["ranks"]] if there[0] >= 0 else []:
        if rank > after:
            parts.append(str(after) if rank == after + 1 else f"{after}-{rank - 1}")
        after = rank + 1
    return ", ".join(parts[:20]) + (", ..." if len(parts) > 20 else "")


def bytes_line(b):
    """Compares what left the hosts, if that is apart, else all bytes."""
    dense, sent, where = b["bytes_dense"], b["bytes_sent"], ""
    if apart(b):
        dense, sent = between(b)
        where = f" between hosts, {share(ratio(sent, b['bytes_sent']))} of all that was sent,"
    return (f"{in_bytes(sent)} sent{where} instead of {in_bytes(dense)}, all of these ranks together: "
            f"{fewer(dense, sent)}"
            + ("; all inside one host" if 0 < b["bytes_sent"] == b["bytes_sent_inside"] else ""))


def merged_summary(reports):
    first, spread = reports[0], lambda key: Spread((OF[key](r), r.rank) for r in reports)
    work, waits = map(spread, ("seconds_work", "seconds_waits"))
    rounds, running = spread("rounds"), sum(not r.complete for r in reports)
    in_each = ratio(spread("rounds_in").sum, rounds.most)
    lines = {"headline": f"sparseshim {first_line(first.job['version'])}: "
                         f"{first_line(first.job['program'] or 'unnamed program')}, {len(reports)} of "
                         f"{first.job['ranks']} ranks, started {date(min(r.start for r in reports))}, ran "
                         f"{seconds(spread('seconds_elapsed').most)}"}
    if missing(reports):
        lines["missing"] = f"no report of rank {missing(reports)}"
    if running:
        lines["state"] = (f"{running} of {len(reports)} ranks had not ended: they were running, or were ended later "
                          "without MPI_Finalize")
    lines["bytes"] = bytes_line(added([r.data["bytes"] for r in reports]))
    # A rank stands out where it is a tenth from the median.
    if work.rank_most is not None and work.most > 1.1 * work.median:
        lines["slowest"] = (f"rank {work.rank_most}: {seconds(work.most)} in scan, merge and coding, median "
                            f"{seconds(work.median)}")
    if waits.rank_least is not None and waits.least < 0.9 * waits.median:
        lines["awaited"] = (f"rank {waits.rank_least}: {seconds(waits.least)} in vote, exchange and native, median "
                            f"{seconds(waits.median)}: the others wait for it")
    if rounds.n:
        lines["partial"] = (f"{three(in_each)} of {rounds.n} ranks were in a round in "
                            f"the mean, and they fell {seconds(spread('seconds_behind').sum)} behind, all together, "
                            "for which nobody waited")
    return lines


def spread_rows(reports):
    rows = []
    for key, words, kind, adds, number in MEASURES:
        s = Spread((number(r), r.rank) for r in reports)
        if s.n or not key.startswith(SELDOM):
            rows.append({"measure": key, "_shown": words, "_kind": kind, "least": s.least, "median": s.median,
                         "most": s.most, "sum": s.sum if adds else None, "rank_least": s.rank_least,
                         "rank_most": s.rank_most})
    return rows


def merged_lanes(reports):
    result = []
    for number, rows in enumerate(join(reports, "lanes", LANE + ("ranks",)), 1):
        first, spread = any_of(rows), lambda of_lane: spread_of(reports, rows, of_lane)
        density, everything = spread(lane_density), spread(lane_seconds)
        sent = added([row for row in rows if row is not None])
        dense_between, sent_between = between(sent)
        row = {key: first[key] for key in LANE + ("ranks",)}
        if first["count"] == 0:
            row["communicator"] = "(further call signatures)"
        for name in c.PHASES:
            row[f"seconds_{name}"] = spread(lambda r, key=f"seconds_{name}": r[key]).median
        row.update(lane=number, _op=operation(first),
                   calls=spread(lambda r: r["calls"]).most, calls_sparse=spread(sparse_calls).most,
                   density_median=density.median, density_most=density.most, **sent,
                   ratio=ratio(sent["bytes_dense"], sent["bytes_sent"]), _dense_between=dense_between,
                   _sent_between=sent_between, ratio_between=ratio(dense_between, sent_between), seconds_median=everything.median, seconds_most=everything.most,
                   rank_most=everything.rank_most)
        result.append(row)
    return result


def merged_tensors(reports):
    result = []
    for number, rows in enumerate(join(reports, "tensors", TENSOR + ("ranks", "site", "symbol")), 1):
        first, spread = any_of(rows), lambda of_tensor: spread_of(reports, rows, of_tensor)
        selected, quotient = spread(tensor_density), spread(tensor_ratio)
        norm = spread(lambda t: t["residual_norm"] if t["topk_calls"] else None)
        states = {t["state"] for t in rows if t is not None}
        row = {key: first[key] for key in ("site", "symbol", "ordinal", "count")}
        row.update(tensor=number, state=first["state"] if len(states) == 1 else "differs",
                   calls=spread(lambda t: t["calls"]).most, density_median=selected.median,
                   topk_calls=spread(lambda t: t["topk_calls"]).most, rank_most=quotient.rank_most)
        for name, s in (("residual_norm", norm), ("residual_ratio", quotient)):
            row.update({f"{name}_least": s.least, f"{name}_median": s.median, f"{name}_most": s.most})
        result.append(row)
    return result


def kinds(rows, keys):
    """Numbers of a table whose rows have each a kind of their own, as text."""
    return [{**row, **{key: shown(row["_kind"], row[key]) for key in keys}} for row in rows]


def document_of(reports):
    first = reports[0]
    return {"merged_schema": 1, "program": first.job["program"], "version": first.job["version"],
            "ranks": first.job["ranks"], "reports": len(reports), "start_unix": min(r.start for r in reports),
            "complete": all(r.complete for r in reports), "summary": merged_summary(reports),
            "spread": spread_rows(reports), "lanes": merged_lanes(reports), "tensors": merged_tensors(reports)}


def text_of(document):
    lines = [line(col.title, plain(document["summary"][col.key])) for col in SUMMARY.columns
             if col.key in document["summary"]]
    return "".join(lines) + "".join((
        table("Over the ranks", SPREAD, kinds(document["spread"], ("least", "median", "most", "sum"))),
        table("Call signatures, bytes of all ranks together", LANES, document["lanes"]),
        table("Time by call signature, medians of the ranks, all calls", LANES, document["lanes"], "2"),
        table("Tensors, medians of the ranks", TENSORS, document["tensors"])))
