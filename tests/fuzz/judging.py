"""Judges models in batches: writes them to folders with their inputs and answers, which build/tests/fuzz/model_judge reads."""

import json
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile

import onnx

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = ROOT / "build/tests/fuzz/model_judge"
FAST = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None  # a folder in memory for short-lived files


class Judge:
    """A process that judges batches. Generated code is not optimized, so that it compiles three times as fast, except with --sm-90a."""

    def __init__(self, folder, flags=(), program=PROGRAM):
        environment = dict(os.environ, FUSEC_NUM_THREADS="1", OMP_NUM_THREADS="1", TMPDIR=str(folder), FUSEC_CACHE_DIR=str(folder / "cache"))
        if "--sm-90a" not in flags:
            environment["FUSEC_CXXFLAGS"] = "-O0"
        self.cache = folder / "cache"
        self.process = subprocess.Popen([str(program), *flags], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, errors="replace",
                                        env=environment)  # fmt: skip

    def start(self, folders):
        self.process.stdin.write("".join(f"{folder}\n" for folder in folders) + "\n")
        self.process.stdin.flush()

    def verdicts(self):
        """The verdicts on the started batch, by folder."""
        found = {}
        for line in self.process.stdout:
            if not line.strip():
                shutil.rmtree(self.cache, ignore_errors=True)
                return found
            verdict = json.loads(line)
            found[verdict["model"]] = verdict
        raise RuntimeError(f"{self.process.args[0]} ended with {self.process.wait()}")

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def write(folder, proto, sets, answers=None, judge=""):
    """`sets` are lists of TensorProtos by name; `answers`, if given, those of the implementation `judge`."""
    folder.mkdir(parents=True)
    onnx.save(proto, folder / "model.onnx")
    if answers:
        (folder / "judge.txt").write_text(judge)
    for number, tensors in enumerate(sets):
        (folder / f"set_{number}").mkdir()
        for i, tensor in enumerate(tensors):
            (folder / f"set_{number}/input_{i}.pb").write_bytes(tensor.SerializeToString())
        for i, tensor in enumerate(answers[number] if answers else ()):
            (folder / f"set_{number}/output_{i}.pb").write_bytes(tensor.SerializeToString())


def in_a_copy(work):
    """Runs `work`, whose result is JSON, in a fork of this process; None if that crashed."""
    receive, send = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(receive)
        signal.alarm(600)
        code = 1
        try:
            with os.fdopen(send, "w") as stream:
                json.dump(work(), stream)
            code = 0
        finally:
            os._exit(code)
    os.close(send)
    with os.fdopen(receive) as stream:
        text = stream.read()
    _, status = os.waitpid(child, 0)
    return json.loads(text) if status == 0 else None


def scratch():
    return tempfile.TemporaryDirectory(prefix="fusec-fuzz-", dir=FAST)
