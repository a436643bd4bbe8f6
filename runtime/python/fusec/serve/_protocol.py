"""The parts of the Open Inference Protocol, version 2, that HTTP and gRPC have in common: the contents of a request, the checks of its
tensors, and the metadata of a model.

https://github.com/kserve/open-inference-protocol describes the protocol. This module does not depend on a server.
"""

from __future__ import annotations

import json
import math
import time
from dataclasses import dataclass
from typing import Any, Iterable, Mapping, Protocol, Sequence

import numpy as np

from fusec.serve._errors import NotFound, RequestError
from fusec.serve._signature import Signature, TensorSpec

DATATYPES = {
    "f32": "FP32", "f16": "FP16", "bf16": "BF16", "f64": "FP64", "bool": "BOOL",
    "i8": "INT8", "i16": "INT16", "i32": "INT32", "i64": "INT64",
    "u8": "UINT8", "u16": "UINT16", "u32": "UINT32", "u64": "UINT64",
}  # fmt: skip
LARGE_BYTES = 64 << 10  # bytes of text and numbers; to read or write them takes 1 to 2 ms, to hand them to a thread 0.05 ms
_LARGE_ELEMENTS = LARGE_BYTES // 16
_PIECE = 512  # elements that are read or written between two breaks, in 0.1 ms
_PAUSE_S = 0.0001
_LONGEST_QUOTE = 200  # characters of a client's text in an error


@dataclass(frozen=True)
class Infer:
    """The contents of a request."""

    tensors: dict[str, np.ndarray]
    id: str = ""
    outputs: tuple[tuple[str, bool], ...] = ()  # names, and whether their data is binary; all of them if empty
    binary: bool = False  # whether outputs that are not named are binary
    timeout_ms: float | None = None


@dataclass(frozen=True)
class Result:
    """The results of a model for a request, and the requested outputs: their indices, and whether their data is binary."""

    model: str
    version: int
    specs: Sequence[TensorSpec]
    arrays: Sequence[np.ndarray]
    selected: Sequence[tuple[int, bool]]


class InferRequest(Protocol):
    """A request as a client sent it, in a form that can be sent to the replica that answers it."""

    version: str  # the requested version of the model; "" for any

    @property
    def size(self) -> int:
        """Its bytes."""

    @property
    def is_large(self) -> bool:
        """Whether it is parsed in a thread, so that other requests continue meanwhile."""

    def parse(self, specs: Sequence[TensorSpec]) -> Infer:
        """Parses the request for a model with these inputs. Raises RequestError, which names the error."""

    def has_large_answer(self, result: Result) -> bool:
        """Whether its answer is formatted in a thread, so that other requests continue meanwhile."""

    def answer(self, infer: Infer, result: Result) -> Any:
        """The answer in the form in which it is sent."""


def quoted(value: Any) -> str:
    """A client's text for use in an error: on one line, and shortened."""
    text = json.dumps(value, default=str)
    return text if len(text) <= _LONGEST_QUOTE else text[:_LONGEST_QUOTE] + "..."


# ---- numbers, one by one ----


class Breaks:
    """Short breaks of a thread that reads or writes many numbers, during which it releases Python's lock so that other threads can run."""

    def __init__(self, are_taken: bool):
        self.are_taken, self._left = are_taken, _PIECE

    def after(self, elements: int) -> None:
        """Takes a break if it is due."""
        self._left -= elements
        if self._left <= 0 and self.are_taken:
            self._left = _PIECE
            time.sleep(_PAUSE_S)


def is_many(elements: int) -> bool:
    """Whether this many numbers are written in a thread."""
    return elements > _LARGE_ELEMENTS


def pieces(sequence: Any, breaks: Breaks, width: int = 1) -> Iterable[Any]:
    """Slices of a sequence, whose entries have `width` elements each, with breaks between them."""
    step = max(1, _PIECE // max(1, width))
    for start in range(0, len(sequence), step):
        yield sequence[start : start + step]
        breaks.after(step * width)


# ---- checks of a request's tensors ----


def input_spec(name: Any, known: Mapping[str, TensorSpec], seen: Mapping[str, Any]) -> TensorSpec:
    if not isinstance(name, str) or name not in known:
        raise RequestError(f"there is no input {quoted(name)}, the model has {', '.join(map(quoted, known)) or 'none'}")
    if name in seen:
        raise RequestError(f"input {quoted(name)} is given twice")
    return known[name]


def check_head(spec: TensorSpec, datatype: Any, shape: Any) -> None:
    if datatype != DATATYPES[spec.dtype_name]:
        raise RequestError(f"input {quoted(spec.name)} is {quoted(datatype)}, expected {DATATYPES[spec.dtype_name]}")
    if not isinstance(shape, list) or not all(type(size) is int and 0 <= size < 2**63 for size in shape):
        raise RequestError(f"input {quoted(spec.name)} has the shape {quoted(shape)}, expected a list of sizes")


def refuse_shared_memory(spec: TensorSpec, parameters: Any) -> None:
    if "shared_memory_region" in parameters:
        raise RequestError(f"input {quoted(spec.name)} is in shared memory, which this server does not have")


def check_byte_count(spec: TensorSpec, shape: Sequence[int], size: Any) -> None:
    needed = math.prod(shape) * spec.dtype.itemsize
    if type(size) is not int or size != needed:
        raise RequestError(f"input {quoted(spec.name)} has {quoted(size)} bytes of binary data, but its shape needs {needed}")


def tensor_of_bytes(spec: TensorSpec, shape: Sequence[int], data: bytes, start: int = 0) -> np.ndarray:
    """An array that is a view of the bytes, whose number check_byte_count has checked."""
    count = math.prod(shape)
    array = np.frombuffer(data, spec.dtype, count, start) if count else np.empty(0, spec.dtype)
    if spec.dtype.kind == "b" and count and array.view(np.uint8).max() > 1:
        raise RequestError(f"input {quoted(spec.name)} is BOOL and has a byte that is neither 0 nor 1")
    return array.reshape(shape)


def tensor_of_elements(spec: TensorSpec, shape: Sequence[int], data: Any, breaks: Breaks) -> np.ndarray:
    """The tensor of a list of elements, or of a nested list."""
    first = data[0] if len(data) and isinstance(data[0], list) else []
    parts = [_elements(spec, part) for part in pieces(data, breaks, max(1, len(first)))]
    if len({part.shape[1:] for part in parts}) > 1:
        raise RequestError(f"input {quoted(spec.name)} has rows of different lengths")
    count, wanted = sum(part.size for part in parts), math.prod(shape)
    if count != wanted:
        raise RequestError(f"input {quoted(spec.name)} has {count} elements, but its shape has {wanted}")
    return np.concatenate(parts).reshape(shape) if parts else np.empty(shape, spec.dtype)


def _elements(spec: TensorSpec, values: Any) -> np.ndarray:
    name, datatype = quoted(spec.name), DATATYPES[spec.dtype_name]
    try:
        array = np.asarray(values)
    except (ValueError, OverflowError):
        raise RequestError(f"input {name} has rows of different lengths") from None
    if array.size == 0:
        return array.astype(spec.dtype)
    if array.dtype.kind not in {"b": "b", "i": "iu", "u": "iu"}.get(spec.dtype.kind, "iuf"):
        raise RequestError(f"input {name} has an element that is no {datatype}")
    if spec.dtype.kind in "iu":
        low, high = np.iinfo(spec.dtype).min, np.iinfo(spec.dtype).max
        if int(array.min()) < low or int(array.max()) > high:
            raise RequestError(f"input {name} has an element outside {low}..{high}")
    with np.errstate(over="ignore"):  # 1e300 becomes infinite in FP32
        return array.astype(spec.dtype)


def timeout_ms(timeout: Any) -> float | None:
    """The value of the parameter timeout, which Triton's clients give in microseconds."""
    if timeout is None:
        return None
    if isinstance(timeout, bool) or not isinstance(timeout, (int, float)) or not 0 < timeout < 1e15:
        raise RequestError(f"the parameter timeout is {quoted(timeout)}, expected microseconds")
    return timeout / 1000


def check_output(name: Any, parameters: Mapping[str, Any]) -> None:
    for parameter in ("classification", "shared_memory_region"):
        if parameters.get(parameter):
            raise RequestError(f"output {quoted(name)} asks for {parameter}, which this server does not have")
    if not isinstance(name, str):
        raise RequestError("an output has no name")


def select_outputs(infer: Infer, specs: Sequence[TensorSpec]) -> list[tuple[int, bool]]:
    """The outputs of the answer, and whether their data is binary."""
    if not infer.outputs:
        return [(i, infer.binary) for i in range(len(specs))]
    numbers = {spec.name: i for i, spec in enumerate(specs)}
    for name, _ in infer.outputs:
        if name not in numbers:
            raise RequestError(f"there is no output {quoted(name)}, the model has {', '.join(map(quoted, numbers))}")
    return [(numbers[name], binary) for name, binary in infer.outputs]


def check_version(version: str, current: int, model: str) -> None:
    if version and version != str(current):
        raise NotFound(f"model {quoted(model)} has version {current}, not {quoted(version)}")


# ---- metadata of a model ----


def _tensors(specs: Sequence[TensorSpec], datatype: str, prefix: str, shape: str) -> list[dict[str, Any]]:
    """Names, datatypes and shapes under the protocol's keys; a dim that requests choose is -1."""
    return [
        {
            "name": spec.name,
            datatype: prefix + DATATYPES[spec.dtype_name],
            shape: [dim if isinstance(dim, int) else -1 for dim in spec.shape],
        }
        for spec in specs
    ]


def model_metadata(name: str, version: int, signature: Signature) -> dict[str, Any]:
    """The answer to GET v2/models/NAME and to ModelMetadata."""
    inputs, outputs = (_tensors(specs, "datatype", "", "shape") for specs in (signature.inputs, signature.outputs))
    return {"name": name, "versions": [str(version)], "platform": "fusec", "inputs": inputs, "outputs": outputs}


def model_config(name: str, signature: Signature, max_rows: int, max_delay_ms: float) -> dict[str, Any]:
    """The answer to GET v2/models/NAME/config and to ModelConfig, in the terms of Triton's model configuration. Shapes include the batch
    dim; this is the meaning of max_batch_size 0."""
    inputs, outputs = (_tensors(specs, "data_type", "TYPE_", "dims") for specs in (signature.inputs, signature.outputs))
    joined = ",".join(sorted(signature.joined)) if signature.can_join else ""
    config: dict[str, Any] = {
        "name": name,
        "platform": "fusec",
        "backend": "fusec",
        "max_batch_size": 0,
        "input": inputs,
        "output": outputs,
        "parameters": {"joined_dims": {"string_value": joined}},
    }
    if signature.can_join:
        config["dynamic_batching"] = {"preferred_batch_size": [max_rows], "max_queue_delay_microseconds": round(1000 * max_delay_ms)}
    return config
