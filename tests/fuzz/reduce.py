#!/usr/bin/env python3
"""Reduces a failing model: fewer outputs, fewer nodes, values as inputs instead of the nodes that made them, smaller inputs, no attributes.

usage: reduce.py FOLDER SMALL_FOLDER     FOLDER is one that run.py --keep wrote

The reduced model fails with the same judge in the same way. It is written to SMALL_FOLDER as model.onnx and as text (model.txt), with its
inputs and the verdict.
"""

import argparse
import pathlib
import shutil
import sys

import judging
import numpy
import onnx
import onnxruntime_answers
from onnx import helper, numpy_helper, shape_inference
from run import shape_of


# The judges, the cheapest first.
FLAGS = (("--interpreter",), (), ("--gpu-text",), ("--gpu-text", "--sm-90a"))
MOST_TRIES = 500


class Reducer:
    """Tries changes of a model, and keeps those with which it still fails."""

    def __init__(self, proto, sets, scratch):
        self.proto, self.sets, self.scratch = proto, sets, scratch
        self.tried = 0
        for flags in FLAGS:
            self.judge = judging.Judge(scratch, flags)
            self.wanted = self.failure(proto, sets)
            self.verdict = self.last
            if self.wanted:
                break
            self.judge.close()

    def failure(self, proto, sets):
        """The failure without names and numbers; "" if there is none."""
        self.tried += 1
        folder = self.scratch / f"try_{self.tried}"
        made = judging.in_a_copy(lambda: _write(folder, proto, sets))
        if made is None:
            return "crash of the other implementation"
        self.judge.start([folder])
        self.last = self.judge.verdicts().get(str(folder), {"verdict": "lost"})
        shutil.rmtree(folder, ignore_errors=True)
        return key_of(self.last)

    def try_(self, proto, sets=None):
        """Keeps the model if it is valid and fails in the same way as the original."""
        sets = self.sets if sets is None else sets
        if self.tried >= MOST_TRIES:
            return False
        try:
            onnx.checker.check_model(proto, full_check=True)
        except Exception:  # of the checker or of inference: not a model
            return False
        if self.failure(proto, sets) != self.wanted:
            return False
        self.proto, self.sets, self.verdict = proto, sets, self.last
        return True

    def run(self):
        while any([step(self) for step in (one_set, fewer_outputs, cut, inputs_for_values, without_attributes, smaller_dims)]):
            pass


def key_of(verdict):
    if verdict["verdict"] in ("right", "unsupported"):
        return ""
    reason = verdict.get("reason", "")
    if verdict["verdict"] == "wrong":
        kind = "misplaced" if "NaN or infinite" in reason else "type" if ", expected" in reason.split(";")[0] else "far"
        return f"wrong {verdict['judge']} {kind}"
    lines = [line for line in reason.split("\n") if "error" in line] or reason.split("\n")
    return f"{verdict['verdict']} {shape_of(lines[0])[-60:]}"


def _write(folder, proto, sets):
    found, other = onnxruntime_answers.answers(proto, sets)
    judging.write(folder, proto, sets, found, other)
    return True


def rebuilt(proto, nodes, outputs, more_inputs=()):
    """The model with only the nodes that the outputs need."""
    wanted, kept = {value.name for value in outputs}, []
    for node in reversed(nodes):
        if wanted & set(node.output):
            kept.append(node)
            wanted |= set(reads(node))
    graph = proto.graph
    inputs = [value for value in [*graph.input, *more_inputs] if value.name in wanted]
    made = helper.make_graph(kept[::-1], graph.name, inputs, outputs, [one for one in graph.initializer if one.name in wanted])
    result = helper.make_model(made, opset_imports=proto.opset_import, ir_version=proto.ir_version)
    used = {node.op_type for node in kept}
    result.functions.extend(function for function in proto.functions if function.name in used)
    return result


def reads(node):
    names = [name for name in node.input if name]
    for attribute in node.attribute:
        if attribute.HasField("g"):
            names += [name for inner in attribute.g.node for name in reads(inner)]
    return names


def one_set(self):
    return len(self.sets) > 1 and any(self.try_(self.proto, [tensors]) for tensors in self.sets)


def fewer_outputs(self):
    outputs = list(self.proto.graph.output)
    if len(outputs) < 2:
        return False
    nodes = list(self.proto.graph.node)
    candidates = [[one] for one in outputs] + [[one for one in outputs if one is not left] for left in outputs]
    return any(self.try_(rebuilt(self.proto, nodes, candidate)) for candidate in candidates)


def inferred(proto):
    """The types of values in the graph, by name."""
    whole = shape_inference.infer_shapes(proto, data_prop=True).graph
    return {value.name: value for value in [*whole.input, *whole.value_info, *whole.output]}


def cut(self):
    """Tries to make the result of a node the output, beginning with the first node."""
    types = inferred(self.proto)
    for node in list(self.proto.graph.node)[:-1]:
        ends = [types[name] for name in node.output if name in types]
        if ends and node.op_type != "Constant" and self.try_(rebuilt(self.proto, list(self.proto.graph.node), ends)):
            return True
    return False


def inputs_for_values(self):
    """Tries to replace the result of a node by an input with the other implementation's values, beginning with the last node."""
    types = inferred(self.proto)
    for node in reversed(list(self.proto.graph.node)):
        names = [name for name in node.output if name in types]
        if not names or {value.name for value in self.proto.graph.output} & set(names):
            continue
        values = values_of(self.proto, self.sets, [types[name] for name in names])
        if values is None:
            continue
        infos = [helper.make_tensor_value_info(tensor.name, tensor.data_type, shape(types[tensor.name])) for tensor in values[0]]
        nodes = [other for other in self.proto.graph.node if other is not node]
        sets = [[*tensors, *more] for tensors, more in zip(self.sets, values)]
        if self.try_(rebuilt(self.proto, nodes, list(self.proto.graph.output), infos), sets):
            return True
    return False


def shape(info):
    return [dim.dim_param or dim.dim_value for dim in info.type.tensor_type.shape.dim]


def values_of(proto, sets, infos):
    found, _ = onnxruntime_answers.answers(rebuilt(proto, list(proto.graph.node), infos), sets)
    return found


def without_attributes(self):
    for i, node in enumerate(self.proto.graph.node):
        for attribute in list(node.attribute):
            if attribute.HasField("g") or node.op_type == "Constant":
                continue
            candidate = onnx.ModelProto()
            candidate.CopyFrom(self.proto)
            kept = [one for one in node.attribute if one.name != attribute.name]
            del candidate.graph.node[i].attribute[:]
            candidate.graph.node[i].attribute.extend(kept)
            if self.try_(candidate):
                return True
    return False


def smaller_dims(self):
    """Tries to halve an axis of an input, or all axes with its symbol."""
    for value in self.proto.graph.input:
        for axis, dim in enumerate(value.type.tensor_type.shape.dim):
            if dim.dim_param or dim.dim_value > 1:
                proto, sets = halved(self.proto, self.sets, value.name, axis, dim.dim_param)
                if total_size(sets) < total_size(self.sets) and self.try_(proto, sets):
                    return True
    return False


def total_size(sets):
    return sum(numpy.prod(tensor.dims, dtype=int) for tensors in sets for tensor in tensors)


def halved(proto, sets, name, axis, symbol):
    candidate = onnx.ModelProto()
    candidate.CopyFrom(proto)
    places = {(value.name, i) for value in candidate.graph.input for i, dim in enumerate(value.type.tensor_type.shape.dim) if symbol and dim.dim_param == symbol}
    places = places or {(name, axis)}
    for value in candidate.graph.input:
        for i, dim in enumerate(value.type.tensor_type.shape.dim):
            if (value.name, i) in places and not symbol:
                dim.dim_value = (dim.dim_value + 1) // 2
    if not symbol:
        del candidate.graph.value_info[:]
        for value in candidate.graph.output:
            value.type.tensor_type.ClearField("shape")
        candidate = shape_inference.infer_shapes(candidate)
    changed = []
    for tensors in sets:
        row = []
        for tensor in tensors:
            array = numpy_helper.to_array(tensor)
            for place, i in places:
                if place == tensor.name:
                    array = array.take(range((array.shape[i] + 1) // 2), axis=i)
            row.append(numpy_helper.from_array(numpy.ascontiguousarray(array).reshape(array.shape), tensor.name))
        changed.append(row)
    return candidate, changed


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("small", type=pathlib.Path)
    arguments = parser.parse_args()
    proto = onnx.load(arguments.folder / "model.onnx")
    sets = []
    for folder in sorted(arguments.folder.glob("set_*")):
        paths = sorted(folder.glob("input_*.pb"), key=lambda path: int(path.stem.split("_")[1]))
        sets.append([onnx.load_tensor(str(path)) for path in paths])
    with judging.scratch() as folder:
        reducer = Reducer(proto, sets, pathlib.Path(folder))
        if not reducer.wanted:
            sys.exit("it does not fail")
        reducer.run()
        reducer.judge.close()
    save(reducer, arguments.small)


def save(reducer, folder):
    shutil.rmtree(folder, ignore_errors=True)
    found, other = onnxruntime_answers.answers(reducer.proto, reducer.sets)
    judging.write(folder, reducer.proto, reducer.sets, found, other)
    text = onnx.printer.to_text(reducer.proto)
    (folder / "model.txt").write_text(f"{text}\n{reducer.verdict.get('reason', '')}\n")
    print(f"{len(reducer.proto.graph.node)} nodes, {reducer.tried} tries, {folder}: {reducer.wanted}")


if __name__ == "__main__":
    main()
