"""Cases of check_contrib_ops.py for ONNX's ops for classical machine learning (domain ai.onnx.ml)."""

import numpy as np
from onnx import TensorProto, helper

ML = "ai.onnx.ml"
FEATURES = 6


def forest(rng, trees, depth, modes=("BRANCH_LEQ",), missing=False, stops=0.2):
    """The nodes_* attributes of random trees, and the (tree, node) of their leaves."""
    lists = {name: [] for name in ("treeids", "nodeids", "featureids", "values", "modes", "truenodeids", "falsenodeids")}
    tracks, leaves = [], []
    for tree in range(trees):
        pending, count = [(0, 0)], 1
        while pending:
            node, level = pending.pop()
            is_leaf = level == depth or (level > 1 and rng.random() < stops)
            children = (0, 0) if is_leaf else (count, count + 1)
            if is_leaf:
                leaves.append((tree, node))
            else:
                count += 2
                pending += [(child, level + 1) for child in children]
            # Values that features equal now and then.
            entry = (tree, node, 0 if is_leaf else int(rng.integers(FEATURES)), 0.0 if is_leaf else float(rng.integers(-4, 5)) / 4,
                     "LEAF" if is_leaf else str(rng.choice(modes)), *children)  # fmt: skip
            for name, value in zip(lists, entry):
                lists[name].append(value)
            tracks.append(int(missing and rng.random() < 0.5))
    attributes = {f"nodes_{name}": values for name, values in lists.items()}
    if missing:
        attributes["nodes_missing_value_tracks_true"] = tracks
    return attributes, leaves


def weights(kind, leaves, targets, rng, low=-1.0):
    """The attributes of leaves that each have a weight for these targets."""
    entries = [(tree, node, target) for tree, node in leaves for target in targets]
    names = "target" if kind == "target" else "class"
    return {f"{names}_treeids": [tree for tree, _, _ in entries], f"{names}_nodeids": [node for _, node, _ in entries],
            f"{names}_ids": [target for _, _, target in entries],
            f"{names}_weights": rng.uniform(low, 1.0, len(entries)).astype(np.float32).tolist()}  # fmt: skip


def features(rng, rows=33):
    return (rng.integers(-8, 9, (rows, FEATURES)) / 8).astype(np.float32)


def trees(case, rng):
    def ensemble(op, name, nodes, more, outputs=1, x=None):
        x = features(rng) if x is None else x
        case("ml_trees", op, dict(X=x), outputs, name=name, domain=ML, dims=dict(X=("n", FEATURES)), **nodes, **more)

    for name, count, depth, targets, more in (("plain", 20, 5, 1, {}), ("one_tree", 1, 3, 1, {}), ("targets", 9, 4, 3, dict(base_values=[0.5, -1.0, 2.0])),
                                              ("average", 7, 6, 2, dict(aggregate_function="AVERAGE")),
                                              ("min", 5, 3, 1, dict(aggregate_function="MIN")), ("max", 5, 3, 2, dict(aggregate_function="MAX")),
                                              ("logistic", 12, 4, 2, dict(post_transform="LOGISTIC", base_values=[0.3, -0.5]))):  # fmt: skip
        nodes, leaves = forest(rng, count, depth)
        ensemble("TreeEnsembleRegressor", name, nodes, {**weights("target", leaves, range(targets), rng), **more, "n_targets": targets})
    modes = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ")
    for mode in modes:
        nodes, leaves = forest(rng, 6, 4, (mode,))
        ensemble("TreeEnsembleRegressor", mode, nodes, {**weights("target", leaves, [0], rng), "n_targets": 1})
    nodes, leaves = forest(rng, 8, 5, modes)
    ensemble("TreeEnsembleRegressor", "modes", nodes, {**weights("target", leaves, [0], rng), "n_targets": 1})
    nodes, leaves = forest(rng, 8, 5, missing=True)
    x = features(rng)
    x[rng.random(x.shape) < 0.3] = np.nan
    ensemble("TreeEnsembleRegressor", "missing", nodes, {**weights("target", leaves, [0], rng), "n_targets": 1}, x=x)
    nodes, leaves = forest(rng, 6, 4)
    ensemble("TreeEnsembleRegressor", "float64", nodes, {**weights("target", leaves, [0], rng), "n_targets": 1}, x=features(rng).astype(np.float64))

    labels = [7, -3, 12, 40]
    for name, targets, low, more in (("four", range(4), -1, {}), ("softmax", range(3), -1, dict(post_transform="SOFTMAX", base_values=[0.1, 0.2, 0.3])),
                                     ("logistic", range(3), -1, dict(post_transform="LOGISTIC")), ("shares", [0], 0, {}), ("margin", [0], -1, {}),
                                     ("margin_logistic", [0], -1, dict(post_transform="LOGISTIC", base_values=[0.2])),
                                     ("shares_logistic", [0], 0, dict(post_transform="LOGISTIC")), ("second", [1], 0, {}),
                                     ("second_logistic", [1], -1, dict(post_transform="LOGISTIC")),
                                     ("softmax_zero", range(3), -1, dict(post_transform="SOFTMAX_ZERO"))):  # fmt: skip
        nodes, leaves = forest(rng, 10, 4)
        ensemble("TreeEnsembleClassifier", name, nodes, {**weights("class", leaves, targets, rng, low), **more,
                                                         "classlabels_int64s": labels[:2 if len(targets) == 1 else len(targets)]}, outputs=2)  # fmt: skip


def ensembles(case, rng):
    """TreeEnsemble, which numbers branches and leaves apart."""

    def tensor(values, dtype=TensorProto.FLOAT):
        return helper.make_tensor("values", dtype, [len(values)], values)

    # x0 <= 0.25 ? (x1 in {0, 0.5} ? leaf 0 : leaf 1) : (x2 > -0.5 ? leaf 2 : leaf 3); a second tree is one comparison.
    for name, dtype, number in (("float", np.float32, TensorProto.FLOAT), ("double", np.float64, TensorProto.DOUBLE)):
        case("ml_ensembles", "TreeEnsemble", dict(X=features(rng).astype(dtype)), name=name, domain=ML, dims=dict(X=("n", FEATURES)), tree_roots=[0, 3], n_targets=2,
             nodes_featureids=[0, 1, 2, 4], nodes_modes=tensor([0, 6, 3, 1], TensorProto.UINT8), nodes_splits=tensor([0.25, 0.0, -0.5, 0.125], number),
             membership_values=tensor([0.0, 0.5, float("nan")], number), nodes_truenodeids=[1, 0, 2, 1], nodes_trueleafs=[0, 1, 1, 1],
             nodes_falsenodeids=[2, 1, 3, 0], nodes_falseleafs=[0, 1, 1, 1], leaf_targetids=[0, 1, 1, 0],
             leaf_weights=tensor([1.5, -2.0, 4.0, 8.0], number), aggregate_function=1, post_transform=0)  # fmt: skip


def linear(case, rng):
    x = features(rng)
    numbers = rng.uniform(-1, 1, 4 * FEATURES).astype(np.float32).tolist()
    dims = dict(X=("n", FEATURES))
    case("ml", "LinearRegressor", dict(X=x), name="one", domain=ML, dims=dims, coefficients=numbers[:FEATURES], intercepts=[0.5])
    case("ml", "LinearRegressor", dict(X=x), name="targets", domain=ML, dims=dims, coefficients=numbers, targets=4, intercepts=[0.5, 1.0, -1.0, 0.0])
    for transform in ("NONE", "LOGISTIC", "SOFTMAX"):
        case("ml", "LinearClassifier", dict(X=x), 2, name=transform, domain=ML, dims=dims, coefficients=numbers, intercepts=[0.1, 0.2, -0.3, 0.0],
             classlabels_ints=[5, 6, 9, 2], post_transform=transform)  # fmt: skip
    for transform in ("NONE", "LOGISTIC"):
        case("ml", "LinearClassifier", dict(X=x), 2, name=f"two_labels_{transform}", domain=ML, dims=dims, coefficients=numbers[:FEATURES], intercepts=[0.1],
             classlabels_ints=[5, 6], post_transform=transform)  # fmt: skip


def preprocessing(case, rng):
    x = features(rng)
    dims = dict(X=("n", FEATURES))
    columns = rng.uniform(0.5, 2, 2 * FEATURES).astype(np.float32).tolist()
    case("ml", "Scaler", dict(X=x), name="columns", domain=ML, dims=dims, offset=columns[:FEATURES], scale=columns[FEATURES:])
    case("ml", "Scaler", dict(X=x.astype(np.int64)), name="one_number", domain=ML, dims=dims, offset=[0.5], scale=[2.0])
    positive = np.abs(x)
    positive[3] = 0
    for norm in ("MAX", "L1", "L2"):
        case("ml", "Normalizer", dict(X=positive), name=norm, domain=ML, dims=dims, norm=norm)
    case("ml", "Binarizer", dict(X=x), domain=ML, dims=dims, threshold=0.25)
    holes = x.copy()
    holes[rng.random(x.shape) < 0.3] = np.nan
    case("ml", "Imputer", dict(X=holes), name="nan", domain=ML, dims=dims, imputed_value_floats=columns[:FEATURES], replaced_value_float=float("nan"))
    case("ml", "Imputer", dict(X=x), name="one_number", domain=ML, dims=dims, imputed_value_floats=[9.0], replaced_value_float=0.5)
    case("ml", "Imputer", dict(X=(8 * x).astype(np.int64)), name="integers", domain=ML, dims=dims, imputed_value_int64s=[1, 2, 3, 4, 5, 6], replaced_value_int64=0)
    case("ml", "ArrayFeatureExtractor", dict(X=x, Y=np.array([4, 0, 0], np.int64)), domain=ML, dims=dims)
    case("ml", "FeatureVectorizer", dict(A=x, B=features(rng)[:, :2]), domain=ML, dims=dict(A=("n", FEATURES), B=("n", 2)), inputdimensions=[FEATURES, 2])
    case("ml", "OneHotEncoder", dict(X=rng.integers(0, 9, (17, 3))), domain=ML, dims=dict(X=("n", 3)), cats_int64s=[4, 1, 7, 0], zeros=1)
    ids = rng.integers(0, 60, (40, 2))
    keys = rng.permutation(50)[:37]
    case("ml", "LabelEncoder", dict(X=ids), name="ids", domain=ML, dims=dict(X=("n", 2)), keys_int64s=keys.tolist(), values_int64s=rng.permutation(37).tolist(),
         default_int64=-7)  # fmt: skip
    case("ml", "LabelEncoder", dict(X=ids), name="floats_of_ids", domain=ML, dims=dict(X=("n", 2)), keys_int64s=keys.tolist(),
         values_floats=rng.standard_normal(37).astype(np.float32).tolist(), default_float=0.5)  # fmt: skip
    case("ml_ensembles", "LabelEncoder", dict(X=holes), name="ids_of_floats", domain=ML, dims=dims, keys_floats=[0.5, float("nan"), -0.25, 1.0],
         values_int64s=[3, 5, 8, 1], default_int64=0)  # fmt: skip
    case("ml", "LabelEncoder", dict(X=ids), name="one_key", domain=ML, keys_int64s=[int(ids[0, 0])], values_int64s=[4])


def maps(case, rng):
    """ZipMap, of whose maps fusec makes one tensor."""
    x = features(rng)
    case("ml_maps", "ZipMap", dict(X=x), domain=ML, dims=dict(X=("n", FEATURES)), classlabels_int64s=list(range(FEATURES)), kept=dict(answers=[x]))


def ml(case, rng):
    for make in (trees, ensembles, linear, preprocessing, maps):
        make(case, rng)
