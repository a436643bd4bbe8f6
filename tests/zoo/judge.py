"""Judges one export with fusec and onnxruntime; the result is one row of the table."""

import dataclasses
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

import numpy

from isolated import Failed, first_line, isolated

SECONDS = 300  # for each command
UNSUPPORTED = (3, 4)
BUG = 70


@dataclasses.dataclass
class Row:
    library: str
    model: str
    exporter: str
    verdict: str = ""
    reason: str = ""
    onnxruntime: str = ""  # the number of input files that it runs, and why it does not run the others
    launches_before: str = ""
    launches_cpu: str = ""
    launches_gpu: str = ""
    gpu: str = ""  # the verdict of compiling for the GPU, and its reason
    export_s: str = ""
    compile_s: str = ""
    verify_s: str = ""


VERDICTS = {
    "crash": "a signal, or exit code 70",
    "wrong": "with valid inputs an answer differs from the interpreter's and from onnxruntime's by more than its tolerance",
    "doubtful": "differs from only one of the two judges, or only with inputs of `fusec verify`'s own: to be looked at by hand",
    "unsupported": "does not compile",
    "narrowed": "compiles for one size of a dim only, with a warning",
    "refused": "compiles, but does not run sizes that onnxruntime runs",
    "verify-erred": "right with valid inputs; `fusec verify` cannot judge it with inputs of its own",
    "timeout": f"a command took over {SECONDS} s",
    "right": "equals the interpreter and onnxruntime at all sizes tried (if onnxruntime lacks an op of the model, the interpreter and the "
             "framework that made it)",
    "not-run": "onnxruntime itself runs none of the inputs, fusec did not succeed either; not counted",
    "no-export": "the exporter failed; not counted",
}


@dataclasses.dataclass
class Outcome:
    code: int  # negative: a signal
    text: str  # stderr
    seconds: float
    output: str = ""  # stdout

    @property
    def crashed(self):
        return self.code < 0 or self.code in (BUG, 128 + 6, 128 + 11)

    @property
    def reason(self):
        """The first line of fusec's output that is not a warning."""
        lines = [line for line in self.text.split("\n") if line.strip() and "fusec: warning:" not in line]
        words = first_line(lines[0] if lines else "no word").removeprefix("fusec: ").removeprefix("error: ")
        words = re.sub(r"^\S*model\.onnx: ", "", words)
        return f"signal {-self.code}" if self.code < 0 else words


class Fusec:
    """The program, with the Python of this environment for onnxruntime."""

    def __init__(self, program):
        self.program = str(program)
        self.environment = dict(os.environ, FUSEC_PYTHON=sys.executable, OMP_NUM_THREADS="1")

    def __call__(self, *arguments):
        begin = time.monotonic()
        try:
            run = subprocess.run([self.program, *map(str, arguments)], capture_output=True, text=True, errors="replace",
                                 timeout=SECONDS, env=self.environment, stdin=subprocess.DEVNULL)  # fmt: skip
        except subprocess.TimeoutExpired:
            raise Failed("timeout", f"fusec {arguments[0] if len(arguments) < 4 else 'compile'}: over {SECONDS} s")
        return Outcome(run.returncode, run.stderr, time.monotonic() - begin, run.stdout)


def judge(fusec, row, folder, gpu_target):
    """Fills the row in; the folder holds what export() wrote."""
    ran, row.onnxruntime = by_onnxruntime(folder)
    lacks_op = UnknownOp.__name__ in row.onnxruntime
    if lacks_op:
        ran = sorted(folder.glob("inputs.*.npz"))
    artifact = folder / "artifact"
    try:
        row.verdict, row.reason = _cpu(fusec, row, folder, artifact, ran)
        if lacks_op and row.verdict == "right":
            row.verdict, row.reason = _beside_framework(fusec, folder, artifact)
        row.gpu = _gpu(fusec, row, folder, artifact, gpu_target) if gpu_target else ""
    except Failed as failure:
        row.verdict, row.reason = failure.kind, str(failure)
    finally:
        shutil.rmtree(artifact, ignore_errors=True)
    if not ran and row.verdict not in ("right", "crash"):
        row.verdict = "not-run"
    return row


def by_onnxruntime(folder):
    """The input files that onnxruntime runs, and a remark about them."""
    files = sorted(folder.glob("inputs.*.npz"))
    ran, why = [], ""
    for file in files:
        try:
            isolated(_run_onnxruntime, folder / "model.onnx", file, seconds=SECONDS, log=folder / "onnxruntime.log")
            ran.append(file)
        except Failed as failure:
            why = why or str(failure)
    return ran, f"{len(ran)}/{len(files)} {why}".strip()


class UnknownOp(Exception):
    """onnxruntime refuses the model because of an op that it does not define, such as one of TensorFlow that its exporter did not convert."""


def _run_onnxruntime(model, file):
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    try:
        session = onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
    except Exception as error:
        unknown = re.search(r"No Op registered for \S+|\S+ is not a registered function/op", str(error))
        if unknown:
            raise UnknownOp(unknown.group()) from error
        raise
    session.run(None, dict(numpy.load(file)))


def _cpu(fusec, row, folder, artifact, ran):
    model = folder / "model.onnx"
    built = fusec(model, "-o", artifact, "--target", "cpu", "--cpu-level", "x86-64-v3")
    row.compile_s = f"{built.seconds:.1f}"
    if built.code != 0:
        return ("crash" if built.crashed else "unsupported"), built.reason
    launches = re.search(r"(\d+) launch\w* before fusion, (\d+) on", built.text)
    row.launches_before, row.launches_cpu = launches.groups() if launches else ("", "")
    narrowed = re.search(r"compiled for \S+=\d+ only: .*", built.text)
    checks = [fusec("verify", artifact, "--model", model, "--device", "cpu", "--inputs", file) for file in ran]
    own = fusec("verify", artifact, "--model", model, "--device", "cpu")
    row.verify_s = f"{sum(check.seconds for check in checks) + own.seconds:.1f}"
    for check in [*checks, own]:
        if check.crashed:
            return "crash", "verify: " + check.reason
    differing = [check for check in checks if check.code == 1]
    for check in differing:
        if not _one_judge_agrees(check):
            return "wrong", _first_difference(check)
    if narrowed:
        return "narrowed", first_line(narrowed.group())
    for check in checks:
        if check.code not in (0, 1):
            return "refused", check.reason
    for check in [*differing, own]:
        if check.code == 1:
            return "doubtful", _first_difference(check)
    return ("right", "") if own.code == 0 else ("verify-erred", own.reason)


def _beside_framework(fusec, folder, artifact):
    """Compares the CPU's answers with those of the framework that made the model, where export() has kept them."""
    for file in sorted(folder.glob("outputs.*.npz")):
        with tempfile.TemporaryDirectory() as answers:
            run = fusec("run", artifact, "--device", "cpu", "--input", file.with_name(file.name.replace("outputs", "inputs")), "--output", answers)
            if run.code != 0:
                return "refused", run.reason
            right = numpy.load(file)
            answers_in_order = re.findall(r"\S+\.npy$", run.output, re.MULTILINE)
            for written, key in zip(answers_in_order, right.files, strict=True):
                answer, expected = numpy.load(written), right[key]
                if answer.shape != expected.shape or not numpy.allclose(answer, expected, rtol=1e-3, atol=1e-4, equal_nan=True):
                    return "wrong", f"{pathlib.Path(written).stem} differs from the framework's answer ({file.name})"
    return "right", ""


def _one_judge_agrees(check):
    """Whether all differences are from only one of interpreter and onnxruntime, so that these two differ from each other."""
    rows = [line.split() for line in check.output.split("\n") if len(line.split()) > 3]
    judges = {row[2] for row in rows} & {"interpreter", "onnxruntime"}
    return len(judges) == 2 and len(judges & {row[2] for row in rows if "FAIL" in row}) == 1


def _first_difference(check):
    lines = [line for line in check.output.split("\n") if re.search(r"\b(FAIL|fail|differs?)\b", line)]
    return first_line(lines[0] if lines else check.output or check.text)


def _gpu(fusec, row, folder, artifact, target):
    built = fusec(folder / "model.onnx", "-o", artifact, "--target", target)
    if built.code != 0:
        return f"{'crash' if built.crashed else 'unsupported'}: {built.reason}"
    launches = re.search(r"before fusion, (\d+) on", built.text)
    row.launches_gpu = launches.group(1) if launches else ""
    return "compiles"
