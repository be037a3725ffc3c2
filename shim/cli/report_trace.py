"""The traces of all ranks as one, on one clock."""
import json
import os
import stat
import sys

import report_jobs as jobs
from report_jobs import Wrong, say

DRIFT = 1e-3  # of the time that passes; a crystal drifts less than 1e-4


class Odd(Exception):
    """A name that is neither a file nor a folder."""


class Trace:
    """The trace of a rank. What it knows of the job has the names that a report has."""

    def __init__(self, path):
        self.path, self.rank, self.ranks, self.program, self.real_time = path, 0, 0, "", 0
        self.clocks, self.first, self.last, self.whole, self.dropped = [], None, None, False, 0
        self.id, self.job = "", {"number": None}
        lines = 0
        try:
            for lines, line in enumerate(self.lines(), 1):
                self.take(line)
        except (KeyError, TypeError, ValueError):
            self.ranks = 0
        if self.ranks <= 0 or self.real_time <= 0:
            raise Wrong(f"{path} is no trace that SPARSESHIM_TRACE wrote (line {lines})")

    @property
    def start(self):
        return (self.real_time + (self.first or 0)) / 1e6

    @property
    def elapsed(self):
        return 0 if self.first is None else (self.last - self.first) / 1e6

    @property
    def complete(self):
        return self.whole

    def lines(self):
        """Whole lines: a file that could not grow, or whose job was killed, may end within one."""
        with open(self.path, encoding="utf-8", errors="replace") as file:
            for line in file:
                line = line.rstrip("\n,")
                if not line.endswith(("[", "]", "}")) or (',"args":{' in line and not line.endswith("}}")):
                    return
                yield line

    def take(self, line):
        self.whole = line == "]"
        if line in "[]":
            return
        event = json.loads(line)
        kind, args = event["ph"], event.get("args", {})
        if kind != "M":
            self.first = min(event["ts"], event["ts"] if self.first is None else self.first)
            self.last = max(event["ts"], event["ts"] if self.last is None else self.last)
        if event["name"] == "process_labels":
            self.rank, self.ranks, self.program = event["pid"], args["ranks"], args["program"]
            self.real_time, self.id = args["real_time_us"], args.get("job", "")
            self.job.update(program=self.program, ranks=self.ranks, version=args.get("version", ""),
                            hostname=args.get("labels", ""))
        elif kind == "i" and event["name"] == "clock":
            self.clocks.append((event["ts"], args["offset_us"], args["uncertainty_us"]))
            self.job["number"] = None if args.get("job", "0") == "0" else args["job"]
        elif kind == "i" and event["name"] == "dropped":
            self.dropped = args.get("events") or self.dropped or 1

    def offset(self, at):
        """Between two measurements, and beyond them, clocks drift evenly; what would be more than any
        clock drifts is what the measurements do not know."""
        (t, x, u), (s, y, v) = self.clocks[0], self.clocks[-1]
        if s <= t or abs(y - x) > DRIFT * (s - t):
            return y if v < u else x
        return x + (y - x) * (at - t) / (s - t)


def regular(path):
    try:
        mode = os.stat(path).st_mode
    except OSError as error:
        raise Wrong(f"{path} cannot be read: {error.strerror}") from None
    if not stat.S_ISREG(mode):
        raise Odd(f"--trace: {path} is neither a file nor a folder")
    return path


def names(folder):
    found = sorted(n for n in os.listdir(folder) if n.startswith("trace-") and n.endswith(".json"))
    if not found:
        raise Wrong(f"{folder} holds no traces (trace-*.json, as SPARSESHIM_TRACE writes them)")
    return [os.path.join(folder, name) for name in found]


def read(argument, wanted):
    """Returns the traces of a file, or of a job of a folder, and the worst exit status of those that cannot be
    read."""
    traces, status, is_folder = [], 0, os.path.isdir(argument)
    for path in names(argument) if is_folder else [argument]:
        try:
            traces.append(Trace(regular(path)))
        except (Wrong, Odd) as wrong:
            say(wrong)
            status = max(status, 2 if isinstance(wrong, Odd) else 1)
    return jobs.choose(argument, traces, wanted) if is_folder and not status else traces, status


def write(traces, out):
    """Returns the number of spans, and how far the clocks may be apart, in us, if that was measured."""
    measured = all(t.clocks for t in traces)
    apart = max((u for t in traces for *_, u in t.clocks), default=0) if measured else None

    def moved(trace, at):
        return at + (trace.offset(at) if measured else trace.real_time - traces[0].real_time)

    zero = min((moved(t, t.first) for t in traces if t.first is not None), default=0)
    about = {"program": traces[0].program, "ranks": len(traces)}
    about.update({"clocks": "measured", "clocks_uncertainty_us": round(apart, 3)} if measured
                 else {"clocks": "those of the hosts"})
    out.write(f'{{"displayTimeUnit":"ms","otherData":{json.dumps(about)},\n"traceEvents":[\n')
    spans, before = 0, ""
    for trace in traces:
        for line in trace.lines():
            if line in "[]":
                continue
            event = json.loads(line)
            event["ts"] = 0 if event["ph"] == "M" else round(moved(trace, event["ts"]) - zero, 3)
            spans += event["ph"] == "B"
            out.write(before + json.dumps(event, ensure_ascii=False, separators=(",", ":")))
            before = ",\n"
    out.write("\n]}\n")
    return spans, apart


def tell(traces, spans, apart, path):
    clocks = "" if len(traces) < 2 else (", clocks not measured: those of the hosts" if apart is None else
                                         f", clocks within {apart:.3g} us")
    where = f": {path}" if path else ""
    print(f"{len(traces)} of {traces[0].ranks} ranks, {spans} spans{clocks}{where}", file=sys.stderr)
    for t in traces:
        if not t.whole:
            print(f"rank {t.rank} had not ended: its last spans may be missing or open", file=sys.stderr)
        if t.dropped:
            print(f"rank {t.rank} lacks at least {t.dropped} events", file=sys.stderr)


def run(arguments, path, wanted):
    """Merges the traces of files and folders into a file, or to the standard output."""
    found = [read(argument, wanted) for argument in arguments]
    status = max(bad for _, bad in found)
    if status:
        return status
    traces = jobs.one_job([trace for some, _ in found for trace in some])
    if path and os.path.exists(path) and any(os.path.samefile(path, t.path) for t in traces):
        raise Wrong(f"{path} is one of the traces")
    try:
        if path:
            with open(path, "w", encoding="utf-8") as out:
                spans, apart = write(traces, out)
        else:
            spans, apart = write(traces, sys.stdout)
            sys.stdout.flush()
    except OSError as error:
        raise Wrong(f"{path or 'the output'} cannot be written: {error.strerror}") from None
    tell(traces, spans, apart, path)
    return 0
