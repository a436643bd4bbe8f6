"""A model whose tables are on shards. `fusec shard` made an artifact for each shard, which looks up rows, and one for the rest of the
model, the dense part. ShardedModel has the interface of a fusec.Model; a transport reaches its shards. This module does not use Ray.

A run sends one message to each shard, to all at the same time, with the inputs that the shard reads; the returned rows are copied once,
into the memory of the dense part's inputs. All rows are computed with one set of weights: a part may hold several sets while weights
change, and a run tells every shard which set to use.
"""

from __future__ import annotations

import concurrent.futures
import json
import math
import os
import pathlib
import threading
import time
from dataclasses import dataclass
from typing import Any, Mapping, Protocol, Sequence

import numpy as np

import fusec
from fusec import CacheInfo, TableInfo, TensorInfo
from fusec.serve._errors import Unavailable
from fusec.serve._metrics import SECONDS, Histogram

PATIENCE_S = 30.0  # how long a run waits for a shard, or for all parts to have its weights
_PAUSE_S = 0.005
_KERNELS = ("kernels/", "cubin/", "cpu/")  # folders of an artifact


def _manifest(folder: str | os.PathLike[str]) -> dict[str, Any]:
    try:
        return json.loads((pathlib.Path(folder) / "manifest.json").read_text())
    except (OSError, ValueError) as error:
        raise fusec.BadArtifact(f"{os.fspath(folder)}/manifest.json: {error}") from None


def is_sharded(path: str | os.PathLike[str]) -> bool:
    """Whether the artifact is one of `fusec shard`."""
    return "shards" in _manifest(path).get("targets", {})


@dataclass(frozen=True)
class Part:
    """A part of a sharded artifact. An output of a shard has the same name as the input of the dense part that reads it."""

    folder: str  # "shard_0"
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


@dataclass(frozen=True)
class TablePart:
    """The rows of a table that a part has, or the columns that it has of all rows."""

    part: int  # the index of a shard; that of the dense part is the number of shards
    first_row: int
    rows: int
    columns: slice | None = None  # None: all of them


class ShardedManifest:
    """The contents of the manifest of a sharded artifact."""

    def __init__(self, path: str | os.PathLike[str]):
        self.path = os.fspath(path)
        manifest = _manifest(path)
        if "shards" not in manifest.get("targets", {}):
            raise fusec.BadArtifact(f"{self.path}: is not sharded")
        buffers = [buffer["name"] for buffer in manifest["buffers"]]
        self.parts = tuple(
            Part(step["folder"], tuple(buffers[i] for i in step["inputs"]), tuple(buffers[i] for i in step["outputs"]))
            for step in manifest["targets"]["shards"]["steps"]
        )
        self.weights: str = manifest["hash"]  # the name of this set of weights: a hash over all parts
        self.inputs, self.outputs = _infos(manifest["inputs"]), _infos(manifest["outputs"])
        self.dims = {symbol["name"]: (symbol["min"], symbol["max"]) for symbol in manifest["symbols"]}
        self.tables = {entry["table"]: _table_info(entry) for entry in manifest["tables"]}
        self.places = {
            entry["table"]: [_table_part(place) for place in entry.get("parts", [])]
            for entry in manifest["tables"]
        }
        self.plan: dict[str, Any] = manifest["shards"]
        self._files: dict[str, str] = manifest["files"]

    @property
    def shards(self) -> tuple[Part, ...]:
        return self.parts[:-1]

    @property
    def dense(self) -> Part:
        return self.parts[-1]

    def folder(self, number: int) -> str:
        """The folder of part `number`."""
        return os.path.join(self.path, self.parts[number].folder)

    def program(self, number: int) -> dict[str, Any]:
        """The properties of a part that do not change with its weights, as in runtime/src/artifact/same_program.cc. Raises BadArtifact if
        the part does not belong to the manifest beside it."""
        manifest, folder = _manifest(self.folder(number)), self.parts[number].folder
        for file, file_hash in manifest["files"].items():
            if self._files.get(f"{folder}/{file}", file_hash) != file_hash:
                raise fusec.BadArtifact(f"{self.folder(number)}/{file}: is not the file that the manifest beside the part says")
        return {
            "symbols": manifest["symbols"],
            "tensors": [(entry["name"], entry["dtype"], entry["shape"]) for entry in manifest["inputs"] + manifest["outputs"]],
            "buffers": [(buffer["kind"], buffer["dtype"], buffer["elements"]) for buffer in manifest["buffers"]],
            "steps": {name: target["steps"] for name, target in manifest["targets"].items()},
            "kernels": {file: file_hash for file, file_hash in manifest["files"].items() if file.startswith(_KERNELS)},
        }


def _infos(entries: Sequence[Mapping[str, Any]]) -> tuple[TensorInfo, ...]:
    return tuple(
        TensorInfo(entry["name"], entry["dtype"], tuple(int(dim) if dim.isdigit() else dim for dim in entry["shape"])) for entry in entries
    )


def _table_part(place: Mapping[str, Any]) -> TablePart:
    first = place.get("first_column", 0)
    columns = slice(first, first + place["columns"]) if "columns" in place else None
    return TablePart(place["step"], place["first_row"], place["rows"], columns)


def _table_info(entry: Mapping[str, Any]) -> TableInfo:
    """The description of a table, without its stored bytes, which only its parts know."""
    return TableInfo(entry["table"], entry["dtype"], entry["rows"], entry["columns"], entry.get("storage", ""), 0, entry.get("fixed", ""))


# ---- a part, and its sets of weights ----


class WeightSet:
    """A part with one set of weights: its model, and its idle contexts."""

    def __init__(self, weights: str, folder: str, device: Any):
        self.weights, self.model = weights, fusec.load(folder, device)
        self._idle: list[Any] = []

    def run(self, inputs: Sequence[Any]) -> tuple[np.ndarray, ...]:
        try:
            context = self._idle.pop()
        except IndexError:
            context = self.model.context()
        try:
            results = context(*inputs)
        finally:
            self._idle.append(context)
        return results if isinstance(results, tuple) else (results,)


class PartHolder:
    """The part `number` of a sharded artifact in this process. It is empty at first, and then holds the weights of that artifact or of
    others that are the same program. New weights are a second set; runs that name the older set get it until it is retired. Any thread may
    run it; only one thread at a time may change it."""

    def __init__(self, path: str | os.PathLike[str], number: int, device: Any = None):
        self.number, self._device = number, device
        artifact = ShardedManifest(path)
        self._program = artifact.program(number)
        self._rows = {table: [place for place in places if place.part == number] for table, places in artifact.places.items()}
        self.current: WeightSet | None = None
        self._older: WeightSet | None = None

    def weight_set(self, weights: str) -> WeightSet | None:
        """The set with this name, if the part has it."""
        for held in (self.current, self._older):
            if held is not None and held.weights == weights:
                return held
        return None

    def check(self, path: str | os.PathLike[str]) -> None:
        """Raises BadArtifact unless the artifact has this part, with any weights, and the part's files are complete."""
        self._open(path).model.close()

    def use(self, path: str | os.PathLike[str]) -> None:
        """Loads the weights of an artifact, and keeps the previous ones as the older set."""
        opened = self._open(path)
        self._older, self.current = self.current, opened

    def retire(self) -> None:
        """Retires the older weights. Runs that have begun with them still finish with them."""
        self._older = None

    def unload(self) -> None:
        self._older = self.current = None

    def update_rows(self, table: str, ids: np.ndarray, rows: np.ndarray) -> None:
        """Updates those of the rows that this part has, in its current weights."""
        for place in self._rows[table] if self.current is not None else ():
            here = (ids >= place.first_row) & (ids < place.first_row + place.rows)
            values = rows[here] if place.columns is None else np.ascontiguousarray(rows[here][:, place.columns])
            self.current.model.update_rows(table, ids[here] - place.first_row, values)

    def _open(self, path: str | os.PathLike[str]) -> WeightSet:
        artifact = ShardedManifest(path)
        if self.number >= len(artifact.parts) or artifact.program(self.number) != self._program:
            raise fusec.BadArtifact(f"{artifact.path}: its part {self.number} is not the served program with other weights")
        return WeightSet(artifact.weights, artifact.folder(self.number), self._device)


@dataclass(frozen=True)
class Rows:
    """A shard's answer: its outputs, computed with the requested weights. There are none if it has other weights or refuses its inputs."""

    arrays: tuple[np.ndarray, ...] = ()
    has_weights: bool = True
    refused: str = ""  # why it refuses its inputs


def look_up(shard: PartHolder, inputs: Mapping[str, np.ndarray], weights: str) -> Rows:
    """The answer of a shard to a run with these inputs, by name, and that set of weights."""
    held = shard.weight_set(weights)
    if held is None:
        return Rows(has_weights=False)
    try:
        return Rows(held.run([inputs[info.name] for info in held.model.inputs]))
    except fusec.BadInput as error:
        return Rows(refused=str(error))


# ---- the whole model ----


class Shards(Protocol):
    """A transport: how a model reaches its shards."""

    def look_up(self, number: int, inputs: Mapping[str, np.ndarray], weights: str) -> concurrent.futures.Future[Rows]:
        """Sends a request to a shard. The future fails with Unavailable if the shard does not answer."""
        ...


class LocalShards:
    """Shards in this process."""

    def __init__(self, path: str | os.PathLike[str], device: Any = None):
        self.parts = [PartHolder(path, number, device) for number in range(len(ShardedManifest(path).shards))]
        for part in self.parts:
            part.use(path)
        self._threads = concurrent.futures.ThreadPoolExecutor(len(self.parts), "fusec-shard")

    def look_up(self, number: int, inputs: Mapping[str, np.ndarray], weights: str) -> concurrent.futures.Future[Rows]:
        return self._threads.submit(look_up, self.parts[number], inputs, weights)


class ShardedModel:
    """A sharded artifact with the interface of a fusec.Model: the dense part is in this process, the shards are behind a transport.

    Changes of rows and weights affect only the dense part. The servers of the shards have to change the shards; new weights must be there
    before they are given to this model, which requests them from then on.
    """

    def __init__(self, path: str | os.PathLike[str], device: Any, shards: Shards):
        self.artifact, self.shards = ShardedManifest(path), shards
        self.path, self.inputs, self.outputs = self.artifact.path, self.artifact.inputs, self.artifact.outputs
        self._dense = PartHolder(path, len(self.artifact.shards), device)
        self._dense.use(path)
        self.dims = {**self.artifact.dims, **self.dense.model.dims}  # the dense part knows which of them may be 0
        self._adapters: dict[int, str] = {}
        self._counting = threading.Lock()
        self.reruns = 0  # runs that were repeated because a shard had other weights
        self.shards_seconds = Histogram(SECONDS)  # times until all shards of a run have answered

    @property
    def dense(self) -> WeightSet:
        """The dense part, with the weights of the next run."""
        if self._dense.current is None:
            raise Unavailable("the model is closed")
        return self._dense.current

    @property
    def device(self) -> str:
        """The device of the dense part."""
        return self.dense.model.device

    def context(self) -> ShardedContext:
        return ShardedContext(self)

    def allocate_host(self, shape: Sequence[int], dtype: str = "f32") -> Any:
        return self.dense.model.allocate_host(shape, dtype)

    def close(self) -> None:
        self._dense.unload()

    # ---- changes ----

    @property
    def tables(self) -> tuple[TableInfo, ...]:
        return tuple(self.artifact.tables.values())

    def table_cache(self, table: str) -> CacheInfo:
        """The cache of a table of the dense part; the shards report their own."""
        held_here = any(info.name == table for info in self.dense.model.tables)
        return self.dense.model.table_cache(table) if held_here else CacheInfo(0, 0, 0, 0, 0)

    def check_rows(self, table: str, ids: np.ndarray) -> None:
        """Raises BadInput unless these rows of a table can be updated."""
        rows, fixed = self.artifact.tables[table].rows, self.artifact.tables[table].fixed
        if fixed:
            raise fusec.BadInput(f'table "{table}" cannot be updated by rows: {fixed}')
        if ids.size and not 0 <= ids.min() <= ids.max() < rows:
            outside = int(ids[(ids < 0) | (ids >= rows)][0])
            raise fusec.BadInput(f'id {outside} is outside the {rows} rows of table "{table}"')

    def update_weights(self, path: str | os.PathLike[str]) -> None:
        self._dense.use(path)
        for slot, adapter in self._adapters.items():
            self.dense.model.load_adapter(slot, adapter)
        self._dense.retire()

    def update_rows(self, table: str, ids: np.ndarray, rows: np.ndarray) -> None:
        self._dense.update_rows(table, ids, rows)

    def load_adapter(self, slot: int, path: str | os.PathLike[str]) -> None:
        self.dense.model.load_adapter(slot, path)
        self._adapters[slot] = os.fspath(path)

    def unload_adapter(self, slot: int) -> None:
        self.dense.model.unload_adapter(slot)
        self._adapters.pop(slot, None)

    # ---- counters of contexts ----

    def note_rerun(self) -> None:
        with self._counting:
            self.reruns += 1

    def note_shards(self, seconds: float) -> None:
        with self._counting:
            self.shards_seconds.note(seconds)


class ShardedContext:
    """A context for the runs of one thread at a time."""

    def __init__(self, model: ShardedModel):
        self._model, self._parts = model, model.artifact
        self._memory: dict[str, np.ndarray] = {}  # memory of the dense part's inputs for the rows of shards

    def __call__(self, *inputs: np.ndarray) -> tuple[np.ndarray, ...]:
        given = {info.name: tensor for info, tensor in zip(self._model.inputs, inputs, strict=True)}
        end = time.monotonic() + PATIENCE_S
        while True:
            dense = self._model.dense
            rows = self._look_up(given, dense.weights)
            if rows is not None:
                return dense.run([rows[name] if name in rows else given[name] for name in self._parts.dense.inputs])
            if time.monotonic() > end:
                raise Unavailable(f"the shards have not come to the weights of the dense part in {PATIENCE_S:g} s")
            self._model.note_rerun()
            time.sleep(_PAUSE_S)

    def _look_up(self, given: Mapping[str, np.ndarray], weights: str) -> dict[str, np.ndarray] | None:
        """The rows of all shards, or None if one of them has other weights. Raises BadInput if one refuses its inputs."""
        start = time.perf_counter()
        answers = [
            self._model.shards.look_up(number, {name: given[name] for name in part.inputs}, weights)
            for number, part in enumerate(self._parts.shards)
        ]
        rows = {}
        for part, answer in zip(self._parts.shards, answers):
            found = answer.result()
            if found.refused:
                raise fusec.BadInput(f"{part.folder}: {found.refused}")
            if not found.has_weights:
                return None
            for name, array in zip(part.outputs, found.arrays):
                rows[name] = self._copied(name, array)
        self._model.note_shards(time.perf_counter() - start)
        return rows

    def _copied(self, name: str, array: np.ndarray) -> np.ndarray:
        """A copy of the array in the memory of an input, which grows as needed and is page-locked if the dense part is on a GPU."""
        count = math.prod(array.shape) * array.dtype.itemsize
        memory = self._memory.get(name)
        if memory is None or memory.size < count:
            memory = self._memory[name] = np.asarray(self._model.allocate_host((max(count, 1),), "u8"))
        copy = memory[:count].view(array.dtype).reshape(array.shape)
        np.copyto(copy, array)
        return copy
