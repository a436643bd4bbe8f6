"""Runs the Python code of pages, and the example, unchanged."""

import contextlib
import io
import os
import pathlib
import re
import subprocess
import sys
import unittest

import fusec
import numpy as np
from fusec import _program
from fusec.serve.__main__ import parser
from support import FOLDER, ROOT, artifact, run_python, save_adapter


class Pages(unittest.TestCase):
    def test_the_readme(self):
        text = (ROOT / "README.md").read_text()
        compiling, refitting = re.findall(r"^```python\n(.*?)^```", text, re.M | re.S)
        os.symlink(ROOT / "models", FOLDER / "models")
        os.symlink(ROOT / "models/dlrm_dot.ts.onnx", FOLDER / "retrained.onnx")
        matrices = {"layers.0.lora_A.weight": np.ones((4, 256)), "layers.0.lora_B.weight": np.ones((128, 4))}
        save_adapter(FOLDER / "finance", matrices, peft_type="LORA", lora_alpha=8, r=4)
        done = run_python(compiling + refitting, LD_LIBRARY_PATH="")  # without the driver that computes nothing
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"^\(64, 1\) True fusec.Explanation\(dlrm_dot.ts.onnx")

    def test_the_example(self):
        made = artifact("dlrm_dot.ts")
        done = subprocess.run(
            [sys.executable, ROOT / "examples/serve_python/serve.py", made], capture_output=True, text=True, check=True, cwd=FOLDER
        )
        row, column = np.ogrid[:4, :13]
        np.save(FOLDER / "dense.npy", ((row + column) % 5 / 4).astype(np.float32))
        row, column = np.ogrid[:4, :26]
        np.save(FOLDER / "ids.npy", ((row + column) % 3).astype(np.int64))
        inputs = ["--input", f"in0={FOLDER}/dense.npy", "--input", f"in1={FOLDER}/ids.npy"]
        with contextlib.redirect_stderr(io.StringIO()):
            _program.run(["run", made.path, "--device", "cpu", *inputs, "--output", str(FOLDER)])
        scores = [float(line.split()[1]) for line in done.stdout.splitlines() if line.startswith("score ")]
        np.testing.assert_allclose(scores, np.load(FOLDER / "out0.npy").ravel(), atol=2e-6)

    def test_the_page_names_every_function(self):
        page = (ROOT / "runtime/python/README.md").read_text()
        for name in ("compile", "load", "verify", "bench", "explain", "tune", "bisect", "refit", "edit", "rebuild"):
            self.assertTrue(callable(getattr(fusec, name)))
            self.assertIn(f"fusec.{name}", page)
        for name in re.findall(r"`([A-Z]\w+)` \d", page):
            self.assertTrue(issubclass(getattr(fusec, name), fusec.Error))


    def test_the_page_has_what_serving_has(self):
        page = (ROOT / "runtime/python/README.md").read_text()
        for path in (ROOT / "runtime/python/fusec/serve").glob("*.py"):
            self.assertTrue(path.name == "__init__.py" or f"`{path.name}`" in page, path.name)
        flags = {word for action in parser()._actions for word in action.option_strings}
        self.assertEqual(set(re.findall(r"`(--[a-z-]+)`", page[page.index("## Serving") :])) - flags, set())


class Types(unittest.TestCase):
    def test_the_stub_has_what_the_extension_has(self):
        stub = (pathlib.Path(fusec.__file__).parent / "_native.pyi").read_text()
        inherited = {*dir(object), "__module__"}
        for kind in (fusec._native.Model, fusec.Context, fusec.Tensor):
            start = stub.index(f"class {kind.__name__}:")
            declared = set(re.findall(r"^    def (\w+)\(", stub[start : stub.find("\nclass ", start) % len(stub)], re.M))
            self.assertEqual(set(vars(kind)) - inherited - declared, set(), kind)
            self.assertEqual({name for name in declared - set(dir(kind)) if name != "__buffer__"}, set(), kind)

    def test_everything_public_has_a_docstring(self):
        for name in dir(fusec):
            value = getattr(fusec, name)
            if not name.startswith("_") and callable(value):
                self.assertTrue(value.__doc__, name)
        for kind in (fusec.Model, fusec.Context, fusec.Tensor, fusec.Artifact):
            for name in dir(kind):
                if not name.startswith("_"):
                    self.assertTrue(getattr(kind, name).__doc__, f"{kind.__name__}.{name}")
