"""The program `fusec` that the package brings along."""

from __future__ import annotations

import os
import pathlib
import sys

PROGRAM = str(pathlib.Path(__file__).parent / "bin" / "fusec")


def main() -> None:
    """The command `fusec` of the environment: becomes the program."""
    os.execv(PROGRAM, ["fusec", *sys.argv[1:]])
