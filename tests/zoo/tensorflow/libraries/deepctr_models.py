"""deepctr of TensorFlow (Keras 2): every model of its package, on the same columns."""

import deepctr.models as zoo
from deepctr.feature_column import DenseFeat, SparseFeat, VarLenSparseFeat
from deepctr.models.sequence import BST, DIEN, DIN, DSIN

from model import Model, floats, history, ids, lengths

FIELDS = [SparseFeat(f"field{i}", vocabulary_size=10 + 7 * i, embedding_dim=8) for i in range(5)]
DENSE = [DenseFeat("age", 1), DenseFeat("context", 3)]
BAGS = [VarLenSparseFeat(SparseFeat(f"{how}_of_tags", 30, 8, embedding_name=f"{how}_of_tags"), maxlen=6, combiner=how)
        for how in ("mean", "sum", "max")]  # fmt: skip
COLUMNS = FIELDS + DENSE + BAGS
GROUPS = [field._replace(group_name=f"group{i % 2}") for i, field in enumerate(FIELDS)]
WEIGHTED = [*FIELDS, VarLenSparseFeat(SparseFeat("tags", 30, 8), maxlen=6, combiner="mean", length_name="length", weight_name="weights")]

USER = [SparseFeat("user", 12, 8), SparseFeat("gender", 3, 4), SparseFeat("item", 30, 8), SparseFeat("cate", 9, 4), DenseFeat("score", 1)]
TABLES = (("item", 30, 8), ("cate", 9, 4))


def behaviour(prefix="hist_", **options):
    """The history of each feature of the target item, whose ids have the item's tables."""
    return [
        VarLenSparseFeat(SparseFeat(prefix + name, size, width, embedding_name=name), maxlen=6, **options) for name, size, width in TABLES
    ]


PADDED = USER + behaviour()
COUNTED = USER + behaviour(length_name="seq_length")
NEGATIVES = COUNTED + behaviour("neg_hist_", length_name="seq_length")
SESSIONS = USER + [one for i in range(2) for one in behaviour(f"sess_{i}_")]


def inputs(columns):
    """The inputs of a model of these columns, in the order in which deepctr makes them."""
    made = {}
    for column in columns:
        if isinstance(column, DenseFeat):
            made[column.name] = floats(column.name, "batch", column.dimension)
        elif isinstance(column, SparseFeat):
            made[column.name] = ids(column.name, "batch", 1, below=column.vocabulary_size, dtype=column.dtype)
        else:
            made[column.name] = history(column.name, "batch", column.maxlen, below=column.vocabulary_size, dtype=column.dtype)
            if column.weight_name:
                made[column.weight_name] = floats(column.weight_name, "batch", column.maxlen, 1)
            if column.length_name:
                made[column.length_name] = lengths(column.length_name, "batch", 1, most=column.maxlen, dtype="int32")
    return list(made.values())


def model(name, make, columns=COLUMNS, more=()):
    return Model(name, make, [*inputs(columns), *more])


def models():
    for name in ("WDL", "DeepFM", "xDeepFM", "DIFM", "IFM", "AutoInt", "DCN", "DCNMix", "FiBiNET", "NFM", "FwFM", "DeepFEFM"):
        yield model(name, lambda kind=getattr(zoo, name): kind(COLUMNS, COLUMNS))
    for name in ("FNN", "AFM", "CCPM", "EDCN"):
        yield model(name, lambda kind=getattr(zoo, name): kind(FIELDS, FIELDS), FIELDS)
    small = {"conv_kernel_width": (3, 2), "conv_filters": (4, 4), "new_maps": (2, 2), "pooling_width": (2, 2)}
    yield model("FGCNN", lambda: zoo.FGCNN(FIELDS, FIELDS, **small), FIELDS)
    yield model("ONN", lambda: zoo.ONN(COLUMNS, COLUMNS))
    yield model("ONN_sum", lambda: zoo.ONN(FIELDS, FIELDS, use_bn=False, reduce_sum=True), FIELDS)
    yield model("MLR", lambda: zoo.MLR(COLUMNS))
    yield model("MLR_bias", lambda: zoo.MLR(FIELDS, DENSE, bias_feature_columns=BAGS), COLUMNS)
    yield model("FLEN", lambda: zoo.FLEN(GROUPS, GROUPS), GROUPS)
    yield model("DeepFM_groups", lambda: zoo.DeepFM(GROUPS, GROUPS, fm_group=("group0", "group1")), GROUPS)
    yield model("DeepFM_weighted", lambda: zoo.DeepFM(WEIGHTED, WEIGHTED, dnn_hidden_units=(16, 8)), WEIGHTED)
    yield model("DeepFM_regression", lambda: zoo.DeepFM(COLUMNS, COLUMNS, dnn_use_bn=True, task="regression"))
    yield model("AFM_without_attention", lambda: zoo.AFM(FIELDS, FIELDS, use_attention=False), FIELDS)
    yield model("AutoInt_deep_only", lambda: zoo.AutoInt(COLUMNS, COLUMNS, att_layer_num=1, att_res=False))
    yield model("DCN_matrix", lambda: zoo.DCN(COLUMNS, COLUMNS, cross_parameterization="matrix", dnn_use_bn=True))
    for bridge in ("pointwise_addition", "hadamard_product", "attention_pooling"):
        yield model(f"EDCN_{bridge}", lambda bridge=bridge: zoo.EDCN(FIELDS, FIELDS, bridge_type=bridge), FIELDS)
    for activation in ("prelu", "dice", "selu", "swish", "gelu"):
        yield model(f"WDL_{activation}", lambda activation=activation: zoo.WDL(COLUMNS, COLUMNS, (16, 8), dnn_activation=activation))
    yield model(
        "xDeepFM_direct", lambda: zoo.xDeepFM(COLUMNS, COLUMNS, cin_layer_size=(16, 8), cin_split_half=False, cin_activation="linear")
    )
    for kind in ("each", "all", "interaction"):
        yield model(f"FiBiNET_{kind}", lambda kind=kind: zoo.FiBiNET(COLUMNS, COLUMNS, bilinear_type=kind))
    for how in ("mat", "vec", "num"):
        yield model(f"PNN_{how}", lambda how=how: zoo.PNN(COLUMNS, use_inner=True, use_outter=True, kernel_type=how))
    for name in ("SharedBottom", "ESMM", "MMOE", "PLE"):
        yield model(name, lambda kind=getattr(zoo, name): kind(COLUMNS))
    yield model("MMOE_gates", lambda: zoo.MMOE(COLUMNS, gate_dnn_hidden_units=(8,), dnn_use_bn=True, task_types=("binary", "regression")))
    for norm in (False, True):
        suffix = "_softmax" * norm
        yield model("DIN" + suffix, lambda norm=norm: DIN(PADDED, ["item", "cate"], att_weight_normalization=norm), PADDED)
    yield model("BST", lambda: BST(COUNTED, ["item", "cate"], att_head_num=4), COUNTED)
    # Not exported: the recurrent cells of DIEN are those of TensorFlow 1 and need its graph mode.
    for gru in ("GRU", "AIGRU", "AGRU", "AUGRU"):
        yield model(f"DIEN_{gru}", lambda gru=gru: DIEN(COUNTED, ["item", "cate"], gru_type=gru), COUNTED)
    yield model("DIEN_negatives", lambda: DIEN(NEGATIVES, ["item", "cate"], gru_type="AUGRU", use_negsampling=True), NEGATIVES)
    count = [lengths("sess_length", "batch", 1, most=2, dtype="float32")]
    for bias in (False, True):
        yield model("DSIN" + "_bias" * bias, lambda bias=bias: DSIN(SESSIONS, ["item", "cate"], sess_max_count=2, bias_encoding=bias,
                                                                    att_embedding_size=3, att_head_num=4), SESSIONS, count)  # fmt: skip
