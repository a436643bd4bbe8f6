#!/usr/bin/env python3
"""Checks for words that must not be in the sources: paths of somebody's machine, and notes about unfinished work."""

import re

from sources import files, lines, report

WORDS = {
    r"(?<![\w.$}])/(work|home|Users)/": "a path of one machine",
    r"\bgit work" + "tree": "how the work was organised",
    r"\b(TO" + r"DO|FIX" + r"ME|XX" + r"X)\b": "work left for later",
}
ENDINGS = (".cc", ".h", ".hpp", ".cuh", ".def", ".py", ".sh", ".cmake", ".txt", ".md", ".ir", ".case", ".yml")


def main():
    problems = []
    checked = files(*ENDINGS)
    for name in checked:
        for number, line in enumerate(lines(name), 1):
            for pattern, why in WORDS.items():
                if re.search(pattern, line) and not name.startswith("tests/lint/"):
                    problems.append(f"{name}:{number}: {why}: {line.strip()[:80]}")
    report(len(checked), problems)


main()
