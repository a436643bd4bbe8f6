#!/usr/bin/env python3
"""Times multi-hot look-ups in embedding tables with different table storages (--table-storage).

    FUSEC=build/fusec python3 tests/benchmarks/table_storage.py [--tables 26 --rows 200000 --dim 128 --ids 10 --batch 2048] [--json FILE]

The model sums `ids` rows of each table for every row of the batch and concatenates the sums; ids are uniform. For each storage the script
prints the device time of one run (on a CPU, the time of the whole call), the bytes that `fusec explain` counts, their rate, and the speed
relative to f32. It needs numpy and onnx. Tables should be much larger than the L2 cache, as with the defaults (2.7 GB in f32), and the
folder for the models and artifacts (--folder) must have room for twice that.
"""

import argparse
import json
import shutil
import sys
import tempfile
from pathlib import Path

sys.dont_write_bytecode = True
from bags import write_model  # noqa: E402
from program import benched, said  # noqa: E402

STORAGES = ("f32", "f16", "int8", "int4", "fp8")


def measure(model, storage, folder, args):
    artifact = folder / storage
    flags = [] if storage == "f32" else ["--table-storage", f"emb.*={storage}"]
    target = ["--target", args.target] if args.target else []
    said(model, "-o", artifact, *flags, *target)
    dims = f"batch={args.batch}"
    us, report = benched(artifact, "--dim", dims, device=args.device)
    explained = json.loads(said("explain", artifact, "--dim", dims, "--json"))
    shutil.rmtree(artifact)
    moved = explained["after"]["bytes"]
    return {"storage": storage, "us": us, "bytes": moved, "launches": explained["launches"], "device": report["device"]}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, value in (("tables", 26), ("rows", 200000), ("dim", 128), ("ids", 10), ("batch", 2048)):
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--device", default="", help="as for fusec bench")
    parser.add_argument("--target", default="", help="as for fusec compile")
    parser.add_argument("--folder", type=Path, help="folder for temporary models and artifacts")
    parser.add_argument("--json", type=Path, help="also write the numbers to this file")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=args.folder) as name:
        folder = Path(name)
        model = folder / "bags.onnx"
        write_model(model, args.tables, args.rows, args.dim, args.ids, one_input=True)
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
