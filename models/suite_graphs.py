"""The graphs of suite.py, with the same nodes that PyTorch's default exporter writes for such modules (opset 20)."""
import dataclasses
import math

ALPHA = 0.5        # the scale of low-rank adapters
EPSILON = 1e-5     # of layer norms
LARGEST_HALF = 65504.0
LARGEST_FLOAT = 3.4028234663852886e38


@dataclasses.dataclass
class Weight:
    name: str
    shape: list            # the shape in PyTorch
    bound: float           # values are uniform within `bound` of `center`
    center: float = 0.0
    transposed: bool = False  # whether it is stored transposed in the file

    @property
    def stored_shape(self):
        return list(reversed(self.shape)) if self.transposed else list(self.shape)


class Builder:
    """Collects nodes, constants and weights; every method that adds a node returns the name of its result."""

    def __init__(self, dtype):
        from onnx import TensorProto, helper
        self.helper, self.dtype = helper, dtype
        self.float_type = TensorProto.FLOAT16 if dtype == "fp16" else TensorProto.FLOAT
        self.int_type = TensorProto.INT64
        self.table_bound = math.sqrt(3)  # the tables' values then have variance 1
        self.nodes, self.inputs, self.weights, self.constants, self.count = [], [], [], {}, 0

    def node(self, op, *inputs, **attributes):
        self.count += 1
        result = f"{op.lower()}_{self.count}"
        self.nodes.append(self.helper.make_node(op, list(inputs), [result], name=f"node_{result}", **attributes))
        return result

    def input(self, shape, integer=False):
        name = f"in{len(self.inputs)}"
        kind = self.int_type if integer else self.float_type
        self.inputs.append(self.helper.make_tensor_value_info(name, kind, ["batch", *shape]))
        return name

    def constant(self, kind, shape, values):
        key = (kind, tuple(shape), tuple(values))
        if key not in self.constants:
            self.constants[key] = self.helper.make_tensor(f"val_{len(self.constants)}", kind, shape, values)
        return self.constants[key].name

    def ints(self, *values):
        return self.constant(self.int_type, [len(values)], values)

    def int_scalar(self, value):
        return self.constant(self.int_type, [], [value])

    def scalar(self, value):
        return self.constant(self.float_type, [], [value])

    def weight(self, name, *shape, bound, center=0.0, transposed=False):
        self.weights.append(Weight(name, list(shape), bound, center, transposed))
        return name

    def table(self, name, rows, dim):
        return self.weight(f"{name}.weight", rows, dim, bound=self.table_bound)

    def linear(self, x, name, inputs, outputs):
        """A product by weights that keep the variance of `x`, so that an error in any layer shows in the result."""
        weight = self.weight(f"{name}.weight", outputs, inputs, bound=math.sqrt(3 / inputs))
        return self.node("Gemm", x, weight, self.weight(f"{name}.bias", outputs, bound=1 / math.sqrt(inputs)),
                         alpha=1.0, beta=1.0, transA=0, transB=1)

    def product(self, x, name, inputs, outputs, bias=True):
        """A linear layer as it is exported for an input of three dims, or for one of two dims without a bias."""
        weight = self.weight(f"{name}.weight", outputs, inputs, bound=math.sqrt(3 / inputs), transposed=True)
        y = self.node("MatMul", x, weight)
        return self.node("Add", y, self.weight(f"{name}.bias", outputs, bound=1 / math.sqrt(inputs))) if bias else y

    def mlp(self, x, name, widths):
        """Linear layers with ReLU between them."""
        for i, (inputs, outputs) in enumerate(zip(widths, widths[1:])):
            x = self.node("Relu", x) if i else x
            x = self.linear(x, f"{name}.{2 * i}", inputs, outputs)
        return x

    def lora(self, x, name, inputs, outputs, rank, layer):
        base = layer(x, f"{name}.linear", inputs, outputs)
        low = self.node("MatMul", x, self.weight(f"{name}.A", inputs, rank, bound=math.sqrt(3 / rank)))
        low = self.node("MatMul", low, self.weight(f"{name}.B", rank, outputs, bound=0.05 * math.sqrt(3)))
        return self.node("Add", base, self.node("Mul", low, self.scalar(ALPHA)))

    def embeddings(self, ids, tables):
        """Looks up row ids[:, i] of table i, for tables given as (name, rows, dim)."""
        results = []
        for i, (name, rows, dim) in enumerate(tables):
            column = self.node("Gather", ids, self.int_scalar(i), axis=1)
            results.append(self.node("Gather", self.table(name, rows, dim), column, axis=0))
        return results

    def bags(self, ids, tables, sizes):
        """For each table i, the sum of the rows for the next sizes[i] columns of ids."""
        results, begin = [], 0
        for (name, rows, dim), size in zip(tables, sizes):
            columns = self.node("Slice", ids, self.ints(begin), self.ints(begin + size), self.ints(1))
            taken = self.node("Gather", self.table(name, rows, dim), columns, axis=0)
            results.append(self.node("ReduceSum", taken, self.ints(1), keepdims=0))
            begin += size
        return results

    def features(self, ids, config):
        """One row for each table: that of one id, or the sum of a bag."""
        tables = named_tables(config)
        return self.bags(ids, tables, config["bags"]) if "bags" in config else self.embeddings(ids, tables)

    def stack(self, parts):
        return self.node("Concat", *[self.node("Unsqueeze", part, self.ints(1)) for part in parts], axis=1)

    def layer_norm(self, x, name, width):
        scale = self.weight(f"{name}.weight", width, bound=0.2, center=1.0)
        return self.node("LayerNormalization", x, scale, self.weight(f"{name}.bias", width, bound=0.1), axis=-1,
                         epsilon=EPSILON, stash_type=1)

    def model(self, name, output, shape):
        helper = self.helper
        initializers = list(self.constants.values())
        for weight in self.weights:
            tensor = helper.make_tensor(weight.name, self.float_type, [0], [])
            tensor.ClearField("dims")
            tensor.dims.extend(weight.stored_shape)
            initializers.append(tensor)
        result = helper.make_tensor_value_info(output, self.float_type, shape)
        graph = helper.make_graph(self.nodes, name, self.inputs, [result], initializers)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)


def named_tables(config):
    return [(f"tables.{i}", rows, config["dim"]) for i, rows in enumerate(config["rows"])]


def ids_of_row(config):
    return sum(config["bags"]) if "bags" in config else len(config["rows"])


def lecture(b, config):
    """Hashed ids, 26 look-ups, the outer product of the vector of all features with itself, and an MLP."""
    dense, sparse = b.input([13]), b.input([len(config["rows"])], integer=True)
    rows = config["rows"]
    hashed = b.node("Mod", b.node("Add", sparse, b.int_scalar(1)), b.ints(*rows), fmod=0)
    parts = [b.mlp(dense, "bottom", config["bottom"]), *b.embeddings(hashed, named_tables(config))]
    x = b.node("Unsqueeze", b.node("Concat", *parts, axis=-1), b.ints(2))
    z = b.node("MatMul", x, b.node("Transpose", x, perm=[0, 2, 1]))
    width = config["bottom"][-1] + config["dim"] * len(rows)
    z = b.node("Reshape", z, b.ints(-1, width * width), allowzero=1)
    y = b.node("Sigmoid", b.mlp(z, "top", [width * width, *config["top"]]))
    return b.node("Squeeze", y), ["batch"]


def dot(b, config):
    """DLRM, with the dot products of all pairs of features."""
    dense, sparse = b.input([13]), b.input([len(config["rows"])], integer=True)
    d = b.node("Relu", b.mlp(dense, "bottom", config["bottom"]))
    t = b.stack([d, *b.embeddings(sparse, named_tables(config))])
    z = b.node("MatMul", t, b.node("Transpose", t, perm=[0, 2, 1]))
    count = len(config["rows"]) + 1
    pairs = [(i, j) for i in range(count) for j in range(i)]
    where = b.constant(b.int_type, [len(pairs), 2], [index for pair in pairs for index in pair])
    z = b.node("GatherND", b.node("Transpose", z, perm=[1, 2, 0]), where, batch_dims=0)
    x = b.node("Concat", d, b.node("Transpose", z, perm=[1, 0]), axis=1)
    return b.node("Sigmoid", b.mlp(x, "top", [config["dim"] + len(pairs), *config["top"]])), ["batch", 1]


def dcnv2(b, config):
    """DLRM-DCNv2, with low-rank cross layers x0 * (W (V x) + b) + x."""
    dense, sparse = b.input([13]), b.input([ids_of_row(config)], integer=True)
    d = b.node("Relu", b.mlp(dense, "bottom", config["bottom"]))
    x0 = x = b.node("Concat", d, *b.features(sparse, config), axis=1)
    width = config["dim"] * (len(config["rows"]) + 1)
    for i in range(config["crosses"]):
        low = b.product(x, f"v.{i}", width, config["rank"], bias=False)
        x = b.node("Add", b.node("Mul", x0, b.linear(low, f"w.{i}", config["rank"], width)), x)
    return b.node("Sigmoid", b.mlp(x, "top", [width, *config["top"]])), ["batch", 1]


def dlrm_request(b, config):
    """A DLRM for one user and many items: a tower for the user, attention over the user's history, and features of items. The inputs in0
    (dense features of the user), in1 (ids of the user) and in2 (the history, as ids of items) are the same for all items of a request."""
    dim, tower, tokens = config["dim"], config["tower"], config["history"]
    tables = named_tables(config)
    of_user, of_items = tables[:config["user_tables"]], tables[config["user_tables"]:]
    user_dense, user_ids = b.input([13]), b.input([len(of_user)], integer=True)
    history = b.input([tokens], integer=True)
    item_dense, item_ids = b.input([13]), b.input([len(of_items)], integer=True)
    user = b.node("Concat", user_dense, *b.embeddings(user_ids, of_user), axis=1)
    user = b.node("Relu", b.mlp(user, "user", [13 + dim * len(of_user), *tower]))
    rows = b.node("Gather", b.table("history", config["rows"][-1], dim), history, axis=0)
    q, k, v = (b.product(rows, f"attention.{name}", dim, dim) for name in "qkv")
    scores = b.node("MatMul", q, b.node("Transpose", k, perm=[0, 2, 1]))
    weights = b.node("Softmax", b.node("Mul", scores, b.scalar(dim**-0.5)), axis=-1)
    seen = b.node("ReduceMean", b.node("MatMul", weights, v), b.ints(1), keepdims=0)
    item = b.node("Relu", b.mlp(item_dense, "item", [13, *config["bottom"]]))
    x = b.node("Concat", user, seen, item, *b.embeddings(item_ids, of_items), axis=1)
    width = tower[-1] + dim + config["bottom"][-1] + dim * len(of_items)
    return b.node("Sigmoid", b.mlp(x, "top", [width, *config["top"]])), ["batch", 1]


def lora_mlp(b, config):
    width, rank = config["width"], config["rank"]
    x = b.input([width])
    x = b.node("Relu", b.lora(x, "layers.0", width, width // 2, rank, b.linear))
    x = b.lora(x, "layers.2", width // 2, width // 4, rank, b.linear)
    return b.node("Sigmoid", x), ["batch", width // 4]


def lola(b, config):
    width = config["width"]
    ones = b.constant(b.float_type, [width], [1.0] * width)
    x = b.node("LayerNormalization", b.input([width]), ones, axis=-1, epsilon=EPSILON, stash_type=1)
    return b.node("Gelu", b.linear(x, "dense", width, 4 * width), approximate="tanh"), ["batch", 4 * width]


def causal_attention(b, q, k, v, tokens, size):
    """softmax(q k^T / sqrt(size) + mask) v; the mask is computed from the shapes, as the exporter does."""
    shape_q, shape_k = b.node("Shape", q, start=0), b.node("Shape", k, start=0)
    rows = b.node("Slice", shape_q, b.ints(-2), b.ints(-1))
    columns = b.node("Slice", shape_k, b.ints(-2), b.ints(-1))
    ones = b.node("Expand", b.scalar(1.0), b.node("Concat", rows, columns, axis=0))
    zero, lowest = b.scalar(0.0), b.scalar(-(LARGEST_HALF if b.dtype == "fp16" else LARGEST_FLOAT))
    mask = b.node("Where", b.node("Equal", b.node("Trilu", ones, upper=0), zero), lowest, zero)
    last = b.node("Slice", shape_k, b.ints(-1), b.ints(2**63 - 1))
    before = b.node("Slice", shape_k, b.ints(-2**63), b.ints(-2))
    flat = b.node("Reshape", k, b.node("Concat", b.ints(-1), columns, last, axis=0), allowzero=0)
    turned = b.node("Transpose", flat, perm=[0, 2, 1])
    k = b.node("Reshape", turned, b.node("Concat", before, last, columns, axis=0), allowzero=0)
    scale = b.constant(b.float_type, [1], [size**-0.25])
    scores = b.node("MatMul", b.node("Mul", q, scale), b.node("Mul", k, scale))
    return b.node("MatMul", b.node("Softmax", b.node("Add", scores, mask), axis=-1), v)


def lora_block(b, config):
    """A pre-norm GPT-2 block with adapters on the input and output projections of the attention."""
    width, heads, rank, tokens = (config[key] for key in ("width", "heads", "rank", "tokens"))
    x = b.input([tokens, width])
    size = width // heads
    y = b.lora(b.layer_norm(x, "n1", width), "qkv", width, 3 * width, rank, b.product)
    y = b.node("Reshape", y, b.ints(-1, tokens, 3, heads, size), allowzero=1)
    y = b.node("Transpose", y, perm=[2, 0, 3, 1, 4])
    q, k, v = (b.node("Squeeze", b.node("Slice", y, b.ints(i), b.ints(i + 1), b.ints(0)), b.ints(0))
               for i in range(3))
    a = b.node("Transpose", causal_attention(b, q, k, v, tokens, size), perm=[0, 2, 1, 3])
    a = b.node("Reshape", a, b.ints(-1, tokens, width), allowzero=1)
    x = b.node("Add", x, b.lora(a, "o", width, width, rank, b.product))
    y = b.product(b.layer_norm(x, "n2", width), "up", width, 4 * width)
    y = b.product(b.node("Gelu", y, approximate="tanh"), "down", 4 * width, width)
    return b.node("Add", x, y), ["batch", tokens, width]


def deep_fm(b, config):
    """A first-order sum, the factorisation machine's 0.5 ((sum e)^2 - sum e^2), and an MLP over all embeddings."""
    b.table_bound = 0.1  # keeps the sum of 325 products small enough for the sigmoid to matter
    b.input([13])
    sparse = b.input([len(config["rows"])], integer=True)
    dense = b.linear("in0", "dense", 13, 1)
    first = b.stack(b.embeddings(sparse, [(f"first.{i}", rows, 1) for i, rows in enumerate(config["rows"])]))
    e = b.stack(b.embeddings(sparse, named_tables(config)))
    linear = b.node("Add", dense, b.node("ReduceSum", first, b.ints(1), keepdims=0))
    summed = b.node("ReduceSum", e, b.ints(1), keepdims=0)
    squares = b.node("ReduceSum", b.node("Mul", e, e), b.ints(1), keepdims=0)
    pairs = b.node("Sub", b.node("Mul", summed, summed), squares)
    pairs = b.node("Mul", b.node("ReduceSum", pairs, b.ints(1), keepdims=1), b.scalar(0.5))
    width = config["dim"] * len(config["rows"])
    deep = b.mlp(b.node("Reshape", e, b.ints(-1, width), allowzero=1), "deep", [width, *config["deep"]])
    return b.node("Sigmoid", b.node("Add", b.node("Add", linear, pairs), deep)), ["batch", 1]


def two_tower(b, config):
    """Two MLPs, one over the embeddings of each side, and the cosine of their results."""
    b.input([13])
    sparse = b.input([len(config["rows"])], integer=True)
    e = b.embeddings(sparse, named_tables(config))
    half = len(e) // 2
    sides = []
    for name, parts in (("user", ["in0", *e[:half]]), ("item", e[half:])):
        width = config["dim"] * half + (13 if name == "user" else 0)
        y = b.mlp(b.node("Concat", *parts, axis=1), name, [width, *config["tower"]])
        norm = b.node("ReduceL2", y, b.ints(-1), keepdims=1)
        sides.append(b.node("Div", y, b.node("Max", norm, b.scalar(1e-6))))
    return b.node("ReduceSum", b.node("Mul", *sides), b.ints(-1), keepdims=0), ["batch"]


def inputs_of_family(family, config, id_rows):
    """For each input in0, in1, ...: its dims after the batch, and the exclusive limits of the ids of each column, or None for floats."""
    if family == "dlrm_request":
        count = config["user_tables"]
        return [([13], None), ([count], id_rows[:count]), ([config["history"]], [id_rows[-1]] * config["history"]), ([13], None),
                ([len(id_rows) - count], id_rows[count:])]
    dense = [(dense_shape(family, config), None)]
    return dense + [([len(id_rows)], id_rows)] if id_rows else dense


def dense_shape(family, config):
    """The dims of in0 after the batch."""
    if family == "lora_block":
        return [config["tokens"], config["width"]]
    return [config["width"]] if "width" in config else [13]


FAMILIES = {function.__name__: function for function in (lecture, dot, dcnv2, dlrm_request, lora_mlp, lola, lora_block, deep_fm, two_tower)}


def build(name, function, config, dtype):
    """The model that a family's function builds, whose weights are declared without data, and the list of these weights."""
    builder = Builder(dtype)
    output, shape = function(builder, config)
    return builder.model(name, output, shape), builder.weights
