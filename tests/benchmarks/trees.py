#!/usr/bin/env python3
"""Times an ensemble of random decision trees (TreeEnsembleRegressor) beside onnxruntime, on one core of a CPU.

    FUSEC=build/fusec python tests/benchmarks/trees.py [--trees 500] [--depth 7] [--features 40] [--batches 1,64,1024]

Figures are the median time of a call, in microseconds. Needs onnx and onnxruntime.
"""

import argparse
import pathlib
import sys
import tempfile

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper

from cpu_against_onnxruntime import compiled, time_fusec, time_onnxruntime

SECONDS = 0.5


def ensemble(trees, depth, features):
    """Complete trees with one target."""
    random = np.random.default_rng(0)
    first_leaf, count = 2**depth - 1, 2 ** (depth + 1) - 1
    node = np.tile(np.arange(count), trees)
    tree = np.repeat(np.arange(trees), count)
    is_leaf = node >= first_leaf
    return helper.make_node(
        "TreeEnsembleRegressor", ["x"], ["y"], domain="ai.onnx.ml", nodes_treeids=tree.tolist(), nodes_nodeids=node.tolist(),
        nodes_featureids=np.where(is_leaf, 0, random.integers(0, features, node.size)).tolist(),
        nodes_values=np.where(is_leaf, 0, random.standard_normal(node.size)).astype(np.float32).tolist(),
        nodes_modes=np.where(is_leaf, "LEAF", "BRANCH_LEQ").tolist(), nodes_truenodeids=np.where(is_leaf, 0, 2 * node + 1).tolist(),
        nodes_falsenodeids=np.where(is_leaf, 0, 2 * node + 2).tolist(), target_treeids=tree[is_leaf].tolist(),
        target_nodeids=node[is_leaf].tolist(), target_ids=[0] * int(is_leaf.sum()),
        target_weights=random.standard_normal(int(is_leaf.sum())).astype(np.float32).tolist(), n_targets=1)  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("trees", 500), ("depth", 7), ("features", 40)):
        parser.add_argument(f"--{name}", type=int, default=default, help=f"(default: {default})")
    parser.add_argument("--batches", default="1,64,1024", help="numbers of rows (default: 1,64,1024)")
    arguments = parser.parse_args()
    graph = helper.make_graph([ensemble(arguments.trees, arguments.depth, arguments.features)], "trees",
                              [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", arguments.features])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 1])])  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("ai.onnx.ml", 3), helper.make_opsetid("", 17)], ir_version=8)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        onnx.save(model, folder / "trees.onnx")
        session = onnxruntime.InferenceSession(str(folder / "trees.onnx"), options)
        compiled(folder / "trees.onnx", folder / "trees")
        print(f"{'batch':>6} {'fusec':>9} {'onnxruntime':>12}")
        for batch in map(int, arguments.batches.split(",")):
            x = np.random.default_rng(1).standard_normal((batch, arguments.features)).astype(np.float32)
            np.savez(folder / "x.npz", x=x)
            fusec = time_fusec(folder / "trees", folder / "x.npz", 1, SECONDS)
            print(f"{batch:>6} {fusec:>9.1f} {time_onnxruntime(session, dict(x=x), SECONDS):>12.1f}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
