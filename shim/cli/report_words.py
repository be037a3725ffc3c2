"""Numbers and tables as people read them, and what their words mean."""
import math
import re
import time


def finite(number):
    return isinstance(number, (int, float)) and math.isfinite(number)


def ratio(part, whole):
    """None if there is nothing to divide by."""
    return part / whole if finite(part) and finite(whole) and whole > 0 else None


def whole(number):
    return f"{number:,}"


def three(number):
    """Three digits, or all those before the point."""
    if not finite(number):
        return "-"
    size = abs(number)
    if 999.5 <= size < 1e15:
        return f"{math.copysign(int(size + 0.5), number):,.0f}"
    if number == 0:
        return "0"
    if 1e-5 <= size < 1e15:
        decimals = 0 if size >= 99.95 else 1 if size >= 9.995 else 2
        bound = 9.995
        while size < bound / 10 and decimals >= 2:
            bound /= 10
            decimals += 1
        if decimals < 7:
            return f"{number:.{decimals}f}"
    return f"{number:.2e}"


def scaled(number, units, step):
    """three() with a unit: the first in which the number is below 999.5, or at least 0.9995."""
    if not finite(number):
        return "-"
    at = 0
    if step > 1:
        while number >= 999.5 and at + 1 < len(units):
            number, at = number / step, at + 1
    else:
        while 0 < number < 0.9995 and at + 1 < len(units):
            number, at = number / step, at + 1
    plain = step > 1 and at == 0 and number == int(number)
    return f"{int(number) if plain else three(number)} {units[at]}"


def in_bytes(number):
    return scaled(number, ("B", "kB", "MB", "GB", "TB", "PB", "EB"), 1000)


def seconds(number):
    return scaled(number, ("s", "ms", "us", "ns"), 1e-3)


def share(number):
    return f"{three(100 * number)} %" if finite(number) and finite(100 * number) else "-"


def count(number):
    return whole(number) if isinstance(number, int) else three(number)


def plain(text):
    """Text of others for a terminal: control characters of both sets become visible."""
    return re.sub(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]", lambda c: f"\\u{ord(c[0]):04x}", text)


def first_line(text):
    return plain(re.split(r"[\r\n]", text)[0].replace("\t", " "))


def date(unix):
    try:
        return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(unix))
    except (OverflowError, ValueError, OSError):
        return ""


def compared(number, less):
    """A factor, and below 1 its inverse with the word for it."""
    return f"{three(1 / number)} {less}" if finite(number) and 0 < number < 1 else three(number)


def fewer(dense, sent):
    """Bytes in place of those of dense calls, in words."""
    factor = ratio(dense, sent)
    if factor is None or abs(factor - 1) < 0.005:
        return "nothing saved"
    return f"{three(1 / factor)} times more" if 0 < factor < 1 else f"{three(factor)} times fewer"


SHOW = {
    "text": lambda v: plain(v),
    "count": count,
    "integer": str,
    "rank": str,
    "bytes": in_bytes,
    "seconds": seconds,
    "share": share,
    "factor": three,
    "faster": lambda v: compared(v, "slower"),
    "fewer": lambda v: compared(v, "more"),
    "flag": lambda v: "yes" if v else "no",
    "shown": str,  # a number with its unit
    "option": str,
    "names": lambda v: ", ".join(f"{plain(k)} {count(n)}" for k, n in v.items()),
}
LEFT = ("text", "names", "flag", "option")


def shown(kind, value):
    if value is None:
        return "" if kind in LEFT else "-"
    return SHOW[kind](value)


class Column:
    """A key of JSON, a column of a table, or both.

    views: digits of the tables of its group that show it; "*": with --all alone; "?": if a row has a
    value; "!": its legend stands under the table. A key that begins with "_" is not in JSON."""

    def __init__(self, line):
        key, title, kind, views, self.legend = [part.strip() for part in line.split("|", 4)]
        self.key, self.title, self.kind = key, title, kind
        self.views = set(views) & set("123456789")
        self.rare, self.told, self.seldom = "*" in views, "!" in views, "?" in views
        self.left = kind in LEFT


class Group:
    """Columns of a part of a document; key: of the part, "" for the document itself."""

    def __init__(self, key, title, lines):
        self.key, self.title = key, title
        self.columns = [Column(line) for line in lines.strip().splitlines()]

    def keys(self):
        return [c for c in self.columns if not c.key.startswith("_")]


def line(label, text):
    return f"  {label:<8} {text}\n" if label else f"{text}\n"


def table(title, group, rows, view="1", full=False, told=()):
    """The table of a view as text. A column of nothing goes. told: further lines under it."""
    columns = [c for c in group.columns if view in c.views and (full or not c.rare)
               and (not c.seldom or any(row.get(c.key) is not None for row in rows))]
    cells = [[shown(c.kind, row.get(c.key)) for c in columns] for row in rows]
    keep = [i for i in range(len(columns)) if any(row[i] for row in cells)]
    if not rows or not keep:
        return ""
    columns = [columns[i] for i in keep]
    cells = [[row[i] for i in keep] for row in cells]
    heads = [c.title for c in columns]
    if any(heads):
        cells.insert(0, heads)
    widths = [max(len(row[i]) for row in cells) for i in range(len(columns))]
    text = [f"\n{title}\n"]
    for row in cells:
        padded = (cell.ljust(w) if c.left else cell.rjust(w) for cell, w, c in zip(row, widths, columns))
        text.append(("  " + "  ".join(padded)).rstrip() + "\n")
    text += [f"    {c.title}: {c.legend}\n" for c in columns if c.told]
    text += [f"    {sentence}\n" for sentence in told]
    return "".join(text)


def legend(groups):
    text = []
    for group in groups:
        where = f' ("{group.key}" in JSON)' if group.key else ""
        text.append(f"{group.title}{where}\n")
        for c in group.columns:
            name = c.title if c.key.startswith("_") or c.title == c.key else f"{c.title} ({c.key})" if c.title else c.key
            form = ", in the text" if c.key.startswith("_") else ", in JSON" if not c.views else ""
            rare = ", with --all" if c.rare else ""
            text.append(f"  {name}{form}{rare}\n    {c.legend}\n")
        text.append("\n")
    return "".join(text).rstrip("\n") + "\n"
