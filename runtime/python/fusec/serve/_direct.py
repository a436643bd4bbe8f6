"""A replica that listens itself: a request for its model reaches it without a process of Ray's in between. All replicas of a node share the
port (SO_REUSEPORT), and the kernel gives each connection to one of them."""

from __future__ import annotations

import asyncio
import socket
from typing import Any, Awaitable, Callable, Mapping

import grpc
import uvicorn

from fusec.serve._gateway import DirectOptions, Gateway
from fusec.serve._grpc import GrpcGateway, add_to_server
from fusec.serve._http import HttpGateway

_BACKLOG = 2048  # connections that wait to be accepted
_KEEP_ALIVE_S = 90  # of an idle connection, as Ray's proxy has it
_GRACE_S = 10  # in which requests that were read have their answers when the replica goes

Message = dict[str, Any]


class DirectServer:
    """Listens for a gateway in this process. Made and used in one event loop."""

    def __init__(self, gateway: Gateway, options: DirectOptions):
        self._gateway, self._options = gateway, options
        self._http: uvicorn.Server | None = None
        self._serving: asyncio.Task[None] | None = None
        self._grpc: grpc.aio.Server | None = None

    async def start(self) -> None:
        """Raises OSError or RuntimeError where another program has the port."""
        if self._options.http is not None:
            application = _UntilHangUp(HttpGateway(self._gateway))
            config = uvicorn.Config(
                application, http="httptools", ws="none", lifespan="off", proxy_headers=False, access_log=False, log_config=None,
                log_level="error", timeout_keep_alive=_KEEP_ALIVE_S, timeout_graceful_shutdown=_GRACE_S,
            )  # fmt: skip
            self._http, listening = uvicorn.Server(config), _shared_socket(*self._options.http)
            self._serving = asyncio.get_running_loop().create_task(self._http.serve([listening]))
        if self._options.grpc is not None:
            host, port = self._options.grpc
            limit = self._gateway.options.max_body_bytes
            self._grpc = grpc.aio.server(options=[("grpc.so_reuseport", 1), ("grpc.max_receive_message_length", limit)])
            add_to_server(GrpcGateway(self._gateway), self._grpc)
            self._grpc.add_insecure_port(f"[{host}]:{port}" if ":" in host else f"{host}:{port}")
            await self._grpc.start()

    def check(self) -> None:
        """Raises where nobody listens any more."""
        if self._serving is not None and self._serving.done():
            self._serving.result()
            raise RuntimeError("the server of HTTP has ended")

    async def close(self) -> None:
        """Refuses new connections, and returns when the requests that were read have their answers."""
        if self._http is not None and self._serving is not None:
            self._http.should_exit = True
            await asyncio.wait({self._serving})
        if self._grpc is not None:
            await self._grpc.stop(_GRACE_S)


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
    listening.setblocking(False)
    return listening


class _UntilHangUp:
    """An ASGI application that is cancelled when its client hangs up before it has begun to answer, as Ray's proxy does it."""

    def __init__(self, application: Callable[..., Awaitable[None]]):
        self._application = application

    async def __call__(
        self, scope: Mapping[str, Any], receive: Callable[[], Awaitable[Message]], send: Callable[[Message], Awaitable[None]]
    ) -> None:
        answering = asyncio.current_task()
        watching: asyncio.Future[Message] | None = None
        has_hung_up = False

        def hang_up(_: asyncio.Future[Message]) -> None:
            nonlocal has_hung_up
            has_hung_up = True
            assert answering is not None
            answering.cancel()

        async def receive_and_watch() -> Message:
            nonlocal watching
            message = await receive()
            if message["type"] == "http.request" and not message.get("more_body"):
                watching = asyncio.ensure_future(receive())  # which returns when the client has gone
                watching.add_done_callback(hang_up)
            return message

        async def send_unwatched(message: Message) -> None:
            nonlocal watching
            if watching is not None:
                watching.remove_done_callback(hang_up)
                watching.cancel()
                watching = None
            await send(message)

        try:
            await self._application(scope, receive_and_watch, send_unwatched)
        except asyncio.CancelledError:
            if not has_hung_up:
                raise
