"""The gRPC interface of a server: the methods of inference.GRPCInferenceService that this server has, in the form in which Ray Serve's gRPC
proxy calls them. They get bytes, because Ray cannot send protobuf messages between processes."""

from __future__ import annotations

import functools
import logging
from typing import Any, Awaitable, Callable

import grpc
from google.protobuf.json_format import ParseDict
from google.protobuf.message_factory import GetMessageClass
from tritonclient.grpc.service_pb2 import DESCRIPTOR

from fusec.serve._errors import RequestError
from fusec.serve._gateway import Gateway
from fusec.serve._grpc_protocol import GrpcInfer, parse

logger = logging.getLogger("fusec.serve")
_SERVICE = DESCRIPTOR.services_by_name["GRPCInferenceService"]
_CODES = {
    400: grpc.StatusCode.INVALID_ARGUMENT,
    401: grpc.StatusCode.UNAUTHENTICATED,
    403: grpc.StatusCode.PERMISSION_DENIED,
    404: grpc.StatusCode.NOT_FOUND,
    413: grpc.StatusCode.RESOURCE_EXHAUSTED,
    429: grpc.StatusCode.RESOURCE_EXHAUSTED,
    503: grpc.StatusCode.UNAVAILABLE,
    504: grpc.StatusCode.DEADLINE_EXCEEDED,
}  # gRPC codes by HTTP status; INTERNAL for all others


class _Serialized:
    """A message that the replica of a model has already serialised, in the form that Ray expects: Ray serialises the result of a method."""

    def __init__(self, message: bytes):
        self._message = message

    def SerializeToString(self) -> bytes:
        return self._message


def _method(answer: Callable[[Any, Any, Any], Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
    """A method of the service. `answer` returns the fields of its answer, or the message as _Serialized. If it raises, the call gets a
    code, one line and an empty message; Ray would log an exception with its traceback for each bad request."""
    method = _SERVICE.methods_by_name[answer.__name__]
    asked, answered = GetMessageClass(method.input_type), GetMessageClass(method.output_type)

    @functools.wraps(answer)
    async def call(self: Any, message: bytes, grpc_context: Any) -> Any:
        try:
            self.gateway.check_size(len(message))
            fields = await answer(self, parse(asked, message), grpc_context)
            return fields if isinstance(fields, _Serialized) else ParseDict(fields, answered())
        except RequestError as error:
            code, line = _CODES.get(error.status, grpc.StatusCode.INTERNAL), " ".join(str(error).split())
        except Exception as error:
            logger.exception("%s failed", method.name)
            code, line = grpc.StatusCode.INTERNAL, f"the server failed: {type(error).__name__}"
        grpc_context.set_code(code)
        grpc_context.set_details(line)
        return answered()

    return call


class GrpcGateway:
    """The methods, under their names in the service. Ray's proxy finds them on the deployment and passes the call's context under this
    parameter name."""

    def __init__(self, gateway: Gateway):
        self.gateway = gateway

    @_method
    async def ServerLive(self, request: Any, grpc_context: Any) -> Any:
        return {"live": True}

    @_method
    async def ServerReady(self, request: Any, grpc_context: Any) -> Any:
        return {"ready": await self.gateway.is_ready()}

    @_method
    async def ModelReady(self, request: Any, grpc_context: Any) -> Any:
        return {"ready": await self.gateway.is_model_ready(request.name, request.version)}

    @_method
    async def ServerMetadata(self, request: Any, grpc_context: Any) -> Any:
        return self.gateway.metadata()

    @_method
    async def ModelMetadata(self, request: Any, grpc_context: Any) -> Any:
        return await self.gateway.describe(request.name, request.version, "metadata")

    @_method
    async def ModelConfig(self, request: Any, grpc_context: Any) -> Any:
        return {"config": await self.gateway.describe(request.name, request.version, "config")}

    @_method
    async def ModelStatistics(self, request: Any, grpc_context: Any) -> Any:
        return await self.gateway.statistics(request.name, request.version)

    @_method
    async def ModelInfer(self, request: Any, grpc_context: Any) -> Any:
        asked = GrpcInfer(request.SerializeToString(), request.model_version)
        return _Serialized(await self.gateway.backend.infer(request.model_name, asked))

    @_method
    async def RepositoryIndex(self, request: Any, grpc_context: Any) -> Any:
        return {"models": await self.gateway.index(request.ready)}

    @_method
    async def RepositoryModelLoad(self, request: Any, grpc_context: Any) -> Any:
        self._check_token(grpc_context)
        await self.gateway.load(request.model_name)
        return {}

    @_method
    async def RepositoryModelUnload(self, request: Any, grpc_context: Any) -> Any:
        self._check_token(grpc_context)
        await self.gateway.unload(request.model_name)
        return {}

    def _check_token(self, grpc_context: Any) -> None:
        self.gateway.check_token(dict(grpc_context.invocation_metadata()).get("authorization", ""))


def add_to_server(servicer: Any, server: Any) -> None:
    """Adds the methods of GrpcGateway to a server, as Ray's proxies do with fusec.serve.GRPC_SERVICER. The server answers UNIMPLEMENTED
    to all other methods of the service."""
    handlers = {
        name: grpc.unary_unary_rpc_method_handler(getattr(servicer, name), response_serializer=lambda answer: answer.SerializeToString())
        for name in _SERVICE.methods_by_name
        if hasattr(GrpcGateway, name)
    }
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(_SERVICE.full_name, handlers),))
