#!/usr/bin/env python3
"""Times multi-hot look-ups in embedding tables, by how the tables are stored (--table-storage).

    FUSEC=build/fusec python3 tests/benchmarks/table_storage.py [--tables 26 --rows 200000 --dim 128 --ids 10 --batch 2048] [--json FILE]

The model sums `ids` rows of each table for every row of the batch and concatenates the sums; ids are uniform. For each storage the script
prints the device time of one run (the whole call on a CPU), the bytes that `fusec explain` counts, their rate, and the speed beside f32.
It needs numpy and onnx. Tables should be much larger than the L2 cache, as the defaults are (2.7 GB in f32), and the folder for the
models and artifacts (--folder) must hold twice that.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

STORAGES = ("f32", "f16", "int8", "int4", "fp8")
FUSEC = os.environ.get("FUSEC", str(Path(__file__).resolve().parents[2] / "build" / "fusec"))


def write_model(path, tables, rows, dim, ids):
    import numpy as np
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    random = np.random.default_rng(0)
    initializers = [numpy_helper.from_array(np.array([1], np.int64), "axes")]
    nodes = []
    for t in range(tables):
        table = random.standard_normal((rows, dim), dtype=np.float32) * np.float32(0.1)
        initializers.append(numpy_helper.from_array(table, f"emb.{t}.weight"))
        initializers.append(numpy_helper.from_array(np.array(t, np.int64), f"number_{t}"))
        nodes.append(helper.make_node("Gather", ["ids", f"number_{t}"], [f"ids_{t}"], axis=1))
        nodes.append(helper.make_node("Gather", [f"emb.{t}.weight", f"ids_{t}"], [f"rows_{t}"], name=f"/emb/{t}/Gather"))
        nodes.append(helper.make_node("ReduceSum", [f"rows_{t}", "axes"], [f"bag_{t}"], keepdims=0))
    nodes.append(helper.make_node("Concat", [f"bag_{t}" for t in range(tables)], ["features"], axis=1))
    graph = helper.make_graph(
        nodes,
        "bags",
        [helper.make_tensor_value_info("ids", TensorProto.INT64, ["batch", tables, ids])],
        [helper.make_tensor_value_info("features", TensorProto.FLOAT, ["batch", tables * dim])],
        initializers,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    onnx.save(model, str(path), save_as_external_data=True, all_tensors_to_one_file=True, location=path.stem + ".data")


def said(*command):
    result = subprocess.run([FUSEC, *map(str, command)], stdout=subprocess.PIPE, text=True)
    if result.returncode != 0:
        sys.exit(f"{command[0]} failed with exit code {result.returncode}")
    return result.stdout


def measure(model, storage, folder, args):
    artifact = folder / storage
    flags = [] if storage == "f32" else ["--table-storage", f"emb.*={storage}"]
    target = ["--target", args.target] if args.target else []
    said(model, "-o", artifact, *flags, *target)
    dims = f"batch={args.batch}"
    device = ["--device", args.device] if args.device else []
    (report,) = json.loads(said("bench", artifact, "--dim", dims, "--json", *device))
    explained = json.loads(said("explain", artifact, "--dim", dims, "--json"))
    shutil.rmtree(artifact)
    times = report.get("device_us") or report["call_us"]
    us = times["median"] if isinstance(times, dict) else times
    moved = explained["after"]["bytes"]
    return {"storage": storage, "us": us, "bytes": moved, "launches": explained["launches"], "device": report["device"]}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, value in (("tables", 26), ("rows", 200000), ("dim", 128), ("ids", 10), ("batch", 2048)):
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--device", default="", help="as for fusec bench")
    parser.add_argument("--target", default="", help="as for fusec compile")
    parser.add_argument("--folder", type=Path, help="where models and artifacts are written for the time being")
    parser.add_argument("--json", type=Path, help="write the numbers to this file, too")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=args.folder) as name:
        folder = Path(name)
        model = folder / "bags.onnx"
        write_model(model, args.tables, args.rows, args.dim, args.ids)
        results = [measure(model, storage, folder, args) for storage in STORAGES]
    print(f"{args.tables} tables of {args.rows} x {args.dim}, {args.ids} ids each, batch {args.batch}, on {results[0]['device']}\n")
    print("| storage | us | GB/s | times f32's speed | launches |\n| --- | --- | --- | --- | --- |")
    for result in results:
        rate = result["bytes"] / result["us"] * 1e-3
        speed = results[0]["us"] / result["us"]
        print(f"| {result['storage']} | {result['us']:.1f} | {rate:.0f} | {speed:.2f} | {result['launches']} |")
    if args.json:
        args.json.write_text(json.dumps({"arguments": {k: str(v) for k, v in vars(args).items()}, "results": results}, indent=1) + "\n")


main()
