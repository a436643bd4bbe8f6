"""The contestant's side of a worker process: requests arrive as lines of JSON on stdin, and answers are lines of JSON on stdout."""
import json
import os
import sys
import time
import traceback

import numpy as np

WARM_SECONDS = 0.05  # seconds of work before a measurement, so that the GPU's clock has risen


def serve(handler):
    """Calls handler.OP(**arguments) for every request {"op": OP, ...}. Output of libraries goes to stderr."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for line in sys.stdin:
        request = json.loads(line)
        try:
            answer = getattr(handler, request.pop("op"))(**request)
        except Exception as error:  # of any library: it is recorded with the cell
            traceback.print_exc()
            answer = {"error": f"{type(error).__name__}: {error}"[:400]}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


def load_inputs(paths):
    """One list of arrays per .npz file, in the model's order."""
    sets = []
    for path in paths:
        with np.load(path) as file:
            sets.append([file[name] for name in sorted(file.files)])
    return sets


def repeat(seconds, sample, least=5):
    """The results of repeated calls of `sample()`, at least that many, for about that long."""
    samples = []
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(samples) < least:
        samples.append(sample())
    return samples


def count_for(first_us, sample_us=2000):
    """The number of runs of `first_us` microseconds that take about two milliseconds, as a multiple of 8."""
    return max(1, round(sample_us / max(first_us, 0.1) / 8)) * 8
