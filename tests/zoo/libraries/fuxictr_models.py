"""FuxiCTR: the long-sequence models in its wheel, and networks built from its layers, each named after the paper that it follows."""

import contextlib
import sys
import tempfile
from collections import OrderedDict

import torch
from fuxictr.features import FeatureMap
from fuxictr.pytorch import layers
from torch import nn

from model import Model, floats, ids

WIDTH = 8
FIELDS = {f"field{i}": 10 + 5 * i for i in range(5)}
SMALL = {"optimizer": "adam", "loss": "binary_crossentropy", "verbose": 0, "model_root": tempfile.gettempdir(), "metrics": ["AUC"]}


def feature_map(features):
    found = FeatureMap("tiny", tempfile.gettempdir())
    found.features = OrderedDict(features)
    found.labels = ["label"]
    found.num_fields = found.get_num_fields()
    found.total_features = sum(spec.get("vocab_size", 1) for spec in features.values())
    found.default_emb_dim = WIDTH
    found.set_column_index()
    return found


def category(below, source="user"):
    return {"type": "categorical", "source": source, "vocab_size": below, "padding_idx": 0}


def plain_map():
    numeric = {"age": {"type": "numeric", "source": "user"}}
    bag = {"tags": {"type": "sequence", "source": "user", "vocab_size": 20, "padding_idx": 0, "max_len": 6, "feature_encoder": "layers.MaskedAveragePooling()"}}
    return feature_map({name: category(size) for name, size in FIELDS.items()} | numeric | bag)


class Network(nn.Module):
    """The embeddings of all fields [batch, fields, WIDTH], followed by a head; optionally with the linear part."""

    def __init__(self, head, linear=False):
        super().__init__()
        found = plain_map()
        self.fields = found.num_fields
        self.embedding = layers.FeatureEmbedding(found, WIDTH)
        self.linear = layers.LogisticRegression(found) if linear else None
        self.head = head(self.fields)

    def forward(self, inputs):
        y = self.head(self.embedding(inputs))
        return torch.sigmoid(y + self.linear(inputs) if self.linear else y)


def mlp(width, **more):
    return layers.MLP_Block(input_dim=width, output_dim=1, hidden_units=[16, 16], **more)


class FlatMlp(nn.Sequential):
    def __init__(self, fields, **more):
        super().__init__(nn.Flatten(), mlp(fields * WIDTH, **more))


class Sum(nn.Module):
    """The sum of several heads."""

    def __init__(self, *parts):
        super().__init__()
        self.parts = nn.ModuleList(parts)

    def forward(self, x):
        return sum(part(x).flatten(1).sum(1, keepdim=True) for part in self.parts)


class Products(nn.Module):
    """An MLP over products of pairs, concatenated with the embeddings themselves."""

    def __init__(self, fields, interaction, width):
        super().__init__()
        self.interaction, self.mlp = interaction, mlp(fields * WIDTH + width)

    def forward(self, x):
        return self.mlp(torch.cat([x.flatten(1), self.interaction(x).flatten(1)], 1))


class Attended(nn.Module):
    def __init__(self, fields):
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(WIDTH, WIDTH) for _ in range(3))
        self.attention, self.mlp = layers.ScaledDotProductAttention(), mlp(fields * WIDTH)

    def forward(self, x):
        y = self.attention(self.q(x), self.k(x), self.v(x), scale=WIDTH**0.5)
        return self.mlp((y[0] if isinstance(y, tuple) else y).flatten(1) + x.flatten(1))


def pairs(n):
    return n * (n - 1) // 2


def networks():
    """name -> head from the number of fields"""
    flat = nn.Flatten
    yield "DNN", lambda n: FlatMlp(n), False
    yield "DNN_batch_norm_dice", lambda n: FlatMlp(n, batch_norm=True, hidden_activations="Dice"), False
    yield "WideDeep", lambda n: FlatMlp(n), True
    yield "DeepFM", lambda n: Sum(layers.InnerProductInteraction(n, "product_sum"), FlatMlp(n)), True
    yield "NFM", lambda n: nn.Sequential(layers.InnerProductInteraction(n, "bi_interaction"), mlp(WIDTH)), True
    yield "PNN", lambda n: Products(n, layers.InnerProductInteraction(n, "inner_product"), pairs(n)), False
    yield "AFM_products", lambda n: Products(n, layers.InnerProductInteraction(n, "elementwise_product"), pairs(n) * WIDTH), False
    yield "DCN", lambda n: Sum(nn.Sequential(flat(), layers.CrossNet(n * WIDTH, 3)), FlatMlp(n)), False
    yield "DCNv2", lambda n: Sum(nn.Sequential(flat(), layers.CrossNetV2(n * WIDTH, 3)), FlatMlp(n)), False
    yield "DCNMix", lambda n: nn.Sequential(flat(), layers.CrossNetMix(n * WIDTH, 2, 8, 3), mlp(n * WIDTH)), False
    yield "xDeepFM", lambda n: Sum(layers.CompressedInteractionNet(n, [8, 8]), FlatMlp(n)), True
    for kind in ("field_all", "field_each", "field_interaction"):
        yield f"FiBiNET_{kind}", lambda n, k=kind: Products(n, layers.BilinearInteraction(n, WIDTH, k), pairs(n) * WIDTH), False
        yield f"FiBiNET_v2_{kind}", lambda n, k=kind: Products(n, layers.BilinearInteractionV2(n, WIDTH, k), pairs(n) * WIDTH), False
    yield "SENet", lambda n: nn.Sequential(layers.SqueezeExcitation(n, 2), FlatMlp(n)), False
    for kind in ("hadamard_product", "circular_convolution", "circular_correlation"):
        yield f"HFM_{kind}", lambda n, k=kind: Products(n, layers.HolographicInteraction(n, k), pairs(n) * WIDTH), False
    for order in (2, 3, 5):
        yield f"InteractionMachine_{order}", lambda n, o=order: layers.InteractionMachine(WIDTH, o, batch_norm=True), False
    yield "AutoInt", lambda n: Attended(n), True
    yield "KMaxPooling", lambda n: nn.Sequential(layers.KMaxPooling(3, 1), flat(), mlp(3 * WIDTH)), False


LONG = {"user": category(12), "item": category(30, "item"), "cate": category(9, "item")}


def long_models():
    """The models of the wheel's LongCTR folder: a request's fields, and its history with the target last."""
    with contextlib.redirect_stdout(sys.stderr):
        from model_zoo import LongCTR

    short = {"dnn_hidden_units": [16], "embedding_dim": WIDTH}
    attention = {**short, "attention_dim": 16, "num_heads": 2}
    yield "DIN", lambda: LongCTR.DIN(feature_map(LONG), attention_hidden_units=[16], **short, **SMALL)
    yield "DIN_softmax", lambda: LongCTR.DIN(feature_map(LONG), attention_hidden_units=[16], din_use_softmax=True, **short, **SMALL)
    yield "DCNv2", lambda: LongCTR.DCNv2(feature_map(LONG), parallel_dnn_hidden_units=[16], embedding_dim=WIDTH, **SMALL)
    yield "DIEN", lambda: LongCTR.DIEN(feature_map(LONG), **short, **SMALL)
    yield "FinalMLP", lambda: LongCTR.FinalMLP(feature_map(LONG), mlp1_hidden_units=[16], mlp2_hidden_units=[16], embedding_dim=WIDTH, **SMALL)
    yield "SDIM", lambda: LongCTR.SDIM(feature_map(LONG), short_seq_len=4, **attention, **SMALL)
    yield "ETA", lambda: LongCTR.ETA(feature_map(LONG), short_seq_len=4, topk=2, hash_bits=8, **attention, **SMALL)
    yield "SIM", lambda: LongCTR.SIM(feature_map(LONG), short_seq_len=4, topk=2, **attention, **SMALL)
    yield "TWIN", lambda: LongCTR.TWIN(feature_map(LONG), short_seq_len=4, topk=2, **attention, **SMALL)
    yield "MIRRN", lambda: LongCTR.MIRRN(feature_map(LONG), short_seq_len=4, topk=2, embedding_dim=WIDTH, dnn_hidden_units=[16], **SMALL)
    yield "TransAct", lambda: LongCTR.TransAct(feature_map(LONG), dcn_hidden_units=[16], dim_feedforward=32, embedding_dim=WIDTH, **SMALL)


def models():
    inputs = [ids(name, "batch", below=size) for name, size in FIELDS.items()] + [floats("age", "batch"), ids("tags", "batch", 6, below=20)]
    names = [one.name for one in inputs]
    for name, head, linear in networks():
        yield Model(name, lambda head=head, linear=linear: Network(head, linear), inputs, lambda module, *x: module(dict(zip(names, x))))
    # The items of a request follow one another: its history of 8 items, then its target.
    request = [ids("user", "batch", below=12), ids("item", "batch", 9, below=30, lowest=1), ids("cate", "batch", 9, below=9, lowest=1), ids("mask", "batch", 8, below=2)]
    for name, make in long_models():
        yield Model(f"long_{name}", make, request, long_call)


def long_call(module, user, item, cate, mask):
    return module(({"user": user}, {"item": item.flatten(), "cate": cate.flatten()}, mask))
