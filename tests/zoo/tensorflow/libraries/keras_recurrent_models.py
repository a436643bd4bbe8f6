"""Recurrent layers of Keras 3 over embedded histories, with and without masks of padded items, and models of sessions made of them."""

import keras
from keras import layers

from model import Model, floats, history, ids

CELLS = {"GRU": layers.GRU, "LSTM": layers.LSTM, "RNN": layers.SimpleRNN}


def embedded(mask_zero=False, length=None, dtype="int64"):
    """An input of ids and their rows [batch, seq, 8]."""
    given = keras.Input([length], name="history", dtype=dtype)
    return given, layers.Embedding(50, 8, mask_zero=mask_zero)(given)


def over_history(*made, masked=False, dtype="int64", width=5):
    """The layers one after the other over the history, and a last dense layer on each result."""

    def make():
        given, x = embedded(masked, dtype=dtype)
        for layer in made:
            x = layer()(x)
        results = x if isinstance(x, (list, tuple)) else [x]
        return keras.Model(given, [layers.Dense(width)(result) for result in results])

    return make


def unrolled(cell):
    def make():
        given, x = embedded(True, length=5)
        return keras.Model(given, layers.Dense(5)(cell(12, unroll=True)(x)))

    return make


def over_numbers(cell, mask_value=None):
    def make():
        x = y = keras.Input([None, 6], name="x")
        if mask_value is not None:
            y = layers.Masking(mask_value)(y)
        return keras.Model(x, cell(12, return_sequences=True)(y))

    return make


def with_initial_states(cell, states):
    """The states of the first item come from a user's row."""

    def make():
        given, x = embedded(True)
        user = keras.Input([], name="user", dtype="int64")
        initial = [layers.Dense(12, activation="tanh")(layers.Embedding(50, 8)(user)) for _ in range(states)]
        return keras.Model([given, user], layers.Dense(5)(cell(12)(x, initial_state=initial)))

    return make


def encoder_decoder(cell, masked=False):
    """The states after one sequence are the initial states of the other."""

    def make():
        given, x = embedded(masked)
        target = keras.Input([None], name="target", dtype="int64")
        _, *states = cell(12, return_state=True)(x)
        answers = cell(12, return_sequences=True)(layers.Embedding(50, 8, mask_zero=masked)(target), initial_state=states)
        return keras.Model([given, target], layers.Dense(5)(answers))

    return make


class MinimalCell(layers.Layer):
    """The cell of the example in Keras's documentation of keras.layers.RNN."""

    def __init__(self, units, **options):
        super().__init__(**options)
        self.units = self.state_size = units

    def build(self, input_shape):
        self.kernel = self.add_weight(shape=(input_shape[-1], self.units), initializer="uniform", name="kernel")
        self.recurrent_kernel = self.add_weight(shape=(self.units, self.units), initializer="uniform", name="recurrent_kernel")

    def call(self, inputs, states):
        output = keras.ops.matmul(inputs, self.kernel) + keras.ops.matmul(states[0], self.recurrent_kernel)
        return output, [output]


class AttentionalCell(layers.Layer):
    """DIEN's AUGRU: the last column of the input, an attention score, scales the update gate."""

    def __init__(self, units, **options):
        super().__init__(**options)
        self.units = self.state_size = units
        self.update, self.reset = layers.Dense(units, activation="sigmoid"), layers.Dense(units, activation="sigmoid")
        self.candidate = layers.Dense(units, activation="tanh")

    def build(self, input_shape):
        width = input_shape[-1] - 1 + self.units
        for dense in (self.update, self.reset, self.candidate):
            dense.build((None, width))

    def call(self, inputs, states):
        x, score, h = inputs[:, :-1], inputs[:, -1:], states[0]
        both = keras.ops.concatenate([x, h], axis=-1)
        update = score * self.update(both)
        candidate = self.candidate(keras.ops.concatenate([x, self.reset(both) * h], axis=-1))
        h = (1 - update) * h + update * candidate
        return h, [h]


def stacked_cells(*cells, **options):
    return lambda: layers.RNN(layers.StackedRNNCells([cell(12) for cell in cells]), **options)


def interest_evolution(masked):
    """DIEN: a GRU over the history, then a GRU whose updates are scaled by the attention of the target item."""

    def make():
        given, target = keras.Input([None], name="history", dtype="int64"), keras.Input([], name="target", dtype="int64")
        table = layers.Embedding(50, 8, mask_zero=masked)
        q = layers.Embedding(50, 8)(target)
        interests = layers.GRU(8, return_sequences=True)(table(given))
        scores = keras.ops.einsum("bsd,bd->bs", interests, q)
        scores = keras.ops.softmax(keras.ops.where(given > 0, scores, -1e9))
        final = layers.RNN(AttentionalCell(8))(keras.ops.concatenate([interests, keras.ops.expand_dims(scores, -1)], axis=-1))
        return keras.Model([given, target], layers.Dense(1, activation="sigmoid")(layers.Concatenate()([final, q])))

    return make


def narm():
    """NARM: a GRU over the session, and attention of its last state to all of them."""
    given, x = embedded(True)
    states, last = layers.GRU(12, return_sequences=True, return_state=True)(x)
    energy = keras.ops.sigmoid(layers.Dense(12, use_bias=False)(states) + keras.ops.expand_dims(layers.Dense(12)(last), 1))
    weights = keras.ops.where(keras.ops.expand_dims(given > 0, -1), layers.Dense(1, use_bias=False)(energy), 0.0)
    session = layers.Concatenate()([last, keras.ops.sum(weights * states, axis=1)])
    return keras.Model(given, layers.Dense(50, use_bias=False)(layers.Dense(8, use_bias=False)(session)))


def gru4rec(**options):
    """GRU4Rec: the scores of all items after the session."""

    def make():
        given, x = embedded(True, dtype="int32")
        x = layers.GRU(16, return_sequences=True, **options)(x)
        x = layers.GRU(16, **options)(layers.Dropout(0.2)(x))
        return keras.Model(given, layers.Dense(50, activation="softmax")(layers.LayerNormalization()(x)))

    return make


def convolution_then_lstm():
    given, x = embedded()
    x = layers.Conv1D(12, 3, padding="same", activation="relu")(x)
    return keras.Model(given, layers.Dense(3)(layers.LSTM(12)(x)))


def models():
    seen, user = [history("history", "batch", "seq", below=50)], ids("user", "batch", below=50)
    target = history("target", "batch", "seq", below=50)
    for name, cell in CELLS.items():
        all_steps = lambda cell=cell: cell(12, return_sequences=True)  # noqa: E731
        states = 2 if name == "LSTM" else 1
        yield Model(name, over_history(lambda cell=cell: cell(12)), seen)
        yield Model(f"{name}_masked", over_history(lambda cell=cell: cell(12), masked=True), seen)
        yield Model(f"{name}_all_steps", over_history(all_steps), seen)
        yield Model(f"{name}_all_steps_masked", over_history(all_steps, masked=True), seen)
        yield Model(f"{name}_stacked", over_history(all_steps, all_steps, lambda cell=cell: cell(7)), seen)
        yield Model(f"{name}_stacked_masked", over_history(all_steps, all_steps, lambda cell=cell: cell(7), masked=True), seen)
        for masked in (False, True):
            suffix = "_masked" if masked else ""
            backwards = lambda cell=cell: cell(12, go_backwards=True, return_sequences=True)  # noqa: E731
            yield Model(f"{name}_backwards{suffix}", over_history(backwards, masked=masked), seen)
            states_too = lambda cell=cell: cell(12, return_sequences=True, return_state=True)  # noqa: E731
            yield Model(f"{name}_with_states{suffix}", over_history(states_too, masked=masked), seen)
            both_ways = lambda cell=cell: layers.Bidirectional(cell(12))  # noqa: E731
            yield Model(f"{name}_both_ways{suffix}", over_history(both_ways, masked=masked), seen)
            yield Model(f"{name}_encoder_decoder{suffix}", encoder_decoder(cell, masked), [*seen, target])
        yield Model(f"{name}_initial_states", with_initial_states(cell, states), [*seen, user])
        yield Model(f"{name}_unrolled", unrolled(cell), [history("history", "batch", 5, below=50)])
        yield Model(f"{name}_numbers", over_numbers(cell), [floats("x", "batch", "seq", 6)])
        yield Model(f"{name}_Masking", over_numbers(cell, 0.0), [floats("x", "batch", "seq", 6)])
        relu = lambda cell=cell: cell(12, activation="relu", use_bias=False)  # noqa: E731
        yield Model(f"{name}_relu", over_history(relu, masked=True), seen)
        zeros = lambda cell=cell: cell(12, return_sequences=True, zero_output_for_mask=True)  # noqa: E731
        yield Model(f"{name}_zero_output", over_history(zeros, masked=True), seen)
    for merge in ("sum", "mul", "ave", "concat", None):
        both_ways = lambda merge=merge: layers.Bidirectional(layers.LSTM(12, return_sequences=True), merge_mode=merge)  # noqa: E731
        yield Model(f"Bidirectional_{merge}", over_history(both_ways, masked=True), seen)
    for name, options in (("reset_before", {"reset_after": False}), ("hard_sigmoid", {"recurrent_activation": "hard_sigmoid"})):
        yield Model(f"GRU_{name}", over_history(lambda options=options: layers.GRU(12, **options)), seen)
        yield Model(f"GRU_{name}_masked", over_history(lambda options=options: layers.GRU(12, **options), masked=True), seen)
    int32 = [history("history", "batch", "seq", below=50, dtype="int32")]
    yield Model("LSTM_int32", over_history(lambda: layers.LSTM(12), masked=True, dtype="int32"), int32)
    yield Model("MinimalCell", over_history(lambda: layers.RNN(MinimalCell(12)), lambda: layers.Dense(4)), seen)
    yield Model("MinimalCell_masked", over_history(lambda: layers.RNN(MinimalCell(12), return_sequences=True), masked=True), seen)
    yield Model("StackedRNNCells", over_history(stacked_cells(layers.GRUCell, layers.GRUCell)), seen)
    yield Model("StackedRNNCells_mixed", over_history(stacked_cells(layers.LSTMCell, MinimalCell, layers.SimpleRNNCell), masked=True), seen)
    for masked in (False, True):
        yield Model("DIEN" + "_masked" * masked, interest_evolution(masked), [*seen, ids("target", "batch", below=50)])
    yield Model("NARM", narm, seen)
    yield Model("GRU4Rec", gru4rec(), int32)
    yield Model("GRU4Rec_dropout", gru4rec(dropout=0.1, recurrent_dropout=0.1), int32)
    yield Model("ConvolutionThenLSTM", convolution_then_lstm, seen)
    time_distributed = lambda: layers.TimeDistributed(layers.Dense(4, activation="relu"))  # noqa: E731
    yield Model("TimeDistributed", over_history(lambda: layers.LSTM(12, return_sequences=True), time_distributed, masked=True), seen)
