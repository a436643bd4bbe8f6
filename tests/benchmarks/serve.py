#!/usr/bin/env python3
"""Times fusec.serve on this machine: the time that a replica adds to a run, and the throughput of 64 clients through Ray, compared with
onnxruntime on the CPU behind the same batching and the same deployment.

    PYTHONPATH=build/python PYTHON tests/benchmarks/serve.py [--model models/dlrm_dot.ts.onnx] [--device cpu|cuda] [--client-processes 8]
        [--seconds 5] [--rounds 3] [--json FILE]

PYTHON must have ray[serve], onnxruntime, onnx and numpy (.deps/serve, which tests/python/nightly.sh makes). The model always runs with one
thread, so that Ray has the other cores. The script prints four tables:

  overhead     one client, one request at a time, without Ray: the median of ModelServer.infer (protocol, queue, batch, copies, split) less
               the batching delay and the median of the model's own run in it, of a request that comes as rarely
  saturation   64 clients at a time, each with `rows` rows a request: rows a second through ModelServer.predict in one process, and through
               handles of Ray; "of bare" is their share of what the model alone does in a loop, in batches of the mean size that was reached
  start        seconds of serve.run until an application of fusec.serve is ready, and one that does nothing, both in a Ray that runs
  echo         what Ray takes without any model: the median of one call at a time through a handle to a deployment that returns its
               argument, and how many a second 64 clients make

For each figure the best round counts. Other work on the machine disturbs all figures.
"""

import argparse
import asyncio
import contextlib
import functools
import io
import json
import os
import statistics
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

os.environ.setdefault("FUSEC_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")
sys.dont_write_bytecode = True
sys.path.append(str(Path(__file__).resolve().parent / "peers"))

import fusec  # noqa: E402
import numpy as np  # noqa: E402
from fusec.serve import BatchOptions, _protocol  # noqa: E402
from fusec.serve._http_protocol import HttpInfer  # noqa: E402
from fusec.serve._server import ModelServer  # noqa: E402
from machine import processor  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
CLIENTS = 64


class OnnxRuntimeModel:
    """onnxruntime with the interface of fusec.Model that a ModelServer uses; the signature is that of the artifact."""

    def __init__(self, model, onnx):
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        self._model, self._session = model, onnxruntime.InferenceSession(onnx, options, providers=["CPUExecutionProvider"])
        self._names = [tensor.name for tensor in self._session.get_inputs()]
        self.tables, self.device = (), "cpu"

    def __getattr__(self, name):
        return getattr(self._model, name)

    def context(self):
        return lambda *inputs: tuple(self._session.run(None, dict(zip(self._names, inputs))))

    def close(self):
        self._model.close()


@dataclass(frozen=True)
class Served:
    """A model, and the device on which fusec runs it."""

    artifact: str
    onnx: str
    device: str

    @property
    def resources(self):
        """The resources that Ray reserves for a replica."""
        return {"num_gpus": 0.1 if self.device.startswith("cuda") else 0}

    def load(self, engine, load=fusec.load):
        model = load(self.artifact, self.device)
        return OnnxRuntimeModel(model, self.onnx) if engine == "onnxruntime" else model


async def started(served, engine, options=BatchOptions()):
    """A ModelServer with either engine."""
    server, original = ModelServer("m", served.artifact, served.device, options), fusec.load
    fusec.load = lambda *_: served.load(engine, original)
    try:
        await server.start()
    finally:
        fusec.load = original
    return server


def tensors(server, rows, seed=0):
    request = server._loaded.signature.example(rows, np.random.default_rng(seed))
    return {spec.name: array for spec, array in zip(server._loaded.signature.inputs, request.arrays)}


def body_of(server, rows):
    entries, parts = [], []
    for spec, (name, array) in zip(server._loaded.signature.inputs, tensors(server, rows).items()):
        datatype = _protocol.DATATYPES[spec.dtype_name]
        entries.append({"name": name, "datatype": datatype, "shape": array.shape, "parameters": {"binary_data_size": array.nbytes}})
        parts.append(array.tobytes())
    text = json.dumps({"inputs": entries, "parameters": {"binary_data_output": True}}).encode()
    return b"".join([text, *parts]), str(len(text))


async def overhead(served, delay_ms, rows, calls=300):
    server = await started(served, "fusec", BatchOptions(max_delay_ms=delay_ms))
    request = HttpInfer(*body_of(server, rows))
    times, runs = [], []
    lanes = list(server._loaded.batcher.lanes)
    for lane in lanes:  # measures the model's own time, in the lane where it runs
        lane._context = _timed(lane._context, runs)
    for _ in range(calls):
        start = time.perf_counter()
        await server.infer(request)
        times.append(time.perf_counter() - start)
        await asyncio.sleep(0.002)
    await server.close()
    whole, run = (1e3 * statistics.median(values) for values in (times, runs))
    return {"delay_ms": delay_ms, "rows": rows, "infer_ms": whole, "run_ms": run, "overhead_ms": whole - run - delay_ms}


def _timed(context, times):
    def call(*inputs):
        start = time.perf_counter()
        results = context(*inputs)
        times.append(time.perf_counter() - start)
        return results

    return call


async def clients(predict, requests, seconds):
    """The requests per second of as many clients as there are requests."""
    end, done = time.perf_counter() + seconds, 0

    async def client(i):
        nonlocal done
        while time.perf_counter() < end:
            await predict(requests[i])
            done += 1

    start = time.perf_counter()
    await asyncio.gather(*(client(i) for i in range(len(requests))))
    return done / (time.perf_counter() - start)


async def clients_of_ray(application, requests, seconds, processes):
    """The same through handles of Ray, with clients that are spread over processes."""
    import ray
    from ray import serve

    @ray.remote(num_cpus=0)
    class Clients:
        async def run(self, requests, seconds):
            return await clients(serve.get_app_handle(application).predict.remote, requests, seconds)

    parts = [requests[i::processes] for i in range(processes)]
    if processes == 1:
        return await clients(serve.get_app_handle(application).predict.remote, requests, seconds)
    actors = [Clients.remote() for _ in parts]
    return sum(await asyncio.gather(*(actor.run.remote(part, seconds) for actor, part in zip(actors, parts))))


def bare_rows(served, engine, rows, seconds):
    """The rows per second of the model alone, in a loop of one thread, with batches of `rows`."""
    from fusec.serve._signature import read_signature

    model = served.load(engine)
    inputs = read_signature(model).example(rows, np.random.default_rng(0)).arrays
    context, runs = model.context(), 0
    context(*inputs)
    start = time.perf_counter()
    while time.perf_counter() - start < seconds:
        context(*inputs)
        runs += 1
    return rows * runs / (time.perf_counter() - start)


def batch_rows(samples):
    """The mean number of rows of a batch, from a server's metrics samples."""
    values = {name: value for name, _, value in samples if name in ("batch_rows_sum", "batch_rows_count")}
    return values["batch_rows_sum"], values["batch_rows_count"]


async def in_process(served, engine, rows, seconds):
    server = await started(served, engine)
    requests = [tensors(server, rows, seed) for seed in range(CLIENTS)]
    before = batch_rows(server.samples())
    rate = await clients(server.predict, requests, seconds)
    after = batch_rows(server.samples())
    await server.close()
    return rate, (after[0] - before[0]) / (after[1] - before[1])


async def through_ray(served, engine, rows, seconds, processes):
    from ray import serve

    @serve.deployment(max_ongoing_requests=10_000, logging_config={"enable_access_log": False}, ray_actor_options=served.resources)
    class Replica:
        async def __init__(self):
            self._server = await started(served, engine)

        async def predict(self, request):
            return await self._server.predict(request)

        async def requests(self):
            return [tensors(self._server, rows, seed) for seed in range(CLIENTS)]

        async def batch_rows(self):
            return batch_rows(self._server.samples())

    name = f"{engine}-{rows}"
    handle = await asyncio.to_thread(serve.run, Replica.bind(), name=name, route_prefix=None)
    requests = await handle.requests.remote()
    await clients_of_ray(name, requests, 1, processes)
    before = await handle.batch_rows.remote()
    rate = await clients_of_ray(name, requests, seconds, processes)
    after = await handle.batch_rows.remote()
    await asyncio.to_thread(serve.delete, name)
    return rate, (after[0] - before[0]) / (after[1] - before[1])


async def echo(seconds, processes):
    from ray import serve

    @serve.deployment(max_ongoing_requests=10_000, logging_config={"enable_access_log": False})
    class Echo:
        async def predict(self, request):
            return request

    handle = await asyncio.to_thread(serve.run, Echo.bind(), name="echo", route_prefix=None)
    request, times = {"x": np.zeros((1, 13), np.float32)}, []
    await clients_of_ray("echo", [request] * CLIENTS, 1, processes)
    for _ in range(200):
        start = time.perf_counter()
        await handle.predict.remote(request)
        times.append(time.perf_counter() - start)
    rate = await clients_of_ray("echo", [request] * CLIENTS, seconds, processes)
    await asyncio.to_thread(serve.delete, "echo")
    return {"call_ms": 1e3 * statistics.median(times), "calls_per_second": rate}


async def starts(served):
    """The seconds until an application is ready: for fusec.serve, and for a deployment that does nothing."""
    from fusec.serve import app
    from ray import serve

    @serve.deployment
    class Nothing:
        pass

    seconds, ours = {}, app(served.artifact, device=served.device, model_options={"ray_actor_options": served.resources})
    for name, application in (("nothing", Nothing.bind()), ("fusec", ours)):
        start = time.perf_counter()
        await asyncio.to_thread(serve.run, application, name=name, route_prefix=None)
        seconds[name] = time.perf_counter() - start
        await asyncio.to_thread(serve.delete, name)
    return seconds


async def measure(served, args):
    import ray
    from ray import serve

    found = {"overhead": [], "saturation": []}
    for delay_ms in (0.0, 1.0, 2.0):
        rounds = [await overhead(served, delay_ms, 1) for _ in range(args.rounds)]
        found["overhead"].append(min(rounds, key=lambda row: row["overhead_ms"]))
        print("overhead", found["overhead"][-1], file=sys.stderr)
    resources = {"num_cpus": max(8, os.cpu_count()), "num_gpus": int(args.device != "cpu")}
    ray.init(address="local", **resources, include_dashboard=False, log_to_driver=False, logging_level="error")
    serve.start(proxy_location="Disabled")
    found["start"] = min([await starts(served) for _ in range(args.rounds)], key=lambda seconds: seconds["fusec"])
    print("start", found["start"], file=sys.stderr)
    found["echo"] = max([await echo(args.seconds, args.client_processes) for _ in range(args.rounds)], key=lambda row: row["calls_per_second"])
    print("echo", found["echo"], file=sys.stderr)
    for rows in args.rows:
        for engine in ("fusec", "onnxruntime"):
            through = functools.partial(through_ray, processes=args.client_processes)
            for way, measured in (("in one process", in_process), ("handles of Ray", through)):
                rounds = [await measured(served, engine, rows, args.seconds) for _ in range(args.rounds)]
                rate, batch = max(rounds)
                bare = max(bare_rows(served, engine, max(1, round(batch)), 1) for _ in range(args.rounds))
                row = {
                    "engine": engine,
                    "way": way,
                    "rows": rows,
                    "requests_per_second": rate,
                    "batch_rows": batch,
                    "bare_rows_per_second": bare,
                }
                found["saturation"].append({**row, "of_bare": rate * rows / bare})
                print(found["saturation"][-1], file=sys.stderr)
    serve.shutdown()
    ray.shutdown()
    return found


def tables(found):
    yield "| delay, ms | infer, p50 ms | of it the run | beyond delay and run |\n| --- | --- | --- | --- |"
    for row in found["overhead"]:
        yield f"| {row['delay_ms']:g} | {row['infer_ms']:.2f} | {row['run_ms']:.2f} | {row['overhead_ms']:.2f} |"
    yield f"\nStart: {found['start']['fusec']:.1f} s, of a deployment that does nothing {found['start']['nothing']:.1f} s"
    echoed = found["echo"]
    yield f"Echo through a handle: {echoed['call_ms']:.2f} ms, {echoed['calls_per_second']:,.0f} a second by {CLIENTS} clients\n"
    yield (
        "| rows a request | engine | through | requests a second | rows of a batch | rows a second of bare | of bare |\n"
        + "| --- " * 7
        + "|"
    )
    for row in found["saturation"]:
        yield (
            f"| {row['rows']} | {row['engine']} | {row['way']} | {row['requests_per_second']:,.0f} | {row['batch_rows']:.0f} "
            f"| {row['bare_rows_per_second']:,.0f} | {row['of_bare']:.0%} |"
        )


def report(args, before, found, lines):
    """Prints the results, and writes them to the file of --json. `before` is the load average before the run, which shows other work on the
    machine."""
    head = {
        "machine": f"{processor()}, {os.cpu_count()} cores",
        "device": args.device,
        "load_average": before,
        "model": Path(args.model).name,
        "clients": CLIENTS,
        "client_processes": args.client_processes,
    }
    print(f"{head['machine']}, on {args.device}, load average {before:.1f} before", *lines, sep="\n")
    if args.json:
        args.json.write_text(json.dumps({**head, **found}, indent=1) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default=str(ROOT / "models/dlrm_dot.ts.onnx"))
    parser.add_argument("--device", default="cpu", help="where fusec runs the model (default: cpu)")
    parser.add_argument("--rows", default="1,16,256", type=lambda text: [int(part) for part in text.split(",")], help="rows of a request")
    parser.add_argument("--client-processes", default=1, type=int, help="number of processes for the clients of Ray")
    parser.add_argument("--seconds", default=5.0, type=float)
    parser.add_argument("--rounds", default=3, type=int)
    parser.add_argument("--json", type=Path, help="also write the numbers to this file")
    args = parser.parse_args()
    before = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as folder:
        artifact = os.path.join(folder, "artifact")
        with contextlib.redirect_stderr(io.StringIO()):
            fusec.compile(args.model, artifact, target="cpu" if args.device == "cpu" else "native,cpu", cpu_level="native")
        found = asyncio.run(measure(Served(artifact, args.model, args.device), args))
    report(args, before, found, tables(found))


if __name__ == "__main__":
    main()
