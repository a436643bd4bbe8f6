"""fusec.serve on Ray Serve: an application of one deployment for HTTP, one for each model, and one that keeps the replicas alike."""

from __future__ import annotations

import asyncio
import logging
import os
import pathlib
import re
from typing import Any, Awaitable, Callable, Iterable, Mapping

import numpy as np
import ray
from ray import serve
from ray.serve.exceptions import DeploymentUnavailableError, ReplicaUnavailableError

from fusec.serve import _ledger, _protocol
from fusec.serve._batcher import BatchOptions
from fusec.serve._changes import Change, ChangeLog
from fusec.serve._errors import NotFound, RequestError, Unavailable
from fusec.serve._gateway import Gateway, GatewayOptions
from fusec.serve._server import Answer, ModelServer

logger = logging.getLogger("fusec.serve")
_MOST_ONGOING = 100_000  # requests in a deployment: the batcher's queue says when it is enough
_ATTEMPTS = 4  # of a request, on other replicas where one dies
_RETRY_AFTER_S = 0.1
_QUIET = {"enable_access_log": False}  # a line for each request would cost more than the request
_LOST = (ray.exceptions.RayActorError, DeploymentUnavailableError, ReplicaUnavailableError)


@serve.deployment(name="Ledger", max_ongoing_requests=_MOST_ONGOING, logging_config=_QUIET, ray_actor_options={"num_cpus": 0})
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

    async def wait_applied(self, name: str, version: int) -> RequestError | None:
        return await _as_value(self._ledger.wait_applied(name, version))

    async def note_retry(self, name: str) -> None:
        self._ledger.note_retry(name)

    async def overview(self) -> dict[str, dict[str, Any]]:
        return self._ledger.overview()

    async def samples(self) -> list[Any]:
        return self._ledger.samples()


async def _as_value(awaited: Any) -> Any:
    """What is awaited, or the RequestError that it raises: as a value it needs no traceback on its way to the caller."""
    try:
        return await awaited
    except RequestError as error:
        return error


def _unwrapped(value: Any) -> Any:
    if isinstance(value, RequestError):
        raise value
    return value


@serve.deployment(name="Model", max_ongoing_requests=_MOST_ONGOING, logging_config=_QUIET)
class ModelDeployment:
    """A replica of a model: its ModelServer, which follows the ledger."""

    async def __init__(self, name: str, path: str, ledger: Any, device: str | None, options: BatchOptions) -> None:
        self._server, self._ledger = ModelServer(name, path, device, options), ledger
        self._replica = serve.get_replica_context().replica_id.unique_id
        await self._server.start()
        # What the log had before the first report is taken up then, and no change after it is complete without this replica.
        await self._server.follow(await self._news("hear"))
        self._following = asyncio.get_running_loop().create_task(self._follow())

    async def _report(self, method: str) -> int:
        """Tells the ledger how far this replica is, and gives the version of the log."""
        report = _ledger.Report(self._server.log.version, self._server.is_ready, self._server.samples())
        return await getattr(self._ledger, method).remote(self._server.name, self._replica, report)

    async def _news(self, method: str) -> list[Change]:
        """The changes that come next for this replica, after a report."""
        name, log = self._server.name, self._server.log
        version = await self._report(method)
        if version < log.version:
            await self._ledger.restore.remote(name, log)
        return await self._ledger.since.remote(name, log.version) if version > log.version else []

    async def _follow(self) -> None:
        while True:
            changes = await self._retried(self._news, "follow")
            applying = asyncio.create_task(self._server.follow(changes))
            while not (await asyncio.wait({applying}, timeout=_ledger.POLL_S))[0]:
                await self._retried(self._report, "hear")  # it takes long, but the replica is there
            await applying

    async def _retried(self, ask: Callable[[str], Awaitable[Any]], method: str) -> Any:
        while True:
            try:
                return await ask(method)
            except Exception as error:
                logger.warning("%s: the ledger does not answer: %s", self._server.name, error)
                await asyncio.sleep(_RETRY_AFTER_S)

    async def check_health(self) -> None:
        """Ray starts a replica again whose model does not run any more, or that cannot follow the others."""
        if self._following.done():
            self._following.result()
        await self._server.check_health()

    async def reconfigure(self, user_config: Mapping[str, Any]) -> None:
        """Ray's user_config: {"weights": path of an artifact of fusec.refit, "adapters": {slot: path}}. What came through the gateway lies
        above."""
        unknown = set(user_config) - {"weights", "adapters"}
        if unknown:
            raise ValueError(f"user_config has {', '.join(sorted(unknown))}; it takes weights and adapters")
        weights = [Change("weights", path=os.fspath(user_config["weights"]))] if "weights" in user_config else []
        adapters = [Change("adapter", str(slot), os.fspath(path)) for slot, path in user_config.get("adapters", {}).items()]
        await self._server.rebase([*weights, *adapters])

    async def predict(self, tensors: Mapping[str, np.ndarray], timeout_ms: float | None = None) -> dict[str, np.ndarray]:
        """The outputs by name, for callers with a handle of Ray. Raises RequestError."""
        return await self._server.predict(tensors, timeout_ms)

    async def infer(self, body: bytes, header_length: str | None, version: str) -> Answer | RequestError:
        return await _as_value(self._server.infer(body, header_length, version))

    async def describe(self, what: str) -> dict[str, Any] | RequestError:
        try:
            return self._server.metadata() if what == "metadata" else self._server.config()
        except RequestError as error:
            return error

    async def rows_change(self, body: bytes, header_length: str | None) -> Change | RequestError:
        try:
            return self._server.rows_change(body, header_length)
        except RequestError as error:
            return error

    async def try_change(self, change: Change) -> None | RequestError:
        return await _as_value(self._server.try_change(change))

    async def __del__(self) -> None:
        self._following.cancel()
        await self._ledger.leave.remote(self._server.name, self._replica)
        await self._server.close()


class _RayBackend:
    """The models of an application, and those that were loaded since, each of which is an application of its own."""

    def __init__(self, ledger: Any, models: Mapping[str, Any], device: str | None, options: BatchOptions):
        self._ledger, self._handles, self._device, self._options = ledger, dict(models), device, options
        self._app = serve.get_replica_context().app_name

    async def _call(self, name: str, method: str, *arguments: Any) -> Any:
        """Calls a replica of a model, and another one where that dies: nothing that is called changes more than its replica."""
        return await self._retried(await self._handle(name), method, *arguments, note=name)

    async def _ask(self, method: str, *arguments: Any) -> Any:
        """Calls the ledger, and the next one where that dies: what is asked twice does no harm."""
        return await self._retried(self._ledger, method, *arguments)

    async def _retried(self, handle: Any, method: str, *arguments: Any, note: str = "") -> Any:
        for attempt in range(_ATTEMPTS):
            try:
                return _unwrapped(await getattr(handle, method).remote(*arguments))
            except _LOST as error:
                logger.warning("%s of %s: a replica was lost: %s", method, note or "the ledger", type(error).__name__)
                if note:
                    await self._ask("note_retry", note)  # a call that nobody waits for may be dropped
                await asyncio.sleep(_RETRY_AFTER_S * 4**attempt)
        raise Unavailable(f"no replica of {f'model {_protocol.quoted(note)}' if note else 'the ledger'} answers")

    async def _handle(self, name: str) -> Any:
        if name not in self._handles:
            if name not in await self._ask("overview"):
                raise NotFound(f"there is no model {_protocol.quoted(name)}")
            self._handles[name] = serve.get_app_handle(self._app_of(name))
        return self._handles[name]

    def _app_of(self, name: str) -> str:
        return f"{self._app}-{name}"

    async def models(self) -> Mapping[str, Mapping[str, Any]]:
        overview = await self._ask("overview")
        return {**{name: {"version": 1, "ready": False} for name in self._handles}, **overview}

    async def infer(self, name: str, body: bytes, header_length: str | None, version: str) -> Answer:
        return await self._call(name, "infer", body, header_length, version)

    async def describe(self, name: str, what: str) -> dict[str, Any]:
        return await self._call(name, "describe", what)

    async def rows_change(self, name: str, body: bytes, header_length: str | None) -> Change:
        return await self._call(name, "rows_change", body, header_length)

    async def change(self, name: str, change: Change) -> int:
        if change.kind == "load" and name not in await self.models():
            return await self._start(name, change.path)
        await self._call(name, "try_change", change)
        version = await self._ask("add", name, change)
        await self._ask("wait_applied", name, version)
        return version

    async def _start(self, name: str, path: str) -> int:
        model = ModelDeployment.options(max_constructor_retry_count=1).bind(name, path, self._ledger, self._device, self._options)
        try:
            await asyncio.to_thread(serve.run, model, name=self._app_of(name), route_prefix=None)
        except RuntimeError as error:
            why = await asyncio.to_thread(_last_error, self._app_of(name)) or str(error)
            await asyncio.to_thread(serve.delete, self._app_of(name), False)
            raise RequestError(f"model {_protocol.quoted(name)} does not load: {why}") from None
        return 1

    async def samples(self) -> Iterable[Any]:
        return await self._ask("samples")


def _last_error(app: str) -> str:
    """The line of fusec's in what Ray says of an application that failed, or ""."""
    deployments = serve.status().applications[app].deployments.values()
    lines = re.findall(r"^fusec\.\S*: (.+)$", "\n".join(deployment.message for deployment in deployments), re.M)
    return lines[-1] if lines else ""


@serve.deployment(name="Gateway", max_ongoing_requests=_MOST_ONGOING, logging_config=_QUIET, ray_actor_options={"num_cpus": 0})
@serve.ingress()
class GatewayDeployment:
    """The HTTP face, in as many replicas as Ray is told."""

    def __init__(self, ledger: Any, models: Mapping[str, Any], gateway: GatewayOptions, device: str | None, options: BatchOptions) -> None:
        self._gateway = Gateway(_RayBackend(ledger, models, device, options), gateway)

    def __serve_build_asgi_app__(self) -> Gateway:
        return self._gateway


def app(
    *models: str | os.PathLike[str],
    names: Iterable[str] | None = None,
    device: str | None = None,
    batch: BatchOptions = BatchOptions(),
    gateway: GatewayOptions = GatewayOptions(),
    model_options: Mapping[str, Any] | None = None,
    gateway_options: Mapping[str, Any] | None = None,
) -> Any:
    """An application of Ray Serve for serve.run: the models of these artifacts over HTTP.

        serve.run(fusec.serve.app("model_fused", model_options={"num_replicas": 2, "ray_actor_options": {"num_gpus": 0.5}}))

    models: folders of artifacts. names: what requests call them; the folders' names by default. device: as fusec.load takes it.
    batch: how requests are gathered. gateway: limits of bodies, the folder to load from, the token of requests that change the server.
    model_options, gateway_options: Ray's own for the deployments of the models and of HTTP: num_replicas, autoscaling_config,
    ray_actor_options, user_config and others.
    """
    paths = [pathlib.Path(model).resolve() for model in models]
    called = [path.name for path in paths] if names is None else list(names)
    if len(called) != len(paths) or len(set(called)) != len(called):
        raise ValueError(f"{len(paths)} models have the names {', '.join(called)}; each needs one of its own")
    ledger = LedgerDeployment.bind()
    handles = {
        name: ModelDeployment.options(**{"name": name, **(model_options or {})}).bind(name, str(path), ledger, device, batch)
        for name, path in zip(called, paths)
    }
    return GatewayDeployment.options(**(gateway_options or {})).bind(ledger, handles, gateway, device, batch)
