#!/usr/bin/env python3
"""usage: sparseshim report [OPTION ...] FILE|DIR ...
show the reports of jobs, as text and in other forms
  --all             also numbers that are rarely useful
  --json            as JSON
  --csv[=TABLE]     one table as CSV: lanes (the default; a row for each call signature), tensors (for
                    each sum in MODE=topk), series (a tensor over time) or summary (for each report)
  --html            one page about one job, with pictures
  --merge           all ranks of a job in one: sums, and how the ranks differ
  --compare         two jobs, each a file or a folder: options that differ, and their results
  --job=WHICH       one job of a folder that has several: by its number, which report lists, or by its
                    start, such as --job='2026-11-20 19:12' (default: the newest); with --trace as well
  --trace DIR ...   the traces of all ranks (SPARSESHIM_TRACE) in one file, for ui.perfetto.dev or
                    chrome://tracing
  --legend          the meaning of each word and number
  -o FILE           writes to the file instead of the standard output
Without --merge and --compare, the reports of a folder are merged, and two jobs of one program are
compared; other reports are printed one after the other:
  sparseshim report reports/                        all ranks
  sparseshim report before/ after/                  two jobs
  sparseshim report --html reports/ -o report.html
  sparseshim report --trace traces/ -o trace.json
Exit status: 0; 1 a file cannot be read or is no report, or the files do not belong together;
2 usage, or a trace that is neither a file nor a folder.
"""
import contextlib
import csv
import io
import os
import sys

if sys.version_info < (3, 9):
    print("sparseshim report: this verb needs Python 3.9 or later; python3 in PATH is %d.%d" % sys.version_info[:2],
          file=sys.stderr)
    sys.exit(126)
sys.dont_write_bytecode = True
import report_columns as columns  # noqa: E402
import report_compare as compare  # noqa: E402
import report_forms as forms  # noqa: E402
import report_jobs as jobs  # noqa: E402
import report_merge as merge  # noqa: E402
import report_page as page  # noqa: E402
import report_trace as trace  # noqa: E402
import report_words as words  # noqa: E402

FORMS = ("--all", "--json", "--csv", "--csv=lanes", "--csv=tensors", "--csv=series", "--csv=summary", "--html",
         "--legend")
HOW = ("--merge", "--compare")


class Usage(Exception):
    """A message about the arguments."""


# ---- CSV: the rows of JSON, under the same names ----

def cell(value):
    if isinstance(value, dict):
        return " ".join(f"{key}={cell(number)}" for key, number in value.items())
    return "" if value is None else str(value).lower() if isinstance(value, bool) else value


def csv_rows(form, reports):
    """The first row has the names."""
    if form == "summary":
        groups = (columns.JOB, columns.CALLS, columns.BYTES, columns.TIMES)
        yield ["file"] + [c.key for group in groups for c in group.keys()]
        for r in reports:
            yield [r.path] + [r.data[group.key].get(c.key) for group in groups for c in group.keys()]
    elif form == "series":
        keys = [c.key for c in columns.SERIES.keys()]
        yield ["file", "rank", "tensor"] + keys
        for r in reports:
            for tensor in r.rows("tensors"):
                series = tensor.get("series") or {key: [] for key in keys}
                for point in zip(*(series[key] for key in keys)):
                    yield [r.path, r.rank, tensor["tensor"], *point]
    else:
        group = {"lanes": columns.LANES, "tensors": columns.TENSORS}[form]
        keys = [c.key for c in group.keys() if c.kind != "object"]
        yield ["file", "rank"] + keys
        for r in reports:
            for row in r.rows(form):
                yield [r.path, r.rank] + [row.get(key) for key in keys]


def print_csv(form, reports):
    writer = csv.writer(sys.stdout)
    for row in csv_rows(form, reports):
        writer.writerow([cell(value) for value in row])


# ---- which jobs, and which form ----

def one_job(files):
    try:
        return jobs.one_job(files) is not None
    except jobs.Wrong:
        return False


def fitting(how, form, arguments):
    """A folder is merged, two jobs of one program are compared, other reports follow each other."""
    files = [report for argument in arguments for report in argument]
    if how or form.startswith("--csv"):
        return how
    if form == "--html":
        return "--merge"
    if len(arguments) == 1 and len(files) > 1 and files[0].folder:
        return "--merge"
    if len(arguments) == 2 and all(arguments):
        a, b = arguments[0][0], arguments[1][0]
        if a.job["program"] and a.job["program"] == b.job["program"] and jobs.difference(a, b):
            return "--compare"
    return ""


def print_form(how, form, arguments):
    files = [report for argument in arguments for report in argument]
    if form.startswith("--csv"):
        print_csv(form[6:] or "lanes", files)
    elif form == "--html":
        sys.stdout.write(page.of_job(jobs.one_job(files)))
    elif how:
        kind = compare if how == "--compare" else merge
        document = kind.document_of(*(jobs.one_job(side) for side in (arguments if kind is compare else [files])))
        sys.stdout.write(merge.as_json(document, kind.GROUPS) if form == "--json" else kind.text_of(document))
    else:
        if len(files) > 1 and one_job(files):
            jobs.say(f"these are {len(files)} ranks of one job, one after the other; --merge puts them in one")
        for report in files:
            sys.stdout.write(report.text if form == "--json" else forms.text_of(report, form == "--all"))


def run(how, form, names, wanted):
    read = [jobs.read(name) for name in names]
    good = all(is_good for _, is_good in read)
    arguments = [files for files, _ in read]
    how = fitting(how, form, arguments)
    if not good and (how or form == "--html"):
        return 1  # a job of which a part cannot be read is none
    arguments = [jobs.choose(name, files, wanted) if files and files[0].folder else files
                 for name, files in zip(names, arguments)]
    print_form(how, form, arguments)
    return 0 if good else 1


def to_file(path, write):
    """Writes the standard output of a function to the file, if the function returns 0; returns its status."""
    text = io.StringIO()
    with contextlib.redirect_stdout(text):
        status = write()
    if status:
        return status
    try:
        with open(path, "w", encoding="utf-8", errors="replace", newline="") as out:
            out.write(text.getvalue())
    except OSError as error:
        jobs.say(f"{path} cannot be written: {error.strerror}; name a file in a folder of your own by -o FILE")
        return 1
    return 0


# ---- arguments ----

def take_output(arguments):
    """Returns the file of -o, or None, and the other arguments."""
    if "-o" not in arguments:
        return None, arguments
    at = arguments.index("-o")
    if at + 1 == len(arguments):
        raise Usage("-o takes the name of a file")
    return arguments[at + 1], arguments[:at] + arguments[at + 2:]


def check_job(wanted, names):
    folders = sum(map(os.path.isdir, names))
    if wanted and (len(wanted) > 1 or folders != 1):
        raise Usage(f"--job takes one folder, not {folders}" if folders != 1 else "--job takes one job")


def take_trace(arguments, path):
    first, rest = arguments[0], arguments[1:]
    rest = [first[len("--trace="):], *rest] if first != "--trace" else rest
    wanted = [argument[len("--job="):] for argument in rest if argument.startswith("--job=")]
    rest = [argument for argument in rest if not argument.startswith("--job=")]
    for argument in rest:
        if argument.startswith("-"):
            raise Usage(f"{argument} is not allowed beside --trace")
    if not rest:
        raise Usage("--trace takes the folder of SPARSESHIM_TRACE, or files from it")
    check_job(wanted, rest)
    return trace.run(rest, path, wanted[0] if wanted else None)


def take_options(arguments):
    """Returns how, form, the job that is wanted, and the names of files."""
    how = form = ""
    wanted, at = None, 0
    while at < len(arguments) and arguments[at].startswith("-") and arguments[at] != "--":
        option, at = arguments[at], at + 1
        if option.startswith("--job="):
            wanted = option[len("--job="):]
            continue
        if option not in FORMS + HOW:
            table = "; the table is lanes, tensors, series or summary" if option.startswith("--csv=") else \
                "; `sparseshim help report` lists the options"
            raise Usage(f"{option} is not allowed{table}")
        before = form if option in FORMS else how
        if before and before != option:
            raise Usage(f"{before} and {option} exclude each other")
        form, how = (option, how) if option in FORMS else (form, option)
    names = arguments[at:]
    if names[:1] == ["--"]:
        return how, form, wanted, names[1:]
    late = next((name for name in names if name in FORMS + HOW), None)
    if late:
        raise Usage(f"{late} stands before the files: sparseshim report {late} FILE ...")
    return how, form, wanted, names


def check_usage(how, form, wanted, names):
    if form == "--legend" and (how or names):
        raise Usage("--legend takes nothing else")
    if form != "--legend" and not names:
        raise Usage("no file given; usage: sparseshim report FILE ...")
    if how == "--compare" and len(names) != 2:
        raise Usage(f"--compare takes two files or folders, not {len(names)}")
    if form == "--html" and how == "--compare":
        raise Usage("--html is of one job: leave out --compare")
    if form.startswith("--csv") and how:
        raise Usage("--csv has a row for each report: leave out --merge and --compare, or use --json")
    check_job([] if wanted is None else [wanted], names)


def main(arguments):
    try:
        if {"-h", "--help"} & set(arguments):
            sys.stdout.write(__doc__)
            return 0
        path, arguments = take_output(arguments)
        if arguments and (arguments[0] == "--trace" or arguments[0].startswith("--trace=")):
            return take_trace(arguments, path)
        how, form, wanted, names = take_options(arguments)
        check_usage(how, form, wanted, names)
        if form == "--legend":
            sys.stdout.write(words.legend(columns.REPORT + merge.GROUPS + compare.GROUPS))
            return 0
        return run(how, form, names, wanted) if path is None else to_file(path, lambda: run(how, form, names, wanted))
    except (Usage, jobs.Wrong) as wrong:
        jobs.say(wrong)
        return 2 if isinstance(wrong, Usage) else 1


if __name__ == "__main__":
    sys.stdout.reconfigure(encoding="utf-8", errors="replace", newline="")
    try:
        status = main(sys.argv[1:])
        sys.stdout.flush()
    except BrokenPipeError:  # `| head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        status = 1
    except OSError as error:
        jobs.say(f"the output cannot be written: {error.strerror}")
        status = 1
    sys.exit(status)
