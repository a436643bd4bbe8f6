"""Helpers that the tests of the Python package share: models, artifacts, and a second process."""

import contextlib
import functools
import io
import json
import os
import pathlib
import struct
import subprocess
import sys
import tempfile

import numpy as np
import onnx.parser

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDER = pathlib.Path(tempfile.mkdtemp(prefix="fusec_python_"))

MODELS = {
    # The smallest one: y = x + bias, of any batch.
    "sum": "g (float[batch, 4] x) => (float[batch, 4] y) <float[4] bias = {10, 20, 30, 40}> { y = Add(x, bias) }",
    # Two outputs with different sizes.
    "pair": "g (float[batch, 3] a, float[batch, 5] b) => (float[batch, 8] both, float[batch, 3] twice)"
    " { both = Concat<axis=1>(a, b) twice = Add(a, a) }",
    # An id for each row of a table.
    "lookup": "g (int64[batch] ids) => (float[batch, 2] rows)"
    " <float[3, 2] table = {0, 1, 10, 11, 20, 21}> { rows = Gather<axis=0>(table, ids) }",
    "mean": "g (float[batch, 4] x) => (float[4] y) <int64[1] axes = {0}> { y = ReduceMean<keepdims=0>(x, axes) }",
    # An output that is empty only if one dim is 0 and the other is 1.
    "tail": "g (float[batch, 4] x, float[items, 4] z) => (float[n, 4] y)"
    " <int64[1] one = {1}, int64[1] most = {9223372036854775807}, int64[1] axes = {0}> { both = Concat<axis=0>(x, z) y = Slice(both, one, most, axes) }",
    # Takes milliseconds if n is some thousands.
    "gram": "g (float[n, 64] x) => (float[n, n] y) { turned = Transpose<perm = [1, 0]>(x) y = MatMul(x, turned) }",
    "half": "g (float16[batch, 8] x) => (float16[batch, 8] y) { y = Add(x, x) }",
    "bfloat": "g (bfloat16[batch, 8] x) => (bfloat16[batch, 8] y) { y = Add(x, x) }",
    "bools": "g (bool[n] a, bool[n] b) => (bool[n] both) { both = And(a, b) }",
    # The number of result rows depends on the mask.
    "chosen": "g (float[n, 2] x, bool[n, 2] mask) => (float[k] values, int64[2, k] places, float[n, 2] twice)"
    " <int64[1] all = {-1}> { places = NonZero(mask) flat = Reshape(x, all) bits = Reshape(mask, all) values = Compress(flat, bits)"
    " twice = Add(x, x) }",
    "scalar": "g (float x) => (float y) { y = Neg(x) }",
    "odd_names": "g (float[n] out, float[n] strict) => (float[n] difference) { difference = Sub(out, strict) }",
}


@functools.cache
def model(name):
    """The path of a model: one of those above, or one of models/."""
    if name not in MODELS:
        return str(ROOT / "models" / f"{name}.onnx")
    path = FOLDER / f"{name}.onnx"
    text = f'<ir_version: 8, opset_import: ["" : 18]> {MODELS[name]}'
    onnx.save(onnx.parser.parse_model(text), path)
    return str(path)


@functools.cache
def artifact(name, target="cpu"):
    """The folder that a model was compiled into."""
    import fusec

    with contextlib.redirect_stderr(io.StringIO()):
        return fusec.compile(model(name), FOLDER / f"{name}_{target}", target=target, cpu_level="native")


def load(name, device="cpu", **options):
    import fusec

    return fusec.load(artifact(name, "cpu" if device == "cpu" else "sm_90a"), device, **options)


def run_python(code, *arguments, **environment):
    """Runs code in another interpreter, and returns the process with its output as text."""
    return subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=300,
        cwd=FOLDER,
        env={**os.environ, **environment},
    )


def resident_bytes():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def save_adapter(folder, tensors, **config):
    """Writes adapter_model.safetensors (f32) and, if there is a config, adapter_config.json, as PEFT does; returns the folder."""
    os.makedirs(folder, exist_ok=True)
    header, data = {}, b""
    for name, array in tensors.items():
        raw = np.ascontiguousarray(array, np.float32).tobytes()
        header[name] = {"dtype": "F32", "shape": list(array.shape), "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    pathlib.Path(folder, "adapter_model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + data)
    if config:
        pathlib.Path(folder, "adapter_config.json").write_text(json.dumps(config))
    return folder
