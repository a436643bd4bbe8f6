#!/usr/bin/env python3
"""Checks the constants of generated kernels in the goldens and examples: each must be used for the tensor, axis and role that its comment
states. The comment determines the kind of a constant (KINDS), and the kind determines where it may be used:

    extent    a size of a tensor that the kernel reads, writes or makes has this value; an index check has the rows of its table
    place     in the subscript of, or behind a pointer to, the tensor or array that the comment names, and nowhere else
    entries   in the header of a loop, as the length of an array that has what is looked up for each, or as the divisor of a mean
"""

import re

from sources import ROOT, files, report

NAMED = r'"([^"]+)"'
# (kind, pattern of the comment); the first that fits counts
KINDS = [
    ("place", re.compile(rf'^elements per step of .* of {NAMED}')),
    ("place", re.compile(rf"^elements of {NAMED} per step of ")),
    ("place", re.compile(rf"^from one run of \d+ of {NAMED} to the next$")),
    ("place", re.compile(rf"^offset of the element that is read of {NAMED}$")),
    ("place", re.compile(r'^where "[^"]+" begins in "?([\w.]+?)"?$')),
    ("extent", re.compile(rf"^(?:last axis|rows|first axis) of {NAMED}")),
    ("entries", re.compile(rf"^(?:k\w+ )?entries (?:each, )?per element of {NAMED}$")),
]
CONSTANT = re.compile(r"^  constexpr (?:int|long long) (k\w+) =\s*(-?\d+);(?:\s*// (.*))?$")
WORD = re.compile(r"\bk[A-Z]\w*")
HEADER_TENSOR = re.compile(r"([\w.]+) \w+\[([^\]]*)\]")


def kernels(text):
    """The texts of the kernels in a file, each beginning with its header comment."""
    starts = [match.start() for match in re.finditer(r"^// kernel  : ", text, re.M)]
    return [text[start:end] for start, end in zip(starts, starts[1:] + [len(text)])]


def constants(kernel):
    """{name: (value, comment)} of a kernel's constants; long comments are above their constant."""
    found, above = {}, []
    for line in kernel.split("\n"):
        match = CONSTANT.match(line)
        if match:
            found[match[1]] = (int(match[2]), match[3] or " ".join(above))
        above = above + [line.strip()[3:]] if line.startswith("  // ") else []
    return found


def kind_of(comment):
    for kind, pattern in KINDS:
        match = pattern.search(comment)
        if match:
            return kind, match[1]
    return None, None


def code_of(kernel):
    """The statements of a kernel after its constants, one per line, without comments."""
    lines = [line.split("//")[0] for line in kernel.split("\n") if not line.startswith("//")]
    statements = [""]
    for line in lines:
        if re.match(r"^  (static )?constexpr ", line) or not line.strip():
            continue
        statements[-1] += " " + line.strip()
        if line.rstrip().endswith((";", "{", "}")):
            statements.append("")
    return statements


def pointers(statements, shapes):
    """{name: tensor} of everything a kernel addresses: tensors, arrays, and pointers into them."""
    found = {tensor: tensor for tensor in shapes}
    for statement in statements:
        for match in re.finditer(r"\* (?:__restrict__ )?(\w+) = (\w+)", statement):
            found[match[1]] = found.get(match[2], match[2])
        for match in re.finditer(r"__shared__ \w+ (\w+)\[", statement):
            found[match[1]] = match[1]
        for match in re.finditer(r"\{(\w+), k\w+, (?:k\w+|0)\}", statement):
            found[match[1]] = match[1]
    return found


def positions(statement, places):
    """(tensor, expression) of every place in memory in a statement: name[expression], name + expression, and what is handed to
    functions for arrays in shared memory: {name, pitch, places}, 0 places if there is one for all rows. Limits inside of min(...) and divisors are no part of it."""
    for match in re.finditer(r"([\w.]+)\[", statement):
        yield places.get(match[1], match[1]), plain(balanced(statement, match.end()))
    for match in re.finditer(r"(?<![\w.])(\w+) \+ ", statement):
        if match[1] in places:
            yield places[match[1]], plain(balanced(statement, match.end()))
    for match in re.finditer(r"\{(\w+), (k\w+, (?:k\w+|0))\}", statement):
        yield match[1], match[2]


def plain(expression):
    return re.sub(r"[/%] k\w+|min\(k\w+ - 1, \w+\)", "", expression)


def balanced(text, start):
    """The text from `start` on, up to the bracket that closes what is open there, or to a comma."""
    depth = 0
    for at in range(start, len(text)):
        depth += (text[at] in "([") - (text[at] in ")]")
        if depth < 0 or (depth == 0 and text[at] in ",;?:"):
            return text[start:at]
    return text[start:]


def is_called(place, tensor):
    """Whether the memory place `place` belongs to `tensor`, or to an array or a pointer that is named after it."""
    tensor = tensor.replace(".", "_")
    return place == tensor or place.startswith(tensor + "_") or place.startswith("tables") and tensor == "table"


def check(kernel):
    names = constants(kernel)
    shapes = {match[1]: match[2] for match in HEADER_TENSOR.finditer(kernel[: kernel.find('extern "C"')])}
    statements = code_of(kernel)
    places = pointers(statements, shapes)
    for name, (value, comment) in names.items():
        kind, tensor = kind_of(comment)
        if not comment:
            yield f"{name} has no comment"
        users = [statement for statement in statements if re.search(rf"\b{name}\b", statement)]
        if kind == "extent" and tensor in shapes:
            dims = shapes[tensor].split(", ")
            wanted = dims[-1] if comment.startswith("last") else dims[0]
            if wanted != str(value):
                yield f'{name} is {value}, but the {comment} has {wanted} elements'
        if kind in ("extent", "place"):
            for statement in users:
                for place, expression in positions(statement, places):
                    if re.search(rf"\b{name}\b", expression) and not is_called(place, tensor):
                        inner = [p for p, e in positions(expression, places) if is_called(p, tensor)]
                        if not inner and f', as which "{place}" is read' not in comment:
                            yield f"{name} ({comment}) is in a position of {place}: {statement.strip()}"
        if kind == "place":
            for statement in users:
                if not any(re.search(rf"\b{name}\b", e) for _, e in positions(statement, places)) and (
                    not re.search(r"\b(Checked|Noted)Index\(", statement)  # the position that an error reports
                ):
                    yield f"{name} ({comment}) is in no position: {statement.strip()}"
        if kind == "entries":
            for statement in users:
                is_array = re.search(rf"^\s*[^=]+ \w+s(?:_\d+)?\[{name}\];$", statement)
                if not is_array and f"){name}" not in statement and f" < {name}" not in statement:
                    yield f"{name} ({comment}) is in no header of a loop: {statement.strip()}"
    for statement in statements:
        for check_of in re.finditer(r"(?:Checked|Noted)Index\(\w+, (k\w+),", statement):
            _, comment = names.get(check_of[1], (0, ""))
            if kind_of(comment)[0] != "extent" and not comment.startswith("extent of axis"):
                yield f"{check_of[1]} ({comment}) is the extent of an index check: {statement.strip()}"
        bound = re.search(r"if \(threadIdx\.x (?:/ kWarpSize )?< (?:rows_here \* )?(k\w+)\)", statement)
        if bound and kind_of(names.get(bound[1], (0, ""))[1])[0] in ("place", "entries"):
            yield f"{bound[1]} ({names[bound[1]][1]}) is the count of a guard: {statement.strip()}"


def main():
    checked, problems = 0, []
    for name in files(".cu"):
        if not name.startswith(("tests/codegen/", "examples/fusion/")):
            continue
        checked += 1
        for kernel in kernels((ROOT / name).read_text()):
            problems += [f"{name}: {problem}" for problem in check(kernel)]
    report(checked, problems)


main()
