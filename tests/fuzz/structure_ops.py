"""Branches, loops and local functions."""

import numpy
from builder import BOOL, FLOATS, I64, Value
from onnx import helper

STEPS = ("Abs", "Neg", "Relu", "Sigmoid", "Tanh", "Sqrt", "Exp", "Floor", "Softplus", "Erf")
DOMAIN = "test.functions"


def chain(b, start, others=()):
    """Adds nodes that read `start` and, now and then, one of `others`; returns the last result, which has the type of `start`."""
    nodes, last = [], start
    for _ in range(b.random.randint(1, 3)):
        made = b.name("inner")
        if others and b.random.random() < 0.4:
            nodes.append(helper.make_node(b.random.choice(("Add", "Sub", "Mul", "Max")), [last, b.random.choice(others)], [made]))
        else:
            nodes.append(helper.make_node(b.random.choice(STEPS), [last], [made]))
        last = made
    return nodes, last


def like(value, name):
    return helper.make_tensor_value_info(name, value.dtype, value.shape)


def alike(b, value):
    return [other.name for other in b.values if other.dtype == value.dtype and other.shape == value.shape]


def branch(b):
    x = b.pick(FLOATS[:1], 0, 4, lambda value: not b.derived & set(value.shape))
    graphs = []
    for word in ("then", "else"):
        nodes, last = chain(b, x.name, alike(b, x))
        graphs.append(helper.make_graph(nodes, word, [], [like(x, last)]))
    chosen = b.constant(numpy.array(b.random.random() < 0.5)) if b.random.random() < 0.4 else b.input(BOOL, [])
    made = Value(b.name("if"), x.dtype, x.shape)
    b.nodes.append(helper.make_node("If", [chosen.name], [made.name], name=b.name("If"), then_branch=graphs[0], else_branch=graphs[1]))
    b.values.append(made)


def loop(b):
    x = b.pick(FLOATS[:1], 0, 3, lambda value: not b.derived & set(value.shape))
    state, step, before, after = (b.name(word) for word in ("state", "step", "go", "go_on"))
    nodes, last = chain(b, state, [state, *alike(b, x)])
    nodes.append(helper.make_node("Identity", [before], [after]))
    inputs = [helper.make_tensor_value_info(step, I64, []), helper.make_tensor_value_info(before, BOOL, []), like(x, state)]
    outputs = [helper.make_tensor_value_info(after, BOOL, []), like(x, last)]
    made = [Value(b.name("loop"), x.dtype, x.shape)]
    trips = b.random.randint(1, 4)
    if b.random.random() < 0.4:
        copy = b.name("row")
        nodes.append(helper.make_node("Identity", [last], [copy]))
        outputs.append(like(x, copy))
        made.append(Value(b.name("rows"), x.dtype, [trips, *x.shape]))
    body = helper.make_graph(nodes, "body", inputs, outputs)
    operands = [b.scalar(I64, trips).name, b.constant(numpy.array(True)).name, x.name]
    b.nodes.append(helper.make_node("Loop", operands, [value.name for value in made], name=b.name("Loop"), body=body))
    b.values.extend(made)


def function(b):
    """A local function of two values of the same shape, now and then with an attribute."""
    x = b.pick(FLOATS[:1], 0, 4, lambda value: not b.derived & set(value.shape))
    nodes, last = chain(b, "a", ["b"])
    result = "result"
    attributes, given = [], {}
    if b.random.random() < 0.5:
        node = helper.make_node("LeakyRelu", [last], [result])
        reference = helper.make_node("x", [], []).attribute.add()
        reference.name, reference.ref_attr_name, reference.type = "alpha", "slope", 1
        node.attribute.append(reference)
        attributes, given = ["slope"], {"slope": b.random.uniform(-1, 1)}
    else:
        node = helper.make_node("Identity", [last], [result])
    name = b.name("function")
    b.functions.append(helper.make_function(DOMAIN, name, ["a", "b"], [result], [*nodes, node], [helper.make_opsetid("", b.opset)], attributes))
    other = b.random.choice([x.name, *alike(b, x)])
    made = Value(b.name("call"), x.dtype, x.shape)
    b.nodes.append(helper.make_node(name, [x.name, other], [made.name], name=b.name("Call"), domain=DOMAIN, **given))
    b.values.append(made)


OPS = {branch: 0.6, loop: 0.5, function: 0.7}
