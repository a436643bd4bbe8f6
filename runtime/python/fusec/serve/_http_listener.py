"""HTTP/1.1 in the process of a replica. A C++ server reads the connections, and answers requests that match a plan (`_plans.py`) without
Python; all others are answered here."""

from __future__ import annotations

import asyncio
import functools
import logging
import os
import re
import socket
import time
import urllib.parse
from typing import Any, Awaitable

from fusec import _native
from fusec.serve import _tracing
from fusec.serve._batcher import Batcher
from fusec.serve._errors import RequestError
from fusec.serve._gateway import Gateway
from fusec.serve._http import HttpGateway, Request, Response, infer_response, is_packed, packed, refusal
from fusec.serve._http_protocol import HEADER_LENGTH, Answer
from fusec.serve._server import Begun, ModelServer

logger = logging.getLogger("fusec.serve")
_MOST_THREADS = 4  # by default
_BACKLOG = 2048  # connections that wait to be accepted
_INFER = re.compile(r"/v2/models/([^/]+)/infer")
_BINARY = b"content-type: application/octet-stream\r\ninference-header-content-length: %d\r\ncontent-length: %d\r\n"


@functools.lru_cache(256)
def _path(target: str) -> tuple[str, str]:
    """The path of a request, and the name of the model if it is one of infer."""
    path = urllib.parse.unquote(urllib.parse.urlsplit(target).path)
    match = _INFER.fullmatch(path)
    return path, match[1] if match else ""


class Listener:
    """Answers requests with a gateway; requests for `local`, a model of this process, without a task if possible. It is used in one event
    loop."""

    def __init__(self, gateway: Gateway, local: ModelServer | None = None):
        self.application, self.local, self._options = HttpGateway(gateway), local, gateway.options
        self._loop = asyncio.get_running_loop()
        self.port = 0
        self._server: Any = None
        self._planned: Batcher | None = None  # the batcher that gets planned requests from the server
        self._exchanges: dict[_native.HttpRequest, Exchange] = {}
        self._looking: asyncio.TimerHandle | None = None

    def start(self, host: str, port: int, threads: int = 0) -> None:
        """Begins to listen, on some port if that is 0. Raises OSError if another program uses it."""
        threads = threads if threads > 0 else min(max((os.cpu_count() or 1) // 4, 1), _MOST_THREADS)
        listening = _shared_socket(host, port)
        self.port = listening.getsockname()[1]
        self._server = _native.HttpServer(listening.detach(), self._options.max_body_bytes, self._options.body_timeout_s, threads)
        self._loop.add_reader(self._server.fileno(), self._take_events)
        self._look()

    @property
    def is_serving(self) -> bool:
        return self._server is not None and not self._server.is_closing

    @property
    def connections(self) -> int:
        return self._server.connections

    def _look(self) -> None:
        """Lets the server answer planned requests for the model that is loaded now. Spans of requests are recorded in Python."""
        local = self.local
        batcher = local.batcher if local is not None and not _tracing.is_recorded() else None
        if batcher is not self._planned and local is not None:
            self._planned = batcher
            if batcher is None:
                self._server.unset_model()
            else:
                self._server.set_model(f"/v2/models/{urllib.parse.quote(local.name, safe='')}/infer", batcher.queue, batcher.plans)
        self._looking = self._loop.call_later(_tracing.LOOK_S, self._look)

    def _take_events(self) -> None:
        arrived, gone, ended = self._server.take_events()
        for request in arrived:
            exchange = self._exchanges[request] = Exchange(self, request)
            exchange.begin()
        for request in gone:
            exchange = self._exchanges.get(request)
            if exchange is not None:
                exchange.cancel()
        for status, seconds in ended:
            self.local.metrics.note_request(status, seconds)

    def forget(self, request: _native.HttpRequest) -> None:
        self._exchanges.pop(request, None)

    async def close(self, grace_s: float) -> None:
        """Refuses new connections, and returns when the requests that were begun have been answered, or after a time limit."""
        if self._server is None:
            return
        self._server.close_idle()
        end = time.monotonic() + grace_s
        while self._server.connections and time.monotonic() < end:
            await asyncio.sleep(0.005)
        self._server.stop()
        self._take_events()
        self._loop.remove_reader(self._server.fileno())
        if self._looking is not None:
            self._looking.cancel()


class Exchange:
    """A request, until it is answered or its client has hung up."""

    def __init__(self, listener: Listener, request: _native.HttpRequest):
        self._listener, self._request = listener, request
        self._begun: Begun | None = None
        self._task: asyncio.Task[None] | None = None

    def begin(self) -> None:
        local, body = self._listener.local, self._request.body
        json_length = self._binary_infer()
        if local is not None and json_length is not None:
            try:
                self._begun = local.begin(body, 0, len(body), json_length, self._done)
            except RequestError as error:
                self._send(refusal(error))
                return
            if self._begun is not None:
                return

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": body, "more_body": False}

        request = self._request
        asked = Request(request.method, _path(request.target)[0], dict(request.headers), receive)
        self._start(self._listener.application.answer(asked))

    def _binary_infer(self) -> int | None:
        """The size of the JSON, if this is a request to the local model with binary tensors that are not compressed."""
        request, local = self._request, self._listener.local
        size = request.header(HEADER_LENGTH)
        is_local = local is not None and _path(request.target)[1] == local.name
        is_plain = request.method == "POST" and size.isdecimal() and request.header("content-encoding") in ("", "identity")
        return int(size) if is_local and is_plain else None

    def cancel(self) -> None:
        """Called when the client has hung up."""
        if self._begun is not None:
            self._begun.cancel()
        if self._task is not None:
            self._task.cancel()
        self._end()

    def _start(self, answering: Awaitable[Response]) -> None:
        self._task = asyncio.get_running_loop().create_task(self._finish(answering))

    async def _finish(self, answering: Awaitable[Response]) -> None:
        try:
            response = await answering
        except Exception as error:
            logger.exception("an answer failed")
            response = refusal(RequestError(f"the server failed: {type(error).__name__}", 500))
        self._send(response)

    def _done(self, answer: Answer | RequestError) -> None:
        """Takes the answer, or the error, of a request that was begun without a task."""
        accepted = self._request.header("accept-encoding")
        if isinstance(answer, RequestError):
            self._send(refusal(answer))
        elif accepted and is_packed(answer.body):
            self._begun = None
            self._start(packed(infer_response(answer), accepted))
        else:  # its data is binary
            self._request.answer(200, _BINARY % (answer.header_length, len(answer.body)), answer.body)
            self._end()

    def _send(self, response: Response) -> None:
        head = "".join(f"{name}: {value}\r\n" for name, value in response.headers.items())
        self._request.answer(response.status, head.encode("latin-1"), response.body)
        self._end()

    def _end(self) -> None:
        self._begun = self._task = None
        self._listener.forget(self._request)


def _shared_socket(host: str, port: int) -> socket.socket:
    (family, kind, protocol, _, address), *_ = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    listening = socket.socket(family, kind, protocol)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        listening.bind(address)
        listening.listen(_BACKLOG)
    except OSError:
        listening.close()
        raise
    return listening
