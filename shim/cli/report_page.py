"""A page of HTML about a job: pictures, text, words, and their numbers as JSON. The page loads nothing
and runs no script."""
import html

import report_columns as c
import report_forms as forms
import report_merge as merge
from report_words import count, finite, in_bytes, plain, ratio, seconds, share, three, whole

MOST_BARS, MOST_TENSORS = 32, 64  # more would make the page unreadable
WIDTH, LABELS, ROW = 760, 290, 22
HEAD = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>%s</title>
<style>
:root { color-scheme: light dark; --ink: #1c1f23; --page: #fff; --soft: #5b6470; }
@media (prefers-color-scheme: dark) { :root { --ink: #e4e7eb; --page: #15181c; --soft: #9aa4b0; } }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--page);
  max-width: 1100px; margin: 2em auto; padding: 0 1.2em; }
h1 { font-size: 1.5em; } h2 { font-size: 1.15em; margin-top: 2em; } h3 { font-size: 1em; }
p.note, figcaption, dd { color: var(--soft); } figure { margin: 0.6em 0 1.2em; max-width: 860px; }
figure.small { flex: 1 1 300px; max-width: 380px; } div.row { display: flex; flex-wrap: wrap; gap: 1.2em; }
svg { width: 100%%; height: auto; } svg text { font: 12px system-ui, sans-serif; fill: var(--ink); }
svg path { fill: none; stroke-width: 1.8; } pre { overflow-x: auto; font-size: 12px; } dt { font-weight: 600; }
</style></head>
<body>
<h1>%s</h1>
"""
COLOURS = ("#0072b2", "#a8b0ba", "#e69f00", "#009e73", "#cc79a7", "#d55e00")


def safe(text):
    return html.escape(plain(str(text)))


def positive(number):
    return finite(number) and 0 < number < 1e300


# ---- pictures ----

def figure(title, names, picture, small=False):
    key = " ".join(f'<tspan fill="{COLOURS[i]}">\u25a0</tspan> {safe(name)}' for i, name in enumerate(names))
    width = LABELS if small else WIDTH
    return (f'<figure{" class=small" if small else ""}><figcaption>{safe(title)}</figcaption>\n'
            f'<svg viewBox="0 0 {width} 16" role="img"><text x="0" y="12">{key}</text></svg>\n{picture}</figure>\n')


def bars(title, names, rows, words):
    """rows: a label and, for each name, a number or None; the numbers of a row stand behind each other."""
    rows = [(label, [v if positive(v) else 0 for v in values]) for label, values in rows]
    longest = max((sum(values) for _, values in rows), default=0)
    if not longest:
        return ""
    scale, parts = (WIDTH - LABELS - 90) / longest, []
    for i, (label, values) in enumerate(rows):
        x, y = LABELS, i * ROW
        parts.append(f'<text x="{LABELS - 8}" y="{y + 15}" text-anchor="end">{safe(label)}</text>\n')
        for name, colour, value in zip(names, COLOURS, values):
            if value:
                size = max(value * scale, 0.5)
                parts.append(f'<rect fill="{colour}" x="{x:.1f}" y="{y + 4}" width="{size:.1f}" height="14">'
                             f"<title>{safe(name)}: {safe(words(value))}</title></rect>\n")
                x += size
        parts.append(f'<text x="{x + 6:.1f}" y="{y + 15}">{safe(words(sum(values)))}</text>\n')
    return figure(title, names, f'<svg viewBox="0 0 {WIDTH} {len(rows) * ROW}" role="img">\n{"".join(parts)}</svg>\n')


def path(xs, ys, across, top):
    """A line of straight parts, broken where a number is not known."""
    steps, pen = [], "M"
    for x, y in zip(xs, ys):
        if finite(x) and positive(y):
            steps.append(f"{pen}{40 + 240 * x / across:.1f} {110 - 100 * y / top:.1f}")
            pen = "L"
        else:
            pen = "M"
    return " ".join(steps)


def lines(title, names, xs, arrays, words):
    across, top = (max(filter(positive, values), default=0) for values in (xs, sum(arrays, [])))
    if not across or not top:
        return ""
    parts = [f'<text x="40" y="12">{safe(words(top))}</text><text x="280" y="124" text-anchor="end">'
             f'call {safe(whole(int(across)))}</text><path stroke="var(--soft)" d="M40 10 L40 110 L280 110"/>\n']
    parts += [f'<path stroke="{colour}" d="{path(xs, ys, across, top)}"/>\n' for colour, ys in zip(COLOURS, arrays)]
    return figure(title, names, f'<svg viewBox="0 0 {LABELS} 128" role="img">\n{"".join(parts)}</svg>\n', True)


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
        sent += [(name, [dense - dense_inside, None, dense_inside]), ("", [None, ours - inside, inside])]
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
                 "page together", ("dense", "sent", "inside hosts") if any(row[1][2] for row in sent) else
                 ("dense", "sent"), sent, in_bytes),
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
                    f"{safe(t['site'] or 'an unknown place')} {safe(t['symbol'] or '')}; {count(t['topk_calls'])} of "
                    f"{count(t['calls'])} calls lossy, {safe(t['state'])} at the end</p>\n<div class=row>\n")
        for title, names, keys, words in (("Density selected", ("density",), ("density",), share),
                                          ("Norms", ("residual", "input"), ("residual_norm", "input_norm"), three),
                                          ("Threshold", ("threshold",), ("threshold",), three)):
            page.append(lines(f"{title}, over its calls", names, s["call"], [s[key] for key in keys], words))
        page.append("</div>\n")
    if len(tensors) > MOST_TENSORS:
        page.append(f"<p class=note>The first {MOST_TENSORS} of {len(tensors)} lossy tensors.</p>\n")
    return "".join(page)


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
    page = [HEAD % (safe(title), safe(title)), lane_pictures(reports), tensor_pictures(first)]
    if several:
        page.append(f"<h2>All ranks</h2>\n<pre>{html.escape(merge.text_of(document))}</pre>\n")
    page.append(f"<h2>Rank {first.rank}</h2>\n<pre>{html.escape(forms.text_of(first, True))}</pre>\n")
    page.append(words_of((merge.GROUPS if several else ()) + c.REPORT))
    if several:
        page.append(data("job", merge.as_json(document, merge.GROUPS)))
    page.append(data("rank", first.text))
    return "".join(page) + "</body></html>\n"
