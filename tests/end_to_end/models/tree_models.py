#!/usr/bin/env python3
"""Writes boosted_trees.onnx in this folder: trees beside a linear model, with features as exporters of scikit-learn prepare them."""
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

FOLDER = Path(__file__).resolve().parent
ML = "ai.onnx.ml"
FEATURES, WIDTH, IDS, TREES, DEPTH = 12, 4, 30, 40, 5


def trees(random):
    """Complete trees, whose features are the scaled ones and the row of the id; the first column may be NaN."""
    first_leaf, count = 2**DEPTH - 1, 2 ** (DEPTH + 1) - 1
    nodes = [(tree, node) for tree in range(TREES) for node in range(count)]
    leaves = [(tree, node) for tree, node in nodes if node >= first_leaf]
    return dict(
        nodes_treeids=[tree for tree, _ in nodes],
        nodes_nodeids=[node for _, node in nodes],
        nodes_featureids=[0 if node >= first_leaf else int(random.integers(FEATURES + WIDTH)) for _, node in nodes],
        nodes_values=[0.0 if node >= first_leaf else float(random.standard_normal()) for _, node in nodes],
        nodes_modes=["LEAF" if node >= first_leaf else "BRANCH_LEQ" for _, node in nodes],
        nodes_truenodeids=[0 if node >= first_leaf else 2 * node + 1 for _, node in nodes],
        nodes_falsenodeids=[0 if node >= first_leaf else 2 * node + 2 for _, node in nodes],
        nodes_missing_value_tracks_true=[int(random.integers(2)) for _ in nodes],
        class_treeids=[tree for tree, _ in leaves],
        class_nodeids=[node for _, node in leaves],
        class_ids=[tree % 3 for tree, _ in leaves],
        class_weights=random.uniform(-0.5, 0.5, len(leaves)).astype(np.float32).tolist(),
        classlabels_int64s=[10, 20, 30],
        post_transform="SOFTMAX",
    )


def main():
    random = np.random.default_rng(0)
    floats = lambda *dims: random.standard_normal(dims).astype(np.float32)  # noqa: E731
    weights = [numpy_helper.from_array(floats(IDS + 1, WIDTH), "table"), numpy_helper.from_array(np.float32([[0.5]]), "share")]
    nodes = [
        helper.make_node("LabelEncoder", ["id"], ["row"], "/encoder", domain=ML, keys_int64s=random.permutation(50)[:IDS].tolist(),
                         values_int64s=list(range(IDS)), default_int64=IDS),  # fmt: skip
        helper.make_node("Gather", ["table", "row"], ["vector"], "/embedding"),
        helper.make_node("Scaler", ["x"], ["scaled"], "/scaler", domain=ML, offset=floats(FEATURES).tolist(), scale=(1 + floats(FEATURES) ** 2).tolist()),
        helper.make_node("Concat", ["scaled", "vector"], ["features"], "/concat", axis=1),
        helper.make_node("TreeEnsembleClassifier", ["features"], ["label", "shares"], "/trees", domain=ML, **trees(random)),
        helper.make_node("LinearRegressor", ["features"], ["linear"], "/linear", domain=ML, coefficients=floats(3 * (FEATURES + WIDTH)).tolist(),
                         intercepts=floats(3).tolist(), targets=3, post_transform="SOFTMAX"),  # fmt: skip
        helper.make_node("Mul", ["linear", "share"], ["part"], "/part"),
        helper.make_node("Add", ["shares", "part"], ["scores"], "/blend"),
    ]
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", FEATURES]), helper.make_tensor_value_info("id", TensorProto.INT64, ["batch"])]
    outputs = [helper.make_tensor_value_info("label", TensorProto.INT64, ["batch"]), helper.make_tensor_value_info("scores", TensorProto.FLOAT, ["batch", 3])]
    graph = helper.make_graph(nodes, "boosted_trees", inputs, outputs, weights)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid(ML, 3)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), FOLDER / "boosted_trees.onnx")


main()
