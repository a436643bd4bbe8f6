"""Support for PyTorch: exporting modules to ONNX, and fusec as a backend of torch.compile. It is imported only if torch is imported."""

from __future__ import annotations

import contextlib
import hashlib
import inspect
import io
import logging
import os
import pathlib
import shutil
import tempfile
import threading
import warnings
from typing import Any, Callable, Mapping, Sequence

import torch
import torch.overrides

import fusec
from fusec import _errors, _program

_log = logging.getLogger("fusec")


class Unsupported(Exception):
    """The reason why fusec cannot run a graph of torch.compile, so that PyTorch runs it."""


# ---- modules ----


def is_model(model: Any) -> bool:
    return isinstance(model, (torch.nn.Module, torch.export.ExportedProgram))


def export(module: Any, args: Any, path: str, dynamic_shapes: Any = None) -> None:
    """Writes a module as an ONNX model, with PyTorch's exporter and in evaluation mode.

    args: the example arguments of the module, a tensor or a tuple. dynamic_shapes: in the form of torch.onnx.export. Without it, the first
    axis is called "batch" and has any size, in every tensor of args whose first axis is as long as that of the first tensor.
    """
    name = type(module).__name__
    if isinstance(module, torch.export.ExportedProgram):
        with _exporting(name):
            _write(module, (), path)
        return
    if args is None:
        raise _errors.BadUsage(f"{name} is exported with inputs: fusec.compile(module, args=(x, ...))")
    args = (args,) if isinstance(args, torch.Tensor) else tuple(args)
    if dynamic_shapes is None:
        args, dynamic_shapes = _batched(args)
    training = [part for part in module.modules() if part.training]
    module.eval()
    fastpath = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)  # so that attention is exported as separate ops, which exist in ONNX
    try:
        with _exporting(name):
            _write(module, args, path, dynamic_shapes=dynamic_shapes, input_names=_parameter_names(module, args))
    finally:
        torch.backends.mha.set_fastpath_enabled(fastpath)
        for part in training:
            part.training = True


class _AttentionAsPyTorch(torch.overrides.TorchFunctionMode):
    """While a module is exported, decomposes masked attention into ops that agree with PyTorch: a row whose mask excludes all keys gives
    zeros. The exporter's own decomposition would give NaN or the mean of all values for such a row."""

    def __torch_function__(self, function: Any, types: Any, args: tuple = (), kwargs: Any = None) -> Any:
        if function is torch.nn.functional.scaled_dot_product_attention:
            result = _masked_attention(*args, **(kwargs or {}))
            if result is not None:
                return result
        return function(*args, **(kwargs or {}))


def _masked_attention(
    query: Any, key: Any, value: Any, attn_mask: Any = None, dropout_p: float = 0.0, is_causal: bool = False, *, scale: Any = None,
    enable_gqa: bool = False,
) -> Any:
    """torch.nn.functional.scaled_dot_product_attention if it has a mask, otherwise None. NaN weights (all keys excluded) become zeros."""
    if attn_mask is None or is_causal or dropout_p > 0:  # PyTorch refuses a mask beside is_causal
        return None
    if enable_gqa:
        key, value = (part.repeat_interleave(query.shape[-3] // part.shape[-3], -3) for part in (key, value))
    if attn_mask.dtype is torch.bool:
        attn_mask = torch.zeros_like(attn_mask, dtype=query.dtype).masked_fill(~attn_mask, -torch.inf)
    scores = query @ key.transpose(-2, -1) * (query.shape[-1] ** -0.5 if scale is None else scale)
    weights = torch.softmax(scores + attn_mask, -1)
    return torch.where(torch.isnan(weights), 0.0, weights) @ value


def _write(module: Any, args: tuple, path: str, **flags: Any) -> None:
    import onnxscript.optimizer  # also a dependency of the exporter

    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)  # the exporter's warnings concern its own internals
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            # Only the constant folding of the exporter's optimizer is used, which computes sizes. Its other rules treat numbers close to 0
            # as 0, so that log(x + 1e-15) would become log(x).
            program = torch.onnx.export(module, args, dynamo=True, verbose=False, optimize=False, **flags)
            onnxscript.optimizer.fold_constants(program.model)
            program.save(path, external_data=True)
    finally:
        logger.setLevel(level)


@contextlib.contextmanager
def _exporting(name: str):
    """The context of every export: no gradients, masked attention as in PyTorch, and failures raised as BadModel."""
    try:
        with torch.no_grad(), _AttentionAsPyTorch():
            yield
    except Unsupported:
        raise
    except Exception as failure:
        raise _errors.BadModel(f"{name} cannot be exported to ONNX: {_reason(failure)}") from failure


def _reason(failure: BaseException) -> str:
    """The innermost cause of an exception, in one line."""
    while failure.__cause__ is not None:
        failure = failure.__cause__
    lines = [line.strip() for line in str(failure).splitlines() if line.strip()]
    return f"{type(failure).__name__}: {lines[0]}" if lines else type(failure).__name__


def _batched(args: tuple) -> tuple[tuple, tuple]:
    """Returns the arguments, and dynamic shapes that call their first axes "batch". Arguments with one row get a second one, because the
    exporter would take a batch of 1 for a constant."""
    rows = next((arg.shape[0] for arg in args if isinstance(arg, torch.Tensor) and arg.dim() > 0), None)
    shapes, longer = [], []
    for arg in args:
        is_batched = isinstance(arg, torch.Tensor) and arg.dim() > 0 and arg.shape[0] == rows
        shapes.append({0: "batch"} if is_batched else None)
        longer.append(torch.cat([arg, arg]) if is_batched and rows == 1 else arg)
    return tuple(longer), tuple(shapes)


def _parameter_names(module: torch.nn.Module, args: tuple) -> list[str] | None:
    """The parameter names of `forward`, if every argument is a single tensor; otherwise None."""
    parameters = list(inspect.signature(module.forward).parameters.values())
    has_names = all(parameter.kind is parameter.POSITIONAL_OR_KEYWORD for parameter in parameters[: len(args)])
    if len(parameters) < len(args) or not has_names or not all(isinstance(arg, torch.Tensor) for arg in args):
        return None
    return [parameter.name for parameter in parameters[: len(args)]]


# ---- torch.compile ----


def backend(
    graph_module: torch.fx.GraphModule, example_inputs: Sequence[Any], *, options: Mapping[str, Any] | None = None
) -> Callable[..., Any]:
    """The backend of torch.compile(model, backend="fusec"): runs inference graphs as fused kernels.

    A graph is exported to ONNX and compiled when it first runs; artifacts are cached by content. Graphs that fusec does not support or
    that need gradients are run by PyTorch, and one FallbackWarning says why. The compiler's messages go to the logger "fusec". options:
    arguments of fusec.compile, such as options={"matmul_precision": "high"}.
    """
    return _Graph(graph_module, dict(options or {}))


class _Graph:
    """One graph of torch.compile, with the plan that runs it."""

    def __init__(self, graph_module: torch.fx.GraphModule, options: dict[str, Any]):
        self._eager = graph_module
        self._options = options
        self._placeholders = [node for node in graph_module.graph.nodes if node.op == "placeholder"]
        self._lock = threading.Lock()
        self._plan: _Plan | None = None
        self._is_unsupported = False

    def __call__(self, *args: Any) -> Any:
        if self._is_unsupported:
            return self._eager(*args)
        if torch.is_grad_enabled() and any(isinstance(arg, torch.Tensor) and arg.requires_grad for arg in args):
            _warn_once("gradients are enabled, and it runs inference only; call the model under torch.no_grad()")
            return self._eager(*args)
        plan = self._plan
        if plan is None or not plan.fits(args):
            try:
                with self._lock:
                    plan = self._plan = _Plan(self._eager, self._placeholders, args, self._options)
            except (Unsupported, _errors.BadModel, _errors.NoDevice, _errors.BadUsage) as failure:
                self._is_unsupported = True
                _warn_once(str(failure))
                return self._eager(*args)
        if unserved := plan.unserved(args):
            _warn_once(unserved)
            return self._eager(*args)
        return plan.run(args)


class _Plan:
    """The artifact of a graph, compiled for certain values of its parameters and of its Python numbers."""

    def __init__(self, graph_module: torch.fx.GraphModule, placeholders: list, args: tuple, options: dict[str, Any]):
        numbers = {i: args[i].item() for i, node in enumerate(placeholders) if _is_number(node)}
        constant = {i for i, arg in enumerate(args) if _is_constant(arg)} - set(numbers)
        self._frozen = [(i, _state(args[i])) for i in constant]
        self._numbers = list(numbers.items())
        self._inputs = [i for i, arg in enumerate(args) if isinstance(arg, torch.Tensor) and i not in constant and i not in numbers]
        devices = {args[i].device for i in self._inputs} | {args[i].device for i in constant}
        if len(devices) != 1:
            raise Unsupported(f"its tensors are on {len(devices)} devices")
        self._device = device = devices.pop()
        if device.type not in ("cpu", "cuda"):
            raise Unsupported(f"its tensors are on {device}")
        module, self._results = _with_constants(graph_module, placeholders, args, self._inputs, constant, numbers)
        if not any(kind == "output" for kind, _ in self._results):
            raise Unsupported("it computes no tensor")
        axes = {i: _dynamic_axes(placeholders[i]) for i in self._inputs}
        names = {f"input_{i}": i for i in self._inputs}
        write = _exported(module, tuple(args[i] for i in self._inputs), list(names), tuple(axes.values()))
        self._model = _load_cached(write, device, options)
        self._order = [names[tensor.name] for tensor in self._model.inputs]  # the model may lack unused inputs
        # Axes that torch.compile treats as dynamic, with the size or the dim that the model has there.
        self._free_axes = [
            (i, axis, tensor.shape[axis])
            for i, tensor in zip(self._order, self._model.inputs)
            for axis in axes[i] or {}
            if isinstance(tensor.shape[axis], int) or tensor.shape[axis] in self._model.dims
        ]

    def fits(self, args: tuple) -> bool:
        has_numbers = all(args[i].item() == number for i, number in self._numbers)
        return has_numbers and all(_state(args[i]) == state for i, state in self._frozen)

    def unserved(self, args: tuple) -> str:
        """Says which size the model does not support although torch.compile allows it; "" if all are supported."""
        sizes: dict[str, int] = {}
        for i, axis, dim in self._free_axes:
            size = args[i].shape[axis]
            least, most = (dim, dim) if isinstance(dim, int) else self._model.dims[dim]
            if not least <= size <= most:
                limits = str(least) if least == most else f"{least} to {most}"
                return f"axis {axis} of a tensor has a length that the compiled graph does not serve, which has {limits}"
            if isinstance(dim, str) and sizes.setdefault(dim, size) != size:
                return f"axis {axis} of a tensor differs from another one, where the compiled graph has one size for both"
        return ""

    def run(self, args: tuple) -> tuple:
        results = self._model(*[args[i] for i in self._order])
        if not isinstance(results, tuple):
            results = (results,)
        if not self._order:  # without inputs, the results are not of PyTorch
            results = tuple(torch.from_dlpack(result).to(self._device) for result in results)
        return tuple(results[at] if kind == "output" else args[at] if kind == "input" else at for kind, at in self._results)


def _is_constant(arg: Any) -> bool:
    """Whether an argument is a parameter or a buffer, which torch.compile passes as inputs."""
    is_static = getattr(arg, "_dynamo_static_input_type", None) is not None
    return isinstance(arg, torch.nn.Parameter) or (isinstance(arg, torch.Tensor) and is_static)


def _is_number(placeholder: torch.fx.Node) -> bool:
    """Whether a placeholder is a Python number that torch.compile passes as a tensor: the graph only calls its item()."""
    value = placeholder.meta.get("example_value")
    if not isinstance(value, torch.Tensor) or value.dim() > 0 or not placeholder.users:
        return False
    return all(user.op == "call_method" and user.target == "item" for user in placeholder.users)


def _state(tensor: torch.Tensor) -> tuple:
    """A key that changes when the values of the tensor change, except by writes through tensor.data."""
    version = None if tensor.is_inference() else tensor._version
    return (tensor.data_ptr(), version)


def _dynamic_axes(placeholder: torch.fx.Node) -> dict[int, Any] | None:
    sizes = placeholder.meta["example_value"].shape
    axes = {axis: torch.export.Dim.AUTO for axis, size in enumerate(sizes) if isinstance(size, torch.SymInt)}
    return axes or None


def _with_constants(
    graph_module: torch.fx.GraphModule, placeholders: list, args: tuple, inputs: list[int], constant: set[int], numbers: dict[int, Any]
) -> tuple[torch.fx.GraphModule, list]:
    """Rewrites the graph: parameters and numbers become constants, sizes are read off tensors, and only tensors are results. Also returns,
    for each original result, ("output", index), ("input", index) or ("value", value)."""
    graph = torch.fx.Graph()
    copies: dict[torch.fx.Node, Any] = {}
    for i in inputs:
        copies[placeholders[i]] = graph.placeholder(f"input_{i}")
    for i in constant:
        copies[placeholders[i]] = graph.get_attr(f"constant_{i}")
    for i, number in numbers.items():
        copies.update((user, number) for user in placeholders[i].users)
    for i, node in enumerate(placeholders):
        if node not in copies and i not in numbers:
            copies[node] = _size_of(node, [placeholders[i] for i in inputs], copies, graph, args[i])
    results: list[tuple[str, Any]] = []
    for node in graph_module.graph.nodes:
        if node in copies or node.op == "placeholder":
            continue
        if node.op == "output":
            kept: list[torch.fx.Node] = []
            for value in node.args[0]:
                if isinstance(value, torch.fx.Node) and value.op == "placeholder":
                    results.append(("input", placeholders.index(value)))
                elif isinstance(value, torch.fx.Node):
                    if not isinstance(value.meta.get("example_value"), torch.Tensor):
                        raise Unsupported("one of its results is a number that depends on sizes")
                    results.append(("output", len(kept)))
                    kept.append(copies[value])
                else:
                    results.append(("value", value))
            graph.output(tuple(kept))
            continue
        copies[node] = graph.node_copy(node, lambda used: copies[used])
    root = torch.nn.Module()
    for name, child in graph_module.named_children():
        root.add_module(name, child)
    own = {**dict(graph_module.named_buffers(recurse=False)), **dict(graph_module.named_parameters(recurse=False))}
    for name, value in {**own, **{f"constant_{i}": args[i] for i in constant}}.items():
        root.register_buffer(name, value.detach(), persistent=False)
    return torch.fx.GraphModule(root, graph), results


def _size_of(node: torch.fx.Node, tensors: list, copies: dict, graph: torch.fx.Graph, value: Any) -> Any:
    """The size that a placeholder stands for, read off a tensor that has it as the length of an axis."""
    symbol = node.meta.get("example_value")
    for tensor in tensors:
        for axis, size in enumerate(tensor.meta["example_value"].shape):
            if isinstance(symbol, torch.SymInt) and isinstance(size, torch.SymInt) and str(size.node.expr) == str(symbol.node.expr):
                return graph.call_function(torch.ops.aten.sym_size.int, (copies[tensor], axis))
    if node.users and isinstance(symbol, torch.SymInt):
        raise Unsupported("it depends on a number that is no size of a tensor")
    return value


def _exported(module: torch.fx.GraphModule, args: tuple, names: list[str], dynamic_shapes: tuple) -> Callable[[str], None]:
    def write(path: str) -> None:
        with _exporting("the graph"):
            program = torch.export.export(module, args, dynamic_shapes=dynamic_shapes or None, strict=False)
            if _changes_inputs(program):
                raise Unsupported("it changes its inputs or buffers in place")
            _write(program, (), path, input_names=names)

    return write


def _changes_inputs(program: torch.export.ExportedProgram) -> bool:
    """Whether the graph changes its inputs or buffers in place; changing values that it computed itself is allowed."""
    if not any(getattr(getattr(node.target, "_schema", None), "is_mutable", False) for node in program.graph.nodes):
        return False
    signature = program.run_decompositions({}).graph_signature
    return bool(signature.user_inputs_to_mutate or signature.buffers_to_mutate)


def _load_cached(write: Callable[[str], None], device: torch.device, options: dict[str, Any]) -> fusec.Model:
    """The loaded model of the ONNX file that `write` writes; taken from the cache if it was compiled before."""
    flags = {"target": "cpu" if device.type == "cpu" else "native", **options}
    with tempfile.TemporaryDirectory(prefix="fusec_") as folder:
        path = os.path.join(folder, "graph.onnx")
        write(path)
        content = hashlib.sha256(repr((fusec.__version__, sorted(flags.items()))).encode())
        for file in sorted(pathlib.Path(folder).iterdir()):
            content.update(file.read_bytes())
        cached = _cache_folder() / content.hexdigest()[:32]
        if cached.exists():
            try:
                return fusec.load(cached, device)
            except _errors.BadArtifact:  # damaged, or of another version
                shutil.rmtree(cached)
        cached.parent.mkdir(parents=True, exist_ok=True)
        # The user does not know the temporary ONNX file, so messages about it go to the logger.
        said = io.StringIO()
        try:
            with _program.saying_to(said):
                fusec.compile(path, cached, **flags)
        finally:
            for line in said.getvalue().splitlines():
                _log.info(line)
    return fusec.load(cached, device)


def _cache_folder() -> pathlib.Path:
    """The folder of cached artifacts, inside that of the kernel cache."""
    if chosen := os.environ.get("FUSEC_CACHE_DIR"):
        return pathlib.Path(chosen) / "torch"
    base = os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache"
    return pathlib.Path(base) / "fusec" / "torch"


_warned: set[str] = set()


def _warn_once(why: str) -> None:
    if any(op in why for op in ("_transformer_encoder_layer_fwd", "_native_multi_head_attention")):
        why += "; torch.backends.mha.set_fastpath_enabled(False) before torch.compile keeps attention as ops that fusec has"
    if why not in _warned:
        _warned.add(why)
        warnings.warn(f"PyTorch runs what fusec does not: {why}", _errors.FallbackWarning, stacklevel=4)
