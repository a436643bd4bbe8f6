#!/usr/bin/env python3
"""Computes one answer with a peer in a fresh process, as a user without a server would, and then times further calls.

usage: first_answer.py torch-eager|torch-compile|xla|context MODEL.onnx INPUTS.npz SECONDS

Prints "answered", and then {"p50": .., "p99": .., "version": ..} with the microseconds of calls from host memory to host memory. `context`
only creates a CUDA context and prints the seconds that this took.
"""
import ctypes
import json
import sys
import time
from pathlib import Path

import numpy as np

sys.path.append(str(Path(__file__).resolve().parents[3] / "models"))
import suite  # noqa: E402


def create_context():
    begin = time.perf_counter()
    driver = ctypes.CDLL("libcuda.so.1")
    context = ctypes.c_void_p()
    for status in (driver.cuInit(0), driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0)):
        if status != 0:
            sys.exit(f"no CUDA context: error {status}")
    print(time.perf_counter() - begin)


def by_torch(model, arrays, compiled):
    import torch
    import torch_models

    device = "cuda" if torch.cuda.is_available() else "cpu"
    family, config, _, weights = suite.read_weights(model)
    function = torch_models.load(family, config, weights, device)
    function = torch.compile(function, fullgraph=True, dynamic=False) if compiled else function

    @torch.no_grad()
    def call():
        return function(*[torch.from_numpy(x).to(device) for x in arrays]).cpu().numpy()
    return call


def by_xla(model, arrays):
    import jax

    import jax_models

    family, config, _, weights = suite.read_weights(model)
    arrays = [x.astype(np.int32) if x.dtype == np.int64 else x for x in arrays]
    function = jax.jit(jax_models.function_of(family, config))
    weights = jax.device_put(weights)
    return lambda: np.asarray(function(weights, *arrays))


def time_calls(call, seconds):
    """Percentiles in microseconds; the first tenth warms up."""
    times = []
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(times) < 10:
        begin = time.perf_counter()
        call()
        times.append((time.perf_counter() - begin) * 1e6)
    times = times[len(times) // 10:]
    return {"p50": float(np.quantile(times, 0.5)), "p99": float(np.quantile(times, 0.99))}


def main():
    peer, model, inputs, seconds = sys.argv[1:]
    if peer == "context":
        return create_context()
    with np.load(inputs) as file:
        arrays = [file[name] for name in sorted(file.files)]
    call = by_xla(model, arrays) if peer == "xla" else by_torch(model, arrays, peer == "torch-compile")
    if not np.isfinite(call()).all():
        sys.exit("the answer is not finite")
    print("answered", flush=True)
    framework = sys.modules["jax" if peer == "xla" else "torch"]
    print(json.dumps({**time_calls(call, float(seconds)), "version": f"{framework.__name__} {framework.__version__}"}))


if __name__ == "__main__":
    main()
