#!/usr/bin/env python3
"""usage: sparseshim learn [--steps N] [--out FILE] [--OPTION=VALUE ...] [--] COMMAND [ARGUMENT ...]
watch a job, and write rules for its sums that look like gradients
  --steps N       end the job once each rank has recorded N calls of any of its sums (default: let the
                  job run to its end); 16 or more, better 32
  --out FILE      the file to write, - for standard output (default: ./PROGRAM.conf); also -o.
                  For `python train.py` PROGRAM is train
                  A file that is not learn's, or that somebody has changed, stays as it is
  --OPTION=VALUE  set SPARSESHIM_OPTION for the job and in the file
COMMAND starts the job:  sparseshim learn -- mpirun -n 8 ./train
The job runs with MODE=learn: no result changes, and each rank records samples of its sums. The file
has rules of REGISTER for the sums that look like gradients. The rules of other sums are comments,
each below the reason; remove the '#' to add one. Use the file by:
  SPARSESHIM_CONFIG=./train.conf mpirun -n 8 sparseshim run ./train
The records, up to 64 MiB a rank, lie in ./sparseshim-learn-* during the job. Ranks on other hosts
must see that folder; it is removed at the end.
Exit status: 0 written; 1 nothing looked like a gradient, so that the file has no rule in force, or
nothing was recorded; 2 usage; 3 the command failed, or the file could not be written (it goes to
standard output then); 126 MODE=learn is not allowed; 126 or 127 the command could not be started.
"""
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import zlib
from pathlib import Path

if sys.version_info < (3, 9):
    print("sparseshim learn: this verb needs Python 3.9 or later; python3 in PATH is %d.%d" % sys.version_info[:2],
          file=sys.stderr)
    sys.exit(126)
sys.dont_write_bytecode = True
import learn_judge as judge  # noqa: E402
import learn_records as records  # noqa: E402

COMMAND = (Path(__file__).resolve().parent / "@COMMAND@").resolve()
FIRST_LINE = "# Written by sparseshim learn"
STAMP = "# as written: "
NOTHING, WRONG, FAILED, CANNOT_RUN, NOT_FOUND = 1, 2, 3, 126, 127
LINE = 7500  # characters of REGISTER
DDP = "ddp"  # the rule of all buckets that the program has identified
SET_HERE = ("mode", "register", "report", "report-dir", "disable")
IN_DOUBLE = "it is in double, as the sums of solvers are: take the '#' off if this is a training"
# Characters; longer names were cut when they were recorded, or are cut before they are compared.
ROOM = {"symbol": 63, "site": 127, "comm": 63}


def say(text):
    print(f"sparseshim learn: {text}", file=sys.stderr)


def wrong(text):
    say(text)
    sys.exit(WRONG)


# ---- rules ----


def pattern(what, name):
    """A PATTERN of a rule that matches a name."""
    return re.sub(r"[;,:\s'\"\\#]", "?", name[:ROOM[what]]) + ("*" if len(name) >= ROOM[what] else "")


def matches(shape, name):
    """True if a name matches a PATTERN, in which '*' and '?' alone have a meaning."""
    parts = {"*": ".*", "?": "."}
    return re.fullmatch("".join(parts.get(c, re.escape(c)) for c in shape), name, re.S) is not None


class Group:
    """The calls of one signature from one call site, and what they look like. `comm` is the name of their
    communicator, "" if it has none."""

    def __init__(self, calls, own, comm=""):
        self.signature, self.all, self.own, self.comm = own[0].signature, calls, own, comm
        self.calls, self.source = judge.calls_per_step(calls, own)
        self.joined = {}  # calls per step together with other sites, by the groups of these
        self.kind, self.reason, self.positions = judge.UNDECIDED, "", []

    def judge(self, most):
        step = max(1, self.calls)
        for first in range(step):
            series = [call for call in self.own[first::step] if call.sampled()]
            self.positions.append(judge.judge([judge.Look(call) for call in judge.pick(series, most)]))
        for kind in (judge.GRADIENT, judge.UNDECIDED, judge.REFUSED):  # the last one that there is
            for number, verdict in enumerate(self.positions):
                if verdict.kind == kind:
                    self.kind, self.reason = kind, verdict.reason
                    if step > 1 and kind != judge.GRADIENT:
                        self.reason = f"call {number + 1} of {step} in a step: {verdict.reason}"
        if self.kind == judge.GRADIENT and self.signature.type == "double":
            self.kind, self.reason = judge.REFUSED, IN_DOUBLE

    def per_step(self, conditions, groups):
        """The calls per step that a rule with these conditions counts: those of all call sites that it takes."""
        mine = without_site(self.signature)
        sites = [group for group in groups if without_site(group.signature) == mine and group.obeys(conditions)]
        key = tuple(map(id, sites))
        if len(sites) > 1 and key not in self.joined:
            self.joined[key] = calls_together(sites)
        return self.joined[key] if len(sites) > 1 else self.calls

    def rule(self, conditions, groups):
        calls = self.per_step(conditions, groups)
        return ",".join(f"{key}={value}" for key, value in conditions.items()) + (f":calls={calls}" if calls else "")

    def obeys(self, conditions):
        s = self.signature
        return (conditions["count"] == s.count and conditions.get("type", s.type) == s.type
                and matches(conditions.get("comm", "*"), self.comm)
                and any(matches(conditions.get("site", "*"), name) for name in (s.symbol, s.site)))

    def conditions(self):
        """Conditions that the group obeys, from the plainest on."""
        s, count = self.signature, {"count": self.signature.count}
        sites = [{"site": pattern(what, getattr(s, what))} for what in ("symbol", "site") if getattr(s, what)]
        comm = {"comm": pattern("comm", self.comm)} if self.comm else {}
        for condition in ({}, {"type": s.type}, *sites, comm, *({**comm, **site} for site in sites)):
            for kind in ({}, {"type": s.type}):
                yield {**count, **kind, **condition}

    def text(self):
        s = self.signature
        site = f" called from {s.site}" + (f" ({s.symbol})" if s.symbol else "") if s.site else ""
        step = f", {self.calls} per step by its {self.source}" if self.calls else ""
        return f"{s.count} {s.type}{' in a bucket of DDP' * s.ddp}{site}, {len(self.own)} calls{step}"


def judged(joined, names=None):
    """The Groups of all communicators, whose names are known by their ids."""
    groups = []
    for comm, calls in joined.items():
        by_signature = {}
        for call in calls:
            by_signature.setdefault(call.signature, []).append(call)
        groups += [Group(calls, own, (names or {}).get(comm, "")) for own in by_signature.values()]
    samples = sum(max(1, group.calls) * min(len(group.own[0].records), judge.RANKS) for group in groups)
    for group in groups:
        group.judge(max(2 * judge.LEAST, min(judge.MOST, judge.BUDGET // max(1, samples))))
    return groups


def without_site(signature):
    return signature._replace(site="", symbol="", callers="")


def calls_together(sites):
    """The calls per step of groups that differ in their call sites alone; 0 if they are not known."""
    mine, names = without_site(sites[0].signature), {group.signature for group in sites}
    calls = [call._replace(signature=mine) if call.signature in names else call for call in sites[0].all]
    return judge.calls_per_step(calls, [call for call in calls if call.signature == mine])[0]


def fits(group, conditions, groups):
    """True if a rule with these conditions takes gradients alone, and counts the same calls per step of each."""
    if any(other.kind != judge.GRADIENT for other in groups if other.obeys(conditions)):
        return False
    calls = group.per_step(conditions, groups)
    if calls == 0 < group.calls:
        return False
    return all(other.per_step(conditions, groups) == calls for other in groups if other.obeys(conditions))


def rules_of_count(groups):
    """The rules of the gradients among groups of the same count. A gradient that no rule tells from another sum is
    refused. Since the rule of another gradient may take it, the rules are looked for anew then."""
    rules, refused = {}, True
    while refused:
        rules, refused = {}, False
        for group in [group for group in groups if group.kind == judge.GRADIENT and not group.signature.ddp]:
            conditions = next((c for c in group.conditions() if fits(group, c, groups)), None)
            if conditions is None:
                group.kind, refused = judge.REFUSED, True
                group.reason = ("looks like a gradient, but no rule tells it from another sum of its count that stays "
                                "exact")
            else:
                rules[group] = group.rule(conditions, groups)
    return rules


def rules_of(groups):
    """The rules that take the gradients and nothing else, by group."""
    counts, rules, buckets = {}, {}, [group for group in groups if group.signature.ddp]
    if not any(group.kind == judge.REFUSED for group in buckets):
        for group in buckets:
            group.kind, group.reason, rules[group] = judge.GRADIENT, "", DDP
    for group in groups:
        counts.setdefault(group.signature.count, []).append(group)
    for members in counts.values():
        rules.update(rules_of_count(members))
    return {group: rules[group] for group in groups if group in rules}


def shortened(rules, groups):
    """Returns the rules. If their line would be too long, one rule takes neighbouring counts with no other count
    between them."""
    plain, text = re.compile(r"count=(\d+)(:calls=\d+)?"), list(dict.fromkeys(rules.values()))
    if len("; ".join(text)) <= LINE:
        return text
    short, last = [rule for rule in text if rule == DDP], None
    for rule in sorted(set(text) - {DDP}, key=lambda rule: int(re.match(r"count=(\d+)", rule)[1])):
        match = plain.fullmatch(rule)
        if match and last and last[2] == match[2] and not any(
                last[1] < group.signature.count <= int(match[1]) and rules.get(group) != rule for group in groups):
            last[1] = int(match[1])
        elif match:
            last = [int(match[1]), int(match[1]), match[2]]
            short.append(last)
        else:
            short.append(rule)
    return [rule if isinstance(rule, str) else
            f"count={rule[0]}{f':{rule[1]}' if rule[1] > rule[0] else ''}{rule[2] or ''}" for rule in short]


def rest_of(groups):
    """Of each sum that stays exact: the reason, and the rule that would take it."""
    for group in groups:
        if group.kind != judge.GRADIENT and group.signature.ddp:
            yield f"{group.text()}: {group.reason}", DDP
        elif group.kind != judge.GRADIENT:
            own = [c for c in group.conditions() if "type" not in c]
            own = [c for c in own if "site" in c] or own
            alone = [c for c in own if not any(other is not group and other.obeys(c) for other in groups)]
            yield f"{group.text()}: {group.reason}", group.rule((alone or own)[0], groups)


def hosts_of(ranks):
    """Comments on the hosts of the run."""
    counts = {}
    for rank in ranks:
        counts[rank.facts.get("host")] = counts.get(rank.facts.get("host"), 0) + 1
    if None in counts:
        return []
    least, most = min(counts.values()), max(counts.values())
    each = f", {least if least == most else f'{least} to {most}'} on each" if len(counts) > 1 else ""
    lines = [f"# The ranks were on {len(counts)} host{'s' * (len(counts) > 1)}{each}; each rank sends its gradients."]
    if len(counts) > 1 and most > 1:
        lines += ["# With :node behind a rule each host sends the sum of its ranks, so that the bytes over the",
                  "# network do not grow with the ranks on a host."]
    return lines


def mode_of(options):
    """MODE=quant, unless a density was given."""
    if any(line.split(" ", 1)[0] == "density" for line in options):
        return ["mode = topk"]
    return ["# Every element in 4 bits, 7.8 times fewer bytes. \"mode = topk\" sends the largest 1 % of the",
            "# elements, some 50 times fewer bytes: for SGD and LSTMs on slow links; Adam bears it badly.",
            "mode = quant"]


def profile(ranks, groups, rules):
    """The text of the file."""
    first, date = ranks[0], time.strftime("%Y-%m-%d", time.gmtime())
    lines = [f"{FIRST_LINE} from a run of {first.facts.get('program', 'a program')} on "
             f"{first.facts.get('ranks', '?')} ranks, {date}.",
             *hosts_of(ranks),
             "# Use: SPARSESHIM_CONFIG=FILE; or put it into ~/.config/sparseshim/NAME.conf and",
             "# use SPARSESHIM_CONFIG=@NAME.", *mode_of(first.options)]
    lines += [line for line in first.options if line.split(" ", 1)[0] not in ("mode", "register")]
    lines += ["", "# These look like gradients:" if rules else "# Nothing looked like a gradient:"]
    lines += [f"#   {group.text()}" for group in groups if group.kind == judge.GRADIENT]
    if rules:
        lines += ["# A mean of noisy values that moves slowly looks the same: of an ensemble, of a Monte Carlo",
                  "# estimate, of particles. Put a '#' before its rule."]
    if any(rule != DDP and rule.find(":calls=") < 0 for rule in rules.values()):
        lines += ["# The calls per step are not known where calls= is missing: such a rule takes effect if each",
                  "# layer has a receive buffer of its own; else add :calls=N."]
    text = shortened(rules, groups)
    while len("; ".join(text)) > LINE:
        lines.append(f"# No room for: {text.pop()}")
    lines.append(f"register = {'; '.join(text)}".rstrip())
    rest = list(rest_of(groups))
    if rest:
        lines += ["", "# These stay exact. If you know that one is a gradient, take the '#' off its rule."]
    for reason, rule in rest:
        lines += [f"# {reason}", f"#register += {rule}"]
    return "\n".join(lines) + "\n"


# ---- the job ----


class Job:
    """The command under `sparseshim run`, ended by a signal to this process or when enough was recorded."""

    def __init__(self, options, command, steps, directory):
        self.steps, self.directory = steps, directory
        self.ranks, self.caught = {}, 0
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP, signal.SIGTERM):
            if signal.getsignal(number) != signal.SIG_IGN:
                signal.signal(number, self.catch)
        own = ["--disable=off", "--mode=learn", "--register=", "--report=off", f"--report-dir={directory}"]
        self.command = [COMMAND, "run", *options, *own, "--", *command]

    def catch(self, number, _):
        self.caught = number

    def seen_enough(self):
        records.read(self.directory, self.ranks)
        all_there = self.ranks and len(self.ranks) >= int(next(iter(self.ranks.values())).facts.get("ranks", 1))
        return all_there and all(max(rank.most.values(), default=0) >= self.steps for rank in self.ranks.values())

    def run(self):
        """The exit status; 0 if the job was ended because enough was recorded."""
        process, looks, ended, enough = subprocess.Popen(self.command), 0, 0, False
        while True:
            try:
                status = process.wait(0.2)
                break
            except subprocess.TimeoutExpired:
                looks += 1
            if not ended and self.steps and looks % 10 == 0:
                enough = bool(self.seen_enough())
            # A signal of the terminal has reached the job as well.
            patience = 15 if self.caught in (signal.SIGINT, signal.SIGQUIT) else 0
            ended += bool(ended or enough or self.caught)
            if ended == 1 + patience * bool(self.caught):
                process.terminate()
            elif ended == 51 + patience:
                process.kill()
        records.read(self.directory, self.ranks)
        if enough:
            return 0
        return 128 - status if status < 0 else status


# ---- the verb ----


def parse(arguments):
    """Options of the library, --steps, --out and the command."""
    options, own, at = [], {"--steps": None, "--out": None}, 0
    while at < len(arguments) and arguments[at].startswith("-"):
        word, equals, value = arguments[at].partition("=")
        at += 1
        if word == "--":
            break
        word = "--out" if word == "-o" else word
        if word in own:
            if not equals:
                if at == len(arguments):
                    wrong(f"{word} needs a value")
                value, at = arguments[at], at + 1
            own[word] = value
        elif word in ("--help", "-h"):
            print(__doc__, end="")
            sys.exit(0)
        elif word[2:].lower().replace("_", "-") in SET_HERE:
            wrong(f"{arguments[at - 1]} is what learn sets itself")
        elif word.startswith("--"):
            options.append(arguments[at - 1])
        else:
            wrong(f"{word} is not known; allowed are --steps N, --out FILE and --OPTION=VALUE")
    if own["--steps"] is not None and not (own["--steps"].isdigit() and int(own["--steps"])):
        wrong("--steps takes a number of calls, 1 or more")
    if own["--out"] == "":
        wrong("--out takes a file, or -")
    if at == len(arguments):
        wrong(f"no command given; {__doc__.splitlines()[0]}")
    return options, int(own["--steps"] or 0), own["--out"], arguments[at:]


def name_of(ranks):
    """Returns the name of the file: of the program, or of the script or module that Python runs."""
    return ranks[0].facts.get("program", "program").removesuffix(".py")


def stamped(text):
    """Returns the text of a file with a last line that tells if somebody has changed it."""
    return f"{text}{STAMP}{zlib.crc32(text.encode(errors='replace')):08x}\n"


def save(path, text):
    """Writes the file unless another's stands there, or a user has changed it; returns the exit status."""
    problem = ""
    try:
        before = path.read_text(errors="replace") if path.exists() else None
        if before is not None and not before.startswith(FIRST_LINE):
            problem = f"{path} is there already, and not of this command's making; --out names another file"
        elif before is not None and before != stamped(before.rpartition(STAMP)[0]):
            problem = f"{path} has been changed since this command wrote it; --out names another file"
        else:
            draft = Path(f"{path}.new")
            draft.write_text(stamped(text))
            draft.rename(path)
    except OSError as error:
        problem = f"{path} cannot be written: {error.strerror}"
    if not problem:
        return 0
    say(f"{problem}. What it would hold:")
    sys.stdout.write(text)
    return FAILED


def conclude(job, out, command):
    ranks = sorted(job.ranks.values(), key=lambda rank: int(rank.facts.get("rank", 0)))
    joined, remarks = records.join(ranks)
    groups = judged(joined, records.names(ranks))
    rules = rules_of(groups)
    for remark in dict.fromkeys(remarks):
        say(remark)
    if not rules:
        say("nothing looked like a gradient")
        for reason, _ in rest_of(groups):
            print(f"  {reason}", file=sys.stderr)
    if not groups:
        if not ranks:
            print("  no rank recorded a call: does the command start several ranks (sparseshim learn -- mpirun -n 2 PROGRAM), is "
                  "it an MPI program with sums of at least MIN_COUNT floats or doubles, "
                  f"and do its hosts see {job.directory}? PyTorch with gloo or nccl makes no MPI call without mpi4py: "
                  "see sparseshim(7), PyTorch", file=sys.stderr)
        return NOTHING
    return write(ranks, groups, rules, out, name_of(ranks))


def write(ranks, groups, rules, out, name):
    """Writes the file and tells how to use it; returns the exit status."""
    text = profile(ranks, groups, rules)
    if out == "-":
        sys.stdout.write(text)
        return 0 if rules else NOTHING
    path = Path(out or f"./{name}.conf")
    status, found = save(path, text), len(set(rules.values()))
    if status:
        return status
    print(f"sparseshim learn: {path}: {found or 'no'} rule{'' if found == 1 else 's'} for what looks like gradients; "
          f"sums that stay exact, with the reasons in the file: {len(groups) - len(rules)}\n"
          f"{'' if rules else 'remove the # before a rule that names gradients, then '}"
          f"use it: SPARSESHIM_CONFIG={path if os.sep in str(path) else f'./{path}'}")
    return 0 if rules else NOTHING


def forbidden():
    """The place of the site's policy if that lets MODE not be learn, or nothing run; else empty."""
    seen = subprocess.run([COMMAND, "info"], env={**os.environ, "SPARSESHIM_MODE": "learn"}, text=True, check=False,
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout
    mode = re.search(r"^SPARSESHIM_MODE +(?!learn )\S+ +(.*)$|^SPARSESHIM_DISABLE +on +(locked by .*)$", seen, re.M)
    return (mode[1] or mode[2]) if mode else ""


def main():
    options, steps, out, command = parse(sys.argv[1:])
    if forbidden():
        say(f"the run needs SPARSESHIM_MODE=learn, which the site does not allow: {forbidden()}")
        return CANNOT_RUN
    tried = subprocess.run([COMMAND, "run", "-n", *options, "--", "true"], stdout=subprocess.DEVNULL, check=False)
    if tried.returncode:
        return tried.returncode
    try:
        directory = tempfile.mkdtemp(prefix="sparseshim-learn-", dir=os.getcwd())
    except OSError as error:
        say(f"no directory for the records can be made here: {error.strerror}")
        return FAILED
    try:
        job = Job(options, command, steps, directory)
        ended = job.run()
        if ended in (CANNOT_RUN, NOT_FOUND) and not job.ranks:
            return ended
        status = conclude(job, out, command)
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    if ended:
        say(f"the command ended with status {ended}")
        return FAILED
    return status


if __name__ == "__main__":
    sys.exit(main())
