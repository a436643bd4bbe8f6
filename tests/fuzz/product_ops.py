"""Products, convolutions, pooling, recurrences, attention and quantized arithmetic."""

import numpy
from builder import F16, F32, FLOATS, I32, I64, INTEGERS, UNKNOWN, UNSIGNED, Unfit, types_of
from onnx import TensorProto
from reducing_ops import channels, orders

INT8S = (TensorProto.INT8, TensorProto.UINT8)


def matmul(b):
    x = b.pick(types_of("MatMul", b.opset), 1, 4)
    depth = x.shape[-1]
    shape = b.random.choice(([depth], [depth, b.random.randint(1, 9)], [depth, b.random.randint(1, 9)], [*x.shape[:-2], depth, b.random.randint(1, 5)]))
    y = b.new(x.dtype, shape)
    b.op("MatMul", [x, y], bound=bound_of(b, x, y))


def bound_of(b, x, y):
    bound = x.bound * y.bound * b.elements([x.shape[-1]])
    return bound if bound < (100 if x.dtype in INTEGERS else 6e4 if x.dtype == F16 else 1e30) else UNKNOWN


def linear(b):
    """A layer as exporters write it: a product by weights, a bias, an activation."""
    x = b.pick((F32, F16), 2, 4, lambda value: isinstance(value.shape[-1], int))
    width = b.random.choice((1, 4, 8, 16, 33))
    y = b.op("MatMul", [x, b.constant(b.numbers(x.dtype, (x.shape[-1], width), -0.5, 0.5), x.dtype)])
    y = b.op("Add", [y, b.constant(b.numbers(x.dtype, (width,)), x.dtype)])
    activation = b.random.choice(("Relu", "Sigmoid", "Tanh"))
    b.op(activation, [y], bound=1.0 if activation != "Relu" and x.bound < UNKNOWN else UNKNOWN)


def adapter(b):
    """A LoRA adapter beside its layer. Of finite values: a merged layer adds infinities up in another order, and may give one where the two
    products give NaN."""
    x = b.pick((F32, F16), 2, 3, lambda value: isinstance(value.shape[-1], int) and value.bound < UNKNOWN)
    width, rank = b.random.choice((4, 8, 16)), b.random.randint(1, 4)
    base = b.op("MatMul", [x, b.constant(b.numbers(x.dtype, (x.shape[-1], width), -0.5, 0.5), x.dtype)])
    down = b.op("MatMul", [x, b.constant(b.numbers(x.dtype, (x.shape[-1], rank), -0.5, 0.5), x.dtype)])
    up = b.op("MatMul", [down, b.constant(b.numbers(x.dtype, (rank, width), -0.5, 0.5), x.dtype)])
    if b.random.random() < 0.7:
        up = b.op("Mul", [up, b.scalar(x.dtype, 2)])
    b.op("Add", [base, up])


def gemm(b):
    transposed = [b.random.choice((None, 0, 1)) for _ in range(2)]
    x = b.pick(types_of("Gemm", b.opset), 2, 2)
    rows, depth = x.shape[::-1] if transposed[0] else x.shape
    columns = b.random.randint(1, 9)
    y = b.new(x.dtype, [columns, depth] if transposed[1] else [depth, columns])
    c = [b.new(x.dtype, b.random.choice(([columns], [1, columns], [], [rows, columns], [rows, 1])))] if b.random.random() < 0.7 else []
    scales = {name: b.random.choice((None, 2.0, 0.5)) if x.dtype in FLOATS else None for name in ("alpha", "beta")}
    b.op("Gemm", [x, y, *c], transA=transposed[0], transB=transposed[1], **scales)


def einsum(b):
    equation, *ranks = b.random.choice((("ij,jk->ik", 2, 2), ("bij,bjk->bik", 3, 3), ("bij,bkj->bik", 3, 3), ("ij->ji", 2), ("ij->i", 2), ("ii->i", 2),
                                        ("bhqd,bhkd->bhqk", 4, 4), ("i,j->ij", 1, 1), ("bij,bij->b", 3, 3), ("...ij->...ji", 3), ("bi,ij,bj->b", 2, 2, 2)))  # fmt: skip
    dtype = b.dtype(types_of("Einsum", b.opset))
    dims = {letter: b.random.randint(1, 5) for letter in "bhijkqd."}
    dims["b"] = b.dim()
    operands = []
    for letters in equation.split("->")[0].split(","):
        operands.append(b.new(dtype, [dims[letter] for letter in letters.replace("...", ".")]))
    b.op("Einsum", operands, equation=equation)


def windows(b, spatial, kernel, sizes):
    strides = b.random.choice((None, [b.random.randint(1, 2) for _ in range(spatial)]))
    dilations = b.random.choice((None, None, [b.random.randint(1, 2) for _ in range(spatial)]))
    spread = [(k - 1) * (dilations[i] if dilations else 1) for i, k in enumerate(kernel)]
    if any(size <= reach for size, reach in zip(sizes, spread)):
        raise Unfit("a window larger than its tensor")
    attributes = {"strides": strides, "dilations": dilations}
    if b.random.random() < 0.3:
        attributes["auto_pad"] = b.random.choice(("VALID", "SAME_UPPER", "SAME_LOWER", "NOTSET"))
        if attributes["auto_pad"].startswith("SAME") and dilations:
            attributes["dilations"] = None
    elif b.random.random() < 0.6:
        attributes["pads"] = [b.random.randint(0, min(1, k - 1)) for k in kernel] * 2
    return attributes


def fixed(value):
    return [dim for dim in value.shape[2:] if isinstance(dim, int)]


def convolution(b):
    x = channels(b, "Conv", 3, 4)
    sizes = fixed(x)
    if len(sizes) < x.rank - 2:
        raise Unfit("a symbolic window")
    kernel = [b.random.randint(1, min(3, size)) if size else 1 for size in sizes]
    group = b.random.choice([n for n in (1, 2, 3, x.shape[1]) if x.shape[1] % n == 0])
    made = group * b.random.randint(1, 3)
    weight = b.new(x.dtype, [made, x.shape[1] // group, *kernel])
    bias = [b.new(x.dtype, [made])] if b.random.random() < 0.5 else []
    b.op("Conv", [x, weight, *bias], group=group if group > 1 or b.random.random() < 0.3 else None,
         kernel_shape=kernel if b.random.random() < 0.7 else None, **windows(b, len(kernel), kernel, sizes))  # fmt: skip


def pooling(b):
    op = b.random.choice(("MaxPool", "AveragePool", "LpPool", "GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool"))
    x = channels(b, op, 3, 4)
    if "Max" in op and not orders(x):
        raise Unfit("NaN")
    if op.startswith("Global"):
        b.op(op, [x], p=b.random.choice((None, 1, 2)) if op == "GlobalLpPool" else None)
        return
    sizes = fixed(x)
    if len(sizes) < x.rank - 2:
        raise Unfit("a symbolic window")
    kernel = [b.random.randint(1, min(3, size)) if size else 1 for size in sizes]
    attributes = windows(b, len(kernel), kernel, sizes)
    if op == "AveragePool":
        attributes["count_include_pad"] = b.random.choice((None, 0, 1))
    if b.opset < (19 if op == "AveragePool" else 18 if op == "LpPool" else 10):
        attributes["dilations"] = None
    elif b.random.random() < 0.3 and attributes.get("auto_pad") in (None, "NOTSET"):
        attributes["ceil_mode"] = 1
    if op == "LpPool":
        attributes["p"] = b.random.choice((None, 1, 2, 3))
    b.op(op, [x], kernel_shape=kernel, bound=x.bound if op != "LpPool" else UNKNOWN, **attributes)


def resize(b):
    x = channels(b, "Resize", 4, 4)
    mode = b.random.choice(("nearest", "linear", "cubic")) if x.dtype in FLOATS else "nearest"  # for integers, a step could lie on a number
    transforms = ("half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel")
    attributes = {"mode": mode, "coordinate_transformation_mode": b.random.choice(transforms)}
    if mode == "nearest":
        attributes["nearest_mode"] = b.random.choice((None, "floor", "ceil", "round_prefer_floor", "round_prefer_ceil"))
    if mode == "cubic":
        attributes["cubic_coeff_a"] = b.random.choice((None, -0.5))
    empty = b.constant(numpy.zeros(0, numpy.float32), F32, "roi")
    if b.random.random() < 0.5 or not all(isinstance(dim, int) for dim in x.shape):
        scales = [1.0, 1.0, *(b.random.choice((0.5, 1.0, 2.0, 1.5)) for _ in range(x.rank - 2))]
        b.op("Resize", [x, empty if b.opset < 13 else None, b.constant(numpy.array(scales, numpy.float32))], **attributes)
    else:
        sizes = b.ints([*x.shape[:2], *(b.random.randint(1, 9) for _ in range(x.rank - 2))])
        b.op("Resize", [x, empty if b.opset < 13 else None, b.constant(numpy.zeros(0, numpy.float32)) if b.opset < 13 else None, sizes], **attributes)


def recurrence(b):
    op = b.random.choice(("RNN", "GRU", "LSTM"))
    dtype = b.random.choices((F32, F16, TensorProto.DOUBLE), (8, 1, 1))[0]
    direction = b.random.choice((None, "forward", "reverse", "bidirectional"))
    directions, gates = 2 if direction == "bidirectional" else 1, {"RNN": 1, "GRU": 3, "LSTM": 4}[op]
    steps, batch, width, hidden = b.random.randint(1, 5), b.dim(), b.random.randint(1, 5), b.random.randint(1, 5)
    layout = b.random.choice((None, None, None, 1)) if b.opset >= 14 else None
    x = b.input(dtype, [batch, steps, width] if layout else [steps, batch, width])
    weights = [b.new(dtype, shape, -1, 1) for shape in ([directions, gates * hidden, width], [directions, gates * hidden, hidden])]
    bias = b.new(dtype, [directions, 2 * gates * hidden], -1, 1) if b.random.random() < 0.6 else None
    lengths = b.new(I32, [batch], 1, steps) if b.random.random() < 0.3 else None
    state = [batch, directions, hidden] if layout else [directions, batch, hidden]
    start = b.new(dtype, state) if b.random.random() < 0.4 else None
    operands = [x, *weights, bias, lengths, start]
    attributes = {"hidden_size": hidden, "direction": direction, "layout": layout}
    if op == "LSTM":
        operands.append(b.new(dtype, state) if b.random.random() < 0.4 else None)
        operands.append(b.new(dtype, [directions, 3 * hidden], -1, 1) if b.random.random() < 0.2 else None)
        attributes["input_forget"] = b.random.choice((None, None, 1))
    if op == "GRU":
        attributes["linear_before_reset"] = b.random.choice((None, 0, 1))
    attributes["clip"] = b.random.choice((None, None, None, 1.5))
    for result in b.op(op, operands, 3 if op == "LSTM" else 2, **attributes):
        result.bound = 1.0 if op != "LSTM" else UNKNOWN


def attention(b):
    dtype = b.random.choices((F32, F16), (5, 1))[0]
    batch, heads, queries, keys, width = b.dim(), b.random.choice((1, 2, 4)), b.random.randint(1, 6), b.random.randint(1, 6), b.random.choice((1, 4, 8))
    group = b.random.choice([n for n in (1, 2, 4) if heads % n == 0])
    value_width = b.random.choice((width, 3))
    causal = b.random.choice((None, 0, 1))
    if b.random.random() < 0.5:
        q, k, v = ([batch, heads, queries, width], [batch, heads // group, keys, width], [batch, heads // group, keys, value_width])
        attributes = {}
    else:
        q, k, v = ([batch, queries, heads * width], [batch, keys, heads // group * width], [batch, keys, heads // group * value_width])
        attributes = {"q_num_heads": heads, "kv_num_heads": heads // group}
    mask = None
    if b.random.random() < 0.5:
        if b.random.random() < 0.5:
            mask = b.new(dtype, b.random.choice(([queries, keys], [batch, 1, queries, keys], [1, heads, queries, keys])))
        else:  # implementations differ for a query for which all keys are masked
            array = b.numbers(TensorProto.BOOL, b.random.choice(([queries, keys], [1, heads, queries, keys])))
            array[..., 0] = True
            mask = b.constant(array)
    b.op("Attention", [*(b.new(dtype, shape) for shape in (q, k, v)), mask], is_causal=causal, scale=b.random.choice((None, 0.3)),
         softcap=b.random.choice((None, None, 2.0)), **attributes)  # fmt: skip


def rotary(b):
    batch, heads, length, width = b.dim(), b.random.randint(1, 3), b.random.randint(1, 5), b.random.choice((2, 4, 8))
    x = b.new(b.random.choice((F32, F16)), [batch, heads, length, width])
    tables = [b.new(x.dtype, [7, width // 2], -1, 1) for _ in range(2)]
    b.op("RotaryEmbedding", [x, *tables, b.new(I64, [batch, length], 0, 6)], interleaved=b.random.choice((None, 0, 1)))


def scale_of(b, shape, dtype=F32):
    return b.constant(b.numbers(dtype, shape, 0.02, 0.2), dtype, "scale")


def quantize(b):
    x = b.pick((F32,), 1, 4, lambda value: value.bound < 1e6)
    per_axis = b.opset >= 13 and isinstance(x.shape[-1], int) and b.random.random() < 0.4
    shape = (x.shape[-1],) if per_axis else ()
    kind = b.random.choice(INT8S)
    zero = b.constant(b.numbers(kind, shape, 0, 20), kind, "zero_point")
    axis = {"axis": -1} if per_axis else {}
    scale = scale_of(b, shape)
    codes = b.op("QuantizeLinear", [x, scale, zero], bound=255, **axis)
    if b.random.random() < 0.8:
        b.op("DequantizeLinear", [codes, scale, zero], bound=60, **axis)


def requantize(b):
    """Ops that only move elements between a dequantization and a quantization, as quantizers of models write them: often with the same
    scale and zero point, whose codes then need not be computed again."""
    x = b.pick((F32,), 1, 4, lambda value: value.bound < 1e6)
    kind = b.random.choice(INT8S)
    scale, zero = scale_of(b, ()), b.scalar(kind, b.random.choice((0, 3)))
    codes = b.op("QuantizeLinear", [x, scale, zero], bound=255)
    for _ in range(b.random.randint(1, 2)):
        y = b.op("DequantizeLinear", [codes, scale, zero], bound=60)
        if b.random.random() < 0.7:
            y = b.op("Transpose", [y], perm=b.random.sample(range(y.rank), y.rank), bound=60)
        if b.random.random() < 0.3:
            y = b.op("Concat", [y, y], axis=y.rank - 1, bound=60)
        other = b.random.random() < 0.2
        codes = b.op("QuantizeLinear", [y, scale_of(b, ()) if other else scale, zero], bound=255)
    b.op("DequantizeLinear", [codes, scale, zero], bound=60)


def dequantize(b):
    kind = b.random.choice(INT8S)
    shape = b.shape(1, 3)
    codes = b.new(kind, shape, 0 if kind in UNSIGNED else -100, 100)
    b.op("DequantizeLinear", [codes, scale_of(b, ()), b.constant(b.numbers(kind, (), 0, 20), kind, "zero_point")], bound=60)


def integer_product(b):
    op = b.random.choice(("MatMulInteger", "QLinearMatMul", "ConvInteger", "QLinearConv"))
    kinds = [b.random.choice(INT8S), b.random.choice(INT8S)]
    if op.startswith("QLinear") and kinds[0] == TensorProto.INT8:
        kinds[1] = TensorProto.INT8
    # Sums of more than 2^24 / 255^2 terms are computed in parts; onnxruntime may saturate pairs of greater integers.
    is_deep = "Conv" not in op and b.random.random() < 0.25
    most = 60 if is_deep else 20
    limits = [(0, most) if kind in UNSIGNED else (-most, most) for kind in kinds]
    if "Conv" in op:
        shapes = [[b.dim(), 2, 5, 5], [3, 2, 2, 2]]
    else:
        depth = b.random.randint(250, 1100) if is_deep else b.random.randint(1, 9)
        shapes = [[b.dim(), depth], [depth, b.random.randint(1, 6)]]
    x, y = (b.new(kind, shape, *limit) for kind, shape, limit in zip(kinds, shapes, limits))
    if b.random.random() < 0.5:  # weights
        y = b.constant(b.numbers(kinds[1], shapes[1], *limits[1]), kinds[1])
    zeros = [b.scalar(kind, b.random.randint(0, 5)) for kind in kinds]
    if op.endswith("Integer"):
        b.op(op, [x, y, *zeros] if b.random.random() < 0.7 else [x, y], bound=10000000 if is_deep else 100000)
    else:
        out = b.scalar(kinds[0], 3)
        b.op(op, [x, scale_of(b, ()), zeros[0], y, scale_of(b, ()), zeros[1], scale_of(b, ()), out], bound=255)


def spectrum(b):
    x = b.pick((F32, TensorProto.DOUBLE), 1, 3, lambda value: isinstance(value.shape[-1], int))
    y = b.op("Unsqueeze", [x, b.ints([-1])]) if b.opset >= 13 else None
    if y is None or y.rank < 2:
        raise Unfit("no axis of parts")
    y = b.op("Unsqueeze", [y, b.ints([0])]) if y.rank == 2 else y
    if b.opset >= 20:
        b.op("DFT", [y, None, b.scalar(I64, y.rank - 2)], onesided=b.random.choice((None, 0, 1)))
    else:
        b.op("DFT", [y], axis=y.rank - 2, onesided=b.random.choice((None, 0, 1)))


OPS = {matmul: 4, linear: 3, adapter: 1, gemm: 2, einsum: 1, convolution: 1.5, pooling: 1.2, resize: 0.5, recurrence: 0.6, attention: 0.7,
       rotary: 0.4, quantize: 0.8, requantize: 0.6, dequantize: 0.5, integer_product: 0.7, spectrum: 0.3}  # fmt: skip
