#!/usr/bin/env python3
"""Writes ranking models to NAME.onnx in this folder, in the forms in which libraries such as deepctr-torch export them."""
import sys

from attention_models import write
from suite_graphs import named_tables


def fields_of(b, config):
    """The rows of all tables, [batch, fields, dim]."""
    return b.stack(b.embeddings(b.input([len(config["rows"])], integer=True), named_tables(config)))


def heads_first(b, config):
    """AutoInt whose heads are cut out one by one and stacked in front of the batch: [heads, batch, fields, size]."""
    dim, fields, heads = config["dim"], len(config["rows"]), config["heads"]
    size = dim // heads
    x = fields_of(b, config)

    def cut(x, head, axis, width):
        return b.node("Slice", x, b.ints(head * width), b.ints((head + 1) * width), b.ints(axis))

    def stacked(x):
        return b.node("Concat", *[b.node("Unsqueeze", cut(x, head, 2, size), b.ints(0)) for head in range(heads)], axis=0)

    for i in range(config["layers"]):
        q, k, v, rest = (b.product(x, f"layers.{i}.{name}", dim, dim, bias=False) for name in "qkvr")
        scores = b.node("Einsum", stacked(q), stacked(k), equation="bnik,bnjk->bnij")
        mixed = b.node("MatMul", b.node("Softmax", scores, axis=-1), stacked(v))
        mixed = b.node("Concat", *[cut(mixed, head, 0, 1) for head in range(heads)], axis=3)
        x = b.node("Relu", b.node("Add", b.node("Squeeze", mixed, b.ints(0)), rest))
    flat = b.node("Reshape", x, b.ints(-1, fields * dim), allowzero=1)
    return b.node("Sigmoid", b.linear(flat, "last", fields * dim, 1)), ["batch", 1]


def expert_columns(b, config):
    """DCNv2 with experts of low rank: matrices times columns [batch, width, 1], a gate per expert, the mean of the experts."""
    width, rank, experts = config["dim"] * len(config["rows"]), config["rank"], config["experts"]
    first = b.node("Unsqueeze", b.node("Reshape", fields_of(b, config), b.ints(-1, width), allowzero=1), b.ints(2))

    def times(name, outputs, inputs, x):
        return b.node("MatMul", b.weight(name, outputs, inputs, bound=inputs ** -0.5), x)

    x = first
    gates = [b.weight(f"gates.{e}", width, 1, bound=width ** -0.5) for e in range(experts)]
    for i in range(config["layers"]):
        made, scores = [], []
        bias = b.weight(f"layers.{i}.bias", width, 1, bound=0.1)
        for e in range(experts):
            name = f"layers.{i}.experts.{e}"
            scores.append(b.node("MatMul", b.node("Squeeze", x, b.ints(2)), gates[e]))
            low = b.node("Tanh", times(f"{name}.v", rank, width, x))
            low = b.node("Tanh", times(f"{name}.c", rank, rank, low))
            made.append(b.node("Mul", first, b.node("Add", times(f"{name}.u", width, rank, low), bias)))
        share = b.node("Softmax", b.stack(scores), axis=1)
        x = b.node("Add", b.node("MatMul", b.node("Concat", *made, axis=2), share), x)
    return b.node("Sigmoid", b.linear(b.node("Squeeze", x, b.ints(2)), "last", width, 1)), ["batch", 1]


def gated_experts(b, config):
    """Progressive layered extraction whose experts, gates and towers are networks of several layers."""
    tasks, width = config["tasks"], config["dim"] * len(config["rows"])
    x = b.node("Reshape", fields_of(b, config), b.ints(-1, width), allowzero=1)
    groups = [x] * (tasks + 1)  # the input of each task's part; the last one is shared
    for level in range(config["levels"]):
        made = [b.node("Unsqueeze", b.node("Relu", b.mlp(group, f"levels.{level}.experts.{g}", [width, *config["expert"]])), b.ints(1))
                for g, group in enumerate(groups)]
        mixed = []
        for g, group in enumerate(groups):
            seen = made if g == tasks else [made[g], made[tasks]]
            hidden = b.node("Relu", b.linear(group, f"levels.{level}.gates.{g}.0", width, config["gate"]))
            gate = b.product(hidden, f"levels.{level}.gates.{g}.1", config["gate"], len(seen), bias=False)
            gate = b.node("Unsqueeze", b.node("Softmax", gate, axis=1), b.ints(1))
            mixed.append(b.node("Squeeze", b.node("MatMul", gate, b.node("Concat", *seen, axis=1)), b.ints(1)))
        groups, width = mixed, config["expert"][-1]
    towers = [b.node("Sigmoid", b.mlp(groups[t], f"towers.{t}", [width, config["tower"], 1])) for t in range(tasks)]
    return b.node("Concat", *towers, axis=1), ["batch", tasks]


MODELS = {
    "heads_first": (heads_first, {"rows": [40] * 12, "dim": 8, "heads": 2, "layers": 3}),
    "expert_columns": (expert_columns, {"rows": [30] * 10, "dim": 8, "rank": 32, "experts": 4, "layers": 2}),
    "gated_experts": (gated_experts, {"rows": [30] * 10, "dim": 4, "tasks": 2, "levels": 2, "expert": [80, 48], "gate": 56, "tower": 64}),
}

if __name__ == "__main__":
    for name in sys.argv[1:] or MODELS:
        write(name, *MODELS[name])
