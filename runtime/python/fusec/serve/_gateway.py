"""The HTTP face of a server: an ASGI application that reads bodies within limits, knows the paths of the Open Inference Protocol and those
that change the server, and asks a backend for the rest. It knows nothing of Ray."""

from __future__ import annotations

import asyncio
import hmac
import json
import logging
from dataclasses import dataclass
from typing import Any, Awaitable, Callable, Iterable, Mapping, Protocol

import fusec
from fusec.serve import _metrics, _protocol
from fusec.serve._changes import Change
from fusec.serve._errors import NotFound, RequestError, TooLarge
from fusec.serve._repository import Repository
from fusec.serve._server import Answer

logger = logging.getLogger("fusec.serve")
_MIN_COMPRESSED = 1024  # bytes; a smaller answer is sent as it is
_EXTENSIONS = ["binary_tensor_data", "model_configuration", "model_repository"]


@dataclass(frozen=True)
class GatewayOptions:
    """What the gateway takes, and from whom."""

    repository: str | None = None  # the folder that requests may load from
    token: str | None = None  # of requests that change the server, which are off without one
    max_body_bytes: int = 64 << 20
    body_timeout_s: float = 30.0  # in which a client has sent its body


class Backend(Protocol):
    """The models behind a gateway. Its methods raise RequestError."""

    async def models(self) -> Mapping[str, Mapping[str, Any]]:
        """{name: {"version": 3, "ready": True}}"""

    async def infer(self, name: str, body: bytes, header_length: str | None, version: str) -> Answer: ...

    async def describe(self, name: str, what: str) -> dict[str, Any]:
        """The metadata or the config of a model."""

    async def rows_change(self, name: str, body: bytes, header_length: str | None) -> Change:
        """The rows for a table that a body has."""

    async def change(self, name: str, change: Change) -> int:
        """Changes a model in all its replicas, and gives its new version."""

    async def samples(self) -> Iterable[tuple[Mapping[str, str], Iterable[tuple[str, Mapping[str, str], float]]]]:
        """What /metrics shows: (labels, samples) of each replica."""


class _Disconnected(Exception):
    """The client has hung up: nobody waits for an answer."""


@dataclass
class _Request:
    method: str
    parts: list[str]
    headers: dict[str, str]
    receive: Callable[[], Awaitable[dict[str, Any]]]


@dataclass
class _Response:
    body: bytes
    status: int = 200
    content_type: str = "application/json"
    header_length: int | None = None


def _json(value: Any, status: int = 200) -> _Response:
    return _Response(json.dumps(value).encode(), status)


class Gateway:
    """The ASGI application."""

    def __init__(self, backend: Backend, options: GatewayOptions = GatewayOptions()):
        self._backend, self._options = backend, options
        self._repository = Repository(options.repository)

    async def __call__(
        self, scope: Mapping[str, Any], receive: Callable[[], Awaitable[dict[str, Any]]], send: Callable[..., Awaitable[None]]
    ) -> None:
        if scope["type"] == "lifespan":
            for kind in ("startup", "shutdown"):
                await receive()
                await send({"type": f"lifespan.{kind}.complete"})
            return
        path = scope["path"].removeprefix(scope.get("root_path", ""))
        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
        request = _Request(scope["method"], [part for part in path.split("/") if part], headers, receive)
        try:
            response = await self._respond(request)
        except _Disconnected:
            return
        except RequestError as error:
            response = _json({"error": " ".join(str(error).split())}, error.status)
        except Exception as error:
            logger.exception("%s %s failed", request.method, path)
            response = _json({"error": f"the server failed: {type(error).__name__}"}, 500)
        await _send(response, headers.get("accept-encoding", ""), send)

    async def _respond(self, request: _Request) -> _Response:
        match [request.method, *request.parts]:
            case ["POST", "v2", "models", name, "infer"]:
                return await self._infer(request, name, "")
            case ["POST", "v2", "models", name, "versions", version, "infer"]:
                return await self._infer(request, name, version)
            case ["GET", "v2", "health", "live"]:
                return _json({"live": True})
            case ["GET", "v2", "health", "ready"]:
                ready = all(model["ready"] for model in (await self._backend.models()).values())
                return _json({"ready": ready}, 200 if ready else 503)
            case ["GET", "v2"]:
                return _json({"name": "fusec", "version": fusec.__version__, "extensions": _EXTENSIONS})
            case ["GET", "v2", "models", name, *rest]:
                return await self._about(name, rest)
            case ["POST", "v2", "repository", "index"]:
                return await self._index(request)
            case ["POST", "v2", "repository", "models", name, ("load" | "unload") as verb]:
                self._check_token(request)
                return await self._load(name) if verb == "load" else await self._change(name, Change("unload"))
            case ["GET", "metrics"]:
                text = _metrics.render(await self._backend.samples())
                return _Response(text.encode(), content_type="text/plain; version=0.0.4; charset=utf-8")
            case [("POST" | "DELETE"), "admin", "models", name, *rest]:
                self._check_token(request)
                return await self._admin(request, name, rest)
        raise NotFound(f"there is no {request.method} /{'/'.join(request.parts)[:200]}")

    async def _infer(self, request: _Request, name: str, version: str) -> _Response:
        body = await self._body(request)
        answer = await self._backend.infer(name, body, request.headers.get(_protocol.HEADER_LENGTH), version)
        kind = "application/json" if answer.header_length is None else "application/octet-stream"
        return _Response(answer.body, answer.status, kind, answer.header_length)

    async def _about(self, name: str, rest: list[str]) -> _Response:
        version = rest.pop(1) if rest[:1] == ["versions"] and len(rest) > 1 else ""
        what = (rest[1:] if version else rest) or ["metadata"]
        if what not in (["metadata"], ["config"], ["ready"]):
            raise NotFound(f"there is no page {_protocol.quoted('/'.join(what))} of a model")
        models = await self._backend.models()
        if name not in models:
            raise NotFound(f"there is no model {_protocol.quoted(name)}")
        _protocol.check_version(version, models[name]["version"], name)
        if what == ["ready"]:
            ready = models[name]["ready"]
            return _json({"name": name, "ready": ready}, 200 if ready else 503)
        return _json(await self._backend.describe(name, what[0]))

    # ---- the repository, and what changes a model ----

    def _check_token(self, request: _Request) -> None:
        if self._options.token is None:
            raise RequestError("requests that change the server are off: it was started without an admin token", 403)
        given = request.headers.get("authorization", "").encode()
        if not hmac.compare_digest(given, f"Bearer {self._options.token}".encode()):
            raise RequestError("the Authorization header has not the server's admin token", 401)

    async def _index(self, request: _Request) -> _Response:
        body = await self._body(request)
        only_ready = bool(_protocol.parse_json(body).get("ready")) if body else False
        models = await self._backend.models()
        entries = [
            {"name": name, "version": str(model["version"]), "state": "READY" if model["ready"] else "UNAVAILABLE"}
            for name, model in sorted(models.items())
        ] + [{"name": name, "state": "UNAVAILABLE", "reason": "not loaded"} for name in self._repository.artifacts() if name not in models]
        return _json([entry for entry in entries if not only_ready or entry["state"] == "READY"])

    async def _load(self, name: str) -> _Response:
        """Loads a model of the folder, or one that the server has again: from the folder if it is there, else from where it came from."""
        is_there = name in self._repository.artifacts()
        if not is_there and name not in await self._backend.models():
            self._repository.path(name, "model")  # says why
            raise NotFound(f"{_protocol.quoted(name)} is no artifact")
        return await self._change(name, Change("load", path=self._repository.path(name, "model") if is_there else ""))

    async def _admin(self, request: _Request, name: str, rest: list[str]) -> _Response:
        match [request.method, *rest]:
            case ["POST", "weights"]:
                body = _protocol.parse_json(await self._body(request))
                return await self._change(name, Change("weights", path=self._repository.path(body.get("artifact"), "artifact")))
            case ["POST", "rows"]:
                header_length = request.headers.get(_protocol.HEADER_LENGTH)
                return await self._change(name, await self._backend.rows_change(name, await self._body(request), header_length))
            case ["POST", "adapters", slot]:
                body = _protocol.parse_json(await self._body(request))
                return await self._change(name, Change("adapter", _slot(slot), self._repository.path(body.get("adapter"), "adapter")))
            case ["DELETE", "adapters", slot]:
                return await self._change(name, Change("adapter", _slot(slot)))
        raise NotFound(f"there is no {request.method} {_protocol.quoted('/'.join(rest))} of a model")

    async def _change(self, name: str, change: Change) -> _Response:
        version = await self._backend.change(name, change)
        return _json({"model_name": name, "model_version": str(version)})

    # ---- bodies ----

    async def _body(self, request: _Request) -> bytes:
        try:
            return await asyncio.wait_for(self._read(request), self._options.body_timeout_s)
        except asyncio.TimeoutError:
            raise RequestError(f"the body was not there within {self._options.body_timeout_s:g} s", 408) from None

    async def _read(self, request: _Request) -> bytes:
        limit = self._options.max_body_bytes
        too_large = TooLarge(f"the body has more than {limit} bytes")
        declared = request.headers.get("content-length", "0")
        if declared.isdecimal() and int(declared) > limit:
            raise too_large
        encoding = request.headers.get("content-encoding", "identity")
        inflater = None if encoding == "identity" else _protocol.Inflater(encoding, limit)
        pieces, received = [], 0
        while True:
            message = await request.receive()
            if message["type"] == "http.disconnect":
                raise _Disconnected
            piece = message.get("body", b"")
            received += len(piece)
            if received > limit:
                raise too_large
            pieces.append(inflater.add(piece) if inflater else piece)
            if not message.get("more_body"):
                break
        if inflater:
            inflater.end()
        return b"".join(pieces)


def _slot(text: str) -> str:
    if not text.isdecimal() or len(text) > 9:
        raise RequestError(f"{_protocol.quoted(text)} is no number of a slot")
    return text


async def _send(response: _Response, accepted: str, send: Callable[..., Awaitable[None]]) -> None:
    body, headers = response.body, {"content-type": response.content_type}
    if len(body) >= _MIN_COMPRESSED:
        body, encoding = _protocol.deflated(body, accepted)
        if encoding:
            headers["content-encoding"] = encoding
    if response.header_length is not None:
        headers[_protocol.HEADER_LENGTH] = str(response.header_length)
    headers["content-length"] = str(len(body))
    raw = [(name.encode(), value.encode()) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": response.status, "headers": raw})
    await send({"type": "http.response.body", "body": body})
