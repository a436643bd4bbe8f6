#!/usr/bin/env python3
"""onnxruntime's CUDA provider as a contestant, with the CUDA graph that it captures itself where it can."""
import gc
import time

import numpy as np
import onnxruntime as ort

from worker import WARM_SECONDS, count_for, load_inputs, repeat, serve


class Prepared:
    """A session with inputs and output bound to GPU memory. A captured graph reads its inputs from fixed addresses, so every sample first
    copies another set there, which is not timed."""

    def __init__(self, model, precision, sets, graph):
        options = ort.SessionOptions()
        options.log_severity_level = 3
        cuda = {"device_id": 0, "use_tf32": int(precision == "high"), "enable_cuda_graph": int(graph)}
        self.session = ort.InferenceSession(model, options, providers=[("CUDAExecutionProvider", cuda)])
        self.names = [value.name for value in self.session.get_inputs()]
        self.output = self.session.get_outputs()[0].name
        self.sets, self.turn = sets, 0
        self.values = [ort.OrtValue.ortvalue_from_numpy(x, "cuda", 0) for x in sets[0]]
        self.binding = self.session.io_binding()
        for name, value in zip(self.names, self.values):
            self.binding.bind_ortvalue_input(name, value)
        self.binding.bind_output(self.output, "cuda")
        self.unsynchronised = ort.RunOptions()
        self.unsynchronised.add_run_config_entry("disable_synchronize_execution_providers", "1")

    def bind(self, like):
        """A captured graph writes its output to a fixed address, which must be memory that this process owns."""
        self.result = ort.OrtValue.ortvalue_from_numpy(like, "cuda", 0)
        self.binding.bind_ortvalue_output(self.output, self.result)

    def refill(self):
        for value, array in zip(self.values, self.sets[self.turn]):
            value.update_inplace(array)
        self.turn = (self.turn + 1) % len(self.sets)

    def answer(self):
        self.session.run_with_iobinding(self.binding)
        return self.binding.copy_outputs_to_cpu()[0]

    def timed(self, count):
        """The microseconds per run of `count` runs in a row on one set of inputs."""
        self.refill()
        self.session.run_with_iobinding(self.binding)
        begin = time.perf_counter()
        for _ in range(count - 1):
            self.session.run_with_iobinding(self.binding, self.unsynchronised)
        self.session.run_with_iobinding(self.binding)
        return (time.perf_counter() - begin) * 1e6 / count

    def call(self):
        begin = time.perf_counter()
        self.refill()
        self.answer()
        return (time.perf_counter() - begin) * 1e6

    def measure(self, seconds):
        count = count_for(np.median(repeat(WARM_SECONDS, lambda: self.timed(16))), 4000)
        return {"device_us": repeat(seconds * 0.7, lambda: self.timed(count)),
                "call_us": repeat(seconds * 0.3, self.call)}


class Handler:
    def __init__(self):
        self.prepared = {}

    def hello(self):
        return {"onnxruntime": ort.__version__, "providers": ort.get_available_providers()}

    def load(self, model, precision, merged):
        """`merged` makes no difference: the graph is the exported one."""
        self.unload()
        self.model, self.precision = model, precision
        return {}

    def unload(self):
        self.prepared = {}
        gc.collect()
        return {}

    def prepare(self, key, peer, inputs, output):
        sets = load_inputs(inputs)
        begin = time.perf_counter()
        plain = Prepared(self.model, self.precision, sets, graph=False)
        answer = plain.answer()
        compile_s = time.perf_counter() - begin
        np.save(output, answer)
        try:
            prepared = Prepared(self.model, self.precision, sets, graph=True)
            prepared.bind(answer)
            for _ in range(3):
                prepared.answer()
        except Exception as error:  # not every graph can be captured; the plain session is then its best
            print(f"{key}: no CUDA graph: {error}")
            prepared = plain
        self.prepared[key] = prepared
        return {"compile_s": compile_s}

    def measure(self, key, seconds):
        return self.prepared[key].measure(seconds)


if __name__ == "__main__":
    serve(Handler())
