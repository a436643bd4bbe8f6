"""Support for Keras 3: exporting models to ONNX. It is imported only if keras is imported."""

from __future__ import annotations

import contextlib
import logging
import warnings
from typing import Any

import keras

from fusec import _errors


def is_model(model: Any) -> bool:
    return isinstance(model, keras.Model)


def export(model: Any, path: str) -> None:
    """Writes a model as an ONNX model, with Keras's exporter, which needs onnx and, with the backend of TensorFlow, tf2onnx.

    The exporter gives every axis of unknown size a new name. Here the first axis of each input is called "batch", and axis 1 of the input
    history, for example, history_1; outputs have the names of Keras. Raises BadModel if the exporter fails, or if it makes inputs of
    constants, as it does with the mean of a layer Normalization.
    """
    name = f'the Keras model "{model.name}"'
    if not keras.__version__.startswith("3."):
        raise _errors.BadUsage(f"{name} is a model of Keras {keras.__version__}, expected Keras 3; tf2onnx.convert.from_keras exports it")
    try:
        import onnx

        with _quiet("tf2onnx"):
            if getattr(model, "inputs", None):  # the exporter takes only models that were called once
                taken = model.inputs[0] if isinstance(model, keras.Sequential) else model.input
                model(keras.tree.map_structure(_zeros, taken))
            model.export(path, format="onnx", verbose=False)
    except Exception as failure:
        lines = [line.strip() for line in str(failure).splitlines() if line.strip()]
        why = f"{type(failure).__name__}: {lines[0]}" if lines else type(failure).__name__
        raise _errors.BadModel(f"{name} cannot be exported to ONNX: {why}") from failure
    exported = onnx.load(path, load_external_data=False)
    graph = exported.graph
    known = {tensor.name.partition(":")[0] for tensor in model.inputs} if getattr(model, "inputs", None) else None
    made = [one.name for one in graph.input if known is not None and one.name not in known]
    if made:
        raise _errors.BadModel(f'{name} cannot be exported to ONNX: Keras\'s exporter makes an input of a constant, "{made[0]}"')
    for one in graph.input:
        for axis, dim in enumerate(one.type.tensor_type.shape.dim):
            if not dim.HasField("dim_value"):
                dim.dim_param = "batch" if axis == 0 else f"{one.name}_{axis}"
    del graph.value_info[:]
    _name_outputs(graph, getattr(model, "output_names", None) or [], onnx)
    onnx.save(exported, path)


def _zeros(tensor: Any) -> Any:
    return keras.ops.zeros([size or 1 for size in tensor.shape], tensor.dtype)


def _name_outputs(graph: Any, names: list[str], onnx: Any) -> None:
    """Gives outputs the names of Keras, unless these are not unique."""
    taken = {name for node in graph.node for name in node.output} | {one.name for one in graph.input}
    rename = len(names) == len(graph.output) and len(set(names)) == len(names) and not taken & set(names)
    for i, output in enumerate(graph.output):
        for dim in output.type.tensor_type.shape.dim:
            if not dim.HasField("dim_value"):
                dim.ClearField("dim_param")
        if rename:
            graph.node.append(onnx.helper.make_node("Identity", [output.name], [names[i]]))
            output.name = names[i]


@contextlib.contextmanager
def _quiet(logger: str):
    """The exporter's messages concern its own internals, or ops that it leaves to fusec."""
    target = logging.getLogger(logger)
    level = target.level
    target.setLevel(logging.CRITICAL)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        target.setLevel(level)
