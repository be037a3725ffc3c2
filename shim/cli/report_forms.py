"""A report as text."""
import math

import report_columns as c
from report_jobs import apart, between, lane_density
from report_words import finite, first_line, in_bytes, line, plain, ratio, seconds, share, table


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
        density, (dense, sent) = lane_density(lane), between(lane)
        rows.append({**lane, "_op": operation(lane), "_dense_between": dense, "_sent_between": sent,
                     "_name": "(further call signatures)" if lane["count"] == 0 else lane["communicator"] or "(no name)",
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
    if not a["gain"]:
        text = f"{'no clear gain' if a['unclear'] else 'nothing to gain'}: {text}"
    if a["best"]:
        against = "instead of" if a["gain"] else "against"
        text += f", {a['best']} {seconds(a['predicted'])} {against} {seconds(a['against'])} per call"
    if a["misfit"]:
        text += f"; dense was predicted to take {seconds(a['dense'])} and took {seconds(a['native'])}"
    return text


def advised(report):
    return [lane for lane in report.rows("lanes") if lane["advice"]]


def advice_rows(report):
    rows = []
    for lane in advised(report):
        a = lane["advice"]
        rows.append({"_lane": lane["lane"], "_why": why(lane, a), "_try": "SPARSESHIM_MODE=exact" if a["gain"] else "-"})
    return rows


def less(whole, part):
    return whole - part if finite(whole) and finite(part) else whole


def prediction_rows(report):
    rows = []
    for lane in advised(report):
        a, planned = lane["advice"], lane["planned"]
        rows.append({"_lane": lane["lane"], "_algorithm": "native", "_seconds": a["native"], "_remark": "measured",
                     "_bytes": ratio(lane["bytes_dense"], lane["calls"]),
                     "_between": ratio(between(lane)[0], lane["calls"])})
        for name, total in lane["predicted_seconds_sum"].items():
            time = ratio(total, planned)
            best = name == a["best"]
            sent = ratio(lane["predicted_bytes_sum"].get(name), planned)
            inside = ratio(lane["predicted_inside_sum"].get(name), planned)
            rows.append({"_lane": lane["lane"], "_algorithm": name, "_seconds": time, "_bytes": sent,
                         "_between": less(sent, inside) if apart(lane) else None,
                         "_faster": ratio(a["native"], time), "_remark": "best sparse" if best else ""})
        if a["quant_predicted"]:
            out = less(a["quant_bytes"], a["quant_inside"]) if apart(lane) else None
            rows.append({"_lane": lane["lane"], "_algorithm": "quantized", "_seconds": a["quant_predicted"],
                         "_bytes": a["quant_bytes"], "_between": out,
                         "_faster": ratio(a["native"], a["quant_predicted"]),
                         "_remark": "MODE=quant, LOSSY: for gradients only"})
    return rows


def topk_remark(lane, a):
    if not a["topk_gain"]:
        return "lossy; nothing to gain"
    return f"LOSSY, for gradients only: SPARSESHIM_MODE=topk SPARSESHIM_REGISTER=count={lane['count']}"


def topk_rows(report):
    rows = []
    for lane in advised(report):
        a, samples = lane["advice"], lane["topk_samples"]
        out = less(a["topk_bytes"], a["topk_inside"]) if apart(lane) else None
        dense, sent = (between(lane)[0], out) if apart(lane) else (lane["bytes_dense"], a["topk_bytes"])
        if samples:
            rows.append({"_lane": lane["lane"], "_density": ratio(lane["topk_density_sum"], samples),
                         "_kept": ratio(lane["topk_kept_sum"], samples), "_algorithm": a["topk"] or "-",
                         "_bytes": a["topk_bytes"], "_seconds": a["topk_predicted"], "_remark": topk_remark(lane, a),
                         "_between": out, "_fewer": ratio(ratio(dense, lane["calls"]), sent),
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
        table("Predicted by call signature and algorithm, mean of a call, scan and vote included", c.PREDICTIONS,
              prediction_rows(report)),
        table("MODE=topk would be LOSSY: selected and sent per call, from samples", c.TOPK,
              topk_rows(report)),
        table("Calls below MIN_COUNT: calls that a lower one would serve", c.SMALL, small_rows(report))))


def text_of(report, full=False):
    lanes, tensors = lane_rows(report), tensor_rows(report)
    return "".join((
        first_lines(report, full),
        table("Notes", c.NOTES, report.rows("notes")),
        passed_text(report),
        table("Call signatures, most bytes first (bytes of all calls, sent by this rank)", c.LANES, lanes, "1", full),
        table("Time by call signature, all calls", c.LANES, lanes, "2", full),
        table("Calls by call signature", c.LANES, lanes, "3", full),
        observed(report),
        table("Calls that wait for all ranks", c.SYNCHRONOUS, report.rows("synchronous")),
        table("Tensors (lossy modes), where they come from", c.TENSORS, tensors, "1", full),
        table("Tensors, what became of them (norms of this rank, at the end)", c.TENSORS, tensors, "2", full),
        table("Tensors, what was seen of them", c.TENSORS, tensors if full else [], "3", full),
        table("Options", c.OPTIONS, report.rows("options"))))
