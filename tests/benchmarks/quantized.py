#!/usr/bin/env python3
"""Times layers in 8 bits, as onnxruntime's quantizers write them, beside the same layers in f32 and TF32.

    FUSEC=build/fusec python tests/benchmarks/quantized.py [--device cuda] [--width 1024] [--layers 3] [--batches 1,128,2048]

The model is a chain of layers with relu. `static` is quantized by quantize_static (QuantizeLinear and DequantizeLinear around each op),
`dynamic` by quantize_dynamic (ranges are found in each run). Figures are device time (on a CPU: the time of a call), the median, in
microseconds. Needs onnx and onnxruntime.
"""

import argparse
import json
import os
import pathlib
import subprocess
import tempfile

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from onnxruntime import quantization

FUSEC = os.environ.get("FUSEC", "fusec")


def write_layers(path, width, layers):
    random = np.random.default_rng(0)
    weights, nodes, x = [], [], "x"
    for i in range(layers):
        weights += [numpy_helper.from_array((random.standard_normal((width, width)) / np.sqrt(width)).astype(np.float32), f"w{i}"),
                    numpy_helper.from_array(random.standard_normal(width).astype(np.float32), f"b{i}")]  # fmt: skip
        nodes.append(helper.make_node("Gemm", [x, f"w{i}", f"b{i}"], [f"sum{i}"], transB=1))
        x = f"sum{i}"
        if i + 1 < layers:
            nodes.append(helper.make_node("Relu", [x], [f"hidden{i}"]))
            x = f"hidden{i}"
    tensors = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", width]) for name in ("x", x)]
    graph = helper.make_graph(nodes, "layers", tensors[:1], tensors[1:], weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), path)


class Batches(quantization.CalibrationDataReader):
    """Four batches of normally distributed rows, from which quantize_static takes the ranges."""

    def __init__(self, width):
        self.batches = iter([{"x": np.random.default_rng(seed).standard_normal((64, width)).astype(np.float32)} for seed in range(4)])

    def get_next(self):
        return next(self.batches, None)


def time(artifact, device, batches):
    sizes = "batch=" + ",".join(map(str, batches))
    text = subprocess.run([FUSEC, "bench", artifact, "--dim", sizes, "--device", device, "--seconds", "0.2", "--json"],
                          check=True, capture_output=True, text=True).stdout  # fmt: skip
    return [cell.get("device_us", cell["call_us"])["median"] for cell in json.loads(text)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda", choices=["cuda", "cpu"], help="where to run (default: cuda)")
    parser.add_argument("--width", type=int, default=1024, help="rows and columns of each layer's weights (default: 1024)")
    parser.add_argument("--layers", type=int, default=3, help="how many (default: 3)")
    parser.add_argument("--batches", default="1,128,2048", help="numbers of rows (default: 1,128,2048)")
    arguments = parser.parse_args()
    batches = [int(batch) for batch in arguments.batches.split(",")]
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        model = folder / "f32.onnx"
        write_layers(model, arguments.width, arguments.layers)
        quantization.quantize_static(model, folder / "static.onnx", Batches(arguments.width), per_channel=True)
        quantization.quantize_dynamic(model, folder / "dynamic.onnx", per_channel=True)
        print("batch    " + "".join(f"{batch:>9}" for batch in batches))
        for name, path, flags in (("f32", model, []), ("TF32", model, ["--matmul-precision", "high"]),
                                  ("static", folder / "static.onnx", []), ("dynamic", folder / "dynamic.onnx", [])):  # fmt: skip
            artifact = folder / name
            target = "native" if arguments.device == "cuda" else "cpu"
            subprocess.run([FUSEC, path, "-o", artifact, "--target", target, *flags], check=True, capture_output=True)
            print(f"{name:9}" + "".join(f"{us:9.1f}" for us in time(artifact, arguments.device, batches)))


if __name__ == "__main__":
    main()
