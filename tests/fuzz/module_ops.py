"""Modules of recommendation and LoRA models, with the nodes that exporters write for them."""

import math

import numpy
from builder import F16, F32, I64, Unfit


def fixed_width(value):
    return isinstance(value.shape[-1], int)


def weights(b, dtype, *shape):
    return b.constant(b.numbers(dtype, shape, -0.5, 0.5), dtype)


def reduce(b, op, x, axis, keepdims=1):
    if b.opset >= (13 if op == "ReduceSum" else 18):
        return b.op(op, [x, b.ints([axis])], keepdims=keepdims)
    return b.op(op, [x], axes=[axis], keepdims=keepdims)


def unsqueeze(b, x, axis):
    return b.op("Unsqueeze", [x, b.ints([axis])]) if b.opset >= 13 else b.op("Unsqueeze", [x], axes=[axis])


def embedding(b, dtype, batch, width, bag=None):
    """Rows of a table, or the sums or means of bags of rows."""
    rows = b.random.randint(2, 12)
    table = b.new(dtype, [rows, width])
    ids = b.input(I64, [batch] if bag is None else [batch, bag], 0, rows - 1)
    looked_up = b.op("Gather", [table, ids], axis=0)
    if bag is None:
        return looked_up
    if b.random.random() < 0.5:
        mask = b.input(dtype, [batch, bag], 0, 1)
        looked_up = b.op("Mul", [looked_up, unsqueeze(b, mask, 2)])
    return reduce(b, b.random.choice(("ReduceSum", "ReduceMean")), looked_up, 1, 0)


def multilayer(b, x, widths):
    for width in widths:
        layer = weights(b, x.dtype, width, x.shape[-1]) if b.random.random() < 0.5 else None
        if layer and x.rank == 2:
            x = b.op("Gemm", [x, layer, weights(b, x.dtype, width)], transB=1)
        else:
            x = b.op("Add", [b.op("MatMul", [x, weights(b, x.dtype, x.shape[-1], width)]), weights(b, x.dtype, width)])
        if b.random.random() < 0.8:
            x = b.op(b.random.choice(("Relu", "Sigmoid", "Tanh")), [x])
    return x


def recommender(b):
    """Look-ups and a layer for dense features, combined by dot products or by concatenation, and a top layer."""
    dtype = b.random.choices((F32, F16), (4, 1))[0]
    batch, width = b.symbol(), b.random.choice((2, 4, 8, 16))
    bags = [b.random.choice((None, None, 3, 5)) for _ in range(b.random.randint(1, 4))]
    features = [embedding(b, dtype, batch, width, bag) for bag in bags]
    dense = multilayer(b, b.input(dtype, [batch, b.random.choice((3, 13))]), [b.random.choice((5, 16)), width])
    features.append(dense)
    if b.random.random() < 0.6:
        stacked = b.op("Concat", [unsqueeze(b, feature, 1) for feature in features], axis=1)
        dots = b.op("MatMul", [stacked, b.op("Transpose", [stacked], perm=[0, 2, 1])])
        count = len(features)
        flat = b.op("Reshape", [dots, b.ints([-1, count * count])])
        places = [i * count + j for i in range(count) for j in range(i)]
        joined = b.op("Concat", [dense, b.op("Gather", [flat, b.ints(places)], axis=1)], axis=1)
    else:
        joined = b.op("Concat", features, axis=1)
    multilayer(b, joined, [b.random.choice((4, 16)), 1])


def cross(b):
    """A cross layer of DCN: x0 * (W x + b) + x."""
    x = b.pick((F32,), 2, 2, fixed_width)
    crossed = b.op("Add", [b.op("MatMul", [x, weights(b, x.dtype, x.shape[-1], x.shape[-1])]), weights(b, x.dtype, x.shape[-1])])
    b.op("Add", [b.op("Mul", [x, crossed]), x])


def factorization_machine(b):
    """(sum x)^2 - sum x^2, halved."""
    x = b.pick((F32, F16), 3, 3)
    square_of_sum = b.op("Pow", [reduce(b, "ReduceSum", x, 1, 0), b.scalar(x.dtype, 2)])
    sum_of_squares = reduce(b, "ReduceSum", b.op("Mul", [x, x]), 1, 0)
    b.op("Mul", [b.op("Sub", [square_of_sum, sum_of_squares]), b.scalar(x.dtype, 0.5)])


def attention_by_hand(b):
    x = b.pick((F32, F16), 3, 3, fixed_width)
    heads, size = b.random.choice((1, 2)), b.random.choice((2, 4))
    parts = []
    for order in ([0, 2, 1, 3], [0, 2, 3, 1], [0, 2, 1, 3]):
        part = b.op("MatMul", [x, weights(b, x.dtype, x.shape[-1], heads * size)])
        if all(isinstance(dim, str) for dim in x.shape[:2]):
            raise Unfit("two symbols")
        shape = [0, -1, heads, size] if not isinstance(x.shape[1], int) or b.random.random() < 0.5 else [-1, x.shape[1], heads, size]
        parts.append(b.op("Transpose", [b.op("Reshape", [part, b.ints(shape)])], perm=order))
    scores = b.op("MatMul", parts[:2])
    scale = b.scalar(x.dtype, math.sqrt(size))
    scores = b.op("Div", [scores, scale]) if b.random.random() < 0.5 else b.op("Mul", [scores, b.scalar(x.dtype, 1 / math.sqrt(size))])
    if b.random.random() < 0.4 and isinstance(x.shape[1], int):
        mask = b.constant(numpy.tril(numpy.ones((x.shape[1], x.shape[1]), bool)), 9, "mask")
        scores = b.op("Where", [mask, scores, b.scalar(x.dtype, -10000.0)])
    mixed = b.op("Transpose", [b.op("MatMul", [b.op("Softmax", [scores], axis=-1), parts[2]])], perm=[0, 2, 1, 3])
    shape = [0, -1, heads * size] if not isinstance(x.shape[1], int) else [-1, x.shape[1], heads * size]
    b.op("Add", [b.op("MatMul", [b.op("Reshape", [mixed, b.ints(shape)]), weights(b, x.dtype, heads * size, x.shape[-1])]), x])


def layer_norm_by_hand(b):
    x = b.pick((F32, F16), 2, 4, fixed_width)
    distance = b.op("Sub", [x, reduce(b, "ReduceMean", x, -1)])
    square = b.op("Pow", [distance, b.scalar(x.dtype, 2)]) if b.random.random() < 0.5 else b.op("Mul", [distance, distance])
    deviation = b.op("Sqrt", [b.op("Add", [reduce(b, "ReduceMean", square, -1), b.scalar(x.dtype, 1e-3)])])
    scaled = b.op("Mul", [b.op("Div", [distance, deviation]), weights(b, x.dtype, x.shape[-1])])
    b.op("Add", [scaled, weights(b, x.dtype, x.shape[-1])])


def gelu_by_hand(b):
    x = b.pick((F32, F16), 1, 4)
    inside = b.op("Erf", [b.op("Div", [x, b.scalar(x.dtype, math.sqrt(2))])])
    b.op("Mul", [b.op("Mul", [x, b.op("Add", [inside, b.scalar(x.dtype, 1)])]), b.scalar(x.dtype, 0.5)])


def gated_layer(b):
    """Two layers of the same rows, one of which gates the other, as in SwiGLU, GeGLU and gated crosses; perhaps one layer, cut in two."""
    dtype = b.random.choice((F32, F16))
    depth, columns = b.random.randint(17, 48), b.random.choice((4, 12, 20, 32, 64, 30))
    x = b.input(dtype, [b.symbol(), *b.random.choice(((), (), (3,))), depth])
    if b.random.random() < 0.4 and b.opset >= 13:
        both = b.op("MatMul", [x, weights(b, dtype, depth, 2 * columns)])
        gate, other = b.op("Split", [both, b.ints([columns, columns])], outputs=2, axis=-1)
    else:
        gate, other = (b.op("MatMul", [x, weights(b, dtype, depth, columns)]) for _ in range(2))
    if b.random.random() < 0.4:
        other = b.op("Add", [other, weights(b, dtype, columns)])
    opened = b.op(b.random.choice(("Sigmoid", "Tanh", "Relu")), [gate])
    if b.random.random() < 0.5:
        opened = b.op("Mul", [gate, opened])
    b.op("Mul", [opened, other])


def batched_gather(b):
    """For each item, the row of a sequence at an index, as GatherElements with expanded indices."""
    x = b.pick((F32, F16), 3, 3, lambda value: all(isinstance(dim, int) for dim in value.shape[1:]))
    where = b.input(I64, [x.shape[0], 1, 1], 0, x.shape[1] - 1)
    b.op("GatherElements", [x, b.op("Tile", [where, b.ints([1, 1, x.shape[2]])])], axis=1)


OPS = {recommender: 2, cross: 0.7, factorization_machine: 0.5, attention_by_hand: 0.8, layer_norm_by_hand: 0.7, gelu_by_hand: 0.5,
       gated_layer: 0.7, batched_gather: 0.3}  # fmt: skip
