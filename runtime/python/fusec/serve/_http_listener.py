"""HTTP/1.1 in the process of a replica: persistent connections, which are read without a task per request and answered in one write."""

from __future__ import annotations

import asyncio
import email.utils
import http
import logging
import socket
import time
from typing import Any, Awaitable

import httptools

from fusec.serve._errors import RequestError, TooLarge
from fusec.serve._gateway import Gateway
from fusec.serve._http import HttpGateway, Request, Response, infer_response, is_packed, packed, refusal
from fusec.serve._http_head import Head, Heads
from fusec.serve._http_protocol import Answer
from fusec.serve._server import Begun, ModelServer

logger = logging.getLogger("fusec.serve")
BACKLOG = 2048  # connections that wait to be accepted
_KEEP_ALIVE_S = 90  # how long an idle connection is kept, as in Ray's proxy
_DROP_S = 5.0  # how long the rest of a refused request is read and dropped
_TICK_S = 1.0  # between checks of idle connections
_LONGEST_HEAD = 64 << 10  # bytes
_MOST_FRAMING = 8  # bytes on the wire per byte of a body in chunks; chunks of one byte take 6
_MOST_PENDING = 256 << 10  # bytes that a client may send before its earlier requests are answered
_STATUS_LINES = {status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\n".encode() for status in http.HTTPStatus}
_BINARY = (
    b"HTTP/1.1 200 OK\r\ncontent-type: application/octet-stream\r\ninference-header-content-length: %d\r\ncontent-length: %d\r\ndate: %s\r\n\r\n"
)


class Listener:
    """Answers requests with a gateway; requests for `local`, a model of this process, without a task if possible. It is used in one event
    loop."""

    def __init__(self, gateway: Gateway, local: ModelServer | None = None):
        self.application, self.local, self.options = HttpGateway(gateway), local, gateway.options
        self.check_size = gateway.check_size
        self.heads, self.connections, self.date = Heads(), set[Connection](), b""
        self.is_closing = False
        self._server: asyncio.Server | None = None
        self._ticking: asyncio.TimerHandle | None = None

    async def start(self, listening: socket.socket) -> None:
        self._server = await asyncio.get_running_loop().create_server(lambda: Connection(self), sock=listening, backlog=BACKLOG)
        self._tick()

    @property
    def is_serving(self) -> bool:
        return self._server is not None and self._server.is_serving()

    def _tick(self) -> None:
        loop = asyncio.get_running_loop()
        self.date = email.utils.formatdate(usegmt=True).encode()
        oldest = loop.time() - _KEEP_ALIVE_S
        for connection in [connection for connection in self.connections if connection.idle_since < oldest]:
            connection.end_idle()
        self._ticking = loop.call_later(_TICK_S, self._tick)

    async def close(self, grace_s: float) -> None:
        """Refuses new connections, and returns when the requests that were begun have been answered, or after a time limit."""
        self.is_closing = True
        if self._server is not None:
            self._server.close()
        for connection in list(self.connections):
            connection.end_idle()
        end = time.monotonic() + grace_s
        while self.connections and time.monotonic() < end:
            await asyncio.sleep(0.005)
        for connection in list(self.connections):
            connection.abort()
        if self._ticking is not None:
            self._ticking.cancel()


class Connection(asyncio.Protocol):
    """The connection of a client. One request at a time is answered; bytes that arrive meanwhile wait in `_unread`."""

    def __init__(self, listener: Listener):
        self._listener = listener
        self._loop = asyncio.get_running_loop()
        self._transport: Any = None
        self._unread = b""
        self._head: Head | None = None  # head of the request that is being read or answered
        self._pieces: list[bytes] = []  # pieces of its body
        self._chunks = bytearray()  # its body if that comes in chunks
        self._received = self._framed = 0  # bytes of it; with what is around the chunks
        self._is_answering = self._is_dropping = self._is_held = self._is_paused = False
        self._begun: Begun | None = None
        self._task: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self.idle_since = self._loop.time()

    # ---- its life ----

    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        self._listener.connections.add(self)

    def connection_lost(self, error: Exception | None) -> None:
        self._listener.connections.discard(self)
        self._is_dropping, self._unread, self._pieces = True, b"", []
        self._chunks = bytearray()
        self._stop_timer()
        if self._begun is not None:
            self._begun.cancel()
        if self._task is not None:
            self._task.cancel()
        self._begun = self._task = None

    def end_idle(self) -> None:
        """Closes the connection unless it is reading or answering a request whose head was read."""
        if self._head is None:
            self._transport.close()

    def abort(self) -> None:
        self._transport.abort()

    def pause_writing(self) -> None:
        self._is_held = True

    def resume_writing(self) -> None:
        self._is_held = False
        self._resume_reading()
        self._read_on()

    # ---- reading ----

    def data_received(self, data: bytes) -> None:
        if self._is_dropping:
            return
        self._unread = self._unread + data if self._unread else data
        self._read_on()
        if len(self._unread) > _MOST_PENDING and not self._is_paused:
            self._is_paused = True
            self._transport.pause_reading()

    def _resume_reading(self) -> None:
        if self._is_paused:
            self._is_paused = False
            self._transport.resume_reading()

    def _read_on(self) -> None:
        """Reads the received bytes, until a request waits for its answer or more bytes are needed."""
        while self._unread and not (self._is_answering or self._is_held or self._is_dropping):
            head, data, start = self._head, self._unread, 0
            if head is None:
                if data[0] in b"\r\n":  # empty lines before a request are allowed
                    self._unread = data.lstrip(b"\r\n")
                    continue
                start = data.find(b"\r\n\r\n") + 4
                if (start if start >= 4 else len(data)) > _LONGEST_HEAD:
                    self._refuse(RequestError(f"the head of the request has more than {_LONGEST_HEAD} bytes", 431))
                    return
                if start < 4:
                    return
                try:
                    head = self._head = self._listener.heads.read(data[:start] if start < len(data) else data)
                except (httptools.HttpParserError, ValueError) as error:
                    self._refuse(RequestError(f"this is no request of HTTP/1.1: {error}", 400))
                    return
                try:
                    self._listener.check_size(head.length)
                except TooLarge as error:
                    self._unread = data[start:]
                    self._refuse(error)
                    return
            if not (self._read_chunks(head, data, start) if head.is_chunked else self._read_body(head, data, start)):
                return

    def _read_body(self, head: Head, data: bytes, start: int) -> bool:
        """Answers the request if its body is complete. A body that came in one piece is not copied."""
        length, there = head.length, len(data) - start
        if self._received + there < length:
            if there:
                self._pieces.append(data[start:] if start else data)
                self._received += there
            self._unread = b""
            self._expect(head)
            return False
        end = start + length - self._received
        self._unread = data[end:] if end < len(data) else b""
        if self._pieces:
            self._pieces.append(data[start:end])
            data, start, self._pieces, self._received = b"".join(self._pieces), 0, [], 0
        self._stop_timer()
        self._answer(head, data, start, length)
        return True

    def _read_chunks(self, head: Head, data: bytes, start: int) -> bool:
        told, self._unread = head.rest, b""
        assert told is not None
        told.add = self._add_chunk
        self._framed += len(data) - start
        try:
            if start < len(data):
                told.parser.feed_data(data[start:] if start else data)
        except httptools.HttpParserError as error:
            cause = error.__context__
            self._refuse(cause if isinstance(cause, RequestError) else RequestError(f"this is no body of HTTP/1.1: {error}", 400))
            return False
        if not told.is_complete and self._framed > _MOST_FRAMING * self._received + _LONGEST_HEAD:
            self._refuse(RequestError("the chunks of the body are mostly something else", 400))
            return False
        if not told.is_complete:
            self._expect(head)
            return False
        head.keeps_alive = head.keeps_alive and not told.has_more  # llhttp has consumed bytes of the next request
        body = bytes(self._chunks)
        self._chunks, self._received, self._framed = bytearray(), 0, 0
        self._stop_timer()
        self._answer(head, body, 0, len(body))
        return True

    def _add_chunk(self, piece: bytes) -> None:
        self._received += len(piece)
        self._listener.check_size(self._received)
        self._chunks += piece

    def _expect(self, head: Head) -> None:
        """Starts the time limit for the rest of the body."""
        if self._timer is None:
            self._timer = self._loop.call_later(self._listener.options.body_timeout_s, self._is_late)
            if head.headers.get("expect", "").lower() == "100-continue" and not self._received:
                self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    def _is_late(self) -> None:
        self._refuse(RequestError(f"the body was not there within {self._listener.options.body_timeout_s:g} s", 408))

    def _refuse(self, error: RequestError) -> None:
        """Answers a request that is not read to its end. The rest that its client sends is read and dropped for a while, because closing a
        connection with unread bytes could lose the answer."""
        self._stop_timer()
        self._unread, self._pieces, self._chunks = b"", [], bytearray()
        self._write(refusal(error), False)
        self._is_dropping = True
        self._transport.write_eof()
        self._timer = self._loop.call_later(min(_DROP_S, self._listener.options.body_timeout_s), self._transport.close)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    # ---- answers ----

    def _answer(self, head: Head, data: bytes, start: int, length: int) -> None:
        self._is_answering, local = True, self._listener.local
        if local is not None and head.infer == local.name:
            try:
                self._begun = local.begin(data, start, length, head.json_length, self._done)
            except RequestError as error:
                self._send(refusal(error))
                return
            if self._begun is not None:
                return
        body = data[start : start + length]

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": body, "more_body": False}

        request = Request(head.method, head.path, head.headers, receive)
        self._task = self._loop.create_task(self._finish(self._listener.application.answer(request)))

    async def _finish(self, answering: Awaitable[Response]) -> None:
        try:
            response = await answering
        except Exception as error:
            logger.exception("an answer failed")
            response = refusal(RequestError(f"the server failed: {type(error).__name__}", 500))
        self._task = None
        self._send(response)
        self._read_on()

    def _done(self, answer: Answer | RequestError) -> None:
        """Writes the answer, or the error, of a request that was begun without a task."""
        self._begun, head = None, self._head
        if isinstance(answer, RequestError):
            self._send(refusal(answer))
        elif head is not None and head.accepts and is_packed(answer.body):
            self._task = self._loop.create_task(self._finish(packed(infer_response(answer), head.accepts)))
            return
        elif head is not None and head.keeps_alive and not self._listener.is_closing:
            body = answer.body
            self._transport.write(_BINARY % (answer.header_length, len(body), self._listener.date) + body)
            self._is_answered()
        else:
            self._send(infer_response(answer))
        if self._unread:
            self._read_on()

    def _send(self, response: Response) -> None:
        """Writes an answer, and then closes the connection if no other request can follow."""
        keeps_alive = self._head is not None and self._head.keeps_alive and not self._listener.is_closing
        self._write(response, keeps_alive)
        self._is_answered()
        if not keeps_alive:
            self._is_dropping = True
            self._transport.close()

    def _write(self, response: Response, keeps_alive: bool) -> None:
        lines = [f"{name}: {value}\r\n" for name, value in response.headers.items()]
        if not keeps_alive:
            lines.append("connection: close\r\n")
        body = b"" if self._head is not None and self._head.method == "HEAD" else response.body
        text = "".join(lines).encode("latin-1")
        self._transport.write(b"".join([_STATUS_LINES[response.status], text, b"date: ", self._listener.date, b"\r\n\r\n", body]))

    def _is_answered(self) -> None:
        self._is_answering, self._head, self.idle_since = False, None, self._loop.time()
        self._resume_reading()
