"""A page of HTML about a job: pictures, text, words, and their numbers as JSON. The page loads nothing
and runs no script."""
import html
import math
import re

import report_columns as c
import report_forms as forms
import report_merge as merge
from report_jobs import between
from report_words import count, date, fewer, finite, in_bytes, plain, ratio, seconds, share, three, whole

MOST_BARS, MOST_TENSORS, MOST_HOSTS = 32, 64, 8  # more would make the page unreadable
TICKS = 4
MISFIT = 2  # beyond this factor predicted and measured times do not agree
# A colour has one meaning on the page. Grey is the MPI library, blue is sparseshim; light is inside a host.
COLOURS = {  # name: on a light page, on a dark one
    "dense": ("#6f7883", "#98a2ae"), "dense-inside": ("#b9c0c8", "#5b646e"),
    "sent": ("#0072b2", "#4aa8e0"), "sent-inside": ("#8cc2e2", "#255f82"),
    "scan": ("#e69f00", "#f0b429"), "vote": ("#00826a", "#2bb392"), "exchange": ("#7a4fb0", "#ab86dc"),
    "merge": ("#c0498f", "#e07fb8"), "coding": ("#8a6d1f", "#c2a55a"), "native": ("#6f7883", "#98a2ae"),
    "predicted": ("none", "none"), "measured": ("#1c1f23", "#e4e7eb"),
    "residual": ("#c8401f", "#f07a58"), "input": ("#6a8f00", "#a5c93d"), "over its calls": ("#1c1f23", "#e4e7eb"),
}
MEANING = {
    "scan": "looking for the entries to send", "vote": "waiting for the last rank and agreeing",
    "exchange": "sending and receiving", "merge": "adding up", "coding": "encoding and decoding",
    "native": "the MPI library's own collective",
}
HEAD = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>%s</title>
<style>
:root { color-scheme: light dark; --ink: #1c1f23; --page: #fff; --soft: #56606b; --rule: #d6dbe0; }
@media (prefers-color-scheme: dark) { :root { --ink: #e4e7eb; --page: #15181c; --soft: #a0aab5; --rule: #3a424b; } }
* { box-sizing: border-box; }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--page);
  max-width: 1100px; margin: 1.5em auto; padding: 0 1.2em; overflow-wrap: anywhere; }
h1 { font-size: 1.5em; margin: 0; } h2 { font-size: 1.15em; margin: 2em 0 0.4em; } h3 { font-size: 1em; }
p.verdict { font-size: 1.25em; line-height: 1.4; margin: 0.4em 0; } p.also { margin: 0.3em 0; }
p.note, figcaption, dd, .tick { color: var(--soft); } figure { margin: 0.6em 0 1.4em; }
dl.facts { display: grid; grid-template-columns: max-content 1fr; gap: 0.15em 1em; margin: 1em 0;
  padding: 0.7em 0; border: solid var(--rule); border-width: 1px 0; }
dl.facts dt, dl.facts dd { margin: 0; } dl.facts dd { color: var(--ink); } dt { font-weight: 600; }
.key { margin-right: 1.1em; white-space: nowrap; } .key svg { width: 12px; height: 12px; vertical-align: -1px; }
.bar { display: grid; grid-template-columns: 15em 1fr 6.5em; gap: 0 0.8em; align-items: center; margin: 0.25em 0; }
.bar > :first-child { text-align: right; line-height: 1.25; } .bar svg { width: 100%%; height: 16px; display: block; }
.bar + .axis { margin-top: 0; } svg { overflow: visible; } svg text { font: 12px system-ui, sans-serif; }
svg text { fill: var(--soft); } svg .rule { stroke: var(--rule); } svg path { fill: none; stroke-width: 1.8; }
div.row { display: flex; flex-wrap: wrap; gap: 0 1.6em; } figure.small { flex: 1 1 300px; max-width: 340px; }
figure.small > svg { width: 100%%; height: auto; } pre { overflow-x: auto; font-size: 12px; overflow-wrap: normal; }
summary { cursor: pointer; margin: 0.6em 0; }
@media (max-width: 700px) { .bar { grid-template-columns: 1fr 5.5em; }
  .bar > :first-child { grid-column: 1 / 3; text-align: left; } .bar > :first-child:empty { display: none; } }
%s
</style></head>
<body>
"""


def colours():
    """A class for each colour, for areas (c-) and for lines (l-)."""
    def rules(which):
        return "\n".join(f".c-{name.replace(' ', '-')} {{ fill: {pair[which]}; }} "
                         f".l-{name.replace(' ', '-')} {{ stroke: {pair[which]}; }}" for name, pair in COLOURS.items())

    return (f"{rules(0)}\n.c-predicted {{ stroke: var(--ink); stroke-width: 1.5; stroke-dasharray: 4 2; }}\n"
            f"@media (prefers-color-scheme: dark) {{\n{rules(1)}\n}}")


def safe(text):
    return html.escape(plain(str(text)))


def positive(number):
    return finite(number) and 0 < number < 1e300


# ---- pictures ----

def keys(names):
    return " ".join(f'<span class=key><svg viewBox="0 0 12 12"><rect class="c-{name.replace(" ", "-")}" x="1" y="1" '
                    f'width="10" height="10"/></svg> {safe(name.replace("-", ", "))}</span>' for name in names)


def figure(title, names, picture, small=False):
    legend = f"<div>{keys(names)}</div>\n" if len(names) > 1 else ""
    return (f'<figure{" class=small" if small else ""}><figcaption>{safe(title)}</figcaption>\n'
            f"{legend}{picture}</figure>\n")


def ticks(most, words):
    """Round numbers from 0 to the most: pairs of the share of it and the number in words, round in the unit, a power
    of ten, in which they are shown."""
    shown = words(most).split(" ")[0].replace(",", "")
    plain_number = re.fullmatch(r"[\d.]+", shown) and float(shown) > 0
    unit = 10.0 ** round(math.log10(most / float(shown))) if plain_number else 1
    size = 10.0 ** math.floor(math.log10(most / unit))
    step = next(s for s in (0.2, 0.25, 0.5, 1, 2, 5) if most / unit / (s * size) <= TICKS + 0.5) * size * unit
    return [(i * step / most, re.sub(r"\.?0+(?=$| )", "", words(i * step)) if i and "." in words(i * step) else
             words(i * step) if i else "0") for i in range(int(most / step + 1e-9) + 1)]


def bars(title, names, rows, words):
    """rows: a label and, for each name, a number or None; the numbers of a row stand behind each other."""
    rows = [(label, [v if positive(v) else 0 for v in values]) for label, values in rows]
    longest = max((sum(values) for _, values in rows), default=0)
    if not positive(longest):
        return ""
    parts = []
    for label, values in rows:
        x, rects = 0, []
        for name, value in zip(names, values):
            if value:
                size = max(100 * value / longest, 0.2)
                rects.append(f'<rect class="c-{name}" x="{x:.2f}%" y="1" width="{size:.2f}%" height="14">'
                             f"<title>{safe(name)}: {safe(words(value))}</title></rect>")
                x += size
        parts.append(f'<div class=bar><span>{safe(label)}</span><svg role="img">{"".join(rects)}</svg>'
                     f"<span>{safe(words(sum(values)))}</span></div>\n")
    marks = "".join(f'<line class="rule" x1="{100 * at:.2f}%" x2="{100 * at:.2f}%" y1="0" y2="4"/>'
                    f'<text x="{100 * at:.2f}%" y="16" text-anchor="{"middle" if at else "start"}">{safe(text)}</text>'
                    for at, text in ticks(longest, words))
    axis = ('<div class="bar axis"><span></span><svg role="img"><line class="rule" x1="0" x2="100%" y1="0" y2="0"/>'
            f"{marks}</svg><span></span></div>\n")
    used = [name for i, name in enumerate(names) if any(values[i] for _, values in rows)]
    return figure(title, used, "".join(parts) + axis)


LEFT, RIGHT, TOP, BOTTOM = 62, 300, 12, 112  # of a small picture


def path(xs, ys, across, top):
    """A line of straight parts, broken where a number is not known."""
    steps, pen = [], "M"
    for x, y in zip(xs, ys):
        if finite(x) and positive(y):
            steps.append(f"{pen}{LEFT + (RIGHT - LEFT) * x / across:.1f} {BOTTOM - (BOTTOM - TOP) * y / top:.1f}")
            pen = "L"
        else:
            pen = "M"
    return " ".join(steps)


def lines(title, names, xs, arrays, words):
    across, top = (max(filter(positive, values), default=0) for values in (xs, sum(arrays, [])))
    if not across or not top:
        return ""
    parts = []
    for at, text in ticks(top, words):
        y = BOTTOM - (BOTTOM - TOP) * at
        parts.append(f'<path class="rule" d="M{LEFT} {y:.1f} L{RIGHT} {y:.1f}"/><text x="{LEFT - 6}" y="{y + 4:.1f}" '
                     f'text-anchor="end">{safe(text)}</text>')
    parts.append(f'<text x="{LEFT}" y="{BOTTOM + 16}" text-anchor="middle">0</text><text x="{RIGHT}" y="{BOTTOM + 16}" '
                 f'text-anchor="end">call {safe(whole(int(across)))}</text>\n')
    parts += [f'<path class="l-{name.replace(" ", "-")}" d="{path(xs, ys, across, top)}"/>\n'
              for name, ys in zip(names, arrays)]
    return figure(title, names, f'<svg viewBox="0 0 310 134" role="img">\n{"".join(parts)}</svg>\n', True)


# ---- lanes and ranks ----

def predicted(lane):
    """Time of a call by the model, of the algorithms that ran."""
    sums, calls, planned = lane["predicted_seconds_sum"], lane["sparse"], lane["planned"]
    return ratio(sum(n * (ratio(sums.get(a), planned) or 0) for a, n in calls.items()), sum(calls.values()))


def mean(values):
    values = list(filter(finite, values))
    return sum(values) / len(values) if values else None


def lane_name(number, lane):
    return f"{number}: {count(lane['count'])} {lane['type']} {forms.operation(lane)}"


def added(rows, key):
    return sum(row[key] or 0 for row in rows)


def lane_pictures(reports):
    lanes = [[row for row in rows if row is not None] for rows in merge.join(reports, "lanes", merge.LANE + ("ranks",))]
    if not lanes:
        return "<p>No call could be made sparse.</p>\n"
    sent, times, model = [], [], []
    for number, rows in enumerate(lanes[:MOST_BARS], 1):
        name, n = lane_name(number, rows[0]), len(rows)
        total = merge.added(rows)
        dense, ours = total["bytes_dense"], total["bytes_sent"]
        dense_inside, inside = total["bytes_dense_inside"], total["bytes_sent_inside"]
        sent += [(name, [dense - dense_inside, dense_inside, None, None]),
                 ("", [None, None, ours - inside, inside])]
        times.append((name, [added(rows, f"seconds_{phase}") / n for phase in c.PHASES]))
        ours = sum(added(rows, f"seconds_{phase}") for phase in c.PHASES if phase != "native")
        sparse, passed = sum(map(merge.sparse_calls, rows)), sum(sum(r["passed"].values()) for r in rows)
        dense = [ratio(r["predicted_seconds_sum"].get("dense"), r["planned"]) for r in rows]
        for what, guess, real in (("made sparse", mean(map(predicted, rows)), ratio(ours, sparse)),
                                  ("native", mean(dense), ratio(added(rows, "seconds_native"), passed))):
            if positive(guess) and positive(real):
                model += [(f"{name}, {what}", [guess, None]), ("", [None, real])]
    page = ["<h2>Bytes against dense</h2>\n",
            bars("Bytes that dense collectives would have sent, and bytes sent, by call signature, all ranks of this "
                 "page together", ("dense", "dense-inside", "sent", "sent-inside"), sent, in_bytes),
            "<h2>Time per phase</h2>\n",
            bars("Time of all calls by call signature, mean of the ranks", c.PHASES, times, seconds)]
    if len(reports) > 1:
        ranks = [(f"rank {r.rank}", [r.data["times"][f"seconds_{phase}"] for phase in c.PHASES])
                 for r in reports[:MOST_BARS]]
        page.append(bars("Time of all calls by rank: who is awaited has the shortest vote", c.PHASES, ranks, seconds))
    page.append("<h2>Predicted against measured</h2>\n")
    page.append(bars("Time of a call by the model and as measured, mean of the ranks; sparse calls with all scans and "
                     "votes of the call signature", ("predicted", "measured"), model, seconds) or
                "<p class=note>No call was predicted.</p>\n")
    if len(lanes) > MOST_BARS or len(reports) > MOST_BARS:
        page.append(f"<p class=note>The first {MOST_BARS} call signatures and ranks.</p>\n")
    return "".join(page)


def tensor_pictures(report):
    tensors = [t for t in report.rows("tensors") if t["series"]]
    page = [f"<h2>Lossy tensors, step by step (rank {report.rank})</h2>\n"] if tensors else []
    for t in tensors[:MOST_TENSORS]:
        s = t["series"]
        page.append(f"<h3>{t['tensor']}: {safe(count(t['count']))} {safe(t['type'])}</h3>\n<p class=note>called from "
                    f"{safe(' '.join(filter(None, (t['site'] or 'an unknown place', t['symbol']))))}; {count(t['topk_calls'])} of "
                    f"{count(t['calls'])} calls lossy, {safe(t['state'])} at the end</p>\n<div class=row>\n")
        for title, names, of, words in (("Density selected", ("over its calls",), ("density",), share),
                                        ("Norms", ("residual", "input"), ("residual_norm", "input_norm"), three),
                                        ("Threshold", ("over its calls",), ("threshold",), three)):
            page.append(lines(f"{title}, over its calls", names, s["call"], [s[key] for key in of], words))
        page.append("</div>\n")
    if len(tensors) > MOST_TENSORS:
        page.append(f"<p class=note>The first {MOST_TENSORS} of {len(tensors)} lossy tensors.</p>\n")
    return "".join(page)


# ---- the first screen ----

def total(reports, part, key):
    return sum(r.data[part][key] or 0 for r in reports)


def faster(reports):
    """How many times faster calls made sparse are than dense ones, by the model, and the time that it predicts for what
    ran over the measured one; None where it says nothing."""
    dense = ran = ours = 0
    for lane in (lane for r in reports for lane in r.rows("lanes")):
        each, sparse = ratio(lane["predicted_seconds_sum"].get("dense"), lane["planned"]), merge.sparse_calls(lane)
        if sparse and positive(each):
            dense += sparse * each
            ran += sparse * (predicted(lane) or 0)
            ours += sum(lane[f"seconds_{phase}"] or 0 for phase in c.PHASES if phase != "native")
    return ratio(dense, ours), ratio(ran, ours)


def bytes_words(reports):
    """The bytes of the verdict: those that left the hosts, if these are apart."""
    b = merge.added([r.data["bytes"] for r in reports])
    dense, sent = between(b)
    if dense is None:
        return b["bytes_dense"], b["bytes_sent"], ""
    return dense, sent, " between hosts"


def verdict(reports):
    """The sentence at the top."""
    dense, sent, where = bytes_words(reports)
    if reports[0].job["observe"]:
        return f"Next: {reports[0].data['summary'].get('try') or 'nothing was observed'}."
    if not total(reports, "calls", "sparse"):
        advice = reports[0].data["summary"].get("try")
        return "No call was made sparse: everything went through the MPI library." + (f" Next: {advice}." if advice else "")
    (gain, fit), words = faster(reports), fewer(dense, sent)
    words = f"{words[0].upper()}{words[1:]}{'' if words.startswith('nothing') else ' bytes'}{where}."
    if finite(gain) and not 1 / MISFIT <= (fit or 0) <= MISFIT:
        return f"{words} The model does not describe this run; `sparseshim report A B` compares it with a dense one."
    if not finite(gain) or abs(gain - 1) < 0.05:
        return words
    speed = f"{three(gain)} times faster" if gain > 1 else f"{three(1 / gain)} times slower"
    return f"{words} The calls made sparse are about {speed} than dense ones, by the model."


def limits(reports):
    """What takes the time now, and why calls passed through."""
    times = {phase: total(reports, "times", f"seconds_{phase}") for phase in c.PHASES}
    most, everything = max(times, key=times.get), sum(times.values())
    part = mean(r.data["times"]["share_allreduce"] for r in reports)
    sentences = []
    if everything:
        sentences.append(f"What limits it now: {MEANING[most]}, {share(times[most] / everything)} of the time in sums"
                         + (f"; sums are {share(part)} of the job." if finite(part) else "."))
    passed, seen = total(reports, "calls", "passed"), total(reports, "calls", "seen")
    why = reports[0].data["summary"].get("passed")
    if passed and why:
        sentences.append(f"{count(passed)} of {count(seen)} calls passed through; on rank {reports[0].rank}: {why}.")
    if reports[0].job["observe"]:
        summary = reports[0].data["summary"]
        sentences = [f"{col.title[0].upper() + col.title[1:]}: {summary[col.key]}." for col in c.SUMMARY.columns
                     if col.key.startswith("try_") and summary.get(col.key)] + sentences
    return sentences


def hosts_words(reports):
    names = list(dict.fromkeys(r.job["hostname"] or "unknown" for r in reports))
    return f"{len(names)}: " + ", ".join(names[:MOST_HOSTS]) + (", ..." if len(names) > MOST_HOSTS else "")


def first_screen(reports):
    first, missing = reports[0], merge.missing(reports)
    options = {row["name"]: row["value"] for row in first.rows("options")}
    ran = max(r.elapsed for r in reports)
    ended = "" if all(r.complete for r in reports) else ", had not ended"
    facts = (
        ("Date", f"{date(min(r.start for r in reports))}, ran {seconds(ran)}{ended}"),
        ("Hosts", hosts_words(reports)),
        ("Ranks", f"{len(reports)} of {first.job['ranks']}" + (f"; no report of rank {missing}" if missing else "")),
        ("Mode", options.get("MODE") or "exact"),
        ("Options", ", ".join(f"{name}={value}" for name, value in options.items()
                              if name not in ("MODE", "REPORT", "REPORT_DIR")) or "all at their defaults"),
        ("Library", f"sparseshim {first.job['version']}, {forms.first_line(first.job['mpi_library'])}"))
    program = first.job["program"] or "unnamed program"
    return (f"<h1>{safe(program)}</h1>\n<p class=verdict>{safe(verdict(reports))}</p>\n"
            + "".join(f"<p class=also>{safe(sentence)}</p>\n" for sentence in limits(reports))
            + "<dl class=facts>\n" + "".join(f"<dt>{name}</dt><dd>{safe(value)}</dd>\n" for name, value in facts)
            + "</dl>\n")


# ---- the page ----

def words_of(groups):
    page = ["<h2>What the words mean</h2>\n<details><summary>Every word and number of the report</summary>\n"]
    for group in groups:
        page.append(f"<h3>{safe(group.title)}</h3>\n<dl>\n")
        for col in group.columns:
            key = "" if col.key.startswith("_") or col.key == col.title else f" ({col.key})" if col.title else col.key
            page.append(f"<dt>{safe(col.title + key)}</dt><dd>{safe(col.legend)}</dd>\n")
        page.append("</dl>\n")
    return "".join(page) + "</details>\n"


def data(name, text):
    for c_, code in (("<", "\\u003c"), (">", "\\u003e"), ("&", "\\u0026")):
        text = text.replace(c_, code)  # these are in strings only
    return f'<script type="application/json" id="{name}">\n{text}</script>\n'


def of_job(reports):
    first = reports[0]
    document = merge.document_of(reports)
    title = f"sparseshim: {first.job['program'] or 'unnamed program'}"
    several = len(reports) > 1
    page = [HEAD % (safe(title), colours()), first_screen(reports), lane_pictures(reports), tensor_pictures(first)]
    page.append("<h2>All numbers</h2>\n")
    if several:
        page.append(f"<details><summary>All ranks, as text</summary>\n<pre>{html.escape(merge.text_of(document))}</pre>"
                    "</details>\n")
    page.append(f"<details><summary>Rank {first.rank}, as text</summary>\n"
                f"<pre>{html.escape(forms.text_of(first, True))}</pre></details>\n")
    page.append(words_of((merge.GROUPS if several else ()) + c.REPORT))
    if several:
        page.append(data("job", merge.as_json(document, merge.GROUPS)))
    page.append(data("rank", first.text))
    return "".join(page) + "</body></html>\n"
