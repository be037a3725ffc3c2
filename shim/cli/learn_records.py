"""Reads what the ranks of a job with MODE=learn have recorded (core/learn/learn_record.h)."""
import array
import math
import struct
from pathlib import Path
from typing import NamedTuple

HEAD = struct.Struct("<II")
CALL = struct.Struct("<QQQQIIIHH")
SAMPLE = struct.Struct("<IIdd8Q")
ENERGY = struct.Struct("<d")
TEXT, SITE, SHORT, SAMPLED = 1, 2, 3, 4
NOT_FINITE, IDENTIFIED = 4, 8
BLOCKS, GROUPS, SKETCH = 64, 64, 128
UNIT, SHARE = 8192.0, 65535.0
TYPES = ("float", "double")
NOWHERE = ("", "", "")


class Sample:
    """The sample of a rank's input: `sketch` has the length 1, `energy` is the sum of squares."""

    __slots__ = ("elements", "zeros", "energy", "above", "nonzero", "blocks", "groups", "sketch", "finite")

    def __init__(self, data, at, flags):
        self.elements, self.zeros, self.energy, self.above, *words = SAMPLE.unpack_from(data, at)
        self.nonzero = sum(word << 64 * i for i, word in enumerate(words))
        at += SAMPLE.size
        shares, sketch = array.array("H"), array.array("h")
        shares.frombytes(data[at:at + 2 * (BLOCKS + GROUPS)])
        at += 2 * (BLOCKS + GROUPS)
        sketch.frombytes(data[at:at + 2 * SKETCH])
        self.blocks = [share / SHARE for share in shares[:BLOCKS]]
        self.groups = [share / SHARE for share in shares[BLOCKS:]]
        length = math.hypot(*sketch) or 1.0
        self.sketch = [x / length for x in sketch]
        self.finite = not flags & NOT_FINITE


class Signature(NamedTuple):
    """Calls of the same signature and call site, of one communicator."""

    comm: int
    count: int
    type: str
    site: str
    symbol: str
    callers: str  # a hash
    ddp: bool = False  # a buffer that the program has identified


def is_whole(kind, size):
    """True for the size of a record that has one."""
    call = HEAD.size + CALL.size
    sampled = call + SAMPLE.size + 2 * (BLOCKS + GROUPS + SKETCH)
    return {SHORT: size == call, SAMPLED: size == sampled}.get(kind, kind in (TEXT, SITE) and size >= HEAD.size)


class Rank:
    """The file of one rank, as far as it has been written; `grow` reads what has come since. In a file with a
    hole, `broken` is set, and what stands behind the hole is not read."""

    def __init__(self, path):
        self.path, self.data, self.used, self.broken = path, b"", 0, False
        self.facts, self.options, self.sites = {}, [], {0: NOWHERE}
        self.calls = {}  # by communicator: tuples, as `take` makes them
        self.most = {}   # calls by signature

    def grow(self):
        with open(self.path, "rb") as file:
            file.seek(len(self.data))
            self.data += file.read()
        while self.used + HEAD.size <= len(self.data) and not self.broken:
            size, kind = HEAD.unpack_from(self.data, self.used)
            self.broken = not is_whole(kind, size)
            if self.broken or self.used + size > len(self.data):
                break
            self.take(kind, self.used + HEAD.size, self.used + size)
            self.used += size

    def take(self, kind, at, end):
        if kind == SITE:
            self.sites[len(self.sites)] = tuple(self.data[at:end].decode("utf-8", "replace").split("\n"))
        elif kind == TEXT:
            self.take_text(self.data[at:end].decode("utf-8", "replace"))
        else:
            comm, count, recv, scalars, site, size, rank, type_, flags = CALL.unpack_from(self.data, at)
            sample = at + CALL.size if kind == SAMPLED else 0
            key = (count, type_, *self.sites.get(site, NOWHERE), bool(flags & IDENTIFIED))
            self.calls.setdefault(comm, []).append((key, recv, scalars, size, rank, flags, sample))
            self.most[comm, key] = self.most.get((comm, key), 0) + 1

    def take_text(self, text):
        if "=" in text and "\n" not in text:
            self.options.append(text)
        else:
            self.facts.update(line.split(" ", 1) for line in text.splitlines() if " " in line)

    def sample(self, call):
        return Sample(self.data, call[6], call[5]) if call[6] else None


class Call(NamedTuple):
    """A call as all ranks of its communicator have recorded it."""

    signature: Signature
    number: int       # on the communicator
    scalars: int      # sums of a few numbers before it
    addresses: tuple  # of the receive buffers, by rank
    ranks: list       # of Rank
    records: list

    def sampled(self):
        return all(record[6] for record in self.records)

    def sample(self, r):
        return self.ranks[r].sample(self.records[r])

    def energy(self):
        """Sum of the ranks' energies, of a call with samples."""
        return sum(ENERGY.unpack_from(rank.data, record[6] + 8)[0] for rank, record in zip(self.ranks, self.records))


def read(directory, known):
    """Reads the files of a directory into `known`, Ranks by path."""
    for path in sorted(Path(directory).glob("sparseshim-*.learn")):
        known.setdefault(path, Rank(path)).grow()
    return known


def names(ranks):
    """Names of communicators by their ids, as rank after rank knows them."""
    found = {}
    for rank in ranks:
        for fact, value in rank.facts.items():
            if fact.startswith("comm-"):
                found.setdefault(int(fact[5:], 16), value)
    return found


def join(ranks):
    """Lists of Calls, by communicator, and remarks on what cannot be joined."""
    members, joined, remarks = {}, {}, []
    for rank in ranks:
        if rank.broken:
            number = rank.facts.get("rank", "?")
            remarks.append(f"the records of rank {number} are damaged; calls behind the damage do not count")
        for comm, calls in rank.calls.items():
            members.setdefault(comm, {})[calls[0][4]] = rank
    for comm, by_rank in members.items():
        present = [by_rank[r] for r in sorted(by_rank)]
        size = present[0].calls[comm][0][3]
        if len(present) < size:
            remarks.append(f"{len(present)} of {size} ranks of a communicator have left records")
            continue
        calls = []
        for number, records in enumerate(zip(*(rank.calls[comm] for rank in present))):
            key = records[0][0]
            if any(record[0][:2] != key[:2] for record in records):
                remarks.append("calls come in another order on another rank; those behind do not count")
                break
            alike = all(record[0] == key for record in records)
            place = key[2:] if alike else (*NOWHERE, key[5])
            signature = Signature(comm, key[0], TYPES[key[1]], *place)
            calls.append(Call(signature, number, records[0][2], tuple(r[1] for r in records), present, records))
        joined[comm] = calls
    return joined, remarks
