#!/usr/bin/env python3
"""Who may include whom. The table is the design; a line of source that breaks it is a mistake in one of the two."""

import re

from sources import files, lines, report

# room -> what it may include besides itself and the standard library. A room is the longest matching beginning of a path; so is a
# permission. From the ground up:
#   support    knows no graph
#   index      symbolic integers: the dims of ir are made of them
#   ir         graph, and the op table: what ops are (op_def.h), not how they work
#   ops        one op's import, inference, reference, lowering side by side, through the three contexts
#   region     facts of a fused region, for passes and planners
#   kernel     the kernel language; knows no class of region
#   passes     never plan, emit, CUDA or protobuf
#   runtime    stands alone, as it is what users link; its folders are rooms, too: cpu and cuda do not know each other
GROUND = ["compiler/support/", "compiler/index/", "compiler/ir/"]
ALLOWED = {
    "codegen_templates/": [],
    "runtime/": ["cuda", "nvrtc.h"],
    "compiler/support/": ["codegen_templates/"],  # whose names are words of kernels
    "compiler/index/": ["compiler/support/"],
    "compiler/ir/": ["compiler/support/", "compiler/index/"],
    "compiler/ops/": GROUND + ["compiler/import/import_context.h", "compiler/reference/"],
    "compiler/reference/": GROUND,
    "compiler/import/": GROUND + ["onnx/", "google/protobuf/"],
    "compiler/region/": GROUND,
    "passes/": GROUND + ["compiler/region/", "compiler/reference/"],
    "compiler/kernel/": GROUND + ["compiler/region/"],
    "compiler/plan/": GROUND + ["compiler/region/", "compiler/kernel/"],
    "compiler/emit/": GROUND + ["compiler/kernel/", "compiler/plan/program_plan.h", "codegen_templates/"],
    "compiler/package/": GROUND + [
        "compiler/region/", "compiler/kernel/", "compiler/plan/",
        "passes/not_fused.h",  # NotFused, which the manifest lists
        "runtime/src/artifact/hash.h",  # the artifact format is the runtime's
        "runtime/src/artifact/manifest.h",
    ],
    "compiler/driver/": ["compiler/", "passes/", "runtime/", "fusec/"],
    "tests/": ["compiler/", "passes/", "runtime/", "fusec/", "codegen_templates/", "cuda", "onnx/"],
}
# Includes that belong to somebody; what is not listed here (the standard library, fmt, ...) is free.
OWNED = re.compile(r"^(compiler/|passes/|runtime/|fusec/|codegen_templates/|tests/|onnx/|google/protobuf/|cuda|nvrtc)")
INCLUDE = re.compile(r'^\s*#\s*include\s+[<"]([^>"]+)[>"]')


def room_of(path):
    return max((room for room in ALLOWED if path.startswith(room)), key=len, default=None)


def main():
    problems = []
    checked = files(".cc", ".h", ".hpp")
    for name in checked:
        room = room_of(name)
        if room is None:
            continue
        for number, line in enumerate(lines(name), 1):
            found = INCLUDE.match(line)
            if not found or not OWNED.match(found.group(1)):
                continue
            included = found.group(1)
            own = included.startswith(room) or (room == "runtime/" and included.startswith("fusec/"))
            if not own and not any(included.startswith(allowed) for allowed in ALLOWED[room]):
                problems.append(f"{name}:{number}: {room} may not include {included}")
    report(len(checked), problems)


main()
