"""torch-rechub: ranking, multi-task, matching (whole models, and their user and item towers) and generative models."""

import torch
from torch_rechub.basic.features import DenseFeature, SequenceFeature, SparseFeature
from torch_rechub.models import generative, matching, multi_task, ranking

from model import Model, by_name, floats, history, ids

PLAIN = {"dims": [16, 8], "dropout": 0.0}
TOWER = PLAIN | {"activation": "prelu"}
SPARSE = [SparseFeature(f"field{i}", 10 + 5 * i, 8) for i in range(4)]
DENSE = [DenseFeature("age"), DenseFeature("score")]
POOLED = SequenceFeature("tags", 20, 8, pooling="mean", padding_idx=0)
FIELDS = [ids(f.name, "batch", below=f.vocab_size) for f in SPARSE]
NUMBERS = [floats(f.name, "batch") for f in DENSE]
TAGS = history("tags", "batch", "seq")

USER = [SparseFeature("user", 12, 8)]
ITEM = [SparseFeature("item", 30, 8)]
CLICKED = [SequenceFeature("clicked", 30, 8, pooling="concat", shared_with="item", padding_idx=0)]
MEAN_CLICKED = [SequenceFeature("clicked", 30, 8, pooling="mean", shared_with="item", padding_idx=0)]
REFUSED = [SequenceFeature("refused", 30, 8, pooling="concat", shared_with="item")]
USER_IDS, ITEM_IDS = ids("user", "batch", below=12), ids("item", "batch", below=30)
CLICKS, REFUSALS = history("clicked", "batch", "seq", below=30), ids("refused", "batch", 3, below=30)
FIXED_CLICKS = history("clicked", "batch", 6, below=30)  # of models that are built for one length


def keyed(name, make, *inputs):
    return Model(name, make, list(inputs), by_name(*inputs))


def models():
    yield from ranked()
    yield from tasks()
    yield from matched()
    yield from generated()


def ranked():
    every, fields = SPARSE + DENSE, (*FIELDS, *NUMBERS)
    yield keyed("WideDeep", lambda: ranking.WideDeep(DENSE, SPARSE + [POOLED], TOWER), *fields, TAGS)
    yield keyed("DeepFM", lambda: ranking.DeepFM(every, SPARSE, TOWER), *fields)
    yield keyed("DCN", lambda: ranking.DCN(every + [POOLED], 3, TOWER), *fields, TAGS)
    for structure in ("parallel", "stacked", "crossnet_only"):
        yield keyed(f"DCNv2_{structure}", lambda s=structure: ranking.DCNv2(every, 3, TOWER, s, True, 8, 2), *fields)
    yield keyed("DCNv2_full", lambda: ranking.DCNv2(every, 3, TOWER, "parallel", False), *fields)
    for bridge in ("hadamard_product", "pointwise_addition", "concatenation", "attention_pooling"):
        yield keyed(f"EDCN_{bridge}", lambda b=bridge: ranking.EDCN(SPARSE, 2, TOWER, b), *FIELDS)
    yield keyed("AFM", lambda: ranking.AFM(SPARSE, 8, 16), *FIELDS)
    for kind in ("field_all", "field_each", "field_interaction"):
        yield keyed(f"FiBiNet_{kind}", lambda k=kind: ranking.FiBiNet(SPARSE, TOWER, 2, k), *FIELDS)
    yield keyed("AutoInt", lambda: ranking.AutoInt(SPARSE, DENSE, 2, 2, 0.0, TOWER), *fields)

    def crossed():
        return [SparseFeature(f"field{i}", (10 + 5 * i) * 4, 8) for i in range(4)]  # a row per id and field

    def linear():
        return [SparseFeature(f"field{i}", 10 + 5 * i, 1) for i in range(4)]

    yield keyed("DeepFFM", lambda: ranking.DeepFFM(linear(), crossed(), 8, TOWER), *FIELDS)
    yield keyed("FatDeepFFM", lambda: ranking.FatDeepFFM(linear(), crossed(), 8, 2, TOWER), *FIELDS)
    past = (USER_IDS, ITEM_IDS, CLICKS)
    unit = {"dims": [16], "activation": "dice"}
    yield keyed("DIN", lambda: ranking.DIN(USER, CLICKED, ITEM, PLAIN, unit), *past)
    yield keyed("DIN_softmax", lambda: ranking.DIN(USER, CLICKED, ITEM, PLAIN, {**unit, "use_softmax": True}), *past)
    yield keyed("BST", lambda: ranking.BST(USER, CLICKED, ITEM, TOWER, nhead=2, max_seq_len=32), *past)
    yield keyed("DIEN", lambda: ranking.DIEN(USER, CLICKED, REFUSED, ITEM, PLAIN), *past, ids("refused", "batch", "seq", below=30))


def tasks():
    every, fields = SPARSE + DENSE, (*FIELDS, *NUMBERS)
    kinds, towers = ["classification", "regression"], [{"dims": [8]}, {"dims": [8]}]
    bottom = {"dims": [16]}
    yield keyed("SharedBottom", lambda: multi_task.SharedBottom(every, kinds, bottom, towers), *fields)
    yield keyed("MMOE", lambda: multi_task.MMOE(every, kinds, 4, bottom, towers), *fields)
    yield keyed("PLE", lambda: multi_task.PLE(every, kinds, 2, 2, 1, bottom, towers), *fields)
    yield keyed("ESMM", lambda: multi_task.ESMM(SPARSE[:2], SPARSE[2:], bottom, bottom), *FIELDS)
    yield keyed("AITM", lambda: multi_task.AITM(SPARSE, 2, bottom, [{"dims": [8]}, {"dims": [8]}]), *FIELDS)


def matched():
    tower = {"dims": [16, 8]}
    past, fixed = (USER_IDS, CLICKS), (USER_IDS, FIXED_CLICKS)
    triple, fixed_triple = (*past, ITEM_IDS, REFUSALS), (*fixed, ITEM_IDS, REFUSALS)
    makers = {
        "DSSM": (lambda: matching.DSSM(USER + MEAN_CLICKED, ITEM, tower, tower, 0.1), (*past, ITEM_IDS)),
        "YoutubeDNN": (lambda: matching.YoutubeDNN(USER + MEAN_CLICKED, ITEM, REFUSED, tower), triple),
        "GRU4Rec": (lambda: matching.GRU4Rec(USER, CLICKED, ITEM, REFUSED, tower), triple),
        "MIND": (lambda: matching.MIND(USER, CLICKED, ITEM, REFUSED, 6), fixed_triple),
        "ComirecSA": (lambda: matching.ComirecSA(USER, CLICKED, ITEM, REFUSED), triple),
        "ComirecDR": (lambda: matching.ComirecDR(USER, CLICKED, ITEM, REFUSED, 6), fixed_triple),
        "SINE": (lambda: matching.SINE(["clicked"], ["item"], ["refused"], 30, 8, 8, 5, 3, 6), (FIXED_CLICKS, ITEM_IDS, REFUSALS)),
        "NARM": (lambda: matching.NARM(SequenceFeature("clicked", 30, 8, "concat"), 8, 0.0, 0.0), (FIXED_CLICKS,)),
        "STAMP": (lambda: matching.STAMP(SequenceFeature("clicked", 30, 8, "concat"), 0.1, 0.1), (CLICKS,)),
    }
    for name, (make, inputs) in makers.items():
        yield keyed(name, make, *inputs)
        if name not in ("NARM", "STAMP", "SINE"):
            yield keyed(f"{name}_user", with_mode(make, "user"), *inputs[:2])
            yield keyed(f"{name}_item", with_mode(make, "item"), ITEM_IDS)


def with_mode(make, mode):
    def made():
        net = make()
        net.mode = mode
        return net

    return made


def generated():
    tokens, gaps = history("tokens", "batch", "seq", below=50), ids("gaps", "batch", "seq", below=3600)
    small = {"d_model": 32, "n_heads": 2, "n_layers": 2, "max_seq_len": 32}
    hstu = {**small, "dqk": 16, "dv": 16, "num_time_buckets": 32}
    yield Model("HSTU", lambda: generative.HSTUModel(50, **hstu), [tokens, gaps])
    yield Model("HSTU_without_times", lambda: generative.HSTUModel(50, **hstu, use_time_embedding=False), [tokens])
    yield Model("HSTU_cosine", lambda: generative.HSTUModel(50, **hstu, score_norm="l2", temperature=0.1, time_bucket_fn="log"), [tokens, gaps])
    yield Model("HLLM", lambda: generative.HLLMModel(torch.randn(50, 32), 50, **small), [tokens, gaps])
    yield Model("HLLM_without_bias", lambda: generative.HLLMModel(torch.randn(50, 32), 50, **small, use_rel_pos_bias=False), [tokens, gaps])
