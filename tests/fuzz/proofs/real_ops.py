"""The ops over the reals, on tensors of a few elements (real_numbers.py)."""

import fractions
import functools
import itertools
import math
import operator
import typing

import z3

from real_numbers import ROOT_OF_2_BY_PI, ROOT_OF_HALF, Outside, Unstated, apply, choose, divide, is_term, largest, normal, power, quotient
from real_numbers import real, remainder, roundings, smallest, truncated

REALS = ("f64", "f32", "f16", "bf16")
MOST_OPERANDS = 200  # most elements on which an element of an uninterpreted op depends
MOST_STEPS = 100_000  # most multiplications of a product


class Tensor(typing.NamedTuple):
    dims: tuple
    items: list  # row by row

    def at(self, index):
        return self.items[place(index, self.dims)]


def place(index, dims):
    return functools.reduce(lambda sum_, pair: sum_ * pair[1] + pair[0], zip(index, dims), 0)


def indices(dims):
    return itertools.product(*map(range, dims))


def build(dims, item):
    """The tensor whose element at `index` is item(index)."""
    return Tensor(tuple(dims), [item(index) for index in indices(dims)])


def clip(node, x, low=None, high=None):
    if low is not None:
        x = largest(x, low)
    return x if high is None else smallest(x, high)


def gelu(node, x):
    """x / 2 * (1 + erf(x / sqrt 2)), or with tanh."""
    half = fractions.Fraction(1, 2)
    if node.attributes["approximate"] == "tanh":
        inner = x + x * x * x * fractions.Fraction("0.044715")
        return x * half * (1 + apply("tanh", inner * ROOT_OF_2_BY_PI))
    return x * half * (1 + apply("erf", x * ROOT_OF_HALF))


def any_function(node, x):
    return apply(node.op, x)


def any_op(node, shapes, operands):
    """For an op that is not defined here: each element is an uninterpreted function of all elements of the operands."""
    items = [normal(item) for x in operands if x for item in x.items]
    if len(items) > MOST_OPERANDS:
        raise Unstated("too many elements")
    if not any(map(is_term, items)):
        roundings.add("a function of known numbers is rounded")
    terms = [choose(item, z3.Q(1, 1), z3.Q(0, 1)) if isinstance(item, (bool, z3.BoolRef)) else real(item) for item in items]
    results = []
    for number, (dims, type_) in enumerate(zip(shapes, node.types)):
        sort = z3.RealSort() if type_.dtype in REALS else z3.BoolSort() if type_.dtype == "bool" else z3.IntSort()
        name = f"{node.op}{sorted(node.attributes.items())}[{number}]"
        results.append(build(dims, lambda index: z3.Function(f"{name}{index}", *[z3.RealSort()] * len(terms), sort)(*terms)))
    return results


POINTWISE = {
    "abs": lambda node, x: choose(x < 0, -x, x),
    "add": lambda node, x, y: x + y,
    "and": lambda node, x, y: z3.And(x, y) if is_term(x) or is_term(y) else x and y,
    "clip": clip,
    "div": lambda node, x, y: quotient(x, y),
    "equal": lambda node, x, y: x == y,
    "gelu": gelu,
    "greater": lambda node, x, y: x > y,
    "greater_or_equal": lambda node, x, y: x >= y,
    "is_nan": lambda node, x: False,
    "leaky_relu": lambda node, x: choose(x < 0, x * fractions.Fraction(str(node.attributes["alpha"])), x),
    "less": lambda node, x, y: x < y,
    "less_or_equal": lambda node, x, y: x <= y,
    "max": lambda node, *all_: functools.reduce(largest, all_),
    "min": lambda node, *all_: functools.reduce(smallest, all_),
    "mod": lambda node, x, y: remainder(x, y),
    "mul": lambda node, x, y: x * y,
    "neg": lambda node, x: -x,
    "not": lambda node, x: z3.Not(x) if is_term(x) else not x,
    "or": lambda node, x, y: z3.Or(x, y) if is_term(x) or is_term(y) else x or y,
    "pow": lambda node, x, y: power(x, y),
    "reciprocal": lambda node, x: divide(fractions.Fraction(1), x),
    "relu": lambda node, x: choose(x > 0, x, fractions.Fraction(0)),
    "sub": lambda node, x, y: x - y,
    "where": lambda node, condition, x, y: choose(condition, x, y),
} | dict.fromkeys(("cos", "erf", "exp", "log", "sigmoid", "sin", "softplus", "sqrt", "tanh"), any_function)


def pointwise(node, dims, *operands):
    formula = POINTWISE[node.op]

    def item(index):
        return formula(node, *[x if x is None else x.at(broadcast(index, x.dims)) for x in operands])

    return build(dims, item)


def broadcast(index, dims):
    """The index of the element of an operand of shape `dims` that is broadcast to `index`."""
    return tuple(0 if dim == 1 else i for i, dim in zip(index[len(index) - len(dims) :], dims))


def cast(node, dims, x):
    def item(value):
        to = node.attributes["to"]
        if to == "bool":
            return value != 0 if not isinstance(value, (bool, z3.BoolRef)) else value
        if isinstance(value, (bool, z3.BoolRef)):
            value = choose(value, 1, 0)
        if to in REALS:
            return value if is_term(value) else fractions.Fraction(value)
        return truncated(value)

    return Tensor(tuple(dims), [item(value) for value in x.items])


# Ops that move elements. Indices are known numbers.


def known(value, end):
    """A place of `end`."""
    if is_term(value):
        raise Unstated("places are data")
    if not -end <= value < end:
        raise Outside
    return value % end


def gather(node, dims, data, places, cache=None):
    axis, rank = node.attributes["axis"], len(places.dims)
    return build(dims, lambda index: data.at((
        *index[:axis], known(places.at(index[axis : axis + rank]), data.dims[axis]), *index[axis + rank :])))


def gather_nd(node, dims, data, places):
    batch, prefix, tuple_ = node.attributes["batch_dims"], len(places.dims) - 1, places.dims[-1]

    def item(index):
        at = index[:batch]
        for i in range(tuple_):
            at += (known(places.at((*index[:prefix], i)), data.dims[batch + i]),)
        return data.at(at + index[prefix:])

    return build(dims, item)


def lookup(node, dims, keys, wanted, values):
    found = dict(zip(keys.items, values.items))
    if any(map(is_term, [*keys.items, *wanted.items])):
        raise Unstated("places are data")
    return Tensor(tuple(dims), [found.get(key, node.attributes["absent"]) for key in wanted.items])


def concat(node, dims, *operands):
    axis = node.attributes["axis"]

    def item(index):
        at = index[axis]
        for x in operands:
            if at < x.dims[axis]:
                return x.at((*index[:axis], at, *index[axis + 1 :]))
            at -= x.dims[axis]
        raise ValueError("the result is longer than its parts")

    return build(dims, item)


def slice_(node, dims, x):
    starts, steps = node.attributes["starts"], node.attributes["steps"]
    return build(dims, lambda index: x.at([start + i * step for i, start, step in zip(index, starts, steps)]))


def pad(node, dims, x, value):
    pads = node.attributes["pads"]
    if node.attributes["mode"] != "constant":
        raise Unstated(f"pad of mode {node.attributes['mode']}")

    def item(index):
        at = [i - before for i, before in zip(index, pads)]
        return x.at(at) if all(0 <= i < dim for i, dim in zip(at, x.dims)) else value.items[0]

    return build(dims, item)


def tile(node, dims, x):
    return build(dims, lambda index: x.at([i % dim for i, dim in zip(index, x.dims)]))


def trilu(node, dims, x):
    def item(index):
        distance = index[-1] - index[-2] - node.attributes["k"]
        return x.at(index) if (distance >= 0 if node.attributes["upper"] else distance <= 0) else fractions.Fraction(0)

    return build(dims, item)


def transpose(node, dims, x):
    perm = node.attributes["perm"]
    return build(dims, lambda index: x.at([index[perm.index(axis)] for axis in range(len(perm))]))


def scatter_elements(node, dims, x, places, updates):
    axis, items = node.attributes["axis"], list(x.items)
    for index in indices(places.dims):
        at = place((*index[:axis], known(places.at(index), dims[axis]), *index[axis + 1 :]), dims)
        if node.attributes["reduction"] not in ("none", "add"):
            raise Unstated(f"scatter_elements by {node.attributes['reduction']}")
        items[at] = updates.at(index) + (items[at] if node.attributes["reduction"] == "add" else 0)
    return Tensor(tuple(dims), items)


def unpack_int4(node, dims, x):
    def item(index):
        byte = known(x.at((*index[:-1], index[-1] // 2)), 256)
        return byte >> 4 if index[-1] % 2 else byte & 15

    return build(dims, item)


def from_e4m3(node, dims, x):
    def item(code):
        code = known(code, 256)
        exponent, mantissa = code >> 3 & 15, code & 7
        size = fractions.Fraction(8 + mantissa if exponent else mantissa, 8) * fractions.Fraction(2) ** (max(exponent, 1) - 7)
        return -size if code >= 128 else size

    return Tensor(tuple(dims), list(map(item, x.items)))


# Ops that fold.


def rows(x, axes):
    """The elements along `axes`, for each index of the other axes (with extent 1 at `axes`)."""
    axes = [axis % len(x.dims) for axis in axes]
    kept = [1 if axis in axes else dim for axis, dim in enumerate(x.dims)]
    for index in indices(kept):
        yield [x.at([i + j for i, j in zip(index, along)]) for along in indices([dim if axis in axes else 1 for axis, dim in enumerate(x.dims)])]


def mean(row):
    return divide(sum(row), fractions.Fraction(len(row)))


def fold(choice, row):
    if not row:
        raise Unstated("the largest of nothing")
    return functools.reduce(choice, row)


FOLDS = {"reduce_sum": lambda row: sum(row, start=fractions.Fraction(0)), "reduce_mean": mean,
         "reduce_max": lambda row: fold(largest, row), "reduce_min": lambda row: fold(smallest, row)}


def reduce_(node, dims, x):
    return Tensor(tuple(dims), [FOLDS[node.op](row) for row in rows(x, node.attributes["axes"])])


def arg_max(node, dims, x):
    def item(row):
        best, at = row[0], 0
        for i, value in enumerate(row[1:], 1):
            is_better = value >= best if node.attributes["select_last_index"] else value > best
            best, at = choose(is_better, value, best), choose(is_better, i, at)
        return at

    return Tensor(tuple(dims), list(map(item, rows(x, node.attributes["axes"]))))


def cumsum(node, dims, x):
    axis, own = node.attributes["axis"], not node.attributes["exclusive"]

    def item(index):
        at = index[axis]
        along = range(at + (not own), dims[axis]) if node.attributes["reverse"] else range(at + own)
        return sum((x.at((*index[:axis], i, *index[axis + 1 :])) for i in along), start=fractions.Fraction(0))

    return build(dims, item)


def segment_reduce(node, dims, x, begins, ends=None):
    mode, count = node.attributes["mode"], x.dims[0]
    if any(map(is_term, begins.items + (ends.items if ends else []))):
        raise Unstated("places are data")

    def item(index):
        begin = begins.items[index[0]]
        end = ends.items[index[0]] if ends else (begins.items + [count])[index[0] + 1]
        bag = [x.at((row, *index[1:])) for row in range(*slice(begin, end).indices(count))]
        if mode == "max":
            return fold(largest, bag)
        return divide(sum(bag, start=fractions.Fraction(0)), fractions.Fraction(max(len(bag), 1) if mode == "mean" else 1))

    return build(dims, item)


def dot(pairs):
    return sum(map(operator.mul, *zip(*pairs)), start=fractions.Fraction(0)) if pairs else fractions.Fraction(0)


def matmul(node, dims, a, b):
    turn_a, turn_b = node.attributes.get("transpose_a"), node.attributes.get("transpose_b")
    if len(a.dims) < 2 or len(b.dims) < 2:
        raise Unstated("product of a vector")
    depth = a.dims[-2 if turn_a else -1]
    if math.prod(dims) * depth > MOST_STEPS:
        raise Unstated("too many elements")

    def item(index):
        i, j = index[-2:]
        batch_a, batch_b = broadcast(index[:-2], a.dims[:-2]), broadcast(index[:-2], b.dims[:-2])
        return dot([(a.at((*batch_a, *((k, i) if turn_a else (i, k)))), b.at((*batch_b, *((j, k) if turn_b else (k, j))))) for k in range(depth)])

    return build(dims, item)


def slot_matmul(node, dims, x, bank, slots):
    turn = node.attributes["transpose_b"]
    if math.prod(dims) * x.dims[-1] > MOST_STEPS:
        raise Unstated("too many elements")

    def item(index):
        slot = slots.at(index[: len(slots.dims)])
        if slot == -1:
            return fractions.Fraction(0)
        slot, n = known(slot, bank.dims[0]), index[-1]
        return dot([(x.at((*index[:-1], k)), bank.at((slot, n, k) if turn else (slot, k, n))) for k in range(x.dims[-1])])

    return build(dims, item)


# Composite ops: the graphs into which `decompose` turns them are proved to equal these.


def gemm(node, dims, a, b, c=None):
    product = matmul(node, dims, a, b)
    alpha, beta = (fractions.Fraction(str(node.attributes[name])) for name in ("alpha", "beta"))
    return build(dims, lambda index: alpha * product.at(index) + (beta * c.at(broadcast(index, c.dims)) if c else 0))


def softmax(node, dims, x):
    axis = node.attributes["axis"] % len(dims)

    def item(index):
        row = [x.at((*index[:axis], i, *index[axis + 1 :])) for i in range(dims[axis])]
        most = functools.reduce(largest, row)
        total = sum(apply("exp", other - most) for other in row)
        shifted = x.at(index) - most
        return shifted - apply("log", total) if node.op == "log_softmax" else divide(apply("exp", shifted), total)

    return build(dims, item)


def layer_normalization(node, dims, x, scale, shift=None):
    axes = range(node.attributes["axis"], len(dims))
    centers = list(map(mean, rows(x, axes)))
    deviations = [apply("sqrt", mean([(value - center) * (value - center) for value in row]) + fractions.Fraction(str(node.attributes["epsilon"])))
                  for row, center in zip(rows(x, axes), centers)]
    shape = tuple(1 if axis in axes else dim for axis, dim in enumerate(dims))

    def item(index):
        row = place(broadcast(index, shape), shape)
        scaled = divide(x.at(index) - centers[row], deviations[row]) * scale.at(broadcast(index, scale.dims))
        return scaled + shift.at(broadcast(index, shift.dims)) if shift else scaled

    return build(dims, item), Tensor(shape, centers), Tensor(shape, [divide(fractions.Fraction(1), deviation) for deviation in deviations])


def batch_normalization(node, dims, x, scale, shift, center, variance):
    epsilon = fractions.Fraction(str(node.attributes["epsilon"]))

    def item(index):
        c = index[1]
        return divide(x.at(index) - center.items[c], apply("sqrt", variance.items[c] + epsilon)) * scale.items[c] + shift.items[c]

    return build(dims, item)


def conv(node, dims, x, weights, bias=None):
    spatial = len(dims) - 2
    strides, dilations, pads, group = (node.attributes[name] for name in ("strides", "dilations", "pads", "group"))
    per_group, outputs = weights.dims[1], weights.dims[0] // group
    if math.prod(dims) * math.prod(weights.dims[1:]) > MOST_STEPS:
        raise Unstated("too many elements")

    def item(index):
        pairs = []
        for channel, *window in indices(weights.dims[1:]):
            at = [index[2 + a] * strides[a] - pads[a] + window[a] * dilations[a] for a in range(spatial)]
            if all(0 <= i < dim for i, dim in zip(at, x.dims[2:])):
                pairs.append((x.at((index[0], index[1] // outputs * per_group + channel, *at)), weights.at((index[1], channel, *window))))
        return dot(pairs) + (bias.items[index[1]] if bias else 0)

    return build(dims, item)


OTHERS = {
    "cast": cast, "gather": gather, "gather_nd": gather_nd, "lookup": lookup, "concat": concat, "slice": slice_, "pad": pad, "tile": tile, "trilu": trilu,
    "transpose": transpose, "scatter_elements": scatter_elements, "unpack_int4": unpack_int4, "from_e4m3": from_e4m3, "arg_max": arg_max, "cumsum": cumsum, "segment_reduce": segment_reduce,
    "matmul": matmul, "slot_matmul": slot_matmul, "gemm": gemm, "softmax": softmax, "log_softmax": softmax,
    "layer_normalization": layer_normalization, "batch_normalization": batch_normalization, "conv": conv,
    "identity": lambda node, dims, x: x, "reshape": lambda node, dims, x: Tensor(tuple(dims), x.items),
    "expand": lambda node, dims, x: build(dims, lambda index: x.at(broadcast(index, x.dims))),
    "symbolic_dims": lambda node, dims: Tensor(tuple(dims), node.attributes["values"]),
} | dict.fromkeys(FOLDS, reduce_)
