#!/usr/bin/env python3
"""Writes models in this folder whose recurrent layers have their steps as subgraphs. In recurrent_loops.onnx, a Loop is a GRU over clicks with a
mask, as Keras's exporter writes it, and a Scan from the last click to the first is an LSTM over what the GRU made of them. In
layered_loops.onnx, a Loop is DIEN's GRU with attentional update gate, and a Scan has two layers and a dense layer in its step."""
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

FOLDER = Path(__file__).resolve().parent
ITEMS, WIDTH, UNITS, NARROW = 40, 8, 12, 6
FLOAT, INT64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
node, tensor = helper.make_node, helper.make_tensor_value_info


def gru_body():
    """Keras's gates are z, r and h; the state's part of the candidate has a bias of its own."""
    gates = [node("Split", [f"{part}_gates"], [f"{part}_{gate}" for gate in "zrh"], axis=1, num_outputs=3) for part in "xs"]
    nodes = [
        node("Gather", ["rows", "i"], ["row"], axis=0),
        node("Gather", ["is_click", "i"], ["goes_on"], axis=0),
        node("MatMul", ["row", "gru.kernel"], ["x_product"]), node("Add", ["x_product", "gru.bias"], ["x_gates"]),
        node("MatMul", ["state", "gru.recurrent_kernel"], ["s_product"]), node("Add", ["s_product", "gru.recurrent_bias"], ["s_gates"]),
        *gates,
        node("Add", ["x_z", "s_z"], ["z_sum"]), node("Sigmoid", ["z_sum"], ["z"]),
        node("Add", ["x_r", "s_r"], ["r_sum"]), node("Sigmoid", ["r_sum"], ["r"]),
        node("Mul", ["r", "s_h"], ["reset"]), node("Add", ["x_h", "reset"], ["h_sum"]), node("Tanh", ["h_sum"], ["candidate"]),
        node("Mul", ["z", "state"], ["kept"]), node("Sub", ["one", "z"], ["rest"]), node("Mul", ["rest", "candidate"], ["added"]),
        node("Add", ["kept", "added"], ["moved"]),
        node("Where", ["goes_on", "moved", "state"], ["new_state"]), node("Where", ["goes_on", "moved", "output"], ["new_output"]),
        node("Identity", ["new_output"], ["shown"]), node("Identity", ["on"], ["on_again"]),
    ]  # fmt: skip
    state = ["batch", UNITS]
    return helper.make_graph(
        nodes, "gru_step",
        [tensor("i", INT64, []), tensor("on", BOOL, []), tensor("output", FLOAT, state), tensor("state", FLOAT, state)],
        [tensor("on_again", BOOL, []), tensor("new_output", FLOAT, state), tensor("new_state", FLOAT, state), tensor("shown", FLOAT, state)],
    )  # fmt: skip


def lstm_body():
    nodes = [
        node("MatMul", ["x", "lstm.kernel"], ["x_product"]), node("MatMul", ["h", "lstm.recurrent_kernel"], ["h_product"]),
        node("Add", ["x_product", "h_product"], ["products"]), node("Add", ["products", "lstm.bias"], ["gates"]),
        node("Split", ["gates"], ["i_sum", "f_sum", "c_sum", "o_sum"], axis=1, num_outputs=4),
        *(node("Sigmoid", [f"{gate}_sum"], [gate]) for gate in "ifo"), node("Tanh", ["c_sum"], ["candidate"]),
        node("Mul", ["f", "c"], ["kept"]), node("Mul", ["i", "candidate"], ["added"]), node("Add", ["added", "kept"], ["new_c"]),
        node("Tanh", ["new_c"], ["shown"]), node("Mul", ["o", "shown"], ["new_h"]), node("Identity", ["new_h"], ["y"]),
    ]  # fmt: skip
    state = ["batch", UNITS]
    return helper.make_graph(nodes, "lstm_step", [tensor(name, FLOAT, state) for name in "hcx"],
                             [tensor(name, FLOAT, state) for name in ("new_h", "new_c", "y")])  # fmt: skip


def recurrent_loops():
    random = np.random.default_rng(0)
    floats = {"table": (ITEMS, WIDTH), "gru.kernel": (WIDTH, 3 * UNITS), "gru.recurrent_kernel": (UNITS, 3 * UNITS), "gru.bias": (3 * UNITS,),
              "gru.recurrent_bias": (3 * UNITS,), "lstm.kernel": (UNITS, 4 * UNITS), "lstm.recurrent_kernel": (UNITS, 4 * UNITS),
              "lstm.bias": (4 * UNITS,), "out.weight": (2 * UNITS, 3)}  # fmt: skip
    weights = [numpy_helper.from_array(random.normal(0, 0.4, shape).astype(np.float32), name) for name, shape in floats.items()]
    weights += [numpy_helper.from_array(np.float32(1), "one"), numpy_helper.from_array(np.array(True), "true"), numpy_helper.from_array(np.int64(0), "padding"),
                numpy_helper.from_array(np.array([UNITS]), "units"), numpy_helper.from_array(np.array([2]), "last_axis"), numpy_helper.from_array(np.int64(0), "zero"),
                numpy_helper.from_array(np.array([0]), "first_axis")]  # fmt: skip
    nodes = [
        node("Transpose", ["history"], ["by_step"], "/steps", perm=[1, 0]),
        node("Gather", ["table", "by_step"], ["rows"], "/embedding/Gather"),
        node("Equal", ["by_step", "padding"], ["is_padding"], "/mask/Equal"), node("Not", ["is_padding"], ["is_given"], "/mask/Not"),
        node("Unsqueeze", ["is_given", "last_axis"], ["is_click"], "/mask/Unsqueeze"),
        node("Shape", ["history"], ["rows_of_batch"], "/batch", start=0, end=1), node("Shape", ["history"], ["step_dim"], "/steps/Shape", start=1, end=2),
        node("Squeeze", ["step_dim", "first_axis"], ["steps"], "/steps/Squeeze"),
        node("Concat", ["rows_of_batch", "units"], ["state_shape"], "/zeros/Concat", axis=0), node("ConstantOfShape", ["state_shape"], ["zeros"], "/zeros"),
        node("Loop", ["steps", "true", "zeros", "zeros"], ["last_output", "last_state", "states"], "/gru/Loop", body=gru_body()),
        node("Scan", ["zeros", "zeros", "states"], ["last_h", "last_c", "outputs"], "/lstm/Scan", body=lstm_body(), num_scan_inputs=1,
             scan_input_directions=[1], scan_output_directions=[1]),
        node("Gather", ["outputs", "zero"], ["first"], "/first/Gather", axis=0),
        node("Concat", ["last_state", "first"], ["both"], "/both", axis=1), node("MatMul", ["both", "out.weight"], ["y"], "/out/MatMul"),
    ]  # fmt: skip
    graph = helper.make_graph(nodes, "recurrent_loops", [tensor("history", INT64, ["batch", "seq"])], [tensor("y", FLOAT, ["batch", 3]), tensor("last_c", FLOAT, ["batch", UNITS])], weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10), FOLDER / "recurrent_loops.onnx")


def attentional_body():
    """DIEN's attentional GRU, which multiplies its update gate by the step's attention."""
    nodes = [
        node("Gather", ["by_step", "i"], ["x"], axis=0), node("Gather", ["attention", "i"], ["share"], axis=0),
        node("Concat", ["x", "h"], ["xh"], axis=1),
        node("Gemm", ["xh", "update.kernel", "update.bias"], ["u_sum"]), node("Sigmoid", ["u_sum"], ["u"]), node("Mul", ["share", "u"], ["weighted"]),
        node("Gemm", ["xh", "reset.kernel", "reset.bias"], ["r_sum"]), node("Sigmoid", ["r_sum"], ["r"]), node("Mul", ["r", "h"], ["reset"]),
        node("Concat", ["x", "reset"], ["xr"], axis=1), node("Gemm", ["xr", "new.kernel", "new.bias"], ["n_sum"]), node("Tanh", ["n_sum"], ["n"]),
        node("Sub", ["one", "weighted"], ["rest"]), node("Mul", ["rest", "h"], ["kept"]), node("Mul", ["weighted", "n"], ["added"]),
        node("Add", ["kept", "added"], ["new_h"]), node("Identity", ["on"], ["on_again"]),
    ]  # fmt: skip
    return helper.make_graph(nodes, "attentional_step", [tensor("i", INT64, []), tensor("on", BOOL, []), tensor("h", FLOAT, ["batch", UNITS])],
                             [tensor("on_again", BOOL, []), tensor("new_h", FLOAT, ["batch", UNITS])])  # fmt: skip


def layered_body():
    """An RNN of NARROW units below one of UNITS, and a dense layer of what the upper one shows."""
    nodes = [
        node("MatMul", ["x", "low.kernel"], ["x_low"]), node("MatMul", ["low", "low.recurrent_kernel"], ["low_low"]),
        node("Add", ["x_low", "low_low"], ["low_sum"]), node("Tanh", ["low_sum"], ["new_low"]),
        node("MatMul", ["new_low", "high.kernel"], ["low_high"]), node("MatMul", ["high", "high.recurrent_kernel"], ["high_high"]),
        node("Add", ["low_high", "high_high"], ["high_sum"]), node("Relu", ["high_sum"], ["new_high"]),
        node("Gemm", ["new_high", "out.weight", "out.bias"], ["logit"]), node("Sigmoid", ["logit"], ["score"]),
    ]  # fmt: skip
    before = [tensor("low", FLOAT, ["batch", NARROW]), tensor("high", FLOAT, ["batch", UNITS]), tensor("x", FLOAT, ["batch", WIDTH])]
    after = [tensor("new_low", FLOAT, ["batch", NARROW]), tensor("new_high", FLOAT, ["batch", UNITS]), tensor("score", FLOAT, ["batch", 3])]
    return helper.make_graph(nodes, "layered_step", before, after)


def layered_loops():
    random = np.random.default_rng(1)
    cell = (WIDTH + UNITS, UNITS)
    floats = {"table": (ITEMS, WIDTH), "query.weight": (WIDTH, WIDTH), "update.kernel": cell, "reset.kernel": cell, "new.kernel": cell,
              "update.bias": (UNITS,), "reset.bias": (UNITS,), "new.bias": (UNITS,), "low.kernel": (WIDTH, NARROW),
              "low.recurrent_kernel": (NARROW, NARROW), "high.kernel": (NARROW, UNITS), "high.recurrent_kernel": (UNITS, UNITS),
              "out.weight": (UNITS, 3), "out.bias": (3,)}  # fmt: skip
    weights = [numpy_helper.from_array(random.normal(0, 0.3, shape).astype(np.float32), name) for name, shape in floats.items()]
    numbers = {"one": np.float32(1), "true": np.array(True), "units": np.array([UNITS]), "narrow": np.array([NARROW]), "first_axis": np.array([0]),
               "last_axis": np.array([2])}  # fmt: skip
    weights += [numpy_helper.from_array(number, name) for name, number in numbers.items()]
    nodes = [
        node("Gather", ["table", "history"], ["clicks"], "/embedding/Gather"), node("Transpose", ["clicks"], ["by_step"], "/steps", perm=[1, 0, 2]),
        node("Gather", ["table", "target"], ["item"], "/embedding/target"), node("MatMul", ["item", "query.weight"], ["query"], "/query"),
        node("Mul", ["by_step", "query"], ["products"], "/scores/Mul"),
        node("ReduceSum", ["products", "last_axis"], ["scores"], "/scores/Sum", keepdims=1), node("Softmax", ["scores"], ["attention"], "/softmax", axis=0),
        node("Shape", ["history"], ["rows_of_batch"], "/batch", start=0, end=1), node("Shape", ["history"], ["step_dim"], "/steps/Shape", start=1, end=2),
        node("Squeeze", ["step_dim", "first_axis"], ["steps"], "/steps/Squeeze"),
        node("Concat", ["rows_of_batch", "units"], ["state_shape"], "/zeros/Concat", axis=0), node("ConstantOfShape", ["state_shape"], ["zeros"], "/zeros"),
        node("Concat", ["rows_of_batch", "narrow"], ["low_shape"], "/low/Concat", axis=0), node("ConstantOfShape", ["low_shape"], ["low_zeros"], "/low"),
        node("Loop", ["steps", "true", "zeros"], ["interest"], "/attentional/Loop", body=attentional_body()),
        node("Scan", ["low_zeros", "interest", "by_step"], ["last_low", "last_high", "scores_of_steps"], "/layers/Scan", body=layered_body(),
             num_scan_inputs=1),
    ]  # fmt: skip
    graph = helper.make_graph(nodes, "layered_loops", [tensor("history", INT64, ["batch", "seq"]), tensor("target", INT64, ["batch"])],
                              [tensor("interest", FLOAT, ["batch", UNITS]), tensor("last_high", FLOAT, ["batch", UNITS]),
                               tensor("scores_of_steps", FLOAT, ["seq", "batch", 3])], weights)  # fmt: skip
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10), FOLDER / "layered_loops.onnx")


recurrent_loops()
layered_loops()
