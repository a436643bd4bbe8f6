#!/usr/bin/env python3
"""Proves with Z3 that the graphs before and after passes have the same values over the reals.

usage: prove_passes.py [--program pass_graphs] [--random FIRST:COUNT] [--only WORDS] [--seconds S]
       prove_passes.py --wrong      the graphs of wrong/, which are not equal

The graphs are those of all cases of tests/passes; with --random, random graphs before and after the pipeline. Shapes are small: the first
symbol is 2, the next one 3. Floats of inputs are arbitrary reals, and bools are arbitrary; integers, which are used as indices, are 0 or 1
at random. Constants are the numbers of the text; each infinity and NaN is an arbitrary number, and so are weights whose data are missing.
Nothing is rounded, so that values that a pass rounds differently by design are still equal. Divisors are assumed not to be 0. Graphs that
cannot be expressed in this way, or that Z3 does not decide in time, are counted by reason. Exit code 1: a pair has a counterexample, or a
wrong one has none.
"""

import argparse
import collections
import fractions
import json
import math
import pathlib
import random
import subprocess
import sys

import z3

import ir_text
import real_numbers
import real_ops
from real_numbers import Unstated
from real_ops import REALS, Tensor

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent.parent
MOST_ELEMENTS = 20_000  # size limit of a tensor
MOST_TRIES = 8  # tries of random integers, until all indices are in range
MOST_SHOWN = 6  # values of a counterexample that are printed


class Assignment:
    """Sizes of symbols, values of inputs and elements of constants, the same for both graphs."""

    def __init__(self, graph, payloads, seed):
        self.payloads = payloads
        self.random, self.greatest = random.Random(seed), int(seed + 1 < MOST_TRIES)  # the last try is 0 alone
        self.sizes = {name: min(max(low, 2 + i), high) for i, (name, (low, high)) in enumerate(graph.symbols.items())}
        self.inputs = {name: self.input(name, type_) for name, type_ in graph.inputs}

    def dims(self, shape):
        return tuple(self.dim(dim) for dim in shape)

    def dim(self, tokens):
        words = " ".join(str(self.sizes.get(token, token)) for token in tokens)
        return eval(words, {"floordiv": lambda a, b: a // b, "mod": lambda a, b: a % b, "min": min, "max": max})

    def input(self, name, type_):
        dims = self.dims(type_.shape)
        if math.prod(dims) > MOST_ELEMENTS:
            raise Unstated("too many elements")
        if type_.dtype in REALS:
            return real_ops.build(dims, lambda index: z3.Real(f"{name}{list(index)}"))
        if type_.dtype == "bool":
            return real_ops.build(dims, lambda index: z3.Bool(f"{name}{list(index)}"))
        return real_ops.build(dims, lambda index: self.random.randint(0, self.greatest))

    def constant(self, node, dims):
        dtype = node.types[0].dtype
        elements = self.payloads.get(node.payload) if node.elements is None else node.elements
        if elements is not None:
            return Tensor(dims, [number(text, dtype) for text in elements])
        if dtype not in REALS:
            raise Unstated("a constant has no elements")
        return real_ops.build(dims, lambda index: z3.Real(f"weights {node.payload}{list(index)}"))


def number(text, dtype):
    """An element of a constant; NaN and infinities become variables."""
    if dtype == "bool":
        return text == "true"
    if dtype not in REALS:
        return int(text)
    if "inf" in text or "nan" in text:
        return -z3.Real(text[1:]) if text.startswith("-") else z3.Real(text)
    for value, term in real_numbers.IRRATIONAL.items():
        if math.isclose(float(text), value, rel_tol=1e-7):
            return term
    return fractions.Fraction(text)


def evaluate(graph, values, assignment):
    """The outputs of a graph whose inputs have these values."""
    for node in graph.nodes:
        shapes = [assignment.dims(type_.shape) for type_ in node.types]
        if math.prod(shapes[0]) > MOST_ELEMENTS:
            raise Unstated("too many elements")
        operands = [None if name is None else values[name] for name in node.operands]
        results = compute(with_dims(node, assignment), shapes, operands, assignment)
        for name, shape, result in zip(node.results, shapes, results):
            if result.dims != shape or len(result.items) != math.prod(shape):
                raise ValueError(f"{node.op} makes {result.dims}, not {shape}")
            values[name] = Tensor(shape, list(map(real_numbers.tidy, result.items)))
    return [values[name] for name in graph.outputs]


def with_dims(node, assignment):
    """The node with the dims in its attributes replaced by numbers."""

    def numbers(value):
        return list(assignment.dims(value)) if isinstance(value, list) and any(isinstance(dim, list) for dim in value) else value

    return node._replace(attributes={name: numbers(value) for name, value in node.attributes.items()})


def compute(node, shapes, operands, assignment):
    if node.op == "constant":
        return [assignment.constant(node, shapes[0])]
    if node.op == "region":
        return evaluate(node.body, dict(zip([name for name, _ in node.body.inputs], operands)), assignment)
    if node.op in real_ops.POINTWISE:
        return [real_ops.pointwise(node, shapes[0], *operands)]
    if node.op not in real_ops.OTHERS:
        return real_ops.any_op(node, shapes, operands)
    result = real_ops.OTHERS[node.op](node, shapes[0], *operands)
    return [result] if isinstance(result, Tensor) else result


def difference(a, b, seconds):
    """None if the elements are equal; else a counterexample, or 'undecided'."""
    if not real_numbers.is_term(a) and not real_numbers.is_term(b):
        return None if a == b else f"{float(a)} and {float(b)}"
    if isinstance(a, (bool, z3.BoolRef)):
        a, b = real_numbers.boolean(a), real_numbers.boolean(b)
    else:
        a, b = real_numbers.real(a), real_numbers.real(b)
        if real_numbers.normal(a - b).eq(real_numbers.real(0)):
            return None
    if a.eq(b):
        return None
    solver = z3.Solver()
    solver.set("timeout", int(1000 * seconds))
    solver.add(a != b, *real_numbers.FACTS, *[divisor != 0 for divisor in divisors(a, b)])
    answer = solver.check()
    if answer != z3.sat:
        return None if answer == z3.unsat else "undecided"
    model = solver.model()
    shown = sorted(f"{name} = {model[name]}" for name in model.decls() if name.arity() == 0 and "sqrt(" not in str(name))
    return "other values where " + ", ".join(shown[:MOST_SHOWN])


def divisors(*terms):
    """The divisors in terms."""
    found, seen, left = {}, set(), list(terms)
    while left:
        term = left.pop()
        if term.get_id() in seen:
            continue
        seen.add(term.get_id())
        if z3.is_div(term):
            found[term.arg(1).get_id()] = term.arg(1)
        left += term.children()
    return found.values()


def both(before, after, payloads):
    """The outputs of both graphs."""
    if {name for name, _ in after.inputs} - {name for name, _ in before.inputs}:
        raise Unstated("inputs are added")
    for seed in range(MOST_TRIES):
        assignment = Assignment(before, payloads, seed)
        try:
            return [evaluate(graph, dict(assignment.inputs), assignment) for graph in (before, after)]
        except real_numbers.Outside:
            continue
    raise Unstated("places lie outside")


def decide(before, after, payloads, seconds):
    """'proved', or the difference between the graphs."""
    before, after = ir_text.read(before), ir_text.read(after)
    if before == after:
        return "nothing changes"
    real_numbers.roundings.clear()
    try:
        verdict = compare(before, *both(before, after, payloads), seconds)
    except Unstated as reason:
        return f"unstated: {reason}"
    if verdict.startswith("WRONG") and real_numbers.roundings:
        return f"unstated: {min(real_numbers.roundings)}"
    return verdict


def compare(before, expected, found, seconds):
    if len(expected) != len(found):
        return "WRONG: another number of outputs"
    for output, a, b in zip(before.outputs, expected, found):
        if a.dims != b.dims:
            return f"WRONG: {output} has dims {a.dims} before and {b.dims} after"
        for index, x, y in zip(real_ops.indices(a.dims), a.items, b.items):
            if values := difference(x, y, seconds):
                return values if values == "undecided" else f"WRONG: {output}{list(index)} has {values}"
    return "proved"


def pairs(arguments):
    """(name, before, after, payloads)."""
    if arguments.wrong:
        for path in sorted((HERE / "wrong").glob("*.ir")):
            yield path.name, *path.read_text().split("# ---- wrong ----\n"), {}
        return
    words = ["random", *arguments.random.split(":")] if arguments.random else ["cases"]
    lines = subprocess.run([arguments.program, *words], capture_output=True, text=True, check=True).stdout
    for line in lines.splitlines():
        pair = json.loads(line)
        yield pair["name"], pair["before"], pair["after"], pair["payloads"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", type=pathlib.Path, default=ROOT / "build/tests/fuzz/pass_graphs")
    parser.add_argument("--random", metavar="FIRST:COUNT", help="seeds of random graphs to prove")
    parser.add_argument("--only", default="", help="only pairs whose name contains this")
    parser.add_argument("--wrong", action="store_true")
    parser.add_argument("--seconds", type=float, default=5, help="time limit of Z3 for an element")
    parser.add_argument("--verbose", action="store_true", help="print the verdict of each pair")
    arguments = parser.parse_args()
    tally, failed = collections.Counter(), 0
    for name, before, after, payloads in pairs(arguments):
        if arguments.only not in name:
            continue
        verdict = decide(before, after, payloads, arguments.seconds)
        is_wrong = verdict.startswith("WRONG")
        failed += is_wrong != arguments.wrong
        if arguments.verbose or is_wrong != arguments.wrong:
            print(f"{name}: {verdict}", flush=True)
        tally["refuted" if is_wrong else verdict] += 1
    for verdict, count in sorted(tally.items()):
        print(f"{count:5} {verdict}")
    print(f"{tally['refuted' if arguments.wrong else 'proved']} passed, {failed} failed")
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
