"""deepmatch (Keras 2): models for retrieval. Each is the tower of the user or of the item, as its examples save them after training."""

import numpy
import tensorflow as tf
from deepctr.feature_column import SparseFeat, VarLenSparseFeat
from deepmatch import models as zoo
from deepmatch.models import comirec, mind, sdm, youtubednn
from deepmatch.utils import NegativeSampler

from libraries.deepctr_models import inputs
from model import Model


def item_embedding(table, item):
    """deepmatch's function of this purpose, whose layer takes the table from outside; Keras 2.15 then needs TensorFlow 1's graph mode."""
    return tf.keras.layers.Lambda(lambda both: tf.squeeze(tf.gather(*both), axis=1))([table, item])


for module in (comirec, mind, sdm, youtubednn):
    module.get_item_embedding = item_embedding

ITEMS = 30
USER = [SparseFeat("user", 12, 8), SparseFeat("gender", 3, 8), SparseFeat("age", 8, 8)]
HISTORY = [VarLenSparseFeat(SparseFeat("hist_item", ITEMS, 8, embedding_name="item"), 6, "mean", "hist_len")]
GENRES = [VarLenSparseFeat(SparseFeat("hist_genre", 9, 8, embedding_name="genre"), 6, "mean", "hist_len")]
ITEM = [SparseFeat("item", ITEMS, 8)]
ITEM_AND_GENRE = [*ITEM, SparseFeat("genre", 9, 8)]
SDM_HISTORY = [VarLenSparseFeat(SparseFeat(f"{time}_{name}", size, 8, embedding_name=name), 6, "mean", f"{time}_sess_length")
               for time in ("short", "prefer") for name, size in (("item", ITEMS), ("genre", 9))]  # fmt: skip


def towers(name, make, user, item):
    """One model of the user's tower and one of the item's."""
    sampler = NegativeSampler("inbatch", 5, "item", item_count=numpy.ones(ITEMS))

    def tower(side):
        whole = make(sampler)
        return tf.keras.Model(getattr(whole, f"{side}_input"), getattr(whole, f"{side}_embedding"))

    yield Model(f"{name}_user", lambda: tower("user"), inputs(user))
    yield Model(f"{name}_item", lambda: tower("item"), inputs(item))


def scores(name, make, user, item):
    """The whole model, which has a score for each pair of a user and an item."""
    return Model(name, make, inputs(user + item))


def models():
    user = USER + HISTORY
    yield from towers("FM", lambda s: zoo.FM(user, ITEM, sampler_config=s), user, ITEM)
    yield scores("FM_logistic", lambda: zoo.FM(user, ITEM, loss_type="logistic"), user, ITEM)
    both = user + GENRES
    yield from towers("DSSM", lambda s: zoo.DSSM(both, ITEM_AND_GENRE, (16, 8), (16, 8), sampler_config=s), both, ITEM_AND_GENRE)
    yield scores("DSSM_logistic", lambda: zoo.DSSM(both, ITEM_AND_GENRE, (16, 8), (16, 8), loss_type="logistic"), both, ITEM_AND_GENRE)
    yield from towers("YoutubeDNN", lambda s: zoo.YoutubeDNN(user, ITEM, (16, 8), sampler_config=s), user, ITEM)
    small = {"k_max": 3, "user_dnn_hidden_units": (16, 8)}
    for dynamic in (False, True):
        mind = lambda s, dynamic=dynamic: zoo.MIND(user, ITEM, dynamic_k=dynamic, sampler_config=s, **small)  # noqa: E731
        yield from towers("MIND" + "_dynamic" * dynamic, mind, user, ITEM)
    for how in ("sa", "dr"):
        comirec = lambda s, how=how: zoo.ComiRec(user, ITEM, interest_extractor=how, sampler_config=s, **small)  # noqa: E731
        yield from towers(f"ComiRec_{how}", comirec, user, ITEM)
    # Not exported: the recurrent cells of SDM are those of TensorFlow 1 and need its graph mode.
    long = USER + SDM_HISTORY
    yield from towers("SDM", lambda s: zoo.SDM(long, ITEM, ["item", "genre"], units=8, sampler_config=s), long, ITEM)
    sizes = {"user": 12, "gender": 3}, {"item": ITEMS, "genre": 9}
    fields = [[SparseFeat(name, size) for name, size in side.items()] for side in sizes]
    yield scores("NCF", lambda: zoo.NCF(*sizes, dnn_hidden_units=(16, 8)), *fields)
