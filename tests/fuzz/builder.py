"""Builds a random ONNX model node by node; ONNX's own shape inference gives the types of results."""

import dataclasses
import functools
import math

import numpy
import onnx
from onnx import TensorProto, helper, numpy_helper, shape_inference

FLOATS = (TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.BFLOAT16, TensorProto.DOUBLE)
SIGNED = (TensorProto.INT8, TensorProto.INT16, TensorProto.INT32, TensorProto.INT64)
UNSIGNED = (TensorProto.UINT8, TensorProto.UINT16, TensorProto.UINT32, TensorProto.UINT64)
INTEGERS = SIGNED + UNSIGNED
NUMBERS = FLOATS + INTEGERS
BOOL = TensorProto.BOOL
F32, F16, I32, I64 = TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.INT32, TensorProto.INT64
ALL = NUMBERS + (BOOL,)
# Weights of the types of new values; mostly f32, as in real models.
WEIGHTS = {TensorProto.FLOAT: 60, TensorProto.FLOAT16: 10, TensorProto.BFLOAT16: 4, TensorProto.DOUBLE: 8, TensorProto.INT64: 9,
           TensorProto.INT32: 6, TensorProto.BOOL: 4}  # fmt: skip
UNKNOWN = math.inf  # the bound of values that may be large, infinite or NaN
MOST_ELEMENTS = 3000


class Unfit(Exception):
    """The op cannot be applied to these values; another one is tried."""


@dataclasses.dataclass
class Value:
    name: str
    dtype: int
    shape: list  # int, or the name of a symbol
    bound: float = UNKNOWN  # if finite: no magnitude is larger, and no element is NaN
    data: object = None  # the array of a constant

    @property
    def rank(self):
        return len(self.shape)


@dataclasses.dataclass
class Range:
    """What an input of the model holds."""

    low: float
    high: float


@functools.lru_cache(maxsize=None)
def schema_of(op, opset, domain=""):
    try:
        return onnx.defs.get_schema(op, opset, domain)
    except onnx.defs.SchemaError:
        return None


@functools.lru_cache(maxsize=None)
def types_of(op, opset, operand=0):
    """The element types that an operand may have."""
    schema = schema_of(op, opset)
    if schema is None:
        return ()
    operand = min(operand, len(schema.inputs) - 1)
    names = {name for name in schema.inputs[operand].types}
    return tuple(dtype for dtype in ALL if f"tensor({_type_word(dtype)})" in names)


def _type_word(dtype):
    return {F32: "float"}.get(dtype, TensorProto.DataType.Name(dtype).lower())


class Builder:
    """`random` makes all decisions. `prefix` is put before all names of tensors and dims, so that models can be combined."""

    def __init__(self, random, opset, prefix=""):
        self.random, self.opset, self.prefix = random, opset, prefix
        self.nodes, self.values, self.inputs, self.initializers, self.functions = [], [], [], [], []
        self.open_outputs, self.ranges, self.symbols = [], {}, {}
        self.derived = set()  # of the symbols
        self.count = 0
        self.sizes = [random.sample((1, 2, 3, 4, 5, 7, 8, 13), 2) for _ in range(2)]  # of each symbol, in each set of inputs

    # Names, dims and new tensors

    def name(self, word):
        self.count += 1
        return f"{self.prefix}{word}_{self.count}"

    def symbol(self):
        number = self.random.randrange(2)
        name = f"{self.prefix}{'batch' if number == 0 else 'items'}"
        self.symbols[name] = self.sizes[number]
        return name

    def size(self, dim, which=0):
        return dim if isinstance(dim, int) else self.symbols[dim][which]

    def dim(self, symbols=True):
        if symbols and self.random.random() < 0.25:
            return self.symbol()
        return self.random.choice((1, 1, 2, 2, 3, 3, 4, 4, 5, 7, 8, 8, 12, 16, 17, 32, 33))

    def shape(self, low=0, high=4, symbols=True):
        while True:
            shape = [self.dim(symbols) for _ in range(self.random.randint(low, high))]
            if self.elements(shape) <= 600:
                return shape

    def elements(self, shape):
        counts = [math.prod(self.size(dim, which) for dim in shape) for which in (0, 1)]
        return max(counts) if min(counts) > 0 else 0

    def dtype(self, allowed):
        if not allowed:
            raise Unfit("no type")
        weights = [WEIGHTS.get(dtype, 2) for dtype in allowed]
        return self.random.choices(allowed, weights)[0]

    def numbers(self, dtype, shape, low=None, high=None):
        """An array of random numbers; floats have many digits, so that none lies exactly on a step of a function by chance."""
        random = numpy.random.default_rng(self.random.getrandbits(63))
        return random_array(random, dtype, shape, low, high)

    def constant(self, array, dtype=None, word="weight"):
        """An initializer, or a Constant node."""
        dtype = helper.np_dtype_to_tensor_dtype(array.dtype) if dtype is None else dtype
        name = self.name(word)
        tensor = tensor_of(array, dtype, name)
        if self.random.random() < 0.3:
            self.nodes.append(helper.make_node("Constant", [], [name], value=tensor))
        else:
            self.initializers.append(tensor)
        finite = [abs(float(x)) for x in array.astype(numpy.float64).ravel()]
        value = Value(name, dtype, list(array.shape), max(finite, default=0.0), array)
        return value

    def ints(self, numbers, dtype=I64):
        return self.constant(numpy.array(numbers, dtype=helper.tensor_dtype_to_np_dtype(dtype)), word="list")

    def scalar(self, dtype, number, shape=()):
        return self.constant(numpy.full(shape, number).astype(helper.tensor_dtype_to_np_dtype(dtype)), dtype, "scalar")

    def input(self, dtype, shape, low=None, high=None):
        if self.derived & set(shape):
            raise Unfit("an input of a derived size")
        value = Value(self.name("x"), dtype, list(shape))
        low, high = (-3.0, 3.0) if dtype in FLOATS and low is None else (0 if dtype in UNSIGNED + (BOOL,) else -5, 5) if low is None else (low, high)
        value.bound = max(abs(low), abs(high)) if dtype != BOOL else 1
        self.inputs.append(value)
        self.ranges[value.name] = Range(low, high)
        self.values.append(value)
        return value

    def new(self, dtype, shape, low=None, high=None):
        """An input, or a constant if no dim is symbolic."""
        if all(isinstance(dim, int) for dim in shape) and self.random.random() < 0.5:
            return self.constant(self.numbers(dtype, shape, low, high), dtype)
        return self.input(dtype, shape, low, high)

    # Operands

    def pick(self, dtypes, low=0, high=5, fits=lambda value: True):
        """A fitting value of the model, mostly a recent one, or a new one."""
        found = [value for value in self.values if value.dtype in dtypes and low <= value.rank <= high and fits(value)]
        if found and self.random.random() < 0.9:
            return found[-1 - min(int(self.random.expovariate(0.4)), len(found) - 1)]
        for _ in range(8):
            shape = self.shape(low, min(high, max(low, 4)))
            value = Value("", self.dtype(dtypes), shape)
            if fits(value):
                return self.input(value.dtype, shape) if self.random.random() < 0.8 else self.new(value.dtype, shape)
        raise Unfit("no operand")

    def beside(self, value, dtype=None, low=None, high=None, one_way=False):
        """A value that broadcasts with `value` (`one_way`: to its shape)."""
        dtype = value.dtype if dtype is None else dtype
        if low is None:
            found = [other for other in self.values if other.dtype == dtype and _broadcasts(other.shape, value.shape, one_way)]
            if found and self.random.random() < 0.6:
                return self.random.choice(found)
        if self.derived & set(value.shape):
            shape = [1 if isinstance(dim, str) else dim for dim in value.shape]
            return self.new(dtype, shape, low, high)
        shape = list(value.shape[self.random.randint(0, value.rank) if self.random.random() < 0.5 else 0 :])
        shape = [1 if self.random.random() < 0.2 else dim for dim in shape]
        return self.new(dtype, shape, low, high)

    # Nodes

    def op(self, op, operands, outputs=1, bound=UNKNOWN, domain="", like=None, **attributes):
        """Adds a node; returns its result, or the list of its results if there are several. Raises Unfit if ONNX rejects it. `like` is a
        value with the type of the result, for ops whose inference gives too little."""
        node = self._node(op, operands, outputs, domain, attributes)
        made = self._infer(node, operands)
        sized = None
        values = []
        for name in node.output:
            value = value_of(name, made.get(name), bound) if like is None else Value(name, like.dtype, list(like.shape), bound)
            if None in value.shape:  # inference does not say it of symbols, but of numbers
                sized = sized or [self._infer(node, operands, which) for which in (0, 1)]
                numbers = [value_of(name, one.get(name), bound).shape for one in sized]
                if any(len(row) != value.rank or None in row for row in numbers):
                    raise Unfit("a dim that inference does not know")
                value.shape = [self._derived(pair) if dim is None else dim for dim, *pair in zip(value.shape, *numbers)]
            if not 0 < self.elements(value.shape) <= MOST_ELEMENTS:
                raise Unfit("too large, or empty")
            values.append(value)
        self.nodes.append(node)
        self.values.extend(values)
        return values[0] if outputs == 1 else values

    def _derived(self, sizes):
        """A new name for a dim that is derived from the inputs' dims."""
        self.count += 1
        name = f"{self.prefix}derived_{self.count}"
        self.symbols[name] = list(sizes)
        self.derived.add(name)
        return name

    def open_op(self, op, operands, outputs=1, **attributes):
        """Adds a node whose results have sizes that depend on data; they become outputs of the model."""
        node = self._node(op, operands, outputs, "", attributes)
        made = self._infer(node, operands)
        self.nodes.append(node)
        self.open_outputs.extend(helper.make_value_info(name, made[name]) for name in node.output)

    def _node(self, op, operands, outputs, domain, attributes):
        if schema_of(op, self.opset, domain) is None:
            raise Unfit(f"no {op} in opset {self.opset}")
        names = [operand.name if operand else "" for operand in operands]
        while names and not names[-1]:
            names.pop()
        attributes = {key: item for key, item in attributes.items() if item is not None}
        results = [self.name(op.lower()) for _ in range(outputs)]
        return helper.make_node(op, names, results, name=self.name(op), domain=domain, **attributes)

    def _infer(self, node, operands, which=None):
        """The types of the results by name; with `which`, for that set of sizes."""
        given = {operand.name: operand for operand in operands if operand}
        types = {name: helper.make_tensor_type_proto(value.dtype, value.shape if which is None else [self.size(dim, which) for dim in value.shape])
                 for name, value in given.items()}  # fmt: skip
        data = {name: tensor_of(value.data, value.dtype, name) for name, value in given.items() if value.data is not None}
        try:
            return shape_inference.infer_node_outputs(schema_of(node.op_type, self.opset, node.domain), node, types, data,
                                                      opset_imports=[helper.make_opsetid("", self.opset)], ir_version=10)  # fmt: skip
        except Exception as failure:  # of inference, which has no class of its own
            raise Unfit(str(failure)) from failure


def _broadcasts(other, shape, one_way):
    if one_way and len(other) > len(shape):
        return False
    pairs = zip(reversed(other), reversed(shape))
    return all(a == b or a == 1 or (b == 1 and not one_way) for a, b in pairs)


def value_of(name, made, bound):
    if made is None or not made.tensor_type.HasField("shape"):
        raise Unfit("no shape")
    shape = []
    for dim in made.tensor_type.shape.dim:
        if dim.HasField("dim_value"):
            shape.append(dim.dim_value)
        elif dim.HasField("dim_param"):
            shape.append(dim.dim_param)
        else:
            shape.append(None)
    if made.tensor_type.elem_type not in ALL:
        raise Unfit("a type that no op takes")
    return Value(name, made.tensor_type.elem_type, shape, 1.0 if made.tensor_type.elem_type == BOOL else bound)


def random_array(random, dtype, shape, low=None, high=None):
    if dtype == BOOL:
        return random.random(shape) < 0.5
    if dtype in FLOATS:
        low, high = (-3.0, 3.0) if low is None else (low, high)
        return random.uniform(low, high, shape).astype(helper.tensor_dtype_to_np_dtype(dtype))
    low, high = (0 if dtype in UNSIGNED else -5, 5) if low is None else (low, high)
    return random.integers(int(low), int(high), shape, endpoint=True).astype(helper.tensor_dtype_to_np_dtype(dtype))


def tensor_of(array, dtype, name):
    tensor = numpy_helper.from_array(numpy.ascontiguousarray(array).reshape(array.shape), name)
    assert tensor.data_type == dtype, (tensor.data_type, dtype)
    return tensor
