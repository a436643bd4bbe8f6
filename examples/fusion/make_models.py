#!/usr/bin/env python3
"""Writes the model.onnx of every example: .deps/venv/bin/python examples/fusion/make_models.py [FOLDER]

FOLDER is by default the folder of this script.
"""

import pathlib
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

OPSET = 20  # the first with Gelu
MAKERS = {}  # name of a folder -> the function that returns its nodes, inputs, outputs and constants


def example(maker):
    MAKERS[maker.__name__.lstrip("_")] = maker
    return maker


def floats(name, *shape):
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, list(shape))


def ids(name, *shape):
    return helper.make_tensor_value_info(name, TensorProto.INT64, list(shape))


def constants(**arrays):
    return [numpy_helper.from_array(np.asarray(value), name) for name, value in arrays.items()]


def weights(seed, *shape):
    """Small random numbers, the same on every machine, scaled by 1 / sqrt(number of inputs of the layer)."""
    return (np.random.RandomState(seed).standard_normal(shape) / np.sqrt(shape[0])).astype(np.float32)


def node(op, inputs, output, **attributes):
    return helper.make_node(op, inputs.split(), [output], name=output, **attributes)


@example
def _01_square():
    return [node("Pow", "x two", "y")], [floats("x", "batch", 64)], [floats("y", "batch", 64)], constants(two=np.float32(2))


@example
def _02_bias_relu():
    nodes = [node("Add", "x bias", "sum"), node("Relu", "sum", "y")]
    return nodes, [floats("x", "batch", 64)], [floats("y", "batch", 64)], constants(bias=weights(2, 64))


@example
def _03_add_mul_sigmoid():
    nodes = [node("Mul", "adapter scale", "scaled"), node("Add", "base scaled", "sum"), node("Sigmoid", "sum", "y")]
    inputs = [floats("base", "batch", 64), floats("adapter", "batch", 64)]
    return nodes, inputs, [floats("y", "batch", 64)], constants(scale=np.float32(0.5))


@example
def _04_embedding_concat():
    tables = constants(**{f"table{i}": weights(40 + i, rows, 8) for i, rows in enumerate((10, 20, 30, 40))})
    nodes = [node("Gather", f"table{i} ids{i}", f"row{i}", axis=0) for i in range(4)]
    nodes.append(node("Concat", "row0 row1 row2 row3", "rows", axis=1))
    return nodes, [ids(f"ids{i}", "batch") for i in range(4)], [floats("rows", "batch", 32)], tables


@example
def _05_modulus_hash():
    nodes = [node("Mod", "ids rows", "hashed"), node("Gather", "table hashed", "y", axis=0)]
    return nodes, [ids("ids", "batch")], [floats("y", "batch", 8)], constants(rows=np.int64(100), table=weights(5, 100, 8))


@example
def _06_index_hash():
    known = np.random.RandomState(6).choice(100000, size=32, replace=False).astype(np.int64)
    nodes = [
        node("Unsqueeze", "ids last", "column"),
        node("Equal", "column known", "same"),
        node("Cast", "same", "hits", to=TensorProto.INT32),
        node("ArgMax", "hits", "row", axis=1, keepdims=0),
        node("Gather", "table row", "y", axis=0),
    ]
    numbers = constants(last=np.array([1], np.int64), known=known, table=weights(6, 32, 8))
    return nodes, [ids("ids", "batch")], [floats("y", "batch", 8)], numbers


@example
def _07_sigmoid_squeeze():
    nodes = [node("Sigmoid", "score", "probability"), node("Squeeze", "probability last", "y")]
    return nodes, [floats("score", "batch", 1)], [floats("y", "batch")], constants(last=np.array([1], np.int64))


@example
def _08_interaction():
    tables = constants(**{f"table{i}": weights(80 + i, 20, 16) for i in range(4)})
    nodes = [node("Gather", f"table{i} ids{i}", f"row{i}", axis=0) for i in range(4)]
    nodes += [
        node("Concat", "dense row0 row1 row2 row3", "wide", axis=1),
        node("Reshape", "wide vectors", "stack"),
        node("Transpose", "stack", "turned", perm=[0, 2, 1]),
        node("MatMul", "stack turned", "dots"),
        node("Reshape", "dots flat", "row_of_dots"),
        node("Gather", "row_of_dots triangle", "pairs", axis=1),
        node("Concat", "dense pairs", "y", axis=1),
    ]
    rows, columns = np.tril_indices(5, -1)
    numbers = tables + constants(
        vectors=np.array([-1, 5, 16], np.int64), flat=np.array([-1, 25], np.int64), triangle=rows * 5 + columns
    )
    inputs = [floats("dense", "batch", 16)] + [ids(f"ids{i}", "batch") for i in range(4)]
    return nodes, inputs, [floats("y", "batch", 26)], numbers


@example
def _09_lola():
    nodes = [
        node("LayerNormalization", "x gain shift", "normal", axis=-1, epsilon=1e-5),
        node("Gemm", "normal weight bias", "linear"),
        node("Gelu", "linear", "y"),
    ]
    numbers = constants(gain=1 + weights(91, 32), shift=weights(92, 32), weight=weights(93, 32, 64), bias=weights(94, 64))
    return nodes, [floats("x", "batch", 32)], [floats("y", "batch", 64)], numbers


@example
def _10_mlp():
    sizes = (16, 16, 16, 1)
    nodes, numbers, value = [], [], "x"
    for i, (wide, out) in enumerate(zip(sizes, sizes[1:])):
        numbers += constants(**{f"weight{i}": weights(100 + i, wide, out), f"bias{i}": weights(110 + i, out)})
        nodes.append(node("Gemm", f"{value} weight{i} bias{i}", f"linear{i}"))
        value = "y" if i == 2 else f"active{i}"
        nodes.append(node("Sigmoid" if i == 2 else "Relu", f"linear{i}", value))
    return nodes, [floats("x", "batch", 16)], [floats("y", "batch", 1)], numbers


@example
def _11_softmax():
    return [node("Softmax", "x", "y", axis=-1)], [floats("x", "batch", 64)], [floats("y", "batch", 64)], []


@example
def _12_attention():
    nodes = [
        node("Transpose", "key", "turned", perm=[0, 1, 3, 2]),
        node("MatMul", "query turned", "dots"),
        node("Mul", "dots scale", "scores"),
        node("Softmax", "scores", "shares", axis=-1),
        node("MatMul", "shares value", "y"),
    ]
    shape = ("batch", 2, 16, 8)  # heads, tokens, numbers of a head
    inputs = [floats(name, *shape) for name in ("query", "key", "value")]
    return nodes, inputs, [floats("y", *shape)], constants(scale=np.float32(8**-0.5))


def main():
    folder = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else pathlib.Path(__file__).resolve().parent
    for name, maker in MAKERS.items():
        nodes, inputs, outputs, numbers = maker()
        graph = helper.make_graph(nodes, name, inputs, outputs, numbers)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=9)
        onnx.checker.check_model(model, full_check=True)
        (folder / name).mkdir(exist_ok=True)
        (folder / name / "model.onnx").write_bytes(model.SerializeToString(deterministic=True))


if __name__ == "__main__":
    main()
