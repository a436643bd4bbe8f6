#!/usr/bin/env python3
"""Measures the runs per second of threads that share a model, through Python and in C; each thread has a context of its own.

    PYTHONPATH=build/python python3 tests/benchmarks/python_threads.py [--threads 1,2,4,10 --seconds 1] [--device cpu] [--json FILE]

There are two models from `models/`: one whose run takes a microsecond, and one whose run takes long on a CPU. In Python, a thread calls
`run_into` with NumPy arrays; in C, `fusec bench --contexts` runs. On a CPU, each run uses one core (FUSEC_NUM_THREADS=1), so that only the
number of threads scales.

Python's global lock (GIL) is released while a model runs, unless handing it over would take longer than the run; it is held while a call
converts its arguments. The time that a call takes longer through Python than in C therefore limits the rate of all threads together. The
last line prints it for the short model, where it shows best. Other work on the machine disturbs both measurements. The script needs numpy
and the Python package.
"""

import argparse
import contextlib
import io
import json
import os
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

MODELS = Path(__file__).resolve().parents[2] / "models"
CASES = (("lora_mlp", 1), ("dlrm_dot", 256))


def inputs_of(model, batch):
    import numpy as np

    dtypes = {"f32": np.float32, "i64": np.int64, "i32": np.int32}
    return [
        np.ones([batch if isinstance(size, str) else size for size in tensor.shape], dtypes[tensor.dtype]) for tensor in model.inputs
    ]


def runs_a_second(model, batch, count, seconds):
    """The rate of `count` threads, which all begin at once."""
    inputs = inputs_of(model, batch)
    ready = threading.Barrier(count)

    def work(_):
        try:
            context = model.context()
            out = model(*inputs)
        except BaseException:
            ready.abort()  # the others would wait forever
            raise
        ready.wait()
        start, calls = time.perf_counter(), 0
        while time.perf_counter() - start < seconds:
            for _ in range(20):
                context.run_into(out, *inputs)
            calls += 20
        return calls / (time.perf_counter() - start)

    with ThreadPoolExecutor(count) as pool:
        return sum(pool.map(work, range(count)))


def measure(name, batch, args, folder):
    import fusec

    with contextlib.redirect_stderr(io.StringIO()):
        artifact = fusec.compile(MODELS / f"{name}.ts.onnx", output=folder / name, target="cpu" if args.device == "cpu" else "native")
    model = fusec.load(artifact, args.device)
    rows = []
    for count in args.threads:
        in_c = fusec.bench(artifact, dims={"batch": batch}, contexts=count, seconds=args.seconds, device=args.device, rotate=1)[0]
        through_python = max(runs_a_second(model, batch, count, args.seconds) for _ in range(args.rounds))
        rows.append({"model": name, "batch": batch, "threads": count, "c": in_c.runs_per_second, "python": through_python})
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", default="1,2,4,10", type=lambda text: [int(part) for part in text.split(",")])
    parser.add_argument("--seconds", default=1.0, type=float, help="seconds of a measurement")
    parser.add_argument("--rounds", default=3, type=int, help="number of rounds; the best counts")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--json", type=Path, help="also write the numbers to this file")
    args = parser.parse_args()
    os.environ["FUSEC_NUM_THREADS"] = "1"
    print(f"{os.cpu_count()} cores, Python {sys.version.split()[0]}")
    print("| model, batch | threads | runs a second in C | through Python | of C |\n| --- | --- | --- | --- | --- |")
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for name, batch in CASES:
            for row in measure(name, batch, args, Path(folder)):
                print(f"| {name}, {batch} | {row['threads']} | {row['c']:,.0f} | {row['python']:,.0f} | {row['python'] / row['c']:.0%} |")
                rows.append(row)
    short = next((row for row in rows if row["threads"] == 1), None)
    if short and short["python"] < short["c"]:
        longer_us = 1e6 / short["python"] - 1e6 / short["c"]
        print(f"A call takes {longer_us:.2f} us longer through Python: all threads together make at most {1e6 / longer_us:,.0f} a second.")
    if args.json:
        args.json.write_text(json.dumps(rows, indent=1) + "\n")


main()
