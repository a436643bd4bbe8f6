"""A model of embedding bags, for the benchmarks of tables."""


def write_model(path, tables, rows, dim, ids, one_input=False):
    """Sums `ids` rows of each table, emb.0.weight and so on, for every row of the batch, and concatenates the sums.

    Inputs: ids_0, ids_1, ... [batch, ids], or with one_input all of them as ids [batch, tables, ids].
    """
    import numpy as np
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    random = np.random.default_rng(0)
    initializers = [numpy_helper.from_array(np.array([1], np.int64), "axes")]
    nodes = []
    for t in range(tables):
        table = random.standard_normal((rows, dim), dtype=np.float32) * np.float32(0.1)
        initializers.append(numpy_helper.from_array(table, f"emb.{t}.weight"))
        if one_input:
            initializers.append(numpy_helper.from_array(np.array(t, np.int64), f"number_{t}"))
            nodes.append(helper.make_node("Gather", ["ids", f"number_{t}"], [f"ids_{t}"], axis=1))
        nodes.append(helper.make_node("Gather", [f"emb.{t}.weight", f"ids_{t}"], [f"rows_{t}"], name=f"/emb/{t}/Gather"))
        nodes.append(helper.make_node("ReduceSum", [f"rows_{t}", "axes"], [f"bag_{t}"], keepdims=0))
    nodes.append(helper.make_node("Concat", [f"bag_{t}" for t in range(tables)], ["features"], axis=1))
    shapes = {"ids": ["batch", tables, ids]} if one_input else {f"ids_{t}": ["batch", ids] for t in range(tables)}
    graph = helper.make_graph(
        nodes,
        "bags",
        [helper.make_tensor_value_info(name, TensorProto.INT64, shape) for name, shape in shapes.items()],
        [helper.make_tensor_value_info("features", TensorProto.FLOAT, ["batch", tables * dim])],
        initializers,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    onnx.save(model, str(path), save_as_external_data=True, all_tensors_to_one_file=True, location=path.stem + ".data")
