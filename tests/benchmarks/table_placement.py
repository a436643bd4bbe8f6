#!/usr/bin/env python3
"""Times multi-hot look-ups in embedding tables on a GPU, with the tables in GPU memory and in page-locked host memory (--table-placement).

    FUSEC=build/fusec python3 tests/benchmarks/table_placement.py [--tables 8 --rows 1000000 --dim 128 --ids 10 --batch 2048] [--json FILE]

The model sums `ids` rows of each table for every row of the batch and concatenates the sums. For f32 and int8 rows, for both placements, and
for ids that are uniform and zipf (skewed: a few ids dominate), the script prints

    us              the device time of one run (median of `fusec bench`)
    rows GB/s       the bytes of all rows that a run looks up, with their scales and biases, by that time; of tables in host memory this is
                    the rate over the bus, but for rows that the GPU's cache had
    of a copy       this rate as a part of what one plain copy of 256 MiB of page-locked memory to the GPU reaches on the same machine
    slowdown        the time beside that of the same tables in the GPU's memory

It needs numpy, onnx, a GPU, and page-locked host memory for the tables (4.1 GB in f32). The folder for the model and the artifacts
(--folder) must have room for twice that.
"""

import argparse
import ctypes
import json
import shutil
import sys
import tempfile
from pathlib import Path

sys.dont_write_bytecode = True
from bags import write_model  # noqa: E402
from program import benched, said  # noqa: E402

STORAGES = {"f32": lambda dim: 4 * dim, "int8": lambda dim: dim + 8}  # bytes of a row


def copy_rate(count=256 << 20, times=10):
    """The bytes per second of a plain copy of page-locked memory to the GPU, the best of `times` copies."""
    cuda = ctypes.CDLL("libcuda.so.1")

    def call(name, *arguments):
        code = getattr(cuda, name)(*arguments)
        if code != 0:
            sys.exit(f"{name} failed with code {code}")

    device, context = ctypes.c_int(), ctypes.c_void_p()
    call("cuInit", 0)
    call("cuDeviceGet", ctypes.byref(device), 0)
    call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
    call("cuCtxSetCurrent", context)
    host, on_gpu, stream = ctypes.c_void_p(), ctypes.c_uint64(), ctypes.c_void_p()
    begin, end, milliseconds = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_float()
    call("cuMemHostAlloc", ctypes.byref(host), ctypes.c_size_t(count), 0)
    call("cuMemAlloc_v2", ctypes.byref(on_gpu), ctypes.c_size_t(count))
    call("cuStreamCreate", ctypes.byref(stream), 1)
    for event in (begin, end):
        call("cuEventCreate", ctypes.byref(event), 0)
    best = 0.0
    for _ in range(times):
        call("cuEventRecord", begin, stream)
        call("cuMemcpyHtoDAsync_v2", on_gpu, host, ctypes.c_size_t(count), stream)
        call("cuEventRecord", end, stream)
        call("cuEventSynchronize", end)
        call("cuEventElapsedTime_v2" if hasattr(cuda, "cuEventElapsedTime_v2") else "cuEventElapsedTime", ctypes.byref(milliseconds), begin, end)
        best = max(best, count / milliseconds.value * 1e3)
    call("cuMemFreeHost", host)
    call("cuMemFree_v2", on_gpu)
    call("cuDevicePrimaryCtxRelease_v2", device)
    return best


def measure(model, storage, folder, args):
    results = []
    for placement in ("device", "host"):
        artifact = folder / f"{storage}_{placement}"
        flags = ["--table-placement", f"emb.*={placement}"]
        if storage != "f32":
            flags += ["--table-storage", f"emb.*={storage}"]
        said(model, "-o", artifact, *flags)
        for ids in ("uniform", "zipf"):
            us, report = benched(artifact, "--dim", f"batch={args.batch}", "--ids", ids, device="cuda")
            looked_up = args.batch * args.tables * args.ids * STORAGES[storage](args.dim)
            results.append({"storage": storage, "placement": placement, "ids": ids, "us": us, "row_bytes": looked_up, "device": report["device"]})
        shutil.rmtree(artifact)
    return results


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, value in (("tables", 8), ("rows", 1000000), ("dim", 128), ("ids", 10), ("batch", 2048)):
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--folder", type=Path, help="folder for temporary models and artifacts")
    parser.add_argument("--json", type=Path, help="also write the numbers to this file")
    args = parser.parse_args()
    copy = copy_rate()
    with tempfile.TemporaryDirectory(dir=args.folder) as name:
        folder = Path(name)
        model = folder / "bags.onnx"
        write_model(model, args.tables, args.rows, args.dim, args.ids)
        results = [result for storage in STORAGES for result in measure(model, storage, folder, args)]
    print(f"{args.tables} tables of {args.rows} x {args.dim}, {args.ids} ids each, batch {args.batch}, on {results[0]['device']}")
    print(f"one plain copy of page-locked memory to the GPU: {copy * 1e-9:.1f} GB/s\n")
    print("| rows | ids | tables in | us | rows GB/s | of a copy | slowdown |\n| --- | --- | --- | --- | --- | --- | --- |")
    for result in results:
        (in_gpu,) = [r for r in results if r["placement"] == "device" and all(r[k] == result[k] for k in ("storage", "ids"))]
        rate = result["row_bytes"] / result["us"] * 1e-3
        of_copy = f"{rate * 1e9 / copy:.0%}" if result["placement"] == "host" else "-"
        print(
            f"| {result['storage']} | {result['ids']} | {result['placement']} memory | {result['us']:.1f} | {rate:.1f} | {of_copy} "
            f"| {result['us'] / in_gpu['us']:.2f} |"
        )
    if args.json:
        numbers = {"arguments": {k: str(v) for k, v in vars(args).items()}, "copy_gb_s": copy * 1e-9, "results": results}
        args.json.write_text(json.dumps(numbers, indent=1) + "\n")


main()
