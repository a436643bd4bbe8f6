"""The Open Inference Protocol over HTTP: bytes to arrays and back, with Triton's binary tensor extension, and compression.

Triton's extension_binary_data.md describes the extension. This module does not depend on a server.
"""

from __future__ import annotations

import json
import zlib
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Callable, Iterable, Mapping, Sequence

import numpy as np

from fusec.serve import _protocol
from fusec.serve._errors import RequestError, TooLarge
from fusec.serve._protocol import Breaks, Infer, Result, quoted
from fusec.serve._signature import TensorSpec

HEADER_LENGTH = "inference-header-content-length"
MIN_COMPRESSED = 1024  # bytes of an answer; a smaller one is sent as it is


@dataclass(frozen=True)
class Answer:
    """A response of HTTP."""

    body: bytes
    header_length: int | None = None  # bytes of the JSON in the body, if binary data follows


@dataclass(frozen=True)
class HttpInfer:
    """The body of a request. `header_length` is the HTTP header of the binary tensor extension: the bytes of the JSON in the body."""

    body: bytes
    header_length: str | None = None
    version: str = ""

    @property
    def size(self) -> int:
        return len(self.body)

    @property
    def is_large(self) -> bool:
        return self._json_length >= _protocol.LARGE_BYTES

    @cached_property
    def _json_length(self) -> int:
        given = self.header_length
        return min(int(given), self.size) if given is not None and given.isdecimal() else self.size

    @cached_property
    def json(self) -> dict[str, Any]:
        """The JSON of the body."""
        given = self.header_length
        if given is not None and (not given.isdecimal() or int(given) > self.size):
            raise RequestError(f"Inference-Header-Content-Length is {quoted(given)}, but the body has {self.size} bytes")
        return parse_json(self.body[: self._json_length], Breaks(self.is_large))

    def parse(self, specs: Sequence[TensorSpec]) -> Infer:
        """Parses the body. Arrays with binary data are views of it."""
        request, end, breaks = self.json, self._json_length, Breaks(self.is_large)
        parameters = _object(request, "parameters")
        known = {spec.name: spec for spec in specs}
        tensors: dict[str, np.ndarray] = {}
        for entry in _objects(request, "inputs"):
            spec = _protocol.input_spec(entry.get("name"), known, tensors)
            tensors[spec.name], end = _tensor(entry, spec, self.body, end, breaks)
        if end != self.size:
            raise RequestError(f"{self.size - end} bytes are left behind the binary data of the inputs")
        binary = bool(parameters.get("binary_data_output"))
        outputs = tuple(_output(entry, binary) for entry in _objects(request, "outputs"))
        identity = request.get("id", "")
        if not isinstance(identity, str):
            raise RequestError("id is no string")
        return Infer(tensors, identity, outputs, binary, _protocol.timeout_ms(parameters.get("timeout")))

    def has_large_answer(self, result: Result) -> bool:
        return _protocol.is_many(sum(result.arrays[i].size for i, binary in result.selected if not binary))

    def answer(self, infer: Infer, result: Result) -> Answer:
        outputs, parts, breaks = [], [], Breaks(self.has_large_answer(result))
        for i, binary in result.selected:
            spec, array = result.specs[i], result.arrays[i]
            output: dict[str, Any] = {"name": spec.name, "datatype": _protocol.DATATYPES[spec.dtype_name], "shape": list(array.shape)}
            if binary:
                output["parameters"] = {"binary_data_size": array.nbytes}
                parts.append(np.ascontiguousarray(array).tobytes())
                outputs.append(json.dumps(output))
            else:
                outputs.append(_with_member(output, "data", _texts(array, breaks)))
        answer: dict[str, Any] = {"model_name": result.model, "model_version": str(result.version)}
        if infer.id:
            answer["id"] = infer.id
        header = _with_member(answer, "outputs", outputs).encode()
        return Answer(b"".join([header, *parts]), len(header)) if parts else Answer(header)


def parse_json(data: bytes, breaks: Breaks = Breaks(False)) -> dict[str, Any]:
    """Parses a JSON object. The parser is a C function that holds Python's lock to the end, so breaks are taken between its numbers."""

    def read(number: Callable[[str], Any]) -> Callable[[str], Any]:
        def read_one(text: str) -> Any:
            breaks.after(1)
            return number(text)

        return read_one

    try:
        value = json.loads(data, parse_int=read(int), parse_float=read(float)) if breaks.are_taken else json.loads(data)
    except (ValueError, RecursionError) as error:
        raise RequestError(f"the body is no JSON: {error}") from None
    if not isinstance(value, dict):
        raise RequestError("the body is no object of JSON")
    return value


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


def _output(entry: Mapping[str, Any], binary: bool) -> tuple[str, bool]:
    name, parameters = entry.get("name"), _object(entry, "parameters")
    _protocol.check_output(name, parameters)
    return str(name), bool(parameters.get("binary_data", binary))


def _tensor(entry: Mapping[str, Any], spec: TensorSpec, body: bytes, start: int, breaks: Breaks) -> tuple[np.ndarray, int]:
    """The tensor of an entry, and the offset of the binary data after it."""
    name, parameters, shape = quoted(spec.name), _object(entry, "parameters"), entry.get("shape")
    _protocol.check_head(spec, entry.get("datatype"), shape)
    _protocol.refuse_shared_memory(spec, parameters)
    if "binary_data_size" not in parameters:
        if not isinstance(entry.get("data"), list):
            raise RequestError(f"input {name} has no list of data")
        return _protocol.tensor_of_elements(spec, shape, entry["data"], breaks), start
    size = parameters["binary_data_size"]
    _protocol.check_byte_count(spec, shape, size)
    if start + size > len(body):
        raise RequestError(f"input {name} has {size} bytes of binary data, but the body has {len(body) - start} left")
    if "data" in entry:
        raise RequestError(f"input {name} has both data and binary data")
    return _protocol.tensor_of_bytes(spec, shape, body, start), start + size


def _texts(array: np.ndarray, breaks: Breaks) -> Iterable[str]:
    """The elements of an array as JSON, in texts of many elements each."""
    for piece in _protocol.pieces(array.ravel(), breaks):
        wide = piece.astype(np.float32) if array.dtype.name == "bfloat16" else piece  # whose elements are Python's
        yield json.dumps(wide.tolist())[1:-1]


def _with_member(value: Mapping[str, Any], key: str, entries: Iterable[str]) -> str:
    """A JSON object with a list of these entries as an additional member."""
    return f'{json.dumps(value)[:-1]}, "{key}": [{", ".join(entries)}]}}'


class Inflater:
    """Decompresses the body of an HTTP request piece by piece, and stops if it grows beyond a limit."""

    def __init__(self, encoding: str, limit: int):
        if encoding not in ("gzip", "deflate"):
            raise RequestError(f"Content-Encoding is {quoted(encoding)}, the server takes gzip and deflate", 415)
        self._stream = zlib.decompressobj(zlib.MAX_WBITS | 32)  # detects the header of gzip or zlib
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
    """The body in an encoding that the client accepts, and its Content-Encoding."""
    names = [word.split(";")[0].strip() for word in accepted.split(",")]
    if "gzip" in names:
        packer = zlib.compressobj(1, zlib.DEFLATED, zlib.MAX_WBITS | 16)
        return packer.compress(body) + packer.flush(), "gzip"
    if "deflate" in names:
        return zlib.compress(body, 1), "deflate"
    return body, None
