"""Exports one model of TensorFlow with tf2onnx, and draws inputs for judging it."""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ["CUDA_VISIBLE_DEVICES"] = ""

import keras  # noqa: E402
import numpy  # noqa: E402
import onnx  # noqa: E402
import tensorflow  # noqa: E402
import tf2onnx  # noqa: E402

EXPORTERS = ("tf2onnx",)
OPSET = 17  # of what tf2onnx is called for directly; Keras 3 chooses its own


def export(model, exporter, folder):
    """Writes model.onnx, and for each of the model's sizes inputs.N.npz, with the names of the inputs that are left in the graph, and
    outputs.N.npz with TensorFlow's answers, in the order of the graph's outputs."""
    made = prepared(model)
    path = str(folder / "model.onnx")
    signature = [tensorflow.TensorSpec(one.signature, one.dtype, one.name) for one in model.inputs]
    if not isinstance(made, keras.Model):
        tf2onnx.convert.from_function(tensorflow.function(made), input_signature=signature, opset=OPSET, output_path=path)
    elif keras.__version__.startswith("2."):
        tf2onnx.convert.from_keras(made, input_signature=signature, opset=OPSET, output_path=path)
    elif getattr(made, "inputs", None):
        made.export(path, format="onnx", verbose=False)
    else:  # a model with a method `call` of its own
        made.export(path, format="onnx", verbose=False, input_signature=[signature])
    inputs = onnx.load(path).graph.input
    for i, sizes in enumerate(model.sizes):
        data = model.data(sizes, seed=i + 2)
        numpy.savez(folder / f"inputs.{i}.npz", **{one.name: data[one.name] if one.name in data else any_value(one) for one in inputs})
        if all(one.name in data for one in inputs):
            answers = tensorflow.nest.flatten(call(made, [tensorflow.constant(value) for value in data.values()]))
            numpy.savez(folder / f"outputs.{i}.npz", *[numpy.asarray(answer) for answer in answers])


def any_value(one):
    """A value for an input that the model does not have: tf2onnx makes inputs of constants that a Keras layer holds beside its weights,
    such as the mean of layers.Normalization."""
    type_ = one.type.tensor_type
    shape = [dim.dim_value or 1 for dim in type_.shape.dim]
    return numpy.random.default_rng(5).uniform(0.5, 1.5, shape).astype(onnx.helper.tensor_dtype_to_np_dtype(type_.elem_type))


def prepared(model):
    """The model after one call, with the same random weights in every process."""
    tensorflow.keras.utils.set_random_seed(7)
    made = model.make()
    call(made, [tensorflow.constant(value) for value in model.data(model.sizes[0], seed=1).values()])
    spread(made)
    return made


def call(made, data):
    if not isinstance(made, keras.Model):
        return made(*data)
    return made(data if len(data) > 1 else data[0])


def warm_up(folder):
    """Does nothing: a fork of a process that already ran an op of TensorFlow would wait forever for its threads."""


def spread(made):
    """Makes weights random that a library initializes at or near zero, since they would make every answer right."""
    random = numpy.random.default_rng(7)
    for weight in getattr(made, "trainable_variables", ()):
        value = numpy.array(weight)
        if value.size < 2 or value.std() < 0.02:
            weight.assign((value + random.standard_normal(value.shape) * 0.1).astype(value.dtype))
    for weight in getattr(made, "non_trainable_variables", ()):
        if "moving_mean" in weight.name:
            weight.assign(numpy.array(weight) + random.standard_normal(weight.shape).astype("float32") * 0.1)
