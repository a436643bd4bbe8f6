#!/usr/bin/env python3
"""Exports the models of libraries/, compiles and verifies each, and writes one table.

    tests/zoo/nightly.sh [--only PATTERN] [--jobs N] [--target GPU] [--fusec PROGRAM] [--work FOLDER] [--table FILE]
    tests/zoo/tensorflow/nightly.sh [the same flags]    the models of tensorflow/libraries/

An interrupted run continues where it stopped: exports are kept in the work folder, and verdicts are kept as long as the program is the
same.
"""

import argparse
import collections
import concurrent.futures
import csv
import dataclasses
import hashlib
import importlib
import json
import os
import pathlib
import re
import sys
import tempfile
import time

os.environ.setdefault("OMP_NUM_THREADS", "1")

from isolated import Failed, isolated  # noqa: E402
from judge import VERDICTS, Fusec, Row, judge  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
FRAMEWORKS = {"torch": HERE, "tensorflow": HERE / "tensorflow"}  # folders with model.py, export.py and libraries/
EXPORT_SECONDS = 180


def main():
    arguments = parse()
    tag = hashlib.sha256(arguments.fusec.read_bytes()).hexdigest()[:16]
    sys.path.insert(0, str(FRAMEWORKS[arguments.framework]))
    exporting = importlib.import_module("export")
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        # One process per library, since importing it costs most, and a fork of it per model.
        for _ in pool.map(lambda name: one_library(name, exporting, arguments, tag), arguments.library):
            pass
    rows = kept_rows(arguments.work, tag)
    write_table(arguments.table, rows)
    print_counts(rows)


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--framework", choices=FRAMEWORKS, default="torch", help="framework of the models (default: torch)")
    parser.add_argument("--only", default="", metavar="PATTERN", help="models whose LIBRARY/MODEL.EXPORTER matches this regular expression")
    parser.add_argument("--library", action="append", help="only this one (may be given again)")
    parser.add_argument("--jobs", type=int, default=1, help="libraries at once (default: 1)")
    parser.add_argument("--target", default="sm_90a", help="GPU to compile for as well; '' for none (default: sm_90a)")
    parser.add_argument("--fusec", type=pathlib.Path, default=ROOT / "build/fusec", help="program to judge (default: build/fusec)")
    parser.add_argument("--work", type=pathlib.Path, help="folder of exports (default: build-zoo, or build-zoo-tensorflow)")
    parser.add_argument("--table", type=pathlib.Path, help="table to write (default: results/DATE-cpu.tsv beside this script)")
    arguments = parser.parse_args()
    libraries = sorted(file.stem for file in (FRAMEWORKS[arguments.framework] / "libraries").glob("*.py"))
    unknown = set(arguments.library or []) - set(libraries)
    if unknown:
        parser.error(f"{', '.join(sorted(unknown))}: no such library, expected some of {', '.join(libraries)}")
    arguments.library = arguments.library or libraries
    suffix = "" if arguments.framework == "torch" else f"-{arguments.framework}"
    arguments.work = arguments.work or ROOT / f"build-zoo{suffix}"
    arguments.table = arguments.table or HERE / "results" / f"{time.strftime('%Y-%m-%d')}{suffix}-cpu.tsv"
    return arguments


def one_library(name, exporting, arguments, tag):
    try:
        isolated(run_library, name, exporting, arguments, tag, seconds=24 * 3600, gibibytes=16, log=log_of(arguments.work, name))
    except Failed as failure:
        say(f"{name}: {failure}")


def log_of(work, name):
    work.mkdir(parents=True, exist_ok=True)
    return str(work / f"{name}.log")


def run_library(name, exporting, arguments, tag):
    models = importlib.import_module(f"libraries.{name}").models
    with tempfile.TemporaryDirectory() as scratch:
        exporting.warm_up(pathlib.Path(scratch))
    for model in models():
        for exporter in exporting.EXPORTERS:
            if re.search(arguments.only, f"{name}/{model.name}.{exporter}"):
                run_model(name, model, exporter, exporting.export, arguments, tag)


def run_model(library, model, exporter, export, arguments, tag):
    folder = arguments.work / library / f"{model.name}.{exporter}"
    folder.mkdir(parents=True, exist_ok=True)
    kept = folder / "row.json"
    if kept.exists() and json.loads(kept.read_text())["tag"] == tag:
        return
    row = Row(library, model.name, exporter)
    if exported(row, model, exporter, export, folder):
        judge(Fusec(arguments.fusec), row, folder, arguments.target)
    kept.write_text(json.dumps({"tag": tag, **dataclasses.asdict(row)}))
    say(f"{library}/{model.name}.{exporter}: {row.verdict} {row.reason[:120]}")


def exported(row, model, exporter, export, folder):
    """Whether there is an export, made now or earlier; if not, the row says why."""
    kept = folder / "export.json"
    if not kept.exists():
        begin, why = time.monotonic(), ""
        try:
            isolated(export, model, exporter, folder, seconds=EXPORT_SECONDS, log=str(folder / "export.log"))
        except Failed as failure:
            why = str(failure)
        kept.write_text(json.dumps({"seconds": round(time.monotonic() - begin, 1), "why": why}))
    past = json.loads(kept.read_text())
    row.export_s = str(past["seconds"])
    if past["why"]:
        row.verdict, row.reason = "no-export", past["why"]
    return not past["why"]


def kept_rows(work, tag):
    rows = [json.loads(file.read_text()) for file in sorted(work.glob("*/*/row.json"))]
    fields = {field.name for field in dataclasses.fields(Row)}
    return [Row(**{k: v for k, v in row.items() if k in fields} | {"library": row["library"].removesuffix("_models")})
            for row in rows if row["tag"] == tag]  # fmt: skip


def write_table(path, rows):
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "w", newline="") as file:
        table = csv.writer(file, delimiter="\t", lineterminator="\n")
        table.writerow(field.name for field in dataclasses.fields(Row))
        table.writerows([plain(value) for value in dataclasses.astuple(row)] for row in rows)
    say(f"wrote {path}")


def plain(text):
    """The text without tabs, colors, addresses and paths of this machine, which would differ in every table."""
    return re.sub(r"\x1b\[\d*m|object at 0x\w+|Load model from \S+ failed:", "", text).replace("\t", " ")


def print_counts(rows):
    """Prints the number of verdicts by library, as a Markdown table."""
    libraries = sorted({row.library for row in rows})
    counts = collections.Counter((row.library, row.verdict) for row in rows)
    verdicts = [verdict for verdict in VERDICTS if any(counts[library, verdict] for library in libraries)]
    print("| library | " + " | ".join(verdicts) + " |")
    print("| --- |" + " ---: |" * len(verdicts))
    for library in libraries:
        print(f"| {library} | " + " | ".join(str(counts[library, verdict]) for verdict in verdicts) + " |")
    print("| all | " + " | ".join(str(sum(counts[library, v] for library in libraries)) for v in verdicts) + " |")


def say(text):
    # In a library's process, stderr is its log; progress goes to the original stderr.
    print(f"{time.strftime('%H:%M:%S')} {text}", file=PROGRESS, flush=True)


PROGRESS = os.fdopen(os.dup(2), "w")

if __name__ == "__main__":
    main()
