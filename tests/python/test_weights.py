"""Model.update_weights: takes the weights of a refitted artifact during calls of other threads."""

import contextlib
import io
import json
import pathlib
import threading
import unittest

import fusec
import numpy as np
import onnx
from onnx import numpy_helper
from support import FOLDER, artifact, load, model


def refitted(name, factor):
    """The artifact of a model whose weights are `factor` times those of the model."""
    proto = onnx.load(model(name))
    for tensor in proto.graph.initializer:
        tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor) * np.float32(factor), tensor.name))
    path = FOLDER / f"{name}_{factor}.onnx"
    onnx.save(proto, path)
    with contextlib.redirect_stderr(io.StringIO()):
        return artifact(name).refit(path, FOLDER / f"{name}_{factor}")


def bias_file(name, values):
    """A .safetensors file with one f32 tensor."""
    header = json.dumps({name: {"dtype": "F32", "shape": values.shape, "data_offsets": [0, values.nbytes]}}).encode()
    path = FOLDER / f"{name}_{values[0]:g}.safetensors"
    path.write_bytes(len(header).to_bytes(8, "little") + header + values.tobytes())
    return path


class UpdateWeights(unittest.TestCase):
    X = np.zeros((3, 4), np.float32)
    BIAS = np.array([10, 20, 30, 40], np.float32)

    def test_calls_see_the_new_weights(self):
        with load("sum") as loaded:
            context = loaded.context()
            np.testing.assert_array_equal(loaded(self.X)[0], self.BIAS)
            loaded.update_weights(refitted("sum", 3))
            np.testing.assert_array_equal(loaded(self.X)[0], 3 * self.BIAS)
            np.testing.assert_array_equal(context(self.X)[0], 3 * self.BIAS)
            loaded.update_weights(artifact("sum"))
            np.testing.assert_array_equal(loaded(self.X)[0], self.BIAS)

    def test_threads_see_one_set_of_weights_each(self):
        other, stop, torn = refitted("sum", 3), threading.Event(), []
        with load("sum") as loaded:

            def call():
                while not stop.is_set():
                    factors = np.unique(loaded(self.X) / self.BIAS)
                    if factors.tolist() not in ([1], [3]):
                        torn.append(factors)

            threads = [threading.Thread(target=call) for _ in range(4)]
            for thread in threads:
                thread.start()
            for _ in range(50):
                loaded.update_weights(other)
                loaded.update_weights(artifact("sum"))
            stop.set()
            for thread in threads:
                thread.join()
        self.assertEqual(torn, [])

    def test_another_program_is_refused(self):
        with load("sum") as loaded:
            with self.assertRaisesRegex(fusec.BadArtifact, "is not the loaded program with other weights, its inputs are others"):
                loaded.update_weights(artifact("pair"))
            with self.assertRaises(fusec.BadArtifact):
                loaded.update_weights(pathlib.Path(FOLDER / "missing"))
            np.testing.assert_array_equal(loaded(self.X)[0], self.BIAS)
        with self.assertRaises(fusec.BadUsage):
            loaded.update_weights(artifact("sum"))

    def test_a_file_of_tensors(self):
        new = bias_file("bias", np.arange(4, dtype=np.float32))
        with contextlib.redirect_stderr(io.StringIO()):
            made = fusec.refit(artifact("sum"), new, FOLDER / "sum_tensors", model=model("sum"))
        with made.load("cpu") as loaded:
            np.testing.assert_array_equal(loaded(self.X)[0], np.arange(4))

    def test_a_tensor_that_the_exporter_renamed(self):
        new, old = bias_file("layer.shift", np.arange(4, dtype=np.float32)), bias_file("layer.shift", self.BIAS)
        with self.assertRaisesRegex(fusec.BadInput, 'tensor "layer.shift", but "bias" has its shape'):
            fusec.refit(artifact("sum"), new, FOLDER / "sum_renamed", model=model("sum"))
        with contextlib.redirect_stderr(io.StringIO()):
            made = fusec.refit(artifact("sum"), new, FOLDER / "sum_renamed", model=model("sum"), exported_with=old)
        with made.load("cpu") as loaded:
            np.testing.assert_array_equal(loaded(self.X)[0], np.arange(4))
