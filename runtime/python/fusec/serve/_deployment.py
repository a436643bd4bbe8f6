"""fusec.serve on Ray Serve: an application has the gateway, one deployment for each model, and the ledger that keeps replicas alike."""

from __future__ import annotations

import asyncio
import logging
import os
import pathlib
import re
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Iterable, Mapping

import numpy as np
from ray import serve

from fusec.serve import _ledger
from fusec.serve._actors import LOST, MOST_ONGOING, QUIET, RETRY_AFTER_S, Follower, as_value, unwrapped
from fusec.serve._batcher import BatchOptions
from fusec.serve._changes import Change, ChangeLog
from fusec.serve._direct import DirectServer
from fusec.serve._errors import NotFound, RequestError, Unavailable
from fusec.serve._gateway import DirectOptions, Gateway, GatewayOptions
from fusec.serve._grpc import GrpcGateway
from fusec.serve._http import HttpGateway
from fusec.serve._http_protocol import HttpInfer
from fusec.serve._protocol import InferRequest, quoted
from fusec.serve._server import ModelServer
from fusec.serve._shard_deployment import RayShards, bind_shards
from fusec.serve._shard_server import ShardedModelServer
from fusec.serve._statistics import Statistics

logger = logging.getLogger("fusec.serve")
_ATTEMPTS = 4  # attempts of a request, each on another replica if one has died


@serve.deployment(name="Ledger", max_ongoing_requests=MOST_ONGOING, logging_config=QUIET, ray_actor_options={"num_cpus": 0})
class LedgerDeployment:
    """The ledger of an application, as an actor."""

    async def __init__(self) -> None:
        self._ledger = _ledger.Ledger()

    async def add(self, name: str, change: Change) -> int:
        return await self._ledger.add(name, change)

    async def hear(self, name: str, replica: str, report: _ledger.Report) -> int:
        return await self._ledger.hear(name, replica, report)

    async def follow(self, name: str, replica: str, report: _ledger.Report) -> int:
        return await self._ledger.follow(name, replica, report)

    async def since(self, name: str, version: int) -> list[Change]:
        return self._ledger.since(name, version)

    async def restore(self, name: str, log: ChangeLog) -> None:
        await self._ledger.restore(name, log)

    async def leave(self, name: str, replica: str) -> None:
        await self._ledger.leave(name, replica)

    async def wait_applied(self, name: str, version: int, only_shards: bool = False) -> RequestError | None:
        return await as_value(self._ledger.wait_applied(name, version, only_shards))

    async def note_retry(self, name: str) -> None:
        self._ledger.note_retry(name)

    async def overview(self) -> dict[str, dict[str, Any]]:
        return self._ledger.overview()

    async def statistics(self) -> dict[str, Statistics]:
        return self._ledger.statistics()

    async def samples(self) -> list[Any]:
        return self._ledger.samples()


@serve.deployment(name="Model", max_ongoing_requests=MOST_ONGOING, logging_config=QUIET)
class ModelDeployment:
    """A replica of a model: a ModelServer that follows the ledger. For a sharded model it is the dense part, and `shards` are handles of
    the deployments of the shards. `home` is the application that clients address, "" if it is the replica's own."""

    async def __init__(self, name: str, path: str, ledger: Any, loading: _Loading, shards: list[Any], home: str) -> None:
        if shards:
            reached = RayShards(name, path, shards, ledger)
            self._server: ModelServer = ShardedModelServer(name, path, reached, loading.device, loading.batch)
            await reached.wait_ready()
        else:
            self._server = ModelServer(name, path, loading.device, loading.batch)
        self._follower = Follower(self._server, ledger)
        await self._server.start(await ledger.since.remote(name, 1))
        await self._follower.begin()
        backend = _LocalBackend(self._server, ledger, loading, home or serve.get_replica_context().app_name)
        self._direct = DirectServer(Gateway(backend, loading.gateway), loading.direct, self._server)
        await self._direct.start()

    async def check_health(self) -> None:
        """Raises an error, after which Ray restarts the replica, if its model cannot run, it cannot follow the ledger, or it does not
        listen any more."""
        self._follower.check()
        self._direct.check()
        await self._server.check_health()

    async def reconfigure(self, user_config: Mapping[str, Any]) -> None:
        """Applies Ray's user_config: {"weights": path of an artifact of fusec.refit, "adapters": {slot: path}}. Changes made through the
        gateway are applied after it."""
        unknown = set(user_config) - {"weights", "adapters"}
        if unknown:
            raise ValueError(f"user_config has {', '.join(sorted(unknown))}; it takes weights and adapters")
        if "weights" in user_config and isinstance(self._server, ShardedModelServer):
            raise ValueError("user_config has weights, which a sharded model takes only through the gateway")
        weights = [Change("weights", path=os.fspath(user_config["weights"]))] if "weights" in user_config else []
        adapters = [Change("adapter", str(slot), os.fspath(path)) for slot, path in user_config.get("adapters", {}).items()]
        await self._server.rebase([*weights, *adapters])

    async def predict(self, tensors: Mapping[str, np.ndarray], timeout_ms: float | None = None) -> dict[str, np.ndarray]:
        """The outputs by name, for callers with a Ray handle. Raises RequestError."""
        return await self._server.predict(tensors, timeout_ms)

    async def infer(self, request: InferRequest) -> Any:
        return await as_value(self._server.infer(request))

    async def describe(self, what: str) -> dict[str, Any] | RequestError:
        try:
            return self._server.metadata() if what == "metadata" else self._server.config()
        except RequestError as error:
            return error

    async def rows_change(self, request: HttpInfer) -> Change | RequestError:
        return await as_value(self._server.rows_change(request))

    async def try_change(self, change: Change) -> None | RequestError:
        return await as_value(self._server.try_change(change))

    async def __del__(self) -> None:
        await self._direct.close()
        await self._follower.leave()
        await self._server.close()


@dataclass(frozen=True)
class _Loading:
    """How models are loaded: `models`, with which the application begins, and those that requests load."""

    models: tuple[str, ...]
    device: str | None
    batch: BatchOptions
    gateway: GatewayOptions
    direct: DirectOptions
    shard_options: Mapping[str, Any]

    def bind(self, name: str, path: str, ledger: Any, options: Mapping[str, Any], home: str = "") -> Any:
        """A deployment of the model at `path` with these options of Ray, bound to the deployments of its shards."""
        shards = bind_shards(name, path, ledger, self.device, self.shard_options, options)
        return ModelDeployment.options(**options).bind(name, path, ledger, self, shards, home)


class _RayBackend:
    """The models of an application, and those that were loaded later, each of which is a separate application."""

    def __init__(self, ledger: Any, loading: _Loading, app: str, handles: Mapping[str, Any] = MappingProxyType({})):
        self._ledger, self._loading, self._app, self._handles = ledger, loading, app, dict(handles)

    async def _call(self, name: str, method: str, *arguments: Any) -> Any:
        """Calls a replica of a model, and another one if that dies. Repeating is safe because calls change nothing beyond their replica."""
        return await self._retried(await self._handle(name), method, *arguments, note=name)

    async def _ask(self, method: str, *arguments: Any) -> Any:
        """Calls the ledger, and its successor if it dies. Repeating a call is safe."""
        return await self._retried(self._ledger, method, *arguments)

    async def _retried(self, handle: Any, method: str, *arguments: Any, note: str = "") -> Any:
        for attempt in range(_ATTEMPTS):
            try:
                return unwrapped(await getattr(handle, method).remote(*arguments))
            except LOST as error:
                logger.warning("%s of %s: a replica was lost: %s", method, note or "the ledger", type(error).__name__)
                if note:
                    await self._ask("note_retry", note)  # awaited, because a call that is not awaited may be dropped
                await asyncio.sleep(RETRY_AFTER_S * 4**attempt)
        raise Unavailable(f"no replica of {f'model {quoted(note)}' if note else 'the ledger'} answers")

    async def _handle(self, name: str) -> Any:
        if name not in self._handles:
            if name in self._loading.models:
                self._handles[name] = serve.get_deployment_handle(name, self._app)
            elif name in await self._ask("overview"):
                self._handles[name] = serve.get_app_handle(self._app_of(name))
            else:
                raise NotFound(f"there is no model {quoted(name)}")
        return self._handles[name]

    def _app_of(self, name: str) -> str:
        return f"{self._app}-{name}"

    async def models(self) -> Mapping[str, Mapping[str, Any]]:
        overview = await self._ask("overview")
        return {**{name: {"version": 1, "ready": False, "unloaded": False} for name in (*self._loading.models, *self._handles)}, **overview}

    async def infer(self, name: str, request: InferRequest) -> Any:
        return await self._call(name, "infer", request)

    async def describe(self, name: str, what: str) -> dict[str, Any]:
        return await self._call(name, "describe", what)

    async def rows_change(self, name: str, request: HttpInfer) -> Change:
        return await self._call(name, "rows_change", request)

    async def change(self, name: str, change: Change) -> int:
        if change.kind == "load" and name not in await self.models():
            return await self._start(name, change.path)
        await self._call(name, "try_change", change)
        version = await self._ask("add", name, change)
        await self._ask("wait_applied", name, version)
        return version

    async def _start(self, name: str, path: str) -> int:
        model = self._loading.bind(name, path, self._ledger, {"max_constructor_retry_count": 1}, self._app)
        try:
            await asyncio.to_thread(serve.run, model, name=self._app_of(name), route_prefix=None)
        except RuntimeError as error:
            why = await asyncio.to_thread(_last_error, self._app_of(name)) or str(error)
            await asyncio.to_thread(serve.delete, self._app_of(name), False)
            raise RequestError(f"model {quoted(name)} does not load: {why}") from None
        return 1

    async def statistics(self) -> Mapping[str, Statistics]:
        return await self._ask("statistics")

    async def samples(self) -> Iterable[Any]:
        return await self._ask("samples")


class _LocalBackend(_RayBackend):
    """The same in a replica of a model, which answers requests for that model itself."""

    def __init__(self, server: ModelServer, ledger: Any, loading: _Loading, app: str):
        super().__init__(ledger, loading, app)
        self._server = server

    async def infer(self, name: str, request: InferRequest) -> Any:
        return await (self._server.infer(request) if name == self._server.name else super().infer(name, request))


def _last_error(app: str) -> str:
    """fusec's error line in Ray's message about a failed application, or ""."""
    deployments = serve.status().applications[app].deployments.values()
    lines = re.findall(r"^fusec\.\S*: (.+)$", "\n".join(deployment.message for deployment in deployments), re.M)
    return lines[-1] if lines else ""


@serve.deployment(name="Gateway", max_ongoing_requests=MOST_ONGOING, logging_config=QUIET, ray_actor_options={"num_cpus": 0})
@serve.ingress()
class GatewayDeployment(GrpcGateway):
    """The deployment that answers clients over HTTP and gRPC."""

    def __init__(self, ledger: Any, models: Mapping[str, Any], loading: _Loading) -> None:
        app = serve.get_replica_context().app_name
        super().__init__(Gateway(_RayBackend(ledger, loading, app, models), loading.gateway))

    def __serve_build_asgi_app__(self) -> HttpGateway:
        return HttpGateway(self.gateway)


def app(
    *models: str | os.PathLike[str],
    names: Iterable[str] | None = None,
    device: str | None = None,
    batch: BatchOptions = BatchOptions(),
    gateway: GatewayOptions = GatewayOptions(),
    model_options: Mapping[str, Any] | None = None,
    gateway_options: Mapping[str, Any] | None = None,
    shard_options: Mapping[str, Any] | None = None,
    direct: DirectOptions = DirectOptions(),
) -> Any:
    """Returns an application of Ray Serve, for serve.run, that serves these artifacts over HTTP.

        serve.run(fusec.serve.app("model_fused", model_options={"num_replicas": 2, "ray_actor_options": {"num_gpus": 0.5}}))

    models: folders of artifacts, sharded ones included. names: their names in requests; by default the folders' names. device: as for
    fusec.load. batch: how requests are gathered. gateway: limits of bodies, the folder to load from, and the token of requests that change
    the server. model_options, gateway_options: Ray's options for the deployments of the models and of the gateway: num_replicas,
    autoscaling_config, ray_actor_options, user_config and others. shard_options: the same for the deployments of shards. By default a shard
    has the memory of its tables, one CPU, and two replicas if the cluster has enough free resources, else one; Ray must be initialised to
    know this. direct: the addresses on which replicas of the models listen themselves, in addition to Ray's proxies.
    """
    paths = [pathlib.Path(model).resolve() for model in models]
    called = [path.name for path in paths] if names is None else list(names)
    if len(called) != len(paths) or len(set(called)) != len(called):
        raise ValueError(f"{len(paths)} models have the names {', '.join(called)}; each needs one of its own")
    ledger, loading = LedgerDeployment.bind(), _Loading(tuple(called), device, batch, gateway, direct, shard_options or {})
    handles = {name: loading.bind(name, str(path), ledger, {"name": name, **(model_options or {})}) for name, path in zip(called, paths)}
    return GatewayDeployment.options(**(gateway_options or {})).bind(ledger, handles, loading)
