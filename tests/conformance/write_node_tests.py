#!/usr/bin/env python3
"""Writes ONNX's node tests, which the onnx package computes from Python: a model of one node each, with inputs and outputs.

    python3 tests/conformance/write_node_tests.py FOLDER

FOLDER/NAME/model.onnx and FOLDER/NAME/test_data_set_I/{input,output}_J.pb are as in ONNX's own repository.
"""

import pathlib
import sys
import warnings

from onnx import numpy_helper
from onnx.backend.test.loader import load_node_model_tests


def serialized(value, of):
    """A value of a graph as bytes; `of` is the graph's input or output."""
    if hasattr(value, "SerializeToString"):
        return value.SerializeToString()
    kind = of.type.WhichOneof("value")
    to_proto = {
        "map_type": numpy_helper.from_dict,
        "sequence_type": numpy_helper.from_list,
        "optional_type": numpy_helper.from_optional,
    }.get(kind, numpy_helper.from_array)
    return to_proto(value, of.name).SerializeToString()


def main():
    folder = pathlib.Path(sys.argv[1])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of NumPy: overflows and divisions by zero are tested on purpose
        cases = load_node_model_tests()
    for case in cases:
        graph = case.model.graph
        for number, (inputs, outputs) in enumerate(case.data_sets):
            data = folder / case.name / f"test_data_set_{number}"
            data.mkdir(parents=True, exist_ok=True)
            for name, values, of in (("input", inputs, graph.input), ("output", outputs, graph.output)):
                for place, value in enumerate(values):
                    (data / f"{name}_{place}.pb").write_bytes(serialized(value, of[place]))
        (folder / case.name / "model.onnx").write_bytes(case.model.SerializeToString())
    print(f"{len(cases)} node tests")


if __name__ == "__main__":
    main()
