"""Writes a float16 or bfloat16 version of a float32 ONNX model: only the types of float tensors, constants and casts change.

    models/to_half.py IN.onnx OUT.onnx float16|bfloat16
"""
import argparse

import numpy
import onnx
from onnx import TensorProto, helper, numpy_helper


def convert_tensor(tensor, dtype):
    if tensor.data_type != TensorProto.FLOAT:
        return
    values = numpy_helper.to_array(tensor)
    with numpy.errstate(over="ignore"):  # masks of -3e38 become -inf
        halves = values.astype(helper.tensor_dtype_to_np_dtype(dtype))
    new = helper.make_tensor(tensor.name, dtype, values.shape, halves.tobytes(), raw=True)
    tensor.CopyFrom(new)


def convert_value(value, dtype):
    tensor = value.type.tensor_type
    if tensor.elem_type == TensorProto.FLOAT:
        tensor.elem_type = dtype


def convert(model, dtype):
    graph = model.graph
    for tensor in graph.initializer:
        convert_tensor(tensor, dtype)
    for value in [*graph.input, *graph.output, *graph.value_info]:
        convert_value(value, dtype)
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.TENSOR:
                convert_tensor(attribute.t, dtype)
            if node.op_type == "Cast" and attribute.name == "to" and attribute.i == TensorProto.FLOAT:
                attribute.i = dtype
    return model


if __name__ == "__main__":
    kinds = {"float16": TensorProto.FLOAT16, "bfloat16": TensorProto.BFLOAT16}
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", metavar="IN.onnx")
    parser.add_argument("target", metavar="OUT.onnx")
    parser.add_argument("dtype", choices=kinds)
    arguments = parser.parse_args()
    onnx.save(convert(onnx.load(arguments.source), kinds[arguments.dtype]), arguments.target)
