#!/usr/bin/env python3
"""Runs the console blocks of examples/edit/README.md in an empty folder and compares the output of the commands with the page, except for
numbers. Blocks of "console gpu" have no output on the page; they are run as well, and must not report an internal error.

usage: check_lesson.py FUSEC ROOT [--update]        --update writes what was printed into the page
"""

import os
import pathlib
import re
import subprocess
import sys
import tempfile

FUSEC, ROOT = (pathlib.Path(argument).resolve() for argument in sys.argv[1:3])
PAGE = ROOT / "examples/edit/README.md"
BLOCK = re.compile(r"^```(console(?: gpu)?)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
GOOD_OR_FOUND = (0, 1, 6)


def run(command, folder):
    """The output of a command: stdout, then stderr."""
    environment = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"}
    done = subprocess.run(["bash", "-c", command], cwd=folder, capture_output=True, text=True, env=environment)
    if done.returncode not in GOOD_OR_FOUND:
        raise RuntimeError(f"{command} ended with {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout + done.stderr


def likeness(text):
    """The text to compare, with each number replaced by a placeholder."""
    text = re.sub(r"x86-64-v\d|native", "LEVEL", text)
    text = re.sub(r"-?\b(nan|inf)\b", "0", text)
    text = re.sub(r"\d+( elements? (is|are))?( NaN or infinite)?( in only one of the two)?", lambda m: "N" if not m[1] else "", text)
    text = re.sub(r"N(\.N)?(e[+-]?N)?", "N", text)
    return re.sub(r"[ ~^]+", " ", text).strip()


def main():
    update = "--update" in sys.argv[3:]
    text = PAGE.read_text(encoding="utf-8")
    problems = 0
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "build").mkdir()
        (folder / "build/fusec").symlink_to(FUSEC)
        (folder / "examples").symlink_to(ROOT / "examples")

        def check(block):
            nonlocal problems
            printed = []
            for line in block[2].splitlines():
                if line.startswith("$ "):
                    printed += [line, *run(line[2:], folder).rstrip("\n").splitlines()]
            if block[1].endswith("gpu"):
                return block[0]
            found = "\n".join(line.rstrip() for line in printed) + "\n"
            if not update and likeness(found) != likeness(block[2]):
                problems += 1
                print(f"FAIL  the page says\n{block[2]}\nbut this is\n{found}")
            return f"```{block[1]}\n{found}```"

        written = BLOCK.sub(check, text)
    if update:
        PAGE.write_text(written, encoding="utf-8")
    count = len(BLOCK.findall(text))
    print(f"{count - problems} passed, {problems} failed")
    sys.exit(1 if problems else 0)


main()
