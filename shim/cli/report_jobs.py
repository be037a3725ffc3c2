"""Reads reports and finds out which are of one job."""
import json
import os
import re
import sys

import report_columns as columns
from report_words import date, finite, ratio

SCHEMA = 3
BYTES = ("bytes_dense", "bytes_sent", "bytes_dense_inside", "bytes_sent_inside")
APART = 60  # seconds: clocks of hosts differ, and ranks begin and end apart, by less
TOGETHER = 5  # seconds: ranks of one job begin apart by less, clocks of hosts included


class Wrong(Exception):
    """A message for the user."""


class Report:
    """The report of a file; data has every part that a report may have, and each part its keys."""

    def __init__(self, path, text, folder=None):
        self.path, self.text, self.folder = path, text, folder
        self.data = check(decode(text))
        self.job = self.data["job"]
        for key in ("program", "version", "hostname", "mpi_library"):
            self.job[key] = self.job[key] or ""

    @property
    def rank(self):
        return self.job["rank"]

    @property
    def start(self):
        return self.job["start_unix"] or 0

    @property
    def elapsed(self):
        return self.data["times"]["seconds_elapsed"] or 0

    @property
    def complete(self):
        return self.job["complete"]

    @property
    def id(self):
        """The number of the job, as the name of the file has it."""
        found = re.fullmatch(r"sparseshim-(.*)-\d+-\d+\.json", os.path.basename(self.path))
        return found[1] if found else ""

    def rows(self, key):
        return self.data[key]


# ---- what a report may hold ----

def decode(text):
    def once(pairs):
        found = dict(pairs)
        if len(found) < len(pairs):
            raise Wrong("line 1, column 1: duplicate key")
        return found

    try:
        return json.loads(text, object_pairs_hook=once)
    except json.JSONDecodeError as error:
        raise Wrong(f"line {error.lineno}, column {error.colno}: {error.msg}") from None
    except RecursionError:
        raise Wrong("line 1, column 1: too great a depth") from None
    except ValueError as error:
        raise Wrong(f"line 1, column 1: {error}") from None


def is_whole(value, least):
    return isinstance(value, int) and not isinstance(value, bool) and least <= value < 2**63


KINDS = {
    "text": (lambda v: v is None or isinstance(v, str), "text expected"),
    "flag": (lambda v: isinstance(v, bool), "true or false expected"),
    "count": (lambda v: is_whole(v, 0), "whole number expected"),
    "bytes": (lambda v: is_whole(v, 0) or v is None or finite(v), "number of bytes expected"),
    "rank": (lambda v: v is None or is_whole(v, -1) and v <= 2**30, "number of a rank, or of ranks, expected"),
    "integer": (lambda v: v is None or is_whole(v, -(2**62)), "whole number expected"),
    "names": (lambda v: isinstance(v, dict) and all(n is None or finite(n) for n in v.values()),
              "object of numbers expected"),
    "object": (lambda v: v is None or isinstance(v, dict), "object expected"),
}
NUMBER = (lambda v: v is None or finite(v), "number expected")
DEFAULTS = {"count": 0, "bytes": 0, "flag": False}


def check_object(place, group, found):
    """Fills in the keys that are missing."""
    if not isinstance(found, dict):
        raise Wrong(f"{place}: object expected")
    for column in group.keys():
        found.setdefault(column.key, {} if column.kind == "names" else DEFAULTS.get(column.kind))
    for column in group.keys():
        good, wanted = KINDS.get(column.kind, NUMBER)
        if not good(found[column.key]):
            raise Wrong(f"{place}.{column.key}: {wanted}")


def check_arrays(place, group, found):
    """Arrays of numbers, all of one length."""
    arrays = [found.get(c.key) for c in group.columns]
    for column, array in zip(group.columns, arrays):
        if not isinstance(array, list) or len(array) != len(arrays[0]) or not all(NUMBER[0](v) for v in array):
            raise Wrong(f"{place}.{column.key}: as many numbers as of the others expected")


LISTS = (columns.SYNCHRONOUS, columns.NOTES, columns.PASSED, columns.LANES, columns.SMALL, columns.TENSORS,
         columns.OPTIONS)
OBJECTS = (columns.SUMMARY, columns.JOB, columns.CALLS, columns.BYTES, columns.TIMES)
SELDOM = (columns.ROUNDS, columns.MERGED)


def check(data):
    """Fills in the parts that are missing."""
    if isinstance(data, dict) and ("merged_schema" in data or "compared_schema" in data):
        raise Wrong('no "schema": this is what sparseshim report made of several reports, which is not read again')
    if not isinstance(data, dict) or "schema" not in data:
        raise Wrong('no "schema": this is no report of sparseshim')
    if data["schema"] != SCHEMA:
        newer = ", of a newer sparseshim," if is_whole(data["schema"], SCHEMA) else ""
        raise Wrong(f"schema: report of another schema{newer} than {SCHEMA}, which this program reads")
    if isinstance(data.setdefault("job", {}), dict):
        data["job"] = {"rank": -1, "ranks": 0, "complete": True, **data["job"]}
    for group in OBJECTS:
        check_object(group.key, group, data.setdefault(group.key, {}))
    for group in SELDOM:
        if group.key in data:
            check_object(group.key, group, data[group.key])
    for group in LISTS:
        rows = data.setdefault(group.key, [])
        if not isinstance(rows, list):
            raise Wrong(f"{group.key}: array expected")
        for i, row in enumerate(rows):
            check_object(f"{group.key}[{i}]", group, row)
    for i, lane in enumerate(data["lanes"]):
        if lane["advice"]:
            check_object(f"lanes[{i}].advice", columns.ADVICE, lane["advice"])
    for i, tensor in enumerate(data["tensors"]):
        if tensor["series"]:
            check_arrays(f"tensors[{i}].series", columns.SERIES, tensor["series"])
    if data.get("rounds", {}).get("rounds_stretches"):
        check_arrays("rounds.rounds_stretches", columns.STRETCHES, data["rounds"]["rounds_stretches"])
    return data


# ---- files and folders ----

def say(text):
    print(f"sparseshim report: {text}", file=sys.stderr)


NO_CALLS = ("a program that makes no MPI call writes none: for PyTorch with gloo or nccl see sparseshim(7), PyTorch; of "
            "mpi4py, comm.Allreduce is a call that is seen, comm.allreduce is none")


def read_file(path, folder=None):
    try:
        with open(path, "rb") as file:
            text = file.read().decode("utf-8", "replace")
    except OSError as error:
        is_folder = isinstance(error, FileNotFoundError) and not path.endswith(".json")
        why = f"; the first report of a job makes the folder of REPORT_DIR, and {NO_CALLS}" if is_folder else ""
        raise Wrong(f"{path} cannot be read: {error.strerror}{why}") from None
    try:
        return Report(path, text, folder)
    except Wrong as wrong:
        raise Wrong(f"{path} is no report: {wrong}") from None


def is_report(name):
    return name.startswith("sparseshim-") and name.endswith(".json")


def read(argument):
    """Returns the reports of a file or folder, and whether all of them could be read."""
    found, good = [], True
    if not os.path.isdir(argument):
        names = [argument]
    else:
        names = [os.path.join(argument, name) for name in sorted(os.listdir(argument)) if is_report(name)]
        if not names:
            say(f"{argument} holds no reports (sparseshim-*.json, as SPARSESHIM_REPORT with "
                f"SPARSESHIM_REPORT_DIR writes them); {NO_CALLS}")
            return [], False
    for name in names:
        try:
            found.append(read_file(name, argument if os.path.isdir(argument) else None))
        except Wrong as wrong:
            say(wrong)
            good = False
    return found, good


# ---- which are of one job ----

def agreed(a, b):
    """True if the ranks of two reports have agreed on one number of their job, False if on two, None where one of
    them has none."""
    p, q = a.job["number"], b.job["number"]
    return p == q if p and q else None


def difference(a, b):
    """Returns why two reports are not of one job, None if they may be."""
    p, q = a.job, b.job
    if agreed(a, b):
        return f"both are of rank {a.rank}" if a.rank == b.rank else None
    if p["program"] != q["program"]:
        return f"they are of two programs, {p['program']} and {q['program']}"
    if p["ranks"] != q["ranks"]:
        return f"they are of jobs of {p['ranks']} and of {q['ranks']} ranks"
    if a.rank == b.rank and a.rank >= 0:
        return f"both are of rank {a.rank}"
    if p["version"] != q["version"]:
        return f"they are of versions {p['version']} and {q['version']} of the library"
    if a.start + a.elapsed + APART < b.start or b.start + b.elapsed + APART < a.start:
        return f"they ran one after the other, from {date(a.start)} and from {date(b.start)}"
    return "their ranks have agreed on two numbers" if agreed(a, b) is False else None


def one_job(reports):
    """Returns them by rank; raises Wrong if they are not of one job."""
    reports = sorted(reports, key=lambda r: (r.rank, r.path))
    for i, report in enumerate(reports[1:], 1):
        for other in (reports[i - 1], reports[0]):
            why = difference(other, report)
            if why:
                raise Wrong(f"{other.path} and {report.path} are not of one job: {why}; name the reports of one")
    return reports


class Job:
    """Reports of one job. The number in the name of a file is that of the batch system, or else of a process of the
    host: hosts then differ, and the ranks have agreed on another number as soon as all of them have met. Ranks that
    have not are put together by their start."""

    def __init__(self, first):
        self.id, self.reports = first.id, [first]

    def takes(self, report):
        if any(difference(r, report) for r in self.reports):
            return False
        if any(agreed(r, report) or r.id == report.id for r in self.reports):
            return True
        return self.by_start(report) and not report.job["number"] and not self.reports[0].job["number"]

    def by_start(self, report):
        hosts = {r.job["hostname"] for r in self.reports}
        return report.job["hostname"] not in hosts and abs(report.start - self.start) < TOGETHER

    @property
    def start(self):
        return min(r.start for r in self.reports)

    def words(self):
        first = self.reports[0]
        ran = max(r.elapsed for r in self.reports)
        ended = "" if all(r.complete for r in self.reports) else ", had not ended"
        guess = "" if all(r.id == self.id or r.job["number"] for r in self.reports) else ", put together by their start"
        return (f"{self.id or '-':<12} {date(self.start)}  {first.job['program']}, {len(self.reports)} of "
                f"{first.job['ranks']} ranks, ran {ran:.0f} s{ended}{guess}")


def split(reports):
    """Returns the jobs of a folder, the newest first."""
    jobs = []
    for report in sorted(reports, key=lambda r: (r.start, r.rank)):
        for job in jobs:
            if job.takes(report):
                job.reports.append(report)
                break
        else:
            jobs.append(Job(report))
    return sorted(jobs, key=lambda job: job.start, reverse=True)


def choose(folder, reports, wanted):
    """Returns the reports of one job of a folder: of the one that is named by its number or the
    beginning of its start, or of the newest. Says which other jobs there are."""
    jobs = split(reports)
    fits = [job for job in jobs
            if wanted is None or wanted in {r.id for r in job.reports} or date(job.start).startswith(wanted)]
    listing = "".join(f"\n  {'*' if job in fits[:1] else ' '} {job.words()}" for job in jobs)
    if not fits:
        raise Wrong(f"{folder} has no job {wanted}; its jobs, by number and start:{listing}")
    if len(jobs) > 1 and (wanted is None or len(fits) > 1):
        say(f"{folder} has {len(jobs)} jobs; this is the newest{' of those' if wanted else ''} (*); "
            f"--job=NUMBER or --job='YYYY-MM-DD HH:MM' chooses:{listing}")
    return sorted(fits[0].reports, key=lambda r: (r.rank, r.path))


# ---- numbers of a report ----

def lane_seconds(lane):
    return sum(lane[f"seconds_{phase}"] or 0 for phase in columns.PHASES)


def apart(row):
    """True if bytes inside hosts and between hosts differ: there are several hosts, with several ranks on one."""
    dense, sent, dense_inside, sent_inside = (row[key] or 0 for key in BYTES)
    return dense_inside > 0 and (dense_inside < dense or sent_inside < sent)


def between(row):
    """Bytes between hosts: of dense collectives and sent; None where nothing is apart."""
    dense, sent, dense_inside, sent_inside = (row[key] or 0 for key in BYTES)
    return (dense - dense_inside, sent - sent_inside) if apart(row) else (None, None)


def lane_density(lane):
    return ratio(lane["density_sum"], lane["scans"])


def tensor_density(tensor):
    return ratio(tensor["density_sum"], tensor["topk_calls"])


def tensor_ratio(tensor):
    return ratio(tensor["residual_norm"], tensor["input_norm"])
