"""torchrec: the dense parts of its DLRMs, and embedding bags from keyed ragged lists, as (values, lengths) and as (values, offsets)."""

import torch
from torchrec.models.deepfm import DeepFM, FMInteractionArch, SimpleDeepFMNN
from torchrec.models.dlrm import DLRM, DLRM_DCN, DenseArch, DLRM_Projection, InteractionArch, InteractionDCNArch, InteractionProjectionArch, OverArch
from torchrec.modules.crossnet import CrossNet, LowRankCrossNet, LowRankMixtureCrossNet, VectorCrossNet
from torchrec.modules.deepfm import DeepFM as DeepFMModule
from torchrec.modules.deepfm import FactorizationMachine
from torchrec.modules.embedding_configs import EmbeddingBagConfig, EmbeddingConfig, PoolingType
from torchrec.modules.embedding_modules import EmbeddingBagCollection, EmbeddingCollection
from torchrec.modules.mlp import MLP
from torchrec.sparse.jagged_tensor import KeyedJaggedTensor

from model import Input, Model, floats

KEYS = ["user", "item", "cate"]
ROWS = [12, 30, 9]
IDS = 2  # of every bag of the exports; a ragged list's total is another dynamic dim


def tables(pooling=PoolingType.SUM, shared=False):
    found = [EmbeddingBagConfig(name=f"t_{key}", num_embeddings=rows, embedding_dim=8, feature_names=[key], pooling=pooling)
             for key, rows in zip(KEYS, ROWS)]  # fmt: skip
    if shared:
        found = [EmbeddingBagConfig(name="shared", num_embeddings=9, embedding_dim=8, feature_names=KEYS, pooling=pooling)]
    return found


def collection(**more):
    weighted = more.pop("weighted", False)
    return EmbeddingBagCollection(tables=tables(**more), is_weighted=weighted, device=torch.device("cpu"))


# Total ids, and features * batch lengths: multiples of the batch, under their own names.
SIZES = tuple({"batch": b, "lengths": 3 * b, "offsets": 3 * b + 1, "values": 3 * b * IDS} for b in (4, 9))
VALUES = Input("values", ("values",), lambda sizes: torch.randint(0, min(ROWS), sizes))
WEIGHTS = Input("weights", ("values",), lambda sizes: torch.rand(sizes))


def ragged(count):
    """Lengths that add up to IDS per bag, unequal where there are two bags or more."""
    lengths = torch.full((count,), IDS)
    for i in range(0, count - 1, 2):
        moved = int(torch.randint(0, IDS + 1, ()))
        lengths[i] -= moved
        lengths[i + 1] += moved
    return lengths


LENGTHS = Input("lengths", ("lengths",), lambda sizes: ragged(sizes[0]))
OFFSETS = Input("offsets", ("offsets",), lambda sizes: torch.cat([torch.zeros(1, dtype=torch.int64), ragged(sizes[0] - 1).cumsum(0)]))


def from_lengths(values, lengths, weights=None):
    return KeyedJaggedTensor(keys=KEYS, values=values, lengths=lengths, weights=weights)


def from_offsets(values, offsets, weights=None):
    return KeyedJaggedTensor(keys=KEYS, values=values, offsets=offsets, weights=weights)


def pooled(module, *parts, kjt=from_lengths):
    return module(kjt(*parts)).values()


def models():
    yield from bags()
    yield from whole()
    yield from dense_parts()


def bags():
    for pooling in (PoolingType.SUM, PoolingType.MEAN):
        name = f"EmbeddingBagCollection_{pooling.name.lower()}"
        yield Model(f"{name}_lengths", lambda p=pooling: collection(pooling=p), [VALUES, LENGTHS], pooled, SIZES)
        yield Model(f"{name}_offsets", lambda p=pooling: collection(pooling=p), [VALUES, OFFSETS],
                    lambda module, *parts: pooled(module, *parts, kjt=from_offsets), SIZES)  # fmt: skip
    weighted = lambda: collection(weighted=True)
    yield Model("EmbeddingBagCollection_weighted_lengths", weighted, [VALUES, LENGTHS, WEIGHTS], pooled, SIZES)
    yield Model("EmbeddingBagCollection_weighted_offsets", weighted, [VALUES, OFFSETS, WEIGHTS],
                lambda module, *parts: pooled(module, *parts, kjt=from_offsets), SIZES)  # fmt: skip
    int32 = Input("lengths", ("lengths",), lambda sizes: ragged(sizes[0]).int())  # the type that torchrec's own data sets use
    yield Model("EmbeddingBagCollection_int32_lengths", collection, [VALUES, int32], pooled, SIZES)
    yield Model("EmbeddingBagCollection_shared", lambda: collection(shared=True), [VALUES, LENGTHS], pooled, SIZES)
    config = [EmbeddingConfig(name=f"t_{key}", num_embeddings=rows, embedding_dim=8, feature_names=[key]) for key, rows in zip(KEYS, ROWS)]
    yield Model("EmbeddingCollection", lambda: EmbeddingCollection(tables=config), [VALUES, LENGTHS],
                lambda module, *parts: [one.values() for one in module(from_lengths(*parts)).values()], SIZES)  # fmt: skip


def whole():
    dense = floats("dense", "batch", 5)
    call = lambda module, dense, *parts: module(dense, from_lengths(*parts))
    layers = dict(dense_in_features=5, dense_arch_layer_sizes=[16, 8], over_arch_layer_sizes=[16, 1])
    inputs = [dense, VALUES, LENGTHS]
    yield Model("DLRM", lambda: DLRM(collection(), **layers), inputs, call, SIZES)
    yield Model("DLRM_DCN", lambda: DLRM_DCN(collection(), **layers, dcn_num_layers=2, dcn_low_rank_dim=8), inputs, call, SIZES)
    yield Model("DLRM_Projection", lambda: DLRM_Projection(collection(), **layers, interaction_branch1_layer_sizes=[16, 16],
                                                           interaction_branch2_layer_sizes=[16, 16]), inputs, call, SIZES)  # fmt: skip
    yield Model("SimpleDeepFMNN", lambda: SimpleDeepFMNN(5, collection(), 16, 8), inputs, call, SIZES)


def dense_parts():
    dense, sparse = floats("dense", "batch", 8), floats("sparse", "batch", 3, 8)
    wide = floats("wide", "batch", 24)
    yield Model("DenseArch", lambda: DenseArch(8, [16, 8]), [dense])
    yield Model("OverArch", lambda: OverArch(24, [16, 1]), [wide])
    yield Model("InteractionArch", lambda: InteractionArch(3), [dense, sparse])
    yield Model("InteractionDCNArch", lambda: InteractionDCNArch(3, LowRankCrossNet(32, 2, 4)), [dense, sparse])
    yield Model("InteractionProjectionArch", lambda: InteractionProjectionArch(3, MLP(32, [16]), MLP(32, [16])), [dense, sparse])
    for kind, more in ((CrossNet, {}), (LowRankCrossNet, {"low_rank": 4}), (VectorCrossNet, {}), (LowRankMixtureCrossNet, {"low_rank": 4, "num_experts": 3})):
        yield Model(kind.__name__, lambda kind=kind, more=more: kind(24, 3, **more), [wide])
    yield Model("MLP_swish_layernorm", lambda: MLP(24, [16, 8], activation="swish_layernorm"), [wide])
    parts = [floats("a", "batch", 3, 8), floats("b", "batch", 2, 8)]
    yield Model("FactorizationMachine", lambda: FactorizationMachine(), parts, lambda module, *x: module(list(x)))
    yield Model("DeepFM_module", lambda: DeepFMModule(torch.nn.Linear(40, 16)), parts, lambda module, *x: module(list(x)))
