"""Writes the models of this folder with inner sizes that depend on data: python tests/end_to_end/models/count_models.py (needs onnx)."""

import pathlib

import numpy as np
import onnx

# Clicked items attend to items that were not clicked: a mask determines the sizes of both axes of the scores, and the rows of both kinds
# are concatenated.
MASKED_PAIRS = """<ir_version: 10, opset_import: ["" : 20]>
masked_pairs (float[n, 8] items, bool[n] clicked) => (float[p, 8] asked, float[p, q] scores, float[all, 8] joined) {
  ignored = Not (clicked)
  asking = Compress <axis = 0> (items, clicked)
  others = Compress <axis = 0> (items, ignored)
  keys = Transpose (others)
  products = MatMul (asking, keys)
  scores = Softmax <axis = 1> (products)
  asked = MatMul (scores, others)
  joined = Concat <axis = 0> (asked, others)
}"""

# Each distinct pair of ids is looked up once.
UNIQUE_ROWS = """<ir_version: 10, opset_import: ["" : 20]>
unique_rows (int64[n, 2] pairs) => (float[n, 4] rows, float[k, 4] different, int64[k] counts) {
  zero = Constant <value_int = 0> ()
  one = Constant <value_int = 1> ()
  pair, first, of, counts = Unique <axis = 0> (pairs)
  user = Gather <axis = 1> (pair, zero)
  item = Gather <axis = 1> (pair, one)
  of_user = Gather (users, user)
  of_item = Gather (items, item)
  both = Concat <axis = 1> (of_user, of_item)
  different = Gelu (both)
  rows = Gather (different, of)
}"""


def write(name, text, **weights):
    model = onnx.parser.parse_model(text)
    model.graph.initializer.extend(onnx.numpy_helper.from_array(weight, name) for name, weight in weights.items())
    onnx.save(model, pathlib.Path(__file__).parent / f"{name}.onnx")


random = np.random.default_rng(7)
write("masked_pairs", MASKED_PAIRS)
write("unique_rows", UNIQUE_ROWS, users=random.normal(size=(7, 2)).astype("f4"), items=random.normal(size=(5, 2)).astype("f4"))
