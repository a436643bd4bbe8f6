"""Graphs of model families beyond the suite of DLRM and LoRA models, with the nodes that PyTorch's exporters write for them."""
import math

from suite_graphs import LARGEST_FLOAT, LARGEST_HALF, named_tables


def heads_of(b, x, tokens, heads, size):
    """Reshapes [batch, tokens, heads * size] to [batch, heads, tokens, size]."""
    return b.node("Transpose", b.node("Reshape", x, b.ints(-1, tokens, heads, size), allowzero=1), perm=[0, 2, 1, 3])


def tokens_of(b, x, tokens, width):
    """Reshapes [batch, heads, tokens, size] to [batch, tokens, width]."""
    return b.node("Reshape", b.node("Transpose", x, perm=[0, 2, 1, 3]), b.ints(-1, tokens, width), allowzero=1)


def keys_last(b, k):
    return b.node("Transpose", k, perm=[0, 1, 3, 2])


def silu(b, x):
    return b.node("Mul", x, b.node("Sigmoid", x))


def ending(b, x, begin, end, axis=-1):
    return b.node("Slice", x, b.ints(begin), b.ints(end), b.ints(axis), b.ints(1))


def target_attention(b, config):
    """Deep interest network: an MLP over [q, h, q - h, q * h] scores each item h of a history for a target q. The result is the mean of the
    history, weighted by the softmax of the scores."""
    dim, tokens, widths = config["dim"], config["history"], config["attention"]
    history, target = b.input([tokens], integer=True), b.input([], integer=True)
    table = b.table("items", config["rows"][0], dim)
    h = b.node("Gather", table, history, axis=0)
    q = b.node("Expand", b.node("Unsqueeze", b.node("Gather", table, target, axis=0), b.ints(1)), b.ints(1, tokens, 1))
    x = b.node("Concat", q, h, b.node("Sub", q, h), b.node("Mul", q, h), axis=-1)
    for i, (inputs, outputs) in enumerate(zip([4 * dim, *widths], widths)):
        x = b.node("Sigmoid", b.product(x, f"attention.{2 * i}", inputs, outputs))
    scores = b.node("Squeeze", b.product(x, f"attention.{2 * len(widths)}", widths[-1], 1), b.ints(2))
    weights = b.node("Unsqueeze", b.node("Softmax", scores, axis=-1), b.ints(1))
    return b.node("Squeeze", b.node("MatMul", weights, h), b.ints(1)), ["batch", dim]


def compressed_interaction(b, config):
    """xDeepFM's compressed interaction network: column-wise products of all pairs of fields, combined by a convolution of width 1."""
    dim, fields = config["dim"], len(config["rows"])
    ids = b.input([fields], integer=True)
    x0 = b.stack(b.embeddings(ids, named_tables(config)))
    x, count, sums = x0, fields, []
    for i, width in enumerate(config["layers"]):
        pairs = b.node("Mul", b.node("Unsqueeze", x, b.ints(2)), b.node("Unsqueeze", x0, b.ints(1)))
        pairs = b.node("Reshape", pairs, b.ints(-1, count * fields, dim), allowzero=1)
        weight = b.weight(f"layers.{i}.weight", width, count * fields, 1, bound=math.sqrt(3 / (count * fields)))
        bias = b.weight(f"layers.{i}.bias", width, bound=0.1)
        x = b.node("Relu", b.node("Conv", pairs, weight, bias, dilations=[1], group=1, kernel_shape=[1], pads=[0, 0], strides=[1]))
        sums.append(b.node("ReduceSum", x, b.ints(2), keepdims=0))
        count = width
    return b.linear(b.node("Concat", *sums, axis=1), "last", sum(config["layers"]), 1), ["batch", 1]


def hstu(b, config):
    """A layer of hierarchical sequential transduction units: silu attention with relative positions and a gate."""
    width, heads, tokens = config["width"], config["heads"], config["tokens"]
    x = b.input([tokens, width])
    uvqk = silu(b, b.product(b.layer_norm(x, "n1", width), "uvqk", width, 4 * width))
    u, v, q, k = (ending(b, uvqk, i * width, (i + 1) * width) for i in range(4))
    v, q, k = (heads_of(b, part, tokens, heads, width // heads) for part in (v, q, k))
    scores = b.node("MatMul", q, keys_last(b, k))
    where = b.constant(b.int_type, [tokens, tokens], [tokens - 1 + i - j for i in range(tokens) for j in range(tokens)])
    positions = b.weight("positions", 2 * tokens - 1, bound=0.5)
    scores = silu(b, b.node("Add", scores, b.node("Gather", positions, where, axis=0)))
    seen = b.constant(b.float_type, [tokens, tokens], [1.0 if j <= i else 0.0 for i in range(tokens) for j in range(tokens)])
    scores = b.node("Mul", b.node("Mul", scores, b.scalar(1 / tokens)), seen)
    a = tokens_of(b, b.node("MatMul", scores, v), tokens, width)
    a = b.node("Mul", u, b.layer_norm(a, "n2", width))
    return b.node("Add", x, b.product(a, "o", width, width)), ["batch", tokens, width]


def experts(b, config):
    """Progressive layered extraction: levels of shared and task-specific experts, gates that mix them, and a tower per task."""
    tasks, count = config["tasks"], config["experts"]
    dense, sparse = b.input([13]), b.input([len(config["rows"])], integer=True)
    x = b.node("Concat", dense, *b.embeddings(sparse, named_tables(config)), axis=1)
    width = 13 + config["dim"] * len(config["rows"])
    groups = [x] * (tasks + 1)  # the input of each group's experts; the last group is shared
    for level, outputs in enumerate(config["levels"]):
        made = [[b.node("Unsqueeze", b.node("Relu", b.linear(groups[g], f"levels.{level}.experts.{g}.{e}", width, outputs)), b.ints(1))
                 for e in range(count)] for g in range(tasks + 1)]
        mixed = []
        is_last = level + 1 == len(config["levels"])
        for g in range(tasks + (not is_last)):
            seen = sum(made, []) if g == tasks else made[g] + made[tasks]
            gate = b.node("Softmax", b.product(groups[g], f"levels.{level}.gates.{g}", width, len(seen), bias=False), axis=-1)
            mean = b.node("MatMul", b.node("Unsqueeze", gate, b.ints(1)), b.node("Concat", *seen, axis=1))
            mixed.append(b.node("Squeeze", mean, b.ints(1)))
        groups, width = mixed, outputs
    towers = [b.node("Sigmoid", b.mlp(groups[g], f"towers.{g}", [width, *config["tower"]])) for g in range(tasks)]
    return b.node("Concat", *towers, axis=1), ["batch", tasks]


def field_attention(b, config):
    """AutoInt: self-attention over the embeddings of all fields, with residual projections."""
    dim, fields, heads = config["dim"], len(config["rows"]), config["heads"]
    ids = b.input([fields], integer=True)
    x = b.stack(b.embeddings(ids, named_tables(config)))
    for i in range(config["layers"]):
        q, k, v = (heads_of(b, b.product(x, f"layers.{i}.{name}", dim, dim, bias=False), fields, heads, dim // heads) for name in "qkv")
        weights = b.node("Softmax", b.node("MatMul", q, keys_last(b, k)), axis=-1)
        a = tokens_of(b, b.node("MatMul", weights, v), fields, dim)
        x = b.node("Relu", b.node("Add", a, b.product(x, f"layers.{i}.r", dim, dim, bias=False)))
    flat = b.node("Reshape", x, b.ints(-1, fields * dim), allowzero=1)
    return b.node("Sigmoid", b.linear(flat, "last", fields * dim, 1)), ["batch", 1]


def bert(b, config):
    """Encoder layers with a key padding mask, and with norms after the residual sums."""
    width, heads, tokens = config["width"], config["heads"], config["tokens"]
    x, mask = b.input([tokens, width]), b.input([tokens], integer=True)
    is_key = b.node("Cast", b.node("Unsqueeze", mask, b.ints(1, 2)), to=b.float_type)
    lowest = b.scalar(-(LARGEST_HALF if b.dtype == "fp16" else LARGEST_FLOAT))
    bias = b.node("Mul", b.node("Sub", b.scalar(1.0), is_key), lowest)
    for i in range(config["layers"]):
        name = f"layers.{i}"
        q, k, v = (heads_of(b, b.product(x, f"{name}.{part}", width, width), tokens, heads, width // heads) for part in "qkv")
        scores = b.node("Div", b.node("MatMul", q, keys_last(b, k)), b.scalar(math.sqrt(width // heads)))
        weights = b.node("Softmax", b.node("Add", scores, bias), axis=-1)
        a = tokens_of(b, b.node("MatMul", weights, v), tokens, width)
        x = b.layer_norm(b.node("Add", b.product(a, f"{name}.o", width, width), x), f"{name}.n1", width)
        y = b.node("Gelu", b.product(x, f"{name}.up", width, 4 * width), approximate="none")
        x = b.layer_norm(b.node("Add", b.product(y, f"{name}.down", 4 * width, width), x), f"{name}.n2", width)
    return x, ["batch", tokens, width]


def rms_norm(b, x, name, width):
    """RMS norm, computed in float32 as in transformer models."""
    y = b.node("Cast", x, to=1) if b.dtype == "fp16" else x
    power = b.constant(1, [], [2.0])
    mean = b.node("ReduceMean", b.node("Pow", y, power), b.ints(-1), keepdims=1)
    root = b.node("Reciprocal", b.node("Sqrt", b.node("Add", mean, b.constant(1, [], [1e-6]))))
    y = b.node("Mul", y, root)
    y = b.node("Cast", y, to=b.float_type) if b.dtype == "fp16" else y
    return b.node("Mul", b.weight(f"{name}.weight", width, bound=0.2, center=1.0), y)


def rotated(b, x, tokens, size):
    """Rotary positions: x cos + [-x2, x1] sin."""
    angles = [[position * 10000.0 ** (-2 * (i % (size // 2)) / size) for i in range(size)] for position in range(tokens)]
    cos, sin = (b.constant(b.float_type, [1, 1, tokens, size], [function(angle) for row in angles for angle in row])
                for function in (math.cos, math.sin))
    turned = b.node("Concat", b.node("Neg", ending(b, x, size // 2, 2**63 - 1, 3)), ending(b, x, 0, size // 2, 3), axis=-1)
    return b.node("Add", b.node("Mul", x, cos), b.node("Mul", turned, sin))


def llama_block(b, config):
    """A decoder block with RMS norms, rotary positions, grouped heads, a gated MLP, and adapters on q and v."""
    width, heads, groups, tokens, rank = (config[key] for key in ("width", "heads", "key_heads", "tokens", "rank"))
    x = b.input([tokens, width])
    size = width // heads
    y = rms_norm(b, x, "n1", width)

    def plain(x, name, inputs, outputs):
        return b.product(x, name, inputs, outputs, bias=False)

    q = heads_of(b, b.lora(y, "q", width, width, rank, plain), tokens, heads, size)
    k = heads_of(b, plain(y, "k", width, groups * size), tokens, groups, size)
    v = heads_of(b, b.lora(y, "v", width, groups * size, rank, plain), tokens, groups, size)
    q, k = rotated(b, q, tokens, size), rotated(b, k, tokens, size)
    k, v = (b.node("Reshape", b.node("Expand", b.node("Unsqueeze", part, b.ints(2)), b.ints(1, 1, heads // groups, 1, 1)),
                   b.ints(-1, heads, tokens, size), allowzero=1) for part in (k, v))
    lowest = -LARGEST_HALF if b.dtype == "fp16" else -LARGEST_FLOAT
    mask = b.constant(b.float_type, [1, 1, tokens, tokens], [0.0 if j <= i else lowest for i in range(tokens) for j in range(tokens)])
    scores = b.node("Add", b.node("Mul", b.node("MatMul", q, keys_last(b, k)), b.scalar(size**-0.5)), mask)
    a = tokens_of(b, b.node("MatMul", b.node("Softmax", scores, axis=-1), v), tokens, width)
    x = b.node("Add", x, plain(a, "o", width, width))
    y = rms_norm(b, x, "n2", width)
    y = b.node("Mul", silu(b, plain(y, "gate", width, config["hidden"])), plain(y, "up", width, config["hidden"]))
    return b.node("Add", x, plain(y, "down", config["hidden"], width)), ["batch", tokens, width]


def gru(b, config):
    """GRU4Rec: a recurrent layer over a history of items; the result is its last state."""
    dim, tokens = config["dim"], config["history"]
    ids = b.input([tokens], integer=True)
    x = b.node("Transpose", b.node("Gather", b.table("items", config["rows"][0], dim), ids, axis=0), perm=[1, 0, 2])
    stacked = []  # in ONNX, the update gate comes before the reset gate
    for kind, shape in (("weight_ih", [3 * dim, dim]), ("weight_hh", [3 * dim, dim]), ("bias_ih", [3 * dim]), ("bias_hh", [3 * dim])):
        weight = b.weight(f"gru.{kind}_l0", *shape, bound=1 / math.sqrt(dim))
        parts = [ending(b, weight, i * dim, (i + 1) * dim, 0) for i in (1, 0, 2)]
        stacked.append(b.node("Unsqueeze", b.node("Concat", *parts, axis=0), b.ints(0)))
    bias = b.node("Concat", *stacked[2:], axis=1)
    y = b.node("GRU", x, *stacked[:2], bias, hidden_size=dim, linear_before_reset=1)
    return b.node("Squeeze", ending(b, b.node("Squeeze", y, b.ints(1)), -1, 2**63 - 1, 0), b.ints(0)), ["batch", dim]


def inputs_of(family, config):
    """For each input: its dims after the batch, and the exclusive limit of its ids, or None for floats."""
    if family in ("hstu", "llama_block"):
        return [([config["tokens"], config["width"]], None)]
    if family == "bert":
        return [([config["tokens"], config["width"]], None), ([config["tokens"]], [2] * config["tokens"])]
    rows = config["rows"]
    if family == "target_attention":
        return [([config["history"]], rows * config["history"]), ([], rows[0])]
    if family == "gru":
        return [([config["history"]], rows * config["history"])]
    ids = [([len(rows)], rows)]
    return [([13], None), *ids] if family == "experts" else ids


FAMILIES = {function.__name__: function for function in (target_attention, compressed_interaction, hstu, experts, field_attention, bert,
                                                         llama_block, gru)}
