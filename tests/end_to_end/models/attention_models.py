#!/usr/bin/env python3
"""Writes the attention models that need no torch to NAME.onnx in this folder, from the graphs of models/ and those below."""
import math
import sys
from pathlib import Path

import numpy as np

FOLDER = Path(__file__).resolve().parent
sys.path.insert(0, str(FOLDER.parents[2] / "models"))

import family_graphs  # noqa: E402
import suite_graphs  # noqa: E402
from family_graphs import heads_of, keys_last, tokens_of  # noqa: E402


def shared(b, x, tokens, groups, heads, size):
    """Repeats keys or values that groups of heads share: [batch, groups, tokens, size] to [batch, heads, tokens, size]."""
    x = b.node("Unsqueeze", heads_of(b, x, tokens, groups, size), b.ints(2))
    one = [1, 1, heads // groups, 1, 1]
    x = b.node("Expand", x, b.ints(*one))
    return b.node("Reshape", x, b.ints(0, heads, tokens, size))


def history(b, config):
    """A target attends to a history, whose length differs for each member of the batch: one query, grouped heads."""
    heads, groups, size, tokens = (config[key] for key in ("heads", "groups", "size", "tokens"))
    target, past, lengths = b.input([heads * size]), b.input([tokens, 32]), b.input([], integer=True)
    q = heads_of(b, b.node("Unsqueeze", target, b.ints(1)), 1, heads, size)
    k, v = (shared(b, b.product(past, name, 32, groups * size), tokens, groups, heads, size) for name in "kv")
    scores = b.node("Mul", b.node("MatMul", q, keys_last(b, k)), b.scalar(1 / math.sqrt(size)))
    there = b.node("Less", b.ints(*range(tokens)), b.node("Unsqueeze", lengths, b.ints(1, 2, 3)))
    weights = b.node("Softmax", b.node("Where", there, scores, b.scalar(-1e4)), axis=-1)
    return tokens_of(b, b.node("MatMul", weights, v), 1, heads * size), ["batch", 1, heads * size]


def window(b, config):
    """Attention by the squared ReLU of scores instead of softmax, to unmasked keys at most `reach` tokens back."""
    heads, size, tokens, reach = (config[key] for key in ("heads", "size", "tokens", "reach"))
    width = heads * size
    x, mask = b.input([tokens, width]), b.input([tokens], integer=True)
    q, k, v = (heads_of(b, b.product(x, name, width, width), tokens, heads, size) for name in "qkv")
    positive = b.node("Relu", b.node("MatMul", q, keys_last(b, k)))
    near = b.constant(b.float_type, [tokens, tokens], [float(0 <= i - j < reach) for i in range(tokens) for j in range(tokens)])
    weights = b.node("Mul", b.node("Mul", b.node("Mul", positive, positive), b.scalar(1 / (size * reach))), near)
    there = b.node("Greater", b.node("Unsqueeze", mask, b.ints(1, 2)), b.int_scalar(0))
    weights = b.node("Where", there, weights, b.scalar(0.0))
    return tokens_of(b, b.node("MatMul", weights, v), tokens, width), ["batch", tokens, width]


MODELS = {
    "hstu": (family_graphs.hstu, {"width": 32, "heads": 2, "tokens": 17}),
    "field_attention": (family_graphs.field_attention, {"rows": [40] * 26, "dim": 32, "heads": 2, "layers": 2}),
    "history": (history, {"heads": 4, "groups": 2, "size": 16, "tokens": 40}),
    "window": (window, {"heads": 2, "size": 24, "tokens": 65, "reach": 9}),
}


def write(name, function, config):
    from onnx import numpy_helper

    model, weights = suite_graphs.build(name, function, config, "fp32")
    tensors = {tensor.name: tensor for tensor in model.graph.initializer}
    random = np.random.default_rng(len(name))
    for weight in weights:
        values = weight.center + weight.bound * random.uniform(-1, 1, weight.stored_shape)
        tensors[weight.name].CopyFrom(numpy_helper.from_array(values.astype(np.float32), weight.name))
    (FOLDER / f"{name}.onnx").write_bytes(model.SerializeToString())


if __name__ == "__main__":
    for name in sys.argv[1:] or MODELS:
        write(name, *MODELS[name])
