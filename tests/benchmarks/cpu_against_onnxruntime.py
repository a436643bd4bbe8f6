#!/usr/bin/env python3
"""Times every model of models/ on the CPU, fusec's artifact beside onnxruntime, with equal threads.

    .deps/venv/bin/python tests/benchmarks/cpu_against_onnxruntime.py [--threads 2] [--json FILE]

Call latency: from inputs in host memory to outputs in host memory, in microseconds. Each is timed in `--rounds`
rounds that alternate between the two; a round's figure is its median, the cell's figure the best round.
"""
import argparse
import json
import os
import platform
import subprocess
import tempfile
import time
from pathlib import Path

import numpy as np
import onnxruntime as ort

ROOT = Path(__file__).resolve().parents[2]
FUSEC = ROOT / "build" / "fusec"
BATCHES = [1, 64, 2048]


def processor():
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.machine()


def random_inputs(session, batch):
    """Standard normal floats; ids of 0 to 2, which every table of the models has."""
    rng = np.random.default_rng(batch)
    inputs = {}
    for info in session.get_inputs():
        shape = [batch if isinstance(size, str) else size for size in info.shape]
        if info.type == "tensor(int64)":
            inputs[info.name] = rng.integers(0, 3, size=shape)
        else:
            inputs[info.name] = rng.standard_normal(shape).astype(np.float32)
    return inputs


def time_onnxruntime(session, inputs, seconds):
    """Median microseconds of a call; Python's share is a few of them."""
    times = []
    session.run(None, inputs)
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(times) < 5:
        start = time.perf_counter()
        session.run(None, inputs)
        times.append((time.perf_counter() - start) * 1e6)
    return float(np.median(times))


def batch_name(session):
    """The models' only symbolic dim, which every exporter names its own way."""
    return next(size for info in session.get_inputs() for size in info.shape if isinstance(size, str))


def time_fusec(artifact, dim, threads, seconds):
    """Median microseconds of a call at `dim` ("batch=64")."""
    text = subprocess.run([FUSEC, "bench", artifact, "--device", "cpu", "--json", "--threads", str(threads),
                           "--seconds", str(seconds), "--dim", dim],
                          check=True, capture_output=True, text=True).stdout
    return json.loads(text)[0]["call_us"]["median"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", default=sorted(p.stem for p in (ROOT / "models").glob("*.onnx")))
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=0.3, help="of a round of either")
    parser.add_argument("--json", help="write the cells here as well")
    arguments = parser.parse_args()

    cells = []
    print(f"{'model':22} {'batch':>6} {'fusec us':>10} {'ort us':>10} {'ort/fusec':>10}")
    for model in arguments.models:
        path = ROOT / "models" / f"{model}.onnx"
        options = ort.SessionOptions()
        options.intra_op_num_threads = arguments.threads
        options.log_severity_level = 3
        session = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        with tempfile.TemporaryDirectory() as folder:
            artifact = Path(folder) / "artifact"
            subprocess.run([FUSEC, path, "-o", artifact, "--target", "cpu"], check=True, capture_output=True)
            for batch in BATCHES:
                inputs = random_inputs(session, batch)
                fusec, peer = [], []
                for _ in range(arguments.rounds):
                    fusec.append(time_fusec(artifact, f"{batch_name(session)}={batch}", arguments.threads, arguments.seconds))
                    peer.append(time_onnxruntime(session, inputs, arguments.seconds))
                cell = {"model": model, "batch": batch, "fusec_us": min(fusec), "onnxruntime_us": min(peer)}
                cells.append(cell)
                print(f"{model:22} {batch:6} {min(fusec):10.1f} {min(peer):10.1f} {min(peer) / min(fusec):10.2f}",
                      flush=True)
    ratios = [cell["onnxruntime_us"] / cell["fusec_us"] for cell in cells]
    mean = float(np.exp(np.mean(np.log(ratios))))
    print(f"geometric mean {mean:.2f}, least {min(ratios):.2f}")
    if arguments.json:
        versions = {"onnxruntime": ort.__version__, "processor": processor(), "threads": arguments.threads}
        Path(arguments.json).write_text(json.dumps({**versions, "cells": cells}, indent=1) + "\n")


if __name__ == "__main__":
    main()
