"""Outputs in the memory of inputs: a cache of keys and values to which calls add rows."""

import unittest

import fusec
import numpy as np
import onnx
import onnx.parser
from support import FOLDER

# One layer of attention; sequence b has lengths[b] rows in the cache before a call.
CACHED = """<ir_version: 13, opset_import: ["" : 24]>
g (float[batch, 2, new, 8] q, float[batch, 2, new, 8] k, float[batch, 2, new, 8] v, int64[batch] lengths,
   float[batch, 2, size, 8] past_key, float[batch, 2, size, 8] past_value)
  => (float[batch, 2, new, 8] y, float[batch, 2, rows, 8] present_key, float[batch, 2, rows, 8] present_value)
<int64[1] two = {2}, int64[1] three = {3}> {
  present_key = TensorScatter<axis = 2>(past_key, k, lengths)
  present_value = TensorScatter<axis = 2>(past_value, v, lengths)
  all = Shape<start = 2, end = 3>(q)
  end = Add(lengths, all)
  y = Attention<is_causal = 0>(q, present_key, present_value, , , , end)
}"""
# The same with positions instead of lengths, as PyTorch exports a static cache: keys by index_copy, values by scatter.
STATIC = """<ir_version: 10, opset_import: ["" : 20]>
g (float[batch, 2, new, 8] q, float[batch, 2, new, 8] k, float[batch, 2, new, 8] v, int64[new] positions,
   float[batch, 2, size, 8] past_key, float[batch, 2, size, 8] past_value)
  => (float[batch, 2, new, 8] y, float[batch, 2, rows, 8] present_key, float[batch, 2, rows, 8] present_value)
<int64[1] last = {-1}, int64[1] first = {0}, int64[4] along = {1, 1, -1, 1}, int64[1] two = {2}, int64 zero = {0}, int64 one = {1}, float low = {-1e9}> {
  places = Unsqueeze(positions, last)
  key_data = Transpose<perm = [2, 0, 1, 3]>(past_key)
  key_rows = Transpose<perm = [2, 0, 1, 3]>(k)
  key_scattered = ScatterND(key_data, places, key_rows)
  present_key = Transpose<perm = [1, 2, 0, 3]>(key_scattered)
  value_places = Reshape(positions, along)
  v_shape = Shape(v)
  value_index = Expand(value_places, v_shape)
  present_value = ScatterElements<axis = 2>(past_value, value_index, v)
  keys = Transpose<perm = [0, 1, 3, 2]>(present_key)
  scores = MatMul(q, keys)
  sizes = Shape<start = 2, end = 3>(past_key)
  size_of = Squeeze(sizes)
  all = Range(zero, size_of, one)
  row = Unsqueeze(all, first)
  keep = LessOrEqual(row, places)
  masked = Where(keep, scores, low)
  shares = Softmax<axis = -1>(masked)
  y = MatMul(shares, present_value)
}"""
NEW, SIZE = 3, 40


def compiled(name, text=CACHED, **flags):
    path = FOLDER / f"{name}.onnx"
    onnx.save(onnx.parser.parse_model(text), path)
    return fusec.load(fusec.compile(path, FOLDER / name, target="cpu", cpu_level="x86-64-v3", **flags), "cpu")


class InPlace(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.apart = compiled("cached_apart")
        cls.together = compiled("cached_in_place", in_place={"present_*": "past_*"})

    def steps(self, random, batch):
        lengths = np.arange(batch, dtype=np.int64)
        while lengths.max() + NEW <= SIZE:
            yield [random.random((batch, 2, NEW, 8), np.float32) for _ in range(3)], lengths
            lengths = lengths + NEW

    def test_calls_write_their_rows_into_the_cache(self):
        batch = 2
        key, value = (np.full((batch, 2, SIZE, 8), np.nan, np.float32) for _ in range(2))
        key[1, :, 0] = value[1, :, 0] = 1  # the row that sequence 1 has before the first call
        past = [key.copy(), value.copy()]
        y = np.empty((batch, 2, NEW, 8), np.float32)
        for (q, k, v), lengths in self.steps(np.random.default_rng(1), batch):
            expected, *past = self.apart(q, k, v, lengths, *past)
            self.together.run_into((y, key, value), q, k, v, lengths, key, value)
            np.testing.assert_allclose(y, expected, rtol=1e-5)
            np.testing.assert_array_equal(key, past[0])
            np.testing.assert_array_equal(value, past[1])
        self.assertTrue(np.isnan(key[0, 0, -1]).all() and not np.isnan(y).any())

    def test_a_static_cache_gets_rows_at_positions(self):
        apart, together = compiled("static_apart", STATIC), compiled("static_in_place", STATIC, in_place={"present_*": "past_*"})
        random = np.random.default_rng(3)
        key, value = (np.zeros((2, 2, SIZE, 8), np.float32) for _ in range(2))
        past, y = [key.copy(), value.copy()], np.empty((2, 2, NEW, 8), np.float32)
        for positions in ([0, 1, 2], [5, 3, 4], [SIZE - 1, -2, 6]):
            q, k, v = (random.random((2, 2, NEW, 8), np.float32) for _ in range(3))
            expected, *past = apart(q, k, v, np.int64(positions), *past)
            together.run_into((y, key, value), q, k, v, np.int64(positions), key, value)
            np.testing.assert_allclose(y, expected, rtol=1e-5)
            np.testing.assert_array_equal(key, past[0])
            np.testing.assert_array_equal(value, past[1])
        with self.assertRaisesRegex(fusec.BadInput, "outside"):
            together.run_into((y, key, value), q, k, v, np.int64([7, SIZE, 8]), key, value)
        np.testing.assert_array_equal(key[:, :, :7], past[0][:, :, :7])

    def test_other_memory_gets_a_copy(self):
        (q, k, v), lengths = next(self.steps(np.random.default_rng(2), 2))
        past = [np.zeros((2, 2, SIZE, 8), np.float32) for _ in range(2)]
        before = [tensor.copy() for tensor in past]
        _, key, value = self.together(q, k, v, lengths, *past)
        np.testing.assert_array_equal(past, before)
        np.testing.assert_array_equal(key[1, :, 1 : 1 + NEW], k[1])
        np.testing.assert_array_equal(value[1, :, 1 : 1 + NEW], v[1])
        self.assertFalse(key[1, :, 1 + NEW :].any() or key[1, :, 0].any())

    def test_memory_that_overlaps_otherwise_is_refused(self):
        (q, k, v), lengths = next(self.steps(np.random.default_rng(4), 1))
        room = np.zeros(3 * SIZE * 8, np.float32)
        past, shifted = room[: 2 * SIZE * 8].reshape(1, 2, SIZE, 8), room[8 : 8 + 2 * SIZE * 8].reshape(1, 2, SIZE, 8)
        y, other = np.empty((1, 2, NEW, 8), np.float32), np.zeros((1, 2, SIZE, 8), np.float32)
        with self.assertRaisesRegex(fusec.BadInput, 'output "present_key" shares memory with input "past_key"'):
            self.together.run_into((y, shifted, other), q, k, v, lengths, past, other)

    def test_a_full_cache_is_an_error_and_keeps_its_rows(self):
        (q, k, v), _ = next(self.steps(np.random.default_rng(5), 1))
        y = np.empty((1, 2, NEW, 8), np.float32)
        for start in (SIZE - 1, SIZE, SIZE + 70, -SIZE - 1):
            past = [np.ones((1, 2, SIZE, 8), np.float32) for _ in range(2)]
            with self.assertRaisesRegex(fusec.BadInput, "outside"):
                self.apart(q, k, v, np.int64([start]), *past)
            with self.assertRaisesRegex(fusec.BadInput, "outside"):
                self.together.run_into((y, *past), q, k, v, np.int64([start]), *past)
            for tensor in past:
                self.assertTrue((tensor[:, :, : SIZE - 1] == 1).all())

    def test_refused_outputs(self):
        with self.assertRaisesRegex(fusec.BadUsage, 'no input is called "k_old"'):
            compiled("cached_refused", in_place={"present_key": "k_old"})
        with self.assertRaisesRegex(fusec.BadUsage, "new rows along an axis"):
            compiled("cached_refused", in_place={"y": "q"})


if __name__ == "__main__":
    unittest.main()
