"""A cache of parsed JSON for requests whose tensors are all binary. Clients repeat the JSON byte for byte, and only the tensors after it
differ. A plan holds the contents of the JSON, so that such a request costs only a look-up and views of its bytes."""

from __future__ import annotations

import json
import math
from typing import Any, Sequence

import numpy as np

from fusec.serve import _protocol
from fusec.serve._batcher import Batcher
from fusec.serve._errors import RequestError
from fusec.serve._http_protocol import MIN_COMPRESSED, Answer, HttpInfer, parse_json
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

    def add_to(self, batcher: Batcher, model: str, text: bytes, request: Request) -> None:
        """Lets the HTTP server put requests with this JSON into the queue of the batcher."""
        signature, infer = self._signature, self._infer
        outputs, size = [], len(text)
        for i, _ in self.selected:
            spec = signature.outputs[i]
            head = json.dumps({"name": spec.name, "datatype": _protocol.DATATYPES[spec.dtype_name], "shape": []})
            outputs.append((i, head.removesuffix("[]}").encode()))
            dims = [request.sizes.get(dim, MIN_COMPRESSED) if isinstance(dim, str) else dim for dim in spec.shape[1:]]
            size += math.prod(dims) * signature.output_rows[i].of(request.sizes) * spec.dtype.itemsize
        identity = f', "id": {json.dumps(infer.id)}' if infer.id else ""
        adapter_at = None if batcher.adapters is None else self._inputs[batcher.adapters][2]
        batcher.plans.add(
            json=text,
            key=batcher.planned_key(request.key),
            rows=request.rows,
            sizes=batcher.limited_sizes(request),
            data_size=self.size,
            inputs=[(offset, array.nbytes) for array, (_, _, offset) in zip(request.arrays, self._inputs)],
            input_row_dims=[array.shape[1:] for array in request.arrays],
            bools=[(self._inputs[i][2], request.arrays[i].nbytes) for i in self._bools],
            adapter_at=adapter_at,
            timeout_ms=self.timeout_ms or batcher.timeout_ms,
            around_version=(
                f'{{"model_name": {json.dumps(model)}, "model_version": "'.encode(),
                f'"{identity}, "outputs": ['.encode(),
            ),
            outputs=outputs,
            output_rows=[rows.of(request.sizes) for rows in signature.output_rows],
            may_be_compressed=size >= MIN_COMPRESSED,
        )

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
    """The plans of a loaded model, by their JSON. Those of requests that need no more than to be joined are added to its batcher, too."""

    def __init__(self, signature: Signature, model: str = "", batcher: Batcher | None = None):
        self._signature, self._model, self._batcher = signature, model, batcher
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
            request = self._signature.request(infer.tensors)
            plan = Plan(self._signature, infer, request)
        except RequestError:
            return None
        entries = parse_json(body[:json_length]).get("inputs", [])
        are_binary = all("binary_data_size" in entry.get("parameters", {}) for entry in entries)
        if not are_binary or not plan.selected or not all(binary for _, binary in plan.selected):
            return None
        if self._batcher is not None and self._signature.has_shared_key:
            plan.add_to(self._batcher, self._model, body[:json_length], request)
        return plan
