"""The Open Inference Protocol, version 2, over HTTP: bytes to arrays and back, with the binary tensor extension and compression.

https://github.com/kserve/open-inference-protocol has the protocol, Triton's extension_binary_data.md the extension. Nothing here knows a
server.
"""

from __future__ import annotations

import json
import math
import zlib
from dataclasses import dataclass
from typing import Any, Mapping, Sequence

import numpy as np

from fusec.serve._errors import NotFound, RequestError, TooLarge
from fusec.serve._signature import Signature, TensorSpec

HEADER_LENGTH = "inference-header-content-length"
_DATATYPES = {
    "f32": "FP32", "f16": "FP16", "bf16": "BF16", "f64": "FP64", "bool": "BOOL",
    "i8": "INT8", "i16": "INT16", "i32": "INT32", "i64": "INT64",
    "u8": "UINT8", "u16": "UINT16", "u32": "UINT32", "u64": "UINT64",
}  # fmt: skip
_LONGEST_QUOTE = 200  # of what a client sent, in an error


@dataclass(frozen=True)
class Infer:
    """What a request asks for."""

    tensors: dict[str, np.ndarray]
    id: str = ""
    outputs: tuple[tuple[str, bool], ...] = ()  # names, and whether their data is binary; all of them if empty
    binary: bool = False  # of outputs that are not named
    timeout_ms: float | None = None


def quoted(value: Any) -> str:
    """A client's text as errors show it: on one line, and not longer than is read."""
    text = json.dumps(value, default=str)
    return text if len(text) <= _LONGEST_QUOTE else text[:_LONGEST_QUOTE] + "..."


def parse_json(data: bytes | memoryview) -> dict[str, Any]:
    """An object of JSON."""
    try:
        value = json.loads(bytes(data))
    except (ValueError, RecursionError) as error:
        raise RequestError(f"the body is no JSON: {error}") from None
    if not isinstance(value, dict):
        raise RequestError("the body is no object of JSON")
    return value


def parse_infer(body: bytes, header_length: str | None, specs: Sequence[TensorSpec]) -> Infer:
    """The request in a body. `header_length` is the HTTP header of the binary tensor extension, which says where its JSON ends.

    Raises RequestError, which names what is wrong. Arrays are views of the body where its data is binary.
    """
    end = len(body)
    if header_length is not None:
        if not header_length.isdecimal() or int(header_length) > len(body):
            raise RequestError(f"Inference-Header-Content-Length is {quoted(header_length)}, but the body has {len(body)} bytes")
        end = int(header_length)
    request = parse_json(memoryview(body)[:end])
    parameters = _object(request, "parameters")
    known = {spec.name: spec for spec in specs}
    tensors: dict[str, np.ndarray] = {}
    for entry in _objects(request, "inputs"):
        name = entry.get("name")
        if not isinstance(name, str) or name not in known:
            raise RequestError(f"there is no input {quoted(name)}, the model has {', '.join(map(quoted, known)) or 'none'}")
        if name in tensors:
            raise RequestError(f"input {quoted(name)} is given twice")
        tensors[name], end = _tensor(entry, known[name], body, end)
    if end != len(body):
        raise RequestError(f"{len(body) - end} bytes are left behind the binary data of the inputs")
    binary = bool(parameters.get("binary_data_output"))
    outputs = tuple(_output(entry, binary) for entry in _objects(request, "outputs"))
    identity = request.get("id", "")
    if not isinstance(identity, str):
        raise RequestError("id is no string")
    return Infer(tensors, identity, outputs, binary, _timeout_ms(parameters))


def _objects(request: Mapping[str, Any], key: str) -> list[dict[str, Any]]:
    value = request.get(key, [])
    if not isinstance(value, list) or not all(isinstance(entry, dict) for entry in value):
        raise RequestError(f"{key} is no list of objects")
    return value


def _object(request: Mapping[str, Any], key: str) -> dict[str, Any]:
    value = request.get(key, {})
    if not isinstance(value, dict):
        raise RequestError(f"{key} is no object")
    return value


def _timeout_ms(parameters: Mapping[str, Any]) -> float | None:
    """Clients of Triton give microseconds."""
    timeout = parameters.get("timeout")
    if timeout is None:
        return None
    if isinstance(timeout, bool) or not isinstance(timeout, (int, float)) or not 0 < timeout < 1e15:
        raise RequestError(f"the parameter timeout is {quoted(timeout)}, expected microseconds")
    return timeout / 1000


def _output(entry: Mapping[str, Any], binary: bool) -> tuple[str, bool]:
    name, parameters = entry.get("name"), _object(entry, "parameters")
    for parameter in ("classification", "shared_memory_region"):
        if parameters.get(parameter):
            raise RequestError(f"output {quoted(name)} asks for {parameter}, which this server does not have")
    if not isinstance(name, str):
        raise RequestError("an output has no name")
    return name, bool(parameters.get("binary_data", binary))


def _tensor(entry: Mapping[str, Any], spec: TensorSpec, body: bytes, start: int) -> tuple[np.ndarray, int]:
    """The tensor of an entry, and where the binary data behind it begins."""
    name, parameters = quoted(spec.name), _object(entry, "parameters")
    if entry.get("datatype") != _DATATYPES[spec.dtype_name]:
        raise RequestError(f"input {name} is {quoted(entry.get('datatype'))}, expected {_DATATYPES[spec.dtype_name]}")
    shape = entry.get("shape")
    if not isinstance(shape, list) or not all(type(size) is int and 0 <= size < 2**63 for size in shape):
        raise RequestError(f"input {name} has the shape {quoted(shape)}, expected a list of sizes")
    if "shared_memory_region" in parameters:
        raise RequestError(f"input {name} is in shared memory, which this server does not have")
    count = math.prod(shape)
    if "binary_data_size" not in parameters:
        return _json_tensor(entry, spec, shape, count), start
    size = parameters["binary_data_size"]
    if size != count * spec.dtype.itemsize or type(size) is not int:
        raise RequestError(f"input {name} has {quoted(size)} bytes of binary data, but its shape needs {count * spec.dtype.itemsize}")
    if start + size > len(body):
        raise RequestError(f"input {name} has {size} bytes of binary data, but the body has {len(body) - start} left")
    if "data" in entry:
        raise RequestError(f"input {name} has both data and binary data")
    array = np.frombuffer(body, spec.dtype, count, start) if count else np.empty(0, spec.dtype)
    if spec.dtype.kind == "b" and count and array.view(np.uint8).max() > 1:
        raise RequestError(f"input {name} is BOOL and has a byte that is neither 0 nor 1")
    return array.reshape(shape), start + size


def _json_tensor(entry: Mapping[str, Any], spec: TensorSpec, shape: list[int], count: int) -> np.ndarray:
    name = quoted(spec.name)
    if not isinstance(entry.get("data"), list):
        raise RequestError(f"input {name} has no list of data")
    try:
        array = np.asarray(entry["data"])
    except (ValueError, OverflowError):
        raise RequestError(f"input {name} has rows of different lengths") from None
    if array.size != count:
        raise RequestError(f"input {name} has {array.size} elements, but its shape has {count}")
    wanted = {"b": "b", "i": "iu", "u": "iu"}.get(spec.dtype.kind, "iuf")
    if count == 0:
        return np.empty(shape, spec.dtype)
    if array.dtype.kind not in wanted:
        raise RequestError(f"input {name} has an element that is no {_DATATYPES[spec.dtype_name]}")
    if spec.dtype.kind in "iu":
        low, high = np.iinfo(spec.dtype).min, np.iinfo(spec.dtype).max
        if int(array.min()) < low or int(array.max()) > high:
            raise RequestError(f"input {name} has an element outside {low}..{high}")
    with np.errstate(over="ignore"):  # 1e300 is infinite as FP32
        return array.astype(spec.dtype).reshape(shape)


def select_outputs(request: Infer, specs: Sequence[TensorSpec]) -> list[tuple[int, bool]]:
    """Which outputs the answer has, and whether their data is binary."""
    if not request.outputs:
        return [(i, request.binary) for i in range(len(specs))]
    numbers = {spec.name: i for i, spec in enumerate(specs)}
    for name, _ in request.outputs:
        if name not in numbers:
            raise RequestError(f"there is no output {quoted(name)}, the model has {', '.join(map(quoted, numbers))}")
    return [(numbers[name], binary) for name, binary in request.outputs]


def format_infer(
    model: str,
    version: int,
    request: Infer,
    specs: Sequence[TensorSpec],
    results: Sequence[np.ndarray],
    selected: Sequence[tuple[int, bool]],
) -> tuple[bytes, int | None]:
    """The body of an answer, and where its JSON ends if binary data follows."""
    outputs, parts = [], []
    for i, binary in selected:
        output: dict[str, Any] = {
            "name": specs[i].name, "datatype": _DATATYPES[specs[i].dtype_name], "shape": list(results[i].shape)
        }  # fmt: skip
        if binary:
            output["parameters"] = {"binary_data_size": results[i].nbytes}
            parts.append(np.ascontiguousarray(results[i]).tobytes())
        else:
            wide = results[i].astype(np.float32) if specs[i].dtype_name == "bf16" else results[i]  # whose elements are Python's
            output["data"] = wide.ravel().tolist()
        outputs.append(output)
    answer: dict[str, Any] = {"model_name": model, "model_version": str(version), "outputs": outputs}
    if request.id:
        answer["id"] = request.id
    header = json.dumps(answer).encode()
    return (b"".join([header, *parts]), len(header)) if parts else (header, None)


def check_version(version: str, current: int, model: str) -> None:
    if version and version != str(current):
        raise NotFound(f"model {quoted(model)} has version {current}, not {quoted(version)}")


def _tensors(specs: Sequence[TensorSpec], datatype: str, prefix: str, shape: str) -> list[dict[str, Any]]:
    """Names, datatypes and shapes under the protocol's keys; a dim that requests choose is -1."""
    return [
        {
            "name": spec.name,
            datatype: prefix + _DATATYPES[spec.dtype_name],
            shape: [dim if isinstance(dim, int) else -1 for dim in spec.shape],
        }
        for spec in specs
    ]


def model_metadata(name: str, version: int, signature: Signature) -> dict[str, Any]:
    """Of GET v2/models/NAME."""
    inputs, outputs = (_tensors(specs, "datatype", "", "shape") for specs in (signature.inputs, signature.outputs))
    return {"name": name, "versions": [str(version)], "platform": "fusec", "inputs": inputs, "outputs": outputs}


def model_config(name: str, signature: Signature, max_rows: int, max_delay_ms: float) -> dict[str, Any]:
    """Of GET v2/models/NAME/config, in the words of Triton's model configuration. Requests bring their batch dim themselves, which is what
    a max_batch_size of 0 says there."""
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


class Inflater:
    """Takes the compression of HTTP from a body piece by piece, and stops where it grows beyond a limit."""

    def __init__(self, encoding: str, limit: int):
        if encoding not in ("gzip", "deflate"):
            raise RequestError(f"Content-Encoding is {quoted(encoding)}, the server takes gzip and deflate", 415)
        self._stream = zlib.decompressobj(zlib.MAX_WBITS | 32)  # with the header of either
        self._left = limit

    def add(self, piece: bytes) -> bytes:
        try:
            out = self._stream.decompress(piece, self._left + 1)
        except zlib.error as error:
            raise RequestError(f"the compressed body is damaged: {error}") from None
        if len(out) > self._left or self._stream.unconsumed_tail:
            raise TooLarge("the body has too many bytes when it is unpacked")
        self._left -= len(out)
        return out

    def end(self) -> None:
        if not self._stream.eof:
            raise RequestError("the compressed body ends early")
        if self._stream.unused_data:
            raise RequestError("bytes are left behind the compressed body")


def deflated(body: bytes, accepted: str) -> tuple[bytes, str | None]:
    """The body as a client accepts it, and its Content-Encoding."""
    names = [word.split(";")[0].strip() for word in accepted.split(",")]
    if "gzip" in names:
        packer = zlib.compressobj(1, zlib.DEFLATED, zlib.MAX_WBITS | 16)
        return packer.compress(body) + packer.flush(), "gzip"
    if "deflate" in names:
        return zlib.compress(body, 1), "deflate"
    return body, None
