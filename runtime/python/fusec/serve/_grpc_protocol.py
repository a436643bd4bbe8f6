"""The Open Inference Protocol over gRPC: conversion between messages and arrays. The messages are those of Triton's client. This module
does not depend on a server."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Sequence

import numpy as np
from google.protobuf.message import DecodeError
from tritonclient.grpc.service_pb2 import InferParameter, ModelInferRequest, ModelInferResponse

from fusec.serve import _protocol
from fusec.serve._errors import RequestError
from fusec.serve._protocol import Breaks, Infer, Result, quoted
from fusec.serve._signature import TensorSpec

# The field of InferTensorContents that holds the elements of a datatype; FP16 and BF16 have none.
_CONTENTS = {
    "bool": "bool_contents",
    "i8": "int_contents", "i16": "int_contents", "i32": "int_contents", "i64": "int64_contents",
    "u8": "uint_contents", "u16": "uint_contents", "u32": "uint_contents", "u64": "uint64_contents",
    "f32": "fp32_contents", "f64": "fp64_contents",
}  # fmt: skip


def parse(kind: type, message: bytes) -> Any:
    """Parses a message of a kind from bytes."""
    try:
        return kind.FromString(message)  # type: ignore[attr-defined]
    except DecodeError as error:
        raise RequestError(f"the message is no {kind.__name__}: {error}") from None


@dataclass(frozen=True)
class GrpcInfer:
    """A ModelInferRequest as bytes, because Python cannot send the message itself to a replica. `version` is the requested one."""

    message: bytes
    version: str = ""

    @property
    def size(self) -> int:
        return len(self.message)

    @cached_property
    def request(self) -> ModelInferRequest:
        return parse(ModelInferRequest, self.message)

    @property
    def is_large(self) -> bool:
        return self.size >= _protocol.LARGE_BYTES and not self.request.raw_input_contents

    def parse(self, specs: Sequence[TensorSpec]) -> Infer:
        """Parses the message. Arrays are views of raw_input_contents if it has these."""
        request, breaks = self.request, Breaks(self.is_large)
        if request.raw_input_contents and len(request.raw_input_contents) != len(request.inputs):
            raise RequestError(f"raw_input_contents has {len(request.raw_input_contents)} entries for {len(request.inputs)} inputs")
        known = {spec.name: spec for spec in specs}
        tensors: dict[str, np.ndarray] = {}
        for i, entry in enumerate(request.inputs):
            spec = _protocol.input_spec(entry.name, known, tensors)
            shape = list(entry.shape)
            _protocol.check_head(spec, entry.datatype, shape)
            _protocol.refuse_shared_memory(spec, entry.parameters)
            if request.raw_input_contents:
                tensors[spec.name] = _raw_tensor(entry, spec, shape, request.raw_input_contents[i])
            else:
                tensors[spec.name] = _typed_tensor(entry, spec, shape, breaks)
        for output in request.outputs:
            _protocol.check_output(output.name, {name: _value(parameter) for name, parameter in output.parameters.items()})
        timeout = _value(request.parameters["timeout"]) if "timeout" in request.parameters else None
        outputs = tuple((output.name, True) for output in request.outputs)
        return Infer(tensors, request.id, outputs, True, _protocol.timeout_ms(timeout))

    def has_large_answer(self, result: Result) -> bool:
        return False  # all outputs are raw

    def answer(self, infer: Infer, result: Result) -> bytes:
        """A ModelInferResponse as bytes."""
        response = ModelInferResponse(model_name=result.model, model_version=str(result.version), id=infer.id)
        for i, _ in result.selected:
            spec, array = result.specs[i], result.arrays[i]
            response.outputs.add(name=spec.name, datatype=_protocol.DATATYPES[spec.dtype_name], shape=array.shape)
            response.raw_output_contents.append(np.ascontiguousarray(array).tobytes())
        return response.SerializeToString()


def _value(parameter: InferParameter) -> Any:
    """The value of a parameter, of any type; None if it has none."""
    field = parameter.WhichOneof("parameter_choice")
    return getattr(parameter, field) if field else None


def _raw_tensor(entry: Any, spec: TensorSpec, shape: list[int], data: bytes) -> np.ndarray:
    if entry.contents.ListFields():
        raise RequestError(f"input {quoted(spec.name)} has both contents and raw_input_contents")
    _protocol.check_byte_count(spec, shape, len(data))
    return _protocol.tensor_of_bytes(spec, shape, data)


def _typed_tensor(entry: Any, spec: TensorSpec, shape: list[int], breaks: Breaks) -> np.ndarray:
    name, field = quoted(spec.name), _CONTENTS.get(spec.dtype_name)
    if field is None:
        raise RequestError(f"input {name} is {_protocol.DATATYPES[spec.dtype_name]}, which travels in raw_input_contents alone")
    others = [other.name for other, _ in entry.contents.ListFields() if other.name != field]
    if others:
        raise RequestError(f"input {name} is {_protocol.DATATYPES[spec.dtype_name]} and has {others[0]}, expected {field}")
    return _protocol.tensor_of_elements(spec, shape, getattr(entry.contents, field), breaks)
