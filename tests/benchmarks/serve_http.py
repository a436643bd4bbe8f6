#!/usr/bin/env python3
"""Times HTTP requests to fusec.serve on Ray: through Ray's proxies, and to replicas that listen themselves (--direct-http), compared with
deployments that run no model and with onnxruntime on the CPU in the same replicas.

    PYTHONPATH=build/python PYTHON tests/benchmarks/serve_http.py [--model models/dlrm_dot.ts.onnx] [--device cpu|cuda] [--replicas 1,4]
        [--rows 1,16,256] [--client-processes 8] [--engines fusec,onnxruntime] [--seconds 5] [--rounds 3] [--json FILE]

PYTHON is the same as for serve.py, which also explains the model, the engines and "bare". 64 clients in --client-processes processes, each
with one persistent connection, send requests with the binary tensor extension. The ways are:

  echo, proxy     an ingress deployment that answers with nothing, behind Ray's proxy: what one call of Ray's allows
  echo, listens   a replica that answers with nothing, and listens itself: what connections allow, and the clients
  fusec, proxy    an application of fusec.serve behind Ray's proxy: proxy, gateway, and replica of the model
  ENGINE, listens the replicas of a model, which listen themselves, with fusec or onnxruntime in them

For each figure the best round counts. "of bare" is the share of the rows that the model alone computes in a loop of one thread with the
mean batch.
"""

import argparse
import asyncio
import concurrent.futures
import contextlib
import functools
import io
import multiprocessing
import os
import select
import socket
import statistics
import sys
import tempfile
import time
from pathlib import Path

os.environ.setdefault("FUSEC_NUM_THREADS", "1")
sys.dont_write_bytecode = True

import fusec  # noqa: E402
import ray  # noqa: E402
from fusec.serve import BatchOptions, DirectOptions, GatewayOptions, app  # noqa: E402
from fusec.serve._direct import DirectServer  # noqa: E402
from fusec.serve._gateway import Gateway  # noqa: E402
from fusec.serve._http_protocol import Answer  # noqa: E402
from ray import serve  # noqa: E402
from serve import CLIENTS, ROOT, Served, bare_rows, batch_rows, body_of, report, started  # noqa: E402

QUIET = {"max_ongoing_requests": 10_000, "logging_config": {"enable_access_log": False}, "ray_actor_options": {"num_cpus": 0}}


class OneModel:
    """The interface that a gateway needs, for one server in this process."""

    def __init__(self, server):
        self._server = server

    async def infer(self, name, request):
        return await self._server.infer(request)


@serve.deployment(**QUIET)
class Replica:
    """A replica with either engine that listens itself."""

    async def __init__(self, served, engine, port):
        self._server = await started(served, engine)
        self._direct = DirectServer(Gateway(OneModel(self._server), GatewayOptions()), DirectOptions(("127.0.0.1", port)), self._server)
        await self._direct.start()

    async def body(self, rows):
        return body_of(self._server, rows)

    async def take_batches(self):
        """The rows and batches since the last call."""
        before, self._before = getattr(self, "_before", (0, 0)), batch_rows(self._server.samples())
        return [now - then for now, then in zip(self._before, before)]

    async def __del__(self):
        await self._direct.close()
        await self._server.close()


async def nothing(scope, receive, send):
    """An ASGI application that reads a request and sends an empty answer."""
    if scope["type"] == "lifespan":
        for kind in ("startup", "shutdown"):
            await receive()
            await send({"type": f"lifespan.{kind}.complete"})
        return
    while (await receive()).get("more_body"):
        pass
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"0")]})
    await send({"type": "http.response.body", "body": b""})


@serve.deployment(**QUIET)
@serve.ingress()
class EchoBehindProxy:
    def __serve_build_asgi_app__(self):
        return nothing


class Nothing:
    """Replaces a model; its answers are empty, and come from Python."""

    name, options, batcher = "m", BatchOptions(), None

    def begin(self, data, start, size, json_length, done):
        asyncio.get_running_loop().call_soon(done, Answer(b"", 0))
        return self

    def cancel(self):
        pass


@serve.deployment(**QUIET)
class EchoThatListens:
    async def __init__(self, port):
        self._direct = DirectServer(Gateway(None), DirectOptions(("127.0.0.1", port)), Nothing())
        await self._direct.start()

    async def __del__(self):
        await self._direct.close()


def ask(port, request, connections, seconds):
    """The seconds of each request that these connections made one after the other, and the answers of those that did not get status 200.
    One thread does this without asyncio, so that clients take as little time as possible from the server."""
    times, refused, begun, received = [], [], {}, {}
    waiting, ends = select.epoll(), time.perf_counter() + seconds
    sockets = [socket.create_connection(("127.0.0.1", port)) for _ in range(connections)]
    by_number = {one.fileno(): one for one in sockets}
    for number, one in by_number.items():
        one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        waiting.register(number, select.EPOLLIN)
        begun[number], received[number] = time.perf_counter(), b""
        one.sendall(request)
    while begun:
        for number, _ in waiting.poll():
            one, data = by_number[number], received[number] + by_number[number].recv(1 << 14)
            if not data:
                raise SystemExit("the server closed a connection")
            head = data.find(b"\r\n\r\n") + 4
            if head < 4 or len(data) < head + int(data[:head].lower().split(b"\r\ncontent-length: ")[1].split(b"\r\n")[0]):
                received[number] = data
                continue
            if data[9:12] != b"200":
                refused.append(data[head:])
            now = time.perf_counter()
            times.append(now - begun[number])
            received[number] = b""
            if now >= ends:
                del begun[number]
                continue
            begun[number] = now
            one.sendall(request)
    for one in sockets:
        one.close()
    return times, refused


def load(pool, processes, port, request, seconds):
    """The requests per second of all clients, and the median and 99th percentile in milliseconds, after a second of warm-up."""
    shares = [CLIENTS // processes + (i < CLIENTS % processes) for i in range(processes)]
    for duration in (1, seconds):
        parts = [part.result() for part in [pool.submit(ask, port, request, share, duration) for share in shares]]
    refused = [body for _, bodies in parts for body in bodies]
    if refused:
        raise SystemExit(f"{len(refused)} requests were refused: {refused[0]}")
    times = sorted(value for part, _ in parts for value in part)
    return {
        "requests_per_second": len(times) / seconds,
        "p50_ms": 1e3 * statistics.median(times),
        "p99_ms": 1e3 * times[int(0.99 * len(times))],
    }


def best(rounds):
    return max(rounds, key=lambda row: row["requests_per_second"])


def mean_batch(handle, replicas):
    """The mean rows of a batch since the last call, over the replicas that the queries happen to reach."""
    parts = [handle.take_batches.remote().result() for _ in range(8 * replicas)]
    return sum(rows for rows, _ in parts) / max(1, sum(batches for _, batches in parts))


def request_of(name, body, header_length):
    head = f"POST /v2/models/{name}/infer HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n"
    return f"{head}Inference-Header-Content-Length: {header_length}\r\n\r\n".encode() + body


def free_port():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


def cpu_seconds():
    """The seconds of CPU time that each kind of Ray process of this session has taken."""
    session, found = ray.get_runtime_context().get_session_name(), {}
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            fields = (folder / "stat").read_text().rsplit(")", 1)[1].split()
            found[folder.name] = command, fields[1], (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    (raylet,) = (pid for pid, (command, *_) in found.items() if "raylet/raylet " in command and session in command)
    taken = {"raylet": found[raylet][2]}
    for command, parent, seconds in found.values():
        if parent == raylet and command.startswith("ray::"):
            kind = command.removeprefix("ray::").split()[0].split(".")[0]
            taken[kind] = taken.get(kind, 0) + seconds
    return taken


def measure(served, args, proxy_port, pool):
    """The rows of the table."""
    ask_all = functools.partial(load, pool, args.client_processes, seconds=args.seconds)
    empty, bodies = request_of("m", b"x" * 300, 10), {}

    def add(way, replicas, rows, rounds, **more):
        found.append({"way": way, "replicas": replicas, "rows": rows, **best(rounds), **more})
        print(found[-1], file=sys.stderr)

    found = []
    serve.run(EchoBehindProxy.bind(), name="m", route_prefix="/")
    add("echo, proxy", 1, 0, [ask_all(proxy_port, empty) for _ in range(args.rounds)])
    serve.delete("m")
    for replicas in args.replicas:
        port = free_port()
        serve.run(EchoThatListens.options(num_replicas=replicas).bind(port), name="m", route_prefix=None)
        add("echo, listens", replicas, 0, [ask_all(port, empty) for _ in range(args.rounds)])
        serve.delete("m")
    for engine in args.engines.split(","):
        for replicas in args.replicas:
            port, resources = free_port(), {"num_cpus": 0, "num_gpus": served.resources["num_gpus"]}
            handle = serve.run(
                Replica.options(num_replicas=replicas, ray_actor_options=resources).bind(served, engine, port), name="m", route_prefix=None
            )
            for rows in args.rows:
                bodies[rows] = bodies.get(rows) or handle.body.remote(rows).result()
                mean_batch(handle, replicas)
                rounds = [ask_all(port, request_of("m", *bodies[rows])) for _ in range(args.rounds)]
                batch = mean_batch(handle, replicas)
                bare = max(bare_rows(served, engine, max(1, round(batch)), 1) for _ in range(args.rounds))
                more = {"batch_rows": batch, "bare_rows_per_second": bare}
                add(f"{engine}, listens", replicas, rows, rounds, **more, of_bare=best(rounds)["requests_per_second"] * rows / bare)
            serve.delete("m")
    application = app(served.artifact, names=["m"], device=served.device, model_options={"ray_actor_options": served.resources})
    serve.run(application, name="m")
    for rows in args.rows:
        before = cpu_seconds()
        rounds = [ask_all(proxy_port, request_of("m", *bodies[rows])) for _ in range(args.rounds)]
        taken = {kind: seconds - before.get(kind, 0) for kind, seconds in cpu_seconds().items()}
        requests = sum(row["requests_per_second"] for row in rounds) * (args.seconds + 1)
        costs = {kind: 1e3 * seconds / requests for kind, seconds in sorted(taken.items()) if seconds * 1e3 > 0.05 * requests}
        add("fusec, proxy", 1, rows, rounds, cpu_ms_per_request=costs)
    return found


def table(found):
    yield "| way | replicas | rows a request | requests a second | p50 ms | p99 ms | rows of a batch | of bare |\n" + "| --- " * 8 + "|"
    for row in found:
        batch, share = (f"{row['batch_rows']:.0f}", f"{row['of_bare']:.0%}") if "of_bare" in row else ("", "")
        yield (
            f"| {row['way']} | {row['replicas']} | {row['rows'] or ''} | {row['requests_per_second']:,.0f} | {row['p50_ms']:.1f} "
            f"| {row['p99_ms']:.1f} | {batch} | {share} |"
        )
    for row in found:
        if "cpu_ms_per_request" in row:
            costs = ", ".join(f"{kind} {cost:.2f}" for kind, cost in row["cpu_ms_per_request"].items())
            yield f"\nCPU of a request of {row['rows']} rows through the proxy, ms: {costs}"


def numbers(text):
    return [int(part) for part in text.split(",")]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default=str(ROOT / "models/dlrm_dot.ts.onnx"))
    parser.add_argument("--device", default="cpu", help="where fusec runs the model (default: cpu)")
    parser.add_argument("--replicas", default="1", type=numbers, help="numbers of replicas that share the port")
    parser.add_argument("--rows", default="1,16,256", type=numbers, help="rows of a request")
    parser.add_argument("--client-processes", default=1, type=int, help="number of processes for the clients")
    parser.add_argument("--engines", default="fusec,onnxruntime", help="engines of the replicas that listen (default: %(default)s)")
    parser.add_argument("--seconds", default=5.0, type=float)
    parser.add_argument("--rounds", default=3, type=int)
    parser.add_argument("--json", type=Path, help="also write the numbers to this file")
    args = parser.parse_args()
    before, port = os.getloadavg()[0], free_port()
    with (
        tempfile.TemporaryDirectory() as folder,
        concurrent.futures.ProcessPoolExecutor(args.client_processes, multiprocessing.get_context("spawn")) as pool,
    ):
        artifact = os.path.join(folder, "artifact")
        with contextlib.redirect_stderr(io.StringIO()):
            fusec.compile(args.model, artifact, target="cpu" if args.device == "cpu" else "native,cpu", cpu_level="native")
        resources = {"num_cpus": max(8, os.cpu_count()), "num_gpus": int(args.device != "cpu")}
        ray.init(address="local", **resources, include_dashboard=False, log_to_driver=False, logging_level="error")
        serve.start(http_options={"host": "127.0.0.1", "port": port})
        rows = measure(Served(artifact, args.model, args.device), args, port, pool)
        serve.shutdown()
        ray.shutdown()
    report(args, before, {"ways": rows}, table(rows))


if __name__ == "__main__":
    main()
