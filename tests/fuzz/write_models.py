#!/usr/bin/env python3
"""Writes random ONNX models to FOLDER/NUMBER.onnx, for uses other than the judges of run.py.

usage: write_models.py [--seed S] [--first N] [--models N] FOLDER
"""

import argparse
import pathlib

import onnx
from random_model import Model


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--models", type=int, default=100)
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    for number in range(arguments.first, arguments.first + arguments.models):
        model = Model(arguments.seed, number).proto
        try:
            onnx.checker.check_model(model, full_check=True)
        except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError):
            continue  # as run.py leaves it out
        onnx.save(model, arguments.folder / f"{number}.onnx")


if __name__ == "__main__":
    main()
