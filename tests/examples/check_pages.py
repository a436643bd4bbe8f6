#!/usr/bin/env python3
"""Checks the pages (*.md): files that they name must exist, quoted code must be in the file that the page names, and the verbs and flags of
quoted commands must be known to `fusec -h` and `fusec VERB -h`.

usage: check_pages.py FUSEC [ROOT]
"""

import pathlib
import posixpath
import re
import subprocess
import sys

FUSEC = pathlib.Path(sys.argv[1]).resolve()
ROOT = pathlib.Path(sys.argv[2] if len(sys.argv) > 2 else pathlib.Path(__file__).parents[2]).resolve()
SERVE = ROOT / "runtime/python/fusec/serve/__main__.py"  # the command line of python -m fusec.serve

# Pages about a measurement refer to the files of that day.
DATED = re.compile(r"(^|/)results/")
# Pages whose quotes and commands are checked, in addition to those of examples/.
FRONT_PAGES = ("README.md", "compiler/README.md")
# Pages that name files of an artifact, which are not in the checkout.
ARTIFACT_PAGES = ("runtime/ARTIFACT.md",)
FILE_NAME = re.compile(r"[\w.+/-]+\.(?:h|hpp|cc|c|cu|cuh|py|md|sh|def|ir|svg|txt|json|cmake|env)")
CODE_FILE = re.compile(r"[\w./-]+\.(?:cuh?|cc|h|hpp|c)\b")


def tracked_files():
    command = ["git", "-C", str(ROOT), "ls-files", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, capture_output=True, text=True)
    if listed.returncode == 0:
        return sorted(name for name in listed.stdout.split("\n") if (ROOT / name).is_file())
    skipped = re.compile(r"(^|/)(\.deps|\.git|build[^/]*)/")  # a checkout without its history
    names = (path.relative_to(ROOT).as_posix() for path in ROOT.rglob("*") if path.is_file())
    return sorted(name for name in names if not skipped.search(name))


FILES = tracked_files()
FOLDERS = {parent.as_posix() for name in FILES for parent in pathlib.PurePosixPath(name).parents} - {"."}
TOP = {name.split("/")[0] for name in FILES if "/" in name}


class Page:
    """A page's code blocks as (line, lines, text before), and its code spans as (line, text)."""

    def __init__(self, name):
        self.name = name
        self.lines = (ROOT / name).read_text(encoding="utf-8").split("\n")
        self.blocks, self.spans = [], []
        text, block, fenced = [], None, False
        for number, line in enumerate(self.lines + [""], 1):
            if line.startswith("```"):
                fenced = not fenced
                block = (number, [], list(text)) if fenced else self._keep(block)
            elif fenced:
                block[1].append(line)
            elif line.startswith("    ") and (block or not text or text[-1] == ""):
                block = block or (number, [], list(text))
                block[1].append(line[4:])
            elif line == "" and block:
                block[1].append("")
            else:
                block = self._keep(block)
                text.append(line)
                self.spans += [(number, span) for span in re.findall(r"`([^`]+)`", line)]
        self._keep(block)

    def _keep(self, block):
        if block:
            while block[1] and block[1][-1] == "":
                block[1].pop()
            self.blocks.append(block)
        return None


def exists(page, name):
    """Whether `name` is a file or folder of the checkout: from its root, from the page, or as the end of some path."""
    name = name.rstrip("/")
    beside = posixpath.normpath(posixpath.join(posixpath.dirname(page.name), name))
    known = set(FILES) | FOLDERS
    if name in known or beside in known:
        return True
    if "*" in name:
        return any(pathlib.PurePosixPath(file).match(name) for file in known)
    return any(file.endswith("/" + name) for file in known)


def path_problems(page):
    for number, line in enumerate(page.lines, 1):
        for target in re.findall(r"\]\(([^)#\s]+)", line):
            if "://" not in target and not (ROOT / page.name).parent.joinpath(target).exists():
                yield f"{page.name}:{number}: links to {target}, which does not exist"
    words = [(number, word) for number, span in page.spans for word in span.split()]
    words += [(start + i, word) for start, lines, _ in page.blocks for i, line in enumerate(lines) for word in line.split()]
    for number, word in words:
        word = word.strip("\"'(),:;")
        top = word.split("/")[0]
        if "/" not in word or re.search(r"[<>${}=|]|\.\.\.|//", word) or top in ("build", ".deps"):
            continue
        is_file = FILE_NAME.fullmatch(word) and not re.match(r"[A-Z_]+/|/", word)
        is_kernel_of_page = page.name.startswith("examples/") or page.name in ARTIFACT_PAGES
        if top not in TOP and (not is_file or is_kernel_of_page):
            continue
        if not re.search(r"[A-Z]{3,}\b", word) and not exists(page, word):
            yield f"{page.name}:{number}: names {word}, which does not exist"


def squeezed(text):
    return " ".join(text.split())


def is_quote(lines):
    """Whether the block is quoted C or CUDA, rather than IR, shell commands or a program written for the page."""
    if any(re.match(r"\s*(%|graph @|\$ |#!|#include|build/|fusec )", line) for line in lines):
        return False
    return any(re.search(r"[;{]$", re.sub(r"\s*//.*", "", line).rstrip()) for line in lines)


def sources_of(page, texts):
    """The code files that the quote may be from: the last one that the text before names, or else all kernels of the examples."""
    for line in reversed(texts):
        for name in reversed(CODE_FILE.findall(line)):
            here = (pathlib.PurePosixPath(page.name).parent / name).as_posix()
            found = [file for file in FILES if file in (name, here) or file.endswith("/" + name)]
            if found:
                return found
    folder = pathlib.PurePosixPath(page.name).parent.as_posix() + "/"
    kernels = [file for file in FILES if file.startswith("examples/") and file.endswith(".cu")]
    return [file for file in kernels if file.startswith(folder)] or kernels


def missing_line(lines, file):
    """The first line of a quote that is not in `file` after the lines before it; lines of dots stand for omitted lines."""
    text = [squeezed(line) for line in (ROOT / file).read_text(encoding="utf-8").split("\n")]
    at = 0
    for line in map(squeezed, lines):
        if line in ("", "...", "// ..."):
            continue
        if line not in text[at:]:
            return line
        at = text.index(line, at) + 1
    return None


def quote_problems(page):
    for number, lines, before in page.blocks:
        if not is_quote(lines):
            continue
        files = sources_of(page, before)
        missing = [missing_line(lines, file) for file in files]
        if None not in missing:
            where = files[0] if len(files) == 1 else "any kernel of examples/"
            yield f"{page.name}:{number}: quotes '{missing[0]}', which is not in {where}"
    if not page.name.startswith("examples/"):
        return
    folder = pathlib.PurePosixPath(page.name).parent.as_posix() + "/"
    kernels = [(ROOT / file).read_text() for file in FILES if file.startswith(folder) and file.endswith(".cu")]
    for number, span in page.spans:  # a statement is a quote of the folder's kernels
        if span.endswith(";") and kernels and not any(squeezed(span) in squeezed(text) for text in kernels):
            yield f"{page.name}:{number}: quotes '{span}', which is in no kernel of {folder}"


def help_of(*verb):
    return subprocess.run([str(FUSEC), *verb, "-h"], capture_output=True, text=True, check=True).stdout


def commands_of(page):
    """The (line, words) of everything after `fusec` in code."""
    code = list(page.spans)
    code += [(start + i, line) for start, lines, _ in page.blocks for i, line in enumerate(lines)]
    for number, text in code:
        for command in re.split(r"&&|\|\||[|;#]", text):
            found = re.match(r"\s*(?:[^\s=]*/)?fusec\s+(\S.*)", command)
            if found:
                yield number, re.split(r"\s{3,}", found.group(1))[0].split()


def command_problems(page, verbs):
    helps = {verb: help_of(verb) for verb in verbs}
    flags_of = {verb: set(re.findall(r"(?<![\w-])--?[a-z][\w-]*", text)) for verb, text in helps.items()}
    flags_of["compile"] |= set(re.findall(r"(?<![\w-])--[a-z][\w-]*", help_of())) | {"-h"}
    for number, words in commands_of(page):
        verb = words[0] if words[0] in verbs else "compile"
        if re.fullmatch(r"[a-z]+", words[0]) and words[0] not in verbs:
            yield f"{page.name}:{number}: says fusec {words[0]}, which is no verb of fusec -h"
        for word in words:
            flag = word.split("=")[0].rstrip(",).")
            if re.fullmatch(r"--?[a-z][\w-]*", flag) and flag not in flags_of[verb]:
                yield f"{page.name}:{number}: says {flag}, which fusec {verb} -h does not know"
    every_flag = set().union(*flags_of.values()) | set(re.findall(r'"(--[a-z][\w-]*)"', SERVE.read_text()))
    for number, span in page.spans:
        flag = re.match(r"--[a-z][\w-]*", span)
        if flag and flag.group() not in every_flag:
            yield f"{page.name}:{number}: says {flag.group()}, which neither a verb of fusec nor fusec.serve knows"


def main():
    verbs = sorted(set(re.findall(r"^(?:usage:|   +) *fusec ([a-z]+) ", help_of(), re.MULTILINE)) | {"compile"})
    pages = [Page(name) for name in FILES if name.endswith(".md") and not DATED.search(name)]
    problems = []
    for page in pages:
        problems += path_problems(page)
        if page.name in FRONT_PAGES or page.name.startswith("examples/"):
            problems += quote_problems(page)
            problems += command_problems(page, verbs)
    for problem in problems:
        print(problem)
    print(f"{len(pages) - len({problem.split(':')[0] for problem in problems})} passed, {len(problems)} failed")
    sys.exit(1 if problems else 0)


main()
