#!/usr/bin/env python3
"""Compiles kept exports for the GPU of this machine, and compares their answers there with the interpreter and onnxruntime.

    python3 tests/zoo/on_gpu.py FOLDER [--fusec PROGRAM] [--target GPU] [--jobs N] [--seconds S] [--table FILE]

FOLDER is a folder that run.py made (LIBRARY/MODEL.EXPORTER/model.onnx with inputs.N.npz). Each export takes three commands: `fusec verify
--device cuda` with each file of inputs, the same with random inputs at batches 1, 5 and 64, and `--per-fusion`, which compares each kernel
alone. This needs numpy and onnxruntime. Exports that are not begun within S seconds are counted as left out. Exits with 1 if an export
crashes or is wrong.
"""

import argparse
import collections
import concurrent.futures
import pathlib
import shutil
import sys
import tempfile
import time

from judge import Fusec, by_onnxruntime
from isolated import first_line

HERE = pathlib.Path(__file__).resolve().parent
CHECKS = {"random": [], "per-fusion": ["--per-fusion"]}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path, help="folder of exports")
    parser.add_argument("--fusec", type=pathlib.Path, default=HERE.parents[1] / "build/fusec", help="program to judge (default: build/fusec)")
    parser.add_argument("--target", default="sm_90a", help="its architecture (default: sm_90a)")
    parser.add_argument("--jobs", type=int, default=8, help="exports at once (default: 8)")
    parser.add_argument("--seconds", type=float, default=1e9, help="begin no export after this time")
    parser.add_argument("--table", type=pathlib.Path, help="also write a table to this file")
    arguments = parser.parse_args()
    fusec = Fusec(arguments.fusec)
    until = time.monotonic() + arguments.seconds
    folders = sorted(file.parent for file in arguments.folder.glob("*/*/model.onnx"))

    def one(folder):
        return judge(fusec, folder, arguments.target) if time.monotonic() < until else ("left out", "")

    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        rows = list(zip(folders, pool.map(one, folders)))
    lines = ["library\tmodel\tverdict\treason"]
    for folder, (verdict, reason) in rows:
        lines.append(f"{folder.parent.name}\t{folder.name}\t{verdict}\t{reason}")
        if verdict not in ("right", "left out"):
            print(lines[-1])
    if arguments.table:
        arguments.table.write_text("\n".join(lines) + "\n", encoding="utf-8")
    counts = collections.Counter(verdict for _, (verdict, _) in rows)
    print(", ".join(f"{count} {verdict}" for verdict, count in counts.most_common()))
    sys.exit(1 if counts["crash"] or counts["wrong"] else 0)


def judge(fusec, folder, target):
    """The verdict on one export, and its reason."""
    model = folder / "model.onnx"
    ran, _ = by_onnxruntime(folder)
    if not ran:
        return "not run by onnxruntime", ""
    artifact = pathlib.Path(tempfile.mkdtemp()) / "artifact"
    try:
        built = fusec(model, "-o", artifact, "--target", target)
        if built.code != 0:
            return ("crash" if built.crashed else "unsupported"), built.reason
        checks = {file.name: fusec("verify", artifact, "--model", model, "--device", "cuda", "--inputs", file) for file in ran}
        for name, flags in CHECKS.items():
            checks[name] = fusec("verify", artifact, *([] if flags else ["--model", model]), "--device", "cuda", *flags)
    finally:
        shutil.rmtree(artifact.parent, ignore_errors=True)
    for name, check in checks.items():
        if check.crashed:
            return "crash", f"{name}: {check.reason}"
    for name, check in checks.items():
        if check.code == 1:
            return "wrong", f"{name}: {first_line(next((line for line in check.output.splitlines() if 'FAIL' in line), check.output))}"
    for name, check in checks.items():
        if check.code != 0:
            return "refused", f"{name}: {check.reason}"
    return "right", ""


main()
