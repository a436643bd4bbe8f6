"""The answers of onnxruntime to a model, or of ONNX's own reference where onnxruntime does not run it."""

import numpy
import onnxruntime
from onnx import TensorProto, numpy_helper
from onnx.reference import ReferenceEvaluator

onnxruntime.set_default_logger_severity(4)


def answers(proto, sets):
    """(TensorProtos of each set, "onnxruntime" or "reference"); or (None, why neither runs it)."""
    try:
        return _by_onnxruntime(proto, sets), "onnxruntime"
    except Exception as failure:  # onnxruntime raises classes of its own
        why = str(failure)
    try:
        return _by_reference(proto, sets), "reference"
    except Exception as failure:  # the reference raises anything
        return None, f"onnxruntime: {why[:300]}; reference: {str(failure)[:100]}"


def _by_onnxruntime(proto, sets):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    results = []
    for tensors in sets:
        feeds = {tensor.name: _ort_value(tensor) for tensor in tensors}
        values = session.run_with_ort_values(names, feeds)
        results.append([_tensor(value, name) for value, name in zip(values, names)])
    return results


def _ort_value(tensor):
    array = numpy_helper.to_array(tensor)
    if tensor.data_type == TensorProto.BFLOAT16:
        return onnxruntime.OrtValue.ortvalue_from_numpy_with_onnx_type(array.view(numpy.uint16), TensorProto.BFLOAT16)
    return onnxruntime.OrtValue.ortvalue_from_numpy(array)


def _tensor(value, name):
    array = value.numpy()
    if value.element_type() == TensorProto.BFLOAT16:
        tensor = TensorProto(name=name, data_type=TensorProto.BFLOAT16, dims=array.shape)
        tensor.raw_data = array.tobytes()
        return tensor
    return numpy_helper.from_array(array, name)


def _by_reference(proto, sets):
    evaluator = ReferenceEvaluator(proto)
    results = []
    for tensors in sets:
        with numpy.errstate(all="ignore"):
            values = evaluator.run(None, {tensor.name: numpy_helper.to_array(tensor) for tensor in tensors})
        names = [output.name for output in proto.graph.output]
        results.append([numpy_helper.from_array(numpy.asarray(value), name) for value, name in zip(values, names)])
    return results
