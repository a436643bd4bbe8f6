"""Loading and running artifacts."""

from __future__ import annotations

import os
from typing import Any, NamedTuple

from fusec import _native
from fusec._native import Context, Tensor

__all__ = ["CacheInfo", "Context", "Model", "TableInfo", "Tensor", "TensorInfo", "load"]


class TensorInfo(NamedTuple):
    """An input or output of a model."""

    name: str
    dtype: str  # "f32", "f16", "bf16", "f64", "i8" to "i64", "u8" to "u64", "bool"
    shape: tuple[int | str, ...]  # a number of elements, or an expression of dims such as "batch*27"

    def __str__(self) -> str:
        return f"{self.name} {self.dtype}[{', '.join(map(str, self.shape))}]"


class TableInfo(NamedTuple):
    """A table of a model whose rows look-ups read, or that updatable= named."""

    name: str  # in the model
    dtype: str  # in the model: "f32", "f16", "bf16", "f64"
    rows: int
    columns: int  # elements of a row
    storage: str  # of the rows: a dtype, or "int8", "int4", "fp8"
    nbytes: int  # as they are stored, with scales and biases
    fixed: str  # "", or why update_rows cannot update it; storage is "" and nbytes 0 then


class CacheInfo(NamedTuple):
    """Copies of a table's rows in the GPU's memory, which table_cache= of fusec.compile asked for."""

    rows: int  # that have room; 0 for a table without a cache
    nbytes: int  # of the GPU's memory, with those for scales and biases
    hits: int  # of the look-ups that were noted, one in some of all, since the model was loaded
    misses: int
    loaded: int  # rows that were copied since then

    @property
    def hit_rate(self) -> float:
        """The share of look-ups that found their row on the GPU; 0 before any was noted."""
        return self.hits / max(1, self.hits + self.misses)


def _tensor_infos(signature: tuple) -> tuple[TensorInfo, ...]:
    return tuple(
        TensorInfo(name, dtype, tuple(int(dim) if dim.lstrip("-").isdigit() else dim for dim in dims))
        for name, dtype, dims in signature
    )


class Model(_native.Model):
    """An artifact on a device: kernels and weights, which all threads share.

    Calling it runs the model. Tensors are given in the model's order or by name:

        scores = model(dense, ids)
        scores = model(dense, ids=ids)

    They are tensors of NumPy, PyTorch, CuPy, JAX or another library that speaks DLPack, or buffers such as array.array. The result is a
    tensor, or a tuple of them in the order of `outputs`, of the library of the first tensor and in host memory; where a tensor lies on
    the model's GPU it is of the library of the first of those, and on that GPU. Of buffers it is a fusec.Tensor.

    An output whose size only the data of a run tell, as of the places that a mask chooses, is a view of memory that has room for the most:
    `outputs` shows that size, the result has its own. Calls of such a model wait for the results.

    Tensors on the GPU are used in place, on the current stream of their library. If all tensors of a call are there and of PyTorch or
    of CuPy, the call returns when the work is enqueued, as theirs do; an out-of-range id then shows in a later call or in
    synchronize(). Otherwise it returns when the results are there. The GIL is released while the model runs, but for runs on the CPU of
    less than 5 us. Tensors that are not contiguous, or on a GPU do not start at a multiple of 16 bytes, are copied, of which a
    CopyWarning tells once for each input.

    Raises BadInput where a tensor is missing, unknown, or has the wrong dtype, shape or device, or where an id is out of range; NoDevice
    where memory runs out or the device fails; BadUsage in a process forked after the model was loaded.
    """

    def __init__(self, path: str | os.PathLike[str], device: Any = None, *, strict: bool = False):
        self._path = os.fspath(path)
        super().__init__(self._path, None if device is None else str(device), strict)

    @property
    def path(self) -> str:
        """The folder that was loaded."""
        return self._path

    @property
    def inputs(self) -> tuple[TensorInfo, ...]:
        """Names, dtypes and shapes of the inputs, in the order of positional arguments."""
        return _tensor_infos(self._inputs)

    @property
    def outputs(self) -> tuple[TensorInfo, ...]:
        """Names, dtypes and shapes of the outputs, in the order of results."""
        return _tensor_infos(self._outputs)

    @property
    def dims(self) -> dict[str, tuple[int, int]]:
        """The smallest and the largest size of each dim that calls choose, in elements."""
        return self._dims

    def update_weights(self, path: str | os.PathLike[str]) -> None:
        """Puts other weights in: those of an artifact that fusec.refit wrote from the one that was loaded.

        Calls of other threads go on meanwhile; each of them sees all of the old weights or all of the new ones, and those that begin
        when this has returned see the new ones. A GPU needs room for the tensors that change a second time until then.

        Raises BadArtifact where the folder is not the same program with other weights, and NoDevice where memory runs out; the model has
        its old weights then.
        """
        self._update_weights(os.fspath(path))

    def update_rows(self, table: str, ids: Any, rows: Any) -> None:
        """Puts rows into a table while calls go on, and stores them as the table is, with the bits that fusec.refit would give them.

            model.update_rows("emb.weight", ids, rows)

        ids: a vector of i32 or i64, each in 0 .. rows - 1; of an id that is there twice, the last row counts. rows: a tensor
        [len(ids), columns] of the table's dtype in the model (`tables` has it). Both are tensors as calls take them, in host memory or both on
        the model's GPU. Page-locked host memory (allocate_host) is the fastest there.

        A call sees each row either old or new, and calls that begin when this has returned see the new ones. On a GPU, tensors of PyTorch
        and CuPy on a current stream that is not the default one are only enqueued there: work on other streams waits as for any other op.
        In all other cases the rows are in the table when this returns. After update_weights, the rows of its file count.

        Raises BadInput where the table is unknown or cannot be updated (the error says why), a tensor has another dtype, shape or device, an
        id is outside the table, or the storage has no code for an element; nothing is written then.
        """
        self._update_rows(table, ids, rows)

    def warm_table(self, table: str, ids: Any) -> None:
        """Loads into a table's cache the rows that come most often among these ids, such as those of an hour's calls.

        ids: i32 or i64, in host memory. The cache also fills by itself, with the rows that calls look up most often. Nothing happens where
        the table has no cache. Raises BadInput where the table is unknown, or for ids of another dtype or outside the table.
        """
        self._warm_table(table, ids)

    def table_cache(self, table: str) -> CacheInfo:
        """The cache of a table's rows, and how often they were found there."""
        return CacheInfo(*self._table_cache(table))

    @property
    def adapter_slots(self) -> int:
        """How many LoRA adapters the model holds at a time; 0 unless it was compiled with adapters=.

        The input adapter_id, i32[batch], says for each row of the batch which slot it takes, -1 for none. Slot 0 holds the model's own
        adapter at first, the others nothing.
        """
        return self._adapter_slots

    def load_adapter(self, slot: int, path: str | os.PathLike[str]) -> None:
        """Puts a LoRA adapter into a slot while calls go on: what peft_model.save_pretrained(path) wrote, the folder or its .safetensors.

        Calls that begin when this has returned see the new one, and no call sees a part of it. Layers are found by their paths, and the
        scale is that of adapter_config.json beside the file (lora_alpha, use_rslora, alpha_pattern); without one, the scale of the model's
        own adapter. update_weights leaves the slot alone from then on.

        Raises BadInput where a tensor belongs to no layer with slots or has another shape or a higher rank, and for DoRA and biases, and
        BadUsage where there is no such slot; the slot keeps what it had.
        """
        self._load_adapter(slot, os.fspath(path))

    def unload_adapter(self, slot: int) -> None:
        """Empties a slot in the same way: rows that choose it get what the model is without an adapter."""
        self._unload_adapter(slot)

    @property
    def tables(self) -> tuple[TableInfo, ...]:
        """The tables of update_rows, by name."""
        return tuple(TableInfo(*table) for table in self._tables)

    def table_version(self, table: str) -> int:
        """How often the rows of a table have been updated, by update_rows or update_weights."""
        return self._table_version(table)

    def report(self, output: str | os.PathLike[str] | None = None, **flags: Any):  # type: ignore[no-untyped-def]  # a fusec.Page
        """fusec.report of the folder that was loaded."""
        from fusec import _verbs  # which loads models itself

        return _verbs.report(self._path, output, **flags)

    def __enter__(self) -> Model:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        if self.is_closed:
            return f"fusec.Model({self._path!r}, closed)"
        inputs, outputs = (", ".join(map(str, tensors)) for tensors in (self.inputs, self.outputs))
        return f"fusec.Model({self._path!r} on {self.device}: {inputs} -> {outputs})"


def load(path: str | os.PathLike[str], device: Any = None, *, strict: bool = False) -> Model:
    """Loads the folder that fusec.compile wrote: reads and checks its files, and on a GPU copies the weights there.

    path: the folder. device: "cpu", "cuda" (the first GPU), "cuda:1", a torch.device, or None for a GPU where the artifact and the
    machine have one, else the CPU. strict: tensors that would have to be copied are refused with BadInput.

    Raises BadArtifact where a file is missing or damaged, NoDevice where the device or a library is missing or memory runs out, and
    BadUsage where the device has an unknown name, or a process that has already run models or used CUDA was forked into this one.
    """
    return Model(path, device, strict=strict)
