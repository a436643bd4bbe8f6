#!/usr/bin/env python3
"""Writes packed_layers.onnx in this folder: four layers with weights of 4 bits, in the forms in which quantizers write them."""
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

FOLDER = Path(__file__).resolve().parent
DEPTH, BLOCK = 96, 32


def main():
    random = np.random.default_rng(0)
    weights = []

    def packed(name, dtype, codes):
        """A tensor of 4-bit integers, two in a byte."""
        bits = codes.astype(np.uint8).reshape(-1) & 15
        weights.append(helper.make_tensor(name, dtype, codes.shape, (bits[::2] | bits[1::2] << 4).tobytes(), raw=True))

    def scales(name, *dims, dtype=np.float32):
        weights.append(numpy_helper.from_array(random.uniform(0.02, 0.05, dims).astype(dtype), name))

    blocks = DEPTH // BLOCK
    # Codes [depth, columns], with a scale per block of rows: signed ones, and ones with zero points.
    packed("w1", TensorProto.INT4, random.integers(-8, 8, (DEPTH, 128)))
    scales("s1", blocks, 128)
    packed("w2", TensorProto.UINT4, random.integers(0, 16, (128, DEPTH)))
    scales("s2", 4, DEPTH)
    packed("z2", TensorProto.UINT4, random.integers(5, 11, (4, DEPTH)))
    # Codes [columns, blocks, bytes].
    weights.append(numpy_helper.from_array(random.integers(0, 256, (72, blocks, BLOCK // 2), dtype=np.uint8), "w3"))
    scales("s3", 72 * blocks)
    # The same in half precision, with zero points.
    weights.append(numpy_helper.from_array(random.integers(0, 256, (80, 3, BLOCK // 2), dtype=np.uint8), "w4"))
    scales("s4", 80 * 3, dtype=np.float16)
    weights.append(numpy_helper.from_array(random.integers(0, 256, 80 * 2, dtype=np.uint8), "z4"))
    nodes = [
        helper.make_node("DequantizeLinear", ["w1", "s1"], ["d1"], "/first/weights", axis=0, block_size=BLOCK),
        helper.make_node("MatMul", ["x", "d1"], ["a"], "/first"),
        helper.make_node("Relu", ["a"], ["b"], "/relu"),
        helper.make_node("DequantizeLinear", ["w2", "s2", "z2"], ["d2"], "/second/weights", axis=0, block_size=BLOCK),
        helper.make_node("MatMul", ["b", "d2"], ["c"], "/second"),
        helper.make_node("Tanh", ["c"], ["d"], "/tanh"),
        helper.make_node("MatMulNBits", ["d", "w3", "s3"], ["e"], "/third", domain="com.microsoft", K=DEPTH, N=72, bits=4, block_size=BLOCK),
        helper.make_node("Cast", ["e"], ["f"], "/half", to=TensorProto.FLOAT16),
        helper.make_node("MatMulNBits", ["f", "w4", "s4", "z4"], ["g"], "/fourth", domain="com.microsoft", K=72, N=80, bits=4, block_size=BLOCK),
        helper.make_node("Cast", ["g"], ["y"], "/float", to=TensorProto.FLOAT),
    ]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", DEPTH])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 80])
    graph = helper.make_graph(nodes, "packed_layers", [x], [y], weights)
    imports = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    onnx.save(helper.make_model(graph, opset_imports=imports, ir_version=10), FOLDER / "packed_layers.onnx")


main()
