"""The operations that clients may request, independent of the protocol: inference, descriptions of the models, and changes, which need a
token and load only from one folder. A backend does the rest. This module does not use Ray."""

from __future__ import annotations

import hmac
from dataclasses import dataclass
from typing import Any, Iterable, Mapping, Protocol

import fusec
from fusec.serve import _protocol
from fusec.serve._changes import Change
from fusec.serve._errors import NotFound, RequestError, TooLarge
from fusec.serve._http_protocol import HttpInfer
from fusec.serve._protocol import InferRequest, quoted
from fusec.serve._repository import Repository
from fusec.serve._statistics import Statistics

_EXTENSIONS = ["binary_tensor_data", "model_configuration", "model_repository", "statistics"]


@dataclass(frozen=True)
class GatewayOptions:
    """The limits of the gateway, and the permission to change the server."""

    repository: str | None = None  # the folder from which requests may load
    token: str | None = None  # the token of requests that change the server, which are disabled without one
    max_body_bytes: int = 64 << 20
    body_timeout_s: float = 30.0  # the time in which an HTTP client must have sent its body


@dataclass(frozen=True)
class DirectOptions:
    """The addresses (host, port) on which replicas listen themselves: each on its own node, all at the same port. `http_threads` is the
    number of threads in which a replica reads and writes HTTP, by default a quarter of the node's cores, and at most 4."""

    http: tuple[str, int] | None = None
    grpc: tuple[str, int] | None = None
    http_threads: int = 0


class Backend(Protocol):
    """The models behind a gateway. Its methods raise RequestError."""

    async def models(self) -> Mapping[str, Mapping[str, Any]]:
        """{name: {"version": 3, "ready": True, "unloaded": False}}"""

    async def infer(self, name: str, request: InferRequest) -> Any:
        """Runs a request on its model; returns the result of `request.answer`."""

    async def describe(self, name: str, what: str) -> dict[str, Any]:
        """The metadata or the config of a model."""

    async def rows_change(self, name: str, request: HttpInfer) -> Change:
        """Reads the rows for a table from the body of a request."""

    async def change(self, name: str, change: Change) -> int:
        """Changes a model in all its replicas, and returns its new version."""

    async def statistics(self) -> Mapping[str, Statistics]:
        """The statistics of each model, over all its replicas."""

    async def samples(self) -> Iterable[tuple[Mapping[str, str], Iterable[tuple[str, Mapping[str, str], float]]]]:
        """The contents of /metrics: (labels, samples) of each replica."""


class Gateway:
    """The operations that clients may request. The methods raise RequestError."""

    def __init__(self, backend: Backend, options: GatewayOptions = GatewayOptions()):
        self.backend, self.options, self.repository = backend, options, Repository(options.repository)

    def check_size(self, size: int) -> None:
        if size > self.options.max_body_bytes:
            raise TooLarge(f"the body has more than {self.options.max_body_bytes} bytes")

    # ---- descriptions of the server and its models ----

    def metadata(self) -> dict[str, Any]:
        return {"name": "fusec", "version": fusec.__version__, "extensions": _EXTENSIONS}

    async def is_ready(self) -> bool:
        """Whether all models answer, except those that were unloaded."""
        return all(model["ready"] or model["unloaded"] for model in (await self.backend.models()).values())

    async def is_model_ready(self, name: str, version: str) -> bool:
        models = await self.backend.models()
        if name not in models:
            raise NotFound(f"there is no model {quoted(name)}")
        _protocol.check_version(version, models[name]["version"], name)
        return models[name]["ready"]

    async def describe(self, name: str, version: str, what: str) -> dict[str, Any]:
        """The metadata or the config of a model."""
        await self.is_model_ready(name, version)
        return await self.backend.describe(name, what)

    async def statistics(self, name: str, version: str) -> dict[str, Any]:
        """The statistics of a model, or of all models."""
        if name:
            await self.is_model_ready(name, version)
        models, found = await self.backend.models(), await self.backend.statistics()
        wanted = [name] if name else sorted(models)
        return {"model_stats": [found.get(model, Statistics()).described(model, models[model]["version"]) for model in wanted]}

    async def index(self, only_ready: bool) -> list[dict[str, Any]]:
        """The served models, and the artifacts of the folder that could be loaded."""
        models = await self.backend.models()
        entries = [
            {
                "name": name,
                "version": str(model["version"]),
                "state": "READY" if model["ready"] else "UNAVAILABLE",
                **({"reason": "unloaded"} if model["unloaded"] else {}),
            }
            for name, model in sorted(models.items())
        ] + [{"name": name, "state": "UNAVAILABLE", "reason": "not loaded"} for name in self.repository.artifacts() if name not in models]
        return [entry for entry in entries if not only_ready or entry["state"] == "READY"]

    # ---- changes of models ----

    def check_token(self, authorization: str) -> None:
        """Checks a token; the argument is the value of the header Authorization."""
        if self.options.token is None:
            raise RequestError("requests that change the server are off: it was started without an admin token", 403)
        if not hmac.compare_digest(authorization.encode(), f"Bearer {self.options.token}".encode()):
            raise RequestError("the Authorization header has not the server's admin token", 401)

    async def load(self, name: str) -> int:
        """Loads a model, or loads it again: from the folder if it is there, otherwise from its original path."""
        is_there = name in self.repository.artifacts()
        if not is_there and name not in await self.backend.models():
            self.repository.path(name, "model")  # raises the error
            raise NotFound(f"{quoted(name)} is no artifact")
        return await self.backend.change(name, Change("load", path=self.repository.path(name, "model") if is_there else ""))

    async def unload(self, name: str) -> int:
        return await self.backend.change(name, Change("unload"))
