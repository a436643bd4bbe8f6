#!/usr/bin/env python3
"""Writes circular_cache.onnx in this folder: a layer of attention that adds its keys and values to a circular cache."""
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

FOLDER = Path(__file__).resolve().parent
HEADS, GROUPS, SIZE, WIDTH = 6, 2, 16, 32


def main():
    random = np.random.default_rng(0)
    weights = [numpy_helper.from_array(np.int64(shape), name) for name, shape in (("q_shape", [0, 0, HEADS, SIZE]), ("kv_shape", [0, 0, GROUPS, SIZE]), ("flat", [0, 0, HEADS * SIZE]))]
    nodes = []
    for name, heads in (("q", HEADS), ("k", GROUPS), ("v", GROUPS)):
        weights.append(numpy_helper.from_array(random.normal(0, WIDTH**-0.5, (WIDTH, heads * SIZE)).astype(np.float32), f"{name}.weight"))
        nodes += [
            helper.make_node("MatMul", ["x", f"{name}.weight"], [f"{name}_rows"], f"/{name}"),
            helper.make_node("Reshape", [f"{name}_rows", "q_shape" if name == "q" else "kv_shape"], [f"{name}_apart"], f"/{name}/heads"),
            helper.make_node("Transpose", [f"{name}_apart"], [name], f"/{name}/transpose", perm=[0, 2, 1, 3]),
        ]
    nodes += [
        helper.make_node("TensorScatter", ["past_key", "k", "seen"], ["present_key"], "/key_cache", axis=2, mode="circular"),
        helper.make_node("TensorScatter", ["past_value", "v", "seen"], ["present_value"], "/value_cache", axis=2, mode="circular"),
        helper.make_node("Shape", ["x"], ["new"], "/new", start=1, end=2),
        helper.make_node("Add", ["seen", "new"], ["used"], "/used"),
        helper.make_node("Attention", ["q", "present_key", "present_value", "", "", "", "used"], ["attended"], "/attention"),
        helper.make_node("Transpose", ["attended"], ["by_position"], "/transpose", perm=[0, 2, 1, 3]),
        helper.make_node("Reshape", ["by_position", "flat"], ["y"], "/heads"),
    ]
    tensor = helper.make_tensor_value_info
    cache = ["batch", GROUPS, "capacity", SIZE]
    inputs = [tensor("x", TensorProto.FLOAT, ["batch", "new", WIDTH]), tensor("seen", TensorProto.INT64, ["batch"]),
              tensor("past_key", TensorProto.FLOAT, cache), tensor("past_value", TensorProto.FLOAT, cache)]  # fmt: skip
    outputs = [tensor("y", TensorProto.FLOAT, ["batch", "new", HEADS * SIZE]), tensor("present_key", TensorProto.FLOAT, cache),
               tensor("present_value", TensorProto.FLOAT, cache)]  # fmt: skip
    graph = helper.make_graph(nodes, "circular_cache", inputs, outputs, weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 24)], ir_version=12), FOLDER / "circular_cache.onnx")


main()
