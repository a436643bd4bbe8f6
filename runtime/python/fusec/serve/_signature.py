"""The form of a model's requests, how several of them become one run, and how its results are split again.

A run joins requests along the first axes of their inputs. The dims that occur only there are the model's *joined* dims: `batch`, and for
ragged bags the number of ids. The values of three kinds of inputs refer to positions along a joined dim. They are shifted by the sizes of
the earlier requests:

    a map        request_of_item i64[batch], whose values are indices of requests
    offsets      i64[batch], the position in `ids` where the bag of each row begins; i64[bounds] also has the end of the last bag, which is
                 the beginning of the first bag of the next request
    lengths      i64[batch], which need no shift: they must add up to the number of the request's ids

All other dims are *shared*: only requests with the same sizes of them are joined. Inputs without a joined dim are shared too: their bytes
must be the same.

The limits of values in an artifact's manifest show which inputs these are. They do not show whether the rows of a model depend on each
other; `ModelServer` therefore compares joined requests with single ones before it joins any.
"""

from __future__ import annotations

import hashlib
import json
import math
import pathlib
import re
from dataclasses import dataclass, field, replace
from typing import Any, Mapping, Sequence

import numpy as np

from fusec.serve._errors import RequestError

_DTYPES = {
    "f32": "float32", "f16": "float16", "f64": "float64", "bool": "bool", "i8": "int8", "i16": "int16", "i32": "int32", "i64": "int64",
    "u8": "uint8", "u16": "uint16", "u32": "uint32", "u64": "uint64",
}  # fmt: skip
_ROWS = re.compile(r"(?P<dim>[^-+*/() ]+)(?:\*(?P<factor>\d+)| - (?P<less>1))?")
_LIMIT = re.compile(r"(?P<dim>[^-+*/() ]+)(?: \+ 1)?")


def numpy_dtype(name: str) -> np.dtype:
    """The NumPy dtype for a name of fusec, such as float32 for f32. bf16 is the dtype of ml_dtypes."""
    if name == "bf16":
        import ml_dtypes

        return np.dtype(ml_dtypes.bfloat16)
    return np.dtype(_DTYPES[name])


@dataclass(frozen=True)
class TensorSpec:
    """The specification of an input or output of requests."""

    name: str
    dtype_name: str  # "f32"
    dtype: np.dtype
    shape: tuple[int | str, ...]
    counts: str = ""  # the joined dim along which the values are positions
    ascending: bool = False  # whether the values are offsets
    adds_up: bool = False  # whether the values are lengths

    def __str__(self) -> str:
        return f'"{self.name}" {self.dtype_name}[{", ".join(map(str, self.shape))}]'


@dataclass(frozen=True)
class OutputRows:
    """The number of rows of an output that belong to a request: dim * factor, or dim - 1."""

    dim: str
    factor: int = 1
    less: int = 0

    def of(self, sizes: Mapping[str, int]) -> int:
        return sizes[self.dim] * self.factor - self.less


@dataclass(eq=False)
class Request:
    """The checked inputs of a request, in the model's order."""

    arrays: list[np.ndarray]
    sizes: dict[str, int]  # the size of each symbolic dim
    key: Any  # requests with equal keys may share a run
    rows: int  # its rows, by which batches are limited


@dataclass
class Signature:
    """The inputs and outputs of a model, from its artifact."""

    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    dims: dict[str, tuple[int, int]]
    row_dim: str  # the dim that counts the rows of a batch; "" for a model without joined dims
    joined: frozenset[str] = frozenset()
    fences: frozenset[str] = frozenset()  # joined dims of offsets that include the end of the last bag
    output_rows: tuple[OutputRows, ...] = ()
    limits: dict[str, list[int | str]] = field(default_factory=dict)  # limits of ids, for random ids

    @property
    def can_join(self) -> bool:
        return bool(self.row_dim)

    def request(self, tensors: Mapping[str, np.ndarray]) -> Request:
        """Checks the inputs of a request and returns it. Raises RequestError, which names the input."""
        for name in tensors:
            if not any(spec.name == name for spec in self.inputs):
                raise RequestError(f'there is no input "{name}", the model has {self._names()}')
        arrays, sizes = [], {}
        for spec in self.inputs:
            if spec.name not in tensors:
                raise RequestError(f'input "{spec.name}" is missing, the model takes {self._names()}')
            array = tensors[spec.name]
            if array.dtype != spec.dtype:
                raise RequestError(f'input "{spec.name}" is {array.dtype}, expected {spec.dtype}')
            self._note_sizes(spec, array.shape, sizes)
            arrays.append(array)
        for name, size in sizes.items():
            low, high = self.dims[name]
            if not low <= size <= high:
                raise RequestError(f'"{name}" is {size}, the model takes {low} to {high}')
        return Request(arrays, sizes, self.key_of(arrays, sizes), sizes.get(self.row_dim, 1))

    def _names(self) -> str:
        return ", ".join(f'"{spec.name}"' for spec in self.inputs) or "none"

    def _note_sizes(self, spec: TensorSpec, shape: tuple[int, ...], sizes: dict[str, int]) -> None:
        if len(shape) != len(spec.shape):
            raise RequestError(f'input "{spec.name}" has {len(shape)} dims, expected {len(spec.shape)}: {spec}')
        for axis, (size, dim) in enumerate(zip(shape, spec.shape)):
            known = dim if isinstance(dim, int) else sizes.setdefault(dim, size) if dim in self.dims else size
            if size != known:
                of = f', as "{dim}" of another input' if isinstance(dim, str) else ""
                raise RequestError(f'input "{spec.name}" has {size} as dim {axis}, expected {known}{of}')

    @property
    def has_shared_key(self) -> bool:
        """Whether the key of a request depends on its sizes alone."""
        return self.can_join and all(not spec.counts and spec.shape and spec.shape[0] in self.joined for spec in self.inputs)

    def key_of(self, arrays: list[np.ndarray], sizes: dict[str, int]) -> Any:
        """The key of a request; requests with equal keys may share a run."""
        if not self.can_join or not self._positions_fit(arrays, sizes):
            return object()  # equal to no other key
        shared: list[Any] = [size for name, size in sizes.items() if name not in self.joined]
        for spec, array in zip(self.inputs, arrays):
            if not spec.shape or spec.shape[0] not in self.joined:
                shared.append(hashlib.blake2b(np.ascontiguousarray(array).tobytes(), digest_size=16).digest())
        return tuple(shared)

    def _positions_fit(self, arrays: list[np.ndarray], sizes: dict[str, int]) -> bool:
        """Whether the positions in a request stay within the request, and lengths and fences also cover it, so that joining cannot mix it
        with others. A request for which this is not so runs alone."""
        for spec, array in zip(self.inputs, arrays):
            if not spec.counts:
                continue
            size = sizes[spec.counts]
            if spec.adds_up:
                fits = array.size == 0 or (array.min() >= 0 and int(array.sum()) == size)
            elif spec.ascending:
                is_fence = spec.shape[0] in self.fences
                fits = array.size > is_fence and array[0] == 0 and array[-1] <= size and bool(np.all(array[1:] >= array[:-1]))
                fits = fits and (not is_fence or array[-1] == size)
                fits = fits or (array.size == 0 == size and not is_fence)
            else:
                fits = array.size == 0 or (array.min() >= -size and array.max() < size)
            if not fits:
                return False
        return True

    def joined_sizes(self, requests: Sequence[Request]) -> dict[str, int]:
        sizes = dict(requests[0].sizes)
        for name in self.joined:
            sizes[name] = sum(request.sizes[name] for request in requests) - (len(requests) - 1) * (name in self.fences)
        return sizes

    def join(self, requests: Sequence[Request], i: int, out: np.ndarray) -> None:
        """Writes input `i` of all requests consecutively to `out`, with positions along joined dims shifted."""
        spec = self.inputs[i]
        parts = [request.arrays[i] for request in requests]
        if spec.shape[0] in self.fences:
            parts = parts[:1] + [part[1:] for part in parts[1:]]
        np.concatenate(parts, out=out)
        if not spec.counts or spec.adds_up:
            return
        start, base = 0, 0
        for part, request in zip(parts, requests):
            size = request.sizes[spec.counts]
            mine = out[start : start + len(part)]
            mine[mine < 0] += size  # -1 is the last position of the request
            mine += base
            start, base = start + len(part), base + size

    def split(self, results: Sequence[np.ndarray], requests: Sequence[Request]) -> list[list[np.ndarray]]:
        """Views of the results of a run: for each request, its rows of each output."""
        answers: list[list[np.ndarray]] = [[] for _ in requests]
        for result, rows in zip(results, self.output_rows):
            start = 0
            for answer, request in zip(answers, requests):
                count = rows.of(request.sizes)
                answer.append(result[start : start + count])
                start += count
        return answers

    def example(self, rows: int, random: np.random.Generator) -> Request:
        """A random request whose joined dims are close to `rows`, with valid ids and positions."""
        sizes = {}
        for number, (name, (low, high)) in enumerate(sorted(self.dims.items())):
            wanted = rows + number + (name in self.fences) if name in self.joined else max(low, 2)
            sizes[name] = min(max(wanted, low), high)
        tensors = {}
        for spec in self.inputs:
            shape = tuple(sizes.get(dim, 2) if isinstance(dim, str) else dim for dim in spec.shape)
            tensors[spec.name] = self._example_input(spec, shape, sizes, random)
        return self.request(tensors)

    def _example_input(self, spec: TensorSpec, shape: tuple[int, ...], sizes: Mapping[str, int], random: np.random.Generator) -> np.ndarray:
        count = math.prod(shape)
        if spec.counts and spec.ascending:
            values = np.sort(random.integers(0, sizes[spec.counts] + 1, shape))
            values[:1] = 0
            if spec.shape[0] in self.fences:
                values[-1:] = sizes[spec.counts]
        elif spec.counts and spec.adds_up:
            values = random.multinomial(sizes[spec.counts], [1 / count] * count) if count else np.zeros(0)
        elif spec.dtype.kind in "iu" or spec.name in self.limits:  # floats may be ids, too
            limits = [sizes.get(limit, 1) if isinstance(limit, str) else limit for limit in self.limits.get(spec.name, [2])]
            most = np.iinfo(spec.dtype).max if spec.dtype.kind in "iu" else 2**8
            at_most = [limit for limit in limits if limit > 0]  # positions with limit 0 may have any float
            values = random.integers(0, max(1, min([*at_most, sizes.get(spec.counts, 2**31), 2**31, most])), shape)
        elif spec.dtype.kind == "b":
            values = random.integers(0, 2, shape)
        else:
            values = random.standard_normal(shape)
        return values.astype(spec.dtype)


def read_signature(model: Any) -> Signature:
    """The signature of a loaded fusec.Model, with the properties of its inputs' values from its manifest."""
    manifest = json.loads((pathlib.Path(model.path) / "manifest.json").read_text())
    about = {entry["name"]: entry for entry in manifest["inputs"]}
    dims = model.dims
    inputs = [_spec(info, about[info.name], dims) for info in model.inputs]
    outputs = [_spec(info, {}, dims) for info in model.outputs]
    limits = {
        name: [int(limit) if limit.isdigit() else limit for limit in entry["index_limits"]]
        for name, entry in about.items()
        if "index_limits" in entry
    }
    signature = Signature(tuple(inputs), tuple(outputs), dims, "", limits=limits)
    if any(entry.get("sizes") for entry in manifest["outputs"]):
        return signature  # sizes of results depend on the data, so they cannot be split
    first = {spec.shape[0] for spec in inputs if spec.shape} & set(dims)
    elsewhere = {word for spec in inputs for dim in spec.shape[1:] for word in re.findall(r"[^-+*/() ]+", str(dim))}
    expressions = {word for spec in inputs for dim in spec.shape if dim not in dims for word in re.findall(r"[^-+*/() ]+", str(dim))}
    joined = first - elsewhere - expressions
    rows = [_ROWS.fullmatch(str(spec.shape[0])) if spec.shape else None for spec in outputs]
    if not rows or any(match is None or match["dim"] not in joined for match in rows):
        return signature
    signature.output_rows = tuple(OutputRows(match["dim"], int(match["factor"] or 1), int(match["less"] or 0)) for match in rows if match)
    signature.fences = frozenset(rows.dim for rows in signature.output_rows if rows.less)
    signature.joined = frozenset(joined)
    # A position along a shared dim, such as the last element of a history, needs no shift.
    signature.inputs = tuple(
        spec if spec.ascending or spec.adds_up or spec.counts in joined else replace(spec, counts="") for spec in inputs
    )
    if _all_positions_are_joined(signature):
        signature.row_dim = signature.output_rows[0].dim
    return signature


def _spec(info: Any, entry: Mapping[str, Any], dims: Mapping[str, Any]) -> TensorSpec:
    limits = entry.get("index_limits", [])
    total = entry.get("total", "")
    match = _LIMIT.fullmatch(limits[0]) if len(limits) == 1 else None
    counts = match["dim"] if match and match["dim"] in dims else ""
    return TensorSpec(
        info.name, info.dtype, numpy_dtype(info.dtype), info.shape, total or counts, entry.get("ascending", False),
        bool(total) and not entry.get("ascending", False),
    )  # fmt: skip


def _all_positions_are_joined(signature: Signature) -> bool:
    """Whether offsets and other positions refer only to joined dims without a fence, and each fence belongs only to offsets."""
    for spec in signature.inputs:
        if spec.counts and (spec.counts not in signature.joined or spec.counts in signature.fences or len(spec.shape) != 1):
            return False
        if spec.shape and spec.shape[0] in signature.fences and not (spec.counts and spec.ascending):
            return False
    return all(
        rows.less == (rows.dim in signature.fences) and rows.factor == 1 for rows in signature.output_rows if rows.dim in signature.fences
    )
