"""Calls of models on the CPU: inputs and outputs."""

import array
import re
import shutil
import unittest
import warnings

import fusec
import ml_dtypes
import numpy as np
from support import FOLDER, ROOT, artifact, load


class Answers(unittest.TestCase):
    def test_golden_answers_of_a_real_model(self):
        model = load("dlrm_dot.ts")
        golden = np.load(ROOT / "models/dlrm_dot.golden.npz")
        for batch in (1, 5, 64):
            scores = model(golden[f"b{batch}_in0"], golden[f"b{batch}_in1"])
            self.assertIsInstance(scores, np.ndarray)
            np.testing.assert_allclose(scores, golden[f"b{batch}_out0"], atol=1e-6)

    def test_inputs_by_name_and_by_place(self):
        model = load("odd_names")  # its inputs are called as parameters might be
        out, strict = np.float32([3, 4]), np.float32([1, 1])
        for result in (
            model(out, strict),
            model(out, strict=strict),
            model(strict=strict, out=out),
            model(**{"".join(["st", "rict"]): strict, "out": out}),
        ):
            np.testing.assert_array_equal(result, [2, 3])

    def test_several_outputs_are_a_tuple(self):
        a, b = np.ones((2, 3), np.float32), np.full((2, 5), 7, np.float32)
        both, twice = load("pair")(a, b)
        np.testing.assert_array_equal(both, np.concatenate([a, b], axis=1))
        np.testing.assert_array_equal(twice, 2 * a)

    def test_every_size_that_the_artifact_has(self):
        model = load("sum")
        for batch in (1, 2, 3, 1000, 2):
            x = np.random.default_rng(batch).random((batch, 4), np.float32)
            np.testing.assert_array_equal(model(x), x + np.float32([10, 20, 30, 40]))

    def test_outputs_whose_size_the_data_tell(self):
        model = load("chosen")
        self.assertEqual([output.shape for output in model.outputs], [("n*2",), (2, "n*2"), ("n", 2)])
        for odds in (0.3, 1, 0, 0.6):
            random = np.random.default_rng(7)
            x, mask = random.random((5, 2), np.float32), random.random((5, 2)) < odds
            values, places, twice = model(x, mask)
            np.testing.assert_array_equal(values, x[mask])
            np.testing.assert_array_equal(places, np.nonzero(mask))
            np.testing.assert_array_equal(twice, 2 * x)
            self.assertEqual(places.shape, (2, mask.sum()))
        values, places, _ = model(memoryview(x), mask)
        self.assertEqual((values.shape, places.shape), ((mask.sum(),), (2, mask.sum())))
        self.assertIsInstance(values, fusec.Tensor)
        np.testing.assert_array_equal(np.asarray(places), np.nonzero(mask))

    def test_outputs_whose_size_the_data_tell_in_memory_of_the_caller(self):
        model = load("chosen")
        x, mask = np.float32([[1, 2], [3, 4]]), np.array([[False, True], [True, False]])
        values, places, twice = np.zeros(4, np.float32), np.zeros((2, 4), np.int64), np.zeros((2, 2), np.float32)
        shapes = model.run_into((values, places, twice), x, mask)
        self.assertEqual(shapes, ((2,), (2, 2), (2, 2)))
        np.testing.assert_array_equal(values[:2], [2, 3])
        np.testing.assert_array_equal(places.reshape(-1)[:4].reshape(2, 2), [[0, 1], [1, 0]])
        with self.assertRaisesRegex(fusec.BadInput, r'output "values" is f32\[2\], expected f32\[4\]'):
            model.run_into((np.zeros(2, np.float32), places, twice), x, mask)

    def test_an_empty_batch(self):
        model = load("pair")
        self.assertEqual(model.dims["batch"][0], 0)
        for batch in (0, 3, 0, 2):
            a, b = np.ones((batch, 3), np.float32), np.ones((batch, 5), np.float32)
            both, twice = model(a, b)
            np.testing.assert_array_equal(both, np.ones((batch, 8), np.float32))
            np.testing.assert_array_equal(twice, 2 * a)

    def test_an_empty_batch_of_which_something_is_asked(self):
        self.assertEqual(load("mean").dims["batch"][0], 1)
        with self.assertRaisesRegex(fusec.BadInput, '"batch" must be in 1..65536$'):
            load("mean")(np.zeros((0, 4), np.float32))
        self.assertEqual(load("tail").dims["batch"][0], 1)
        for items in (1, 5):
            with self.assertRaisesRegex(fusec.BadInput, '"batch" must be in 1..'):
                load("tail")(np.zeros((0, 4), np.float32), np.ones((items, 4), np.float32))

    def test_an_output_that_is_empty_for_some_sizes_only(self):
        # The manifest's dims suggest that batch 0 makes the output empty, but the sizes of the run decide.
        edited = FOLDER / "tail_edited"
        shutil.copytree(artifact("tail"), edited)
        manifest = (edited / "manifest.json").read_text().replace("batch + items - 1", "batch + mod(items - 1, 65535)")
        (edited / "manifest.json").write_text(re.sub(' "hash": .*\n', "", manifest, count=1))
        model = fusec.load(edited, "cpu")
        self.assertEqual(model.dims["batch"][0], 0)
        empty = np.zeros((0, 4), np.float32)
        self.assertEqual(model(empty, np.ones((1, 4), np.float32)).shape, (0, 4))
        with self.assertRaisesRegex(fusec.BadInput, '^a dim is 0, but output "y" is not empty then$'):
            model(empty, np.ones((5, 4), np.float32))

    def test_results_outlive_the_model(self):
        model = load("sum")
        y = model(np.zeros((2, 4), np.float32))
        model.close()
        np.testing.assert_array_equal(y[1], [10, 20, 30, 40])


class Dtypes(unittest.TestCase):
    def test_f16(self):
        x = np.arange(16, dtype=np.float16).reshape(2, 8)
        y = load("half")(x)
        self.assertEqual(y.dtype, np.float16)
        np.testing.assert_array_equal(y, 2 * x)

    def test_bf16_is_that_of_ml_dtypes(self):
        x = np.arange(16).reshape(2, 8).astype(ml_dtypes.bfloat16)
        y = load("bfloat")(x)
        self.assertEqual(y.dtype, ml_dtypes.bfloat16)
        np.testing.assert_array_equal(y.astype(np.float32), 2 * x.astype(np.float32))

    def test_bool(self):
        both = load("bools")(np.array([True, True, False]), np.array([True, False, False]))
        self.assertEqual(both.dtype, np.bool_)
        np.testing.assert_array_equal(both, [True, False, False])

    def test_scalars(self):
        y = load("scalar")(np.float32(3))
        self.assertEqual((y.shape, y.item()), ((), -3))

    def test_other_dtypes_are_refused(self):
        model = load("sum")
        for dtype in ("f8", "i4", "f2", ">f4", "c8", "M8[s]", "S4"):
            with self.assertRaisesRegex(fusec.BadInput, r'input "x" (is .*expected f32\[batch, 4\]|cannot be read)'):
                model(np.zeros((2, 4), dtype))


class Layouts(unittest.TestCase):
    def setUp(self):
        self.x = np.arange(24, dtype=np.float32).reshape(6, 4)

    def views(self):
        wide = np.repeat(self.x, 2, axis=1)
        return {
            "fortran": np.asfortranarray(self.x),
            "backwards": self.x[::-1][::-1].copy()[::-1][::-1],
            "reversed": np.ascontiguousarray(self.x[::-1])[::-1],
            "every second column": wide[:, ::2],
            "every second row": np.repeat(self.x, 2, axis=0)[::2],
        }

    def test_strided_inputs_are_copied_with_one_warning(self):
        expected = self.x + np.float32([10, 20, 30, 40])
        for name, view in self.views().items():
            model = load("sum")
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                for _ in range(3):
                    np.testing.assert_array_equal(model(view), expected, name)
            self.assertEqual(len(caught), 0 if view.flags.c_contiguous else 1, name)
            if caught:
                self.assertIs(caught[0].category, fusec.CopyWarning)
                self.assertIn('input "x" is not contiguous', str(caught[0].message))

    def test_a_repeated_row_is_copied(self):
        row = np.broadcast_to(self.x[0], (6, 4))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            np.testing.assert_array_equal(load("sum")(row), row + np.float32([10, 20, 30, 40]))

    def test_strict_refuses_copies(self):
        model = load("sum", strict=True)
        model(self.x)
        with self.assertRaisesRegex(fusec.BadInput, 'input "x" is not contiguous, and strict=True allows no copy'):
            model(np.asfortranarray(self.x))

    def test_a_warning_that_is_an_error_is_raised(self):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with self.assertRaises(fusec.CopyWarning):
                load("sum")(np.asfortranarray(self.x))

    def test_misaligned_and_read_only_memory(self):
        odd = np.zeros(25, np.float32)[1:].reshape(6, 4)  # 4 bytes behind a multiple of 16
        odd[:] = self.x
        odd.flags.writeable = False
        np.testing.assert_array_equal(load("sum")(odd), self.x + np.float32([10, 20, 30, 40]))


class RunInto(unittest.TestCase):
    def setUp(self):
        self.x = np.arange(8, dtype=np.float32).reshape(2, 4)
        self.expected = self.x + np.float32([10, 20, 30, 40])

    def test_one_output(self):
        for runner in (load("sum"), load("sum").context()):
            y = np.empty((2, 4), np.float32)
            self.assertIsNone(runner.run_into(y, self.x))
            np.testing.assert_array_equal(y, self.expected)
            y[:] = 0
            runner.run_into([y], x=self.x)
            np.testing.assert_array_equal(y, self.expected)
            y[:] = 0
            runner.run_into({"y": y}, self.x)
            np.testing.assert_array_equal(y, self.expected)

    def test_several_outputs(self):
        a, b = np.ones((2, 3), np.float32), np.ones((2, 5), np.float32)
        both, twice = np.empty((2, 8), np.float32), np.empty((2, 3), np.float32)
        model = load("pair")
        for outputs in ((both, twice), {"twice": twice, "both": both}):
            twice[:] = both[:] = 0
            model.run_into(outputs, a, b)
            np.testing.assert_array_equal(both, np.ones((2, 8)))
            np.testing.assert_array_equal(twice, 2 * a)

    def test_bad_outputs(self):
        model = load("sum")
        read_only = np.empty((2, 4), np.float32)
        read_only.flags.writeable = False
        cases = {
            r'output "y" is f32\[3, 4\], expected f32\[2, 4\]': np.empty((3, 4), np.float32),
            r'output "y" is f64\[2, 4\], expected f32\[2, 4\]': np.empty((2, 4)),
            r'output "y" is f32\[8\], expected f32\[2, 4\]': np.empty(8, np.float32),
            'output "y" is not contiguous': np.empty((4, 2), np.float32).T,
            'output "y" cannot be read: .*read-only': read_only,
            'output "y" shares memory with input "x"': self.x,
            'output "y" is of type int, expected a tensor': 3,
            '2 outputs were given, the model has 1: "y"': [self.x, self.x],
            'output "y" is missing, the model has "y"': {"z": self.x},
            '2 outputs were given, the model has "y"': {"y": np.empty((2, 4), np.float32), "z": 1},
            r'0 outputs were given': [],
        }
        for message, output in cases.items():
            with self.assertRaisesRegex(fusec.BadInput, message):
                model.run_into(output, self.x)
        with self.assertRaisesRegex(fusec.BadUsage, "run_into needs an output"):
            model.run_into()


class Tensors(unittest.TestCase):
    """fusec.Tensor, which needs no array library."""

    def setUp(self):
        self.x = array.array("f", range(8))
        self.view = memoryview(self.x).cast("B").cast("f", (2, 4))
        self.expected = [[10, 21, 32, 43], [14, 25, 36, 47]]

    def test_buffers_come_in_and_tensors_go_out(self):
        y = load("sum")(self.view)
        self.assertIsInstance(y, fusec.Tensor)
        self.assertEqual((y.shape, y.dtype, y.nbytes, repr(y)), ((2, 4), "f32", 32, "fusec.Tensor(f32[2, 4])"))
        self.assertEqual(memoryview(y).tolist(), self.expected)
        self.assertEqual(load("sum")(y).shape, (2, 4))

    def test_dlpack_of_both_versions(self):
        y = load("sum")(self.view)
        self.assertEqual(y.__dlpack_device__(), (1, 0))
        self.assertIn('"dltensor"', repr(y.__dlpack__()))
        self.assertIn('"dltensor"', repr(y.__dlpack__(max_version=(0, 8))))
        self.assertIn('"dltensor_versioned"', repr(y.__dlpack__(max_version=(1, 0))))
        shared, copied = np.from_dlpack(y), np.from_dlpack(y, copy=True)
        np.testing.assert_array_equal(shared, self.expected)
        memoryview(y).cast("B").cast("f")[0] = 99
        self.assertEqual((shared[0, 0], copied[0, 0]), (99, 10))
        with self.assertRaises(BufferError):
            y.__dlpack__(dl_device=(2, 0))
        with self.assertRaises(fusec.BadUsage):
            y.__dlpack__(stream=1)
        del y
        np.testing.assert_array_equal(shared[1], self.expected[1])  # keeps the memory

    def test_memory_of_the_model_for_inputs(self):
        model = load("sum")
        x = model.allocate_host((2, 4))
        np.asarray(x)[:] = 1
        np.testing.assert_array_equal(memoryview(model(x)).tolist(), [[11, 21, 31, 41]] * 2)
        self.assertEqual(model.allocate_host([3], "float16").dtype, "f16")
        for shape, dtype in (((-1,), "f32"), ((1 << 62, 8), "f32"), ((1,), "f99")):
            with self.assertRaises(fusec.BadUsage):
                model.allocate_host(shape, dtype)

    def test_bf16_has_dlpack_only(self):
        model = load("bfloat")
        x = model.allocate_host((2, 8), "bf16")
        with self.assertRaisesRegex(BufferError, "bf16"):
            memoryview(x)
        self.assertEqual(model(x).dtype, "bf16")

    def test_libraries_that_speak_dlpack_alone(self):
        class Producer:
            """A tensor of an unknown library, from before DLPack 1.0."""

            def __init__(self, values):
                self.values = values

            def __dlpack_device__(self):
                return (1, 0)

            def __dlpack__(self, stream=None):
                return self.values.__dlpack__()

        y = load("sum")(Producer(np.zeros((2, 4), np.float32)))
        self.assertIsInstance(y, fusec.Tensor)
        np.testing.assert_array_equal(y, [[10, 20, 30, 40]] * 2)

    def test_libraries_with_the_functions_of_the_array_api(self):
        class Namespace:
            @staticmethod
            def empty(shape, *, dtype=None, device=None):
                raise AssertionError("host memory is fusec's own")

            @staticmethod
            def from_dlpack(tensor):
                return Array(np.from_dlpack(tensor))

        class Array:
            def __init__(self, values):
                self.values = values

            def __array_namespace__(self):
                return Namespace

            def __dlpack_device__(self):
                return self.values.__dlpack_device__()

            def __dlpack__(self, **flags):
                return self.values.__dlpack__(**flags)

        y = load("sum")(Array(np.zeros((2, 4), np.float32)))
        self.assertIsInstance(y, Array)
        np.testing.assert_array_equal(y.values, [[10, 20, 30, 40]] * 2)


class Signatures(unittest.TestCase):
    def test_inputs_outputs_and_dims(self):
        model = load("pair")
        self.assertEqual(model.inputs[1], fusec.TensorInfo("b", "f32", ("batch", 5)))
        self.assertEqual([str(output) for output in model.outputs], ["both f32[batch, 8]", "twice f32[batch, 3]"])
        self.assertEqual(list(model.dims), ["batch"])
        self.assertEqual(model.device, "cpu (native)")
        self.assertIsNone(model.stream)
        self.assertIsNone(model.context().stream)
        self.assertRegex(repr(model), r"a f32\[batch, 3\], b f32\[batch, 5\] -> both")
        self.assertEqual(model.weight_bytes, 0)
