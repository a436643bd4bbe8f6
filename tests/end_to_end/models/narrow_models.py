#!/usr/bin/env python3
"""Writes narrow_layers.onnx in this folder: layers whose activations are rounded to 8-bit and 4-bit types, as quantizers for GPUs write them."""
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

FOLDER = Path(__file__).resolve().parent
WIDTH = 64


def main():
    random = np.random.default_rng(0)
    weights = []

    def numbers(name, data, dtype=TensorProto.FLOAT):
        data = np.asarray(data, np.float32)
        weights.append(helper.make_tensor(name, dtype, data.shape, data.reshape(-1)))

    nodes = []

    def node(op, inputs, output, **attributes):
        nodes.append(helper.make_node(op, inputs, [output], f"/{output}", **attributes))
        return output

    def dequantized(codes, scale):
        return node("DequantizeLinear", [codes, scale], f"{codes}_real")

    # Activations and weights in E4M3, with a scale for the whole tensor.
    numbers("zero8", 0, TensorProto.FLOAT8E4M3FN)
    numbers("x_scale", 0.02)
    numbers("w1", random.uniform(-448, 448, (WIDTH, WIDTH)), TensorProto.FLOAT8E4M3FN)
    numbers("w1_scale", 0.0005)
    codes = node("QuantizeLinear", ["x", "x_scale", "zero8"], "first")
    hidden = node("MatMul", [dequantized(codes, "x_scale"), dequantized("w1", "w1_scale")], "hidden")
    # A cast to E5M2 and back, between which the codes move.
    weights.append(numpy_helper.from_array(np.array([-1, 2, WIDTH // 2]), "pairs"))
    codes = node("Reshape", [node("Cast", [hidden], "e5m2", to=TensorProto.FLOAT8E5M2), "pairs"], "codes")
    halves = node("Cast", [node("Transpose", [codes], "swapped", perm=[1, 0, 2])], "halves", to=TensorProto.FLOAT)
    # Activations in 4 bits: both halves in signed ones, their sum in unsigned ones.
    numbers("scale4", 0.5)
    numbers("zero4", 0, TensorProto.INT4)
    both = dequantized(node("QuantizeLinear", [halves, "scale4", "zero4"], "signed"), "scale4")
    total = node("ReduceSum", [both, node("Constant", [], "axes", value_ints=[0])], "total", keepdims=0)
    unsigned = node("QuantizeLinear", [total, "scale4"], "unsigned", output_dtype=TensorProto.UINT4)
    numbers("w2", random.standard_normal((WIDTH // 2, 40)) / 4)
    node("MatMul", [dequantized(unsigned, "scale4"), "w2"], "y")
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", WIDTH])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 40])
    graph = helper.make_graph(nodes, "narrow_layers", [x], [y], weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), FOLDER / "narrow_layers.onnx")


main()
