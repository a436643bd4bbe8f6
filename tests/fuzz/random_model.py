"""A random valid ONNX model and its inputs, the same for the same seed and number."""

import random

import module_ops
import moving_ops
import numpy
import onnx
import pointwise_ops
import product_ops
import reducing_ops
import structure_ops
from builder import BOOL, Builder, Unfit, random_array, tensor_of
from onnx import helper

OPSETS = range(11, onnx.defs.onnx_opset_version() + 1)
OPS = {op: weight for family in (pointwise_ops, moving_ops, reducing_ops, product_ops, structure_ops, module_ops) for op, weight in family.OPS.items()}
MOST_OUTPUTS = 6
SETS = 2  # number of sets of inputs, each with its own sizes


class Model:
    """`proto`, and `inputs`: TensorProtos for each set."""

    def __init__(self, seed, number):
        self.random = random.Random(f"{seed}:{number}")
        self.seed, self.number = seed, number
        opset = self.random.choice(OPSETS) if self.random.random() < 0.7 else self.random.choice((17, 18, 21))
        builder = Builder(self.random, opset, f"m{number}_")
        steps = self.random.choice((1, 2, 4, 6, 10, 16))
        while steps > 0 or not builder.nodes:
            _add_some_op(builder)
            steps -= 1
        self.proto = _proto(builder)
        self.inputs = [_inputs(builder, which, f"{seed}:{number}:{which}") for which in range(SETS)]


def _add_some_op(builder):
    for _ in range(40):
        op = builder.random.choices(list(OPS), list(OPS.values()))[0]
        before = _sizes(builder)
        try:
            op(builder)
            return
        except Unfit:
            _restore(builder, before)


def _sizes(b):
    return [len(items) for items in (b.nodes, b.values, b.inputs, b.initializers, b.functions, b.open_outputs)], dict(b.symbols), set(b.derived)


def _restore(b, before):
    sizes, b.symbols, b.derived = before
    for items, size in zip((b.nodes, b.values, b.inputs, b.initializers, b.functions, b.open_outputs), sizes):
        del items[size:]


def _proto(b):
    read = {name for node in b.nodes for name in _reads(node)}
    made = [value for value in b.values if value not in b.inputs]
    ends = [value for value in made if value.name not in read]
    more = [value for value in made if value.name in read]
    b.random.shuffle(more)
    outputs = (ends + more[: b.random.randint(0, 2)])[:MOST_OUTPUTS]
    infos = [helper.make_tensor_value_info(value.name, value.dtype, [None if dim in b.derived else dim for dim in value.shape]) for value in outputs]
    infos += b.open_outputs
    inputs = [value for value in b.inputs if value.name in read]
    graph = helper.make_graph(b.nodes, "random", [helper.make_tensor_value_info(v.name, v.dtype, v.shape) for v in inputs], infos, b.initializers)
    opsets = [helper.make_opsetid("", b.opset)]
    if b.functions:
        opsets.append(helper.make_opsetid(structure_ops.DOMAIN, 1))
    b.inputs = inputs
    return helper.make_model(graph, opset_imports=opsets, functions=b.functions, ir_version=10, producer_name="random_model")


def _reads(node):
    names = [name for name in node.input if name]
    for attribute in node.attribute:
        if attribute.HasField("g"):
            names += [name for inner in attribute.g.node for name in _reads(inner)]
    return names


def _inputs(b, which, seed):
    tensors = []
    values = numpy.random.default_rng([ord(letter) for letter in seed])
    for value in b.inputs:
        shape = [b.size(dim, which) for dim in value.shape]
        ends = b.ranges[value.name]
        low, high = (None, None) if value.dtype == BOOL else (ends.low, ends.high)
        tensors.append(tensor_of(random_array(values, value.dtype, shape, low, high), value.dtype, value.name))
    return tensors


