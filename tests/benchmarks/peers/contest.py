"""The contestants of the benchmark: fusec, run by its program, and the others, each in a worker process."""
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
WORKER_OF = {"torch-eager": "torch", "torch-compile": "torch", "torch-max": "torch", "xla": "jax",
             "xla-scan": "jax", "onnxruntime": "onnxruntime"}
PREPARE_SECONDS = {"torch-max": 240}  # the longest wait; for others:
OTHER_SECONDS = 120


class Failure(Exception):
    """The failure of a contestant; recorded with the cell."""


class Worker:
    """A contestant's process, which answers one request at a time."""

    def __init__(self, name, log, environment):
        self.name = name
        self.log = open(log, "ab")
        self.process = subprocess.Popen([sys.executable, HERE / f"{name}_worker.py"], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=self.log, env=environment,
                                        start_new_session=True)
        self.answers = b""

    def ask(self, timeout_s, /, **request):
        try:
            self.process.stdin.write((json.dumps(request) + "\n").encode())
            self.process.stdin.flush()
        except BrokenPipeError:
            raise Failure(f"the {self.name} worker has ended") from None
        line = self.read_line(time.monotonic() + timeout_s)
        answer = json.loads(line)
        if "error" in answer:
            raise Failure(answer["error"])
        return answer

    def read_line(self, deadline):
        stream = self.process.stdout.fileno()
        while b"\n" not in self.answers:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([stream], [], [], left)[0]:
                self.end()
                raise Failure(f"the {self.name} worker did not answer in time")
            chunk = os.read(stream, 1 << 16)
            if not chunk:
                raise Failure(f"the {self.name} worker ended with {self.process.wait()}")
            self.answers += chunk
        line, self.answers = self.answers.split(b"\n", 1)
        return line

    def alive(self):
        return self.process.poll() is None

    def end(self):
        """Ends the process and those it started (compilers)."""
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass  # it has ended by itself
        self.process.wait()
        self.log.close()


def spread_of(samples):
    ordered = np.sort(np.asarray(samples, np.float64))
    return {key: float(np.quantile(ordered, share)) for key, share in (("median", 0.5), ("p10", 0.1), ("p90", 0.9))}


def error_of(result, reference):
    """The error of a result against the double-precision result; their shapes may differ in dims of size 1."""
    result, reference = (np.load(path).astype(np.float64).ravel() for path in (result, reference))
    if result.shape != reference.shape:
        raise Failure(f"the result has {result.size} values, expected {reference.size}")
    difference = np.abs(result - reference)
    return {"relative_l2": float(np.linalg.norm(difference) / np.linalg.norm(reference)),
            "worst": float(difference.max())}


def run(command, seconds, environment=None):
    """Returns the stdout of the command; if it fails, the last line of stderr is the reason of the Failure."""
    try:
        child = subprocess.run(command, capture_output=True, text=True, timeout=seconds, env=environment)
    except subprocess.TimeoutExpired:
        raise Failure(f"{Path(command[0]).name} {command[1]} took over {seconds} s") from None
    if child.returncode != 0:
        said = [line for line in child.stderr.strip().splitlines() if line]
        raise Failure(f"exit {child.returncode}: " + (said[-1] if said else "no message")[:400])
    return child.stdout


class Fusec:
    """One artifact for all batches of a group."""

    def __init__(self, program, folder, target, device, cache):
        self.program, self.folder, self.target, self.device = program, folder, target, device
        self.environment = {**os.environ, "FUSEC_CACHE_DIR": str(cache)}

    def load(self, model, precision, merged):
        shutil.rmtree(self.folder, ignore_errors=True)
        command = [self.program, model, "-o", self.folder, "--target", self.target]
        command += ["--matmul-precision", "high"] if precision == "high" else []
        command += [] if merged else ["--keep-lora"]
        begin = time.perf_counter()
        run([str(part) for part in command], 300, self.environment)
        return {"compile_s": time.perf_counter() - begin}

    def measure(self, batches, inputs, seconds, outputs):
        """By batch, the output of `fusec bench`, and the path of the answer to the first set of inputs."""
        shutil.rmtree(outputs, ignore_errors=True)
        command = [self.program, "bench", self.folder, "--device", self.device, "--json", "--seconds", seconds,
                   "--output", outputs]
        for batch in batches:
            for path in inputs[batch]:
                command += ["--inputs", path]
        measured = json.loads(run([str(part) for part in command], 180, self.environment))
        if [cell["dims"].get("batch") for cell in measured] != list(batches):
            raise Failure(f"bench measured {[cell['dims'] for cell in measured]}, expected batches {batches}")
        answers = [next((Path(outputs) / str(i)).iterdir()) for i in range(len(batches))]
        return dict(zip(batches, measured)), dict(zip(batches, answers))

    def unload(self):
        shutil.rmtree(self.folder, ignore_errors=True)
