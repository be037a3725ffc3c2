"""Judges which sums of a recorded job are gradients.

Calls of the same signature and call site are dealt out to positions, the calls of a step; each
position is judged by itself. A gradient of a training by batches differs from other sums:

- Batches are new, so that what a rank adds of its own (its input less the mean of the ranks) does
  not come again in its next calls.
- The part that the ranks have in common turns slowly: it is not new in every call, and it does not stay.
- All ranks fill the same elements, with both signs.
- The norm does not change on all ranks alike.

The limits below lie between trainings and other sums of tests/gradients, with their seeds, sizes
and numbers of ranks. A cosine of two sketches has a standard error of up to ERROR.
"""
import math
from functools import cached_property
from operator import mul
from typing import NamedTuple

ERROR = 1 / math.sqrt(128)
LEAST = 16      # calls that a judgement needs
MOST = 400      # calls of a position that are looked at
RANKS = 8       # ranks that are looked at
BUDGET = 24000  # samples that are looked at, of all positions together
LONGEST = 512   # calls per step
MIXED = 64      # calls per step that are found by their contents
EXACT = 4       # first calls of a position, which are exact anyway
WIDEST = 800    # octaves of energy between two calls; more is taken for as many
FAR = 3         # octaves of energy between a call and those around it

GRADIENT, REFUSED, UNDECIDED = "gradient", "refused", "undecided"


class Verdict(NamedTuple):
    kind: str
    reason: str
    figures: dict


def dot(a, b):
    return sum(map(mul, a, b))


def unit(vector):
    length = math.sqrt(dot(vector, vector))
    return [x / length for x in vector] if length else vector


def mean(values):
    values = list(values)
    return sum(values) / len(values) if values else 0.0


def median(values):
    values = sorted(values)
    return values[len(values) // 2] if values else 0.0


def variance(values):
    middle = mean(values)
    return mean((x - middle) ** 2 for x in values)


def added(vectors):
    return [sum(column) for column in zip(*vectors)]


def octaves(energy):
    return math.log2(energy) if energy > 0 else None


class Look:
    """Figures from the samples of a call."""

    def __init__(self, call):
        step = -(-len(call.records) // RANKS)
        self.samples = [call.sample(r) for r in range(0, len(call.records), step)]
        self.filled = [sample for sample in self.samples if sample.energy > 0]
        self.energy = mean(sample.energy for sample in self.samples)
        self.level = octaves(self.energy)
        self.usable = (bool(self.filled) and all(sample.finite for sample in self.samples)
                       and math.isfinite(self.energy))

    @cached_property
    def inputs(self):
        lengths = [math.sqrt(sample.energy / self.energy) for sample in self.samples]
        return [[x * length for x in sample.sketch] for sample, length in zip(self.samples, lengths)]

    @cached_property
    def sum(self):
        return added(self.inputs)

    @cached_property
    def toward(self):
        """The direction of the sum."""
        return unit(self.sum)

    @cached_property
    def own(self):
        """The direction of what the ranks add of their own, one behind the other."""
        middle = [x / len(self.inputs) for x in self.sum]
        return unit([x - m for vector in self.inputs for x, m in zip(vector, middle)])

    @cached_property
    def alike(self):
        """Mean cosine between two ranks' inputs."""
        many, total = len(self.filled), added([sample.sketch for sample in self.filled])
        return (dot(total, total) - many) / (many * (many - 1)) if many > 1 else 0.0

    @cached_property
    def levels(self):
        """Octaves of the ranks' energies over their mean; None if a rank brings nothing."""
        if len(self.filled) < len(self.samples):
            return None
        levels = [octaves(sample.energy) for sample in self.samples]
        return [level - mean(levels) for level in levels]

    @cached_property
    def shape(self):
        return [math.sqrt(mean(blocks)) for blocks in zip(*(sample.blocks for sample in self.filled))]


# ---- figures of a position ----


def again(looks, lag, what):
    """Mean cosine of a vector with that of `lag` calls before."""
    return mean(dot(getattr(now, what), getattr(before, what)) for before, now in zip(looks, looks[lag:]))


def overlap(looks):
    """Elements that are not zero on two ranks, and their number if ranks filled as many by chance."""
    seen = expected = 0.0
    for one in looks:
        places = [sample.nonzero for sample in one.filled]
        for i, a in enumerate(places):
            for b in places[:i]:
                seen += bin(a & b).count("1")
                expected += bin(a).count("1") * bin(b).count("1") / 512
    return seen, expected


def apart(looks):
    """How different the blocks are that the ranks fill: 0 = alike, 1 = disjoint."""
    shares = []
    for r in range(len(looks[0].samples)):
        blocks = added([one.samples[r].blocks for one in looks])
        total = sum(blocks)
        shares.append([b / total if total else 0.0 for b in blocks])
    filled = sum(1 for share in shares if any(share))
    return (sum(map(max, zip(*shares))) - 1) / (filled - 1) if filled > 1 else 0.0


def scatter(columns):
    """Variance between the ranks' means over what chance makes of it; 1 = by chance."""
    calls, means = len(columns[0]), [mean(column) for column in columns]
    chance = mean(map(variance, columns)) / calls or 1e-30
    return variance(means) * len(means) / (len(means) - 1) / chance


def differing(looks):
    """Mean scatter of the share of the energy that random groups of elements have."""
    looks = [one for one in looks if one.levels]
    if len(looks) < LEAST:
        return 1.0
    ranks, groups = range(len(looks[0].samples)), range(len(looks[0].samples[0].groups))
    return mean(scatter([[one.samples[r].groups[g] for one in looks] for r in ranks]) for g in groups)


def turned(looks):
    """How much the first and the last third of the sums have in common among themselves, the less of
    the two; the cosine of the two thirds' means; octaves of energy between these."""
    third = len(looks) // 3
    ends, pairs = (looks[:third], looks[-third:]), third * (third - 1)
    sums = [added([one.toward for one in end]) for end in ends]
    kept = [(dot(total, total) - third) / pairs for total in sums]
    sizes = []
    for end in ends:
        scales = [2 ** (max(-WIDEST, min(WIDEST, one.level - looks[0].level)) / 2) for one in end]
        total = added([[x * scale for x in one.sum] for one, scale in zip(end, scales)])
        noise = sum(dot(one.sum, one.sum) * scale * scale for one, scale in zip(end, scales))
        sizes.append(max(dot(total, total) - noise, 1e-300))
    if min(kept) <= 0:
        return 0.0, 0.0, 0.0
    return min(kept), dot(*sums) / third ** 2 / math.sqrt(kept[0] * kept[1]), math.log2(sizes[1]) - math.log2(sizes[0])


def leaps(looks):
    """Mean change of the energy from call to call in octaves, and its median deviation between ranks."""
    return (mean(min(abs(b.level - a.level), 20) for a, b in zip(looks, looks[1:])),
            median(math.sqrt(variance(one.levels)) for one in looks if one.levels))


def averages(looks):
    """The number of calls in which the ranks' inputs are alike: in most calls, or in single ones that
    neither rise nor fade as the leaps of a training do."""
    alike, found = [one.alike for one in looks], 0
    if median(alike) > 0.995:
        return sum(1 for value in alike if value > 0.995)
    for i in range(EXACT, len(looks)):
        around = sorted(alike[i - 2:i] + alike[i + 1:i + 3])
        found += alike[i] > 0.9 and 1 - alike[i] < 0.1 * (1 - around[-2])
    return found


# ---- the tests ----


def refusal(looks, figures):
    """Why the calls of a position are not a gradient; None if nothing speaks against it."""
    calls, ranks = len(looks), len(looks[0].samples)
    alone = sum(1 for one in looks if len(one.filled) == 1 < ranks)
    if alone:
        return f"in {alone} of {calls} calls one rank alone brings anything, as in a broadcast by a sum"
    same = averages(looks)
    if same:
        return f"the ranks' inputs are alike in {same} of {calls} calls, as in an average of weights"
    figures["signs"] = mean(min(s.above, s.energy - s.above) / s.energy for one in looks for s in one.filled)
    if figures["signs"] < 0.03:
        return "its elements have one sign, as counts and squares have"
    seen, expected = overlap(looks)
    figures["apart"] = apart(looks)
    if (expected > 30 and seen < 0.5 * expected) or figures["apart"] > 0.6:
        return "each rank fills elements of its own, as in a gather or an assembly by a sum"
    figures["own"] = max((again(looks, lag, "own") for lag in (1, 2, 3)), key=abs)
    if abs(figures["own"]) > 0.15:
        return "what a rank adds of its own comes again, as of data that stay on a rank or of a running mean"
    figures["alike"] = alike = mean(one.alike for one in looks)
    error = ERROR / math.sqrt(calls * ranks * (ranks - 1) / 2)
    if alike < 0.02 + 2 * error:
        figures["differ"] = differing(looks)
        if figures["differ"] > 1.7:
            return ("the ranks' inputs have nothing in common and each rank's energy lies in places of its own, as of "
                    "a layer that is divided")
    figures["leap"], figures["spread"] = leaps(looks)
    if alike > 0.5 and figures["leap"] > 3 * figures["spread"]:
        return "its norm changes on all ranks alike, as that of a running mean"
    shared = ranks * alike / (1 + (ranks - 1) * alike)
    # A direction that turns slowly, or swings, comes again in two of the next four calls or more; in solvers in one.
    near = sorted(again(looks, lag, "toward") for lag in (1, 2, 3, 4))
    figures["again"], figures["second"] = max(map(abs, near)), near[-2]
    doubt = 2 * ERROR / math.sqrt(calls)
    if figures["second"] + doubt < 0.25 * figures["again"]:
        return "its sums do not turn slowly, as in a solver"
    if alike > 0.02 + 3 * error and figures["again"] + doubt < 0.3 * shared:
        return "what the ranks have in common is new in every call, as of random vectors or signals"
    figures["kept"], figures["turned"], figures["grown"] = turned(looks)
    if figures["kept"] > 0.1 and figures["turned"] > 0.95 and abs(figures["grown"]) < 0.3:
        return ("its sums keep direction and size, as a mean of data does; cannot be told from a training whose "
                "learning rate is very small: try a longer run")
    return None


def judge(looks):
    """The Verdict on the calls of one position."""
    good = [one for one in looks if one.usable]
    figures = {"calls": len(good)}
    if looks and not good:
        return Verdict(UNDECIDED, "all inputs are zero or not finite", figures)
    if len(good) >= LEAST:
        reason = refusal(good, figures)
        return Verdict(REFUSED if reason else GRADIENT, reason or "", figures)
    if len(good) > 1 and all(one.alike > 0.9 for one in good):
        return Verdict(REFUSED, "the ranks' inputs are alike, as in an average of weights", figures)
    return Verdict(UNDECIDED, f"{len(good)} calls are too few to judge, {LEAST} are needed", figures)


# ---- calls per step ----


def repeats(items, most, share):
    """The smallest period that so large a share of a sequence keeps; None if there is none."""
    for period in range(1, min(most, len(items) // 3) + 1):
        same = sum(1 for a, b in zip(items, items[period:]) if a == b)
        if same >= share * (len(items) - period):
            return period
    return None


def surroundings(calls, signature):
    """Returns for each call of a signature the other calls before it, and whether a sum of a few numbers came."""
    gaps, between, scalars = [], [], calls[0].scalars
    for call in calls:
        if call.signature == signature:
            gaps.append((tuple(between), call.scalars > scalars))
            between, scalars = [], call.scalars
        else:
            between.append(call.signature[1:])
    return gaps[1:]


def unlike(looks, lag):
    """How much calls differ from those `lag` before, in size and in the shape of their energy."""
    return mean(math.dist(before.shape, now.shape) ** 2 + min(abs(now.level - before.level), 4) / 4
                for before, now in zip(looks, looks[lag:]))


def calls_per_step(calls, own):
    """The number of calls of a signature in a step, and its source; 0 if it is not known. `calls` are
    all of the communicator, `own` those of the signature."""
    around = repeats(surroundings(calls, own[0].signature), LONGEST, 0.9)
    buffers = repeats([call.addresses for call in own], LONGEST, 0.95)
    period = math.lcm(around or 1, buffers or 1) if around or buffers else 0
    if period > min(LONGEST, len(own) // 3):
        period = around or buffers
    source = "calls around it" if around and around > 1 else "buffers"
    looks = [one for one in (Look(call) for call in own[:6 * MIXED] if call.sampled()) if one.usable]
    if len(looks) < 2 * LEAST:
        return period, source
    lags = range(1, min(MIXED, len(looks) // 4) + 1)
    if period != 1:  # the same tensor may come more often
        near = {lag: again(looks, lag, "toward") for lag in lags if lag <= 16 or period % lag == 0}
        floor = max(3 * ERROR / math.sqrt(len(looks)), 0.6 * max(near.values()))
        often = [lag for lag in near if near[lag] > floor and (period == 0 or period % lag == 0)]
        if often and (period == 0 or often[0] < period):
            return often[0], "sums"
    away = {lag: unlike(looks, lag) for lag in lags}
    best, base = min(away.values()), away.get(period or 1, away[1])
    if best < 0.5 * base:
        return next(lag for lag in lags if away[lag] <= min(0.5 * base, 2 * best)), "sums"
    return period, source


def pick(series, most):
    """At most `most` calls of a position, in windows of consecutive ones, and those besides whose energy
    is far from that of the calls around."""
    if len(series) <= most:
        return series
    width = min(50, most)
    windows = most // width
    first = [i * (len(series) - width) // max(1, windows - 1) for i in range(windows)]
    chosen = {i for begin in first for i in range(begin, begin + width)}
    levels = [octaves(call.energy()) for call in series]
    for i, level in enumerate(levels):
        around = [other for other in levels[max(0, i - 4):i] + levels[i + 1:i + 5] if other is not None]
        if level is not None and around and abs(level - median(around)) > FAR:
            chosen.add(i)
    return [series[i] for i in sorted(chosen)]
