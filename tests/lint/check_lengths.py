#!/usr/bin/env python3
"""Checks the lengths of lines, functions and files."""

import re

from sources import files, lines, report

CODE_COLUMNS = 100
WIDE_COLUMNS = 140  # of comments, and of tests, where IR text and tables of values want their rows
FILE_LINES = 500
FUNCTION_LINES = 80

# path -> why it is longer
EXCEPTIONS = {
    "tests/unit/ir/text_test.cc": "has IR text with everything in one line",
}

# (path, function) -> why it is longer
LONG_FUNCTIONS = {
    ("compiler/plan/part_run.cc", "FindPartRun"): "three steps that share most of their locals",
}

COMMENT = re.compile(r"^\s*(//|\*|/\*)|//[^\"]*$")
# A definition begins in column 0 (or 2, in a class) and opens its body at the end of that line or a later one.
FUNCTION_END = re.compile(r"^( {0,2})\}$")
NOT_A_FUNCTION = re.compile(r"^\s*(namespace|struct|class|enum|union|extern|#)\b|=\s*\{$|^\s*\}|^\s*(public|private):")


def function_lengths(text):
    """(first line, length) of everything that looks like a function with its body."""
    start = None
    for number, line in enumerate(text, 1):
        indent = len(line) - len(line.lstrip())
        if start is None:
            if line.endswith("{") and indent in (0, 2) and "(" in line and not NOT_A_FUNCTION.match(line):
                start = (number, indent)
        elif FUNCTION_END.match(line) and indent == start[1]:
            yield start[0], number - start[0] + 1
            start = None


def main():
    problems = []
    checked = files(".cc", ".h", ".hpp", ".cuh")
    for name in checked:
        if name in EXCEPTIONS:
            continue
        text = lines(name)
        if len(text) > FILE_LINES:
            problems.append(f"{name}: has {len(text)} lines, expected at most {FILE_LINES}")
        for number, line in enumerate(text, 1):
            limit = WIDE_COLUMNS if name.startswith("tests/") or COMMENT.search(line) else CODE_COLUMNS
            if len(line) > limit:
                problems.append(f"{name}:{number}: has {len(line)} columns, expected at most {limit}")
        for number, length in function_lengths(text):
            excused = any(name == path and function in text[number - 1] for path, function in LONG_FUNCTIONS)
            if length > FUNCTION_LINES and not excused:
                problems.append(f"{name}:{number}: a function of {length} lines, expected at most {FUNCTION_LINES}")
    report(len(checked), problems)


main()
