"""TensorFlow Recommenders (Keras 2): its layers in the models of its documentation, and its model for ranking."""

import tensorflow as tf
import tensorflow_recommenders as tfrs

from model import Model, floats, ids

layers = tf.keras.layers


def embedded(columns=6, dim=8):
    sparse = layers.Input([columns], name="ids", dtype="int64")
    return sparse, [layers.Embedding(50, dim)(sparse[:, i]) for i in range(columns)]


def dlrm(**options):
    def make():
        dense = layers.Input([13], name="numbers")
        sparse, rows = embedded()
        bottom = tfrs.layers.blocks.MLP([32, 8], final_activation="relu")(dense)
        pairs = tfrs.layers.feature_interaction.DotInteraction(**options)([bottom, *rows])
        top = tfrs.layers.blocks.MLP([32, 1], final_activation="sigmoid")
        return tf.keras.Model([dense, sparse], top(layers.Concatenate()([bottom, pairs])))

    return make


def dcn(**options):
    def make():
        sparse, rows = embedded()
        x0 = x = layers.Concatenate()(rows)
        for _ in range(3):
            x = tfrs.layers.feature_interaction.Cross(**options)(x0, x)
        return tf.keras.Model(sparse, tfrs.layers.blocks.MLP([16, 1])(x))

    return make


def multi_layer_dcn():
    sparse, rows = embedded()
    crossed = tfrs.layers.feature_interaction.MultiLayerDCN(projection_dim=4, num_layers=3)(layers.Concatenate()(rows))
    return tf.keras.Model(sparse, tfrs.layers.blocks.MLP([16, 1])(crossed))


class Tables(layers.Layer):
    """A table for each of the features of a dict, as the embedding layer of a model for ranking."""

    def __init__(self, names):
        super().__init__()
        self.tables = {name: layers.Embedding(50, 8) for name in names}

    def call(self, inputs):
        return {name: table(inputs[name]) for name, table in self.tables.items()}


def ranking():
    dense = layers.Input([13], name="numbers")
    sparse = {name: layers.Input([], name=name, dtype="int32") for name in ("ad", "user", "site")}
    bottom, top = (tfrs.layers.blocks.MLP([32, width], final_activation=last) for width, last in ((8, "relu"), (1, "sigmoid")))
    model = tfrs.experimental.models.Ranking(Tables(sparse), bottom, top_stack=top)
    return tf.keras.Model([dense, *sparse.values()], model({"dense_features": dense, "sparse_features": sparse}))


def retrieval():
    """The best items for a user, by the scores of all of them."""
    user = layers.Input([], name="user", dtype="int64")
    query = layers.Dense(8)(layers.Embedding(50, 16)(user))
    index = tfrs.layers.factorized_top_k.BruteForce(k=5)
    index.index(tf.random.stateless_normal([40, 8], [1, 2]), tf.range(100, 140))
    return tf.keras.Model(user, index(query))


def models():
    dense, sparse = floats("numbers", "batch", 13), ids("ids", "batch", 6, below=50)
    yield Model("DLRM", dlrm(), [dense, sparse])
    yield Model("DLRM_without_gather", dlrm(skip_gather=True), [dense, sparse])
    yield Model("DLRM_self_interaction", dlrm(self_interaction=True), [dense, sparse])
    yield Model("DCN", dcn(), [sparse])
    yield Model("DCN_low_rank", dcn(projection_dim=8, diag_scale=0.1, preactivation="relu"), [sparse])
    yield Model("MultiLayerDCN", multi_layer_dcn, [sparse])
    features = [dense, *(ids(name, "batch", below=50, dtype="int32") for name in ("ad", "user", "site"))]
    yield Model("Ranking", ranking, features)
    yield Model("Retrieval", retrieval, [ids("user", "batch", below=50)])
