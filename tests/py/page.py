"""page.py FILE: what a browser would make of a page, as JSON: elements that are not closed, or in
the wrong order; anything that would be loaded or run; the JSON it holds; its pictures, their axes;
text of a terminal that is not folded away."""
import html.parser
import json
import re
import sys

VOID = {"meta", "br", "hr", "img", "input", "link"}
LOADS = {"src", "href", "xlink:href", "action", "data", "poster", "srcset", "style"}


class Page(html.parser.HTMLParser):
    def __init__(self):
        super().__init__(convert_charrefs=True)
        self.open, self.wrong, self.loads, self.runs = [], [], [], []
        self.json, self.text, self.style, self.paths = {}, [], "", []
        self.count, self.unfolded, self.axes = {}, 0, []

    def look(self, tag, attributes):
        self.count[tag] = self.count.get(tag, 0) + 1
        for name, value in attributes:
            if name in LOADS:
                self.loads.append(f"{tag} {name}={value}")
            if name.startswith("on"):
                self.runs.append(f"{tag} {name}")
        given = dict(attributes)
        if tag == "script" and given.get("type") != "application/json":
            self.runs.append("script")
        if tag in ("iframe", "object", "embed", "base", "form"):
            self.loads.append(tag)
        if tag == "pre" and "details" not in [name for name, _ in self.open]:
            self.unfolded += 1
        if tag in ("path", "rect"):
            self.paths.append(" ".join(v or "" for n, v in attributes if n != "class"))
        return given

    def handle_starttag(self, tag, attributes):
        given = self.look(tag, attributes)
        if tag not in VOID:
            self.open.append((tag, given.get("id")))

    def handle_startendtag(self, tag, attributes):
        self.look(tag, attributes)

    def handle_endtag(self, tag):
        if not self.open or self.open[-1][0] != tag:
            self.wrong.append(f"</{tag}> at {self.getpos()} in {self.open[-1:]}")
        else:
            self.open.pop()

    def handle_data(self, data):
        tag, name = self.open[-1] if self.open else (None, None)
        if tag == "script":
            self.json[name] = self.json.get(name, "") + data
        elif tag == "style":
            self.style += data
        else:
            self.text.append(data)
            if tag == "text":
                self.axes.append(data)


page = Page()
with open(sys.argv[1], encoding="utf-8") as file:
    page.feed(file.read())
page.close()
page.loads += re.findall(r"url\(|@import", page.style)
json.dump(
    {
        "wrong": page.wrong + [f"{tag} is not closed" for tag, _ in page.open],
        "loads": page.loads,
        "runs": page.runs,
        "json": {name: json.loads(text) for name, text in page.json.items()},
        "odd": [p for p in page.paths if re.search(r"nan|inf", p)],
        "count": page.count,
        "unfolded": page.unfolded,
        "axes": page.axes,
        "colours": re.findall(r"\.c-([\w-]+) { fill: (\S+); }", page.style),
        "text": "".join(page.text),
    },
    sys.stdout,
)
