#!/usr/bin/env python3
"""Times every model of models/ on the CPU, with fusec and with onnxruntime, with the same number of threads.

    .deps/venv/bin/python tests/benchmarks/cpu_against_onnxruntime.py [--threads 2] [--json FILE] [--suite] [--quantized dynamic|qdq] [MODEL ...]

The figure is the latency of a call, from inputs in host memory to outputs in host memory, in microseconds. The two are timed alternately in
`--rounds` rounds; the figure of a round is its median, and that of a cell is its best round. With --suite the models are those of
models/suite.py in float32, with tables of at most 10,000 rows and the batches of its cells. Both get the same inputs, with ids from all
rows of their tables. With --quantized, the models are first quantized to 8 bits by onnxruntime: with ranges that each run finds
(quantize_dynamic), or with those of four random batches (quantize_static, its default QDQ format).
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import onnx.shape_inference
import onnxruntime as ort
from onnxruntime import quantization

ROOT = Path(__file__).resolve().parents[2]
FUSEC = ROOT / "build" / "fusec"
BATCHES = [1, 64, 2048]
sys.path += [str(ROOT / "models"), str(Path(__file__).resolve().parent / "peers")]
import suite  # noqa: E402
from machine import processor  # noqa: E402


def random_inputs(artifact, batch):
    """Random inputs: standard normal floats; ids as `fusec bench` draws them, uniform over all rows of the table that each column of an
    input indexes; and ascending offsets of bags."""
    manifest = json.loads((artifact / "manifest.json").read_text())
    sizes = {symbol["name"]: batch for symbol in manifest["symbols"]}
    functions = {"min": min, "max": max, "mod": lambda a, b: a % b, "floordiv": lambda a, b: a // b}

    def value_of(dim):
        return eval(dim, functions, sizes)  # grammar and meaning are Python's; the artifact was made here

    rng = np.random.default_rng(batch)
    inputs = {}
    for tensor in manifest["inputs"]:
        shape = [value_of(dim) for dim in tensor["shape"]]
        if tensor["dtype"] == "f32" and "index_limits" not in tensor:
            inputs[tensor["name"]] = rng.standard_normal(shape).astype(np.float32)
            continue
        limits = np.array([value_of(limit) for limit in tensor.get("index_limits", ["1001"])])
        if len(limits) > 1:  # different limits for the positions along one axis
            limits = limits.reshape([-1 if axis == tensor["index_axis"] else 1 for axis in range(len(shape))])
        if tensor["dtype"] == "f32":  # ids in some places, features in those of 0
            ids = rng.integers(0, np.maximum(limits, 1), size=shape)
            inputs[tensor["name"]] = np.where(limits == 0, rng.standard_normal(shape), ids).astype(np.float32)
            continue
        ids = rng.integers(0, np.maximum(limits, 1), size=shape, dtype=tensor["dtype"].replace("i", "int"))
        inputs[tensor["name"]] = np.sort(ids) if tensor.get("ascending") else ids
    return inputs


def time_onnxruntime(session, inputs, seconds):
    """The median microseconds of a call, including a few of Python."""
    times = []
    session.run(None, inputs)
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(times) < 5:
        start = time.perf_counter()
        session.run(None, inputs)
        times.append((time.perf_counter() - start) * 1e6)
    return float(np.median(times))


def time_fusec(artifact, inputs, threads, seconds):
    """The median microseconds of a call with the inputs of that .npz file."""
    text = subprocess.run([FUSEC, "bench", artifact, "--device", "cpu", "--json", "--threads", str(threads),
                           "--seconds", str(seconds), "--inputs", inputs],
                          check=True, capture_output=True, text=True).stdout
    return json.loads(text)[0]["call_us"]["median"]


def compiled(path, artifact):
    subprocess.run([FUSEC, path, "-o", artifact, "--target", "cpu"], check=True, capture_output=True)
    return artifact


class RandomBatches(quantization.CalibrationDataReader):
    """Four batches of random inputs of the model at `path`."""

    def __init__(self, path, folder):
        artifact = compiled(path, folder / "unquantized")
        self.batches = iter([random_inputs(artifact, batch) for batch in (61, 62, 63, 64)])

    def get_next(self):
        return next(self.batches, None)


def quantized(path, how, folder):
    """The path of the model in 8 bits, or of the model itself if `how` is None."""
    if how is None:
        return path
    result = folder / f"{path.stem}.{how}.onnx"
    if how == "dynamic":
        quantization.quantize_dynamic(path, result, weight_type=quantization.QuantType.QInt8)
    else:
        quantization.quantize_static(path, result, RandomBatches(path, folder), per_channel=True)
    return result


def cells_of(arguments, folder):
    """The (name, path, batches) of every model to time."""
    if not arguments.suite:
        names = arguments.models or sorted(path.stem for path in (ROOT / "models").glob("*.onnx"))
        return [(name, ROOT / "models" / f"{name}.onnx", BATCHES) for name in names]
    names = arguments.models or [name for name, workload in suite.WORKLOADS.items() if workload.cells]
    return [(name, suite.write_model(name, folder, scale="medium"),
             sorted({batch for batches in suite.WORKLOADS[name].cells.values() for batch in batches}))
            for name in names]


def time_cell(arguments, name, session, artifact, batch):
    """The best rounds of fusec and of onnxruntime."""
    inputs = suite.inputs_of(name, batch, "fp32", 0, "medium") if arguments.suite else random_inputs(artifact, batch)
    path = artifact.with_name("inputs.npz")
    np.savez(path, **inputs)
    fusec, peer = [], []
    for _ in range(arguments.rounds):
        fusec.append(time_fusec(artifact, path, arguments.threads, arguments.seconds))
        peer.append(time_onnxruntime(session, inputs, arguments.seconds))
    return min(fusec), min(peer)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", help="default: all")
    parser.add_argument("--suite", action="store_true")
    parser.add_argument("--quantized", choices=("dynamic", "qdq"))
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=0.3, help="seconds of a round of each")
    parser.add_argument("--json", help="also write the cells to this file")
    arguments = parser.parse_args()

    cells = []
    print(f"{'model':22} {'batch':>6} {'fusec us':>10} {'ort us':>10} {'ort/fusec':>10}")
    with tempfile.TemporaryDirectory() as temporary:
        for model, path, batches in cells_of(arguments, Path(temporary)):
            try:
                path = quantized(path, arguments.quantized, Path(temporary))
            except onnx.shape_inference.InferenceError as error:
                print(f"{model:22} onnxruntime does not quantize it: {error}")
                continue
            options = ort.SessionOptions()
            options.intra_op_num_threads = arguments.threads
            options.log_severity_level = 3
            session = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
            artifact = compiled(path, Path(temporary) / "artifact")
            for batch in batches:
                fusec, peer = time_cell(arguments, model, session, artifact, batch)
                cells.append({"model": model, "batch": batch, "fusec_us": fusec, "onnxruntime_us": peer})
                print(f"{model:22} {batch:6} {fusec:10.1f} {peer:10.1f} {peer / fusec:10.2f}", flush=True)
    ratios = [cell["onnxruntime_us"] / cell["fusec_us"] for cell in cells]
    mean = float(np.exp(np.mean(np.log(ratios))))
    print(f"geometric mean {mean:.2f}, least {min(ratios):.2f}")
    if arguments.json:
        versions = {"onnxruntime": ort.__version__, "processor": processor(), "threads": arguments.threads}
        Path(arguments.json).write_text(json.dumps({**versions, "cells": cells}, indent=1) + "\n")


if __name__ == "__main__":
    main()
