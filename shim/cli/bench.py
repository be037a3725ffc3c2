#!/usr/bin/env python3
"""usage: sparseshim bench [--count LIST] [--density LIST] [--algorithm LIST] [OPTION ...] [--] LAUNCHER ...
time a call with and without the library, over lists of settings
  --count LIST       elements, values separated by commas as in all lists (default: 4Mi)
  --density LIST     share of the elements that are not zero; with a lossy mode, that are sent (quant 1,
                     else 0.01)
  --algorithm LIST   as ALGORITHM (auto)
  --mode exact|quant|topk  as MODE (exact)
  --value-type LIST  as VALUE_TYPE, with a lossy mode (quant q4, else same)
  --type TYPE        float or double (float)
  --blocks N         timed blocks of 3 calls each, after 40 calls that are not timed (10)
  --OPTION=VALUE     set SPARSESHIM_OPTION for all runs
The launcher starts the ranks:  sparseshim bench --density 0.001,0.01 -- mpirun -n 8
Each combination of the lists is a run of its own and prints one line. In a run, blocks of calls
with and without the library alternate. Times are seconds of the slowest rank, medians over the
blocks; faster is the time without the library over the time with it, q1 and q3 are its quartiles.
Bytes are those that rank 0 sends in a call, the vote of the ranks included; - if they are not known.
Column mode is the one that the site allows, ran the algorithm of most calls. A line behind # names
the MPI library and the hosts.
Rank 0 must see the current directory.
Exit status: 0; 2 usage; 3 a run failed (its output is printed, and the other runs go on); 127 the
launcher is not there.
"""
import itertools
import json
import pathlib
import re
import signal
import subprocess
import sys
import tempfile

if sys.version_info < (3, 9):
    print("sparseshim bench: this verb needs Python 3.9 or later; python3 in PATH is %d.%d" % sys.version_info[:2],
          file=sys.stderr)
    sys.exit(126)

HERE = pathlib.Path(__file__).resolve().parent
COMMAND = (HERE / "@COMMAND@").resolve()
CALLS, WARM = 3, 40
COLUMNS = (("ranks", 5), ("count", 10), ("type", 6), ("mode", 5), ("density", 8), ("algorithm", 18), ("value_type", 10),
           ("seconds_dense", 13), ("seconds", 11), ("faster", 8), ("q1", 8), ("q3", 8), ("bytes_dense", 11),
           ("bytes_sent", 11), ("of_result", 9), ("difference", 10), ("ran", 18))


class Usage(Exception):
    """A command line that cannot be served."""


def items(text):
    return [item.strip() for item in text.split(",")]


def counts(text):
    scale = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30}
    found = [re.fullmatch(r"(\d+)(|[kMG]|[KMG]i)", item) for item in items(text)]
    values = [int(match[1]) * scale[match[2]] if match else 0 for match in found]
    if not all(1 <= value < 2**31 for value in values):
        raise Usage(f"--count={text}: elements, 1 to {2**31 - 1}, such as 64Ki or 4Mi")
    return values


def one_of(*words):
    def read(text):
        if text not in words:
            raise Usage(f"{text}: allowed are {', '.join(words[:-1])} and {words[-1]}")
        return text
    return read


def blocks(text):
    if not text.isdigit() or not 1 <= int(text) <= 1000:
        raise Usage(f"--blocks={text}: a whole number, 1 to 1000")
    return int(text)


OPTIONS = {"count": counts, "density": items, "algorithm": items, "value-type": items, "blocks": blocks,
           "mode": one_of("exact", "quant", "topk"), "type": one_of("float", "double")}


def parse(words):
    """Returns the own options, those of the library as --OPTION=VALUE, and the launcher."""
    own = {"count": [4 << 20], "algorithm": ["auto"], "blocks": 10, "mode": "exact", "type": "float"}
    settings = []
    words = list(words)
    while words and words[0].startswith("-"):
        word = words.pop(0)
        if word == "--":
            break
        name, equals, value = word[2:].partition("=")
        if name in OPTIONS:
            if not equals and not words:
                raise Usage(f"{word} needs a value")
            own[name] = OPTIONS[name](value if equals else words.pop(0))
        else:
            settings.append(word)
    if not words:
        raise Usage("no launcher given; usage: sparseshim bench [--count LIST] [--density LIST] ... -- mpirun -n 8")
    quant = own["mode"] == "quant"
    usual = {"density": ["1" if quant else "0.01"], "value-type": ["q4" if quant else "same"]}
    return {**usual, **own}, settings, words


def share(text):
    try:
        value = float(text[:-1]) / 100 if text.endswith("%") else float(text)
    except ValueError:
        value = 0
    if not 0 < value <= 1:
        raise Usage(f"--density={text}: a share such as 0.01 or 1%")
    return f"{value:.9g}"


def check_exact(own):
    """Refuses options of the lossy modes in exact mode, where they would have no effect."""
    for word in own["algorithm"]:
        if word in ("oktopk", "gtopk", "quantized"):
            raise Usage(f"--algorithm={word} is for --mode={'quant' if word == 'quantized' else 'topk'}")
    for word in own["value-type"]:
        if word != "same":
            raise Usage(f"--value-type={word} is for --mode=quant and topk")
    own["density"] = [share(word) for word in own["density"]]


def run_words(own, cell, settings, folder):
    """Returns the command line of `sparseshim run` for one combination, without the program."""
    count, density, algorithm, value_type = cell
    words = [f"--mode={own['mode']}", f"--algorithm={algorithm}", "--disable=off", "--programs=", "--min-count=1",
             "--debug=warn", "--report=all", f"--report-dir={str(folder).replace('%', '%%')}"]
    if own["mode"] != "exact":
        words += [f"--register=count={count}:calls=1", f"--density={density}", f"--value-type={value_type}"]
    return [str(COMMAND), "run", *words, *settings]


def program():
    """Returns the program that is timed: installed beside this one, or in the build."""
    for path in (HERE / "bench_allreduce", HERE.parent / "tests/bench/bench_allreduce"):
        if path.exists():
            return str(path)
    sys.exit("sparseshim bench: bench_allreduce is not there: make bench builds it, make install installs it")


def see(reports, count):
    """Returns of rank 0, from its report: the bytes of a dense and of a sparse call, and the algorithm of most calls;
    None where they are not known."""
    for lane in (lane for r in reports if r["job"]["rank"] == 0 for lane in r["lanes"]):
        if lane["count"] == count and lane["calls"] > 0:
            dense, sparse = lane["bytes_dense"] / lane["calls"], sum(lane["sparse"].values())
            sent = (lane["bytes_sent"] - dense * (lane["calls"] - sparse)) / sparse if sparse else dense
            ran = {**lane["sparse"], "dense": lane["calls"] - sparse}
            return dense, sent, max(ran, key=ran.get)
    return None, None, None


def where(reports):
    """Returns the line about MPI library and hosts, empty without a report."""
    jobs = [r["job"] for r in reports]
    hosts = sorted({job["hostname"] for job in jobs})
    more = ", and hosts that do not see this directory" if jobs and len(jobs) < jobs[0]["ranks"] else ""
    library = " ".join(jobs[0]["mpi_library"].splitlines()[0].split()) if jobs else ""
    return f"# {library}; {len(hosts)} host{'s' if len(hosts) > 1 else ''}: {', '.join(hosts)}{more}" if jobs else ""


def launch(words):
    """Runs a job; its exit status and all that it printed. A job that is interrupted is ended."""
    with subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, errors="replace") as job:
        try:
            return job, job.communicate()[0]
        except BaseException:
            job.terminate()
            raise


def measure(own, cell, settings, launcher):
    """Runs one combination and returns the values of its line, and where it ran; None where the run failed."""
    count, density, algorithm, value_type = cell
    lossy = own["mode"] != "exact"
    with tempfile.TemporaryDirectory(prefix="sparseshim-bench-", dir=".") as name:
        folder = pathlib.Path(name).resolve()
        words = launcher + run_words(own, cell, settings, folder)
        words += ["--", program(), "--count", str(count), "--density", "1" if lossy else density, "--type", own["type"],
                  "--blocks", str(own["blocks"]), "--calls", str(CALLS), "--warm", str(WARM), "--exchange",
                  "--csv", "sparseshim-bench"] + (["--gradient", "3"] if lossy else [])
        job, output = launch(words)
        found = re.search(r"^sparseshim-bench,(.*)$", output, re.M)
        if job.returncode != 0 or found is None:
            print(f"sparseshim bench: {count} elements, density {density}, {algorithm}: the run failed; it said:\n{output}",
                  file=sys.stderr)
            return None
        ranks, _, _, dense, ours, faster, _, _, result, q1, q3, difference, _ = found[1].split(",")
        if ranks == "1":
            print(f"sparseshim bench: {program()} ran as a job of one rank, which has nothing to sum: start 2 ranks or"
                  " more, by the mpirun of the MPI library that it was built with", file=sys.stderr)
            return None
        reports = [json.loads(path.read_text()) for path in folder.glob("sparseshim-*.json")]
        *sent, ran = see(reports, count)
        sent = [f"{number:.0f}" if number is not None else "-" for number in sent]
        return (ranks, count, own["type"], own["allowed"], density, algorithm, value_type, dense, ours, faster, q1, q3, *sent,
                result, "-" if lossy else difference, ran or "-"), where(reports)


def line(values):
    print(" ".join(f"{str(value):>{width}}" for value, (_, width) in zip(values, COLUMNS)), flush=True)


def main(words):
    if "--help" in words or "-h" in words:
        print(__doc__, end="")
        return 0
    own, settings, launcher = parse(words)
    if own["mode"] == "exact":
        check_exact(own)
    cells = list(itertools.product(own["count"], own["density"], own["algorithm"], own["value-type"]))
    own["allowed"], said = own["mode"], ""
    for cell in cells:  # the library's own words about values that it does not admit, and about the site's policy
        tried = subprocess.run([*run_words(own, cell, settings, "."), "--debug=none", str(COMMAND), "info"], text=True, check=False,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        if tried.stderr not in said:
            said += tried.stderr
            sys.stderr.write(tried.stderr)
        if tried.returncode not in (0, 1):  # 1: of a policy that is not understood
            return 2
        own["allowed"] = re.search(r"^SPARSESHIM_MODE +(\S+)", tried.stdout, re.M)[1]
    off = re.search(r"^SPARSESHIM_DISABLE +on +(.*)$", tried.stdout, re.M)
    if off or tried.returncode:
        own["allowed"] = "-"
        print("sparseshim bench: the site allows no mode here, so that both times are of the MPI library alone"
              + (f" ({off[1]})" if off else ""), file=sys.stderr)
    program()
    line([name for name, _ in COLUMNS])
    status, told = 0, ""
    for cell in cells:
        measured = measure(own, cell, settings, launcher)
        if measured is None:
            status = 3
            continue
        values, place = measured
        if place != told:
            print(place, flush=True)
            told = place
        line(values)
    return status


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(3))
    try:
        sys.exit(main(sys.argv[1:]))
    except Usage as why:
        print(f"sparseshim bench: {why}", file=sys.stderr)
        sys.exit(2)
    except FileNotFoundError as why:
        print(f"sparseshim bench: {why.filename} cannot be run: {why.strerror}", file=sys.stderr)
        sys.exit(127)
    except KeyboardInterrupt:
        sys.exit(3)
