#!/usr/bin/env python3
"""Refits exported models with new weights, and compares the artifact byte for byte with one compiled from the model with these weights.

Each model is tried as it is, and with layers in fp8, whose weights the compiler rounds.

usage: check_refit.py FUSEC MODEL.onnx...
"""

import itertools
import pathlib
import subprocess
import sys
import tempfile

import numpy
import onnx
from onnx import numpy_helper

FUSEC = sys.argv[1]


def fusec(*arguments):
    done = subprocess.run([FUSEC, *map(str, arguments)], capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"fusec {' '.join(map(str, arguments))} ended with {done.returncode}: {done.stderr}")


def retrained(path, output):
    """The model with other numbers in its weights. Constants that training would not change, such as a bias of zeros, stay."""
    model, random = onnx.load(path), numpy.random.default_rng(7)
    for tensor in model.graph.initializer:
        values = numpy_helper.to_array(tensor)
        if values.dtype.kind == "f" and values.size > 8:
            changed = values * (1 + 0.1 * random.standard_normal(values.shape))
            trained = changed if len(numpy.unique(values)) > 1 else values
            tensor.CopyFrom(numpy_helper.from_array(trained.astype(values.dtype), tensor.name))
    onnx.save(model, output)


def differences(a, b):
    files = {path.relative_to(folder) for folder in (a, b) for path in folder.rglob("*") if path.is_file()}
    return sorted(str(file) for file in files if not all((folder / file).is_file() for folder in (a, b))
                  or (a / file).read_bytes() != (b / file).read_bytes())  # fmt: skip


def main():
    passed = failed = 0
    for name, precision in itertools.product(sys.argv[2:], ("highest", "fp8")):
        with tempfile.TemporaryDirectory() as temporary:
            folder = pathlib.Path(temporary)
            (folder / "new").mkdir()
            model, new = pathlib.Path(name), folder / "new" / pathlib.Path(name).name
            retrained(model, new)
            flags = ("--target", "sm_90a", "--matmul-precision", precision)
            fusec(model, "-o", folder / "A", *flags)
            fusec(new, "-o", folder / "B", *flags)
            fusec("refit", folder / "A", "--weights", new, "-o", folder / "AB")
            fusec("refit", folder / "AB", "--weights", model, "-o", folder / "ABA")
            differing = differences(folder / "B", folder / "AB") + differences(folder / "A", folder / "ABA")
        if differing:
            print(f"FAIL  {model.name} {precision}: {', '.join(differing)}")
        passed, failed = passed + (not differing), failed + bool(differing)
    print(f"{passed} passed, {failed} failed")
    sys.exit(1 if failed else 0)


main()
