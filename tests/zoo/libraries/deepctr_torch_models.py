"""deepctr-torch: every model of its package, on the same columns. All features are columns of one f32 matrix."""

import sys
import types

import torch

sys.modules.setdefault("requests", types.ModuleType("requests"))  # it would ask the network for its newest version

from deepctr_torch import models as zoo
from deepctr_torch.inputs import DenseFeat, SparseFeat, VarLenSparseFeat, get_feature_names

from model import Input, Model

FIELDS = [SparseFeat(f"field{i}", vocabulary_size=10 + 7 * i, embedding_dim=8) for i in range(5)]
DENSE = [DenseFeat("age", 1), DenseFeat("context", 3)]
BAGS = [VarLenSparseFeat(SparseFeat(f"{how}_of_tags", 30, 8, embedding_name=f"{how}_of_tags"), maxlen=6, combiner=how)
        for how in ("mean", "sum", "max")]  # fmt: skip
COLUMNS = FIELDS + DENSE + BAGS

USER = [SparseFeat("user", 12, 8), SparseFeat("gender", 3, 4), SparseFeat("item", 30, 8), SparseFeat("cate", 9, 4), DenseFeat("score", 1)]
HISTORY = [VarLenSparseFeat(SparseFeat(f"hist_{name}", size, width, embedding_name=name), maxlen=6, length_name="length")
           for name, size, width in (("item", 30, 8), ("cate", 9, 4))]  # fmt: skip
BEHAVIOUR = USER + HISTORY


def matrix(columns):
    """The only input of a model: ids as f32 numbers in the columns of their features."""
    parts = []
    for column in columns:
        if isinstance(column, DenseFeat):
            parts.append((column.dimension, lambda rows, n: torch.randn(rows, n)))
        elif isinstance(column, SparseFeat):
            parts.append((1, lambda rows, n, below=column.vocabulary_size: torch.randint(0, below, (rows, n)).float()))
        else:
            parts.append((column.maxlen, lambda rows, n, below=column.vocabulary_size: torch.randint(0, below, (rows, n)).float()))
            if column.length_name and column is next(c for c in columns if getattr(c, "length_name", None) == column.length_name):
                parts.append((1, lambda rows, n: torch.randint(1, 7, (rows, n)).float()))
    width = sum(n for n, _ in parts)
    assert len(get_feature_names(columns)) == len(parts)
    return Input("features", ("batch", width), lambda sizes: torch.cat([draw(sizes[0], n) for n, draw in parts], 1))


def model(name, make, columns=COLUMNS):
    return Model(name, make, [matrix(columns)])


def models():
    for name in ("WDL", "DeepFM", "xDeepFM", "DIFM", "IFM", "AutoInt", "DCN", "DCNMix", "FiBiNET", "NFM", "AFN"):
        yield model(name, lambda kind=getattr(zoo, name): kind(COLUMNS, COLUMNS))
    yield model("AFM", lambda: zoo.AFM(FIELDS, FIELDS), FIELDS)
    yield model("MLR", lambda: zoo.MLR(COLUMNS))
    yield model("ONN", lambda: zoo.ONN(COLUMNS, COLUMNS))
    yield model("CCPM", lambda: zoo.CCPM(FIELDS, FIELDS), FIELDS)
    yield model("DCN_matrix", lambda: zoo.DCN(COLUMNS, COLUMNS, cross_parameterization="matrix", dnn_use_bn=True))
    yield model("WDL_prelu", lambda: zoo.WDL(COLUMNS, COLUMNS, dnn_activation="prelu", dnn_use_bn=True))
    yield model("WDL_dice", lambda: zoo.WDL(COLUMNS, COLUMNS, dnn_activation="dice", dnn_hidden_units=(16, 8)))
    for kind in ("each", "all", "interaction"):
        yield model(f"FiBiNET_{kind}", lambda kind=kind: zoo.FiBiNET(COLUMNS, COLUMNS, bilinear_type=kind))
    for how in ("mat", "vec", "num"):
        yield model(f"PNN_{how}", lambda how=how: zoo.PNN(COLUMNS, use_inner=True, use_outter=True, kernel_type=how))
    for name in ("SharedBottom", "ESMM", "MMOE", "PLE"):
        yield model(name, lambda kind=getattr(zoo, name): kind(COLUMNS))
    for norm in (False, True):
        suffix = "_softmax" if norm else ""
        yield model("DIN" + suffix, lambda norm=norm: zoo.DIN(BEHAVIOUR, ["item", "cate"], att_weight_normalization=norm), BEHAVIOUR)
    for gru in ("GRU", "AIGRU", "AGRU", "AUGRU"):
        yield model(f"DIEN_{gru}", lambda gru=gru: zoo.DIEN(BEHAVIOUR, ["item", "cate"], gru_type=gru), BEHAVIOUR)
