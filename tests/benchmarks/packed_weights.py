#!/usr/bin/env python3
"""Times layers with weights of 4 bits (MatMulNBits) that stay packed, beside the same weights dequantized when the model is compiled.

    FUSEC=build/fusec .deps/venv/bin/python tests/benchmarks/packed_weights.py [--hidden 896 --inner 4864 --layers 2 --dtype f16 --block 32]
                                                                             [--rows 1,2,4,8,16,32,64] [--verify] [--device cpu]

Each layer is the gated MLP of a Llama block, x + down(silu(gate(x)) * up(x)), with random codes, scales, and zero points per block. The
script prints device times in microseconds (on a CPU, of whole calls), the bytes of weights, and on a CPU also onnxruntime's times, with as
many threads. onnxruntime rounds activations to 8 bits in such products. `--verify` also compares the answers with the interpreter's and
with onnxruntime's. It needs numpy, onnx, and onnxruntime on a CPU.
"""

import argparse
import json
import os
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

sys.dont_write_bytecode = True
from program import benched, said  # noqa: E402

DTYPES = {"f32": (TensorProto.FLOAT, np.float32), "f16": (TensorProto.FLOAT16, np.float16)}


def write_model(path, args):
    element, dtype = DTYPES[args.dtype]
    random = np.random.default_rng(1)
    nodes, weights = [], []

    def product(name, x, depth, columns):
        blocks = -(-depth // args.block)
        tensors = {
            "codes": random.integers(0, 256, (columns, blocks, args.block // 2), dtype=np.uint8),
            "scales": (random.uniform(0.5, 1.5, columns * blocks) * 0.16 / np.sqrt(depth)).astype(dtype),
            "zeros": random.integers(0, 256, columns * ((blocks + 1) // 2), dtype=np.uint8),
        }
        weights.extend(numpy_helper.from_array(tensor, f"{name}_{kind}") for kind, tensor in tensors.items())
        inputs = [x, *(f"{name}_{kind}" for kind in tensors)]
        nodes.append(
            helper.make_node("MatMulNBits", inputs, [name], f"/{name}", domain="com.microsoft", K=depth, N=columns, bits=4, block_size=args.block)
        )
        return name

    x = "x"
    for layer in range(args.layers):
        gate = product(f"gate{layer}", x, args.hidden, args.inner)
        up = product(f"up{layer}", x, args.hidden, args.inner)
        nodes.append(helper.make_node("Sigmoid", [gate], [f"sigmoid{layer}"]))
        nodes.append(helper.make_node("Mul", [gate, f"sigmoid{layer}"], [f"silu{layer}"]))
        nodes.append(helper.make_node("Mul", [f"silu{layer}", up], [f"gated{layer}"]))
        down = product(f"down{layer}", f"gated{layer}", args.inner, args.hidden)
        nodes.append(helper.make_node("Add", [x, down], [f"x{layer + 1}"]))
        x = f"x{layer + 1}"
    tensors = [helper.make_tensor_value_info(name, element, ["batch", args.hidden]) for name in ("x", x)]
    graph = helper.make_graph(nodes, "packed", tensors[:1], tensors[1:], weights)
    imports = [helper.make_opsetid("", 20), helper.make_opsetid("com.microsoft", 1)]
    onnx.save(helper.make_model(graph, opset_imports=imports, ir_version=9), path)


def onnxruntime_times(path, args):
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = len(os.sched_getaffinity(0))
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    times = []
    for rows in args.rows:
        x = np.random.default_rng(rows).standard_normal((rows, args.hidden)).astype(DTYPES[args.dtype][1])
        calls = []
        for _ in range(40):
            begin = time.perf_counter()
            session.run(None, {"x": x})
            calls.append(time.perf_counter() - begin)
        times.append(float(np.median(calls)) * 1e6)
    return times


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, value in (("hidden", 896), ("inner", 4864), ("layers", 2), ("block", 32)):
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--dtype", choices=DTYPES, default="f16", help="of activations and scales")
    parser.add_argument("--rows", type=lambda text: [int(rows) for rows in text.split(",")], default=[1, 2, 4, 8, 16, 32, 64])
    parser.add_argument("--device", default="", help="as for fusec bench")
    parser.add_argument("--verify", action="store_true")
    parser.add_argument("--json", type=Path, help="also write the numbers to this file")
    args = parser.parse_args()
    times = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        model = folder / "packed.onnx"
        write_model(model, args)
        target = ["--target", "cpu"] if args.device == "cpu" else []
        for form, flags in (("packed", []), ("dequantized", ["--disable-fusion", "keep-packed-weights"])):
            artifact = folder / form
            said(model, "-o", artifact, "--dim", f"batch=1..{max(args.rows)}", *target, *flags)
            if args.verify:
                dims = ",".join(str(rows) for rows in args.rows)
                print(said("verify", artifact, "--model", model, "--dim", f"batch={dims}", *(["--device", args.device] if args.device else [])))
            reports = [benched(artifact, "--dim", f"batch={rows}", "--seconds", "0.3", device=args.device) for rows in args.rows]
            times[form] = [us for us, _ in reports]
            size = (artifact / "weights.safetensors").stat().st_size
            print(f"{form}: {size * 1e-6:.1f} MB of weights, on {reports[0][1]['device']}")
        if reports[0][1]["device"].startswith("cpu"):
            times["onnxruntime"] = onnxruntime_times(model, args)
    print(f"\n{args.layers} layers of {args.hidden} x {args.inner}, {args.dtype}, blocks of {args.block}: us\n")
    print("| rows | " + " | ".join(times) + " |\n|" + " ---: |" * (len(times) + 1))
    for i, rows in enumerate(args.rows):
        print(f"| {rows} | " + " | ".join(f"{of_form[i]:.1f}" for of_form in times.values()) + " |")
    if args.json:
        arguments = {key: str(value) for key, value in vars(args).items()}
        args.json.write_text(json.dumps({"arguments": arguments, "us": times}, indent=1) + "\n")


main()
