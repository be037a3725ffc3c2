#!/usr/bin/env python3
"""Unit tests of shim/cli/learn.py and its modules, as TAP: judgements, rules, the file, records.
usage: tests/py/learn_rules.py SCRIPTS, the folder of the sources"""
import io
import math
import os
import random
import runpy
import struct
import sys
import tempfile
import unittest
from contextlib import redirect_stderr
from pathlib import Path
from unittest import mock

SCRIPTS = Path(sys.argv.pop() if len(sys.argv) > 1 else "shim/cli").resolve()
sys.path.insert(0, str(SCRIPTS))
sys.dont_write_bytecode = True
import learn  # noqa: E402
import learn_judge as judge  # noqa: E402
import learn_records as records  # noqa: E402


# ---- judgements ----


class Sample:
    """A sample as learn_records.Sample has it, of a vector of as many elements as a sketch."""

    def __init__(self, vector, finite=True):
        self.energy = sum(x * x for x in vector)
        self.above = sum(x * x for x in vector if x > 0)
        self.sketch = judge.unit(vector)
        self.nonzero = sum(1 << i for i, x in enumerate(vector) if x)
        self.blocks = [sum(x * x for x in vector[2 * i:2 * i + 2]) / (self.energy or 1) for i in range(64)]
        self.groups = [sum(x * x for x in vector[i::64]) / (self.energy or 1) for i in range(64)]
        self.finite = finite


class Call:
    def __init__(self, vectors, number=0):
        self.vectors, self.records, self.number = vectors, list(vectors), number

    def sample(self, r):
        return Sample(self.vectors[r])

    def sampled(self):
        return True


def looks_of(calls):
    return [judge.Look(Call(vectors)) for vectors in calls]


def noise(draw, scale=1.0):
    return [draw.gauss(0, scale) for _ in range(128)]


def training(calls=60, ranks=4, turn=0.2, common=0.5, seed=1):
    """Inputs of ranks: a direction that turns, and noise of each rank's own."""
    draw = random.Random(seed)
    direction, inputs = noise(draw), []
    for _ in range(calls):
        direction = [x * (1 - turn) + y for x, y in zip(direction, noise(draw, math.sqrt(2 * turn - turn * turn)))]
        inputs.append([[common * d + n for d, n in zip(direction, noise(draw))] for _ in range(ranks)])
    return inputs


class Operator:
    """X^T X + 0.005 I of order 128 in parts: a rank has 64 rows of X, each with 12 entries at random places. Notes
    the ranks' parts of each product; skew makes the operator unsymmetric."""

    def __init__(self, seed, least=0.0, skew=0.0, ranks=4):
        draw = random.Random(seed)
        self.rows = [[[(draw.randrange(128), draw.uniform(least, 1)) for _ in range(12)] for _ in range(64)]
                     for _ in range(ranks)]
        self.b, self.skew, self.calls = noise(draw), skew, []

    def times(self, v):
        """Each rank's X v."""
        return [[sum(x * v[i] for i, x in row) for row in rows] for rows in self.rows]

    def back(self, u, v=None):
        """The sum of the ranks' X^T u, with their parts of the rest of the operator times v."""
        parts = []
        for rows, own in zip(self.rows, u):
            part = [0.0] * 128
            for row, y in zip(rows, own):
                for i, x in row:
                    part[i] += x * y
            if v:
                part = [p + (0.005 * v[i] + self.skew * (v[i - 1] - v[i - 127])) / len(u) for i, p in enumerate(part)]
            parts.append(part)
        self.calls.append(parts)
        return judge.added(parts)

    def __call__(self, v):
        return self.back(self.times(v), v)


def plus(x, a, y):
    return [p + a * q for p, q in zip(x, y)]


def conjugate_gradients(a, steps, again=0):
    """again: steps until the next right-hand side; 0: never."""
    draw, b = random.Random(2), a.b
    for step in range(steps):
        if step == 0 or again and step % again == 0:
            b = plus([0.9 * x for x in b], 0.4, noise(draw))
            r = p = b
        q, rho = a(p), judge.dot(r, r)
        r = plus(r, -rho / judge.dot(p, q), q)
        p = plus(r, judge.dot(r, r) / rho, p)


def conjugate_residuals(a, steps):
    r = p = a.b
    ar = ap = a(r)
    for _ in range(steps):
        rho = judge.dot(r, ar)
        r = plus(r, -rho / judge.dot(ap, ap), ap)
        ar = a(r)
        beta = judge.dot(r, ar) / rho
        p, ap = plus(r, beta, p), plus(ar, beta, ap)


def bicgstab(a, steps):
    r, p, v, rho, alpha, omega = a.b, [0.0] * 128, [0.0] * 128, 1.0, 1.0, 1.0
    for _ in range(steps // 2):
        now = judge.dot(a.b, r)
        p = plus(r, now / rho * alpha / omega, plus(p, -omega, v))
        v = a(p)
        alpha, rho = now / judge.dot(a.b, v), now
        s = plus(r, -alpha, v)
        t = a(s)
        omega = judge.dot(t, s) / judge.dot(t, t)
        r = plus(s, -omega, t)


def lanczos(a, steps):
    v, before, beta = judge.unit(a.b), [0.0] * 128, 0.0
    for _ in range(steps):
        w = plus(a(v), -beta, before)
        w = plus(w, -judge.dot(w, v), v)
        beta, before, v = math.sqrt(judge.dot(w, w)), v, judge.unit(w)


def lsqr(a, steps):
    """Sums X^T u alone, as the gradient of a linear regression is."""
    draw = random.Random(3)
    v, alpha, u = [0.0] * 128, -1.0, [[draw.gauss(0, 1) for _ in range(64)] for _ in a.rows]
    for _ in range(steps):
        u = [plus(xv, -alpha, own) for xv, own in zip(a.times(v), u)]
        beta = math.sqrt(sum(judge.dot(own, own) for own in u))
        u = [[x / beta for x in own] for own in u]
        v = plus(a.back(u), -beta, v)
        alpha, v = math.sqrt(judge.dot(v, v)), judge.unit(v)


def jacobi(a, steps):
    x, diagonal = [0.0] * 128, [1.0] * 128
    for row in (row for rows in a.rows for row in rows):
        for i, entry in row:
            diagonal[i] += entry * entry
    for _ in range(steps):
        x = [x + 0.1 * (b - q) / d for x, b, q, d in zip(x, a.b, a(x), diagonal)]


class Judgements(unittest.TestCase):
    def verdict(self, calls):
        return judge.judge(looks_of(calls))

    def test_a_training_is_a_gradient(self):
        for seed in (1, 2, 3):
            self.assertEqual(self.verdict(training(seed=seed)).kind, judge.GRADIENT)

    def test_no_sum_of_a_solver_gets_a_live_rule(self):
        def short(a, steps):
            conjugate_gradients(a, steps, 8)
        taken = []
        for solver in (conjugate_gradients, short, conjugate_residuals, bicgstab, lanczos, lsqr, jacobi):
            for seed in (1, 2, 3):
                for least in (0.0, -1.0):
                    a = Operator(seed, least, 0.3 if solver is bicgstab else 0.0)
                    solver(a, 40)
                    if self.verdict(a.calls).kind == judge.GRADIENT:
                        taken.append((solver.__name__, seed, least))
        self.assertEqual(taken, [])

    def test_averages_of_weights_are_refused(self):
        draw = random.Random(5)
        weights = noise(draw)
        calls = [[[w + 1e-4 * n for w, n in zip(weights, noise(draw))] for _ in range(4)] for _ in range(40)]
        self.assertIn("average of weights", self.verdict(calls).reason)

    def test_a_broadcast_by_a_sum_is_refused(self):
        draw = random.Random(6)
        calls = [[noise(draw)] + [[0.0] * 128] * 3 for _ in range(40)]
        self.assertIn("one rank alone", self.verdict(calls).reason)

    def test_counts_are_refused(self):
        draw = random.Random(7)
        calls = [[[abs(x) for x in noise(draw)] for _ in range(4)] for _ in range(40)]
        self.assertIn("one sign", self.verdict(calls).reason)

    def test_each_reason_refuses_its_sums(self):
        def inputs(value, calls=60, ranks=4):
            """value(draw, call, rank, common, own): an input, of noise for all ranks and for this rank alone."""
            draw = random.Random(8)
            own = [noise(draw) for _ in range(ranks)]
            made = []
            for call in range(calls):
                common = noise(draw)
                made.append([value(draw, call, r, common, own[r]) for r in range(ranks)])
            return made

        def scattered(draw, _call, r, _common, _own):
            return [(1 + (7 * i + 13 * r) % 5) * x for i, x in enumerate(noise(draw))]
        for reason, calls in (
                ("fills elements of its own", inputs(lambda d, c, r, common, own: [x if i % 4 == r else 0.0 for i, x in
                                                                                   enumerate(noise(d))])),
                ("comes again", inputs(lambda d, c, r, common, own: plus(common, 1, own))),
                ("energy lies in places of its own", inputs(scattered)),
                ("norm changes on all ranks alike", [[[x * 0.5 ** i for x in vector] for vector in vectors] for i, vectors
                                                     in enumerate(training(common=3.0))]),
                ("do not turn slowly", inputs(lambda d, c, r, common, own: plus(noise(random.Random(c % 3)), 0.5, noise(d)))),
                ("new in every call", inputs(lambda d, c, r, common, own: plus(common, 1, noise(d)))),
                ("keep direction and size", training(turn=0.0))):
            self.assertIn(reason, self.verdict(calls).reason)

    def test_few_calls_are_undecided(self):
        verdict = self.verdict(training(calls=judge.LEAST - 1))
        self.assertEqual((verdict.kind, verdict.reason), (judge.UNDECIDED, "15 calls are too few to judge, 16 are needed"))

    def test_calls_that_are_zero_are_undecided(self):
        self.assertIn("zero or not finite", self.verdict([[[0.0] * 128] * 4] * 20).reason)

    def test_norms_of_any_size_are_judged(self):
        for first, middle, last in ((1.0, 1e3, 1e-160), (1e-161, 1e152, 1e152), (1e152, 1e-161, 1.0), (1e-11, 1.0, 1.0)):
            calls = training()
            for i, vectors in enumerate(calls):
                scale = first if i == 0 else middle if i < len(calls) / 2 else last
                calls[i] = [[scale * x for x in vector] for vector in vectors]
            self.assertIn(self.verdict(calls).kind, (judge.GRADIENT, judge.REFUSED))
            self.assertEqual(len(judge.turned(looks_of(calls))), 3)

    def test_an_infinite_energy_is_not_usable(self):
        self.assertFalse(looks_of([[[1e200] * 128] * 2])[0].usable)

    def test_a_sequence_has_its_smallest_period(self):
        self.assertEqual(judge.repeats([1, 2, 3] * 6, 512, 0.95), 3)
        self.assertEqual(judge.repeats([7] * 6, 512, 0.95), 1)
        self.assertIsNone(judge.repeats(list(range(18)), 512, 0.95))

    def test_a_pick_has_calls_far_from_those_around(self):
        class Level:
            def __init__(self, number, energy):
                self.number, self.value = number, energy

            def energy(self):
                return self.value

        series = [Level(i, 1e9 if i == 777 else 1.0) for i in range(2000)]
        chosen = [call.number for call in judge.pick(series, 100)]
        self.assertIn(777, chosen)
        self.assertLess(len(chosen), 110)


# ---- rules ----


def group(count=5000, kind=judge.GRADIENT, calls=1, symbol="", site="", comm="", number=1, type_="float", ddp=False):
    """A Group without calls."""
    made = object.__new__(learn.Group)
    made.signature = records.Signature(number, count, type_, site, symbol, "", ddp)
    made.all = made.own = [None] * 60
    made.comm, made.calls, made.joined, made.source, made.kind, made.positions = comm, calls, {}, "buffers", kind, []
    made.reason = "" if kind == judge.GRADIENT else "a reason"
    return made


REFUSED = judge.REFUSED


class Rules(unittest.TestCase):
    def rules(self, *groups, together=0):
        with mock.patch.object(learn, "calls_together", lambda sites: together):
            return list(learn.rules_of(list(groups)).values())

    def test_a_count_alone_does(self):
        self.assertEqual(self.rules(group(), group(3000, REFUSED)), ["count=5000:calls=1"])

    def test_buckets_of_ddp_have_one_rule_if_none_is_refused(self):
        few, refused = judge.UNDECIDED, group(8000, REFUSED, ddp=True)
        self.assertEqual(self.rules(group(ddp=True), group(3000, few, ddp=True), group(9000)),
                         ["ddp", "ddp", "count=9000:calls=1"])
        self.assertEqual(self.rules(group(ddp=True), refused), [])
        self.assertEqual([rule for _, rule in learn.rest_of([refused])], ["ddp"])

    def test_a_refused_sum_of_another_type_is_told_by_its_type(self):
        self.assertEqual(self.rules(group(), group(kind=REFUSED, type_="double")), ["count=5000,type=float:calls=1"])

    def test_no_sum_in_double_gets_a_live_rule(self):
        for type_, kind, rules in (("float", judge.GRADIENT, ["count=5000:calls=1"]), ("double", REFUSED, [])):
            one = group(type_=type_)
            one.own = [Call(vectors) for vectors in training()]
            one.judge(judge.MOST)
            self.assertEqual((one.kind, self.rules(one)), (kind, rules))
            self.assertEqual("in double" in one.reason, type_ == "double")

    def test_a_function_tells(self):
        self.assertEqual(self.rules(group(symbol="train", site="a+0x1"), group(kind=REFUSED, symbol="mean", site="a+0x2")),
                         ["count=5000,site=train:calls=1"])

    def test_an_offset_tells_where_functions_do_not(self):
        self.assertEqual(self.rules(group(symbol="train", site="a+0x1"), group(kind=REFUSED, symbol="train", site="a+0x2")),
                         ["count=5000,site=a+0x1:calls=1"])
        self.assertEqual(self.rules(group(site="a+0x1"), group(kind=REFUSED, site="a+0x2")),
                         ["count=5000,site=a+0x1:calls=1"])

    def test_a_communicator_tells_where_sites_do_not(self):
        place = {"symbol": "train", "site": "a+0x1"}
        self.assertEqual(self.rules(group(comm="data", **place), group(kind=REFUSED, comm="model", number=2, **place)),
                         ["count=5000,comm=data:calls=1"])
        self.assertEqual(self.rules(group(comm="data", **place), group(kind=REFUSED, comm="", number=2, **place)),
                         ["count=5000,comm=data:calls=1"])

    def test_a_communicator_and_a_site_tell_together(self):
        self.assertEqual(self.rules(group(comm="data", symbol="f"), group(kind=REFUSED, comm="data", symbol="g"),
                                    group(kind=REFUSED, comm="model", symbol="f", number=2)),
                         ["count=5000,comm=data,site=f:calls=1"])

    def test_what_nothing_tells_is_refused(self):
        alike, other = group(symbol="f", site="a+0x1"), group(kind=REFUSED, symbol="f", site="a+0x1", number=2)
        self.assertEqual(self.rules(alike, other), [])
        self.assertEqual(alike.kind, REFUSED)
        self.assertIn("no rule tells it", alike.reason)

    def test_sites_whose_calls_together_are_not_known_are_told_apart(self):
        self.assertEqual(self.rules(group(calls=8, symbol="f"), group(calls=1, symbol="g")),
                         ["count=5000,site=f:calls=8", "count=5000,site=g:calls=1"])

    def test_no_rule_takes_what_was_refused_later(self):
        # The pattern of the first, which is long or holds a ',', matches the name of the second.
        first, second = group(symbol="f,a"), group(symbol="f;a")
        self.assertEqual(self.rules(first, second, group(kind=REFUSED, symbol="f;a", number=2)), [])
        self.assertEqual((first.kind, second.kind), (REFUSED, REFUSED))

    def test_names_that_hold_what_ends_a_rule_are_matched_by_a_pattern(self):
        name = "void ns::add<int, float>(a; b) '\"#"
        self.assertEqual(self.rules(group(symbol=name), group(kind=REFUSED, symbol="g")),
                         ["count=5000,site=void?ns??add<int??float>(a??b)????:calls=1"])
        self.assertTrue(learn.matches(learn.pattern("symbol", name), name))
        self.assertFalse(learn.matches("a[b]", "a"))
        long = "x" * 63
        self.assertEqual(learn.pattern("symbol", long), long + "*")

    def test_sites_that_are_all_gradients_share_a_rule_and_their_calls(self):
        groups = [group(calls=1, symbol="f"), group(calls=2, symbol="g")]
        self.assertEqual(self.rules(*groups, together=3), ["count=5000:calls=3"] * 2)

    def test_a_rule_that_names_a_site_counts_the_calls_of_the_site(self):
        self.assertEqual(self.rules(group(calls=1, symbol="f"), group(calls=2, symbol="g"),
                                    group(kind=REFUSED, symbol="h", number=2), together=3),
                         ["count=5000,site=f:calls=1", "count=5000,site=g:calls=2"])

    def test_counts_that_a_line_cannot_hold_become_ranges(self):
        groups = [group(100000 + i) for i in range(1000)] + [group(100500, REFUSED)]
        groups[500] = group(100500, REFUSED, symbol="f")
        rules = learn.rules_of(groups)
        self.assertEqual(learn.shortened(rules, groups),
                         ["count=100000:100499:calls=1", "count=100501:100999:calls=1"])

    def test_few_counts_stay_as_they_are(self):
        groups = [group(1000 + i) for i in range(50)]
        self.assertEqual(len(learn.shortened(learn.rules_of(groups), groups)), 50)


class File(unittest.TestCase):
    def text(self, *groups):
        rank = mock.Mock(facts={"program": "train", "ranks": "4"}, options=["density = 0.05", "mode = learn"])
        groups = list(groups)
        return learn.profile([rank], groups, learn.rules_of(groups)).splitlines()

    def test_a_refused_rule_is_a_line_of_its_own_below_its_reason(self):
        lines = self.text(group(symbol="train"), group(kind=REFUSED, symbol="mean", site="a+0x2"))
        self.assertIn("register = count=5000,site=train:calls=1", lines)
        at = lines.index("#register += count=5000,site=mean:calls=1")
        self.assertEqual(lines[at - 1], "# 5000 float called from a+0x2 (mean), 60 calls, 1 per step by its buffers: a reason")

    def test_without_a_gradient_no_rule_is_in_force(self):
        lines = self.text(group(kind=REFUSED, symbol="mean"), group(3000, judge.UNDECIDED, calls=0))
        self.assertEqual([line for line in lines if line and line[0] != "#"],
                         ["mode = topk", "density = 0.05", "register ="])
        self.assertIn("#register += count=5000,site=mean:calls=1", lines)
        self.assertIn("#register += count=3000", lines)

    def test_a_density_that_was_given_asks_for_top_k(self):
        self.assertEqual(learn.mode_of(["density = 0.05", "min_count = 1000"]), ["mode = topk"])
        self.assertEqual(learn.mode_of(["min_count = 1000"])[-1], "mode = quant")

    def test_the_file_says_on_how_many_hosts_the_ranks_were(self):
        ranks = [mock.Mock(facts={"host": host}) for host in "aabbb"]
        for count, words in ((2, "1 host;"), (4, "2 hosts, 2 on each;"), (5, "2 hosts, 2 to 3 on each;")):
            self.assertIn(f"# The ranks were on {words} each rank", learn.hosts_of(ranks[:count])[0])
            self.assertEqual(any(":node" in line for line in learn.hosts_of(ranks[:count])), count > 2)
        self.assertEqual(learn.hosts_of([mock.Mock(facts={"rank": "0"})]), [])

    def test_a_refused_rule_tells_the_sum_from_others_if_it_can(self):
        lines = self.text(group(kind=REFUSED, symbol="f", site="a+0x1"), group(kind=REFUSED, symbol="f", site="a+0x2"))
        self.assertIn("#register += count=5000,site=a+0x1:calls=1", lines)
        self.assertIn("#register += count=5000,site=a+0x2:calls=1", lines)


# ---- records ----


def record(kind, body):
    return records.HEAD.pack(records.HEAD.size + len(body), kind) + body


def short(comm=9, count=5000, rank=0):
    return record(records.SHORT, records.CALL.pack(comm, count, 64, 0, 0, 2, rank, 0, 0))


def sampled():
    body = records.CALL.pack(9, 5000, 64, 0, 0, 2, 0, 0, 0) + records.SAMPLE.pack(128, 0, 2.0, 1.0, *[0] * 8)
    return record(records.SAMPLED, body + struct.pack("<128H", *[1] * 128) + struct.pack("<128h", *[3] * 128))


class Records(unittest.TestCase):
    def rank(self, data):
        file = Path(self.folder.name) / "sparseshim-1.learn"
        file.write_bytes(data)
        rank = records.Rank(file)
        rank.grow()
        return rank

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def test_records_are_read(self):
        rank = self.rank(record(records.TEXT, b"rank 3\ncomm-0000000000000009 data plane\n") + short() + sampled())
        self.assertEqual((len(rank.calls[9]), rank.broken), (2, False))
        self.assertEqual(records.names([rank]), {9: "data plane"})
        self.assertEqual(rank.sample(rank.calls[9][1]).energy, 2.0)

    def test_a_record_that_is_cut_waits_for_its_rest(self):
        rank = self.rank(short() + short()[:20])
        self.assertEqual((len(rank.calls[9]), rank.broken), (1, False))
        with open(rank.path, "ab") as file:
            file.write(short()[20:])
        rank.grow()
        self.assertEqual(len(rank.calls[9]), 2)

    def test_a_hole_ends_a_file(self):
        for hole in (bytes(64), struct.pack("<II", 3, 3) + bytes(64), struct.pack("<II", 20, records.SAMPLED) + bytes(64),
                     struct.pack("<II", 56, 77) + bytes(64)):
            rank = self.rank(record(records.TEXT, b"rank 3\n") + short() + hole + short())
            self.assertEqual((len(rank.calls[9]), rank.broken), (1, True))
            self.assertIn("the records of rank 3 are damaged; calls behind the damage do not count",
                          records.join([rank])[1])


class OldPython(unittest.TestCase):
    def test_each_verb_names_the_python_that_it_needs(self):
        for verb in ("learn", "report", "bench"):
            told = io.StringIO()
            with mock.patch.object(sys, "version_info", (3, 6, 8)), redirect_stderr(told), self.assertRaises(SystemExit) as e:
                runpy.run_path(str(SCRIPTS / f"{verb}.py"), run_name="__main__")
            self.assertEqual(e.exception.code, 126)
            self.assertEqual(told.getvalue(), f"sparseshim {verb}: this verb needs Python 3.9 or later; python3 in PATH is 3.6\n")

    def test_an_old_python_can_read_so_far(self):
        import ast
        for verb in ("learn", "report", "bench"):
            ast.parse((SCRIPTS / f"{verb}.py").read_text(), feature_version=(3, 6))


class Tap(unittest.TextTestResult):
    """Prints a line per test."""

    def line(self, result, test, error=None):
        name = test.id().split(".")[-1][len("test_"):].replace("_", " ")
        print(f"{result} {self.testsRun} - {name}", flush=True)
        if error:
            print("".join(f"# {line}\n" for line in self._exc_info_to_string(error, test).splitlines()), end="")

    def addSuccess(self, test):
        self.line("ok", test)

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self.line("not ok", test, err)

    addError = addFailure


if __name__ == "__main__":
    suite = unittest.defaultTestLoader.loadTestsFromModule(sys.modules["__main__"])
    with open(os.devnull, "w") as nowhere:
        outcome = unittest.TextTestRunner(stream=nowhere, resultclass=Tap).run(suite)
    print(f"1..{outcome.testsRun}")
    sys.exit(not outcome.wasSuccessful())
