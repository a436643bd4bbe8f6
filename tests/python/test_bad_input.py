"""Invalid arguments that are rejected, and the error messages."""

import unittest

import fusec
import numpy as np
from support import FOLDER, artifact, load, run_python


class BadInput(unittest.TestCase):
    def refuses(self, message, *arguments, name="pair", **by_name):
        with self.assertRaisesRegex(fusec.BadInput, message) as caught:
            load(name)(*arguments, **by_name)
        self.assertEqual(caught.exception.code, 6)
        self.assertIsInstance(caught.exception, ValueError)

    def test_names_and_counts(self):
        a, b = np.ones((2, 3), np.float32), np.ones((2, 5), np.float32)
        self.refuses('^input "a" is missing, the model takes "a", "b"$')
        self.refuses('^input "b" is missing', a)
        self.refuses('^input "a" is missing', b=b)
        self.refuses('^3 tensors were given, the model takes 2: "a", "b"$', a, b, b)
        self.refuses('^there is no input "c", the model has "a", "b"$', a, b, c=b)
        self.refuses('^input "a" is given by place and by name$', a, b, a=a)

    def test_shapes(self):
        a, b = np.ones((2, 3), np.float32), np.ones((2, 5), np.float32)
        self.refuses(r'^input "b" dim 0 is 3, but "batch" is already 2 \(from input "a"\)$', a, np.ones((3, 5), np.float32))
        self.refuses(r'^input "a" has rank 1, expected rank 2 \(\[batch, 3\]\)$', a.ravel(), b)
        self.refuses('^input "a" dim 1 is 4', np.ones((2, 4), np.float32), b)
        self.refuses('^input "b" dim 0 is 2, but "batch" is already 0', a[:0], b)

    def test_what_is_no_tensor(self):
        for value in (1, 1.5, None, "text", [1.0, 2.0], (1,), {}, object(), np.float32, print):
            self.refuses(f'^input "a" is of type {type(value).__name__}, expected a tensor f32', value, value)

    def test_a_tensor_that_cannot_be_exported(self):
        class Broken:
            def __dlpack_device__(self):
                return (1, 0)

            def __dlpack__(self, **_):
                raise BufferError("it needs a gradient\nand a second line")

        class NoCapsule(Broken):
            def __dlpack__(self, **_):
                return 3

        class Elsewhere(Broken):
            def __dlpack_device__(self):
                return (8, 0)  # Metal

        b = np.ones((2, 5), np.float32)
        self.refuses('^input "a" cannot be read: it needs a gradient$', Broken(), b)
        self.refuses('^input "a" cannot be read: its __dlpack__ gave no tensor of DLPack$', NoCapsule(), b)
        self.refuses('^input "a" cannot be read: it needs a gradient$', Elsewhere(), b)

    def test_an_interrupt_stays_one(self):
        class Interrupting:
            def __dlpack_device__(self):
                raise KeyboardInterrupt

            def __dlpack__(self, **_):
                raise AssertionError

        with self.assertRaises(KeyboardInterrupt):
            load("sum")(Interrupting())

    def test_ids_out_of_range(self):
        self.refuses("index 3 at position .1. of \"ids\" is outside -3..2", np.array([0, 3]), name="lookup")
        np.testing.assert_array_equal(load("lookup")(np.array([2, -1])), [[20, 21]] * 2)

    def test_a_good_call_follows_a_bad_one(self):
        model = load("lookup")
        for _ in range(3):
            with self.assertRaises(fusec.BadInput):
                model(np.array([7]))
            np.testing.assert_array_equal(model(np.array([1])), [[10, 11]])


class BadLoads(unittest.TestCase):
    def test_paths_and_devices(self):
        with self.assertRaisesRegex(fusec.BadArtifact, "manifest.json: cannot be read: No such file") as caught:
            fusec.load(FOLDER / "nothing")
        self.assertEqual(caught.exception.code, 5)
        with self.assertRaisesRegex(fusec.BadUsage, 'unknown device "tpu"') as caught:
            fusec.load(artifact("sum"), "tpu")
        self.assertEqual(caught.exception.code, 2)
        with self.assertRaisesRegex(fusec.NoDevice, "the artifact has no GPU target") as caught:
            fusec.load(artifact("sum"), "cuda")
        self.assertEqual(caught.exception.code, 4)
        for path in (None, 3, b"bytes"):
            with self.assertRaises(TypeError):
                fusec.load(path)

    def test_no_driver(self):
        code = "import fusec, sys\ntry: fusec.load(sys.argv[1], 'cuda')\nexcept fusec.NoDevice as e: print(e.code, e)"
        done = run_python(code, artifact("sum", "sm_90a").path, LD_LIBRARY_PATH="")
        self.assertRegex(done.stdout, "^4 no NVIDIA driver found", done.stderr)

    def test_an_object_that_was_not_made(self):
        with self.assertRaises(Exception):
            fusec.Model.__new__(fusec.Model)(1)
        with self.assertRaises(TypeError):
            fusec.Context()
        with self.assertRaises(TypeError):
            fusec.Tensor()


class Closed(unittest.TestCase):
    def test_a_closed_model(self):
        with load("sum") as model:
            context = model.context()
            x = np.zeros((1, 4), np.float32)
            y = context(x)
        self.assertTrue(model.is_closed)
        for use in (lambda: model(x), lambda: model.inputs, lambda: model.context(), lambda: model.stream, model.synchronize):
            with self.assertRaisesRegex(fusec.BadUsage, "the model is closed"):
                use()
        model.close()
        self.assertIn("closed", repr(model))
        np.testing.assert_array_equal(context(x), y)  # a context keeps what it runs
        context.synchronize()
        self.assertGreaterEqual(context.scratch_bytes, 0)

    def test_memory_outlives_its_model(self):
        model = load("sum")
        tensor = model.allocate_host((4,))
        model.close()
        del model
        view = memoryview(tensor)
        del tensor
        self.assertEqual(len(view), 4)
