#!/usr/bin/env python3
"""Writes quantized_layers.onnx in this folder: three layers of 8 bits, in the forms in which onnxruntime's quantizers write them."""
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

FOLDER = Path(__file__).resolve().parent
DEPTH, HIDDEN = 48, 40


def main():
    random = np.random.default_rng(0)
    weights = []

    def constant(name, data):
        weights.append(numpy_helper.from_array(np.asarray(data), name))

    def integers(name, dtype, *dims):
        bounds = np.iinfo(dtype)
        constant(name, random.integers(bounds.min, bounds.max + 1, dims, dtype=dtype))

    # A product of integers, and weights with a scale and a zero point.
    integers("w1", np.uint8, DEPTH, HIDDEN)
    constant("z1", np.uint8(127))
    constant("s1", np.float32(0.0001))
    constant("x_scale", np.float32(0.025))
    constant("x_zero", np.int8(-3))
    # Quantized and dequantized, with a scale per column and a bias (quantize_static).
    integers("w2", np.int8, HIDDEN, DEPTH)
    constant("z2", np.zeros(HIDDEN, np.int8))
    constant("s2", random.uniform(0.002, 0.006, HIDDEN).astype(np.float32))
    constant("b2", random.standard_normal(HIDDEN).astype(np.float32))
    constant("zero", np.uint8(100))
    constant("scale", np.float32(0.03))
    # A product of integers that is quantized again (quantize_static with QuantFormat.QOperator).
    integers("w3", np.int8, HIDDEN, 24)
    constant("z3", np.int8(0))
    constant("s3", np.float32(0.005))
    constant("out_scale", np.float32(0.1))
    constant("out_zero", np.uint8(120))
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "x_scale", "x_zero"], ["q"], "/first/quantize"),
        helper.make_node("MatMulInteger", ["q", "w1", "x_zero", "z1"], ["sums"], "/first"),
        helper.make_node("Cast", ["sums"], ["real"], "/first/cast", to=TensorProto.FLOAT),
        helper.make_node("Mul", ["real", "s1"], ["a"], "/first/scale"),
        helper.make_node("Tanh", ["a"], ["b"], "/tanh"),
        helper.make_node("QuantizeLinear", ["x", "scale", "zero"], ["c"], "/second/quantize"),
        helper.make_node("DequantizeLinear", ["c", "scale", "zero"], ["d"], "/second/dequantize"),
        helper.make_node("DequantizeLinear", ["w2", "s2", "z2"], ["d2"], "/second/weights", axis=0),
        helper.make_node("Gemm", ["d", "d2", "b2"], ["e"], "/second", transB=1),
        helper.make_node("Add", ["b", "e"], ["f"], "/add"),
        helper.make_node("QuantizeLinear", ["f", "scale", "zero"], ["g"], "/third/quantize"),
        helper.make_node("QLinearMatMul", ["g", "scale", "zero", "w3", "s3", "z3", "out_scale", "out_zero"], ["h"], "/third"),
        helper.make_node("DequantizeLinear", ["h", "out_scale", "out_zero"], ["y"], "/third/dequantize"),
    ]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", DEPTH])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 24])
    graph = helper.make_graph(nodes, "quantized_layers", [x], [y], weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), FOLDER / "quantized_layers.onnx")


main()
