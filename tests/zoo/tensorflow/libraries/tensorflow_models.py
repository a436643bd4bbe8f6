"""Functions of TensorFlow without Keras, as serving code and older models have them: tf.Module, and ops of tf.nn and tf.math."""

import tensorflow as tf

from model import Model, floats, history, ids, integers, lengths, mask, sorted_ids, words


def variable(*shape, seed=1):
    return tf.Variable(tf.random.stateless_normal(shape, [seed, 0]) * 0.3)


class Bags(tf.Module):
    """Bags of one table: values, each with the row that it belongs to, and a sum, mean or maximum over the values of a row."""

    def __init__(self, reduce, weighted=False, rows=4):
        super().__init__()
        self.table, self.reduce, self.weighted, self.rows = variable(50, 8), reduce, weighted, rows

    def __call__(self, values, rows, *weights):
        found = tf.nn.embedding_lookup(self.table, values)
        if self.weighted:
            found *= weights[0][:, None]
        return self.reduce(found, rows, self.rows)


class SparseLookup(tf.Module):
    """tf.nn.embedding_lookup_sparse of a sparse tensor that is made from row ids and values."""

    def __init__(self, combiner, weighted=False):
        super().__init__()
        self.table, self.combiner, self.weighted = variable(50, 8), combiner, weighted

    def __call__(self, values, rows, *weights):
        indices = tf.stack([rows, tf.range(tf.size(rows, out_type=tf.int64))], axis=1)
        shape = tf.cast(tf.stack([4, tf.size(rows)]), tf.int64)
        sparse = tf.SparseTensor(indices, values, shape)
        scale = tf.SparseTensor(indices, weights[0], shape) if self.weighted else None
        return tf.nn.embedding_lookup_sparse(self.table, sparse, scale, combiner=self.combiner)


class Ragged(tf.Module):
    """The means of the rows of a ragged tensor that is made from its values and the lengths of its rows."""

    def __init__(self):
        super().__init__()
        self.table = variable(50, 8)

    def __call__(self, values, rows):
        ragged = tf.RaggedTensor.from_value_rowids(values, rows, nrows=4)
        return tf.reduce_mean(tf.gather(self.table, ragged), axis=1)


class DotInteraction(tf.Module):
    """DLRM in the way of TensorFlow 1: tf.gather of a table per column, and the lower triangle of all products."""

    def __init__(self):
        super().__init__()
        self.tables = [variable(50, 8, seed=i) for i in range(6)]
        self.bottom, self.top = variable(13, 8, seed=7), variable(8 + 21, 1, seed=8)
        self.bias = variable(8, seed=9)

    def __call__(self, dense, sparse):
        bottom = tf.nn.relu(tf.nn.bias_add(tf.matmul(dense, self.bottom), self.bias))
        rows = [tf.nn.embedding_lookup(table, sparse[:, i]) for i, table in enumerate(self.tables)]
        stacked = tf.stack([bottom, *rows], axis=1)
        products = tf.matmul(stacked, stacked, transpose_b=True)
        ones = tf.ones_like(products)
        strictly_below = tf.linalg.band_part(ones, -1, 0) - tf.linalg.band_part(ones, 0, 0)
        pairs = tf.reshape(tf.boolean_mask(products, strictly_below > 0), [-1, 21])
        return tf.sigmoid(tf.matmul(tf.concat([bottom, pairs], 1), self.top))


class FactorizationMachine(tf.Module):
    def __init__(self):
        super().__init__()
        self.weights, self.factors = variable(300), variable(300, 8)

    def __call__(self, sparse):
        given = sparse + tf.range(6, dtype=tf.int64) * 50
        rows = tf.gather(self.factors, given)
        pairs = tf.square(tf.reduce_sum(rows, 1)) - tf.reduce_sum(tf.square(rows), 1)
        return tf.sigmoid(tf.reduce_sum(tf.gather(self.weights, given), 1) + 0.5 * tf.reduce_sum(pairs, 1))


class Attention(tf.Module):
    """Multi-head attention of tf.einsum, with the causal mask of tf.linalg.band_part and the padding mask of tf.sequence_mask."""

    def __init__(self):
        super().__init__()
        self.table, self.positions = variable(50, 16), variable(64, 16, seed=2)
        self.q, self.k, self.v = (variable(16, 2, 8, seed=i) for i in (3, 4, 5))
        self.out, self.gamma, self.beta = variable(2, 8, 16, seed=6), variable(16, seed=7), variable(16, seed=8)

    def __call__(self, given, length):
        seq = tf.shape(given)[1]
        x = tf.nn.embedding_lookup(self.table, given) + self.positions[:seq]
        q, k, v = (tf.einsum("bsd,dhk->bhsk", x, matrix) for matrix in (self.q, self.k, self.v))
        scores = tf.einsum("bhqk,bhsk->bhqs", q, k) / tf.sqrt(8.0)
        causal = tf.linalg.band_part(tf.ones([seq, seq]), -1, 0)
        valid = tf.cast(tf.sequence_mask(length, seq), tf.float32)[:, None, None, :]
        scores = tf.where(causal * valid > 0, scores, tf.fill(tf.shape(scores), -1e9))
        mixed = tf.einsum("bhqs,bhsk->bqhk", tf.nn.softmax(scores), v)
        y = x + tf.einsum("bqhk,hkd->bqd", mixed, self.out)
        mean, variance = tf.nn.moments(y, axes=[-1], keepdims=True)
        return tf.nn.batch_normalization(y, mean, variance, self.beta, self.gamma, 1e-6)


class Recurrence(tf.Module):
    """A recurrence that is written as tf.while_loop or tf.scan over a sequence of numbers."""

    def __init__(self, scan=False):
        super().__init__()
        self.w, self.u, self.scan = variable(6, 8), variable(8, 8, seed=2), scan

    def __call__(self, x):
        steps = tf.transpose(tf.einsum("bsd,dk->bsk", x, self.w), [1, 0, 2])
        start = tf.zeros([tf.shape(x)[0], 8])
        if self.scan:
            return tf.scan(lambda h, step: tf.tanh(step + tf.matmul(h, self.u)), steps, start)
        end = tf.shape(steps)[0]
        body = lambda i, h: (i + 1, tf.tanh(steps[i] + tf.matmul(h, self.u)))  # noqa: E731
        return tf.while_loop(lambda i, h: i < end, body, (0, start))[1]


class Branch(tf.Module):
    """A branch on the data, which differs for the whole batch."""

    def __init__(self):
        super().__init__()
        self.w = variable(6, 3)

    def __call__(self, x):
        return tf.cond(tf.reduce_mean(x) > 0.0, lambda: tf.matmul(x, self.w), lambda: tf.nn.relu(tf.matmul(-x, self.w)))


def hashed(x):
    """The multiplicative hash that feature pipelines compute on the accelerator."""
    return tf.math.floormod(x * 2654435761 + x // 128, 1009)


REDUCTIONS = {
    "segment_sum": lambda found, rows, _: tf.math.segment_sum(found, rows),
    "segment_mean": lambda found, rows, _: tf.math.segment_mean(found, rows),
    "segment_max": lambda found, rows, _: tf.math.segment_max(found, rows),
    "unsorted_segment_sum": tf.math.unsorted_segment_sum,
    "unsorted_segment_mean": tf.math.unsorted_segment_mean,
    "unsorted_segment_max": tf.math.unsorted_segment_max,
    "unsorted_segment_sqrt_n": tf.math.unsorted_segment_sqrt_n,
    "scatter_nd": lambda found, rows, n: tf.scatter_nd(rows[:, None], found, [n, 8]),
    "one_hot": lambda found, rows, n: tf.matmul(tf.one_hot(rows, n), found, transpose_a=True),
}

FUNCTIONS = {
    "top_k": lambda x: tf.math.top_k(x, 3),
    "in_top_k": lambda x: tf.math.in_top_k(tf.zeros([tf.shape(x)[0]], tf.int32), x, 2),
    "gather_nd": lambda x: tf.gather_nd(x, tf.stack([tf.range(tf.shape(x)[0]), tf.argmax(x, 1, tf.int32)], axis=1)),
    "gather_batch": lambda x: tf.gather(x, tf.argsort(x)[:, :2], batch_dims=1),
    "band_part": lambda x: [tf.linalg.band_part(x[:, :, None] * x[:, None, :], low, high) for low, high in ((-1, 0), (0, -1), (1, 2))],
    "diag": lambda x: tf.linalg.diag(x),
    "diag_part": lambda x: tf.linalg.diag_part(x[:, :, None] * x[:, None, :]),
    "set_diag": lambda x: tf.linalg.set_diag(x[:, :, None] + x[:, None, :], x),
    "einsum": lambda x: [tf.einsum("bi,bj,bk->bijk", x, x, x), tf.einsum("bi->b", x), tf.einsum("bi,ci->cb", x, x)],
    "moments": lambda x: [*tf.nn.moments(x, axes=[0]), *tf.nn.weighted_moments(x, [1], tf.abs(x))],
    "normalize": lambda x: [tf.nn.l2_normalize(x, axis=-1), *tf.linalg.normalize(x, axis=-1), tf.norm(x, axis=-1)],
    "softmax": lambda x: [tf.nn.softmax(x), tf.nn.log_softmax(x), tf.nn.softmax(x, axis=0), tf.reduce_logsumexp(x, axis=1)],
    "sigmoid_crossentropy": lambda x: tf.nn.sigmoid_cross_entropy_with_logits(tf.sigmoid(-x), x),
    "softmax_crossentropy": lambda x: tf.nn.softmax_cross_entropy_with_logits(tf.nn.softmax(-x), x),
    "sparse_crossentropy": lambda x: tf.nn.sparse_softmax_cross_entropy_with_logits(tf.argmax(-x, 1), x),
    "erf": lambda x: tf.math.erf(x),
    "erfc": lambda x: tf.math.erfc(x),
    "expm1": lambda x: tf.math.expm1(x),
    "log1p": lambda x: tf.math.log1p(tf.abs(x)),
    "lgamma": lambda x: tf.math.lgamma(tf.abs(x) + 1.0),
    "xlogy": lambda x: tf.math.xlogy(x, tf.abs(x)),
    "euclidean_norm": lambda x: tf.math.reduce_euclidean_norm(x, axis=-1),
    "l2_loss": lambda x: tf.nn.l2_loss(x),
    "no_nan": lambda x: [tf.math.divide_no_nan(x, tf.nn.relu(x)), tf.math.multiply_no_nan(x, tf.nn.relu(x))],
    "truncatemod": lambda x: tf.truncatemod(tf.cast(x * 9.0, tf.int32), 4),
    "bitcast": lambda x: tf.bitcast(x, tf.int32),
    "bincount": lambda x: tf.math.bincount(tf.cast(tf.abs(x) * 3.0, tf.int32), minlength=20, maxlength=20, axis=-1, binary_output=True),
    "rounding": lambda x: [tf.floor(x), tf.math.ceil(x), tf.round(x), tf.math.rint(x), tf.math.floordiv(x, 0.3), tf.math.floormod(x, 0.3)],
    "cumsum": lambda x: [tf.cumsum(x, axis=1, exclusive=True), tf.cumsum(x, axis=1, reverse=True)],
    "cumprod": lambda x: tf.math.cumprod(x, axis=1),
    "cumulative_logsumexp": lambda x: tf.math.cumulative_logsumexp(x, axis=1),
    "clip": lambda x: [tf.clip_by_value(x, -0.5, 0.5), tf.clip_by_norm(x, 1.0, axes=[1]), tf.nn.relu6(x), tf.nn.leaky_relu(x, 0.3)],
    "activations": lambda x: [
        tf.nn.elu(x),
        tf.nn.selu(x),
        tf.nn.swish(x),
        tf.nn.softplus(x),
        tf.nn.crelu(x),
        tf.nn.gelu(x, approximate=True),
    ],
    "gelu": lambda x: tf.nn.gelu(x),
    "slices": lambda x: [
        x[:, 1::2],
        x[:, ::-1],
        x[1:, tf.newaxis, :3],
        tf.strided_slice(x, [0, 1], [2, 5], [1, 2]),
        tf.slice(x, [0, 2], [-1, 3]),
    ],
    "reversed": lambda x: [tf.reverse(x, [1]), tf.roll(x, 2, axis=1), tf.reverse_sequence(x, tf.fill([tf.shape(x)[0]], 3), seq_axis=1)],
    "split": lambda x: [*tf.split(x, [1, 2, 3], axis=1), *tf.unstack(x, axis=1)[:2], tf.repeat(x, 2, axis=1), tf.tile(x, [1, 2])],
    "where": lambda x: tf.where(x > 0, x, 0.0),
    "boolean_mask": lambda x: tf.boolean_mask(x, x[:, 0] > 0),
    "where_indices": lambda x: tf.where(x > 0),
    "unique": lambda x: tf.unique(tf.argmax(x, axis=1))[0],
    "bucketize": lambda x: tf.raw_ops.Bucketize(input=x, boundaries=[-1.0, 0.0, 1.0]),
    "searchsorted": lambda x: tf.searchsorted(tf.constant([-1.0, 0.0, 1.0]), tf.reshape(x, [-1])),
    "scatter_update": lambda x: tf.tensor_scatter_nd_update(x, [[0, 1], [0, 2]], [5.0, 6.0]),
    "scatter_add": lambda x: tf.tensor_scatter_nd_add(x, [[0, 1], [0, 1]], [5.0, 6.0]),
    "dynamic_stitch": lambda x: tf.dynamic_stitch([[0, 2], [1, 3]], [x[:2], x[2:4]]),
    "dynamic_partition": lambda x: tf.dynamic_partition(x, tf.cast(x[:, 0] > 0, tf.int32), 2),
    "meshgrid": lambda x: tf.meshgrid(x[:, 0], x[:, 1]),
    "pad": lambda x: [
        tf.pad(x, [[0, 0], [1, 2]]),
        tf.pad(x, [[0, 0], [1, 2]], constant_values=-1.0),
        tf.pad(x, [[0, 0], [1, 2]], "REFLECT"),
    ],
    "map_fn": lambda x: tf.map_fn(lambda row: tf.reduce_sum(row) * row, x),
    "random": lambda x: x + tf.random.stateless_normal(tf.shape(x), [1, 2]),
    "cast": lambda x: [
        tf.cast(tf.cast(x, tf.float16), tf.float32),
        tf.cast(x * 9, tf.int32),
        tf.saturate_cast(x * 300, tf.uint8),
        tf.cast(x, tf.float64),
    ],
    "quantized": lambda x: tf.quantization.fake_quant_with_min_max_args(x, -1.0, 1.0),
    "batch_norm": lambda x: tf.compat.v1.nn.fused_batch_norm(
        x[:, None, None], tf.ones(6), tf.ones(6), tf.ones(6), tf.ones(6), is_training=False
    )[0],
    "assert": lambda x: tf.ensure_shape(tf.debugging.check_numerics(x, "bad"), [None, 6]) * 2.0,
}


def models():
    values, rows = ids("values", "values", below=50), sorted_ids("rows", "values", below=4)
    sizes = ({"values": 12}, {"values": 31})
    for name, reduce in REDUCTIONS.items():
        yield Model(f"Bags_{name}", lambda reduce=reduce: Bags(reduce), [values, rows], sizes)
    yield Model(
        "Bags_weighted", lambda: Bags(tf.math.unsorted_segment_sum, weighted=True), [values, rows, floats("weights", "values")], sizes
    )
    for combiner in ("sum", "mean", "sqrtn"):
        yield Model(f"SparseLookup_{combiner}", lambda combiner=combiner: SparseLookup(combiner), [values, rows], sizes)
    yield Model("SparseLookup_weighted", lambda: SparseLookup("mean", weighted=True), [values, rows, floats("weights", "values")], sizes)
    yield Model("Ragged", Ragged, [values, rows], sizes)
    sparse, x, seen = ids("ids", "batch", 6, below=50), floats("x", "batch", 6), history("history", "batch", "seq", below=50)
    yield Model("DotInteraction", DotInteraction, [floats("numbers", "batch", 13), sparse])
    yield Model("FactorizationMachine", FactorizationMachine, [sparse])
    yield Model("Attention", Attention, [seen, lengths("length", "batch", most=6)])
    yield Model("while_loop", Recurrence, [floats("x", "batch", "seq", 6)])
    yield Model("scan", lambda: Recurrence(scan=True), [floats("x", "batch", "seq", 6)])
    yield Model("cond", Branch, [x])
    yield Model("hashed", lambda: hashed, [integers("x", "batch", 4)])
    yield Model("sequence_mask", lambda: lambda length: tf.sequence_mask(length, 9, tf.float32), [lengths("length", "batch", most=9)])
    yield Model(
        "mask_to_positions", lambda: lambda valid: tf.cumsum(valid, axis=1, exclusive=True) * valid, [mask("valid", "batch", "seq")]
    )
    yield Model(
        "hash_of_words", lambda: lambda given: tf.strings.to_hash_bucket_fast(given, 16), [words("words", "batch", of=["red", "green"])]
    )
    for name, function in FUNCTIONS.items():
        yield Model(name, lambda function=function: function, [x])
