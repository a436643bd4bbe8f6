#!/usr/bin/env python3
"""Lets onnxruntime's quantizers write kept exports with 4, 8 and 16 bits, and verifies fusec's answers against the interpreter and onnxruntime.

    python3 tests/zoo/quantized.py FOLDER [--fusec PROGRAM] [--only PATTERN] [--kind KIND] [--sample N] [--jobs N] [--table FILE]

FOLDER is a folder that run.py made (LIBRARY/MODEL.EXPORTER/model.onnx with inputs.N.npz); the exports that it found right are quantized. Where the
range of a mask contains infinity or -3.4e38, the quantizers write a scale of infinity or 1e36. Such models divide infinity by infinity, or their
answers depend on rounding; if they fail, they count as broken. This needs numpy, onnx and onnxruntime. Exits with 1 if a model crashes or is wrong.
"""

import argparse
import collections
import concurrent.futures
import json
import logging
import pathlib
import random
import re
import sys
import tempfile
import warnings

import numpy as np
import onnx
from onnx import numpy_helper
from onnxruntime import quantization
from onnxruntime.quantization import QuantType

from isolated import Failed, first_line
from judge import Fusec

HERE = pathlib.Path(__file__).resolve().parent

# The arguments of quantize_static, or of quantize_dynamic.
STATIC = {
    "u8": dict(per_channel=True),
    "s8": dict(activation_type=QuantType.QInt8, weight_type=QuantType.QInt8),
    "operators": dict(quant_format=quantization.QuantFormat.QOperator),
    "int4": dict(weight_type=QuantType.QInt4),
    "s16": dict(activation_type=QuantType.QInt16, weight_type=QuantType.QInt16),
}
DYNAMIC = {
    "dynamic_s8": dict(weight_type=QuantType.QInt8),
    "dynamic_u8": dict(weight_type=QuantType.QUInt8, per_channel=True),
}


class Calibration(quantization.CalibrationDataReader):
    def __init__(self, export):
        self.data = iter([dict(np.load(file)) for file in sorted(export.glob("inputs.*.npz"))])

    def get_next(self):
        return next(self.data, None)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path, help="folder of exports")
    parser.add_argument("--fusec", type=pathlib.Path, default=HERE.parents[1] / "build/fusec", help="program to judge (default: build/fusec)")
    parser.add_argument("--only", default="", metavar="PATTERN", help="exports whose LIBRARY/MODEL.EXPORTER matches this regular expression")
    parser.add_argument("--kind", action="append", choices=[*STATIC, *DYNAMIC], help="only this way to quantize (may be given again)")
    parser.add_argument("--sample", type=int, metavar="N", help="only so many exports, drawn at random")
    parser.add_argument("--seed", type=int, default=0, help="of the sample (default: 0)")
    parser.add_argument("--jobs", type=int, default=2, help="exports at once (default: 2)")
    parser.add_argument("--table", type=pathlib.Path, help="also write a table to this file")
    arguments = parser.parse_args()
    logging.disable(logging.WARNING)
    warnings.simplefilter("ignore")
    exports = [file.parent for file in sorted(arguments.folder.glob("*/*/model.onnx"))]
    exports = [export for export in exports if re.search(arguments.only, f"{export.parent.name}/{export.name}") and is_right(export)]
    if arguments.sample is not None:
        exports = sorted(random.Random(arguments.seed).sample(exports, min(arguments.sample, len(exports))))
    fusec = Fusec(arguments.fusec)
    kinds = arguments.kind or [*STATIC, *DYNAMIC]
    lines, counts = ["library\tmodel\tkind\tverdict\treason"], collections.Counter()
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        # One export at a time, because the quantizers write files beside it.
        for export, verdicts in zip(exports, pool.map(lambda export: [judge(fusec, export, kind) for kind in kinds], exports)):
            for kind, (verdict, reason) in zip(kinds, verdicts):
                lines.append(f"{export.parent.name}\t{export.name}\t{kind}\t{verdict}\t{reason}")
                counts[verdict] += 1
                if verdict not in ("right", "not quantized", "broken"):
                    print(lines[-1], flush=True)
    if arguments.table:
        arguments.table.write_text("\n".join(lines) + "\n", encoding="utf-8")
    print(f"{len(exports)} exports: " + ", ".join(f"{count} {verdict}" for verdict, count in counts.most_common()))
    sys.exit(1 if counts["crash"] or counts["wrong"] else 0)


def is_right(export):
    """Whether run.py found the export right."""
    row = export / "row.json"
    return row.exists() and json.loads(row.read_text(encoding="utf-8"))["verdict"] == "right"


def is_broken(model):
    """Whether a scale is infinite, NaN, or far from any activation."""
    scales = {name for node in model.graph.node if "Quantize" in node.op_type or node.op_type.startswith("QLinear") for name in node.input[1:]}
    return any(tensor.name in scales and tensor.data_type in (onnx.TensorProto.FLOAT, onnx.TensorProto.FLOAT16)
               and not (numpy_helper.to_array(tensor) < 1e20).all() for tensor in model.graph.initializer)  # fmt: skip


def judge(fusec, export, kind):
    """The verdict on one quantized export, and its reason."""
    with tempfile.TemporaryDirectory() as name:
        path = pathlib.Path(name) / "model.onnx"
        try:
            if kind in STATIC:
                quantization.quantize_static(export / "model.onnx", path, Calibration(export), **STATIC[kind])
            else:
                quantization.quantize_dynamic(export / "model.onnx", path, **DYNAMIC[kind])
        except Exception as error:  # noqa: BLE001 (the quantizers raise many kinds)
            return "not quantized", first_line(str(error)).replace(f"{export}/", "")
        inputs = sorted(export.glob("inputs.*.npz"))[0]
        try:
            verified = fusec("verify", path, "--device", "cpu", "--inputs", inputs)
        except Failed as failure:
            return failure.kind, str(failure)
        if verified.code == 0:
            return "right", ""
        if verified.crashed:
            return "crash", verified.reason.replace(name, "")
        failed = [line for line in verified.output.split("\n") if "FAIL " in line or line.endswith("FAIL")]
        if not failed:
            return "unsupported", verified.reason.replace(name, "")
        return ("broken" if is_broken(onnx.load(path)) else "wrong"), re.sub(r"\s+", " ", failed[0])


if __name__ == "__main__":
    main()
