"""Ops whose elements depend only on elements at the same index."""

import math

from builder import ALL, BOOL, FLOATS, I64, INTEGERS, SIGNED, UNKNOWN, UNSIGNED, Unfit, Value, types_of

# Ops with one operand: a function from the operand's bound to the result's.
UNARY = {
    "Abs": lambda b: b, "Acos": None, "Acosh": None, "Asin": None, "Asinh": lambda b: b, "Atan": lambda b: 1.6, "Atanh": None,
    "BitwiseNot": lambda b: b + 1, "Ceil": lambda b: b + 1, "Cos": lambda b: 1.0 if b < UNKNOWN else UNKNOWN, "Cosh": None,
    "Erf": lambda b: 1.0 if b < UNKNOWN else UNKNOWN, "Exp": lambda b: math.exp(b) if b < 20 else UNKNOWN, "Floor": lambda b: b + 1,
    "HardSwish": lambda b: b, "Identity": lambda b: b, "IsInf": None, "IsNaN": None, "Log": None, "Mish": lambda b: b, "Neg": lambda b: b,
    "Not": lambda b: 1.0, "Reciprocal": None, "Relu": lambda b: b, "Round": lambda b: b + 1,
    "Sigmoid": lambda b: 1.0 if b < UNKNOWN else UNKNOWN, "Sign": lambda b: 1.0 if b < UNKNOWN else UNKNOWN,
    "Sin": lambda b: 1.0 if b < UNKNOWN else UNKNOWN, "Sinh": None, "Softplus": lambda b: b + 1,
    "Softsign": lambda b: 1.0 if b < UNKNOWN else UNKNOWN, "Sqrt": None, "Tan": None, "Tanh": lambda b: 1.0 if b < UNKNOWN else UNKNOWN,
}  # fmt: skip
# The attributes of these ops: name -> low, high.
PARAMETERS = {
    "Celu": {"alpha": (0.3, 2)}, "Elu": {"alpha": (0.3, 2)}, "HardSigmoid": {"alpha": (0.1, 1), "beta": (0, 1)},
    "LeakyRelu": {"alpha": (-0.5, 1.5)}, "Selu": {"alpha": (1, 2), "gamma": (0.5, 2)}, "Shrink": {"lambd": (0, 2), "bias": (0, 1)},
    "ThresholdedRelu": {"alpha": (0, 2)}, "Swish": {"alpha": (0.5, 2)},
}  # fmt: skip
COMPARISONS = ("Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual")


def unary(b):
    op = b.random.choice(sorted(UNARY))
    x = b.pick(types_of(op, b.opset))
    bound = UNARY[op](x.bound) if UNARY[op] else UNKNOWN
    if x.dtype in SIGNED and op in ("Abs", "Neg") and bound == UNKNOWN:
        raise Unfit("the least integer has no opposite")
    b.op(op, [x], bound=bound)


def unary_with_parameters(b):
    op = b.random.choice(sorted(PARAMETERS) + ["Gelu"])
    x = b.pick(types_of(op, b.opset))
    if op == "Gelu":
        b.op(op, [x], approximate=b.random.choice((None, "none", "tanh")), bound=x.bound)
        return
    if op == "Shrink" and x.dtype not in FLOATS:
        raise Unfit("integers shrink by fractions")
    given = {name: b.random.uniform(*ends) if b.random.random() < 0.7 else None for name, ends in PARAMETERS[op].items()}
    b.op(op, [x], **given)


def binary(b):
    op = b.random.choice(("Add", "Sub", "Mul", "Div"))
    x = b.pick(types_of(op, b.opset))
    if op == "Div" and x.dtype in INTEGERS:
        y = b.beside(x, low=1, high=5)
        b.op(op, [x, y], bound=x.bound)
        return
    y = b.beside(x)
    operands = [x, y] if b.random.random() < 0.5 else [y, x]
    bounds = {"Add": x.bound + y.bound, "Sub": x.bound + y.bound, "Mul": x.bound * y.bound}
    bound = bounds.get(op, UNKNOWN)
    b.op(op, operands, bound=bound if bound < 1e30 and (x.dtype not in INTEGERS or bound < 100) else UNKNOWN)


def remainder(b):
    x = b.pick(types_of("Mod", b.opset))
    fmod = 1 if x.dtype in FLOATS or b.random.random() < 0.5 else b.random.choice((None, 0))
    y = b.beside(x, low=1, high=5)
    b.op("Mod", [x, y], fmod=fmod, bound=5 if x.bound < UNKNOWN else UNKNOWN)


def power(b):
    x = b.pick(types_of("Pow", b.opset))
    kinds = types_of("Pow", b.opset, 1) if b.opset >= 12 else (x.dtype,)
    dtype = b.dtype(kinds) if b.random.random() < 0.3 else x.dtype
    if x.dtype in INTEGERS:
        b.op("Pow", [x, b.scalar(dtype, b.random.randint(0, 3))])
    elif b.random.random() < 0.5:
        exponent = b.random.choice((2, 3, 1, 0, -1, -2) + ((0.5, -0.5, 1.5) if dtype in FLOATS else ()))
        if dtype in UNSIGNED:
            exponent = abs(exponent)
        b.op("Pow", [x, b.scalar(dtype, exponent)])
    else:
        b.op("Pow", [x, b.beside(x, dtype, low=0, high=3)])


def prelu(b):
    x = b.pick(types_of("PRelu", b.opset))
    b.op("PRelu", [x, b.beside(x, one_way=True)])


def comparison(b):
    op = b.random.choice(COMPARISONS)
    x = b.pick(types_of(op, b.opset))
    y = b.beside(x)
    shape = Value("", BOOL, list(x.shape)) if x.shape == y.shape else None
    b.op(op, [x, y], like=shape)


def logic(b):
    op = b.random.choice(("And", "Or", "Xor"))
    x = b.pick((BOOL,))
    b.op(op, [x, b.beside(x)])


def bits(b):
    op = b.random.choice(("BitwiseAnd", "BitwiseOr", "BitwiseXor", "BitShift"))
    x = b.pick(types_of(op, b.opset))
    if op == "BitShift":
        b.op(op, [x, b.beside(x, low=0, high=7)], direction=b.random.choice(("LEFT", "RIGHT")))
    else:
        b.op(op, [x, b.beside(x)])


def variadic(b):
    op = b.random.choice(("Max", "Min", "Sum", "Mean"))
    x = b.pick(types_of(op, b.opset))
    operands = [x] + [b.beside(x) for _ in range(b.random.randint(0, 3))]
    b.random.shuffle(operands)
    bound = max(value.bound for value in operands) if op != "Sum" else sum(value.bound for value in operands)
    b.op(op, operands, bound=bound if bound < 1e30 else UNKNOWN)


def where(b):
    x = b.pick(types_of("Where", b.opset, 1))
    y = b.beside(x)
    condition = b.beside(x, BOOL)
    b.op("Where", [condition, x, y], bound=max(x.bound, y.bound))


def clip(b):
    x = b.pick(types_of("Clip", b.opset))
    low, high = sorted((b.random.randint(-3, 1), b.random.randint(0, 4)))
    if x.dtype in UNSIGNED:
        low, high = abs(low), abs(low) + high
    if x.dtype in FLOATS:
        low, high = low + b.random.random(), high + 1.5
    ends = [b.scalar(x.dtype, low) if b.random.random() < 0.8 else None, b.scalar(x.dtype, high) if b.random.random() < 0.8 else None]
    b.op("Clip", [x, *ends], bound=4 if all(ends) and x.bound < UNKNOWN else x.bound)


def cast(b):
    target = b.dtype(ALL)
    ends = {0: 1} if target == BOOL else {}
    limit = UNKNOWN if target in FLOATS or ends else 100 if target in (SIGNED[0], UNSIGNED[0]) else 30000
    x = b.pick(types_of("Cast", b.opset), fits=lambda value: value.dtype not in FLOATS or value.bound <= limit)
    if x.dtype in FLOATS and target in UNSIGNED:
        x = b.op("Abs", [x], bound=x.bound)
    if target in UNSIGNED and x.dtype in SIGNED:
        x = b.op("Abs", [x], bound=x.bound) if x.bound < UNKNOWN else x
    bound = x.bound if target not in UNSIGNED or x.dtype not in SIGNED else UNKNOWN
    if b.random.random() < 0.2:
        like = b.pick((target,))
        b.op("CastLike", [x, like], bound=bound)
    else:
        b.op("Cast", [x], to=target, bound=1 if target == BOOL else bound)


def bit_cast(b):
    sizes = ((1, 9), (10, 16, 4, 5), (1, 6, 12), (11, 7, 13))
    x = b.pick(types_of("BitCast", b.opset), fits=lambda value: value.dtype in INTEGERS)
    same = [dtype for group in sizes for dtype in group if x.dtype in group and dtype in INTEGERS]
    if not same:
        raise Unfit("no integers of that width")
    target = b.random.choice(same)
    b.op("BitCast", [x], to=target, like=Value("", target, list(x.shape)))


def one_hot(b):
    depth = b.random.randint(1, 6)
    indices = b.input(b.random.choice((I64, 6)), b.shape(1, 2), -depth, depth - 1)
    dtype = b.dtype(types_of("OneHot", b.opset, 2))
    values = b.constant(b.numbers(dtype, (2,)), dtype)
    b.op("OneHot", [indices, b.ints([depth]) if b.random.random() < 0.5 else b.ints(depth), values], axis=b.random.choice((None, -1, 0, 1)), bound=5)


def eye_like(b):
    x = b.pick(types_of("EyeLike", b.opset), 2, 2)
    b.op("EyeLike", [x], k=b.random.choice((None, 0, 1, -1)), dtype=b.random.choice((None, 1, 7)), bound=1)


def shape_arithmetic(b):
    """Numbers that are computed from a shape, as exporters write them."""
    x = b.pick(ALL, 1)
    if b.random.random() < 0.3:
        size = b.op("Size", [x], bound=5000)
    else:
        shape = b.op("Shape", [x], bound=5000)
        size = b.op("Gather", [shape, b.ints(b.random.randrange(x.rank))], axis=0, bound=5000)
    y = b.pick(FLOATS, 1)
    scale = b.op("Cast", [size], to=y.dtype, bound=5000)
    b.op(b.random.choice(("Mul", "Add", "Sub")), [y, scale], bound=y.bound * 5000 if y.bound < 1e6 else UNKNOWN)


OPS = {unary: 8, unary_with_parameters: 3, binary: 8, remainder: 1, power: 1, prelu: 1, comparison: 2, logic: 1, bits: 1, variadic: 2,
       where: 2, clip: 1, cast: 2, bit_cast: 1.5, one_hot: 0.6, eye_like: 0.3, shape_arithmetic: 0.7}  # fmt: skip
