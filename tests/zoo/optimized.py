#!/usr/bin/env python3
"""Lets onnxruntime optimize kept exports, compiles what it writes for the CPU, and compares the answers with onnxruntime's for the export.

    python3 tests/zoo/optimized.py FOLDER [--fusec PROGRAM] [--only PATTERN] [--jobs N] [--table FILE]

FOLDER is a folder that run.py made (LIBRARY/MODEL.EXPORTER/model.onnx with inputs.N.npz). onnxruntime optimizes at its level "extended", which
fuses nodes into ops of its own (com.microsoft); exports into which it writes none are counted as unchanged. This needs numpy, onnx and
onnxruntime. Exits with 1 if an export crashes or is wrong.
"""

import argparse
import collections
import concurrent.futures
import pathlib
import re
import sys
import tempfile

import numpy as np
import onnx
import onnxruntime

from isolated import first_line
from judge import Fusec

HERE = pathlib.Path(__file__).resolve().parent
TOLERANCE = 1e-4  # relative L2: both sides round f32, in another order


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path, help="folder of exports")
    parser.add_argument("--fusec", type=pathlib.Path, default=HERE.parents[1] / "build/fusec", help="program to judge (default: build/fusec)")
    parser.add_argument("--only", default="", metavar="PATTERN", help="exports whose LIBRARY/MODEL.EXPORTER matches this regular expression")
    parser.add_argument("--jobs", type=int, default=2, help="exports at once (default: 2)")
    parser.add_argument("--table", type=pathlib.Path, help="also write a table to this file")
    arguments = parser.parse_args()
    onnxruntime.set_default_logger_severity(4)
    fusec = Fusec(arguments.fusec)
    exports = [file.parent for file in sorted(arguments.folder.glob("*/*/model.onnx"))]
    exports = [export for export in exports if re.search(arguments.only, f"{export.parent.name}/{export.name}")]
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        rows = list(zip(exports, pool.map(lambda export: judge(fusec, export), exports)))
    lines = ["library\tmodel\tverdict\treason\tops"]
    for export, (verdict, reason, ops) in rows:
        lines.append(f"{export.parent.name}\t{export.name}\t{verdict}\t{reason}\t{' '.join(sorted(ops))}")
        if verdict not in ("right", "unchanged", "random"):
            print(lines[-1])
    if arguments.table:
        arguments.table.write_text("\n".join(lines) + "\n", encoding="utf-8")
    counts = collections.Counter(verdict for _, (verdict, _, _) in rows)
    models = collections.Counter(op for _, (_, _, ops) in rows for op in ops)
    print(", ".join(f"{count} {verdict}" for verdict, count in counts.most_common()))
    print("models with an op: " + ", ".join(f"{op} {count}" for op, count in models.most_common()))
    sys.exit(1 if counts["crash"] or counts["wrong"] else 0)


def own_ops(graph):
    """The ops of onnxruntime's domain in a graph and its subgraphs."""
    ops = {node.op_type for node in graph.node if node.domain == "com.microsoft"}
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("g"):
                ops |= own_ops(attribute.g)
    return ops


def judge(fusec, export):
    """The verdict on one export, its reason, and onnxruntime's ops in it."""
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
        options.optimized_model_filepath = str(folder / "model.onnx")
        try:
            session = onnxruntime.InferenceSession(str(export / "model.onnx"), options, providers=["CPUExecutionProvider"])
            data = dict(np.load(sorted(export.glob("inputs.*.npz"))[0]))
            data = {tensor.name: data[tensor.name] for tensor in session.get_inputs() if tensor.name in data}
            expected = session.run(None, data)
        except Exception as error:  # noqa: BLE001 (onnxruntime has many kinds)
            return "not run by onnxruntime", first_line(str(error)), set()
        graph = onnx.load(folder / "model.onnx").graph
        if any(node.op_type.startswith("Random") for node in graph.node):
            return "random", "the model draws random numbers", set()
        ops = own_ops(graph)
        if not ops:
            return "unchanged", "", ops
        np.savez(folder / "inputs.npz", **data)
        built = fusec(folder / "model.onnx", "-o", folder / "artifact", "--target", "cpu")
        if built.code != 0:
            return ("crash" if built.crashed else "unsupported"), built.reason.replace(name, ""), ops
        ran = fusec("run", folder / "artifact", "--device", "cpu", "--input", folder / "inputs.npz", "--output", folder / "outputs")
        if ran.code != 0:
            return ("crash" if ran.crashed else "refused"), ran.reason.replace(name, ""), ops
        worst = 0.0
        for output, theirs in zip(session.get_outputs(), expected):
            ours = np.load(folder / "outputs" / (re.sub(r"[^A-Za-z0-9_.-]", "_", output.name) + ".npy"))
            if ours.shape != theirs.shape:
                return "wrong", f"{output.name} is {list(ours.shape)}, expected {list(theirs.shape)}", ops
            distance = np.linalg.norm(ours.astype(float) - theirs) / max(np.linalg.norm(theirs.astype(float)), 1e-9)
            worst = max(worst, distance)
        return ("right" if worst <= TOLERANCE else "wrong"), f"relative L2 {worst:.1g}", ops


if __name__ == "__main__":
    main()
