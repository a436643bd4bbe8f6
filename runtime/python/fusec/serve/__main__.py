"""python -m fusec.serve: serves artifacts over HTTP and gRPC until it is interrupted."""

from __future__ import annotations

import argparse
import os
import pathlib
import re
import signal
import sys
import threading
from typing import Any

from fusec.serve import GRPC_SERVICER, BatchOptions, DirectOptions, GatewayOptions

TOKEN_VARIABLE = "FUSEC_SERVE_TOKEN"


def _address(text: str) -> tuple[str, int]:
    host, colon, port = text.rpartition(":")
    if not colon or not port.isdecimal() or int(port) > 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is no HOST:PORT")
    return host.strip("[]") or "0.0.0.0", int(port)


def _grpc_port(text: str) -> int:
    host, port = _address(text)
    if host not in ("0.0.0.0", "::"):
        raise argparse.ArgumentTypeError(f"{text!r} names a host, but Ray's gRPC proxy listens on all addresses: 0.0.0.0:{port}")
    return port


def _model(text: str) -> tuple[str, str]:
    name, equals, path = text.rpartition("=")
    folder = pathlib.Path(path)
    if not (folder / "manifest.json").is_file():
        raise argparse.ArgumentTypeError(f"{path!r} is no artifact: it has no manifest.json")
    return (name if equals else folder.resolve().name), str(folder)


def _resource(text: str) -> tuple[str, float]:
    match = re.fullmatch(r"(.+)=(\d+\.?\d*)", text)
    if match is None:
        raise argparse.ArgumentTypeError(f"{text!r} is no NAME=COUNT")
    return match[1], float(match[2])


def shard_options(arguments: argparse.Namespace) -> dict[str, Any]:
    """Ray's options for the deployments of shards, from the command line."""
    resources: dict[str, Any] = {"num_cpus": arguments.shard_cpus, "num_gpus": arguments.shard_gpus}
    if arguments.shard_memory is not None:
        resources["memory"] = arguments.shard_memory
    if arguments.shard_resource:
        resources["resources"] = dict(arguments.shard_resource)
    replicas = {} if arguments.shard_replicas is None else {"num_replicas": arguments.shard_replicas}
    return {**replicas, "ray_actor_options": resources}


def parser() -> argparse.ArgumentParser:
    batch, gateway = BatchOptions(), GatewayOptions()
    parser = argparse.ArgumentParser(
        prog="python -m fusec.serve",
        description="Serves artifacts over HTTP and gRPC in the Open Inference Protocol, on Ray Serve. RAY_ADDRESS names a cluster; "
        f"without it Ray is started here. {TOKEN_VARIABLE} is the token of requests that change the server (load, unload, weights, rows, "
        "adapters); without it they are off.",
    )
    add = parser.add_argument
    add("models", nargs="*", type=_model, metavar="[NAME=]FOLDER", help="an artifact, and its name in requests (the folder's name)")
    add("--http", type=_address, default=("127.0.0.1", 8000), metavar="HOST:PORT", help="where to listen (127.0.0.1:8000)")
    add("--grpc", type=_grpc_port, metavar="HOST:PORT", help="also listen for gRPC, at 0.0.0.0:PORT; no other host is possible (off)")
    add(
        "--direct-http",
        type=_address,
        metavar="HOST:PORT",
        help="replicas of models also listen themselves, each on its node, and answer requests for their model without Ray's proxies (off)",
    )
    add("--direct-http-threads", type=int, default=0, metavar="COUNT", help="of each such replica (a quarter of the cores, at most 4)")
    add("--direct-grpc", type=_address, metavar="HOST:PORT", help="the same for gRPC (off)")
    add("--repository", metavar="FOLDER", help="the folder from which requests may load artifacts, weights and adapters")
    add("--device", help='"cpu", "cuda" or "cuda:1" (a GPU if the artifact and the machine have one)')
    add("--replicas", type=int, default=1, help="replicas of each model (1)")
    add("--gpus", type=float, default=0.0, help="GPUs of each replica, which may be a fraction (0)")
    add("--cpus", type=float, default=1.0, help="CPUs of each replica (1)")
    add("--shard-replicas", type=int, help="replicas of each shard of a sharded artifact (2 if the cluster has room, else 1)")
    add("--shard-cpus", type=float, default=1.0, help="CPUs of each replica of a shard (1)")
    add("--shard-gpus", type=float, default=0.0, help="GPUs of each replica of a shard, which may be a fraction (0)")
    add("--shard-memory", type=int, metavar="BYTES", help="memory of each replica of a shard (that of its tables in the plan)")
    add("--shard-resource", type=_resource, action="append", default=[], metavar="NAME=COUNT", help="a custom Ray resource of each")
    add("--gateways", type=int, default=1, help="replicas of the gateway, which receives requests (1)")
    add("--max-rows", type=int, default=batch.max_rows, help="the most rows of a batch (4096 on a GPU, 1024 on a CPU)")
    add("--max-delay-ms", type=float, default=batch.max_delay_ms, help=f"how long a request waits for others ({batch.max_delay_ms:g})")
    add("--max-queue", type=int, default=batch.max_queue, help=f"waiting requests of a replica; one more gets 429 ({batch.max_queue})")
    add("--lanes", type=int, default=batch.lanes, help=f"batches that a replica runs at the same time ({batch.lanes})")
    add("--timeout-ms", type=float, default=batch.timeout_ms, help="the time after which a request gets 504 (none)")
    add("--max-body-mb", type=float, default=gateway.max_body_bytes / 2**20, help=f"limit of a request ({gateway.max_body_bytes >> 20})")
    return parser


def main() -> None:
    arguments = parser().parse_args()
    try:
        import ray
        from ray import serve

        from fusec.serve import app
    except ImportError as error:
        sys.exit(f'fusec.serve needs Ray: pip install "fusec[serve]" ({error})')
    host, port = arguments.http
    ray.init(ignore_reinit_error=True, log_to_driver=True)
    grpc = None if arguments.grpc is None else {"port": arguments.grpc, "grpc_servicer_functions": [GRPC_SERVICER]}
    serve.start(http_options={"host": host, "port": port}, grpc_options=grpc)
    batch = BatchOptions(arguments.max_rows, arguments.max_delay_ms, arguments.max_queue, arguments.lanes, arguments.timeout_ms)
    gateway = GatewayOptions(arguments.repository, os.environ.get(TOKEN_VARIABLE) or None, int(arguments.max_body_mb * 2**20))
    resources = {"num_cpus": arguments.cpus, "num_gpus": arguments.gpus}
    application = app(
        *(path for _, path in arguments.models),
        names=[name for name, _ in arguments.models],
        device=arguments.device,
        batch=batch,
        gateway=gateway,
        model_options={"num_replicas": arguments.replicas, "ray_actor_options": resources},
        gateway_options={"num_replicas": arguments.gateways},
        shard_options=shard_options(arguments),
        direct=DirectOptions(arguments.direct_http, arguments.direct_grpc, arguments.direct_http_threads),
    )
    ended = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: ended.set())
    serve.run(application, name="fusec")
    where = f"http://{host}:{port}/v2" + (f" and gRPC on port {arguments.grpc}" if arguments.grpc is not None else "")
    for kind, address in (("HTTP", arguments.direct_http), ("gRPC", arguments.direct_grpc)):
        where += "" if address is None else f" and direct {kind} on port {address[1]}"
    names = ", ".join(name for name, _ in arguments.models) or "no model yet"
    print(f"fusec.serve: {where} has {names}", file=sys.stderr, flush=True)
    ended.wait()
    serve.shutdown()
    ray.shutdown()


if __name__ == "__main__":
    main()
