"""Models for ranking and retrieval, as users of Keras 3 and KerasRS (its layers for recommendation) write them."""

import keras
import keras_rs
from keras import layers

from model import Model, floats, history, ids, integers, mask


def looked_up(columns, rows=50, dim=8):
    """A row of a table of its own for each column of ids [batch, columns]: a list of [batch, dim]."""
    return [layers.Embedding(rows, dim)(column) for column in columns_of(columns)]


def columns_of(ids_):
    return [ids_[:, i] for i in range(ids_.shape[1])]


def positions(x):
    """0, 1, 2 ... for the items of [batch, seq] or [batch, seq, dim]."""
    return layers.Lambda(lambda given: keras.ops.arange(keras.ops.shape(given)[1]))(x)


def tower(x, *widths, activation="relu", last=None):
    for width in widths[:-1]:
        x = layers.Dense(width, activation=activation)(x)
    return layers.Dense(widths[-1], activation=last)(x)


def dlrm():
    dense, sparse = keras.Input([13], name="numbers"), keras.Input([6], name="ids", dtype="int64")
    bottom = tower(dense, 32, 8, last="relu")
    features = [bottom, *looked_up(sparse)]
    pairs = keras_rs.layers.DotInteraction()(features)
    return keras.Model([dense, sparse], tower(layers.Concatenate()([bottom, pairs]), 32, 16, 1, last="sigmoid"))


def dlrm_with_gather():
    dense, sparse = keras.Input([13], name="numbers"), keras.Input([6], name="ids", dtype="int64")
    bottom = tower(dense, 32, 8, last="relu")
    features = [bottom, *looked_up(sparse)]
    pairs = keras_rs.layers.DotInteraction(skip_gather=True)(features)
    return keras.Model([dense, sparse], tower(layers.Concatenate()([bottom, pairs]), 32, 16, 1, last="sigmoid"))


def dcn(projection_dim=None, parallel=False, **options):
    def make():
        dense, sparse = keras.Input([13], name="numbers"), keras.Input([6], name="ids", dtype="int64")
        x0 = x = layers.Concatenate()([dense, *looked_up(sparse)])
        for _ in range(3):
            x = keras_rs.layers.FeatureCross(projection_dim=projection_dim, **options)(x0, x)
        x = layers.Concatenate()([x, tower(x0, 32, 16, last="relu")]) if parallel else tower(x, 32, 16, last="relu")
        return keras.Model([dense, sparse], layers.Dense(1, activation="sigmoid")(x))

    return make


def wide_and_deep():
    dense, sparse = keras.Input([4], name="numbers"), keras.Input([3], name="ids", dtype="int64")
    wide = layers.Concatenate()([layers.CategoryEncoding(50, output_mode="one_hot")(column) for column in columns_of(sparse)])
    deep = tower(layers.Concatenate()([dense, *looked_up(sparse)]), 32, 16, last="relu")
    return keras.Model([dense, sparse], layers.Dense(1, activation="sigmoid")(layers.Concatenate()([wide, deep])))


def deep_fm():
    dense, sparse = keras.Input([4], name="numbers"), keras.Input([6], name="ids", dtype="int64")
    first = layers.Add()([layers.Flatten()(layers.Embedding(50, 1)(column)) for column in columns_of(sparse)])
    stacked = keras.ops.stack(looked_up(sparse), axis=1)
    squares = keras.ops.square(keras.ops.sum(stacked, axis=1)) - keras.ops.sum(keras.ops.square(stacked), axis=1)
    fm = 0.5 * keras.ops.sum(squares, axis=1, keepdims=True)
    deep = tower(layers.Concatenate()([dense, layers.Flatten()(stacked)]), 32, 16, 1)
    return keras.Model([dense, sparse], keras.ops.sigmoid(first + fm + deep))


def hashed():
    raw, dense = keras.Input([4], name="raw", dtype="int64"), keras.Input([3], name="numbers")
    rows = [layers.Embedding(101, 8)(column % 101) for column in columns_of(raw)]
    return keras.Model([raw, dense], tower(layers.Concatenate()([dense, *rows]), 16, 1, last="sigmoid"))


def bags(combiner):
    def make():
        given, weights = keras.Input([None], name="history", dtype="int64"), keras.Input([None], name="weights")
        rows = layers.Embedding(50, 8)(given)
        pooled = keras_rs.layers.EmbedReduce(50, 8, combiner=combiner)(given, weights)
        return keras.Model([given, weights], tower(layers.Concatenate()([pooled, keras.ops.max(rows, axis=1)]), 16, 1))

    return make


def two_towers():
    user, item = keras.Input([4], name="user", dtype="int64"), keras.Input([3], name="item", dtype="int64")
    sides = [layers.UnitNormalization()(tower(layers.Concatenate()(looked_up(side)), 32, 16)) for side in (user, item)]
    return keras.Model([user, item], layers.Dot(axes=1)(sides))


def retrieval():
    user = keras.Input([4], name="user", dtype="int64")
    query = tower(layers.Concatenate()(looked_up(user)), 32, 16)
    candidates = keras.random.normal([40, 16], seed=3)
    scores, found = keras_rs.layers.BruteForceRetrieval(candidate_embeddings=candidates, k=5)(query)
    return keras.Model(user, [scores, found])


def experts():
    x = keras.Input([16], name="x")
    made = keras.ops.stack([tower(x, 16, 8, last="relu") for _ in range(4)], axis=1)
    heads = []
    for _ in range(2):
        gate = layers.Dense(4, activation="softmax")(x)
        mixed = keras.ops.einsum("be,bed->bd", gate, made)
        heads.append(tower(mixed, 8, 1, last="sigmoid"))
    return keras.Model(x, heads)


def target_attention():
    given, target = keras.Input([None], name="history", dtype="int64"), keras.Input([], name="target", dtype="int64")
    table = layers.Embedding(50, 8)
    h, q = table(given), table(target)
    q = keras.ops.expand_dims(q, 1) + keras.ops.zeros_like(h)
    scores = tower(layers.Concatenate()([q, h, q - h, q * h]), 16, 8, 1, activation="sigmoid")
    scores = keras.ops.where(keras.ops.expand_dims(given, -1) > 0, scores, -1e9)
    pooled = keras.ops.sum(layers.Softmax(axis=1)(scores) * h, axis=1)
    return keras.Model([given, target], tower(layers.Concatenate()([pooled, table(target)]), 16, 1, last="sigmoid"))


def sasrec(causal=True, activation="gelu"):
    def make():
        given = keras.Input([None], name="history", dtype="int64")
        x = layers.Embedding(50, 16, mask_zero=True)(given)
        x = x + layers.Embedding(64, 16)(keras.ops.cumsum(keras.ops.ones_like(given), axis=1) - 1)
        for _ in range(2):
            normal = layers.LayerNormalization()(x)
            x = x + layers.MultiHeadAttention(2, 8)(normal, normal, use_causal_mask=causal)
            x = x + tower(layers.LayerNormalization()(x), 32, 16, activation=activation)
        return keras.Model(given, layers.Dense(50)(x[:, -1]))

    return make


def encoder(attention, norm, activation="gelu"):
    def make():
        x = keras.Input([None, 16], name="x")
        valid = keras.Input([None], name="valid", dtype="int64")
        y = x
        for _ in range(2):
            given = keras.ops.cast(valid, "bool")
            y = norm()(y + attention()(y, y, attention_mask=keras.ops.expand_dims(given, 1)))
            y = norm()(y + tower(y, 32, 16, activation=activation))
        return keras.Model([x, valid], y)

    return make


def lora(rank, activation="gelu"):
    def make():
        x = keras.Input([32], name="x")
        hidden, out = layers.Dense(64, activation=activation), layers.Dense(32)
        model = keras.Model(x, layers.LayerNormalization()(x + out(hidden(x))))
        for layer in (hidden, out):
            layer.enable_lora(rank)
        return model

    return make


def lora_embedding():
    given = keras.Input([6], name="ids", dtype="int64")
    table = layers.Embedding(50, 16)
    model = keras.Model(given, tower(layers.Flatten()(table(given)), 16, 1))
    table.enable_lora(4)
    return model


def lora_attention():
    x = keras.Input([None, 16], name="x")
    attention = layers.MultiHeadAttention(2, 8)
    model = keras.Model(x, attention(x, x))
    for part in ("_query_dense", "_value_dense"):
        getattr(attention, part).enable_lora(4)
    return model


def tab_transformer():
    dense, sparse = keras.Input([4], name="numbers"), keras.Input([6], name="ids", dtype="int64")
    x = keras.ops.stack(looked_up(sparse, dim=16), axis=1)
    for _ in range(2):
        x = layers.LayerNormalization()(x + layers.MultiHeadAttention(2, 8)(x, x))
        x = layers.LayerNormalization()(x + tower(x, 32, 16, activation="gelu"))
    y = layers.Concatenate()([layers.Flatten()(x), layers.LayerNormalization()(dense)])
    return keras.Model([dense, sparse], tower(y, 32, 1, activation="selu", last="sigmoid"))


def autoint():
    sparse = keras.Input([6], name="ids", dtype="int64")
    x = keras.ops.stack(looked_up(sparse, dim=16), axis=1)
    for _ in range(3):
        x = keras.ops.relu(layers.MultiHeadAttention(2, 8)(x, x) + layers.Dense(16, use_bias=False)(x))
    return keras.Model(sparse, layers.Dense(1, activation="sigmoid")(layers.Flatten()(x)))


def compressed_interaction():
    sparse = keras.Input([6], name="ids", dtype="int64")
    x0 = x = keras.ops.stack(looked_up(sparse), axis=1)
    pooled = []
    for width in (10, 10):
        pairs = keras.ops.einsum("bhd,bmd->bdhm", x, x0)
        pairs = keras.ops.reshape(pairs, [-1, 8, x.shape[1] * 6])
        x = keras.ops.transpose(layers.Conv1D(width, 1, activation="relu")(pairs), [0, 2, 1])
        pooled.append(keras.ops.sum(x, axis=-1))
    return keras.Model(sparse, layers.Dense(1, activation="sigmoid")(layers.Concatenate()(pooled)))


def caser():
    given = keras.Input([8], name="history", dtype="int64")
    rows = layers.Embedding(50, 8)(given)
    picture = keras.ops.expand_dims(rows, -1)
    across = [layers.GlobalMaxPooling2D()(layers.Conv2D(4, [height, 8], activation="relu")(picture)) for height in (2, 3, 4)]
    down = layers.Flatten()(layers.Conv2D(2, [8, 1])(picture))
    return keras.Model(given, tower(layers.Concatenate()([*across, down]), 16, 5))


def ncf():
    user, item = keras.Input([], name="user", dtype="int64"), keras.Input([], name="item", dtype="int64")
    gmf = layers.Embedding(50, 8)(user) * layers.Embedding(60, 8)(item)
    mlp = tower(layers.Concatenate()([layers.Embedding(50, 8)(user), layers.Embedding(60, 8)(item)]), 16, 8, last="relu")
    return keras.Model([user, item], layers.Dense(1, activation="sigmoid")(layers.Concatenate()([gmf, mlp])))


def batch_norm_tower():
    x = y = keras.Input([16], name="x")
    for width in (32, 16):
        y = layers.Dropout(0.1)(layers.PReLU()(layers.BatchNormalization()(layers.Dense(width, use_bias=False)(y))))
    return keras.Model(x, layers.Dense(1)(layers.LeakyReLU()(y)))


def squeeze_and_bilinear():
    """FiBiNET: fields are weighted by a squeeze-and-excitation network, and pairs of them interact by a matrix."""
    sparse = keras.Input([6], name="ids", dtype="int64")
    fields = keras.ops.stack(looked_up(sparse), axis=1)
    gates = tower(keras.ops.mean(fields, axis=-1), 3, 6, last="relu")
    pairs = []
    for x in (fields, fields * keras.ops.expand_dims(gates, -1)):
        through = layers.Dense(8, use_bias=False)(x)
        pairs += [through[:, i] * x[:, j] for i in range(6) for j in range(i + 1, 6)]
    return keras.Model(sparse, tower(layers.Concatenate()(pairs), 16, 1, last="sigmoid"))


def masknet():
    dense, sparse = keras.Input([4], name="numbers"), keras.Input([6], name="ids", dtype="int64")
    given = layers.Concatenate()([dense, *looked_up(sparse)])
    normal = layers.LayerNormalization()(given)
    blocks = []
    for _ in range(3):
        gate = tower(given, 64, given.shape[-1])
        blocks.append(layers.ReLU()(layers.LayerNormalization()(layers.Dense(16)(gate * normal))))
    return keras.Model([dense, sparse], tower(layers.Concatenate()(blocks), 16, 1, last="sigmoid"))


def final_mlp():
    sparse = keras.Input([6], name="ids", dtype="int64")
    given = layers.Concatenate()(looked_up(sparse))
    sides = []
    for _ in range(2):
        gate = layers.Dense(given.shape[-1], activation=lambda x: 2 * keras.ops.sigmoid(x))(given)
        sides.append(keras.ops.reshape(tower(given * gate, 32, 16, last="relu"), [-1, 2, 8]))
    matrix = keras.Variable(keras.random.normal([2, 8, 8], seed=5))
    pair = layers.Lambda(lambda both: keras.ops.einsum("bhi,hij,bhj->b", both[0], matrix, both[1]))(sides)
    return keras.Model(sparse, keras.ops.sigmoid(pair))


def product_network():
    sparse = keras.Input([6], name="ids", dtype="int64")
    rows = looked_up(sparse)
    inner = [layers.Dot(axes=1)([rows[i], rows[j]]) for i in range(6) for j in range(i + 1, 6)]
    total = keras.ops.sum(keras.ops.stack(rows, axis=1), axis=1)
    outer = layers.Flatten()(keras.ops.expand_dims(total, 2) * keras.ops.expand_dims(total, 1))
    return keras.Model(sparse, tower(layers.Concatenate()([*rows, *inner, outer]), 16, 1, last="sigmoid"))


def progressive_experts():
    """PLE: two tasks, each with experts of its own and shared ones, in two levels."""
    x = keras.Input([16], name="x")
    tasks, shared = [x, x], x
    for level in range(2):
        own = [[tower(task, 8, last="relu") for _ in range(2)] for task in tasks]
        common = [tower(shared, 8, last="relu") for _ in range(2)]

        def mixed(given, experts):
            gate = keras.ops.expand_dims(layers.Dense(len(experts), activation="softmax")(given), -1)
            return keras.ops.sum(gate * keras.ops.stack(experts, axis=1), axis=1)

        tasks, shared = [mixed(t, e + common) for t, e in zip(tasks, own)], mixed(shared, [*own[0], *own[1], *common])
    click, buy = (tower(task, 8, 1, last="sigmoid") for task in tasks)
    return keras.Model(x, [click, click * buy])


def listwise():
    """KerasRS's example of listwise ranking: a user's scores of a list of items."""
    user, items = keras.Input([], name="user", dtype="int32"), keras.Input([None], name="items", dtype="int32")
    row, rows = layers.Embedding(50, 8)(user), layers.Embedding(60, 8)(items)
    repeated = keras.ops.expand_dims(row, 1) + keras.ops.zeros_like(rows)
    scores = tower(layers.Concatenate()([repeated, rows]), 32, 16, 1)
    return keras.Model([user, items], keras.ops.squeeze(scores, -1))


def distributed():
    """Tables of KerasRS's DistributedEmbedding, two of whose features share one table."""
    tables = {name: keras_rs.layers.TableConfig(name, 50, 8, combiner="mean", placement="default_device") for name in ("item", "cate")}
    features = {name: keras_rs.layers.FeatureConfig(name, tables[table], (None, 5), (None, 8))
                for name, table in (("item", "item"), ("seen", "item"), ("cate", "cate"))}  # fmt: skip
    inputs = {name: keras.Input([5], name=name, dtype="int32") for name in features}
    rows = keras_rs.layers.DistributedEmbedding(features)(inputs)
    return keras.Model(list(inputs.values()), tower(layers.Concatenate()(list(rows.values())), 16, 1))


def in_batch():
    """Scores of all pairs of the batch, without those that have the id of the right item by accident, as in training."""
    user, item = keras.Input([], name="user", dtype="int64"), keras.Input([], name="item", dtype="int64")
    scores = layers.Embedding(50, 8)(user) @ keras.ops.transpose(layers.Embedding(60, 8)(item))
    labels = layers.Lambda(lambda given: keras.ops.eye(keras.ops.shape(given)[0]))(item)
    scores = keras_rs.layers.RemoveAccidentalHits()(scores, labels, item)
    return keras.Model([user, item], keras.ops.log_softmax(scores))


@keras.saving.register_keras_serializable("zoo")
class Towers(keras.Model):
    """A model with a method `call` of its own, as those of TensorFlow Recommenders."""

    def __init__(self):
        super().__init__()
        self.user, self.item = (keras.Sequential([layers.Embedding(50, 8), layers.Dense(16, activation="relu")]) for _ in range(2))
        self.rating = keras.Sequential([layers.Dense(16, activation="relu"), layers.Dense(1)])

    def call(self, inputs):
        user, item = inputs
        return self.rating(keras.ops.concatenate([self.user(user), self.item(item)], axis=-1))


def behaviour_transformer():
    """BST: an encoder over the history and the target item."""
    given, target = keras.Input([7], name="history", dtype="int32"), keras.Input([1], name="target", dtype="int32")
    table = layers.Embedding(50, 16)
    x = layers.Concatenate(axis=1)([table(given), table(target)])
    x = x + layers.Embedding(8, 16)(positions(x))
    x = layers.LayerNormalization()(x + layers.MultiHeadAttention(4, 4)(x, x))
    x = layers.LayerNormalization()(x + tower(x, 32, 16, activation="leaky_relu"))
    return keras.Model([given, target], tower(layers.Flatten()(x), 32, 1, last="sigmoid"))


def bert4rec():
    """An encoder that looks both ways, whose answer is for the item in the place of the mask (id 49)."""
    given = keras.Input([None], name="history", dtype="int32")
    table = layers.ReversibleEmbedding(50, 16)
    x = table(given) + layers.Embedding(64, 16)(positions(given))
    valid = keras.ops.expand_dims(given > 0, 1)
    for _ in range(2):
        x = layers.LayerNormalization()(x + layers.MultiHeadAttention(2, 8)(x, x, attention_mask=valid))
        x = layers.LayerNormalization()(x + tower(x, 32, 16, activation="relu"))
    return keras.Model(given, layers.Softmax()(table(x, reverse=True)))


def gated_attention():
    """HSTU's layer: attention with SiLU in place of the softmax, whose result is gated."""
    given = keras.Input([None], name="history", dtype="int32")
    x = layers.Embedding(50, 16)(given)
    for _ in range(2):
        u, v, q, k = keras.ops.split(layers.Dense(64, activation="silu")(layers.LayerNormalization()(x)), 4, axis=-1)
        scores = keras.ops.tril(keras.ops.silu(keras.ops.einsum("bqd,bkd->bqk", q, k)))
        scores = scores / keras.ops.cast(keras.ops.sum(keras.ops.cast(given > 0, "int32"), axis=1)[:, None, None], "float32")
        x = x + layers.Dense(16)(layers.LayerNormalization()(scores @ v) * u)
    return keras.Model(given, x[:, -1])


def quantized_with(mode):
    def make():
        x = keras.Input([32], name="x")
        model = keras.Model(x, tower(x, 64, 16, 4))
        model.quantize(mode)
        return model

    return make


def quantized_tables():
    sparse = keras.Input([6], name="ids", dtype="int64")
    x = keras.ops.stack(looked_up(sparse, dim=16), axis=1)
    x = layers.LayerNormalization()(x + layers.MultiHeadAttention(2, 8)(x, x))
    model = keras.Model(sparse, tower(layers.Flatten()(x), 16, 1))
    model.quantize("int8")
    return model


def mixed(policy):
    def make():
        x, sparse = keras.Input([16], name="x"), keras.Input([2], name="ids", dtype="int64")
        rows = [layers.Embedding(50, 8, dtype=policy)(column) for column in columns_of(sparse)]
        y = layers.Dense(32, activation="relu", dtype=policy)(layers.Concatenate(dtype=policy)([x, *rows]))
        y = layers.LayerNormalization(dtype=policy)(y)
        return keras.Model([x, sparse], layers.Dense(4, dtype="float32", activation="softmax")(y))

    return make


NORMS = {
    "layer": lambda: layers.LayerNormalization(),
    "rms": lambda: layers.RMSNormalization(),
    "group": lambda: layers.GroupNormalization(4),
}


def models():
    dense, sparse, x = floats("numbers", "batch", 13), ids("ids", "batch", 6, below=50), floats("x", "batch", 16)
    user, item = ids("user", "batch", below=50), ids("item", "batch", below=60)
    user32, item32 = ids("user", "batch", below=50, dtype="int32"), ids("item", "batch", below=50, dtype="int32")
    seen, seen32 = (history("history", "batch", "seq", below=50, dtype=dtype) for dtype in ("int64", "int32"))
    yield Model("DLRM", dlrm, [dense, sparse])
    yield Model("DLRM_without_gather", dlrm_with_gather, [dense, sparse])
    yield Model("DCNv2", dcn(), [dense, sparse])
    yield Model("DCNv2_low_rank", dcn(8), [dense, sparse])
    yield Model("DCNv2_parallel", dcn(8, parallel=True, diag_scale=0.1), [dense, sparse])
    yield Model("WideAndDeep", wide_and_deep, [floats("numbers", "batch", 4), ids("ids", "batch", 3, below=50)])
    yield Model("Hashed", hashed, [integers("raw", "batch", 4), floats("numbers", "batch", 3)])
    for name, make in (("DeepFM", deep_fm), ("MaskNet", masknet), ("TabTransformer", tab_transformer)):
        yield Model(name, make, [floats("numbers", "batch", 4), sparse])
    for name, make in (("AutoInt", autoint), ("CIN", compressed_interaction), ("FiBiNET", squeeze_and_bilinear), ("FinalMLP", final_mlp),
                       ("PNN", product_network), ("LoRA_embedding", lora_embedding), ("Int8_tables", quantized_tables)):  # fmt: skip
        yield Model(name, make, [sparse])
    yield Model("Distributed", distributed, [ids(name, "batch", 5, below=50, dtype="int32") for name in ("item", "seen", "cate")])
    for combiner in ("sum", "mean", "sqrtn"):
        yield Model(f"Bags_{combiner}", bags(combiner), [ids("history", "batch", "seq", below=50), floats("weights", "batch", "seq")])
    yield Model("NCF", ncf, [user, item])
    yield Model("InBatch", in_batch, [user, item])
    yield Model("Subclass", Towers, [user32, item32])
    yield Model("TwoTowers", two_towers, [ids("user", "batch", 4, below=50), ids("item", "batch", 3, below=50)])
    yield Model("Retrieval", retrieval, [ids("user", "batch", 4, below=50)])
    yield Model("Listwise", listwise, [user32, ids("items", "batch", "seq", below=60, dtype="int32")])
    yield Model("MMoE", experts, [x])
    yield Model("PLE", progressive_experts, [x])
    yield Model("BatchNormTower", batch_norm_tower, [x])
    yield Model("DIN", target_attention, [seen, ids("target", "batch", below=50)])
    pair = [ids("history", "batch", 7, below=50, dtype="int32"), ids("target", "batch", 1, below=50, dtype="int32")]
    yield Model("BST", behaviour_transformer, pair)
    yield Model("Caser", caser, [ids("history", "batch", 8, below=50)])
    yield Model("SASRec", sasrec(), [seen])
    yield Model("SASRec_both_ways", sasrec(False), [seen])
    yield Model("SASRec_relu", sasrec(activation="relu"), [seen])
    yield Model("BERT4Rec", bert4rec, [seen32])
    yield Model("HSTU", gated_attention, [seen32])
    tokens = [floats("x", "batch", "seq", 16), mask("valid", "batch", "seq")]
    for name, norm in NORMS.items():
        yield Model(f"Encoder_{name}", encoder(lambda: layers.MultiHeadAttention(2, 8), norm), tokens)
    yield Model("Encoder_relu", encoder(lambda: layers.MultiHeadAttention(2, 8), NORMS["layer"], "relu"), tokens)
    yield Model("Encoder_grouped_heads", encoder(lambda: layers.GroupQueryAttention(8, 4, 2), NORMS["rms"], "silu"), tokens)
    yield Model("LoRA", lora(4), [floats("x", "batch", 32)])
    yield Model("LoRA_relu", lora(4, "relu"), [floats("x", "batch", 32)])
    yield Model("LoRA_attention", lora_attention, [tokens[0]])
    for mode in ("int8", "int4", "float8"):
        yield Model(f"Quantized_{mode}", quantized_with(mode), [floats("x", "batch", 32)])
    for policy in ("mixed_float16", "mixed_bfloat16", "float16", "float64"):
        yield Model(f"Precision_{policy}", mixed(policy), [x, ids("ids", "batch", 2, below=50)])
