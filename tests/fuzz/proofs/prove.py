#!/usr/bin/env python3
"""Proves with Z3 what the index simplifier claims about random expressions, for all values of their symbols in their ranges.

usage: prove.py [--seed S] [--expressions N] [--program index_claims]

Numbers are integers of any size. Exit code 1: a claim has a counterexample, which is printed. Claims that Z3
does not decide in time are counted.
"""

import argparse
import collections
import json
import pathlib
import subprocess
import sys

import z3

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent.parent
MILLISECONDS = 10_000  # time limit for one claim
# floordiv and floormod round toward minus infinity; divisors of claims are positive.
PRELUDE = """
(define-fun floordiv ((a Int) (b Int)) Int (div a b))
(define-fun floormod ((a Int) (b Int)) Int (mod a b))
(define-fun least ((a Int) (b Int)) Int (ite (<= a b) a b))
(define-fun most ((a Int) (b Int)) Int (ite (>= a b) a b))
"""


def decide(claim):
    """'proved', 'undecided', or the counterexample."""
    symbols = "".join(f"(declare-const {name} Int)" for name in claim["symbols"])
    ranges = "".join(f"(assert {bound})" for bound in claim["ranges"])
    solver = z3.SolverFor("QF_NIA")
    solver.set("timeout", MILLISECONDS)
    solver.from_string(f"{PRELUDE}{symbols}{ranges}(assert (not {claim['smt']}))")
    answer = solver.check()
    if answer == z3.unsat:
        return "proved"
    if answer == z3.unknown:
        return "undecided"
    model = solver.model()
    return ", ".join(f"{symbol.name()} = {model[symbol]}" for symbol in model.decls() if symbol.arity() == 0)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--expressions", type=int, default=200)
    parser.add_argument("--program", type=pathlib.Path, default=ROOT / "build/tests/fuzz/index_claims")
    arguments = parser.parse_args()
    lines = subprocess.run([arguments.program, str(arguments.seed), str(arguments.expressions)], capture_output=True, text=True, check=True)
    tally = collections.Counter()
    for line in lines.stdout.splitlines():
        claim = json.loads(line)
        verdict = decide(claim)
        if verdict in ("proved", "undecided"):
            tally[f"{claim['claim']} {verdict}"] += 1
            continue
        tally["wrong"] += 1
        print(f"seed {claim['seed']}: {claim['claim']} does not hold at {verdict}: {claim['text']}\n  {claim['smt']}\n  {claim['ranges']}")
    for name, count in sorted(tally.items()):
        print(f"{count:7} {name}")
    proved = sum(count for name, count in tally.items() if name.endswith(" proved"))
    print(f"{proved} passed, {tally['wrong']} failed")
    sys.exit(bool(tally["wrong"]))


if __name__ == "__main__":
    main()
