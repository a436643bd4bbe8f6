"""Small models of one layer or one op of Keras 3 each: attention, masks, pooling, preprocessing, and what keras.ops has."""

import keras
import numpy
from keras import layers, ops

from model import Model, floats, history, ids, integers, lengths, mask, words

ACTIVATIONS = (
    "elu selu softplus softsign tanh sigmoid hard_sigmoid hard_silu mish silu relu6 glu log_softmax sparse_plus squareplus tanh_shrink "
    "hard_tanh hard_shrink soft_shrink log_sigmoid sparse_sigmoid sparsemax exponential leaky_relu softmax"
).split()


def activations():
    """Each on its own, since tf2onnx writes most of them as several ops."""
    x = keras.Input([8], name="x")
    return keras.Model(x, [layers.Activation(name)(x) for name in ACTIVATIONS])


def activation(name, **options):
    def make():
        x = keras.Input([8], name="x")
        return keras.Model(x, layers.Dense(3)(getattr(keras.activations, name)(layers.Dense(8)(x), **options)))

    return make


def attention(layer, masks=True, values=True, **options):
    """A query sequence attends to the history; its padded items are masked by the embeddings."""

    def make():
        given, target = keras.Input([None], name="history", dtype="int64"), keras.Input([None], name="target", dtype="int64")
        table = layers.Embedding(50, 8, mask_zero=masks)
        q, k = table(target), table(given)
        x = layer()([q, k, layers.Dense(8)(k)] if values else [q, k], **options)
        return keras.Model([given, target], layers.Dense(4)(x))

    return make


def cross_attention(scores=False, **options):
    def make():
        given, target = keras.Input([None], name="history", dtype="int64"), keras.Input([3], name="target", dtype="int64")
        table = layers.Embedding(50, 8, mask_zero=True)
        result = layers.MultiHeadAttention(2, 4, **options)(table(target), table(given), return_attention_scores=scores)
        return keras.Model([given, target], result)

    return make


def pooled(pooling, masked=True):
    def make():
        given = keras.Input([None], name="history", dtype="int64")
        return keras.Model(given, layers.Dense(4)(pooling()(layers.Embedding(50, 8, mask_zero=masked)(given))))

    return make


def over_sequence(made):
    """The layers one after the other over a sequence of 8 items."""

    def make():
        x = y = keras.Input([8, 6], name="x")
        for layer in made():
            y = layer(y)
        return keras.Model(x, y)

    return make


SEQUENCES = {
    "Convolutions": lambda: [
        layers.Conv1D(12, 3, padding="causal", activation="relu"),
        layers.SeparableConv1D(8, 3),
        layers.DepthwiseConv1D(3, padding="same"),
        layers.Conv1D(4, 2, strides=2),
    ],
    "DilatedConvolutions": lambda: [
        layers.Conv1D(12, 3, padding="causal", dilation_rate=2, activation="relu"),
        layers.Conv1D(6, 3, padding="same", dilation_rate=4),
    ],
    "GroupedConvolution": lambda: [layers.Conv1D(12, 3, groups=3)],
    "TransposedConvolution": lambda: [layers.Conv1DTranspose(5, 3, strides=2)],
    "Pooling": lambda: [layers.MaxPooling1D(2), layers.AveragePooling1D(2, padding="same")],
    "Shapes": lambda: [
        layers.Cropping1D(1),
        layers.ZeroPadding1D(2),
        layers.UpSampling1D(2),
        layers.Permute([2, 1]),
        layers.Reshape([-1, 4]),
        layers.Flatten(),
        layers.RepeatVector(3),
    ],
    "EinsumDense": lambda: [layers.EinsumDense("abc,cde->abde", [None, 2, 5], bias_axes="de")],
    "Normalizations": lambda: [
        layers.LayerNormalization(),
        layers.GroupNormalization(3),
        layers.RMSNormalization(),
        layers.UnitNormalization(),
        layers.BatchNormalization(),
    ],
    "LayerNormalization_axes": lambda: [layers.LayerNormalization(axis=[1, 2])],
    "SpectralNormalization": lambda: [layers.SpectralNormalization(layers.Dense(5))],
}


def distributed_over_time(inner):
    def make():
        x = keras.Input([None, 4, 6], name="x")
        return keras.Model(x, layers.TimeDistributed(inner())(x))

    return make


def preprocessed():
    age, income = keras.Input([1], name="age"), keras.Input([3], name="income")
    buckets = layers.Discretization(bin_boundaries=[-1.0, -0.3, 0.0, 0.4, 1.2])(age)
    rows = layers.Flatten()(layers.Embedding(6, 4)(buckets))
    normal = layers.Normalization(mean=[0.1, -0.2, 0.3], variance=[1.5, 0.7, 2.0])(income)
    return keras.Model([age, income], layers.Dense(1)(layers.Concatenate()([rows, layers.Rescaling(0.5, -1.0)(normal)])))


def normalized():
    x = keras.Input([3], name="x")
    return keras.Model(x, layers.Dense(1)(layers.Normalization(mean=[0.1, -0.2, 0.3], variance=[1.5, 0.7, 2.0])(x)))


def encoded(mode, **options):
    def make():
        given = keras.Input([3], name="ids", dtype="int32")
        return keras.Model(given, layers.Dense(2)(layers.CategoryEncoding(20, output_mode=mode, **options)(given)))

    return make


def looked_up_numbers():
    raw = keras.Input([2], name="raw", dtype="int64")
    known = layers.IntegerLookup(vocabulary=[3, 5, 8, 13, 21], num_oov_indices=1)(raw)
    return keras.Model(raw, layers.Dense(1)(layers.Flatten()(layers.Embedding(6, 4)(known))))


def looked_up_words():
    raw = keras.Input([2], name="words", dtype="string")
    known = layers.StringLookup(vocabulary=["red", "green", "blue"])(raw)
    return keras.Model(raw, layers.Dense(1)(layers.Flatten()(layers.Embedding(4, 4)(known))))


def hashed_numbers():
    raw = keras.Input([2], name="raw", dtype="int64")
    return keras.Model(raw, layers.Dense(1)(layers.Flatten()(layers.Embedding(16, 4)(layers.Hashing(16)(raw)))))


def with_ops(function, *shape, **options):
    def make():
        x = keras.Input(shape, name="x", **options)
        return keras.Model(x, function(x))

    return make


def of_two(function):
    def make():
        x, y = keras.Input([6], name="x"), keras.Input([6], name="y")
        return keras.Model([x, y], function(x, y))

    return make


def valid_items():
    """The mean of the rows before each row's length."""
    given, length = keras.Input([None], name="history", dtype="int64"), keras.Input([1], name="length", dtype="int64")
    places = layers.Lambda(lambda x: ops.expand_dims(ops.arange(ops.shape(x)[1], dtype="int64"), 0))(given)
    valid = ops.cast(places < length, "float32")
    rows = layers.Embedding(50, 8)(given) * ops.expand_dims(valid, -1)
    return keras.Model([given, length], ops.sum(rows, axis=1) / ops.cast(length, "float32"))


def last_item():
    """The row of the last item before the padding, as GRU4Rec and SASRec take it from histories padded at their end."""
    given = keras.Input([None], name="history", dtype="int64")
    rows = layers.Embedding(50, 8)(given)
    last = ops.sum(ops.cast(given > 0, "int32"), axis=1) - 1
    return keras.Model(given, ops.squeeze(ops.take_along_axis(rows, ops.expand_dims(ops.expand_dims(last, -1), -1), axis=1), 1))


OPS = {
    "top_k": lambda x: ops.top_k(x, 3),
    "argsort": lambda x: ops.argsort(x, axis=-1),
    "sort": lambda x: ops.sort(x, axis=-1),
    "argmax": lambda x: [ops.argmax(x, axis=-1), ops.argmin(x, axis=-1)],
    "logsumexp": lambda x: ops.logsumexp(x, axis=-1),
    "cumsum": lambda x: [ops.cumsum(x, axis=-1), ops.cumsum(x, axis=0)],
    "cumprod": lambda x: ops.cumprod(x, axis=-1),
    "moments": lambda x: [*ops.moments(x, axes=[-1], keepdims=True), ops.std(x, axis=-1), ops.var(x, axis=0)],
    "norm": lambda x: [ops.norm(x, axis=-1), ops.normalize(x, axis=-1), ops.norm(x, ord=1, axis=-1)],
    "clip": lambda x: ops.clip(ops.sqrt(ops.abs(x)), 0.1, 0.9),
    "log1p": lambda x: ops.log1p(ops.abs(x)),
    "expm1": lambda x: ops.expm1(x),
    "rounding": lambda x: [ops.floor(x), ops.ceil(x), ops.round(x), ops.sign(x), ops.floor_divide(x, 0.3), x % 0.3],
    "powers": lambda x: [ops.power(ops.abs(x), 1.7), ops.rsqrt(ops.abs(x) + 1.0), ops.reciprocal(x), ops.erf(x)],
    "trigonometry": lambda x: [ops.sin(x), ops.cos(x), ops.arctan(x), ops.sinh(x), ops.arctan2(x, x + 1.0)],
    "rolled": lambda x: [ops.roll(x, 2, axis=-1), ops.flip(x, axis=-1)],
    "repeated": lambda x: [ops.repeat(x, 3, axis=-1), ops.tile(x, [1, 2]), ops.repeat(ops.expand_dims(x, 1), 4, axis=1)],
    "padded": lambda x: [ops.pad(x, [[0, 0], [1, 2]]), ops.pad(x, [[0, 0], [1, 2]], mode="reflect")],
    "where": lambda x: [ops.where(x > 0.0, x, 0.1 * x), ops.isnan(x), ops.isfinite(x), ops.nan_to_num(x)],
    "pairs": lambda x: [ops.outer(x[:, 0], x[:, 1]), ops.tril(ops.matmul(x, ops.transpose(x))), ops.triu(ops.matmul(x, ops.transpose(x)))],
    "slices": lambda x: [x[:, ::2], x[..., -1], x[:, 1:-1], ops.split(x, 3, axis=-1)[1], x[:, ::-1]],
    "one_hot": lambda x: ops.one_hot(ops.argmax(x, axis=-1), 6),
    "digitize": lambda x: ops.digitize(x, numpy.array([-1.0, 0.0, 1.0])),
    "median": lambda x: ops.median(x, axis=-1),
    "unfold": lambda x: ops.take(x, [2, 0, 0], axis=1),
    "diagonal": lambda x: ops.diagonal(ops.expand_dims(x, 1) * ops.expand_dims(x, 2), axis1=1, axis2=2),
    "scatter_update": lambda x: ops.scatter_update(x, numpy.array([[0, 1], [0, 2]]), numpy.array([5.0, 6.0], "float32")),
    "segment_sum": lambda x: ops.segment_sum(ops.transpose(x), numpy.array([0, 0, 1, 1, 1, 2]), num_segments=3),
    "segment_max": lambda x: ops.segment_max(ops.transpose(x), numpy.array([0, 0, 1, 1, 1, 2]), num_segments=3),
    "logical": lambda x: ops.logical_and(ops.any(x > 0, axis=-1), ops.logical_not(ops.all(x > 0, axis=-1))),
    "swapped": lambda x: ops.swapaxes(ops.reshape(x, [-1, 2, 3]), 1, 2),
    "meshgrid": lambda x: ops.meshgrid(x[:, 0], x[:, 1]),
}

OPS_OF_TWO = {
    "compared": lambda x, y: [ops.maximum(x, y), ops.minimum(x, y), ops.equal(x, y), ops.cast(x >= y, "float32")],
    "divided": lambda x, y: [ops.divide_no_nan(x, y), ops.true_divide(x, y), ops.mod(x, y)],
    "einsum": lambda x, y: [ops.einsum("bi,bj->bij", x, y), ops.einsum("bi,bi->b", x, y), ops.einsum("bi,ci->bc", x, y)],
    "cosine": lambda x, y: ops.sum(ops.normalize(x, axis=-1) * ops.normalize(y, axis=-1), axis=-1),
    "binary_crossentropy": lambda x, y: ops.binary_crossentropy(ops.sigmoid(x), ops.sigmoid(y)),
    "categorical_crossentropy": lambda x, y: ops.categorical_crossentropy(ops.softmax(x), ops.softmax(y)),
    "merged": lambda x, y: [
        layer([x, y]) for layer in (layers.Average(), layers.Maximum(), layers.Subtract(), layers.Dot(1, normalize=True))
    ],
    "cross": lambda x, y: ops.cross(x[:, :3], y[:, 3:]),
}


def models():
    x, y = floats("x", "batch", 6), floats("y", "batch", 6)
    seen, target = history("history", "batch", "seq", below=50), history("target", "batch", "seq", below=50)
    yield Model("Activations", activations, [floats("x", "batch", 8)])
    for name, options in (("gelu", {}), ("celu", {}), ("threshold", {"threshold": 0.1, "default_value": -1.0})):
        yield Model(f"Activation_{name}", activation(name, **options), [floats("x", "batch", 8)])
    yield Model("Activation_gelu_approximate", activation("gelu", approximate=True), [floats("x", "batch", 8)])
    for name, layer in (("Attention", layers.Attention), ("AdditiveAttention", layers.AdditiveAttention)):
        yield Model(name, attention(layer, masks=False), [seen, target])
        yield Model(f"{name}_masked", attention(layer), [seen, target])
        yield Model(f"{name}_causal", attention(layer, use_causal_mask=True), [seen, target])
        yield Model(f"{name}_scores", attention(layer, values=False, return_attention_scores=False), [seen, target])
    yield Model("Attention_concat", attention(lambda: layers.Attention(score_mode="concat", use_scale=True)), [seen, target])
    yield Model("CrossAttention", cross_attention(), [seen, ids("target", "batch", 3, below=50)])
    yield Model("CrossAttention_scores", cross_attention(scores=True), [seen, ids("target", "batch", 3, below=50)])
    yield Model("CrossAttention_wide", cross_attention(value_dim=6, output_shape=10), [seen, ids("target", "batch", 3, below=50)])
    for masked in (False, True):
        suffix = "_masked" * masked
        yield Model("AveragePooling" + suffix, pooled(layers.GlobalAveragePooling1D, masked), [seen])
        yield Model("MaxPooling" + suffix, pooled(layers.GlobalMaxPooling1D, masked), [seen])
    sequence = [floats("x", "batch", 8, 6)]
    for name, made in SEQUENCES.items():
        yield Model(name, over_sequence(made), sequence)
    yield Model("TimeDistributed", distributed_over_time(lambda: layers.Dense(5, activation="relu")), [floats("x", "batch", "seq", 4, 6)])
    yield Model("TimeDistributed_LSTM", distributed_over_time(lambda: layers.LSTM(5)), [floats("x", "batch", "seq", 4, 6)])
    yield Model("Normalization", normalized, [floats("x", "batch", 3)])
    yield Model("Preprocessed", preprocessed, [floats("age", "batch", 1), floats("income", "batch", 3)])
    for mode in ("multi_hot", "one_hot", "count"):
        yield Model(f"CategoryEncoding_{mode}", encoded(mode), [ids("ids", "batch", 3, below=20, dtype="int32")])
    yield Model("IntegerLookup", looked_up_numbers, [ids("raw", "batch", 2, below=25)])
    yield Model("StringLookup", looked_up_words, [words("words", "batch", 2, of=["red", "green", "blue", "white"])])
    yield Model("Hashing", hashed_numbers, [integers("raw", "batch", 2)])
    yield Model("ValidItems", valid_items, [seen, lengths("length", "batch", 1, most=6)])
    yield Model("LastItem", last_item, [seen])
    for name, function in OPS.items():
        yield Model(f"ops_{name}", with_ops(function, 6), [x])
    for name, function in OPS_OF_TWO.items():
        yield Model(f"ops_{name}", of_two(function), [x, y])
    yield Model("ops_integers", with_ops(lambda i: [i % 7, i // 7, ops.bitwise_and(i, i // 16), ops.cast(i, "float32")], 4, dtype="int64"),
                [integers("x", "batch", 4)])  # fmt: skip
    positions = with_ops(lambda given: ops.cumsum(given, axis=-1) * given, None, dtype="int32")
    yield Model("Positions", positions, [mask("x", "batch", "seq", dtype="int32")])
