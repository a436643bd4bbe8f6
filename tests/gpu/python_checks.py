#!/usr/bin/env python3
"""Checks the Python package on a machine with a GPU, with PyTorch: answers, no copies, the caller's stream, the cost of a call compared
with the C ABI, ten threads. CuPy and JAX are checked if they are installed. Ends with "N passed, N failed".

usage: PYTHONPATH=build/python python_checks.py [--results FILE.json]

For another Python than that of the build, run cmake -S . -B build-python -DPython_EXECUTABLE=$(which python3) and build its target
fusec_python; that Python needs nanobind.
"""

import argparse
import ctypes
import importlib.util
import json
import pathlib
import subprocess
import sys
import tempfile
import threading
import time
import warnings

import fusec
import numpy as np
import torch

ROOT = pathlib.Path(__file__).resolve().parents[2]
MOST_OVERHEAD_US = 3  # how much longer a call with tensors on the GPU may take than the same call in C
CALLS = 2000

# The same call without Python: `count` times, binds device memory and enqueues a run on a stream. Returns the microseconds per call.
LOOP = r"""
#include <fusec/fusec.h>
#include <time.h>
double time_calls(fusec_program* program, const void** inputs, const int64_t* dims, const int* ranks, int input_count, void* output,
                  size_t bytes, void* stream, int count) {
  fusec_context* context;
  struct timespec start, end;
  if (fusec_create_context(program, &context)) return -1;
  for (int i = -100; i < count; ++i) {
    if (i == 0) { fusec_synchronize(context); clock_gettime(CLOCK_MONOTONIC, &start); }
    const int64_t* next = dims;
    for (int j = 0; j < input_count; next += ranks[j++])
      if (fusec_bind_input(context, j, inputs[j], next, ranks[j], 1)) return -2;
    if (fusec_bind_output(context, 0, output, bytes, 1)) return -3;
    if (fusec_run_async(context, stream)) return -4;
  }
  clock_gettime(CLOCK_MONOTONIC, &end);
  fusec_synchronize(context);
  fusec_destroy_context(context);
  return ((end.tv_sec - start.tv_sec) * 1e9 + (end.tv_nsec - start.tv_nsec)) * 1e-3 / count;
}
"""

passed = failed = 0
results = {}


def check(name):
    """Runs the function and counts whether it raised."""

    def decorate(body):
        global passed, failed
        try:
            body()
            passed += 1
            print(f"pass  {name}", flush=True)
        except Exception as error:  # whatever it is, it is the result
            failed += 1
            print(f"FAIL  {name}: {type(error).__name__}: {error}", flush=True)

    return decorate


def golden(batch):
    with np.load(ROOT / "models/dlrm_dot.golden.npz") as file:
        return [torch.from_numpy(file[f"b{batch}_{name}"]).cuda() for name in ("in0", "in1", "out0")]


def close(result, expected):
    torch.testing.assert_close(torch.as_tensor(result, device="cuda"), expected, atol=2e-5, rtol=1e-4)


def best_of(repeats, measure):
    return min(measure() for _ in range(repeats))


def answers(model):
    @check("answers with tensors of PyTorch on the GPU")
    def _():
        for batch in (1, 5, 64, 5):
            dense, ids, expected = golden(batch)
            result = model(dense, ids)
            assert result.is_cuda and result.shape == expected.shape
            close(result, expected)
            close(model(dense, in1=ids), expected)

    @check("answers with host memory: NumPy, PyTorch, page-locked")
    def _():
        dense, ids, expected = (tensor.cpu() for tensor in golden(64))
        assert isinstance(model(dense.numpy(), ids.numpy()), np.ndarray)
        close(model(dense.numpy(), ids.numpy()), expected.cuda())
        close(model(dense, ids), expected.cuda())
        close(model(dense.pin_memory(), ids.pin_memory()), expected.cuda())
        close(model(dense.cuda(), ids), expected.cuda())  # together
        locked = model.allocate_host((64, 13))
        np.asarray(locked)[:] = dense.numpy()
        close(np.asarray(model(locked, memoryview(ids.numpy()))), expected.cuda())

    @check("other dtypes: f16 and bf16")
    def _():
        for name, dtype in (("float16", torch.float16), ("bfloat16", torch.bfloat16)):
            with tempfile.TemporaryDirectory() as folder:
                model_path = f"{folder}/model.onnx"
                subprocess.run([sys.executable, ROOT / "models/to_half.py", ROOT / "models/lora_mlp.ts.onnx", model_path, name], check=True)
                half = fusec.compile(model_path, f"{folder}/out", target="native").load("cuda")
                x = torch.rand(8, 16, device="cuda", dtype=dtype)
                y = half(x)
                assert y.dtype == dtype and y.is_cuda and torch.isfinite(y).all()

    for library in ("cupy", "jax"):
        if importlib.util.find_spec(library) is None:
            continue

        @check(f"answers with tensors of {library}")
        def _():
            module = __import__("jax.dlpack" if library == "jax" else library)
            convert = module.dlpack.from_dlpack if library == "jax" else module.from_dlpack
            dense, ids, expected = golden(64)
            if library == "jax":
                module.config.update("jax_enable_x64", True)
            result = model(convert(dense), convert(ids))
            assert type(result).__module__.split(".")[0] in (library, "jaxlib"), type(result)
            close(torch.from_dlpack(result), expected)


def places(model):
    dense, ids, expected = golden(64)

    @check("nothing is allocated or copied for tensors on the GPU but the result")
    def _():
        out = torch.empty_like(expected)
        model.run_into(out, dense, ids)
        torch.cuda.synchronize()
        before = torch.cuda.memory_stats()["allocation.all.allocated"]
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
            for _ in range(10):
                model.run_into(out, dense, ids)
            torch.cuda.synchronize()
        assert torch.cuda.memory_stats()["allocation.all.allocated"] == before
        copies = [event.key for event in profile.key_averages() if "memcpy" in event.key.lower()]
        assert not copies, copies
        close(out, expected)

    @check("a run waits for what is on the current stream, and what comes after waits for it")
    def _():
        for _ in range(20):
            with torch.cuda.stream(torch.cuda.Stream()):
                late, out = torch.zeros_like(dense), torch.empty_like(expected)
                torch.cuda._sleep(20_000_000)  # some milliseconds
                late.copy_(dense)
                model.run_into(out, late, ids)
                result = model(late, ids)
                late.zero_()
                doubled = 2 * out
                torch.cuda.current_stream().synchronize()
            close(doubled, 2 * expected)
            close(result, expected)

    @check("a call returns before the GPU is done")
    def _():
        torch.cuda._sleep(2_000_000_000)
        start = time.perf_counter()
        model(dense, ids)
        took = time.perf_counter() - start
        torch.cuda.synchronize()
        assert took < 0.05, f"it took {took} s"

    @check("inputs may be dropped at once")
    def _():
        wrong = 0
        for seed in range(200):
            generator = torch.Generator(device="cuda").manual_seed(seed)
            x = torch.rand(64, 13, device="cuda", generator=generator)
            kept = x.clone()
            result = model(x, ids)
            del x
            torch.full((64, 13), float("nan"), device="cuda")  # takes the memory
            wrong += not torch.equal(result, model(kept, ids))
        assert wrong == 0, f"{wrong} of 200 results are wrong"

    @check("strided and misaligned tensors are copied with a warning")
    def _():
        other = fusec.load(model.path, "cuda")
        wide = torch.zeros(64, 26, device="cuda")
        wide[:, ::2] = dense
        shifted = torch.zeros(64 * 13 + 1, device="cuda")[1:].view(64, 13)
        shifted.copy_(dense)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            close(other(wide[:, ::2], ids), expected)
            close(other(shifted, ids), expected)
        assert len(caught) == 1, caught
        try:
            fusec.load(model.path, "cuda", strict=True)(wide[:, ::2], ids)
        except fusec.BadInput:
            return
        raise AssertionError("strict=True copied")

    @check("an out-of-range id shows in synchronize()")
    def _():
        other = fusec.load(model.path, "cuda")
        other(dense, ids + 100000)
        try:
            other.synchronize()
        except fusec.BadInput as error:
            assert "in1" in str(error)
            close(other(dense, ids), expected)
            return
        raise AssertionError("no error")

    @check("a stream of the model's")
    def _():
        with torch.cuda.stream(torch.cuda.ExternalStream(model.stream)):
            result = model(dense, ids)
        model.synchronize()
        close(result, expected)

    if torch.cuda.device_count() > 1:

        @check("tensors on another GPU are refused")
        def _():
            try:
                model(dense.to("cuda:1"), ids)
            except fusec.BadInput as error:
                assert "cuda:1" in str(error)
                return
            raise AssertionError("it ran")


def overhead(artifact):
    """A small model, whose runs take less time than its calls."""
    model = fusec.load(artifact, "cuda")
    dense, ids, expected = golden(1)
    out = torch.empty_like(expected)
    context = model.context()

    def of_python(call):
        def measure():
            for _ in range(100):
                call()
            torch.cuda.synchronize()
            start = time.perf_counter()
            for _ in range(CALLS):
                call()
            took = (time.perf_counter() - start) / CALLS * 1e6
            torch.cuda.synchronize()
            return took

        return best_of(5, measure)

    with tempfile.TemporaryDirectory() as folder:
        source, library = pathlib.Path(folder, "loop.c"), pathlib.Path(folder, "loop.so")
        source.write_text(LOOP)
        package = pathlib.Path(fusec.__file__).parent
        found = package / "lib/libfusec_rt.so.1"
        subprocess.run(["cc", "-O2", "-shared", "-fPIC", f"-I{ROOT}/runtime/include", source, "-o", library, found], check=True)
        runtime, loop = ctypes.CDLL(str(found)), ctypes.CDLL(str(library))
    program = ctypes.c_void_p()
    assert runtime.fusec_load(str(artifact.path).encode(), b"cuda", ctypes.byref(program)) == 0
    loop.time_calls.restype = ctypes.c_double
    tensors = [dense, ids]
    dims = [size for tensor in tensors for size in tensor.shape]
    arguments = (
        program,
        (ctypes.c_void_p * 2)(*(tensor.data_ptr() for tensor in tensors)),
        (ctypes.c_int64 * len(dims))(*dims),
        (ctypes.c_int * 2)(*(tensor.dim() for tensor in tensors)),
        2,
        ctypes.c_void_p(out.data_ptr()),
        ctypes.c_size_t(out.numel() * 4),
        ctypes.c_void_p(torch.cuda.current_stream().cuda_stream),
        CALLS,
    )
    in_c = best_of(5, lambda: loop.time_calls(*arguments))
    assert in_c > 0, in_c
    times = {
        "c_us": in_c,
        "run_into_us": of_python(lambda: model.run_into(out, dense, ids)),
        "context_run_into_us": of_python(lambda: context.run_into(out, dense, ids)),
        "call_us": of_python(lambda: model(dense, ids)),
        "torch_empty_us": of_python(lambda: torch.empty((1, 1), device="cuda")),
    }
    results["overhead"] = {name: round(value, 2) for name, value in times.items()}
    print(json.dumps(results["overhead"]))
    # In a call that returns a new tensor, PyTorch allocates it, which takes the same time as elsewhere.
    own = {name: times[name] for name in ("run_into_us", "context_run_into_us")}
    own["call_us"] = times["call_us"] - times["torch_empty_us"]
    for name, taken in own.items():

        @check(f"{name} is at most {MOST_OVERHEAD_US} us more than in C")
        def _():
            assert taken - in_c <= MOST_OVERHEAD_US, f"{taken:.2f} us, in C {in_c:.2f} us"


def threads(model):
    dense, ids, expected = golden(64)

    def rate(count, seconds=2):
        stop, done = time.perf_counter() + seconds, [0] * count
        errors = []

        def work(number):
            try:
                context = model.context()
                with torch.cuda.stream(torch.cuda.Stream()):
                    out = torch.empty_like(expected)
                    while time.perf_counter() < stop:
                        for _ in range(50):
                            context.run_into(out, dense, ids)
                        context.synchronize()
                        done[number] += 50
                    close(out, expected)
            except BaseException as error:  # shown by the check
                errors.append(error)

        workers = [threading.Thread(target=work, args=(number,)) for number in range(count)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        if errors:
            raise errors[0]
        return sum(done) / seconds

    @check("ten threads on one model get right answers, and more of them than one thread")
    def _():
        results["runs_per_second"] = {count: round(rate(count)) for count in (1, 2, 4, 10)}
        bench = fusec.bench(model.path, dims={"batch": 64}, contexts=10, seconds=2, device="cuda")[0]
        results["runs_per_second"]["10 contexts of fusec bench"] = round(bench.runs_per_second)
        print(json.dumps(results["runs_per_second"]))
        assert results["runs_per_second"][10] >= results["runs_per_second"][1]

    @check("ten threads that call the model itself")
    def _():
        errors = []

        def work():
            try:
                for _ in range(200):
                    close(model(dense, ids), expected)
            except BaseException as error:  # shown by the check
                errors.append(error)

        workers = [threading.Thread(target=work) for _ in range(10)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        assert not errors, errors[0]


def memory(artifact):
    @check("1,000 loads and 10,000 calls leave nothing behind")
    def _():
        dense, ids, _ = golden(64)
        for count in (20, 1000):
            for _ in range(count):
                with fusec.load(artifact, "cuda") as model:
                    model(dense, ids)
                    model.synchronize()
            free = torch.cuda.mem_get_info()[0]
            if count == 20:
                before = free
        assert before - free < 64 << 20, f"{before - free} bytes are gone"
        model = fusec.load(artifact, "cuda")
        for _ in range(10000):
            model(dense, ids)
        model.synchronize()
        assert before - torch.cuda.mem_get_info()[0] < 128 << 20


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--results", help="a file for the times")
    flags = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        artifact = fusec.compile(ROOT / "models/dlrm_dot.ts.onnx", f"{folder}/dlrm", target="native")
        model = fusec.load(artifact, "cuda")
        results.update(device=model.device, torch=torch.__version__, python=sys.version.split()[0])
        print(model, torch.__version__, f"table of functions: {hasattr(torch.Tensor, '__dlpack_c_exchange_api__')}")
        answers(model)
        places(model)
        overhead(artifact)
        threads(model)
        memory(artifact)
    if flags.results:
        pathlib.Path(flags.results).write_text(json.dumps(results, indent=1) + "\n")
    print(f"{passed} passed, {failed} failed")
    sys.exit(failed != 0)


main()
