"""Tests with PyTorch on the CPU: tensors, modules, and fusec as a backend of torch.compile. tests/python/nightly.sh makes the
environment."""

import contextlib
import functools
import io
import os
import sys
import unittest
import unittest.mock
import warnings

import fusec
import torch
from support import FOLDER, ROOT, load, run_python

os.environ["FUSEC_CACHE_DIR"] = str(FOLDER / "torch_cache")
ROUNDING = dict(atol=1e-5, rtol=1e-4)


class Ranker(torch.nn.Module):
    """Look-ups, an MLP and an interaction."""

    def __init__(self):
        super().__init__()
        self.table = torch.nn.Embedding(50, 8)
        self.bottom = torch.nn.Sequential(torch.nn.Linear(4, 16), torch.nn.ReLU(), torch.nn.Dropout(0.5), torch.nn.Linear(16, 8))
        self.top = torch.nn.Linear(8, 1)
        self.register_buffer("scale", torch.full((8,), 2.0))

    def forward(self, dense, ids):
        hidden = self.bottom(dense) * self.scale
        return torch.sigmoid(self.top(hidden * self.table(ids).mean(dim=1)))


def inputs(batch):
    generator = torch.Generator().manual_seed(batch)
    return torch.rand(batch, 4, generator=generator), torch.randint(0, 50, (batch, 3), generator=generator)


class TorchTest(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(0)
        torch._dynamo.reset()
        fusec_torch()._warned.clear()
        redirection = contextlib.redirect_stderr(io.StringIO())
        redirection.__enter__()
        self.addCleanup(redirection.__exit__, None, None, None)

    @contextlib.contextmanager
    def warns(self, *reasons):
        """Expects warnings about exactly these fallbacks."""
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            yield
        said = [str(warning.message) for warning in caught if issubclass(warning.category, fusec.FallbackWarning)]
        self.assertEqual(len(said), len(reasons), said)
        for text, reason in zip(said, reasons):
            self.assertRegex(text, reason)


def fusec_torch():
    from fusec import _torch

    return _torch


class Tensors(TorchTest):
    def test_results_are_tensors_of_torch(self):
        x = torch.rand(3, 4)
        y = load("sum")(x)
        self.assertIs(type(y), torch.Tensor)
        torch.testing.assert_close(y, x + torch.tensor([10.0, 20, 30, 40]))
        out = torch.empty(3, 4)
        load("sum").run_into(out, x)
        torch.testing.assert_close(out, y)

    def test_dtypes(self):
        for name, dtype in (("half", torch.float16), ("bfloat", torch.bfloat16)):
            x = torch.rand(2, 8).to(dtype)
            y = load(name)(x)
            self.assertEqual(y.dtype, dtype)
            torch.testing.assert_close(y, 2 * x)
        a = torch.tensor([True, False])
        torch.testing.assert_close(load("bools")(a, a), a)
        with self.assertRaisesRegex(fusec.BadInput, r"f64\[2, 4\], expected f32"):
            load("sum")(torch.rand(2, 4, dtype=torch.float64))

    def test_layouts(self):
        x = torch.rand(4, 6).t()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            torch.testing.assert_close(load("sum")(x), x + torch.tensor([10.0, 20, 30, 40]))
        with self.assertRaisesRegex(fusec.BadInput, "not contiguous"):
            load("sum", strict=True)(x)
        load("sum")(torch.nn.Parameter(torch.rand(2, 4)))

    def test_what_cannot_be_read(self):
        for bad in (torch.rand(2, 4).to("meta"), torch.eye(4).to_sparse()):
            with self.assertRaisesRegex(fusec.BadInput, 'input "x" cannot be read: '):
                load("sum")(bad)

    def test_torch_is_not_imported(self):
        self.assertEqual(run_python("import fusec, sys; print('torch' in sys.modules)").stdout, "False\n")


class Modules(TorchTest):
    def compile(self, module, **flags):
        return fusec.compile(module, FOLDER / self.id(), target="cpu", cpu_level="native", **flags)

    def test_names_and_a_free_batch(self):
        module = Ranker()
        module.bottom[2].eval()
        artifact = self.compile(module, args=inputs(3), dims={"batch": (1, 512)})
        self.assertTrue(module.training and not module.bottom[2].training)  # as it was
        loaded = artifact.load("cpu")
        self.assertEqual([str(tensor) for tensor in loaded.inputs], ["dense f32[batch, 4]", "ids i64[batch, 3]"])
        self.assertEqual(loaded.dims, {"batch": (0, 512)})  # no rows, no answers
        module.eval()
        for batch in (1, 2, 300):
            torch.testing.assert_close(loaded(*inputs(batch)), module(*inputs(batch)), **ROUNDING)

    def test_an_example_of_one_row(self):
        loaded = self.compile(Ranker(), args=inputs(1)).load("cpu")
        self.assertEqual(list(loaded.dims), ["batch"])
        self.assertEqual(loaded(*inputs(7)).shape, (7, 1))

    def test_kernels_name_their_modules(self):
        explained = self.compile(Ranker(), args=inputs(3)).explain(target="cpu")
        modules = {module for kernel in explained.kernels for module in kernel.modules}
        self.assertTrue({"bottom.0", "bottom.3", "top", "table"} <= modules, modules)

    def test_shapes_that_the_caller_says(self):
        module = torch.nn.Linear(4, 2)
        loaded = self.compile(module, args=torch.rand(3, 5, 4), dynamic_shapes=({0: "users", 1: "tokens"},)).load("cpu")
        self.assertEqual(set(loaded.dims), {"users", "tokens"})
        x = torch.rand(2, 9, 4)
        torch.testing.assert_close(loaded(x), module(x), **ROUNDING)

    def test_an_exported_program(self):
        module = Ranker().eval()
        program = torch.export.export(module, inputs(3), dynamic_shapes=({0: torch.export.Dim("n")}, {0: torch.export.Dim("n")}))
        loaded = self.compile(program).load("cpu")
        torch.testing.assert_close(loaded(*inputs(6)), module(*inputs(6)), **ROUNDING)

    def test_a_module_that_raises(self):
        class Broken(torch.nn.Module):
            def forward(self, x):
                raise ValueError("there is no such layer")

        with self.assertRaisesRegex(fusec.BadModel, "Broken cannot be exported to ONNX: .*there is no such layer"):
            self.compile(Broken(), args=torch.rand(2, 3))
        with self.assertRaisesRegex(fusec.BadUsage, r"Ranker is exported with inputs: fusec.compile\(module, args="):
            self.compile(Ranker())
        with self.assertRaisesRegex(fusec.BadUsage, "a model is a path, a module of PyTorch or a model of Keras, got int"):
            self.compile(3)


class Backend(TorchTest):
    def compiled(self, module, **flags):
        return torch.compile(module, backend="fusec", **flags)

    def test_it_is_registered(self):
        self.assertIn("fusec", torch._dynamo.list_backends(exclude_tags=()))

    def test_answers_of_many_sizes(self):
        module = Ranker().eval()
        compiled = self.compiled(module)
        with torch.no_grad(), self.warns():
            for batch in (3, 5, 64, 3, 2, 1):
                torch.testing.assert_close(compiled(*inputs(batch)), module(*inputs(batch)), **ROUNDING)

    def test_small_constants_are_kept(self):
        def entropy(x):
            return (x * torch.log(x + 1e-15)).sum(-1)

        x = torch.tensor([[0.0, 1.0], [0.5, 0.5]])
        with torch.no_grad(), self.warns():
            torch.testing.assert_close(self.compiled(entropy)(x), entropy(x), **ROUNDING)

    def test_the_compiler_speaks_to_a_logger(self):
        module = torch.nn.Linear(7, 3).eval()  # a graph of its own, which no cache has
        with torch.no_grad(), self.assertLogs("fusec", "INFO") as said:
            self.compiled(module, dynamic=False)(torch.rand(5, 7))
        self.assertRegex("\n".join(said.output), r"built .*\n")
        self.assertEqual(sys.stderr.getvalue(), "")

    def test_a_free_batch_is_compiled_once(self):
        module = Ranker().eval()
        compiled = self.compiled(module, dynamic=True)
        plans = []
        original = fusec_torch()._Plan
        with unittest.mock.patch.object(fusec_torch(), "_Plan", lambda *args: plans.append(original(*args)) or plans[-1]):
            with torch.no_grad(), self.warns():
                for batch in (6, 5, 64):
                    torch.testing.assert_close(compiled(*inputs(batch)), module(*inputs(batch)), **ROUNDING)
        self.assertEqual(len(plans), 1)

    def test_inference_mode(self):
        module = Ranker().eval()
        with torch.inference_mode(), self.warns():
            torch.testing.assert_close(self.compiled(module)(*inputs(4)), module(*inputs(4)), **ROUNDING)

    def test_gradients_are_left_to_torch(self):
        module = Ranker().eval()
        with self.warns("gradients are enabled"):
            compiled = self.compiled(module)
            compiled(*inputs(3)).sum().backward()
            compiled(*inputs(3))
        self.assertIsNotNone(module.top.weight.grad)

    def test_new_weights_are_seen(self):
        module = Ranker().eval()
        compiled = self.compiled(module)
        with torch.no_grad(), self.warns():
            before = compiled(*inputs(3))
            module.top.weight.mul_(3)
            torch.testing.assert_close(compiled(*inputs(3)), module(*inputs(3)), **ROUNDING)
            module.load_state_dict(Ranker().state_dict())
            after = compiled(*inputs(3))
            torch.testing.assert_close(after, module(*inputs(3)), **ROUNDING)
        self.assertFalse(torch.allclose(before, after))

    def test_what_is_unsupported_runs_in_torch_with_one_warning(self):
        def f(x):
            return torch.linalg.svdvals(x).sum(-1), x.shape[0]

        compiled = self.compiled(f)
        x = torch.rand(3, 8)
        with torch.no_grad(), self.warns("PyTorch runs what fusec does not: .+"):
            for _ in range(3):
                torch.testing.assert_close(compiled(x), f(x))

    def test_sizes_that_the_artifact_does_not_have_are_left_to_torch(self):
        def f(x):
            return torch.relu(x) * 2

        compiled = self.compiled(f, dynamic=True)
        with torch.no_grad(), self.warns("a length that the compiled graph does not serve, which has .* to 65536"):
            for rows in (3, 65536, 65537, 7):
                x = torch.randn(rows, 8)
                torch.testing.assert_close(compiled(x), f(x))

    def test_changes_in_place_are_left_to_torch(self):
        def f(x, y):
            x.add_(1)
            return x * y

        with torch.no_grad(), self.warns("changes its inputs or buffers in place"):
            x, y = torch.zeros(3, 4), torch.ones(3, 4)
            torch.testing.assert_close(self.compiled(f)(x, y), torch.ones(3, 4))
            torch.testing.assert_close(x, torch.ones(3, 4))

    def test_results_that_are_no_tensors_of_the_graph(self):
        def f(x, y):
            return x, x.shape[0], torch.relu(x) + y, None, 3

        compiled = self.compiled(f, dynamic=True)
        with torch.no_grad(), self.warns():
            for rows in (2, 5):
                x, y = torch.randn(rows, 4), torch.randn(rows, 4)
                results = compiled(x, y)
                self.assertIs(results[0], x)
                self.assertEqual((results[1], results[3], results[4]), (rows, None, 3))
                torch.testing.assert_close(results[2], torch.relu(x) + y)

    def test_graphs_of_parameters_alone(self):
        class Normalized(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.table = torch.nn.Parameter(torch.rand(5, 4))

            def forward(self, ids):
                table = torch.nn.functional.softmax(self.table, dim=1)
                torch._dynamo.graph_break()
                return torch.nn.functional.embedding(ids, table)

        module = Normalized()
        compiled = torch.compile(module, backend="fusec")
        with torch.no_grad(), self.warns():
            for ids in (torch.tensor([1, 4]), torch.tensor([0, 2, 3])):
                answer = compiled(ids)
                self.assertIs(type(answer), torch.Tensor)
                torch.testing.assert_close(answer, module(ids), **ROUNDING)

    def test_graph_breaks(self):
        module = Ranker().eval()

        def f(dense, ids):
            scores = module(dense, ids)
            print(end="")  # breaks the graph
            return scores * 2

        with torch.no_grad(), self.warns():
            torch.testing.assert_close(self.compiled(f)(*inputs(3)), 2 * module(*inputs(3)), **ROUNDING)

    def test_options_are_flags_of_compile(self):
        module = Ranker().eval()
        with torch.no_grad(), self.warns():
            compiled = self.compiled(module, options={"keep_lora": True, "cpu_level": "native"})
            torch.testing.assert_close(compiled(*inputs(3)), module(*inputs(3)), **ROUNDING)

    def test_artifacts_are_cached_by_content(self):
        module = Ranker().eval()
        with torch.no_grad():
            self.compiled(module)(*inputs(3))
            torch._dynamo.reset()
            with unittest.mock.patch.object(fusec, "compile", side_effect=AssertionError("it is in the cache")):
                torch.testing.assert_close(self.compiled(module)(*inputs(3)), module(*inputs(3)), **ROUNDING)
            for manifest in (FOLDER / "torch_cache").rglob("manifest.json"):
                manifest.write_text("damaged")
            torch._dynamo.reset()
            torch.testing.assert_close(self.compiled(module)(*inputs(3)), module(*inputs(3)), **ROUNDING)

    def test_rows_of_attention_that_are_masked_wholly(self):
        class Attention(torch.nn.Module):
            def forward(self, x, mask):
                query = x.unflatten(-1, (2, 8)).transpose(1, 2)
                return torch.nn.functional.scaled_dot_product_attention(query, query * 2, query + 1, attn_mask=mask)

        module = Attention()
        x = torch.rand(2, 5, 16)
        may_look = torch.ones(2, 1, 5, 5, dtype=torch.bool).tril()
        may_look[1, 0, 3] = False
        added = torch.zeros(2, 1, 5, 5).masked_fill(~may_look, -torch.inf)
        compiled = torch.compile(module, backend="fusec")
        for mask in (may_look, added):
            ahead = fusec.load(fusec.compile(module, args=(x, mask), output=str(FOLDER / f"masked_{mask.dtype}"), target="cpu"), "cpu")
            with torch.no_grad():
                expected = module(x, mask)
                self.assertEqual(expected[1, :, 3].abs().max(), 0)
                torch.testing.assert_close(compiled(x, mask), expected, **ROUNDING)
                torch.testing.assert_close(ahead(x, mask), expected, **ROUNDING)

    def test_attention_of_torch(self):
        block = torch.nn.TransformerEncoderLayer(32, 4, 64, batch_first=True, dropout=0.0).eval()
        x = torch.rand(2, 6, 32)
        with torch.no_grad(), self.warns(r"set_fastpath_enabled\(False\)"):
            torch.testing.assert_close(self.compiled(block)(x), block(x), atol=1e-4, rtol=1e-3)
        torch.backends.mha.set_fastpath_enabled(False)
        self.addCleanup(torch.backends.mha.set_fastpath_enabled, True)
        torch._dynamo.reset()
        with torch.no_grad(), self.warns():
            torch.testing.assert_close(self.compiled(block)(x), block(x), atol=1e-4, rtol=1e-3)


class Families(TorchTest):
    """The modules of tests/end_to_end/models: recommendation and LoRA networks with tiny tables."""

    # Models whose attention is a single PyTorch op.
    LEFT_TO_TORCH = {"encoder"}
    # Models with packed sequences, which torch.export does not support with free sizes.
    NOT_EXPORTED = {"bi_lstm"}

    def modules(self):
        sys.path.insert(0, str(ROOT / "tests/end_to_end/models"))
        self.addCleanup(sys.path.pop, 0)
        import export

        for name, kind in export.MODELS.items():
            torch.manual_seed(7)
            torch._dynamo.reset()
            yield name, kind, kind().eval(), kind.inputs()

    def test_behind_torch_compile(self):
        left = set()
        for name, _, module, given in self.modules():
            with torch.no_grad(), warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                result = torch.compile(module, backend="fusec")(*given)
                torch.testing.assert_close(result, module(*given), **ROUNDING, msg=lambda text: f"{name}: {text}")
            if any(issubclass(warning.category, fusec.FallbackWarning) for warning in caught):
                left.add(name)
            fusec_torch()._warned.clear()
        self.assertEqual(left, self.LEFT_TO_TORCH)

    def test_compiled_ahead_of_time(self):
        for name, kind, module, given in self.modules():
            shapes = tuple(dict(shape) for shape in kind.dims)
            compiled = functools.partial(
                fusec.compile, module, FOLDER / f"family_{name}", args=given, dynamic_shapes=shapes, target="cpu", cpu_level="native"
            )
            if name in self.NOT_EXPORTED:
                with self.assertRaisesRegex(fusec.BadModel, "cannot be exported to ONNX"):
                    compiled()
                continue
            made = compiled()
            with torch.no_grad():
                result = made.load("cpu")(*given)
                torch.testing.assert_close(result, module(*given), **ROUNDING, msg=lambda text: f"{name}: {text}")
