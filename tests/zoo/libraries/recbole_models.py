"""RecBole: its recommenders, with a small data set in its file format, which this file writes.

Context-aware and general recommenders score pairs (`predict`), sequential ones all items (`full_sort_predict`).
"""

import atexit
import contextlib
import pathlib
import random
import shutil
import sys
import tempfile

# The folder tensorflow/ beside this one is no package; tensorboard, which RecBole imports, does without TensorFlow.
sys.modules.setdefault("tensorflow", None)

import numpy
import torch

# RecBole 1.2 uses types that NumPy 2 does not have.
for name, kind in {"float_": numpy.float64, "complex_": numpy.complex128, "unicode_": numpy.str_}.items():
    if not hasattr(numpy, name):
        setattr(numpy, name, kind)

from recbole.config import Config
from recbole.data import create_dataset, data_preparation
from recbole.data.interaction import Interaction
from recbole.utils import get_model

from model import Model, floats, history, ids

USERS, ITEMS, LENGTH = 12, 30, 20
CONTEXT = ("LR FM NFM DeepFM xDeepFM AFM FFM FwFM FNN PNN DSSM WideDeep AutoInt DCN DCNV2 FiGNN EulerNet KD_DAGFM").split()
SEQUENTIAL = ("SASRec GRU4Rec NARM STAMP Caser NextItNet TransRec SRGNN GCSAN BERT4Rec FPMC HRM NPE SHAN HGN RepeatNet SINE "
              "LightSANs CORE FEARec SASRecF GRU4RecF FDSA DIN").split()  # fmt: skip
GENERAL = ("BPR NeuMF DMF FISM NAIS DGCF ENMF NNCF SimpleX MultiDAE MultiVAE MacridVAE RecVAE CDAE "
           "LINE SGL DiffRec LDiffRec EASE").split()  # fmt: skip


def write_data(folder):
    """Interactions, users and items, as RecBole's atomic files."""
    folder.mkdir(parents=True)
    pick = random.Random(3)
    inter = ["user_id:token\titem_id:token\trating:float\ttimestamp:float"]
    for user in range(1, USERS):
        for time, item in enumerate(pick.sample(range(1, ITEMS), ITEMS - 8)):
            inter.append(f"u{user}\ti{item}\t{pick.randint(1, 5)}\t{time}")
    user = ["user_id:token\tage:token"] + [f"u{i}\t{20 + i % 5}" for i in range(1, USERS)]
    item = ["item_id:token\tgenre:token_seq\tyear:token"] + [f"i{i}\tg{i % 4} g{i % 3}\ty{i % 6}" for i in range(1, ITEMS)]
    for kind, lines in (("inter", inter), ("user", user), ("item", item)):
        (folder / f"tiny.{kind}").write_text("\n".join(lines) + "\n")


DATA = pathlib.Path(tempfile.mkdtemp(prefix="fusec_zoo_"))
atexit.register(shutil.rmtree, DATA, ignore_errors=True)
write_data(DATA / "tiny")


def make(name, **more):
    """The recommender with small tables and widths."""
    columns = {"inter": ["user_id", "item_id", "rating", "timestamp"], "user": ["user_id", "age"], "item": ["item_id", "genre", "year"]}
    settings = {
        "data_path": str(DATA), "load_col": columns, "use_gpu": False, "embedding_size": 16, "hidden_size": 16, "inner_size": 32, "n_heads": 2,
        "n_layers": 2, "mlp_hidden_size": [16, 16], "MAX_ITEM_LIST_LENGTH": LENGTH, "train_neg_sample_args": None, "state": "ERROR",
        "show_progress": False, "selected_features": ["year"], "numerical_features": [], "loss_type": "CE", "save_dataset": False,
        "latent_dimension": 16, "mlp_hidden": [16], "checkpoint_dir": str(DATA),
    } | more  # fmt: skip
    argv, sys.argv = sys.argv, sys.argv[:1]
    try:
        with contextlib.chdir(DATA):
            config = Config(model=name, dataset="tiny", config_dict=settings)
            data = create_dataset(config)
            train = data_preparation(config, data)[0].dataset
            return get_model(name)(config, train)
    finally:
        sys.argv = argv


def scored(method, *inputs):
    names = [one.name for one in inputs]

    def call(module, *tensors):
        return getattr(module, method)(Interaction(dict(zip(names, tensors))))

    return dict(inputs=list(inputs), call=call)


def models():
    user, item = ids("user_id", "batch", below=USERS, lowest=1), ids("item_id", "batch", below=ITEMS, lowest=1)
    fields = (user, item, ids("age", "batch", below=6), ids("year", "batch", below=7), history("genre", "batch", 2, below=5))
    pointwise = {"train_neg_sample_args": None, "threshold": {"rating": 3}}
    for name in CONTEXT:
        rating = (floats("rating", "batch"), floats("timestamp", "batch"))
        yield Model(name, lambda name=name: make(name, **pointwise), **scored("predict", *fields, *rating))
    seq = (history("item_id_list", "batch", LENGTH, below=ITEMS), ids("item_length", "batch", below=LENGTH + 1, lowest=1))
    side = (history("year_list", "batch", LENGTH, below=7), history("genre_list", "batch", LENGTH, 2, below=5))
    for name in SEQUENTIAL:
        method = "predict" if name == "DIN" else "full_sort_predict"
        inputs = (*seq, *side, *fields) if name in ("DIN", "FDSA", "SASRecF", "GRU4RecF") else (*seq, user)
        more = {"loss_type": "BPR", "train_neg_sample_args": {"distribution": "uniform", "sample_num": 1}} if name == "FPMC" else {}
        yield Model(name, lambda name=name, more=more: make(name, **more), **scored(method, *inputs))
    for name in GENERAL:
        sampled = {"train_neg_sample_args": {"distribution": "uniform", "sample_num": 1}, "loss_type": "BPR"}
        every = name in ("MultiDAE", "MultiVAE", "MacridVAE", "RecVAE", "CDAE", "DiffRec", "LDiffRec", "EASE")
        yield Model(name, lambda name=name, more={} if every else sampled: make(name, **more), **scored("predict", user, item))
        yield Model(f"{name}_all_items", lambda name=name, more={} if every else sampled: make(name, **more), **scored("full_sort_predict", user))
