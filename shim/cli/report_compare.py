"""Two jobs side by side."""
from report_forms import operation
from report_jobs import Wrong, lane_seconds, tensor_density, tensor_ratio
from report_merge import LANE, MEASURES, SELDOM, TENSOR, any_of, join, kinds
from report_words import Group, count, date, finite, line, plain, ratio, table

DOCUMENT = Group("", "Compared: the document", """
compared_schema | | integer | | version of the form of compared reports
a | A | text | 1 | the first job: file, program, ranks, when it began
b | B | text | 1 | the second job, likewise
ranks | ranks | count | 1 | ranks that are compared, those that both report
""")
OPTIONS = Group("options", "Compared: options that differ", """
name | name | text | 1 | an option that differs, without SPARSESHIM_; REPORT_DIR is left out
a | A | option | 1 | its value in the first job; -, null: the default
b | B | option | 1 | its value in the second job, likewise
""")
JOB = Group("job", "Compared: the job", """
measure | | text | | the number compared, as in a rank's report
_shown | of a rank | text | 1 | the number compared, over all call signatures
a | A | shown | 1 | in the first job, mean of the ranks that both report
b | B | shown | 1 | in the second job, likewise
ratio | B / A | factor | 1 | below 1 where the second job has less
""")
LANES = Group("lanes", "Compared: call signatures", """
lane | signature | count | 1 | number of the call signature in this table
communicator | | text | | its MPI name
count | count | count | 1 | elements of the result
type | type | text | 1 | datatype of the elements
kind | | text | | the collective
op | | text | | the operator
_op | op | text | 1 | the operator; before it the collective where it is no allreduce
calls_a | calls A | count | 1 | eligible calls in A, mean of the ranks
calls_b | B | count | 1 | in B
density_a | density A | share | 1 | mean density in A
density_b | B | share | 1 | in B
bytes_per_call_a | sent a call A | bytes | 1 | bytes sent in a call in A
bytes_per_call_b | B | bytes | 1 | in B
bytes_ratio | B / A | factor | 1 | below 1 where B sends less in a call
seconds_per_call_a | a call A | seconds | 1 | time of a call in A, all phases
seconds_per_call_b | B | seconds | 1 | in B
seconds_ratio | B / A | factor | 1 | below 1 where a call of B is faster
""")
TENSORS = Group("tensors", "Compared: tensors (MODE=topk)", """
tensor | tensor | count | 1 | number of the tensor in this table
site | called from | text | 1 | module and offset that it is called from, in A where it has it
symbol | function | text | 1 | the function there
ordinal | | integer | | number of the call within the step, from 0; -1: out of step
count | count | count | 1 | elements
state_a | state A | text | 1 | its state in A
state_b | B | text | 1 | in B
density_a | selected A | share | 1 | share of the elements selected in A, mean of the ranks
density_b | B | share | 1 | in B
residual_ratio_a | to input A | factor | 1 | norm of a rank's residual over that of its last input in A, mean of the ranks
residual_ratio_b | B | factor | 1 | in B
""")
GROUPS = (DOCUMENT, OPTIONS, JOB, LANES, TENSORS)


def pairs_of(a, b):
    """Reports of the same rank; one report each is a pair whatever its rank."""
    if len(a) == 1 and len(b) == 1:
        return a, b
    ranks = {r.rank for r in a} & {r.rank for r in b}
    if not ranks:
        raise Wrong("no rank has reports of both jobs")
    return [r for r in a if r.rank in ranks], [r for r in b if r.rank in ranks]


def mean(values):
    values = list(values)
    return sum(values) / len(values) if values and all(map(finite, values)) else None


def total(rows, number):
    return sum(number(row) or 0 for row in rows)


def option_rows(a, b):
    sides = [{row["name"]: row["value"] for row in side[0].rows("options")} for side in (a, b)]
    names = [name for name in {**sides[0], **sides[1]} if name != "REPORT_DIR"]
    return [{"name": name, "a": sides[0].get(name), "b": sides[1].get(name)} for name in names
            if sides[0].get(name) != sides[1].get(name)]


def job_rows(a, b):
    rows = []
    for key, words, kind, _, number in MEASURES:
        x, y = (mean(number(r) for r in side) for side in (a, b))
        if x is not None or y is not None or not key.startswith(SELDOM):
            rows.append({"measure": key, "_shown": words, "_kind": kind, "a": x, "b": y, "ratio": ratio(y, x)})
    return rows


def lane_side(rows, side):
    """Numbers of a call signature in one of the jobs, whose rows these are."""
    rows = [row for row in rows if row is not None]
    calls = total(rows, lambda r: r["calls"])
    scanned = [row for row in rows if row["scans"]]
    density = ratio(total(scanned, lambda r: r["density_sum"]), total(scanned, lambda r: r["scans"]))
    return {f"calls_{side}": int(calls / len(rows)) if rows else None, f"density_{side}": density,
            f"bytes_per_call_{side}": ratio(total(rows, lambda r: r["bytes_sent"]), calls),
            f"seconds_per_call_{side}": ratio(total(rows, lane_seconds), calls)}


def compared_lanes(a, b):
    result = []
    for number, rows in enumerate(join(a + b, "lanes", LANE), 1):
        first = any_of(rows)
        row = {"lane": number, "_op": operation(first), **{key: first[key] for key in LANE},
               **lane_side(rows[:len(a)], "a"), **lane_side(rows[len(a):], "b")}
        row["bytes_ratio"] = ratio(row["bytes_per_call_b"], row["bytes_per_call_a"])
        row["seconds_ratio"] = ratio(row["seconds_per_call_b"], row["seconds_per_call_a"])
        result.append(row)
    return result


def tensor_side(rows, side):
    rows = [row for row in rows if row is not None]
    return {f"state_{side}": rows[0]["state"] if rows else None,
            f"density_{side}": mean(filter(finite, map(tensor_density, rows))),
            f"residual_ratio_{side}": mean(filter(finite, map(tensor_ratio, rows)))}


def compared_tensors(a, b):
    result = []
    for number, rows in enumerate(join(a + b, "tensors", TENSOR), 1):
        first = any_of(rows)
        result.append({"tensor": number, **{key: first[key] for key in ("site", "symbol", "ordinal", "count")},
                       **tensor_side(rows[:len(a)], "a"), **tensor_side(rows[len(a):], "b")})
    return result


def say_job(reports):
    job = reports[0].job
    return (f"{job['program'] or 'unnamed program'}, {job['ranks']} ranks, started {date(reports[0].start)}, from "
            f"{reports[0].path}{' and others' if len(reports) > 1 else ''}")


def document_of(a, b):
    a, b = pairs_of(a, b)
    return {"compared_schema": 1, "a": say_job(a), "b": say_job(b), "ranks": len(a), "options": option_rows(a, b),
            "job": job_rows(a, b), "lanes": compared_lanes(a, b), "tensors": compared_tensors(a, b)}


def text_of(document):
    options = [{**row, "a": row["a"] or "-", "b": row["b"] or "-"} for row in document["options"]]
    return "".join((
        line("A", plain(document["a"])), line("B", plain(document["b"])), line("ranks", count(document["ranks"])),
        table("Options that differ", OPTIONS, options),
        table("The job, means of these ranks", JOB, kinds(document["job"], ("a", "b"))),
        table("Call signatures, means of a call", LANES, document["lanes"]),
        table("Tensors", TENSORS, document["tensors"])))
