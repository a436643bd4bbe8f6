#!/usr/bin/env python3
"""Measures the time that an HTTP request takes on the event loop of a replica that listens itself, without Ray: 64 clients in another
process send requests to a ModelServer in this one, each on a persistent connection.

    PYTHONPATH=build/python PYTHON tests/benchmarks/serve_loop.py [--model models/dlrm_dot.ts.onnx] [--rows 1,16,256] [--seconds 2]
        [--rounds 3] [--model-us 60] [--json FILE]

PYTHON is the same as for serve_http.py. The CPU time is the user and system time of the loop's thread, which delays by other work do not
change; that of the whole process includes the lanes. With --model-us the model is replaced by a sleep of that many microseconds, which
returns zeros, like a GPU that is never the limit. For each row of the table, the round with the least CPU time counts.
"""

import argparse
import asyncio
import concurrent.futures
import contextlib
import io
import json
import multiprocessing
import os
import resource
import sys
import tempfile
import time
from pathlib import Path

os.environ.setdefault("FUSEC_NUM_THREADS", "1")
sys.dont_write_bytecode = True

import fusec  # noqa: E402
import numpy as np  # noqa: E402
import uvloop  # noqa: E402
from fusec.serve import DirectOptions, GatewayOptions  # noqa: E402
from fusec.serve._direct import DirectServer  # noqa: E402
from fusec.serve._gateway import Gateway  # noqa: E402
from serve import CLIENTS, ROOT, Served, batch_rows, body_of, report, started  # noqa: E402
from serve_http import OneModel, ask, free_port, numbers, request_of  # noqa: E402


def sleeps(signature, microseconds):
    """Replaces a context of the model."""
    outputs = [(spec.shape[1:], spec.dtype) for spec in signature.outputs]

    def call(*inputs):
        time.sleep(1e-6 * microseconds)
        return tuple(np.zeros((len(inputs[0]), *shape), dtype) for shape, dtype in outputs)

    return call


def counters(server):
    usage = resource.getrusage(resource.RUSAGE_THREAD)
    rows, batches = batch_rows(server.samples())
    return np.array([time.perf_counter(), usage.ru_utime, usage.ru_stime, time.process_time(), rows, batches])


async def measure(server, port, pool, rows, seconds):
    """A row of the table, from one round."""
    request = request_of("m", *body_of(server, rows))
    asking = asyncio.get_running_loop().run_in_executor(pool, ask, port, request, CLIENTS, seconds + 1)
    await asyncio.sleep(0.5)
    before = counters(server)
    await asyncio.sleep(seconds)
    wall, user, system, process, done, batches = (float(value) for value in counters(server) - before)
    _, refused = await asking
    if refused:
        raise SystemExit(f"{len(refused)} requests were refused: {refused[0]}")
    count = done / rows
    return {
        "rows": rows,
        "requests_per_second": count / wall,
        "batch_rows": done / batches,
        "loop_user_us": 1e6 * user / count,
        "loop_system_us": 1e6 * system / count,
        "process_us": 1e6 * process / count,
    }


async def measure_all(args, artifact):
    server = await started(Served(artifact, args.model, "cpu"), "fusec")
    if args.model_us is not None:
        for lane in server._loaded.batcher.lanes:
            lane._context = sleeps(server._loaded.signature, args.model_us)
    port, found = free_port(), []
    direct = DirectServer(Gateway(OneModel(server), GatewayOptions()), DirectOptions(("127.0.0.1", port)), server)
    await direct.start()
    with concurrent.futures.ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        for rows in args.rows:
            rounds = [await measure(server, port, pool, rows, args.seconds) for _ in range(args.rounds)]
            found.append(min(rounds, key=lambda row: row["loop_user_us"] + row["loop_system_us"]))
            print(json.dumps(found[-1]), file=sys.stderr)
    await direct.close()
    await server.close()
    return found


def table(found):
    yield "| rows a request | requests a second | rows of a batch | loop, us of CPU: user | system | process |\n" + "| --- " * 6 + "|"
    for row in found:
        yield (
            f"| {row['rows']} | {row['requests_per_second']:,.0f} | {row['batch_rows']:.0f} | {row['loop_user_us']:.0f} "
            f"| {row['loop_system_us']:.0f} | {row['process_us']:.0f} |"
        )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default=str(ROOT / "models/dlrm_dot.ts.onnx"))
    parser.add_argument("--rows", default="1,16,256", type=numbers, help="rows of a request")
    parser.add_argument("--seconds", default=2.0, type=float)
    parser.add_argument("--rounds", default=3, type=int)
    parser.add_argument("--model-us", type=float, help="sleep this long instead of running the model")
    parser.add_argument("--json", type=Path, help="also write the numbers to this file")
    args = parser.parse_args()
    args.device, args.client_processes, before = "cpu", 1, os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as folder:
        artifact = os.path.join(folder, "artifact")
        with contextlib.redirect_stderr(io.StringIO()):
            fusec.compile(args.model, artifact, target="cpu", cpu_level="native")
        found = uvloop.run(measure_all(args, artifact))
    report(args, before, {"model_us": args.model_us, "loop": found}, table(found))


if __name__ == "__main__":
    main()
