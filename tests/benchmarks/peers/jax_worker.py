#!/usr/bin/env python3
"""JAX's XLA as a contestant: a jitted function that is called asynchronously, and one call of a scan over eight sets of inputs, which
divides the host's cost by eight."""
import gc
import os
import sys
import time
from pathlib import Path

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # leaves GPU memory for PyTorch and fusec

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402

sys.path.append(str(Path(__file__).resolve().parents[3] / "models"))
import suite  # noqa: E402
import jax_models  # noqa: E402
from worker import WARM_SECONDS, count_for, load_inputs, repeat, serve  # noqa: E402

# By default XLA multiplies float32 numbers in TF32.
PRECISIONS = {"highest": "highest", "high": "default", "fp16": "default"}


def narrow(array):
    """The array with int64 ids converted to int32, which JAX uses."""
    return array.astype(np.int32) if array.dtype == np.int64 else array


class Prepared:
    def __init__(self, function, weights, host):
        self.function, self.weights, self.host = function, weights, host
        self.sets = [[jnp.asarray(x) for x in arrays] for arrays in host]
        self.turn = 0

    def call_next(self):
        inputs = self.sets[self.turn]
        self.turn = (self.turn + 1) % len(self.sets)
        return self.function(self.weights, *inputs)

    def timed(self, count):
        """The microseconds per call of `count` calls that are waited for once."""
        begin = time.perf_counter()
        for _ in range(count):
            result = self.call_next()
        jax.block_until_ready(result)
        return (time.perf_counter() - begin) * 1e6 / count

    def call(self):
        """A call from NumPy arrays to the result as a NumPy array."""
        begin = time.perf_counter()
        np.asarray(self.function(self.weights, *self.host[self.turn]))
        self.turn = (self.turn + 1) % len(self.host)
        return (time.perf_counter() - begin) * 1e6

    def first_result(self):
        return np.asarray(self.function(self.weights, *self.sets[0]))

    def measure(self, seconds):
        count = count_for(np.median(repeat(WARM_SECONDS, lambda: self.timed(16))), 4000)
        return {"device_us": repeat(seconds * 0.7, lambda: self.timed(count)),
                "call_us": repeat(seconds * 0.3, self.call)}


class PreparedScan(Prepared):
    """One call for all sets of inputs."""

    def __init__(self, function, weights, host):
        stacked = [np.stack(arrays) for arrays in zip(*host)]
        super().__init__(function, weights, [stacked])
        self.calls = len(host)

    def first_result(self):
        return super().first_result()[0]

    def measure(self, seconds):
        warm = repeat(WARM_SECONDS, lambda: self.timed(4) / self.calls)
        count = max(1, count_for(np.median(warm), 4000) // self.calls)
        return {"device_us": repeat(seconds, lambda: self.timed(count) / self.calls)}


class Handler:
    def __init__(self):
        self.source, self.model, self.weights, self.prepared = None, None, None, {}

    def hello(self):
        return {"jax": jax.__version__, "devices": [str(device) for device in jax.devices()]}

    def load(self, model, precision, merged):
        """Loads the function and its weights, unless they are loaded."""
        self.unload()
        self.precision = precision
        begin = time.perf_counter()
        if self.source != (model, merged):
            self.source = self.weights = None
            family, config, _, weights = suite.read_weights(model, merged)
            self.model = jax_models.function_of(family, config)
            self.weights = {name: jnp.asarray(array) for name, array in weights.items()}
            jax.block_until_ready(self.weights)
            self.source = (model, merged)
        return {"load_s": time.perf_counter() - begin}

    def unload(self):
        """Drops everything except the weights, which the next group may need, too."""
        self.prepared = {}
        jax.clear_caches()
        gc.collect()
        return {}

    def prepare(self, key, peer, inputs, output):
        host = [[narrow(x) for x in arrays] for arrays in load_inputs(inputs)]
        model, precision = self.model, PRECISIONS[self.precision]

        def exact(weights, *arrays):
            with jax.default_matmul_precision(precision):
                return model(weights, *arrays)

        def scan(weights, *stacked):
            return jax.lax.scan(lambda carry, arrays: (carry, exact(weights, *arrays)), 0, stacked)[1]

        begin = time.perf_counter()
        if peer == "xla-scan":
            prepared = PreparedScan(jax.jit(scan), self.weights, host)
        else:
            prepared = Prepared(jax.jit(exact), self.weights, host)
        jax.block_until_ready(prepared.call_next())
        compile_s = time.perf_counter() - begin
        np.save(output, prepared.first_result())
        self.prepared[key] = prepared
        return {"compile_s": compile_s}

    def measure(self, key, seconds):
        return self.prepared[key].measure(seconds)


if __name__ == "__main__":
    serve(Handler())
