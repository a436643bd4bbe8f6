#!/usr/bin/env python3
"""Times updates of table rows while a model serves (model.update_rows), on a GPU or a CPU.

    PYTHONPATH=build/python FUSEC=build/fusec python3 tests/benchmarks/update_rows.py [--device cuda --seconds 60] [--json FILE]

The model sums `ids` rows of each of `tables` tables for every row of the batch. The script prints two things:

1. rows a second, by storage and kind of memory: calls that replace `count` random rows of one table each, of `dim` f32 elements (32 are
   128 bytes) in page-locked or pageable host memory, for `burst` seconds. Each call returns when its rows are in the table.
2. a feed beside traffic: threads call the model at batch `batch`, first alone and then while one thread replaces `share` of all rows a
   second, in calls of `count` rows; how long a call takes (p50 and p99), and what the process's memory grew by meanwhile.

It needs numpy, onnx and the Python package.
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
from pathlib import Path

sys.dont_write_bytecode = True
from bags import write_model  # noqa: E402

STORAGES = ("f32", "f16", "int8", "int4", "fp8")


def load(model, storage, folder, args):
    import fusec

    flags = {} if storage == "f32" else {"table_storage": {"emb.*": storage}}
    with contextlib.redirect_stderr(io.StringIO()):
        artifact = fusec.compile(model, output=folder / storage, target="cpu" if args.device == "cpu" else "native", **flags)
    return fusec.load(artifact, args.device)


def new_rows(loaded, args, kind, seed):
    """The ids and rows of a call, in page-locked (on a CPU: ordinary) or pageable memory."""
    import numpy as np

    random = np.random.default_rng(seed)
    ids, rows = random.integers(0, args.rows, args.count), random.standard_normal((args.count, args.dim), dtype=np.float32)
    if kind == "pageable":
        return ids, rows
    locked = loaded.allocate_host(list(ids.shape), "i64"), loaded.allocate_host(list(rows.shape), "f32")
    for to, source in zip(locked, (ids, rows)):
        np.asarray(to)[...] = source
    return locked


def rows_a_second(loaded, args, kind):
    calls = [new_rows(loaded, args, kind, seed) for seed in range(2)]
    loaded.update_rows("emb.0.weight", *calls[0])  # makes its buffers
    start, done = time.perf_counter(), 0
    while time.perf_counter() - start < args.burst:
        loaded.update_rows(f"emb.{done % args.tables}.weight", *calls[done % 2])
        done += 1
    return done * args.count / (time.perf_counter() - start)


def resident_bytes():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def serve(loaded, args, stop, times, seed):
    import numpy as np

    random = np.random.default_rng(seed)
    context = loaded.context()
    inputs = [random.integers(0, args.rows, (args.batch, args.ids)) for _ in range(args.tables)]
    out = np.empty((args.batch, args.tables * args.dim), np.float32)
    while not stop.is_set():
        start = time.perf_counter()
        context.run_into(out, *inputs)
        times.append(time.perf_counter() - start)


def traffic(loaded, args, seconds, feeds):
    """p50 and p99 of calls in us, rows updated per second, and the bytes by which memory grew."""
    import numpy as np

    stop, times = threading.Event(), [[] for _ in range(args.threads)]
    threads = [threading.Thread(target=serve, args=(loaded, args, stop, times[i], i)) for i in range(args.threads)]
    calls = [new_rows(loaded, args, "page-locked", seed) for seed in range(4)]
    for thread in threads:
        thread.start()
    time.sleep(min(1.0, seconds / 4))  # all buffers are made
    for of_thread in times:
        of_thread.clear()
    before, start, done = resident_bytes(), time.perf_counter(), 0
    wanted = args.share * args.rows * args.tables if feeds else 0
    while (now := time.perf_counter() - start) < seconds:
        if done * args.count < wanted * now:
            loaded.update_rows(f"emb.{done % args.tables}.weight", *calls[done % len(calls)])
            done += 1
        else:
            time.sleep(0.0005)
    grown = resident_bytes() - before
    stop.set()
    for thread in threads:
        thread.join()
    us = 1e6 * np.concatenate([np.array(of_thread) for of_thread in times])
    return {
        "p50_us": float(np.percentile(us, 50)),
        "p99_us": float(np.percentile(us, 99)),
        "calls": len(us),
        "rows_a_second": done * args.count / now,
        "grown_bytes": grown,
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    defaults = (("tables", 8), ("rows", 1_000_000), ("dim", 32), ("ids", 10), ("batch", 128), ("count", 65536), ("threads", 4))
    for name, value in defaults:
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--share", type=float, default=0.01, help="share of all rows that the feed replaces per second")
    parser.add_argument("--seconds", type=float, default=60, help="seconds of the feed; traffic alone runs for a quarter of that")
    parser.add_argument("--burst", type=float, default=3, help="seconds for which each rate is measured")
    parser.add_argument("--device", default="cuda", help='"cuda", "cuda:1" or "cpu"')
    parser.add_argument("--json", type=Path, help="also write the numbers to this file")
    args = parser.parse_args()
    kinds = ("page-locked", "pageable") if args.device != "cpu" else ("pageable",)
    rates, feed = {}, {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        model = folder / "bags.onnx"
        write_model(model, args.tables, args.rows, args.dim, args.ids)
        for storage in STORAGES:
            with load(model, storage, folder, args) as loaded:
                device = loaded.device
                rates[storage] = {kind: rows_a_second(loaded, args, kind) for kind in kinds}
                if storage == "f32":
                    feed["alone"] = traffic(loaded, args, args.seconds / 4, False)
                    feed["with updates"] = traffic(loaded, args, args.seconds, True)
    print(f"{args.tables} tables of {args.rows} x {args.dim} on {device}, calls of {args.count} rows of {4 * args.dim} bytes\n")
    print(f"| storage | {' | '.join(f'million rows a second, {kind}' for kind in kinds)} |\n| --- |{' --- |' * len(kinds)}")
    for storage, by_kind in rates.items():
        print(f"| {storage} | {' | '.join(f'{by_kind[kind] / 1e6:.1f}' for kind in kinds)} |")
    print(f"\n| {args.threads} threads, batch {args.batch} | p50 us | p99 us | calls | rows updated a second | memory grew by |")
    print("| --- | --- | --- | --- | --- | --- |")
    for what, numbers in feed.items():
        times = f"{numbers['p50_us']:.0f} | {numbers['p99_us']:.0f} | {numbers['calls']}"
        print(f"| {what} | {times} | {numbers['rows_a_second']:.0f} | {numbers['grown_bytes'] / 2**20:.1f} MiB |")
    if args.json:
        arguments = {key: str(value) for key, value in vars(args).items()}
        args.json.write_text(json.dumps({"arguments": arguments, "device": device, "rates": rates, "feed": feed}, indent=1) + "\n")


main()
