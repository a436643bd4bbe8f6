"""Compiles several cells at a time for max-autotune, ahead of their measurement: compiling a cell takes a minute, mostly in one Python
thread.

The compiled code stays in PyTorch's caches, where the process that is measured later finds it. The kernels among which max-autotune chooses
are still timed one at a time, under a lock, so that no process disturbs the choice of another.
"""
import fcntl
import os
import threading
from concurrent.futures import ThreadPoolExecutor

from contest import Failure, PREPARE_SECONDS, WORKER_OF, Worker

PEER = "torch-max"
COMPILERS = "4"  # compiler processes per job; PyTorch's default is the number of cores


def compile_ahead(jobs, at_a_time, environment, lock, log, say):
    """The cell and the seconds of compiling for each job (cell, model, precision, merged, inputs), without jobs that fail."""
    environment = {**environment, "TORCHINDUCTOR_COMPILE_THREADS": COMPILERS, "FUSEC_BENCHMARK_LOCK": str(lock)}

    def compile_one(job):
        cell, model, precision, merged, inputs = job
        worker = Worker(WORKER_OF[PEER], log, environment)
        try:
            worker.ask(PREPARE_SECONDS[PEER], op="load", model=str(model), precision=precision, merged=merged)
            made = worker.ask(PREPARE_SECONDS[PEER], op="compile", peer=PEER, inputs=inputs[:1])
        except Failure as failure:
            say(f"  {cell} {PEER}: not compiled ahead: {failure}")
            return cell, None
        finally:
            worker.end()
        say(f"  {cell} {PEER}: compiled ahead in {made['compile_s']:.1f} s")
        return cell, made["compile_s"]

    with ThreadPoolExecutor(at_a_time) as pool:
        for cell, seconds in pool.map(compile_one, jobs):
            if seconds is not None:
                yield cell, seconds


def share_gpu():
    """In a worker: makes PyTorch time kernels under the lock that the environment names, if it names one."""
    path = os.environ.get("FUSEC_BENCHMARK_LOCK")
    if path is None:
        return
    from torch._inductor.runtime.benchmarking import benchmarker

    alone, turn = benchmarker.benchmark_gpu, Turn(path)

    def benchmark_gpu(*arguments, **named):
        with turn:
            return alone(*arguments, **named)

    benchmarker.benchmark_gpu = benchmark_gpu


class Turn:
    """A lock between processes that a thread may take again while it holds it: a timed candidate may itself choose kernels first (such as a
    long sum that max-autotune splits)."""

    def __init__(self, path):
        self.path, self.threads, self.depth = path, threading.RLock(), 0

    def __enter__(self):
        self.threads.acquire()
        if self.depth == 0:
            self.file = open(self.path, "w")
            fcntl.flock(self.file, fcntl.LOCK_EX)
        self.depth += 1

    def __exit__(self, *_):
        self.depth -= 1
        if self.depth == 0:
            self.file.close()
        self.threads.release()
