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
    """A table of a model: a floating-point initializer whose rows are looked up, or that updatable= of fusec.compile named."""

    name: str  # in the model
    dtype: str  # in the model: "f32", "f16", "bf16", "f64"
    rows: int
    columns: int  # elements of a row
    storage: str  # the storage type of the rows: a dtype, or "int8", "int4" or "fp8"
    nbytes: int  # bytes of all rows as they are stored, with scales and biases
    fixed: str  # why update_rows cannot update the table (storage is "" and nbytes 0 then), or ""


class CacheInfo(NamedTuple):
    """The state of a table's cache: GPU memory with copies of the rows that are looked up most often (table_cache= of fusec.compile)."""

    rows: int  # capacity in rows; 0 for a table without a cache
    nbytes: int  # bytes of GPU memory, with scales and biases
    hits: int  # look-ups that found their row, in a sample of all look-ups since the model was loaded
    misses: int  # look-ups of that sample that did not find their row
    loaded: int  # rows copied into the cache since the model was loaded

    @property
    def hit_rate(self) -> float:
        """The fraction of the sampled look-ups that found their row on the GPU; 0 before the first sample."""
        return self.hits / max(1, self.hits + self.misses)


def _tensor_infos(signature: tuple) -> tuple[TensorInfo, ...]:
    return tuple(
        TensorInfo(name, dtype, tuple(int(dim) if dim.lstrip("-").isdigit() else dim for dim in dims))
        for name, dtype, dims in signature
    )


class Model(_native.Model):
    """An artifact loaded on a device: kernels and weights, which all threads share.

    Calling it runs the model. Tensors are given in the model's order or by name:

        scores = model(dense, ids)
        scores = model(dense, ids=ids)

    They are tensors of NumPy, PyTorch, CuPy, JAX or another library that supports DLPack, or buffers such as array.array. The result is
    one tensor, or a tuple of tensors in the order of `outputs`. If a tensor of the call is on the model's GPU, the result is on that GPU
    and belongs to the library of the first such tensor; otherwise it is in host memory and belongs to the library of the first tensor. If
    all inputs are buffers, the result is a fusec.Tensor.

    The size of an output may depend on the data of a run, for example if it holds the positions where a mask is true. `outputs` then has
    its largest possible size; the result has its actual size and is a view of memory of the largest size. Calls of such a model wait for
    the results.

    Tensors on the GPU are used in place, on the current stream of their library. If all tensors of a call are on the GPU and belong to
    PyTorch or CuPy, the call returns when the work is enqueued, as the ops of those libraries do; an out-of-range id is then reported by
    a later call or by synchronize(). Otherwise the call returns when the results are complete. The GIL is released while the model runs,
    except for runs on the CPU that take less than 5 us. Tensors that are not contiguous, or that are on a GPU and not aligned to 16
    bytes, are copied; a CopyWarning reports this once per input.

    Raises BadInput if a tensor is missing or unknown, has the wrong dtype, shape or device, or has an id that is out of range; NoDevice
    if memory runs out or the device fails; BadUsage in a process that was forked after the model was loaded.
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
        """The smallest and the largest allowed size of each symbolic dim, in elements."""
        return self._dims

    def update_weights(self, path: str | os.PathLike[str]) -> None:
        """Replaces the weights by those of an artifact that fusec.refit wrote from the loaded one.

        Calls of other threads continue meanwhile. Each of them sees either all of the old weights or all of the new ones; calls that begin
        after this one has returned see the new ones. On a GPU the tensors that change need memory for a second copy during this call.

        Raises BadArtifact if the folder is not the same program with other weights, and NoDevice if memory runs out; the model then keeps
        its old weights.
        """
        self._update_weights(os.fspath(path))

    def update_rows(self, table: str, ids: Any, rows: Any) -> None:
        """Overwrites rows of a table while calls continue. The rows are converted to the storage type of the table, with the same bits that
        fusec.refit would write.

            model.update_rows("emb.weight", ids, rows)

        ids: a vector of i32 or i64, each in 0 .. rows - 1; if an id occurs more than once, its last row is stored. rows: a tensor
        [len(ids), columns] of the table's dtype in the model (see `tables`). Both are tensors of the kinds that calls accept, and both are
        in host memory or both on the model's GPU. For a model on a GPU, page-locked memory (allocate_host) is the fastest host memory.

        A call sees each row either old or new; calls that begin after this one has returned see the new rows. For tensors of PyTorch or
        CuPy on the GPU whose current stream is not the default stream, the update is only enqueued on that stream, and work on other
        streams has to be ordered as for any other op. In all other cases the rows are in the table when this call returns. A later
        update_weights overwrites them with the rows of its artifact.

        Raises BadInput if the table is unknown or cannot be updated (the error says why), a tensor has the wrong dtype, shape or device, an
        id is outside the table, or the storage type cannot represent an element; nothing is written then.
        """
        self._update_rows(table, ids, rows)

    def warm_table(self, table: str, ids: Any) -> None:
        """Loads the rows that occur most often among these ids (of an hour of calls, for example) into a table's cache.

        ids: i32 or i64, in host memory. The cache also fills by itself, with the rows that calls look up most often. The call does nothing
        if the table has no cache. Raises BadInput if the table is unknown, or if ids have the wrong dtype or are outside the table.
        """
        self._warm_table(table, ids)

    def table_cache(self, table: str) -> CacheInfo:
        """The state of a table's cache, with its hits and misses."""
        return CacheInfo(*self._table_cache(table))

    @property
    def adapter_slots(self) -> int:
        """How many LoRA adapters the model can hold at the same time; 0 unless it was compiled with adapters=.

        The input adapter_id, i32[batch], selects a slot for each row of the batch, or -1 for no adapter. After loading, slot 0 holds the
        adapter of the ONNX model and the other slots are empty.
        """
        return self._adapter_slots

    def load_adapter(self, slot: int, path: str | os.PathLike[str]) -> None:
        """Loads a LoRA adapter into a slot while calls continue.

        path: the folder that peft_model.save_pretrained(path) wrote, or its .safetensors file. Calls that begin after this one has
        returned see the new adapter, and no call sees a part of it. Layers are matched by their paths. The scale comes from
        adapter_config.json beside the file (lora_alpha, use_rslora, alpha_pattern); without that file, the scale of the ONNX model's
        adapter is used. From then on update_weights does not change the slot.

        Raises BadInput if a tensor belongs to no layer with slots, has the wrong shape or too high a rank, or for DoRA and biases; raises
        BadUsage if there is no such slot. The slot then keeps its old adapter.
        """
        self._load_adapter(slot, os.fspath(path))

    def unload_adapter(self, slot: int) -> None:
        """Empties a slot in the same way: rows that select it get the result of the model without an adapter."""
        self._unload_adapter(slot)

    @property
    def tables(self) -> tuple[TableInfo, ...]:
        """The tables that update_rows knows, in the order of their names."""
        return tuple(TableInfo(*table) for table in self._tables)

    def table_version(self, table: str) -> int:
        """How often the rows of a table were updated: the number of calls of update_rows for this table and of update_weights."""
        return self._table_version(table)

    def report(self, output: str | os.PathLike[str] | None = None, **flags: Any):  # type: ignore[no-untyped-def]  # a fusec.Page
        """fusec.report of the loaded folder."""
        from fusec import _verbs  # imported here because _verbs imports this module

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
    """Loads the folder that fusec.compile wrote: reads and checks its files, and copies the weights to the GPU if the device is one.

    path: the folder. device: "cpu", "cuda" (the first GPU), "cuda:1", a torch.device, or None, which selects the first GPU if the machine
    has one and the artifact has a GPU target, and the CPU otherwise. strict: raise BadInput for tensors that would have to be copied.

    Raises BadArtifact if a file is missing or damaged; NoDevice if the device or a library is missing or memory runs out; BadUsage if the
    device name is unknown, or if this process was forked from one that had already run models or used CUDA.
    """
    return Model(path, device, strict=strict)
