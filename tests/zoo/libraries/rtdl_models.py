"""rtdl: the models of rtdl_revisiting_models and the embeddings of rtdl_num_embeddings; TabM on top of them."""

import rtdl_num_embeddings as numbers
import torch
from rtdl_revisiting_models import MLP, CategoricalEmbeddings, FTTransformer, LinearEmbeddings, ResNet
from tabm import EnsembleView, LinearEnsemble, TabM

from model import Model, floats, ids

CARDINALITIES = [3, 5, 9]
DENSE = floats("numbers", "batch", 6)


def categories():
    columns = [ids(f"category{i}", "batch", 1, below=below) for i, below in enumerate(CARDINALITIES)]
    return columns, lambda module, dense, *parts: module(dense, torch.cat(parts, 1))


def bins():
    return numbers.compute_bins(torch.randn(200, 6), n_bins=7)


def embeddings():
    yield "linear", lambda: numbers.LinearEmbeddings(6, 8)
    yield "linear_relu", lambda: numbers.LinearReLUEmbeddings(6, 8)
    for lite in (False, True):
        yield f"periodic{'_lite' * lite}", lambda lite=lite: numbers.PeriodicEmbeddings(6, 8, lite=lite)
    for version in ("A", "B"):
        yield (f"piecewise_{version}", lambda v=version: numbers.PiecewiseLinearEmbeddings(bins(), 8, activation=v == "A", version=v))  # fmt: skip


class Embedded(torch.nn.Module):
    def __init__(self, embedding):
        super().__init__()
        self.embedding, self.mlp = embedding, MLP(d_in=48, d_out=2, n_blocks=2, d_block=16, dropout=0.1)

    def forward(self, x):
        return self.mlp(self.embedding(x).flatten(1))


def models():
    yield Model("MLP", lambda: MLP(d_in=6, d_out=2, n_blocks=3, d_block=16, dropout=0.1), [DENSE])
    yield Model("ResNet", lambda: ResNet(d_in=6, d_out=2, n_blocks=2, d_block=16, d_hidden=None, d_hidden_multiplier=2.0, dropout1=0.1, dropout2=0.0), [DENSE])
    yield Model("LinearEmbeddings", lambda: LinearEmbeddings(6, 8), [DENSE])
    columns, joined = categories()
    yield Model("CategoricalEmbeddings", lambda: CategoricalEmbeddings(CARDINALITIES, 8), columns, lambda module, *parts: module(torch.cat(parts, 1)))
    for blocks in (1, 3):
        make = lambda n=blocks: FTTransformer(n_cont_features=6, cat_cardinalities=CARDINALITIES, d_out=2, **small_transformer(n))
        yield Model(f"FTTransformer_{blocks}", make, [DENSE, *columns], joined)
    yield Model("FTTransformer_numbers", lambda: FTTransformer(n_cont_features=6, cat_cardinalities=[], d_out=1, **small_transformer(2)), [DENSE],
                lambda module, dense: module(dense, None))  # fmt: skip
    yield Model("PiecewiseLinearEncoding", lambda: numbers.PiecewiseLinearEncoding(bins()), [DENSE])
    for name, make in embeddings():
        yield Model(f"embedded_{name}", lambda make=make: Embedded(make()), [DENSE])
    yield from tabm()


def small_transformer(blocks):
    return FTTransformer.get_default_kwargs(blocks) | {"d_block": 16, "attention_n_heads": 4}


def tabm():
    columns, joined = categories()
    for kind in ("tabm", "tabm-mini", "tabm-packed"):
        make = lambda kind=kind, **more: TabM.make(n_num_features=6, d_out=2, k=8, n_blocks=2, d_block=16, dropout=0.1, arch_type=kind, **more)
        yield Model(f"TabM_{kind}", make, [DENSE], lambda module, dense: module(dense))
        yield Model(f"TabM_{kind}_categories", lambda make=make: make(cat_cardinalities=CARDINALITIES), [DENSE, *columns], joined)
    for name, embed in embeddings():
        if name not in ("linear", "piecewise_A"):
            make = lambda embed=embed: TabM.make(n_num_features=6, d_out=2, k=8, n_blocks=2, d_block=16, dropout=0.1, num_embeddings=embed())
            yield Model(f"TabM_{name}", make, [DENSE], lambda module, dense: module(dense))
    ensemble = lambda: torch.nn.Sequential(EnsembleView(k=4), LinearEnsemble(6, 8, k=4), torch.nn.ReLU(), LinearEnsemble(8, 1, k=4))
    yield Model("LinearEnsemble", ensemble, [DENSE])
