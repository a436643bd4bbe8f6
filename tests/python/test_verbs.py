"""compile, verify, bench, tune and explain: flags, progress, errors and interrupts of the program behind them."""

import contextlib
import inspect
import io
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time
import unittest
from unittest import mock

import fusec
import numpy as np
from fusec import _program
from support import FOLDER, ROOT, artifact, load, model, run_python


class Quiet(unittest.TestCase):
    """Collects the program's output on stderr in self.said."""

    def setUp(self):
        self.said = io.StringIO()
        redirection = contextlib.redirect_stderr(self.said)
        redirection.__enter__()
        self.addCleanup(redirection.__exit__, None, None, None)


class Flags(Quiet):
    # Flags of the program that the Python functions do not have under the same name.
    SPELLED = {"dim": "dims", "from": "from_", "plan_dim": "plan_dims"}
    LEFT_OUT = {
        "compile": {"help"},
        "verify": {"help", "json", "bisect"},  # always; fusec.bisect
        "bench": {"help", "json"},
        "tune": {"help"},
        "explain": {"help", "json", "kernel", "dot", "weights", "tensor"},  # methods of the Explanation
        "report": {"help"},
        "refit": {"help"},
        "sign": {"help"},
        "shard": {"help", "json"},  # the plan of the ShardedArtifact
        "edit": {"help"},
        "rebuild": {"help", "json"},
    }

    def test_every_flag_of_the_program_is_a_parameter(self):
        for verb, left_out in self.LEFT_OUT.items():
            text = subprocess.run([_program.PROGRAM, verb, "-h"], capture_output=True, text=True, check=True).stdout
            options = text[text.index("OPTIONS") :] if "OPTIONS" in text else text
            flags = {flag.replace("-", "_") for flag in re.findall(r"^ +(?:-\w,\s*)?--([a-z][\w-]*)", options, re.M)}
            self.assertGreater(len(flags), 1, text)
            parameters = set(inspect.signature(getattr(fusec, verb)).parameters)
            if verb == "shard":
                parameters |= set(inspect.signature(fusec.compile).parameters)  # which it passes on
            self.assertEqual({self.SPELLED.get(flag, flag) for flag in flags - left_out} - parameters, set(), verb)

    def test_flags_as_the_program_takes_them(self):
        with mock.patch.object(_program, "run", return_value="[]") as run:
            fusec.compile(
                "some/model.ts.onnx",
                target=["cpu", "sm_90a"],
                dims={"batch": (1, 4096), "rows": 64, "ids": "2..3"},
                freeze={"mask": pathlib.Path("mask.npy")},
                disable_fusion=["a", "b"],
                keep_lora=True,
                dump_ir=pathlib.Path("dump"),
            )
            self.assertEqual(
                run.call_args.args[0],
                ["compile", "some/model.ts.onnx", "--output=model_fused", "--target=cpu,sm_90a", "--dim=batch=1..4096", "--dim=rows=64",
                 "--dim=ids=2..3", "--freeze=mask=mask.npy", "--disable-fusion=a,b", "--keep-lora", "--dump-ir=dump"],
            )  # fmt: skip
            fusec.bench("folder", dims={"batch": [1, 128]}, inputs=["a.npz", "b.npz"], seconds=0.5)
            self.assertEqual(
                run.call_args.args[0],
                ["bench", "folder", "--dim=batch=1,128", "--inputs=a.npz", "--inputs=b.npz", "--seconds=0.5", "--json"],
            )

    def test_bad_values(self):
        for dims in ({"batch": (1, 2, 3)}, {"batch": 1.5}, ["batch"]):
            with self.assertRaises(fusec.BadUsage):
                fusec.compile(model("sum"), FOLDER / "bad", dims=dims)


class Compile(Quiet):
    def test_a_model_with_ranges_and_frozen_inputs(self):
        made = fusec.compile(
            model("pair"), FOLDER / "frozen", target="cpu", cpu_level="native", dims={"batch": 2}, freeze={"b": np.ones((2, 5), np.float32)}
        )
        self.assertEqual(os.fspath(made), str(FOLDER / "frozen"))
        self.assertEqual([tensor.name for tensor in made.load("cpu").inputs], ["a"])
        self.assertIn("built", self.said.getvalue())

    def test_errors_have_the_class_of_their_exit_code(self):
        cases = [
            (fusec.BadModel, 3, "does not exist", dict(model="nothing.onnx")),
            (fusec.BadModel, 3, "is not an ONNX model", dict(model=ROOT / "README.md")),
            (fusec.BadUsage, 2, 'target "sm_1" is none of', dict(target="sm_1")),
            (fusec.BadUsage, 2, "--dim rows: the model has no such dimension", dict(dims={"rows": 3})),
            (fusec.BadUsage, 2, "matmul-precision", dict(matmul_precision="lowest")),
        ]
        for kind, code, message, flags in cases:
            with self.assertRaisesRegex(kind, message) as caught:
                fusec.compile(**{"model": model("sum"), "output": FOLDER / "bad", "target": "cpu", **flags})
            self.assertEqual(caught.exception.code, code)
            self.assertNotIn("error", self.said.getvalue())  # said once, by the exception
            self.assertFalse((FOLDER / "bad").exists())

    def test_no_compiler(self):
        with mock.patch.dict(os.environ, {"PATH": str(FOLDER)}):
            with self.assertRaises(fusec.NoDevice):
                fusec.compile(model("sum"), FOLDER / "bad", target="cpu")

    def test_no_program(self):
        with mock.patch.object(_program, "PROGRAM", str(FOLDER / "missing")):
            with self.assertRaisesRegex(fusec.NoDevice, "missing cannot be started: No such file"):
                fusec.compile(model("sum"))

    def test_the_command_of_the_environment(self):
        code = "import sys; from fusec._program import main; sys.argv[1:] = ['--version']; main()"
        self.assertRegex(run_python(code).stdout, f"^fusec {fusec.__version__}\n")


class Edit(Quiet):
    def setUp(self):
        super().setUp()
        self.made = fusec.compile(model("sum"), FOLDER / "edited", target="cpu", cpu_level="native")

    def replace(self, old, new):
        (path,) = self.made.edit()
        text = pathlib.Path(path).read_text()
        self.assertEqual(text.count(old), 1)
        pathlib.Path(path).write_text(text.replace(old, new))
        self.addCleanup(os.remove, path)

    def sum_of_ones(self):
        with self.made.load("cpu") as loaded:
            return loaded(np.ones((1, 4), np.float32)).tolist()

    def test_a_kernel_that_is_right_is_taken_and_given_back(self):
        self.replace("x_value + bias_value", "bias_value + x_value")
        rebuilt = self.made.rebuild(dims={"batch": [1, 64]})
        self.assertEqual((rebuilt.result, rebuilt.passed, len(rebuilt.kernels), rebuilt.not_checked), ("rebuilt", True, 1, []))
        (check,) = rebuilt.checks
        self.assertEqual((check.target, check.passed), ("cpu", True))
        self.assertEqual({output.kernel for output in check.outputs}, set(rebuilt.kernels))
        self.assertEqual([time.dims for time in check.times], [{"batch": 1}, {"batch": 64}])
        self.assertTrue(all(time.original_us > 0 and time.edited_us > 0 for time in check.times))
        self.assertIn("original us", rebuilt._repr_html_())
        self.assertEqual(self.sum_of_ones(), [[11, 21, 31, 41]])
        self.assertEqual(self.made.explain().json["kernels"][0]["edited"]["check"], "passed")
        self.assertEqual(self.made.rebuild(restore=True).result, "restored")
        self.assertEqual(self.made.rebuild(restore=True).result, "unchanged")
        self.assertNotIn("edited", self.made.explain().json["kernels"][0])

    def test_a_kernel_that_is_wrong_is_found(self):
        self.replace("x_value + bias_value", "x_value - bias_value")
        with self.assertRaises(fusec.ComparisonFailed) as caught:
            fusec.rebuild(self.made)
        report = caught.exception.report
        self.assertEqual((report.result, report.passed, report.checks[0].times), ("left", False, []))
        self.assertFalse(report.checks[0].outputs[0].passed)
        self.assertIn(report.kernels[0], str(caught.exception))
        self.assertEqual(self.sum_of_ones(), [[11, 21, 31, 41]])

    def test_an_error_of_the_compiler_names_the_line(self):
        self.replace("x_value + bias_value", "x_value + no_such_value")
        with self.assertRaisesRegex(fusec.BadInput, r"kernels\.cc cannot be compiled"):
            fusec.rebuild(self.made)
        self.assertRegex(self.said.getvalue(), r"kernels\.cc:\d+:.*no_such_value")


class Progress(unittest.TestCase):
    def fake_program(self, text):
        path = FOLDER / "fake_fusec"
        path.write_text("#!/bin/sh\n" + text)
        path.chmod(0o755)
        patch = mock.patch.object(_program, "PROGRAM", str(path))
        patch.start()
        self.addCleanup(patch.stop)

    def test_a_terminal_sees_progress(self):
        self.fake_program('[ -t 2 ] && printf "half\\r\\033[K" >&2; echo "fusec: error: it broke" >&2; exit 3')

        class Terminal(io.StringIO):
            def isatty(self):
                return True

        with contextlib.redirect_stderr(Terminal()) as said:
            with self.assertRaisesRegex(fusec.BadModel, "^it broke$"):
                fusec.compile("model.onnx")
        self.assertEqual(said.getvalue(), "half\r\033[K")

    def test_without_a_terminal_there_is_no_progress(self):
        self.fake_program('[ -t 2 ] && printf half >&2; echo "fusec: warning: odd" >&2; printf "no end of line" >&2; exit 0')
        with contextlib.redirect_stderr(io.StringIO()) as said:
            fusec.compile("model.onnx")
        self.assertEqual(said.getvalue(), "fusec: warning: odd\nno end of line")

    def test_another_stream(self):
        self.fake_program('echo "fusec: warning: odd" >&2; exit 0')
        stream = io.StringIO()
        with contextlib.redirect_stderr(io.StringIO()) as said, _program.saying_to(stream):
            fusec.compile("model.onnx")
        self.assertEqual((stream.getvalue(), said.getvalue()), ("fusec: warning: odd\n", ""))

    def test_no_stderr_at_all(self):
        self.fake_program('echo "fusec: error: it broke" >&2; exit 70')
        with mock.patch.object(sys, "stderr", None):
            with self.assertRaisesRegex(fusec.Bug, "^it broke$"):
                fusec.compile("model.onnx")

    def test_an_end_without_a_word(self):
        self.fake_program("kill -9 $$")
        with contextlib.redirect_stderr(io.StringIO()):
            with self.assertRaisesRegex(fusec.Bug, "fusec compile ended with exit code -9"):
                fusec.compile("model.onnx")


class Interrupts(unittest.TestCase):
    CODE = """
import fusec, os, sys
sys.stderr = open(os.devnull, "w")
if len(sys.argv) > 3:
    import fusec._program
    fusec._program.PROGRAM = sys.argv[3]
try: fusec.compile(sys.argv[1], sys.argv[2], target="cpu", cpu_level="x86-64-v3")
except KeyboardInterrupt: print("interrupted", flush=True)
"""

    def start(self, *arguments):
        """An interpreter that compiles; returns once the program that it started reports progress."""
        process = subprocess.Popen(
            [sys.executable, "-c", self.CODE, *map(str, arguments)], stdout=subprocess.PIPE, text=True, start_new_session=True, cwd=FOLDER,
            env={**os.environ, "FUSEC_CACHE_DIR": "/dev/null/none", "FUSEC_CXX": str(FOLDER / "slow_compiler")},
        )  # fmt: skip
        self.addCleanup(process.stdout.close)
        while not self.worker.exists() or not self.worker.read_text():
            self.assertIsNone(process.poll(), "it ended")
            time.sleep(0.01)
        return process

    def setUp(self):
        self.worker = FOLDER / f"{self.id()}.pid"
        self.script("slow_compiler", f"echo $$ >{self.worker}\nexec sleep 60")

    def script(self, name, text):
        path = FOLDER / name
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)
        return path

    def assert_no_worker(self):
        with self.assertRaises(ProcessLookupError):
            os.kill(int(self.worker.read_text()), 0)

    def test_the_program_cleans_up_before_the_exception_goes_on(self):
        output = FOLDER / "interrupted"
        process = self.start(model("sum"), output)
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does
        self.assertEqual(process.communicate(timeout=60)[0], "interrupted\n")
        self.assertEqual(list(FOLDER.glob("*interrupted*")), [])
        self.assert_no_worker()

    def test_a_second_interrupt_kills_it(self):
        stubborn = self.script("stubborn_fusec", f"trap '' INT\necho $$ >{self.worker}\nwhile :; do sleep 0.1; done")
        process = self.start("model.onnx", "output", stubborn)
        for _ in range(2):
            process.send_signal(signal.SIGINT)
            time.sleep(0.3)
        self.assertEqual(process.communicate(timeout=60)[0], "interrupted\n")
        self.assert_no_worker()


class Reports(Quiet):
    def test_explain(self):
        explained = artifact("pair").explain(target="cpu", dims={"batch": 10})
        self.assertEqual((explained.target, explained.dims), ("cpu", {"batch": 10}))
        self.assertEqual(explained.launches, len(explained.kernels))
        self.assertGreater(explained.bytes_before, 0)
        kernel = explained.kernels[0]
        self.assertIn(kernel.name, explained.kernel(kernel.name))
        self.assertEqual(set(explained.weights()), {"constants", "initializers"})
        with self.assertRaisesRegex(fusec.BadUsage, "--tensor none"):
            explained.weights("none")
        self.assertTrue(explained.dot().startswith("digraph"))
        page = explained._repr_html_()
        self.assertIn(kernel.name, page)
        self.assertEqual(page.count("<table>"), page.count("</table>"))
        self.assertEqual(artifact("pair")._repr_html_().count("<table>"), page.count("<table>"))
        with self.assertRaises(fusec.BadUsage):
            explained.kernel("none")

    def test_every_key_of_explain_has_an_attribute(self):
        explained = fusec.explain(artifact("dlrm_dot.ts"), target="cpu")
        for edge in explained.not_fused:
            self.assertGreater(edge.bytes, 0)
            self.assertTrue(edge.tensor and edge.type and edge.producer_kernel and edge.consumer_kernel and edge.reason)
            self.assertIsInstance(edge.needed, str)
        for kernel in explained.kernels:
            self.assertTrue(kernel.kind and kernel.ops and kernel.launch)
            self.assertGreater(kernel.bytes_read + kernel.bytes_written + kernel.flops, 0)
            self.assertIsInstance(kernel.modules + kernel.onnx_nodes, list)

    def test_verify(self):
        verified = artifact("pair").verify(model=model("pair"), dims={"batch": [1, 7]}, device="cpu")
        self.assertTrue(verified and verified.passed)
        self.assertIn("interpreter", verified.against)
        self.assertEqual({output.name for output in verified.outputs}, {"both", "twice"})
        output = verified.outputs[0]
        self.assertLessEqual(output.rel_l2, output.tolerance)
        self.assertTrue(output.reason and output.against and output.dims["batch"] and output.max_abs >= 0 and output.max_rel >= 0)
        self.assertIn("pass", verified._repr_html_())
        self.assertIn("passed", repr(verified))
        kernels = artifact("pair").verify(per_fusion=True, dims={"batch": 3}, device="cpu")
        self.assertTrue(all(output.kernel for output in kernels.outputs))
        self.assertIn(kernels.outputs[0].kernel, kernels._repr_html_())
        special = artifact("pair").verify(model=model("pair"), special_values=True, dims={"batch": 64}, device="cpu")
        self.assertTrue(special.passed)
        self.assertEqual(sorted(output.name for output in special.outputs), ["both", "both", "twice", "twice"])

    def test_stored_tables(self):
        folder = str(FOLDER / "stored")
        fusec.compile(model("lookup"), folder, target="cpu", cpu_level="x86-64-v3", table_storage={"tab*": "int8"})
        (table,) = fusec.explain(folder).table_storage
        self.assertEqual((table["table"], table["storage"], table["bytes_before"], table["bytes"]), ("table", "int8", 24, 30))
        np.savez(FOLDER / "ids.npz", ids=np.array([0, 1, 2]))
        verification = fusec.verify(folder, model=model("lookup"), inputs=FOLDER / "ids.npz", labels=np.array([0, 0, 0, 1, 1, 1]))
        (drift,) = verification.drift
        self.assertEqual((drift.name, drift.elements, drift.model_auc, drift.auc, drift.misplaced), ("rows", 6, 1, 1, 0))
        self.assertLess(drift.max_abs, 0.01)
        self.assertLessEqual(drift.mean_abs, drift.max_abs)
        self.assertEqual(drift.spearman, 1)
        with self.assertRaisesRegex(fusec.ComparisonFailed, 'drift by more than the bound: "rows"'):
            fusec.verify(model("lookup"), device="cpu", table_storage={"table": "fp8"}, drift_bound=1e-6)
        with self.assertRaisesRegex(fusec.BadUsage, "no embedding table has such a name"):
            fusec.compile(model("lookup"), folder, table_storage={"nothing*": "int8"})
        with self.assertRaisesRegex(fusec.BadUsage, "--table-placement nothing[*]=host: no embedding table has such a name"):
            fusec.compile(model("lookup"), folder, table_placement={"nothing*": "host"})
        fusec.compile(model("lookup"), folder, target="cpu", cpu_level="x86-64-v3", table_placement={"tab*": "host"})
        self.assertEqual(fusec.explain(folder).table_placement, [])  # a GPU would have it there, this is for a CPU
        self.assertTrue(fusec.verify(folder, model=model("lookup"), device="cpu", table_placement={"tab*": "host"}))

    def test_a_wrong_answer(self):
        # An artifact of another model with the same signature, which claims to be made from this one.
        broken = FOLDER / "broken"
        shutil.copytree(artifact("half"), broken)
        with self.assertRaises(fusec.Error):
            fusec.verify(broken, model=model("bfloat"))
        failing = {"pass": False, "against": ["interpreter"], "outputs": [
            {"name": "y", "dims": {}, "max_abs": 1.0, "max_rel": 1.0, "rel_l2": 1.0, "tolerance": 1e-5, "reason": "", "pass": False}
        ]}  # fmt: skip
        fake = FOLDER / "failing_fusec"
        fake.write_text(f"#!/bin/sh\necho '{json.dumps(failing)}'\nexit 1\n")
        fake.chmod(0o755)
        with mock.patch.object(_program, "PROGRAM", str(fake)):
            with self.assertRaisesRegex(fusec.ComparisonFailed, 'more than their tolerance: "y"') as caught:
                fusec.verify(broken)
            self.assertIn("FAIL", caught.exception.report._repr_html_())
            self.assertFalse(caught.exception.report)
            self.assertIn("max_abs", fusec.bisect(broken, model=model("half")))
        self.assertIsInstance(fusec.bisect(artifact("half"), model=model("half"), device="cpu"), str)

    def test_bench(self):
        measured = artifact("sum").bench(dims={"batch": [1, 8]}, seconds=0.02, per_kernel=True, contexts=2, device="cpu")
        self.assertEqual([measurement.dims for measurement in measured], [{"batch": 1}, {"batch": 8}])
        first = measured[0]
        self.assertGreater(first.call_us.median, 0)
        self.assertLessEqual(first.device_us.p10, first.device_us.p99)
        self.assertGreater(first.runs_per_second, 0)
        self.assertEqual((first.launches, len(first.kernels), first.bytes), (1, 1, 48))
        self.assertGreaterEqual(first.flops, 0)
        self.assertEqual(first.kernels[0].bytes, 48)
        self.assertIn(first.kernels[0].name, measured._repr_html_())
        self.assertIn("us", repr(measured))
        self.assertEqual(len(measured[:1]), 1)

    def test_report(self):
        page = artifact("pair").report(FOLDER / "pair.html", target="cpu", dims={"batch": 10})
        self.assertTrue(page.html.startswith("<!doctype html>"), page.html[:60])
        self.assertIn("srcdoc=", page._repr_html_())
        measured = artifact("pair").bench(dims={"batch": 8}, seconds=0.02, per_kernel=True, device="cpu")
        for given in (measured, FOLDER / "pair.json"):
            (FOLDER / "pair.json").write_text(json.dumps(measured.json))
            timed = load("pair").report(FOLDER / "timed.html", bench=given)
            self.assertGreater(len(timed.html), len(page.html))
        self.assertEqual(repr(timed), f"fusec.Page({os.fspath(timed)!r})")
        with self.assertRaisesRegex(fusec.BadUsage, "^cannot write "):
            artifact("pair").report(FOLDER / "none" / "pair.html")

    def test_tune(self):
        made = fusec.compile(model("sum"), FOLDER / "tuned", target="cpu", cpu_level="native")
        self.assertIsInstance(made.tune(dims={"batch": 8}, time_limit=1, device="cpu"), str)
