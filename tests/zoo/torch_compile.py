#!/usr/bin/env python3
"""Runs the models of libraries/ with torch.compile(backend="fusec") on the CPU at both sizes, compares them with PyTorch, and writes one
line for each:

    fused     fusec ran all of its graphs, and the answers are PyTorch's
    partly    PyTorch ran some of them; the FallbackWarnings say why
    torch     PyTorch itself fails, torch.compile does without fusec, too, or the model gives other answers each time
    ties      fusec ran all, and the answers are PyTorch's where torch.topk takes the first of equal numbers, as ONNX's TopK does
    WRONG     another answer, or an exception

    .deps/zoo/bin/python tests/zoo/torch_compile.py [--only PATTERN] [--library NAME]... [--table FILE.tsv]

The wheel of fusec is installed in that environment (.setup/wheel.sh). Exits with 1 if one is wrong.
"""

import argparse
import collections
import contextlib
import importlib
import os
import pathlib
import re
import sys
import warnings
from unittest import mock

os.environ.setdefault("OMP_NUM_THREADS", "1")
HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import torch  # noqa: E402
from export import prepared  # noqa: E402
from isolated import Failed, isolated  # noqa: E402

LIBRARIES = sorted(file.stem for file in (HERE / "libraries").glob("*.py"))
SECONDS = 600
ROUNDING = {"rtol": 1e-3, "atol": 1e-4}  # rounding of f32 through some layers; a wrong op differs by far more


def run(model):
    """(verdict, reason)"""
    import fusec

    called = prepared(model)
    cases = [model.data(sizes, seed=i + 2) for i, sizes in enumerate(model.sizes)]
    with torch.no_grad():
        try:
            expected = [called(*data) for data in cases]
        except Exception as failure:  # its own limits at another size
            return "torch", f"{type(failure).__name__}: {failure}"
        if any(differ(called(*data), wanted) for data, wanted in zip(cases, expected)):
            return "torch", "it draws numbers"
        compiled = torch.compile(called, backend="fusec")
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                answers = [compiled(*data) for data in cases]
            except Exception as failure:
                if fails_without_fusec(called, cases):
                    return "torch", f"torch.compile: {type(failure).__name__}: {failure}"
                raise
    reasons = [str(warning.message) for warning in caught if issubclass(warning.category, fusec.FallbackWarning)]
    wrong = [why for why in map(differ, answers, expected) if why]
    if wrong:
        with torch.no_grad(), first_of_equals():
            expected = [called(*data) for data in cases]
        if any(map(differ, answers, expected)):
            return "WRONG", wrong[0]
        return "ties", ""
    return ("partly", " | ".join(reasons)) if reasons else ("fused", "")


def fails_without_fusec(called, cases):
    torch._dynamo.reset()
    compiled = torch.compile(called, backend="eager")
    try:
        for data in cases:
            compiled(*data)
    except Exception:
        return True
    return False


def differ(answer, wanted):
    """How, or ""."""
    try:
        torch.testing.assert_close(answer, wanted, equal_nan=True, **ROUNDING)
    except AssertionError as failure:
        return str(failure)
    return ""


@contextlib.contextmanager
def first_of_equals():
    """While this is active, torch.topk chooses the first of equal numbers, which PyTorch leaves open."""

    def topk(x, k, dim=-1, largest=True, sorted=True):
        values, places = torch.sort(x, dim=dim, descending=largest, stable=True)
        return torch.return_types.topk((values.narrow(dim, 0, k), places.narrow(dim, 0, k)))

    with mock.patch.object(torch, "topk", topk), mock.patch.object(torch.Tensor, "topk", topk):
        yield


def run_library(name, pattern):
    """The rows of a library, made in a process of its own, with a fork of it for each model."""
    for model in importlib.import_module(f"libraries.{name}").models():
        if not re.search(pattern, f"{name}/{model.name}"):
            continue
        try:
            verdict, reason = isolated(run, model, seconds=SECONDS)
        except Failed as failure:
            verdict, reason = "WRONG", str(failure)
        yield name.removesuffix("_models"), model.name, verdict, " ".join(reason.split())[:300]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", metavar="PATTERN", help="models whose LIBRARY/MODEL matches this regular expression")
    parser.add_argument("--library", action="append", choices=LIBRARIES, help="only this one (may be given again)")
    parser.add_argument("--table", type=pathlib.Path, help="also write the rows to this file")
    arguments = parser.parse_args()
    rows = []
    for library in arguments.library or LIBRARIES:
        for row in run_library(library, arguments.only):
            rows.append(row)
            print("\t".join(row), flush=True)
    if arguments.table:
        arguments.table.write_text("".join("\t".join(row) + "\n" for row in rows))
    counts = collections.Counter(verdict for _, _, verdict, _ in rows)
    print(", ".join(f"{count} {verdict}" for verdict, count in counts.most_common()))
    sys.exit(counts["WRONG"] > 0)


main()
