"""Small models that once showed defects, in ONNX's text syntax; `doc_string` says what was wrong.

Inputs are random: floats of -3 to 3, integers of 0 to 1, or of the two numbers that the model's metadata have under the input's name. Free dims
are 3, and then 5.
"""

import pathlib

import numpy
import onnx
from builder import random_array, tensor_of

FILES = sorted((pathlib.Path(__file__).parent / "found").glob("*.onnxtxt"))


class Model:
    def __init__(self, number):
        self.proto = onnx.parser.parse_model(FILES[number].read_text())
        ends = {item.key: [float(word) for word in item.value.split()] for item in self.proto.metadata_props}
        random = numpy.random.default_rng(number)
        self.inputs = [[_input(random, value, free, ends.get(value.name)) for value in self.proto.graph.input] for free in (3, 5)]


def _input(random, value, free, ends):
    kind = value.type.tensor_type
    shape = [dim.dim_value if dim.HasField("dim_value") else free for dim in kind.shape.dim]
    low, high = ends or ((-3.0, 3.0) if kind.elem_type in (1, 10, 11, 16) else (0, 1))
    return tensor_of(random_array(random, kind.elem_type, shape, low, high), kind.elem_type, value.name)
