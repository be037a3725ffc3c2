"""One report, the ranks of a job in one, and two jobs side by side."""
import json
import math

import report_columns as c
from report_jobs import Wrong, lane_density, lane_seconds, tensor_density, tensor_ratio
from report_words import (Group, count, date, finite, first_line, in_bytes, line, plain, ratio, seconds, share, shown,
                    table, three, whole)


def as_json(document):
    """Objects of an array stand on a line each."""
    parts = []
    for key, value in document.items():
        if isinstance(value, list):
            rows = ",\n    ".join(json.dumps(row, ensure_ascii=False) for row in value)
            value = f"[\n    {rows}\n  ]" if value else "[]"
        else:
            value = json.dumps(value, indent=2, ensure_ascii=False).replace("\n", "\n  ")
        parts.append(f"  {json.dumps(key)}: {value}")
    return "{\n" + ",\n".join(parts) + "\n}\n"


def select(group, row):
    return {col.key: row.get(col.key) for col in group.keys()}


# ---- one report ----

def more_lines(report):
    """Lines that the summary of the job has no room for."""
    d = report.data
    b, t, r = d["bytes"], d["times"], d.get("rounds")
    lines = {"_phases": ", ".join(f"{p} {seconds(t['seconds_' + p])}" for p in c.PHASES)}
    if r:
        lines["_pace"] = (f"this rank waited {seconds(r['seconds_waited'])} in these calls and fell "
                          f"{seconds(r['seconds_behind'])} behind, for which nobody waited; the thread that takes "
                          f"part used {share(r['share_thread'])} of a core")
    if b["bytes_calibration"]:
        lines["_network"] = f"{in_bytes(b['bytes_calibration'])} sent once to measure it, not in the bytes above"
    lines["_memory"] = f"{in_bytes(b['bytes_memory_peak'])} of our own at peak"
    if b["bytes_outside"]:
        lines["_outside"] = (f"{in_bytes(b['bytes_outside'])} in buffers of calls that were not looked at further, "
                             "not in the bytes above: below MIN_COUNT, or of a datatype, operator, buffer or "
                             "communicator that is not served")
    if b["bytes_reduced_total"]:
        part = share(ratio(b["bytes_largest_total"], b["bytes_reduced_total"]))
        lines["_tensor"] = f"the largest, of {in_bytes(b['bytes_largest'])}, carries {part} of the bytes reduced"
    lines["_mpi"] = first_line(report.job["mpi_library"])
    return lines


def first_lines(report, full):
    lines = {**report.data["summary"], **more_lines(report)}
    shown_lines = [(col, lines[col.key]) for col in c.SUMMARY.columns if lines.get(col.key) and (full or not col.rare)]
    return "".join(line(col.title, plain(text)) for col, text in shown_lines)


def operation(row):
    """The operator, behind the collective where it is no allreduce."""
    kind, op = row["kind"] or "", row["op"] or ""
    return op if kind == "allreduce" else kind if kind == "allgather" else f"{kind} {op}"


def fill_in(density, ranks):
    """Expected density of the sum of P inputs whose index sets are independent: 1 - (1 - d)^P
    (SparCML, section 5.3)."""
    return -math.expm1(ranks * math.log1p(-density)) if finite(density) and 0 <= density < 1 else density


def lane_rows(report):
    words = {row["reason"]: row["text"] for row in report.rows("passed") if row["text"]}
    rows = []
    for lane in report.rows("lanes"):
        density = lane_density(lane)
        rows.append({**lane, "_op": operation(lane),
                     "_name": "(further lanes)" if lane["count"] == 0 else lane["communicator"] or "(no name)",
                     "_independent": fill_in(density, lane["ranks"] or 0),
                     "_passed": {words.get(k, k): n for k, n in lane["passed"].items()}})
    return rows


def told(reasons, words):
    return [f"{words.get(key, key)}: {c.REASONS[key]}" for key in reasons if key in c.REASONS]


def passed_text(report):
    rows = sorted(report.rows("passed"), key=lambda row: -row["calls"])
    words = {row["reason"]: row["text"] or row["reason"] or "" for row in rows}
    return table("Passed through", c.PASSED, rows, told=told(words, words))


def tensor_rows(report):
    return [{**t, "_name": t["communicator"] or "(no name)", "_site": t["site"] or "(unknown)",
             "_rule": f"REGISTER={t['rule']}" if t["rule"] else t["remedy"]} for t in report.rows("tensors")]


# ---- MODE=observe ----

def why(lane, a):
    if not lane["planned"]:
        return "no call was looked at"
    text = f"density {share(lane_density(lane))}"
    if not a["gain"] and not a["misfit"]:
        text = f"nothing to gain: {text}"
    if a["misfit"]:
        return f"{text}; no advice: dense was predicted to take {seconds(a['dense'])} and took {seconds(a['native'])}"
    if a["best"]:
        against = "instead of" if a["gain"] else "against"
        text += f", {a['best']} {seconds(a['predicted'])} {against} {seconds(a['native'])} per call"
    return text


def advised(report):
    return [lane for lane in report.rows("lanes") if lane["advice"]]


def advice_rows(report):
    rows = []
    for lane in advised(report):
        a = lane["advice"]
        force = f" SPARSESHIM_ALGORITHM={a['best']}" if a["force"] else ""
        rows.append({"_lane": lane["lane"], "_why": why(lane, a),
                     "_try": f"SPARSESHIM_MODE=exact{force}" if a["gain"] else "-"})
    return rows


def prediction_rows(report):
    rows = []
    for lane in advised(report):
        a, planned = lane["advice"], lane["planned"]
        rows.append({"_lane": lane["lane"], "_algorithm": "native", "_seconds": a["native"], "_remark": "measured",
                     "_bytes": ratio(lane["bytes_dense"], lane["calls"])})
        for name, total in lane["predicted_seconds_sum"].items():
            time = ratio(total, planned)
            best = name == a["best"]
            rows.append({"_lane": lane["lane"], "_algorithm": name, "_seconds": time,
                         "_bytes": ratio(lane["predicted_bytes_sum"].get(name), planned),
                         "_faster": ratio(a["native"], time), "_remark": "best sparse" if best else ""})
    return rows


def topk_remark(lane, a):
    if a["misfit"]:
        return (f"lossy; no advice: dense was predicted to take {seconds(a['dense'])} and took "
                f"{seconds(a['native'])}")
    if not a["topk_gain"]:
        return "lossy; nothing to gain"
    return f"LOSSY, for gradients only: SPARSESHIM_MODE=topk SPARSESHIM_REGISTER=count={lane['count']}"


def topk_rows(report):
    rows = []
    for lane in advised(report):
        a, samples = lane["advice"], lane["topk_samples"]
        if samples:
            rows.append({"_lane": lane["lane"], "_density": ratio(lane["topk_density_sum"], samples),
                         "_kept": ratio(lane["topk_kept_sum"], samples), "_algorithm": a["topk"] or "-",
                         "_bytes": a["topk_bytes"], "_seconds": a["topk_predicted"], "_remark": topk_remark(lane, a),
                         "_fewer": ratio(ratio(lane["bytes_dense"], lane["calls"]), a["topk_bytes"]),
                         "_faster": ratio(a["native"], a["topk_predicted"])})
    return rows


def small_rows(report):
    """From the largest calls down, each row with those above it."""
    total, rows = {"_calls": 0, "_bytes": 0, "_seconds": 0}, []
    for row in report.rows("small"):
        total = {key: n + (row[key[1:]] or 0) for key, n in total.items()}
        rows.append({**row, **total, "_share": ratio(total["_seconds"], report.elapsed)})
    return rows


def observed(report):
    if not report.job["observe"]:
        return ""
    return "".join((
        table("What to try", c.ADVICE, advice_rows(report)),
        table("Predicted by lane and algorithm, mean of a call, scan and vote included", c.PREDICTIONS,
              prediction_rows(report)),
        table("MODE=topk would be LOSSY: what it would take and send per call, from samples", c.TOPK,
              topk_rows(report)),
        table("Calls below MIN_COUNT: what a lower one would take over", c.SMALL, small_rows(report))))


def text_of(report, full=False):
    lanes, tensors = lane_rows(report), tensor_rows(report)
    return "".join((
        first_lines(report, full),
        table("Notes", c.NOTES, report.rows("notes")),
        passed_text(report),
        table("Lanes, those of most bytes first (bytes of all calls, sent by this rank)", c.LANES, lanes, "1", full),
        table("Time by lane, all calls", c.LANES, lanes, "2", full),
        table("Calls by lane", c.LANES, lanes, "3", full),
        observed(report),
        table("Calls that wait for all ranks", c.SYNCHRONOUS, report.rows("synchronous")),
        table("Tensors (MODE=topk), where they come from", c.TENSORS, tensors, "1", full),
        table("Tensors, what became of them (norms of this rank, at the end)", c.TENSORS, tensors, "2", full),
        table("Tensors, what was seen of them", c.TENSORS, tensors if full else [], "3", full),
        table("Options", c.OPTIONS, report.rows("options"))))


# ---- measures of a report ----

def phase(name):
    return lambda r: r.data["times"][f"seconds_{name}"]


def phases(*names):
    return lambda r: sum(r.data["times"][f"seconds_{name}"] or 0 for name in names)


def of(part, key):
    return lambda r: r.data.get(part, {}).get(key)


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

M_DOCUMENT = Group("", "Merged: the document", """
merged_schema | | integer | | version of the form of merged reports
program | | text | | name of the program
version | | text | | of libsparseshim
ranks | | rank | | ranks of the world
reports | | count | | ranks that report
start_unix | | integer | | when the first of them made its first call, in seconds since 1970
complete | | flag | | all of them had ended
""")
M_SUMMARY = Group("summary", "Merged: the first lines", """
headline | | text | 1 | version of libsparseshim, program, ranks that report, when the first of them began, and how long the last ran
missing | missing | text | 1 | ranks of which no report was given
state | state | text | 1 | that reports are of ranks that had not ended
bytes | bytes | text | 1 | bytes sent by all ranks that report, against dense collectives
slowest | slowest | text | 1 | the rank that spent most time in scan, merge and coding, its own work
awaited | awaited | text | 1 | the rank that spent least time in vote, exchange and native, where ranks wait for each other: the others wait for it
partial | partial | text | 1 | partial allreduces: ranks whose gradients were in a round, and the time that they fell behind, for which the others would have waited
""")
M_SPREAD = Group("spread", "Merged: over the ranks", """
measure | | text | | what is compared, as in a rank's report; seconds_work: scan, merge and coding; seconds_waits: vote, exchange and native
_shown | of a rank | text | 1 | what is compared, all lanes together
least | least | shown | 1 | of the ranks that report
median | median | shown | 1 | of the ranks that report
most | most | shown | 1 | of the ranks that report
sum | sum | shown | 1 | over the ranks that report
rank_least | least at | integer | 1 | the rank that has the least; null where all are alike
rank_most | most at | integer | 1 | the rank that has the most; of times, the slowest
""")
M_LANES = Group("lanes", "Merged: lanes", """
lane | lane | count | 12 | number of the lane in this table
communicator | communicator | text | 1 | its MPI name
ranks | ranks | rank | 1 | ranks of the communicator
count | count | count | 1 | elements of the result
type | type | text | 1 | datatype of the elements
kind | | text | | the collective
op | | text | | the operator
_op | op | text | 1 | the operator; before it the collective where it is no allreduce
reports | reports | count | 1* | ranks that report it
calls | calls | count | 1 | eligible calls of the rank that has most
calls_sparse | sparse | count | 1 | of them, those made sparse
density_least | least | share | 1* | least mean density of a rank
density_median | density | share | 1! | median of the ranks' mean densities
density_most | largest | share | 1 | largest mean density of a rank
bytes_dense | dense | bytes | 1! | bytes that dense collectives would have sent, all ranks together
bytes_sent | sent | bytes | 1 | bytes sent, all ranks together
ratio | ratio | factor | 1 | dense / sent
seconds_scan | scan | seconds | 2 | time looking for entries, median of the ranks
seconds_vote | vote | seconds | 2 | time agreeing, median of the ranks
seconds_exchange | exchange | seconds | 2 | time sending and receiving, median of the ranks
seconds_merge | merge | seconds | 2 | time adding up, median of the ranks
seconds_coding | coding | seconds | 2 | time encoding and decoding, median of the ranks
seconds_native | native | seconds | 2 | time in the MPI library's own collective, median of the ranks
seconds_least | least | seconds | 2 | least time of a rank in all phases
seconds_median | all | seconds | 2 | time in all phases, median of the ranks
seconds_most | most | seconds | 2 | most time of a rank in all phases
rank_most | most at | integer | 2 | that rank
""")
M_TENSORS = Group("tensors", "Merged: tensors (MODE=topk)", """
tensor | tensor | count | 1 | number of the tensor in this table
communicator | communicator | text | 1* | its MPI name
ranks | ranks | rank | 1* | ranks of the communicator
site | called from | text | 1 | module and offset that it is called from
symbol | function | text | 1 | the function there
ordinal | ordinal | integer | 1* | which call of its lane it is in the step, from 0; -1: out of step
type | type | text | 1* | datatype of the elements
count | count | count | 1 | elements
state | state | text | 1! | registered: its calls are lossy; exact; candidate: still being watched; differs: not the same on all ranks
reports | reports | count | 1* | ranks that report it
calls | calls | count | 1 | calls of the rank that has most
topk_calls | top-k calls | count | 1 | of them, those sent as top-k
density_least | least | share | 1* | least share of the elements that a rank selected, mean of its calls
density_median | selected | share | 1 | median of these shares
density_most | most | share | 1* | largest of these shares
residual_norm_least | | factor | | least norm of a rank's residual
residual_norm_median | residual | factor | 1* | median of these norms
residual_norm_most | | factor | | largest of these norms
residual_ratio_least | least | factor | 1* | least norm of a rank's residual over that of its last input
residual_ratio_median | to input | factor | 1! | norm of a rank's residual over that of its last input, median of the ranks
residual_ratio_most | most | factor | 1 | largest of these ratios
rank_most | most at | integer | 1 | the rank that has it
""")
MERGED = (M_DOCUMENT, M_SUMMARY, M_SPREAD, M_LANES, M_TENSORS)


def missing(reports):
    """Returns "3, 5-7": ranks of the world that do not report."""
    there, parts, after = sorted({r.rank for r in reports}), [], 0
    for rank in [*there, reports[0].job["ranks"]] if there[0] >= 0 else []:
        if rank > after:
            parts.append(str(after) if rank == after + 1 else f"{after}-{rank - 1}")
        after = rank + 1
    return ", ".join(parts[:20]) + (", ..." if len(parts) > 20 else "")


def merged_summary(reports):
    first, spread = reports[0], lambda key: Spread((OF[key](r), r.rank) for r in reports)
    work, waits, dense, sent = map(spread, ("seconds_work", "seconds_waits", "bytes_dense", "bytes_sent"))
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
    lines["bytes"] = (f"{in_bytes(sent.sum)} sent instead of {in_bytes(dense.sum)}, all of these ranks together: "
                      f"{three(ratio(dense.sum, sent.sum))} times fewer")
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
        if s.n or not key.startswith(("rounds", "seconds_waited", "seconds_behind", "share_thread")):
            rows.append({"measure": key, "_shown": words, "_kind": kind, "least": s.least, "median": s.median,
                         "most": s.most, "sum": s.sum if adds else None, "rank_least": s.rank_least,
                         "rank_most": s.rank_most})
    return rows


def merged_lanes(reports):
    result = []
    for number, rows in enumerate(join(reports, "lanes", LANE + ("ranks",)), 1):
        first, spread = any_of(rows), lambda of_lane: spread_of(reports, rows, of_lane)
        density, everything = spread(lane_density), spread(lane_seconds)
        dense, sent = spread(lambda r: r["bytes_dense"]).sum, spread(lambda r: r["bytes_sent"]).sum
        row = {key: first[key] for key in LANE + ("ranks",)}
        if first["count"] == 0:
            row["communicator"] = "(further lanes)"
        for name in c.PHASES:
            row[f"seconds_{name}"] = spread(lambda r, key=f"seconds_{name}": r[key]).median
        row.update(lane=number, _op=operation(first), reports=sum(r is not None for r in rows),
                   calls=spread(lambda r: r["calls"]).most, calls_sparse=spread(sparse_calls).most,
                   density_least=density.least, density_median=density.median, density_most=density.most,
                   bytes_dense=dense, bytes_sent=sent, ratio=ratio(dense, sent), seconds_least=everything.least,
                   seconds_median=everything.median, seconds_most=everything.most, rank_most=everything.rank_most)
        result.append(row)
    return result


def merged_tensors(reports):
    result = []
    for number, rows in enumerate(join(reports, "tensors", TENSOR + ("ranks", "site", "symbol")), 1):
        first, spread = any_of(rows), lambda of_tensor: spread_of(reports, rows, of_tensor)
        selected, quotient = spread(tensor_density), spread(tensor_ratio)
        norm = spread(lambda t: t["residual_norm"] if t["topk_calls"] else None)
        states = {t["state"] for t in rows if t is not None}
        row = {key: first[key] for key in TENSOR + ("ranks", "site", "symbol")}
        row.update(tensor=number, state=first["state"] if len(states) == 1 else "differs",
                   reports=sum(t is not None for t in rows), calls=spread(lambda t: t["calls"]).most,
                   topk_calls=spread(lambda t: t["topk_calls"]).most, rank_most=quotient.rank_most)
        for name, s in (("density", selected), ("residual_norm", norm), ("residual_ratio", quotient)):
            row.update({f"{name}_least": s.least, f"{name}_median": s.median, f"{name}_most": s.most})
        result.append(row)
    return result


def kinds(rows, keys):
    """Numbers of a table whose rows have each a kind of their own, as text."""
    return [{**row, **{key: shown(row["_kind"], row[key]) for key in keys}} for row in rows]


def merge(reports):
    """Returns the document of a job and its text."""
    first = reports[0]
    document = {"merged_schema": 1, "program": first.job["program"], "version": first.job["version"],
                "ranks": first.job["ranks"], "reports": len(reports), "start_unix": min(r.start for r in reports),
                "complete": all(r.complete for r in reports), "summary": merged_summary(reports),
                "spread": spread_rows(reports), "lanes": merged_lanes(reports), "tensors": merged_tensors(reports)}

    def text(full=False):
        lines = [line(col.title, plain(document["summary"][col.key])) for col in M_SUMMARY.columns
                 if col.key in document["summary"]]
        spread = kinds(document["spread"], ("least", "median", "most", "sum"))
        return "".join(lines) + "".join((
            table("Over the ranks", M_SPREAD, spread),
            table("Lanes, bytes of all ranks together", M_LANES, document["lanes"], "1", full),
            table("Time by lane, medians of the ranks, all calls", M_LANES, document["lanes"], "2", full),
            table("Tensors, medians of the ranks", M_TENSORS, document["tensors"], "1", full)))

    def plain_json():
        return as_json({key: [select(group, row) for row in document[key]] if isinstance(document[key], list) else
                        document[key] for key in document
                        for group in [{"spread": M_SPREAD, "lanes": M_LANES, "tensors": M_TENSORS}.get(key)]})

    return text, plain_json


# ---- two jobs ----

C_DOCUMENT = Group("", "Compared: the document", """
compared_schema | | integer | | version of the form of compared reports
a | A | text | 1 | the first job: file, program, ranks, when it began
b | B | text | 1 | the second job, likewise
ranks | ranks | count | 1 | ranks that are compared, those that both report
""")
C_OPTIONS = Group("options", "Compared: options that differ", """
name | name | text | 1 | an option that differs, without SPARSESHIM_; REPORT_DIR is left out
a | A | option | 1 | its value in the first job; -, null: the default
b | B | option | 1 | its value in the second job, likewise
""")
C_JOB = Group("job", "Compared: the job", """
measure | | text | | what is compared, as in a rank's report
_shown | of a rank | text | 1 | what is compared, all lanes together
a | A | shown | 1 | in the first job, mean of the ranks that both report
b | B | shown | 1 | in the second job, likewise
ratio | B / A | factor | 1 | below 1 where the second job has less
""")
C_LANES = Group("lanes", "Compared: lanes", """
lane | lane | count | 1 | number of the lane in this table
communicator | communicator | text | 1* | its MPI name
ranks | ranks | rank | 1* | ranks of the communicator, in A where it has it
count | count | count | 1 | elements of the result
type | type | text | 1 | datatype of the elements
kind | | text | | the collective
op | | text | | the operator
_op | op | text | 1 | the operator; before it the collective where it is no allreduce
calls_a | calls A | count | 1 | eligible calls in A, mean of the ranks
calls_b | B | count | 1 | in B
density_a | density A | share | 1 | mean density in A
density_b | B | share | 1 | in B
bytes_per_call_a | sent a call A | bytes | 1 | bytes sent in a call in A
bytes_per_call_b | B | bytes | 1 | in B
bytes_ratio | B / A | factor | 1 | below 1 where B sends less in a call
seconds_per_call_a | a call A | seconds | 1 | time of a call in A, all phases
seconds_per_call_b | B | seconds | 1 | in B
seconds_ratio | B / A | factor | 1 | below 1 where a call of B is faster
""")
C_TENSORS = Group("tensors", "Compared: tensors (MODE=topk)", """
tensor | tensor | count | 1 | number of the tensor in this table
site | called from | text | 1 | module and offset that it is called from, in A where it has it
symbol | function | text | 1 | the function there
ordinal | ordinal | integer | 1* | which call of its lane it is in the step, from 0; -1: out of step
count | count | count | 1 | elements
state_a | state A | text | 1 | what became of it in A
state_b | B | text | 1 | in B
density_a | selected A | share | 1 | share of the elements selected in A, mean of the ranks
density_b | B | share | 1 | in B
residual_ratio_a | to input A | factor | 1 | norm of a rank's residual over that of its last input in A, mean of the ranks
residual_ratio_b | B | factor | 1 | in B
""")
COMPARED = (C_DOCUMENT, C_OPTIONS, C_JOB, C_LANES, C_TENSORS)


def pairs_of(a, b):
    """Reports of the same rank; one report each is a pair whatever its rank."""
    if len(a) == 1 and len(b) == 1:
        return a, b
    ranks = {r.rank for r in a} & {r.rank for r in b}
    if not ranks:
        raise Wrong("no rank has reports of both jobs")
    return [r for r in a if r.rank in ranks], [r for r in b if r.rank in ranks]


def mean(values):
    values = list(values)
    return sum(values) / len(values) if values and all(map(finite, values)) else None


def total(rows, number):
    return sum(number(row) or 0 for row in rows)


def option_rows(a, b):
    sides = [{row["name"]: row["value"] for row in side[0].rows("options")} for side in (a, b)]
    names = [name for name in {**sides[0], **sides[1]} if name != "REPORT_DIR"]
    return [{"name": name, "a": sides[0].get(name), "b": sides[1].get(name)} for name in names
            if sides[0].get(name) != sides[1].get(name)]


def job_rows(a, b):
    rows = []
    for key, words, kind, _, number in MEASURES:
        x, y = (mean(number(r) for r in side) for side in (a, b))
        if x is not None or y is not None or not key.startswith(("rounds", "seconds_w", "seconds_b", "share_t")):
            rows.append({"measure": key, "_shown": words, "_kind": kind, "a": x, "b": y, "ratio": ratio(y, x)})
    return rows


def lane_side(rows, side):
    """Numbers of a lane in one of the jobs, whose rows these are."""
    rows = [row for row in rows if row is not None]
    calls = total(rows, lambda r: r["calls"])
    scanned = [row for row in rows if row["scans"]]
    density = ratio(total(scanned, lambda r: r["density_sum"]), total(scanned, lambda r: r["scans"]))
    return {f"calls_{side}": int(calls / len(rows)) if rows else None, f"density_{side}": density,
            f"bytes_per_call_{side}": ratio(total(rows, lambda r: r["bytes_sent"]), calls),
            f"seconds_per_call_{side}": ratio(total(rows, lane_seconds), calls)}


def compared_lanes(a, b):
    result = []
    for number, rows in enumerate(join(a + b, "lanes", LANE), 1):
        first = any_of(rows)
        row = {"lane": number, "_op": operation(first), **{key: first[key] for key in LANE + ("ranks",)},
               **lane_side(rows[:len(a)], "a"), **lane_side(rows[len(a):], "b")}
        row["bytes_ratio"] = ratio(row["bytes_per_call_b"], row["bytes_per_call_a"])
        row["seconds_ratio"] = ratio(row["seconds_per_call_b"], row["seconds_per_call_a"])
        result.append(row)
    return result


def tensor_side(rows, side):
    rows = [row for row in rows if row is not None]
    return {f"state_{side}": rows[0]["state"] if rows else None,
            f"density_{side}": mean(filter(finite, map(tensor_density, rows))),
            f"residual_ratio_{side}": mean(filter(finite, map(tensor_ratio, rows)))}


def compared_tensors(a, b):
    result = []
    for number, rows in enumerate(join(a + b, "tensors", TENSOR), 1):
        first = any_of(rows)
        result.append({"tensor": number, **{key: first[key] for key in ("site", "symbol", "ordinal", "count")},
                       **tensor_side(rows[:len(a)], "a"), **tensor_side(rows[len(a):], "b")})
    return result


def say_job(reports):
    job = reports[0].job
    return (f"{job['program'] or 'unnamed program'}, {job['ranks']} ranks, started {date(reports[0].start)}, from "
            f"{reports[0].path}{' and others' if len(reports) > 1 else ''}")


def compare(a, b):
    """Returns the document of two jobs and its text."""
    a, b = pairs_of(a, b)
    document = {"compared_schema": 1, "a": say_job(a), "b": say_job(b), "ranks": len(a), "options": option_rows(a, b),
                "job": job_rows(a, b), "lanes": compared_lanes(a, b), "tensors": compared_tensors(a, b)}

    def text(full=False):
        options = [{**row, "a": row["a"] or "-", "b": row["b"] or "-"} for row in document["options"]]
        return "".join((
            line("A", plain(document["a"])), line("B", plain(document["b"])), line("ranks", count(document["ranks"])),
            table("Options that differ", C_OPTIONS, options),
            table("The job, means of these ranks", C_JOB, kinds(document["job"], ("a", "b"))),
            table("Lanes, means of a call", C_LANES, document["lanes"], "1", full),
            table("Tensors", C_TENSORS, document["tensors"], "1", full)))

    def plain_json():
        groups = {"options": C_OPTIONS, "job": C_JOB, "lanes": C_LANES, "tensors": C_TENSORS}
        return as_json({key: [select(groups[key], row) for row in value] if key in groups else value
                        for key, value in document.items()})

    return text, plain_json
