"""The HTTP interface of a server: an ASGI application that reads bodies within limits, and serves the paths of the Open Inference Protocol
and those that change the server."""

from __future__ import annotations

import asyncio
import json
import logging
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Awaitable, Callable, Mapping

from fusec.serve import _http_protocol, _metrics
from fusec.serve._changes import Change
from fusec.serve._errors import NotFound, RequestError, error_json
from fusec.serve._gateway import Gateway
from fusec.serve._http_protocol import HEADER_LENGTH, MIN_COMPRESSED, Answer, HttpInfer, parse_json
from fusec.serve._protocol import LARGE_BYTES, quoted

logger = logging.getLogger("fusec.serve")


class Disconnected(Exception):
    """The client has closed the connection, so no answer is needed."""


@dataclass
class Request:
    """An HTTP request; `receive` returns its body in ASGI messages."""

    method: str
    path: str
    headers: dict[str, str]
    receive: Callable[[], Awaitable[dict[str, Any]]]

    @cached_property
    def parts(self) -> list[str]:
        return [part for part in self.path.split("/") if part]


@dataclass
class Response:
    """An HTTP answer."""

    body: bytes
    status: int = 200
    content_type: str = "application/json"
    header_length: int | None = None
    encoding: str | None = None

    @property
    def headers(self) -> dict[str, str]:
        found = {"content-type": self.content_type}
        if self.encoding:
            found["content-encoding"] = self.encoding
        if self.header_length is not None:
            found[HEADER_LENGTH] = str(self.header_length)
        return {**found, "content-length": str(len(self.body))}


def infer_response(answer: Answer) -> Response:
    """The answer to a request of infer."""
    kind = "application/json" if answer.header_length is None else "application/octet-stream"
    return Response(answer.body, 200, kind, answer.header_length)


def _json(value: Any, status: int = 200) -> Response:
    return Response(json.dumps(value).encode(), status)


class HttpGateway:
    """The ASGI application."""

    def __init__(self, gateway: Gateway):
        self._gateway, self._backend, self._repository = gateway, gateway.backend, gateway.repository

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
        try:
            response = await self.answer(Request(scope["method"], path, headers, receive))
        except Disconnected:
            return
        raw = [(name.encode(), value.encode()) for name, value in response.headers.items()]
        await send({"type": "http.response.start", "status": response.status, "headers": raw})
        await send({"type": "http.response.body", "body": response.body})

    async def answer(self, request: Request) -> Response:
        """The answer to any request, compressed if its client accepts that. Raises Disconnected."""
        try:
            response = await self._respond(request)
        except RequestError as error:
            response = refusal(error)
        except Disconnected:
            raise
        except Exception as error:
            logger.exception("%s %s failed", request.method, request.path)
            response = _json({"error": f"the server failed: {type(error).__name__}"}, 500)
        return await packed(response, request.headers.get("accept-encoding", ""))

    async def _respond(self, request: Request) -> Response:
        gateway = self._gateway
        match [request.method, *request.parts]:
            case ["POST", "v2", "models", name, "infer"]:
                return await self._infer(request, name, "")
            case ["POST", "v2", "models", name, "versions", version, "infer"]:
                return await self._infer(request, name, version)
            case ["GET", "v2", "health", "live"]:
                return _json({"live": True})
            case ["GET", "v2", "health", "ready"]:
                ready = await gateway.is_ready()
                return _json({"ready": ready}, 200 if ready else 503)
            case ["GET", "v2"]:
                return _json(gateway.metadata())
            case ["GET", "v2", "models", "stats"]:
                return _json(await gateway.statistics("", ""))
            case ["GET", "v2", "models", name, "versions", version, *rest]:
                return await self._about(name, version, rest)
            case ["GET", "v2", "models", name, *rest]:
                return await self._about(name, "", rest)
            case ["POST", "v2", "repository", "index"]:
                body = await self._body(request)
                return _json(await gateway.index(only_ready=bool(body and parse_json(body).get("ready"))))
            case ["POST", "v2", "repository", "models", name, ("load" | "unload") as verb]:
                gateway.check_token(request.headers.get("authorization", ""))
                return _changed(name, await (gateway.load(name) if verb == "load" else gateway.unload(name)))
            case ["GET", "metrics"]:
                text = _metrics.render(await self._backend.samples())
                return Response(text.encode(), content_type="text/plain; version=0.0.4; charset=utf-8")
            case [("POST" | "DELETE"), "admin", "models", name, *rest]:
                gateway.check_token(request.headers.get("authorization", ""))
                return _changed(name, await self._backend.change(name, await self._change(request, name, rest)))
        raise NotFound(f"there is no {request.method} /{'/'.join(request.parts)[:200]}")

    async def _infer(self, request: Request, name: str, version: str) -> Response:
        asked = HttpInfer(await self._body(request), request.headers.get(HEADER_LENGTH), version)
        return infer_response(await self._backend.infer(name, asked))

    async def _about(self, name: str, version: str, rest: list[str]) -> Response:
        match rest:
            case []:
                return _json(await self._gateway.describe(name, version, "metadata"))
            case ["config"]:
                return _json(await self._gateway.describe(name, version, "config"))
            case ["stats"]:
                return _json(await self._gateway.statistics(name, version))
            case ["ready"]:
                ready = await self._gateway.is_model_ready(name, version)
                return _json({"name": name, "ready": ready}, 200 if ready else 503)
        raise NotFound(f"there is no page {quoted('/'.join(rest))} of a model")

    async def _change(self, request: Request, name: str, rest: list[str]) -> Change:
        match [request.method, *rest]:
            case ["POST", "weights"]:
                body = parse_json(await self._body(request))
                return Change("weights", path=self._repository.path(body.get("artifact"), "artifact"))
            case ["POST", "rows"]:
                header_length = request.headers.get(HEADER_LENGTH)
                return await self._backend.rows_change(name, HttpInfer(await self._body(request), header_length))
            case ["POST", "adapters", slot]:
                body = parse_json(await self._body(request))
                return Change("adapter", _slot(slot), self._repository.path(body.get("adapter"), "adapter"))
            case ["DELETE", "adapters", slot]:
                return Change("adapter", _slot(slot))
        raise NotFound(f"there is no {request.method} {quoted('/'.join(rest))} of a model")

    # ---- bodies ----

    async def _body(self, request: Request) -> bytes:
        try:
            return await asyncio.wait_for(self._read(request), self._gateway.options.body_timeout_s)
        except asyncio.TimeoutError:
            raise RequestError(f"the body was not there within {self._gateway.options.body_timeout_s:g} s", 408) from None

    async def _read(self, request: Request) -> bytes:
        declared = request.headers.get("content-length", "0")
        self._gateway.check_size(int(declared) if declared.isdecimal() else 0)
        encoding = request.headers.get("content-encoding", "identity")
        inflater = None if encoding == "identity" else _http_protocol.Inflater(encoding, self._gateway.options.max_body_bytes)
        pieces, received = [], 0
        while True:
            message = await request.receive()
            if message["type"] == "http.disconnect":
                raise Disconnected
            piece = message.get("body", b"")
            received += len(piece)
            self._gateway.check_size(received)
            pieces.append(inflater.add(piece) if inflater else piece)
            if not message.get("more_body"):
                break
        if inflater:
            inflater.end()
        return b"".join(pieces)


def _changed(name: str, version: int) -> Response:
    return _json({"model_name": name, "model_version": str(version)})


def _slot(text: str) -> str:
    if not text.isdecimal() or len(text) > 9:
        raise RequestError(f"{quoted(text)} is no number of a slot")
    return text


def refusal(error: RequestError) -> Response:
    """The answer to a request that failed."""
    return Response(error_json(error), error.status)


def is_packed(body: bytes) -> bool:
    """Whether an answer is compressed if its client accepts that."""
    return len(body) >= MIN_COMPRESSED


async def packed(response: Response, accepted: str) -> Response:
    """The answer, with its body as a client accepts it."""
    body = response.body
    if is_packed(body):
        deflate = _http_protocol.deflated
        body, encoding = deflate(body, accepted) if len(body) < LARGE_BYTES else await asyncio.to_thread(deflate, body, accepted)
        return replace(response, body=body, encoding=encoding)
    return response
