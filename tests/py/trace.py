"""trace.py [--open] FILE...: whether each file is in the trace-event format (Duration, instant and
metadata events; "Trace Event Format", Google, 2016), strictly: the keys of each event, times that
ascend on each thread, spans that lie inside each other. --open: of a job that was killed: the last
bracket, and ends, may be missing.

Prints what the last file holds as JSON; exit status 1 and a sentence where one is not in the format."""
import json
import sys

METADATA = {
    "process_name": "name",
    "process_labels": "labels",
    "process_sort_index": "sort_index",
    "thread_name": "name",
}


def wrong(text, event=None):
    sys.exit(f"{text}: {json.dumps(event)}" if event is not None else text)


def read(path, may_be_open):
    with open(path, encoding="ascii") as file:
        text = file.read()
    try:
        return json.loads(text)
    except ValueError as error:
        if not may_be_open:
            wrong(f"{path}: {error}")
    return json.loads(text.rstrip().rstrip(",") + "]")


def is_whole(number):
    return isinstance(number, int) and not isinstance(number, bool) and number >= 0


def check_keys(event):
    if not isinstance(event, dict):
        wrong("no object", event)
    for key in ("ph", "ts", "pid", "tid", "name"):
        if key not in event:
            wrong(f"no {key}", event)
    if not set(event) <= {"ph", "ts", "pid", "tid", "name", "args", "s"}:
        wrong("a key that is not known", event)
    if event["ph"] not in ("B", "E", "i", "M"):
        wrong("a phase that is not known", event)
    if isinstance(event["ts"], bool) or not isinstance(event["ts"], (int, float)):
        wrong("ts is no number", event)
    if event["ts"] < 0 or not is_whole(event["pid"]) or not is_whole(event["tid"]):
        wrong("a number that is not allowed", event)
    if not isinstance(event["name"], str) or not event["name"]:
        wrong("no name", event)
    if not isinstance(event.get("args", {}), dict):
        wrong("args is no object", event)
    if (event["ph"] == "i") != ("s" in event) or event.get("s", "p") not in ("g", "p", "t"):
        wrong("the scope is of instant events, and of those g, p or t", event)
    if event["ph"] == "M" and METADATA.get(event["name"]) not in event.get("args", {}):
        wrong("metadata that is not known, or without its argument", event)


class Lanes:
    """What is open on each thread, and all spans."""

    def __init__(self):
        self.open, self.last, self.spans = {}, {}, []

    def take(self, event):
        lane = (event["pid"], event["tid"])
        if event["ts"] < self.last.get(lane, 0):
            wrong("a time before the last one of its thread", event)
        self.last[lane] = event["ts"]
        stack = self.open.setdefault(lane, [])
        if event["ph"] == "B":
            if any(outer["name"] == event["name"] for outer in stack):
                wrong("begins inside of one like it", event)
            stack.append(event)
        elif event["ph"] == "E":
            if not stack or stack[-1]["name"] != event["name"]:
                wrong("ends what is not the innermost span of its thread", event)
            begin = stack.pop()
            args = {**begin.get("args", {}), **event.get("args", {})}
            outer = stack[0] if stack else begin
            self.spans.append((lane, event["name"], begin["ts"], event["ts"], args, outer["ts"]))


def slow_rank(spans):
    """Of the calls that all ranks have made the one that they began furthest apart; who was last,
    by how much, and what each rank waited in it; seconds."""
    begun, waited = {}, {}
    for (pid, tid), name, begin, end, args, outer in spans:
        if "communicator" in args and name != "partial round":
            key = (args["communicator"], args["call"])
            begun.setdefault(key, {})[pid] = (begin, tid)
        elif name == "wait":
            waited[(pid, tid, outer)] = waited.get((pid, tid, outer), 0) + (end - begin) / 1e6
    ranks = {pid for (pid, _), *_ in spans}
    all_of = {key: of for key, of in begun.items() if set(of) == ranks and key[1] > 1}
    if len(ranks) < 2 or not all_of:
        return None
    key = max(all_of, key=lambda k: max(all_of[k].values())[0] - min(all_of[k].values())[0])
    first, last = min(all_of[key].values())[0], max(all_of[key].values())[0]
    return {
        "call": key[1],
        "rank": next(pid for pid, (begin, _) in all_of[key].items() if begin == last),
        "late": (last - first) / 1e6,
        "waited": {pid: waited.get((pid, tid, at), 0) for pid, (at, tid) in all_of[key].items()},
    }


def contents(path, may_be_open):
    """Checks the file at `path` and returns what it holds."""
    trace = read(path, may_be_open)
    lanes = Lanes()
    names = {}
    events = trace["traceEvents"] if isinstance(trace, dict) else trace
    if not isinstance(events, list):
        wrong("no list of events")
    for event in events:
        check_keys(event)
        if event["ph"] == "M":
            names.setdefault(event["name"], []).append(event["pid"])
        else:
            lanes.take(event)
    still_open = [e["name"] for stack in lanes.open.values() for e in stack]
    if still_open and not may_be_open:
        wrong(f"spans without end: {still_open}")
    count = {}
    for _, name, *_ in lanes.spans:
        count[name] = count.get(name, 0) + 1
    return {
        "spans": count,
        "notes": [e["name"] for e in events if e["ph"] == "i"],
        "rounds": [args for _, name, _, _, args, _ in lanes.spans if name == "partial round"],
        "args": [args for *_, args, _ in lanes.spans if "communicator" in args][-1:],
        "open": still_open,
        "waits": [e["args"] for s in lanes.open.values() for e in s if e["name"] == "wait"],
        "ranks": sorted(names.get("process_name", [])),
        "lanes": len({lane for lane, *_ in lanes.spans if lane[0] == 0}),
        "slow": slow_rank(lanes.spans),
        "clocks": trace["otherData"]["clocks"] if isinstance(trace, dict) else None,
    }


def main():
    paths = [a for a in sys.argv[1:] if a != "--open"]
    for path in paths:
        held = contents(path, len(paths) < len(sys.argv) - 1)
    print(json.dumps(held))


if __name__ == "__main__":
    main()
