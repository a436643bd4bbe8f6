"""Ops that move elements: views, gathers and scatters, and ops that number and sort elements."""

import numpy
from builder import ALL, BOOL, FLOATS, I32, I64, NUMBERS, UNKNOWN, Unfit, types_of
from onnx import helper


def axis_of(b, value, fits=lambda dim: True):
    axes = [axis for axis, dim in enumerate(value.shape) if fits(dim)]
    if not axes:
        raise Unfit("no axis")
    return b.random.choice(axes)


def maybe_negative(b, axis, rank):
    return axis - rank if b.random.random() < 0.3 else axis


def concat(b):
    x = b.pick(ALL, 1)
    axis = axis_of(b, x)
    parts = [x]
    for _ in range(b.random.randint(0, 3)):
        fits = [v for v in b.values if v.dtype == x.dtype and v.rank == x.rank and all(i == axis or p == q for i, (p, q) in enumerate(zip(v.shape, x.shape)))]
        if fits and b.random.random() < 0.7:
            parts.append(b.random.choice(fits))
        else:
            parts.append(b.new(x.dtype, [b.random.randint(1, 4) if i == axis else dim for i, dim in enumerate(x.shape)]))
    b.random.shuffle(parts)
    b.op("Concat", parts, axis=maybe_negative(b, axis, x.rank), bound=max(part.bound for part in parts))


def expand(b):
    x = b.pick(ALL, 0, 4, lambda value: all(isinstance(dim, int) for dim in value.shape))
    shape = [b.random.randint(1, 4) if dim == 1 and b.random.random() < 0.7 else 1 if b.random.random() < 0.2 else dim for dim in x.shape]
    shape = [b.random.randint(1, 3) for _ in range(b.random.randint(0, 2))] + shape
    b.op("Expand", [x, b.ints(shape)], bound=x.bound)


def pad(b):
    x = b.pick(types_of("Pad", b.opset), 1, 4)
    mode = b.random.choice(("constant", "constant", "reflect", "edge", "wrap" if b.opset >= 19 else "edge"))
    most = [2 if mode in ("constant", "edge") else min(2, min(b.size(dim, 0), b.size(dim, 1)) - 1) for dim in x.shape]
    pads = [b.random.randint(0, max(0, room)) for room in most * 2]
    if mode == "constant" and b.random.random() < 0.3:
        pads = [-1 if count == 0 and isinstance(dim, int) and dim > 3 else count for count, dim in zip(pads, list(x.shape) * 2)]
    if mode == "constant" and b.random.random() < 0.6:
        b.op("Pad", [x, b.ints(pads), b.scalar(x.dtype, 1)], mode=None, bound=max(x.bound, 1))
    else:
        b.op("Pad", [x, b.ints(pads)], mode=mode, bound=x.bound)


def flatten(b):
    x = b.pick(types_of("Flatten", b.opset), 0, 4)
    axis = b.random.randint(0, x.rank)
    b.op("Flatten", [x], axis=maybe_negative(b, axis, x.rank) if axis < x.rank else axis, bound=x.bound)


def reshape(b):
    x = b.pick(ALL, 0, 5)
    fixed = [dim for dim in x.shape if isinstance(dim, int)]
    count = int(numpy.prod(fixed, dtype=numpy.int64))
    if len(fixed) < x.rank:
        if len(fixed) < x.rank - 1 or count == 0:
            raise Unfit("several symbols")
        symbol = next(axis for axis, dim in enumerate(x.shape) if not isinstance(dim, int))
        rest = b.random.choice(([count], [1, count], [count, 1]))
        target = [-1, *rest] if b.random.random() < 0.7 else [*rest, -1]
        if symbol == 0 and b.random.random() < 0.5:
            target = [0, *rest]
    else:
        target = factors(b, count)
        if count > 0 and target and b.random.random() < 0.5:
            target[b.random.randrange(len(target))] = -1
    b.op("Reshape", [x, b.ints(target)], bound=x.bound)


def factors(b, count):
    target = []
    while count > 1 and len(target) < 3:
        divisors = [n for n in range(1, count + 1) if count % n == 0]
        target.append(b.random.choice(divisors))
        count //= target[-1]
    return [*target, count] if count != 1 or b.random.random() < 0.5 else target


def squeeze(b):
    x = b.pick(ALL, 1, 5, lambda value: 1 in value.shape)
    ones = [axis for axis, dim in enumerate(x.shape) if dim == 1]
    axes = sorted(b.random.sample(ones, b.random.randint(1, len(ones))))
    axes = [maybe_negative(b, axis, x.rank) for axis in axes]
    if b.opset >= 13:
        b.op("Squeeze", [x, b.ints(axes)], bound=x.bound)
    else:
        b.op("Squeeze", [x], axes=axes, bound=x.bound)


def unsqueeze(b):
    x = b.pick(ALL, 0, 4)
    rank = x.rank + b.random.randint(1, 2)
    axes = sorted(b.random.sample(range(rank), rank - x.rank))
    axes = [maybe_negative(b, axis, rank) for axis in axes]
    if b.opset >= 13:
        b.op("Unsqueeze", [x, b.ints(axes)], bound=x.bound)
    else:
        b.op("Unsqueeze", [x], axes=axes, bound=x.bound)


def slice_(b):
    x = b.pick(ALL, 1, 5)
    axes = b.random.sample(range(x.rank), b.random.randint(1, min(2, x.rank)))
    starts, ends, steps = [], [], []
    for axis in axes:
        if not isinstance(x.shape[axis], int):
            starts.append(0), ends.append(2**31), steps.append(1)
            continue
        dim = x.shape[axis]
        step = b.random.choice((1, 1, 1, 2, 3, -1, -2))
        low, high = sorted((b.random.randint(0, dim), b.random.randint(0, dim)))
        if low == high:
            low, high = 0, dim
        if step > 0:
            starts.append(b.random.choice((low, low - dim) if low < dim else (low,))), ends.append(b.random.choice((high, 2**31 - 1) if high == dim else (high,)))
        else:
            starts.append(high - 1), ends.append(low - 1 if low > 0 else -(2**31))
        steps.append(step)
    dtype = b.random.choice((I32, I64)) if max(map(abs, ends)) < 2**31 else I64
    axes = [maybe_negative(b, axis, x.rank) for axis in axes]
    b.op("Slice", [x, b.ints(starts, dtype), b.ints(ends, dtype), b.ints(axes, dtype), b.ints(steps, dtype)], bound=x.bound)


def split(b):
    x = b.pick(ALL, 1, 5, lambda value: any(isinstance(dim, int) and dim > 1 for dim in value.shape))
    axis = axis_of(b, x, lambda dim: isinstance(dim, int) and dim > 1)
    dim, count = x.shape[axis], b.random.randint(1, 3)
    attribute = maybe_negative(b, axis, x.rank)
    if b.random.random() < 0.5:
        cuts = sorted(b.random.choices(range(1, dim), k=count - 1))
        sizes = [end - begin for begin, end in zip([0, *cuts], [*cuts, dim])]
        if b.opset >= 13:
            b.op("Split", [x, b.ints(sizes)], len(sizes), axis=attribute, bound=x.bound)
        else:
            b.op("Split", [x], len(sizes), axis=attribute, split=sizes, bound=x.bound)
    elif b.opset >= 18:
        b.op("Split", [x], count, axis=attribute, num_outputs=count, bound=x.bound)
    elif dim % count == 0:
        b.op("Split", [x], count, axis=attribute, bound=x.bound)


def tile(b):
    x = b.pick(ALL, 0, 4)
    b.op("Tile", [x, b.ints([b.random.randint(1, 3) if isinstance(dim, int) else 1 for dim in x.shape])], bound=x.bound)


def transpose(b):
    x = b.pick(ALL, 0, 5)
    order = list(range(x.rank))
    b.random.shuffle(order)
    b.op("Transpose", [x], perm=order if x.rank and b.random.random() < 0.8 else None, bound=x.bound)


def trilu(b):
    x = b.pick(types_of("Trilu", b.opset), 2, 4)
    operands = [x, b.scalar(I64, b.random.randint(-3, 3))] if b.random.random() < 0.5 else [x]
    b.op("Trilu", operands, upper=b.random.choice((None, 0, 1)), bound=x.bound)


def dropout(b):
    x = b.pick(types_of("Dropout", b.opset))
    b.op("Dropout", [x], bound=x.bound)


def blocks(b):
    size = b.random.randint(1, 3)
    shape = [b.dim(), b.random.randint(1, 2), b.random.randint(1, 3), b.random.randint(1, 3)]
    op = b.random.choice(("DepthToSpace", "SpaceToDepth"))
    shape = [shape[0], shape[1] * size * size, *shape[2:]] if op == "DepthToSpace" else [*shape[:2], shape[2] * size, shape[3] * size]
    x = b.new(b.dtype(types_of(op, b.opset)), shape)
    b.op(op, [x], blocksize=size, mode=b.random.choice((None, "DCR", "CRD")) if op == "DepthToSpace" else None, bound=x.bound)


def least(b, dim):
    return min(b.size(dim, 0), b.size(dim, 1))


def indices(b, shape, limit, dtype=None):
    low = -limit if b.random.random() < 0.5 else 0
    return b.new(b.random.choice((I32, I64)) if dtype is None else dtype, shape, low, limit - 1)


def gather(b):
    x = b.pick(ALL, 1, 4)
    axis = axis_of(b, x, lambda dim: least(b, dim) > 0)
    shape = b.random.choice(([], [b.dim()], [b.dim(), b.random.randint(1, 3)]))
    b.op("Gather", [x, indices(b, shape, least(b, x.shape[axis]))], axis=maybe_negative(b, axis, x.rank), bound=x.bound)


def gather_elements(b):
    x = b.pick(ALL, 1, 4)
    axis = axis_of(b, x)
    shape = [b.random.randint(1, 5) if i == axis else dim for i, dim in enumerate(x.shape)]
    b.op("GatherElements", [x, indices(b, shape, least(b, x.shape[axis]))], axis=maybe_negative(b, axis, x.rank), bound=x.bound)


def gather_nd(b):
    x = b.pick(ALL, 1, 4)
    batch_dims = b.random.choice((0, 0, 1)) if x.rank > 1 and b.opset >= 12 else 0
    depth = b.random.randint(1, x.rank - batch_dims)
    limit = min(least(b, dim) for dim in x.shape[batch_dims : batch_dims + depth])
    shape = [*x.shape[:batch_dims], *([b.dim()] if b.random.random() < 0.7 else []), depth]
    b.op("GatherND", [x, indices(b, shape, limit, I64)], batch_dims=batch_dims if b.opset >= 12 else None, bound=x.bound)


def scatter_elements(b):
    x = b.pick(ALL, 1, 4)
    axis = axis_of(b, x)
    shape = [b.random.randint(1, dim) if isinstance(dim, int) else dim for dim in x.shape]
    count, limit = b.elements([shape[axis]]), least(b, x.shape[axis])
    reductions = (None, "none") if b.opset < 16 else (None, "add", "mul") if b.opset < 18 else ("add", "mul", "max", "min") if x.bound < UNKNOWN else ("add",)
    reduction = b.random.choice(reductions) if x.dtype in NUMBERS else None
    if reduction in (None, "none"):  # each place at most once, since otherwise the answer is undefined
        if count > limit or not all(isinstance(dim, int) for dim in shape):
            raise Unfit("places twice")
        places = numpy.stack([numpy.random.default_rng(b.random.getrandbits(32)).permutation(limit) for _ in range(int(numpy.prod(shape)) // max(1, count))])
        places = numpy.moveaxis(places[:, :count].reshape([dim for i, dim in enumerate(shape) if i != axis] + [count]), -1, axis)
        where = b.constant(places.astype(numpy.int64), I64, "places")
    else:
        where = indices(b, shape, limit)
    updates = b.new(x.dtype, shape)
    b.op("ScatterElements", [x, where, updates], axis=maybe_negative(b, axis, x.rank), reduction=reduction if b.opset >= 16 else None,
         bound=max(x.bound, updates.bound) if reduction in (None, "none", "max", "min") else UNKNOWN)  # fmt: skip


def scatter_nd(b):
    x = b.pick(ALL, 1, 4)
    depth = b.random.randint(1, x.rank)
    limit = min(least(b, dim) for dim in x.shape[:depth])
    reductions = (None,) if b.opset < 16 else (None, "add", "mul") if b.opset < 18 else (None, "add", "mul", "max", "min") if x.bound < UNKNOWN else (None, "add")
    reduction = b.random.choice(reductions) if x.dtype in NUMBERS else None
    count = b.random.randint(1, 4)
    if reduction is None:
        rows = numpy.random.default_rng(b.random.getrandbits(32)).permutation(limit)[:count]
        where = b.constant(numpy.stack([rows] * depth, -1).astype(numpy.int64), I64, "places")
        count = len(rows)
    else:
        where = indices(b, [count, depth], limit, I64)
    updates = b.new(x.dtype, [count, *x.shape[depth:]])
    b.op("ScatterND", [x, where, updates], reduction=reduction, bound=max(x.bound, updates.bound) if reduction in (None, "max", "min") else UNKNOWN)


def top_k(b):
    x = b.pick(types_of("TopK", b.opset), 1, 4, lambda value: value.dtype not in FLOATS or value.bound < UNKNOWN)
    axis = axis_of(b, x)
    values, places = b.op("TopK", [x, b.ints([b.random.randint(1, least(b, x.shape[axis]))])], 2, axis=maybe_negative(b, axis, x.rank),
                          largest=b.random.choice((None, 0, 1)), sorted=b.random.choice((None, 1)))  # fmt: skip
    values.bound, places.bound = x.bound, b.elements([x.shape[axis]])


def reverse_sequence(b):
    length, batch = b.random.randint(1, 6), b.dim()
    batch_axis = b.random.randrange(2)
    x = b.new(b.dtype(types_of("ReverseSequence", b.opset)), [batch, length, 3][: 2 + b.random.randrange(2)] if batch_axis == 0 else [length, batch])
    lengths = b.new(I64, [batch], 1, length)
    b.op("ReverseSequence", [x, lengths], batch_axis=batch_axis, time_axis=1 - batch_axis, bound=x.bound)


def counted_rows(b):
    """Ops with results whose size depends on data; the results become outputs."""
    op = b.random.choice(("NonZero", "Compress", "Unique"))
    x = b.pick(types_of(op, b.opset), 1, 3, lambda value: all(isinstance(dim, int) for dim in value.shape))
    b.open_op(op, [x, *([b.new(BOOL, [b.random.randint(1, b.elements(x.shape))])] if op == "Compress" else [])], 1 if op != "Unique" else 4)


def generator(b):
    op = b.random.choice(("Range", "ConstantOfShape"))
    if op == "Range":
        dtype = b.dtype(types_of("Range", b.opset))
        start, step, count = b.random.randint(-3, 3), b.random.choice((1, 2, -1)), b.random.randint(1, 9)
        if dtype in FLOATS:
            step = step / 2
        numbers = [b.scalar(dtype, number) for number in (start, start + step * count, step)]
        made = b.op("Range", numbers, bound=30)
        other = b.pick((dtype,), 0, 4)
        b.op("Add", [made, b.beside(made, dtype)] if other.shape != [1] else [made, other])
    else:
        x = b.pick(FLOATS, 1, 4)
        shape = b.op("Shape", [x])
        made = b.op("ConstantOfShape", [shape], value=helper.make_tensor("value", x.dtype, [1], [b.random.uniform(-2, 2)]), bound=2, like=x)
        b.op("Add", [x, made])


OPS = {concat: 4, expand: 1.5, pad: 1.5, flatten: 1, reshape: 4, squeeze: 1.5, unsqueeze: 2, slice_: 4, split: 2, tile: 1, transpose: 4,
       trilu: 0.5, dropout: 0.2, blocks: 0.4, gather: 3, gather_elements: 1, gather_nd: 1, scatter_elements: 1, scatter_nd: 1, top_k: 1,
       reverse_sequence: 0.3, counted_rows: 0.3, generator: 0.5}  # fmt: skip
