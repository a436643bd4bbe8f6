"""Reductions, scans, softmaxes and normalizations."""

from builder import F32, FLOATS, I64, INTEGERS, UNKNOWN, Unfit, types_of
from moving_ops import axis_of, maybe_negative

REDUCTIONS = {"ReduceMax": 3, "ReduceMin": 3, "ReduceSum": 3, "ReduceMean": 3, "ReduceProd": 1, "ReduceL1": 1, "ReduceL2": 1,
              "ReduceLogSum": 1, "ReduceLogSumExp": 1, "ReduceSumSquare": 1}  # fmt: skip


def orders(value):
    """Whether the value has no NaN, which implementations order differently."""
    return value.dtype not in FLOATS or value.bound < UNKNOWN


def overflows(op, x):
    """Whether products of the value's integers may overflow, where implementations differ."""
    return op in ("ReduceProd", "CumProd") and x.dtype in INTEGERS and x.bound > 1


def reduction(b):
    op = b.random.choices(list(REDUCTIONS), list(REDUCTIONS.values()))[0]
    x = b.pick(types_of(op, b.opset), 1, 4, orders if op in ("ReduceMax", "ReduceMin") else lambda value: True)
    if x.dtype in INTEGERS and op in ("ReduceLogSum", "ReduceLogSumExp", "ReduceL2", "ReduceMean"):
        raise Unfit("a fraction in an integer")
    if overflows(op, x):
        raise Unfit("a product that no integer holds")
    axes = sorted(b.random.sample(range(x.rank), b.random.randint(1, x.rank))) if b.random.random() < 0.85 else None
    axes = [maybe_negative(b, axis, x.rank) for axis in axes] if axes else None
    keepdims = b.random.choice((None, 0, 1))
    bound = {"ReduceMax": x.bound, "ReduceMin": x.bound, "ReduceMean": x.bound, "ReduceSum": x.bound * 3000}.get(op, UNKNOWN)
    from_operand = b.opset >= (13 if op == "ReduceSum" else 18)
    if x.dtype in INTEGERS and bound > 100:
        bound = UNKNOWN
    if from_operand:
        b.op(op, [x, b.ints(axes)] if axes else [x], keepdims=keepdims, noop_with_empty_axes=b.random.choice((None, None, 0, 1)), bound=bound)
    else:
        b.op(op, [x], axes=axes, keepdims=keepdims, bound=bound)


def arg(b):
    op = b.random.choice(("ArgMax", "ArgMin"))
    x = b.pick(types_of(op, b.opset), 1, 4, orders)
    axis = axis_of(b, x)
    last = b.random.choice((None, 0, 1)) if b.opset >= 12 else None
    b.op(op, [x], axis=maybe_negative(b, axis, x.rank), keepdims=b.random.choice((None, 0, 1)), select_last_index=last, bound=b.elements([x.shape[axis]]))


def scan(b):
    op = b.random.choice(("CumSum", "CumSum", "CumProd"))
    x = b.pick(types_of(op, b.opset), 1, 4)
    if overflows(op, x):
        raise Unfit("a product that no integer holds")
    axis = b.scalar(I64, maybe_negative(b, axis_of(b, x), x.rank))
    b.op(op, [x, axis], exclusive=b.random.choice((None, 0, 1)), reverse=b.random.choice((None, 0, 1)))


def softmax(b):
    op = b.random.choice(("Softmax", "Softmax", "LogSoftmax", "Hardmax"))
    x = b.pick(types_of(op, b.opset), 1, 4, orders if op == "Hardmax" else lambda value: True)
    b.op(op, [x], axis=maybe_negative(b, axis_of(b, x), x.rank), bound=1 if op == "Softmax" and x.bound < UNKNOWN else UNKNOWN)


def layer_normalization(b):
    op = b.random.choice(("LayerNormalization", "LayerNormalization", "RMSNormalization"))
    x = b.pick(types_of(op, b.opset), 1, 4, lambda value: all(isinstance(dim, int) for dim in value.shape[-1:]))
    axis = x.rank - 1
    while axis > 0 and isinstance(x.shape[axis - 1], int) and b.random.random() < 0.3:
        axis -= 1
    scale = b.new(x.dtype, x.shape[axis:])
    bias = [b.new(x.dtype, x.shape[axis:])] if op == "LayerNormalization" and b.random.random() < 0.7 else []
    b.op(op, [x, scale, *bias], axis=maybe_negative(b, axis, x.rank), epsilon=b.random.choice((None, 1e-5, 1e-3)),
         bound=1000 if x.bound < 1e6 else UNKNOWN)  # fmt: skip


def channels(b, op, low=3, high=4):
    """A tensor of f32 (mostly) with channels, a size that is a number."""
    allowed = types_of(op, b.opset)
    found = [v for v in b.values if v.dtype in allowed and low <= v.rank <= high and isinstance(v.shape[1], int) and v.shape[1] > 0]
    if found and b.random.random() < 0.5:
        return b.random.choice(found)
    return b.input(b.dtype(allowed), [b.dim(), b.random.randint(1, 6), *(b.random.randint(2, 7) for _ in range(b.random.randint(low, high) - 2))])


def batch_normalization(b):
    x = channels(b, "BatchNormalization", 2, 4)
    kind = x.dtype
    scale, bias, mean = (b.new(kind, [x.shape[1]]) for _ in range(3))
    variance = b.new(kind, [x.shape[1]], 0.1, 2)
    b.op("BatchNormalization", [x, scale, bias, mean, variance], epsilon=b.random.choice((None, 1e-3)))


def group_normalization(b):
    x = channels(b, "GroupNormalization")
    if schema_missing(b, "GroupNormalization"):
        raise Unfit("not yet")
    groups = b.random.choice([n for n in range(1, x.shape[1] + 1) if x.shape[1] % n == 0])
    count = groups if b.opset < 21 else x.shape[1]
    b.op("GroupNormalization", [x, b.new(x.dtype, [count]), b.new(x.dtype, [count])], num_groups=groups, epsilon=b.random.choice((None, 1e-3)), like=x)


def schema_missing(b, op):
    return not types_of(op, b.opset)


def instance_normalization(b):
    x = channels(b, "InstanceNormalization")
    b.op("InstanceNormalization", [x, b.new(x.dtype, [x.shape[1]]), b.new(x.dtype, [x.shape[1]])], epsilon=b.random.choice((None, 1e-3)))


def other_normalization(b):
    op = b.random.choice(("MeanVarianceNormalization", "LpNormalization", "LRN"))
    x = channels(b, op, 4, 4)
    if op == "MeanVarianceNormalization":
        if x.dtype != F32 or b.opset < 13:
            raise Unfit("ONNX's function of it is for f32, and has Constants of opset 12")
        # For equal elements onnxruntime gives NaN, and ONNX 0. Without axes the op's function body is invalid.
        x = b.input(F32, [b.dim(), b.random.randint(2, 6), b.random.randint(2, 7), b.random.randint(2, 7)])
        b.op(op, [x], axes=b.random.choice(([0, 2, 3], [1], [2, 3])), like=x)
    elif op == "LpNormalization":
        b.op(op, [x], p=b.random.choice((None, 1, 2)), axis=b.random.randrange(-1, x.rank))
    else:
        b.op(op, [x], size=b.random.choice((1, 3, 5)), alpha=b.random.choice((None, 0.01)), beta=b.random.choice((None, 0.5)), bias=b.random.choice((None, 2.0)))


OPS = {reduction: 7, arg: 1.5, scan: 1.5, softmax: 2.5, layer_normalization: 2, batch_normalization: 0.7, group_normalization: 0.5,
       instance_normalization: 0.5, other_normalization: 0.6}  # fmt: skip
