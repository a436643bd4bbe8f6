#!/usr/bin/env python3
"""Checks that products of precision `highest` are as exact as float32 products, whatever the numbers are. They, and NumPy's float32
products, are compared with double precision for data that are hard for split floats: wide ranges within a row, outliers, rows of zeros,
denormals, 1e30, infinities and NaN. Ends with "N passed, N failed".

usage: FUSEC=build/fusec exact_products.py [--device cuda]
"""

import argparse
import os
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

COLUMNS = 200
DEPTHS = [13, 64, 432, 3456]
BATCHES = [3, 40, 130, 700]  # rows at once; tiles by warps; by one warpgroup and by several
# The error of a product may be 1.5 times that of float32, and that of each element some units in the last place of its terms.
MOST_OF_FLOAT32, LEAST_BOUND, MOST_OF_TERMS = 1.5, 2.5e-7, 2.0**-19


def normal(random, shape):
    return random.standard_normal(shape)


def lognormal(random, shape):
    return np.exp(3 * random.standard_normal(shape)) * random.choice([-1, 1], shape)


def outliers(random, shape):
    x = random.standard_normal(shape)
    return np.where(random.random(shape) < 0.01, x * 1e5, x)


def counts_beside_shares(random, shape):
    """A column of counts up to a million among numbers below 1."""
    x = random.random(shape)
    x[..., 0] *= 1e6
    return x


def rows_of_any_size(random, shape):
    return random.standard_normal(shape) * 10.0 ** random.integers(-30, 30, (shape[0], 1))


def tiny(random, shape):
    return random.standard_normal(shape) * 1e-33  # below 2^-114 tiles by warps lose the lower part of TF32


DATA = [normal, lognormal, outliers, counts_beside_shares, rows_of_any_size, tiny]
passed = failed = 0


def check(name, holds, found):
    global passed, failed
    passed, failed = passed + bool(holds), failed + (not holds)
    print(f"{'ok  ' if holds else 'FAIL'} {name}: {found}", flush=True)


def make_model(path, weights):
    depth, columns = weights.shape
    graph = helper.make_graph(  # the op behind it keeps the product with the generated kernels
        [helper.make_node("MatMul", ["x", "w"], ["product"]), helper.make_node("Abs", ["product"], ["y"])], "product",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", depth])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", columns])], [numpy_helper.from_array(weights, "w")])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10), path)


def run(artifact, x, folder, device):
    np.save(folder / "x.npy", x)
    subprocess.run([os.environ["FUSEC"], "run", artifact, "--device", device, "--input", f"x={folder / 'x.npy'}", "--output", folder / "out"],
                   check=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    return np.load(folder / "out" / "y.npy")


def compare(name, y, x, weights):
    exact = np.abs(x.astype(np.float64) @ weights.astype(np.float64))
    terms = np.abs(x.astype(np.float64)) @ np.abs(weights.astype(np.float64))
    with np.errstate(over="ignore"):
        fits = terms < np.finfo(np.float32).max / 4
        plain = np.abs(x @ weights).astype(np.float64)
    # All rows have the same weight, however large their numbers are; numbers below float32's normal range may round to denormals.
    scale = np.maximum(np.abs(exact).max(axis=1, keepdims=True), 1e-300)
    away = np.where(fits, np.maximum(np.abs(y - exact) - 2.0**-148, 0), 0)
    plain_away = np.where(fits, np.abs(plain - exact), 0)
    size = np.sqrt(np.sum(np.where(fits, exact / scale, 0) ** 2))
    error, plain_error = (np.sqrt(np.sum((a / scale) ** 2)) / max(size, 1e-300) for a in (away, plain_away))
    worst = np.max(away / np.maximum(terms, 1e-300))
    bound = max(MOST_OF_FLOAT32 * plain_error, LEAST_BOUND)
    check(name, error <= bound and worst <= MOST_OF_TERMS,
          f"relative L2 {error:.2e} (float32 {plain_error:.2e}), worst element {worst:.2e} of its terms")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda")
    device = parser.parse_args().device
    target = "cpu" if device == "cpu" else "sm_90a"
    random = np.random.default_rng(1)
    with tempfile.TemporaryDirectory() as place:
        folder = pathlib.Path(place)
        for depth in DEPTHS:
            for make in DATA:
                weights = make(random, (COLUMNS, depth)).astype(np.float32).T.copy()
                if make in (rows_of_any_size, tiny):
                    weights = random.standard_normal((depth, COLUMNS)).astype(np.float32)
                make_model(folder / "model.onnx", weights)
                subprocess.run([os.environ["FUSEC"], folder / "model.onnx", "-o", folder / "model", "--target", target],
                               check=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
                for batch in BATCHES:
                    x = make(random, (batch, depth)).astype(np.float32)
                    x[batch // 2] = 0
                    compare(f"{depth} terms, {batch} rows, {make.__name__}", run(folder / "model", x, folder, device), x, weights)
            x = random.standard_normal((700, depth)).astype(np.float32)
            x[5, 2], x[77, 1], x[300, 0] = np.inf, -np.inf, np.nan
            y = run(folder / "model", x, folder, device)
            with np.errstate(invalid="ignore"):
                expected = np.abs(x @ weights)
            same = np.array_equal(np.isnan(y), np.isnan(expected)) and np.array_equal(y == np.inf, expected == np.inf)
            check(f"{depth} terms, infinities and NaN stay in their rows", same, f"{np.isnan(y).sum()} NaN")
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
