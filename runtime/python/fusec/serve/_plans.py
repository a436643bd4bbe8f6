"""A cache of parsed JSON for requests whose tensors are all binary. Clients repeat the JSON byte for byte, and only the tensors after it
differ. A plan holds the contents of the JSON, so that such a request costs only a look-up and views of its bytes."""

from __future__ import annotations

from typing import Any, Sequence

import numpy as np

from fusec.serve import _protocol
from fusec.serve._errors import RequestError
from fusec.serve._http_protocol import Answer, HttpInfer, parse_json
from fusec.serve._protocol import Infer, Result
from fusec.serve._signature import Request, Signature

_MOST_PLANS = 256
_LONGEST_JSON = 16 << 10  # bytes; at most 4 MB of JSON are cached


class Plan:
    """The contents of the JSON of a request, for a model with this signature."""

    def __init__(self, signature: Signature, infer: Infer, request: Request):
        self._signature, self._infer = signature, Infer({}, infer.id, infer.outputs, infer.binary)
        self.selected = _protocol.select_outputs(infer, signature.outputs)
        self.timeout_ms = infer.timeout_ms
        offsets, end = {}, 0
        for name, array in infer.tensors.items():  # in the order of the JSON
            offsets[name], end = end, end + array.nbytes
        self.size = end  # bytes of the binary data
        self._inputs = [(array.shape, spec.dtype, offsets[spec.name]) for spec, array in zip(signature.inputs, request.arrays)]
        self._bools = [i for i, spec in enumerate(signature.inputs) if spec.dtype.kind == "b"]
        self._sizes, self._rows = request.sizes, request.rows
        self._key = request.key if signature.has_shared_key else None
        self._header: tuple[Any, bytes] = (None, b"")  # key (version and shapes) and JSON of the last answer

    def request(self, data: bytes, start: int) -> Request | None:
        """The request whose binary data begins there, as views; None if its data is wrong."""
        arrays = [np.ndarray(shape, dtype, data, start + offset) for shape, dtype, offset in self._inputs]
        for i in self._bools:
            if arrays[i].size and arrays[i].view(np.uint8).max() > 1:
                return None
        key = self._key if self._key is not None else self._signature.key_of(arrays, self._sizes)
        return Request(arrays, self._sizes, key, self._rows)

    def answer(self, model: str, version: int, arrays: Sequence[np.ndarray]) -> Answer:
        """The answer, as from HttpInfer.answer. The JSON of the last answer is reused if it is the same."""
        said = (model, version, *[array.shape for array in arrays])
        if said != self._header[0]:
            whole = HttpInfer(b"").answer(self._infer, Result(model, version, self._signature.outputs, arrays, self.selected))
            self._header = said, whole.body[: whole.header_length]
        header = self._header[1]
        return Answer(b"".join([header, *[arrays[i].tobytes() for i, _ in self.selected]]), len(header))


class Plans:
    """The plans of a loaded model, by their JSON."""

    def __init__(self, signature: Signature):
        self._signature = signature
        self._plans: dict[bytes, Plan] = {}

    def plan(self, data: bytes, start: int, size: int, json_length: int) -> Plan | None:
        """The plan of the request with this body in `data`; None if the request is not of this kind or is wrong."""
        text = data[start : start + json_length]
        plan = self._plans.get(text)
        if plan is None and json_length <= _LONGEST_JSON:
            plan = self._read(data[start : start + size], json_length)
            if plan is not None:
                if len(self._plans) >= _MOST_PLANS:
                    del self._plans[next(iter(self._plans))]  # the oldest
                self._plans[text] = plan
        return plan if plan is not None and plan.size == size - json_length else None

    def _read(self, body: bytes, json_length: int) -> Plan | None:
        asked = HttpInfer(body, str(json_length))
        try:
            infer = asked.parse(self._signature.inputs)
            plan = Plan(self._signature, infer, self._signature.request(infer.tensors))
        except RequestError:
            return None
        entries = parse_json(body[:json_length]).get("inputs", [])
        are_binary = all("binary_data_size" in entry.get("parameters", {}) for entry in entries)
        return plan if are_binary and plan.selected and all(binary for _, binary in plan.selected) else None
