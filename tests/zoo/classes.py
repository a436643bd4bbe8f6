#!/usr/bin/env python3
"""Groups the failures of a work folder by fusec's message, and writes the smallest model for each group.

    .deps/zoo/bin/python tests/zoo/classes.py FOLDER [--work FOLDER] [--fusec PROGRAM]

FOLDER/CLASSES.md lists the groups, those with most models first; a model that exists already is not made again.
"""

import argparse
import collections
import json
import pathlib
import re
import shutil
import subprocess
import sys

from reduce import shape_of

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
FAILURES = ("crash", "wrong", "doubtful", "unsupported", "refused", "narrowed", "verify-erred", "timeout")
REDUCED = ("crash", "unsupported")  # what reduce.py can judge


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--work", type=pathlib.Path, default=ROOT / "build-zoo")
    parser.add_argument("--fusec", type=pathlib.Path, default=ROOT / "build/fusec")
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    classes = collections.defaultdict(list)
    for file in sorted(arguments.work.glob("*/*/row.json")):
        row = json.loads(file.read_text())
        if row["verdict"] in FAILURES:
            classes[row["verdict"], class_of(row["reason"])].append((file.parent, row))
        if row["gpu"].startswith("crash"):
            classes["crash", class_of(row["gpu"])].append((file.parent, row))
    order = sorted(classes.items(), key=lambda one: (FAILURES.index(one[0][0]), -len(one[1])))
    lines = ["# Classes of failures, worst first, then by number of exports", "", "| verdict | exports | class | first line of one | smallest file | models |", "| --- | ---: | --- | --- | --- | --- |"]
    for (verdict, words), members in order:
        folder, row = min(members, key=lambda one: (one[0] / "model.onnx").stat().st_size)
        small = smallest(verdict, words, folder, arguments)
        names = " ".join(sorted(f"{one['library'].removesuffix('_models')}/{one['model']}.{one['exporter']}" for _, one in members)[:6])
        more = f" and {len(members) - 6} more" if len(members) > 6 else ""
        lines.append(f"| {verdict} | {len(members)} | {cell(words)} | {cell(row['reason'][:160])} | {small} | {names}{more} |")
        (arguments.folder / "CLASSES.md").write_text("\n".join(lines) + "\n")


def class_of(reason):
    """The message without names of nodes; of an op, only the name of the op."""
    unsupported = re.findall(r"unsupported op: (\w+)|unsupported ops?: (\w+)", reason)
    words = re.sub(r"^node \S+ \((\w+)\): ", r"\1: ", reason)
    return f"unsupported op {''.join(unsupported[0])}" if unsupported else shape_of(words)


def cell(text):
    return text.replace("|", "\\|")


def smallest(verdict, words, folder, arguments):
    name = re.sub(r"[^a-z0-9]+", "_", f"{verdict}_{words}".lower()).strip("_")[:70] + ".onnx"
    target = arguments.folder / name
    if not target.exists():
        done = None
        if verdict in REDUCED:
            command = [sys.executable, HERE / "reduce.py", folder / "model.onnx", target, "--fusec", arguments.fusec]
            try:
                done = subprocess.run(command, capture_output=True, text=True, timeout=90)
                print(f"{name}: {done.stdout.strip() or done.stderr.strip()[-300:]}", file=sys.stderr, flush=True)
            except subprocess.TimeoutExpired:
                print(f"{name}: reduction took too long", file=sys.stderr, flush=True)
        if not target.exists():
            shutil.copy(folder / "model.onnx", target)
            for inputs in folder.glob("inputs.*.npz"):
                shutil.copy(inputs, target.with_suffix(f".{inputs.name}"))
    return f"{name} ({target.stat().st_size} B)"


if __name__ == "__main__":
    main()
