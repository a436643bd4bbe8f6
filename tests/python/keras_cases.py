"""Tests with Keras 3 on the CPU: models that fusec.compile exports. tests/python/nightly.sh makes the environment that they need."""

import os
import unittest

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import fusec
import keras
import numpy
from keras import layers
from support import FOLDER


def ranker():
    keras.utils.set_random_seed(1)
    history, numbers = keras.Input([None], name="history", dtype="int64"), keras.Input([4], name="numbers")
    seen = layers.GRU(12)(layers.Embedding(50, 8, mask_zero=True)(history))
    both = layers.Concatenate()([seen, layers.Dense(8, activation="gelu")(numbers)])
    return keras.Model([history, numbers], [layers.Dense(1, activation="sigmoid", name="click")(both), layers.Dense(3, name="stars")(both)])


class KerasTest(unittest.TestCase):
    def compiled(self, model, **options):
        artifact = fusec.compile(model, FOLDER / self.id().rpartition(".")[2], target="cpu", cpu_level="x86-64-v3", **options)
        return fusec.load(artifact.path, "cpu")

    def test_a_model_with_a_mask_and_two_outputs(self):
        model = ranker()
        compiled = self.compiled(model, dims={"batch": (1, 64), "history_1": (1, 20)})
        self.assertEqual([(one.name, one.shape) for one in compiled.inputs], [("history", ("batch", "history_1")), ("numbers", ("batch", 4))])
        self.assertEqual([(one.name, one.shape) for one in compiled.outputs], [("click", ("batch", 1)), ("stars", ("batch", 3))])
        random = numpy.random.default_rng(0)
        for batch, steps in ((1, 1), (3, 7), (64, 20)):
            ids = random.integers(1, 50, [batch, steps]) * (numpy.arange(steps) < random.integers(1, steps + 1, [batch, 1]))
            numbers = random.standard_normal([batch, 4], numpy.float32)
            for answer, right in zip(compiled(ids, numbers), model([ids, numbers])):
                numpy.testing.assert_allclose(answer, right.numpy(), rtol=1e-4, atol=1e-5)

    def test_a_sequential_model_with_adapters(self):
        model = keras.Sequential([keras.Input([8]), layers.Dense(16, activation="relu"), layers.Dense(2)])
        model.layers[0].enable_lora(4)
        x = numpy.random.default_rng(0).standard_normal([5, 8], numpy.float32)
        numpy.testing.assert_allclose(self.compiled(model)(x), model(x).numpy(), rtol=1e-4, atol=1e-5)

    def test_errors_name_the_model(self):
        text = keras.Input([1], name="word", dtype="string")
        words = keras.Model(text, layers.StringLookup(vocabulary=["a", "b"])(text), name="words")
        with self.assertRaisesRegex(fusec.BadModel, "words|LookupTable"):
            fusec.compile(words, FOLDER / "words")
        x = keras.Input([3], name="x")
        normal = keras.Model(x, layers.Normalization(mean=[1.0, 2, 3], variance=[1.0, 1, 2])(x), name="normal")
        with self.assertRaisesRegex(fusec.BadModel, 'the Keras model "normal" cannot be exported to ONNX: .* makes an input of a constant'):
            fusec.compile(normal, FOLDER / "normal")


if __name__ == "__main__":
    unittest.main()
