"""The program's verbs as functions: compile, refit, sign, verify, bisect, bench, tune, edit, rebuild, explain and report. Each passes its
arguments to the program as flags and returns the program's answer as an object."""

from __future__ import annotations

import json
import os
import pathlib
import sys
import tempfile
from typing import Any, Iterable, Mapping, Sequence, Union

from fusec import _errors, _model, _program
from fusec._bench import Bench
from fusec._explanation import Explanation, Page
from fusec._verification import Rebuild, Verification

Path = Union[str, "os.PathLike[str]"]
Size = Union[int, Sequence[int], str]


class Artifact:
    """A folder that fusec wrote: kernels, weights, and the graphs that they were made from. It can be used wherever a path is expected."""

    def __init__(self, path: Path):
        self.path = os.fspath(path)

    def __fspath__(self) -> str:
        return self.path

    def __repr__(self) -> str:
        return f"fusec.Artifact({self.path!r})"

    def _repr_html_(self) -> str:
        return self.explain()._repr_html_()

    def load(self, device: Any = None, *, strict: bool = False) -> _model.Model:
        """fusec.load of this folder."""
        return _model.load(self.path, device, strict=strict)

    def verify(self, **flags: Any) -> Verification:
        """fusec.verify of this folder."""
        return verify(self, **flags)

    def bench(self, **flags: Any) -> Bench:
        """fusec.bench of this folder."""
        return bench(self, **flags)

    def explain(self, **flags: Any) -> Explanation:
        """fusec.explain of this folder."""
        return explain(self, **flags)

    def refit(self, weights: Any, output: Path | None = None, **flags: Any) -> Artifact:
        """fusec.refit of this folder."""
        return refit(self, weights, output, **flags)

    def edit(self, *kernels: str, **flags: Any) -> list[str]:
        """fusec.edit of this folder."""
        return edit(self, *kernels, **flags)

    def rebuild(self, **flags: Any) -> Rebuild:
        """fusec.rebuild of this folder."""
        return rebuild(self, **flags)

    def tune(self, **flags: Any) -> str:
        """fusec.tune of this folder."""
        return tune(self, **flags)

    def report(self, output: Path | None = None, **flags: Any) -> Page:
        """fusec.report of this folder."""
        return report(self, output, **flags)


def compile(
    model: Any,
    output: Path | None = None,
    *,
    args: Any = None,
    dynamic_shapes: Any = None,
    target: str | Sequence[str] | None = None,
    dims: Mapping[str, Any] | None = None,
    freeze: Mapping[str, Any] | None = None,
    matmul_precision: str | None = None,
    fp8_budget: float | None = None,
    index_policy: str | None = None,
    table_storage: Mapping[str, str] | None = None,
    table_placement: Mapping[str, str] | None = None,
    table_cache: str | int | None = None,
    adapters: str | Mapping[str, int] | None = None,
    per_request: str | Sequence[str] | None = None,
    request_map: bool = False,
    in_place: Mapping[str, str] | None = None,
    updatable: str | Sequence[str] | None = None,
    disable_fusion: str | Sequence[str] | None = None,
    keep_lora: bool = False,
    round_every_op: bool = False,
    batch_invariant: bool = False,
    cpu_level: str | None = None,
    dump_ir: Path | None = None,
    dump_kernels: Path | None = None,
    time_passes: bool = False,
    tune: bool = False,
) -> Artifact:
    """Compiles a model into a folder that fusec.load loads.

    model: an ONNX file; or a torch.nn.Module or ExportedProgram, which PyTorch first exports to ONNX in evaluation mode; or a keras.Model
    of Keras 3, which Keras exports (with tf2onnx, if its backend is TensorFlow). Its first axis is called "batch".
    output: the folder to write; by default "NAME_fused" in the working directory.
    args: the example arguments of a module, a tensor or a tuple. Every tensor whose first axis is as long as that of the first tensor gets
    the dim "batch", of any size, as its first axis; dynamic_shapes, in the form of torch.onnx.export, replaces this rule.
    target: the targets to compile for, such as "cpu,sm_90a" or ["cpu", "sm_90a"]; by default those of this machine.
    dims: the allowed sizes of symbolic dims, in elements: {"batch": (1, 4096)}, or {"batch": 64} for one size.
    freeze: inputs that become constants, each given as an array or a file (.npy or .pb): {"mask": mask}.
    matmul_precision: the arithmetic of f32 products: "highest" (f32, the default), "high" (TF32) or "medium" (bf16); "fp8" rounds both
    operands of a layer's product to 8 bits (E4M3) where the kernel for that is faster.
    fp8_budget: with "fp8", the relative L2 error above which a layer is not rounded to 8 bits; 0.05 by default.
    index_policy: the treatment of an id outside its table: "error" (the run raises BadInput, the default), "clamp", "wrap" or "zero".
    table_storage: the storage type of embedding tables, by patterns of their names: {"emb.*": "int8"}; "int8", "int4", "fp8", "f16" or
    "bf16".
    table_placement: the memory of embedding tables while a GPU runs the model, by patterns of their names: {"emb.*": "host"}. The values
    are "device" (the default) and "host": kernels then read the rows over the bus, so that tables may be larger than the GPU's memory.
    It has no effect on a CPU.
    table_cache: GPU memory that caches the most often looked-up rows of tables in host memory: a number of bytes, a size such as "2GB", or
    a fraction of their rows such as "10%".
    adapters: {"slots": 64, "rank": 16} keeps LoRA adapters in slots, for Model.load_adapter; each row of a batch selects one by the input
    adapter_id (see Model.adapter_slots).
    per_request: names or patterns of inputs that have one row per call, shared by all items of the batch; values that depend only on them
    are computed once. request_map: a call may have several requests, and the input request_of_item, i64[batch], holds the index of the
    request of each item.
    in_place: outputs that lie in the memory of inputs, such as caches of keys and values, into which calls then write only the new rows
    if both are the same memory (Model.run_into): {"present.*": "past_key_values.*"}, where a * stands for the same text in both.
    updatable: patterns of initializers whose values must not influence compilation, so that fusec.refit can replace them by any others
    ("*" for all).
    disable_fusion: names of fusions and rewrites to switch off. keep_lora: do not merge LoRA adapters into their layers.
    round_every_op: round f16 and bf16 values after every op. batch_invariant: a row gives the same bits in every batch and at every
    position in it. cpu_level: "both" (the default), "x86-64-v3", "x86-64-v4" or "native". dump_ir: a folder for the graph after every
    pass. dump_kernels: a folder for the kernels. time_passes: print the time of each pass. tune: choose kernels by measuring them on this
    machine.

    Progress and warnings appear on sys.stderr. Raises BadModel if the model is damaged or unsupported, BadUsage if an argument is wrong,
    and NoDevice if a compiler is missing: GPU targets need NVRTC (a CUDA toolkit, or pip install "fusec[cuda]"), CPU targets the compiler
    c++.
    """
    with tempfile.TemporaryDirectory(prefix="fusec_") as temporary:
        path = _model_file(model, args, dynamic_shapes, temporary)
        folder = pathlib.Path(path).stem.split(".")[0] + "_fused" if output is None else os.fspath(output)
        flags = {
            **_build_flags(
                temporary, target, dims, cpu_level, freeze=freeze, matmul_precision=matmul_precision, fp8_budget=fp8_budget,
                index_policy=index_policy, table_storage=table_storage, table_placement=table_placement, table_cache=table_cache,
                adapters=adapters, per_request=per_request, request_map=request_map, in_place=in_place, updatable=updatable, disable_fusion=disable_fusion,
                keep_lora=keep_lora, round_every_op=round_every_op, batch_invariant=batch_invariant,
            ),
            "dump_ir": dump_ir,
            "dump_kernels": dump_kernels,
            "time_passes": time_passes,
            "tune": tune,
        }  # fmt: skip
        _program.run(["compile", path, f"--output={folder}", *_program.flags(flags)])
    return Artifact(folder)


def _build_flags(folder: str, target: Any = None, dims: Any = None, cpu_level: str | None = None, **model: Any) -> dict[str, Any]:
    """The program's flags for those arguments of `compile` that `shard` has too. folder: where arrays are written as files."""
    return {
        "target": _program.listed(target),
        "dim": _program.named(dims, _program.size_range),
        **_model_flags(folder, **model),
        "cpu_level": cpu_level,
    }


def _model_flags(
    folder: str, freeze: Any = None, matmul_precision: str | None = None, fp8_budget: float | None = None, index_policy: str | None = None,
    table_storage: Any = None, table_placement: Any = None, table_cache: Any = None, adapters: Any = None, per_request: Any = None,
    request_map: bool = False, in_place: Any = None, updatable: Any = None, disable_fusion: Any = None, keep_lora: bool = False, round_every_op: bool = False,
    batch_invariant: bool = False,
) -> dict[str, Any]:  # fmt: skip
    """The program's flags for those arguments that compile, shard and verify have in common."""
    return {
        "freeze": _frozen(freeze, folder),
        "matmul_precision": matmul_precision,
        "fp8_budget": fp8_budget,
        "index_policy": index_policy,
        "table_storage": _program.named(table_storage, str),
        "table_placement": _program.named(table_placement, str),
        "table_cache": None if table_cache is None else str(table_cache),
        "adapters": adapters if isinstance(adapters, str) else ",".join(_program.named(adapters, str) or []) or None,
        "per_request": _program.listed(per_request),
        "request_map": request_map,
        "in_place": _program.named(in_place, str),
        "updatable": [updatable] if isinstance(updatable, str) else updatable,
        "disable_fusion": _program.listed(disable_fusion),
        "keep_lora": keep_lora,
        "round_every_op": round_every_op,
        "batch_invariant": batch_invariant,
    }


def _model_file(model: Any, args: Any, dynamic_shapes: Any, folder: str) -> str:
    if isinstance(model, (str, os.PathLike)):
        return os.fspath(model)
    if "torch" in sys.modules:
        from fusec import _torch

        if _torch.is_model(model):
            path = os.path.join(folder, type(model).__name__.lower() + ".onnx")
            _torch.export(model, args, path, dynamic_shapes)
            return path
    if "keras" in sys.modules:
        from fusec import _keras

        if _keras.is_model(model):
            path = os.path.join(folder, model.name + ".onnx")
            _keras.export(model, path)
            return path
    raise _errors.BadUsage(f"a model is a path, a module of PyTorch or a model of Keras, got {type(model).__name__}")


def _frozen(values: Mapping[str, Any] | None, folder: str) -> list[str] | None:
    """The text NAME=FILE for every input to freeze; arrays are written to files."""
    return _program.named(values, lambda value: _file_of(value, folder))


def _file_of(value: Any, folder: str) -> str:
    """The path of a file: `value` itself if it is a path, or a new file in `folder` that holds the array."""
    if isinstance(value, (str, os.PathLike)):
        return os.fspath(value)
    import numpy

    handle, name = tempfile.mkstemp(suffix=".npy", dir=folder)
    with os.fdopen(handle, "wb") as file:
        numpy.save(file, numpy.asarray(value))
    return name


def refit(
    artifact: Path,
    weights: Any,
    output: Path | None = None,
    *,
    model: Path | None = None,
    exported_with: Path | None = None,
    args: Any = None,
    dynamic_shapes: Any = None,
    freeze: Mapping[str, Any] | None = None,
) -> Artifact:
    """Writes an artifact again with other weights, for example those of the same model after more training, without compiling a kernel.

    weights: the model with new weights, as an ONNX file or in another form that fusec.compile accepts (args and dynamic_shapes must then
    be those of the compilation), or a .safetensors file (or the .index.json of several) whose tensors replace the initializers of the
    same names in `model`. exported_with: the same tensors when `model` was exported; with them, tensors are found that the exporter renamed,
    transposed or rounded. output: the folder to write; by default the artifact itself. freeze: the inputs that were frozen when the artifact
    was compiled.

    Model.update_weights puts the result into a loaded model. Raises BadModel if the new weights would compile to a different program, for
    example because a weight is a number in the text of a kernel; nothing is written then.
    """
    with tempfile.TemporaryDirectory(prefix="fusec_") as temporary:
        path = _model_file(weights, args, dynamic_shapes, temporary)
        folder = os.fspath(artifact if output is None else output)
        flags = {"weights": path, "model": model, "exported_with": exported_with, "freeze": _frozen(freeze, temporary), "output": folder}
        _program.run(["refit", os.fspath(artifact), *_program.flags(flags)])
    return Artifact(folder)


def sign(artifact: Path, key: Path) -> None:
    """Signs an artifact with an OpenSSH key. A runtime with FUSEC_ALLOWED_SIGNERS loads only signed artifacts.

    key: the private key, or the public key if an SSH agent holds the private one. Raises NoDevice if ssh-keygen cannot sign with it, for
    example because there is no terminal on which to ask for its passphrase.
    """
    _program.run(["sign", os.fspath(artifact), *_program.flags({"key": key})])


def verify(
    subject: Path,
    *,
    model: Path | None = None,
    dims: Mapping[str, Size] | None = None,
    inputs: Path | None = None,
    seed: int | None = None,
    ids: str | None = None,
    special_values: bool = False,
    freeze: Mapping[str, Any] | None = None,
    matmul_precision: str | None = None,
    fp8_budget: float | None = None,
    index_policy: str | None = None,
    table_storage: Mapping[str, str] | None = None,
    table_placement: Mapping[str, str] | None = None,
    table_cache: str | int | None = None,
    adapters: str | Mapping[str, int] | None = None,
    per_request: str | Sequence[str] | None = None,
    request_map: bool = False,
    in_place: Mapping[str, str] | None = None,
    updatable: str | Sequence[str] | None = None,
    disable_fusion: str | Sequence[str] | None = None,
    keep_lora: bool = False,
    round_every_op: bool = False,
    batch_invariant: bool = False,
    device: Any = None,
    per_fusion: bool = False,
    drift_bound: float | None = None,
    labels: Any = None,
) -> Verification:
    """Compares the outputs of an artifact with those of the interpreter in double precision, and with those of onnxruntime if this or
    another Python has it.

    subject: an artifact, or a model, which is then compiled first. model: the model that the artifact was compiled from. dims: sizes to
    test, in elements: {"batch": [1, 64]}. inputs: a .npz file to use instead of random data. seed, ids ("uniform" or "zipf"): seed and
    distribution of ids of the random data. special_values: test instead the guarantees for NaN, zeros, denormals, infinities and the
    largest numbers in the inputs. per_fusion: compare every kernel alone with its unfused ops; this needs no model. drift_bound: the
    largest allowed distance of an output from that of the model with its original tables, if tables are stored in fewer bits. labels: an
    array or a .npy file with the true class, 0 or 1, of every score of `inputs`; it adds the AUC. The other arguments are those of
    fusec.compile.

    Raises ComparisonFailed, whose `report` is the Verification, if an output differs by more than its tolerance.
    """
    with tempfile.TemporaryDirectory(prefix="fusec_") as temporary:
        flags = {
            "model": model,
            "dim": _program.named(dims, _program.sizes),
            "inputs": inputs,
            "seed": seed,
            "ids": ids,
            "special_values": special_values,
            **_model_flags(
                temporary, freeze, matmul_precision, fp8_budget, index_policy, table_storage, table_placement, table_cache, adapters,
                per_request, request_map, in_place, updatable, disable_fusion, keep_lora, round_every_op, batch_invariant,
            ),
            "device": device,
            "per_fusion": per_fusion,
            "drift_bound": drift_bound,
            "labels": None if labels is None else _file_of(labels, temporary),
            "json": True,
        }  # fmt: skip
        try:
            return Verification(json.loads(_program.run(["verify", os.fspath(subject), *_program.flags(flags)])))
        except _errors.ComparisonFailed as failure:
            report = Verification(json.loads(failure.output))
            worst = _quoted(output.name for output in report.outputs if not output.passed)
            drifted = _quoted(drift.name for drift in report.drift if not drift.passed)
            raise _comparison_failed(
                f"answers differ by more than their tolerance: {worst}" if worst else f"answers drift by more than the bound: {drifted}", report
            ) from None


def _quoted(names: Iterable[str | None]) -> str:
    return ", ".join(dict.fromkeys(f'"{name}"' for name in names))


def _comparison_failed(text: str, report: Rebuild | Verification) -> _errors.ComparisonFailed:
    error = _errors.ComparisonFailed(text)
    error.report = report
    return error


def bisect(artifact: Path, *, model: Path, **flags: Any) -> str:
    """Finds the kernel or the pass that makes an output wrong, and the flag that avoids the error. Returns what `fusec verify --bisect`
    prints. The other arguments are those of verify."""
    given = {"model": model, "dim": _program.named(flags.pop("dims", None), _program.sizes), **flags, "bisect": True}
    try:
        return _program.run(["verify", os.fspath(artifact), *_program.flags(given)])
    except _errors.ComparisonFailed as failure:  # bisect found an error
        return failure.output


def bench(
    artifact: Path,
    *,
    dims: Mapping[str, Size] | None = None,
    inputs: Path | Sequence[Path] | None = None,
    output: Path | None = None,
    seconds: float | None = None,
    rotate: int | None = None,
    contexts: int | None = None,
    pageable: bool = False,
    per_kernel: bool = False,
    trace: Path | None = None,
    threads: int | None = None,
    seed: int | None = None,
    ids: str | None = None,
    device: Any = None,
) -> Bench:
    """Measures the time of a run of an artifact: of whole calls of one context, and on a GPU also the device time alone.

    dims: sizes to measure, in elements: {"batch": [1, 128]}. inputs: .npz files to use instead of random data. output: a folder for the
    outputs. seconds: the duration of each measurement (1 by default). rotate: the number of input sets that runs use in turn. contexts:
    also measure the throughput of this many concurrent contexts. pageable: put inputs into pageable host memory. per_kernel: also measure
    every kernel. trace: a trace file for Perfetto. threads: the number of threads of a run on the CPU. seed, ids: as for verify.
    """
    flags = {
        "dim": _program.named(dims, _program.sizes),
        "inputs": inputs,
        "output": output,
        "seconds": seconds,
        "rotate": rotate,
        "contexts": contexts,
        "pageable": pageable,
        "per_kernel": per_kernel,
        "trace": trace,
        "threads": threads,
        "seed": seed,
        "ids": ids,
        "device": device,
        "json": True,
    }
    return Bench(json.loads(_program.run(["bench", os.fspath(artifact), *_program.flags(flags)])))


def tune(
    artifact: Path,
    *,
    dims: Mapping[str, Size] | None = None,
    time_limit: float | None = None,
    device: Any = None,
    table: bool = True,
) -> str:
    """Measures on this machine the candidate kernels for each part of an artifact, and rebuilds the artifact with the fastest ones.
    Returns the table of the measurements.

    dims: sizes to measure at, in elements. time_limit: in seconds (60 by default); the next call continues where this one stopped. table:
    whether to return the table; without it the result is "".
    """
    flags = {"dim": _program.named(dims, _program.sizes), "time_limit": time_limit, "device": device, "table": table}
    return _program.run(["tune", os.fspath(artifact), *_program.flags(flags)])


def edit(artifact: Path, *kernels: str, from_: Path | None = None, copy: Path | None = None) -> list[str]:
    """Copies the source code of the named kernels, or of all kernels, into a folder for editing, and returns the paths of the copies:
    KERNEL.cu for a GPU, kernels.cc with all kernels for the CPU. Existing copies are not changed.

    from_: a folder of edited files to copy instead. copy: the folder to copy to, by default "OUT.edit" for the artifact OUT.
    """
    flags = {"from": from_, "copy": copy}
    return _program.run(["edit", os.fspath(artifact), *kernels, *_program.flags(flags)]).splitlines()


def rebuild(
    artifact: Path,
    *,
    edits: Path | None = None,
    keep_wrong: bool = False,
    restore: bool = False,
    dims: Mapping[str, Size] | None = None,
    seed: int | None = None,
    ids: str | None = None,
    device: Any = None,
) -> Rebuild:
    """Compiles the edited kernels, compares each alone with its unfused ops in double precision, measures its time and that of the
    original, and puts it into the artifact. A model must be loaded again to run the edited kernels.

    edits: the folder of edited files, by default "OUT.edit" for the artifact OUT. keep_wrong: accept kernels whose check fails, too.
    restore: put the original kernels back. dims: sizes to check and measure at, in elements. seed, ids ("uniform" or "zipf"): seed and
    distribution of ids of the random data. device: check only on this device.

    Raises ComparisonFailed, whose `report` is the Rebuild, if an output differs by more than its tolerance; the artifact is not changed
    then unless keep_wrong is given. Raises BadInput if an edited kernel does not compile; the messages of the compiler about the edited
    lines appear on sys.stderr.
    """
    flags = {
        "edits": edits,
        "keep_wrong": keep_wrong,
        "restore": restore,
        "dim": _program.named(dims, _program.sizes),
        "seed": seed,
        "ids": ids,
        "device": device,
        "json": True,
    }
    try:
        return Rebuild(json.loads(_program.run(["rebuild", os.fspath(artifact), *_program.flags(flags)])))
    except _errors.ComparisonFailed as failure:
        report = Rebuild(json.loads(failure.output))
        wrong = [output.kernel for check in report.checks for output in check.outputs if not output.passed]
        raise _comparison_failed(
            "the check of an edited kernel crashed" if not wrong else f"edited kernels differ from their unfused ops: {_quoted(wrong)}", report
        ) from None


def explain(
    artifact: Path, *, target: str | None = None, dims: Mapping[str, Size] | None = None, ptx: bool = False
) -> Explanation:
    """Returns the launches of an artifact, the ops that were fused into each kernel, and what was not fused and why.

    target: "cpu", "sm_90a", ...; by default a GPU target. dims: the sizes, in elements, for which bytes and flops are computed (128 by
    default). ptx: add registers, spills, occupancy and instruction counts of every GPU kernel.
    """
    path = os.fspath(artifact)
    flags = {"target": target, "dim": _program.named(dims, _program.sizes)}
    text = _program.run(["explain", path, *_program.flags({**flags, "ptx": ptx, "json": True})])
    told = json.loads(text)
    if "kernels" not in told:
        raise _errors.BadUsage(f"{path} is sharded: explain takes one of its parts, and fusec.ShardedArtifact(path).plan has the plan")
    return Explanation(told, path, flags)


def report(
    artifact: Path,
    output: Path | None = None,
    *,
    target: str | None = None,
    dims: Mapping[str, int] | None = None,
    bench: Bench | Path | None = None,
) -> Page:
    """Writes one HTML file that shows in a browser how a model was compiled: its ONNX nodes inside the kernels, the tensors that still
    cross memory and why, the IR and the CUDA code, and all measurements. A notebook displays the page inline.

    output: the file; by default "NAME.html" in the working directory, with the name of the artifact's folder. target: "cpu", "sm_90a",
    ...; by default the target of `bench`, or else a GPU target. dims: the sizes, in elements, for which bytes and flops are computed.
    bench: a result of fusec.bench with per_kernel, or a file of `fusec bench --json` or `--trace`; the page then shows the measured times
    beside their lower bounds.
    """
    path = os.fspath(artifact)
    page = pathlib.Path(path).name + ".html" if output is None else os.fspath(output)
    with tempfile.TemporaryDirectory(prefix="fusec_") as temporary:
        times = bench
        if isinstance(bench, Bench):
            times = pathlib.Path(temporary, "bench.json")
            times.write_text(json.dumps(bench.json))
        flags = {"output": page, "target": target, "dim": _program.named(dims, _program.sizes), "bench": times}
        _program.run(["report", path, *_program.flags(flags)])
    return Page(page)
