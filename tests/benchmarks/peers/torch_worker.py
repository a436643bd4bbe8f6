#!/usr/bin/env python3
"""PyTorch as a contestant: eager, torch.compile and torch.compile with max-autotune, each under CUDA graphs."""
import gc
import sys
import time
from pathlib import Path

import numpy as np
import torch

sys.path.append(str(Path(__file__).resolve().parents[3] / "models"))
import suite  # noqa: E402
import torch_models  # noqa: E402
from ahead import share_gpu  # noqa: E402
from worker import WARM_SECONDS, count_for, load_inputs, repeat, serve  # noqa: E402

MODES = {"torch-eager": None, "torch-compile": {}, "torch-max": {"mode": "max-autotune-no-cudagraphs"}}
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"  # the CPU for trying this file out


def sets_of(paths):
    return [[torch.from_numpy(x).to(DEVICE) for x in arrays] for arrays in load_inputs(paths)]


def synchronize():
    if DEVICE == "cuda":
        torch.cuda.synchronize()


def capture(calls, pool):
    """Captures `calls` in one CUDA graph; returns the graph and their results."""
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, pool=pool):
        results = [call() for call in calls]
    return graph, results


class Prepared:
    """A function with eight sets of inputs: one graph of all eight calls, one graph for each, and one whose inputs are copied in."""

    def __init__(self, function, sets):
        self.function, self.sets = function, sets
        self.host = [[x.cpu().pin_memory() for x in inputs] for inputs in sets]
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for inputs in sets:
                for _ in range(2):
                    function(*inputs)
        torch.cuda.current_stream().wait_stream(stream)
        torch.cuda.synchronize()
        pool = torch.cuda.graph_pool_handle()
        calls = [lambda inputs=inputs: function(*inputs) for inputs in sets]
        self.all, self.kept = capture(calls, pool)
        self.single = [capture([call], pool) for call in calls]
        self.inputs = [x.clone() for x in sets[0]]
        self.graph, (self.answer,) = capture([lambda: function(*self.inputs)], pool)
        self.result = torch.empty_like(self.answer, device="cpu").pin_memory()
        self.turn = 0

    def timed(self, launch, count, calls):
        """The microseconds on the GPU per call, for `count` launches of `calls` calls each."""
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        for _ in range(count):
            launch()
        end.record()
        end.synchronize()
        return begin.elapsed_time(end) * 1e3 / (count * calls)

    def replay_next(self):
        self.single[self.turn][0].replay()
        self.turn = (self.turn + 1) % len(self.single)

    def call_graph(self):
        """A call from inputs in page-locked memory to the result in page-locked memory, including the synchronization."""
        begin = time.perf_counter()
        for source, target in zip(self.host[self.turn], self.inputs):
            target.copy_(source, non_blocking=True)
        self.graph.replay()
        self.result.copy_(self.answer, non_blocking=True)
        torch.cuda.current_stream().synchronize()
        self.turn = (self.turn + 1) % len(self.single)
        return (time.perf_counter() - begin) * 1e6

    def call_plain(self):
        """The same without a CUDA graph, as a user calls a module."""
        begin = time.perf_counter()
        inputs = [x.to(DEVICE, non_blocking=True) for x in self.host[self.turn]]
        self.result.copy_(self.function(*inputs), non_blocking=True)
        torch.cuda.current_stream().synchronize()
        self.turn = (self.turn + 1) % len(self.single)
        return (time.perf_counter() - begin) * 1e6

    def measure(self, seconds):
        warm = repeat(WARM_SECONDS, lambda: self.timed(self.all.replay, 3, len(self.sets)))
        one = float(np.median(warm))
        rounds = max(1, count_for(one) // len(self.sets))
        count = rounds * len(self.sets)
        together = repeat(seconds / 2, lambda: self.timed(self.all.replay, rounds, len(self.sets)))
        self.timed(self.replay_next, count, 1)
        separate = repeat(seconds / 4, lambda: self.timed(self.replay_next, count, 1))
        return {"device_us": together, "device_single_us": separate, "call_us": repeat(seconds / 4, self.call_graph)}


class PreparedOnCpu:
    def __init__(self, function, sets):
        self.function, self.sets, self.turn = function, sets, 0

    def call(self):
        begin = time.perf_counter()
        self.function(*self.sets[self.turn])
        self.turn = (self.turn + 1) % len(self.sets)
        return (time.perf_counter() - begin) * 1e6

    def measure(self, seconds):
        samples = repeat(seconds, self.call)
        return {"device_us": samples, "call_us": samples}


class Handler:
    def __init__(self):
        self.source, self.module, self.prepared = None, None, {}

    def hello(self):
        names = [torch.cuda.get_device_name(0)] if DEVICE == "cuda" else []
        return {"torch": torch.__version__, "cuda": torch.version.cuda, "python": sys.version.split()[0], "gpu": names}

    def load(self, model, precision, merged):
        """Loads the module, unless it is loaded; fp32 products use TF32 if `precision` is "high"."""
        self.unload()
        torch.set_float32_matmul_precision("high" if precision == "high" else "highest")
        begin = time.perf_counter()
        if self.source != (model, merged):
            self.source = self.module = None
            family, config, _, weights = suite.read_weights(model, merged)
            self.module = torch_models.load(family, config, weights, DEVICE)
            synchronize()
            self.source = (model, merged)
        return {"load_s": time.perf_counter() - begin}

    def unload(self):
        """Drops everything except the module, which the next group may need, too."""
        self.prepared = {}
        torch._dynamo.reset()
        gc.collect()
        if DEVICE == "cuda":
            torch.cuda.empty_cache()
        return {}

    def reference(self, model, inputs, outputs):
        """The answers in double precision, with the weights as stored in the file."""
        family, config, _, weights = suite.read_weights(model, False)
        module = torch_models.load(family, config, weights, DEVICE).double()
        for tensors, path in zip(sets_of(inputs), outputs):
            tensors = [x.double() if x.is_floating_point() else x for x in tensors]
            with torch.no_grad():
                np.save(path, module(*tensors).cpu().numpy())
        del module
        gc.collect()
        if DEVICE == "cuda":
            torch.cuda.empty_cache()
        return {}

    def compiled(self, peer, sets):
        """The module as `peer` calls it, compiled for the shape of these inputs, and the seconds of compiling."""
        torch._dynamo.reset()
        begin = time.perf_counter()
        function = self.module
        if MODES[peer] is not None:
            function = torch.compile(self.module, fullgraph=True, dynamic=False, **MODES[peer])
        function(*sets[0])
        synchronize()
        return function, time.perf_counter() - begin

    def compile(self, peer, inputs):
        """Compiles for the shape of these inputs, which fills PyTorch's caches."""
        with torch.no_grad():
            return {"compile_s": self.compiled(peer, sets_of(inputs))[1]}

    def prepare(self, key, peer, inputs, output):
        """Compiles for the shape of these inputs, captures the graphs, and writes the answer to the first inputs."""
        sets = sets_of(inputs)
        with torch.no_grad():
            function, compile_s = self.compiled(peer, sets)
            if DEVICE == "cpu":
                np.save(output, function(*sets[0]).numpy())
                self.prepared[key] = PreparedOnCpu(function, sets)
                return {"compile_s": compile_s}
            prepared = Prepared(function, sets)
            prepared.replay_next()
            torch.cuda.synchronize()
            np.save(output, prepared.single[0][1][0].cpu().numpy())
            repeat(0.05, prepared.call_plain)
            plain = repeat(0.1, prepared.call_plain)
        prepared.function = None  # the next reset drops its compiled code; the graphs stay
        self.prepared[key] = prepared
        return {"compile_s": compile_s, "call_plain_us": plain}

    def measure(self, key, seconds):
        with torch.no_grad():
            return self.prepared[key].measure(seconds)


if __name__ == "__main__":
    share_gpu()
    serve(Handler())
