#!/usr/bin/env python3
"""Reduces a model to the smallest one it finds that fusec rejects for the same reason, or that crashes it in the same way.

    .deps/zoo/bin/python tests/zoo/reduce.py MODEL.onnx SMALL.onnx [--fusec PROGRAM] [-- FLAGS OF FUSEC]

Nodes after the failing one are removed, and results of nodes before it become inputs, one after the other. Values that depend only on
constants and shapes stay as they are, since as inputs they would cause another failure. Large weights become inputs.
"""

import argparse
import pathlib
import re
import subprocess
import sys
import tempfile

import onnx
from onnx import helper, numpy_helper, shape_inference

ROOT = pathlib.Path(__file__).resolve().parents[2]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("small")
    parser.add_argument("--fusec", type=pathlib.Path, default=ROOT / "build/fusec")
    parser.add_argument("flags", nargs="*", default=["--target", "sm_90a"])
    arguments = parser.parse_args()
    judge = Judge(arguments.fusec, arguments.flags)
    model = clean(shape_inference.infer_shapes(onnx.load(arguments.model), data_prop=True))
    wanted = judge.reason(model)
    if not wanted:
        sys.exit("it compiles")
    data = values_of_data(model)

    def fails(candidate):
        invented = {one.name for one in candidate.graph.input} - data
        return not invented and judge.reason(candidate) == wanted

    for step in (cut_behind, cut_in_front, lambda model, fails: bypass_each(model, fails, data), cut_in_front):
        model = step(model, fails)
    model = free_constants(model, lambda candidate: judge.reason(candidate) == wanted)
    onnx.save(model, arguments.small)
    print(f"{len(model.graph.node)} nodes, {pathlib.Path(arguments.small).stat().st_size} bytes: {wanted}")


class Judge:
    def __init__(self, program, flags):
        self.program, self.flags = str(program), flags
        self.folder = tempfile.TemporaryDirectory()

    def reason(self, model):
        """The message of fusec without names and numbers; empty if the model compiles."""
        path = pathlib.Path(self.folder.name) / "model.onnx"
        try:
            onnx.save(model, path)
            run = subprocess.run([self.program, str(path), "-o", str(path.parent / "out"), *self.flags], capture_output=True, text=True, errors="replace", timeout=120)
        except (subprocess.TimeoutExpired, ValueError):
            return "timeout"
        if run.returncode == 0:
            return ""
        lines = [line for line in run.stderr.split("\n") if line.strip() and "fusec: warning:" not in line] or [""]
        return f"{run.returncode} {shape_of(lines[0])}"


def shape_of(words):
    """The message without the parts that differ from model to model."""
    words = re.sub(r"^.*?\.onnx: ", "", words.removeprefix("fusec: "))
    words = re.sub(r'"[^"]*"', '"x"', words)
    words = re.sub(r"\[[^\]]*\]", "[..]", words)
    return re.sub(r"\d+", "N", words)


def clean(model):
    for node in model.graph.node:
        del node.metadata_props[:]
        node.doc_string = ""
    del model.metadata_props[:]
    return model


def with_nodes(model, nodes, outputs=None):
    """The model of these nodes: values that none of them makes are inputs or initializers, and values that none of them reads are
    outputs."""
    graph = model.graph
    made = {name for node in nodes for name in node.output if name}
    read = {name for node in nodes for name in reads(node)}
    types = {value.name: value for value in [*graph.input, *graph.output, *graph.value_info]}
    held = {one.name: one for one in graph.initializer}
    inputs = [types[name] for name in sorted(read - made) if name not in held and name in types]
    if any(name not in types for name in read - made if name not in held):
        return None
    ends = [name for node in nodes for name in node.output if name and name not in read] if outputs is None else outputs
    values = [types[name] if name in types else onnx.ValueInfoProto(name=name) for name in ends]
    small = helper.make_graph(nodes, "reduced", inputs, values, [held[name] for name in sorted(read) if name in held and name not in made])
    small.value_info.extend(types[name] for name in sorted(made) if name in types and name not in ends)
    result = helper.make_model(small, opset_imports=model.opset_import, ir_version=model.ir_version)
    result.functions.extend(model.functions)
    return result


def reads(node):
    names = [name for name in node.input if name]
    for attribute in node.attribute:
        if attribute.HasField("g"):
            inner = {name for one in attribute.g.node for name in one.output}
            names += [name for one in attribute.g.node for name in reads(one) if name not in inner]
            names += [one.name for one in attribute.g.output if one.name not in inner]
    return names


def ancestors(nodes, last):
    """The nodes that `last` depends on, and itself, in order."""
    wanted, kept = set(reads(last)), [last]
    for node in reversed(nodes[: nodes.index(last)]):
        if wanted & set(node.output):
            kept.append(node)
            wanted |= set(reads(node))
    return kept[::-1]


def cut_behind(model, fails):
    nodes = list(model.graph.node)
    for last in nodes:
        candidate = with_nodes(model, ancestors(nodes, last), [name for name in last.output if name])
        if candidate and fails(candidate):
            return candidate
    return model


def cut_in_front(model, fails):
    changed = True
    while changed:
        changed = False
        nodes = list(model.graph.node)
        for cut in reversed(nodes[:-1]):
            left = ancestors([node for node in nodes if node is not cut], nodes[-1])
            candidate = with_nodes(model, left, [value.name for value in model.graph.output])
            if candidate and fails(candidate):
                model, changed = candidate, True
                break
    return model


def bypass_each(model, fails, data):
    """The model without the nodes that the failure does not need, each of which is replaced by its operand."""
    changed = True
    while changed:
        changed = False
        for node in model.graph.node:
            alike = reads(node) and len(node.output) == 1 and (reads(node)[0] in data) == (node.output[0] in data)
            bypassed = bypass(model, node) if alike else None
            if bypassed and fails(bypassed):
                model, changed = bypassed, True
                break
    return model


def values_of_data(model):
    """Values that depend on the contents of the inputs, rather than only on shapes and constants."""
    data = {one.name for one in model.graph.input}
    for node in model.graph.node:
        if node.op_type not in ("Shape", "Size") and data & set(reads(node)):
            data |= set(node.output)
    return data


def bypass(model, node):
    """The model in which the readers of the node read its first input instead."""
    names = reads(node)
    if not names or len(node.output) != 1 or node.output[0] in {value.name for value in model.graph.output}:
        return None
    nodes = []
    for other in model.graph.node:
        if other is node:
            continue
        copy = onnx.NodeProto()
        copy.CopyFrom(other)
        for i, name in enumerate(copy.input):
            if name == node.output[0]:
                copy.input[i] = names[0]
        nodes.append(copy)
    return with_nodes(model, ancestors(nodes, nodes[-1]), [value.name for value in model.graph.output])


def free_constants(model, fails):
    for held in list(model.graph.initializer):
        if held.data_type != onnx.TensorProto.FLOAT or numpy_helper.to_array(held).size < 256:
            continue
        candidate = onnx.ModelProto()
        candidate.CopyFrom(model)
        kept = [one for one in candidate.graph.initializer if one.name != held.name]
        del candidate.graph.initializer[:]
        candidate.graph.initializer.extend(kept)
        candidate.graph.input.append(helper.make_tensor_value_info(held.name, held.data_type, held.dims))
        if fails(candidate):
            model = candidate
    return model


if __name__ == "__main__":
    main()
