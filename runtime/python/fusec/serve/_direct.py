"""A replica that listens itself: requests for its model reach it without passing another process. All replicas of a node share the port
(SO_REUSEPORT), and the operating system gives each connection to one of them."""

from __future__ import annotations

import grpc

from fusec.serve._gateway import DirectOptions, Gateway
from fusec.serve._grpc import GrpcGateway, add_to_server
from fusec.serve._http_listener import Listener
from fusec.serve._server import ModelServer

_GRACE_S = 10  # the time for answering requests that were read when the replica stops


class DirectServer:
    """Listens for a gateway in this process and for its model `local`. It is created and used in one event loop."""

    def __init__(self, gateway: Gateway, options: DirectOptions, local: ModelServer | None = None):
        self._gateway, self._options, self._local = gateway, options, local
        self._http: Listener | None = None
        self._grpc: grpc.aio.Server | None = None

    async def start(self) -> None:
        """Begins to listen. Raises OSError or RuntimeError if another program uses the port."""
        if self._options.http is not None:
            self._http = Listener(self._gateway, self._local)
            self._http.start(*self._options.http, self._options.http_threads)
        if self._options.grpc is not None:
            host, port = self._options.grpc
            limit = self._gateway.options.max_body_bytes
            self._grpc = grpc.aio.server(options=[("grpc.so_reuseport", 1), ("grpc.max_receive_message_length", limit)])
            add_to_server(GrpcGateway(self._gateway), self._grpc)
            self._grpc.add_insecure_port(f"[{host}]:{port}" if ":" in host else f"{host}:{port}")
            await self._grpc.start()

    def check(self) -> None:
        """Raises an error if it does not listen any more."""
        if self._http is not None and not self._http.is_serving:
            raise RuntimeError("the server of HTTP has ended")

    async def close(self) -> None:
        """Refuses new connections, and returns when the requests that were read have been answered."""
        if self._http is not None:
            await self._http.close(_GRACE_S)
        if self._grpc is not None:
            await self._grpc.stop(_GRACE_S)
