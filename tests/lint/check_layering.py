#!/usr/bin/env python3
"""Checks which folders include which. The table is the design; a violation is a mistake in the table or in the source."""

import re

from sources import files, lines, report

# Headers in the runtime's sources that the compiler may include: the runtime defines the format of artifacts, and the compiler asks the
# code that will run an artifact what it does on this machine. The other headers of runtime/src are private to the runtime.
OF_RUNTIME = {
    "arena.h": "explain tells how many bytes the arena of a run has",
    "artifact/artifact.h": "explain reads an artifact for other machines, which no program can load",
    "artifact/hash.h": "the hash of files, constants and measured kernels",
    "artifact/launch_text.h": "how an edited kernel wants to be launched, in the words that the loader compares",
    "artifact/manifest.h": "the manifest as the loader reads it, where the compiler writes or explains it",
    "artifact/mapped_file.h": "weights of an artifact are mapped, not read",
    "artifact/safetensors.h": "where a constant lies in an artifact's weights",
    "artifact/step_sizes.h": "whether a step runs for some dims, and its sizes then",
    "artifact/table.h": "what the kernels that update rows are called in an artifact",
    "bench.h": "device times of contexts and steps, for bench and tune",
    "context.h": "runs with tensors of the compiler; the C++ face has neither its errors nor its types",
    "cuda/cublaslt_proposals.h": "the algorithms of cuBLASLt that tune measures",
    "cuda/cuda_pieces.h": "the GPU to compile for, and which of NVIDIA's libraries are here",
    "cuda/kernel_cache.h": "the cache of compiled text and of measured times",
    "cuda/nvrtc.h": "the wrapper of NVRTC that the runtime has for unknown GPUs",
    "program.h": "an artifact loaded on a device, with its manifest",
}


def of_runtime(*headers):
    assert all(header in OF_RUNTIME for header in headers)
    return ["runtime/src/" + header for header in headers]


# folder -> what it may include besides itself and the standard library. Folders and permissions are matched by the longest prefix of a
# path. Every permission must be used (except support, index and ir, on which everything is built). From the bottom up:
#   support    knows no graph
#   index      symbolic integers: the dims of ir are made of them
#   ir         graph, and the op table: what ops are (op_def.h), not how they work
#   ops        one op's import, inference, reference, lowering side by side, through the three contexts
#   region     facts of a fused region, for passes and planners
#   kernel     the kernel language; knows no class of region
#   passes     never plan, emit, CUDA or protobuf
#   driver     artifact <- build <- {shard, tune} <- explain <- {report, verify <- edit <- refit} <- cli: explain shows what tune measured,
# report draws what explain
#              knows, verify shows the page of a kernel
#   runtime    stands alone, as it is what users link: status <- artifact <- what its executors share <- {cpu, cuda} <- the rest of src.
#              cpu and cuda do not know each other, and only cuda sees NVIDIA's headers
GROUND = ["compiler/support/", "compiler/index/", "compiler/ir/"]
BUILD = ["compiler/driver/artifact/", "compiler/driver/build/"]
EXECUTORS = ["runtime/src/status.h", "runtime/src/artifact/", "runtime/src/executor.h", "runtime/src/gate.h",
             "runtime/src/index_error.h", "runtime/src/parallel.h", "runtime/src/part_links.h", "runtime/src/row_update.h"]
ALLOWED = {
    "codegen_templates/": [],
    "runtime/include/": [],
    "runtime/src/status": ["fusec/"],
    "runtime/src/artifact/": [
        "fusec/", "runtime/src/status.h",
        "codegen_templates/host/", "codegen_templates/device/stored_row.cuh",  # rows are stored on the CPU by the text that stores them on a GPU
    ],
    "runtime/src/row_update": ["fusec/", "runtime/src/status.h", "runtime/src/artifact/"],
    "runtime/src/executor": ["runtime/src/status.h", "runtime/src/artifact/adapters.h", "runtime/src/row_update.h"],
    "runtime/src/index_error": ["runtime/src/status.h", "runtime/src/artifact/"],
    "runtime/src/parallel": ["runtime/src/status.h"],
    "runtime/src/part_links": ["runtime/src/status.h", "runtime/src/executor.h"],
    "runtime/src/cpu/": EXECUTORS,
    "runtime/src/cuda/": EXECUTORS + ["fusec/", "cuda.h", "nvrtc.h"],
    "runtime/src/": ["fusec/"],
    "runtime/python/": ["fusec/"],  # the C ABI is all that it has of the runtime
    "compiler/support/": ["codegen_templates/"],  # whose names are words of kernels
    "compiler/index/": ["compiler/support/"],
    "compiler/ir/": ["compiler/support/", "compiler/index/"],
    "compiler/ops/": GROUND + ["compiler/import/import_context.h", "compiler/reference/"],
    "compiler/reference/": GROUND,
    "compiler/import/": GROUND + [
        "onnx/", "google/protobuf/",
        "compiler/reference/",  # which computes constants
        "compiler/ops/formula.h", "compiler/ops/places.h",  # write what run-time counts need
    ],
    "compiler/region/": GROUND,
    "passes/": GROUND + ["compiler/region/", "compiler/reference/"],
    "compiler/kernel/": GROUND + ["compiler/region/"],
    "compiler/plan/": GROUND + ["compiler/region/", "compiler/kernel/"],
    "compiler/emit/": GROUND + ["compiler/kernel/", "compiler/plan/program_plan.h", "codegen_templates/"],
    "compiler/package/": GROUND + [
        "compiler/region/", "compiler/plan/",
        "passes/adapter_site.h",  # AdapterSite, which the manifest lists
        "passes/not_fused.h",  # NotFused, which the manifest lists
        "passes/specialization.h",  # Specialization, likewise
        "passes/per_request.h",  # RequestSplit, likewise
        "passes/float8_product.h",  # Float8Product, likewise
        "passes/stored_rows.h",  # StoredTable, likewise
    ] + of_runtime("artifact/hash.h", "artifact/manifest.h"),
    "compiler/driver/artifact/": GROUND + [
        "compiler/import/tensor_file.h",  # tensors in files, as ONNX keeps them
        "compiler/plan/matmul/weight_panels.h",  # how constants lie in an artifact
        "passes/check_fused.h",  # what the graph in an artifact must be
    ] + of_runtime("artifact/hash.h", "artifact/mapped_file.h", "artifact/safetensors.h", "context.h", "program.h"),
    "compiler/driver/build/": GROUND + [
        "compiler/import/", "compiler/region/", "passes/", "compiler/plan/", "compiler/emit/", "compiler/package/",
        "compiler/driver/artifact/",
    ] + of_runtime("artifact/table.h", "cuda/cuda_pieces.h", "cuda/kernel_cache.h", "cuda/nvrtc.h"),
    "compiler/driver/tune/": GROUND + BUILD + [
        "compiler/reference/compare.h",  # kernels that are measured must agree
        "compiler/region/", "compiler/plan/", "compiler/package/", "fusec/",
    ] + of_runtime("artifact/hash.h", "bench.h", "cuda/cublaslt_proposals.h", "cuda/cuda_pieces.h", "cuda/kernel_cache.h"),
    "compiler/driver/explain/": GROUND + [
        "compiler/driver/artifact/", "compiler/driver/tune/",
        "compiler/package/adapter_sites.h", "compiler/package/placed_tables.h", "compiler/package/stored_tables.h",  # which the manifest lists
        "compiler/package/float8_products.h",  # likewise
        "compiler/package/requests.h", "compiler/package/specializations.h", "passes/specialization.h",  # likewise
        "compiler/plan/matmul/weight_panels.h",  # what tensors in panels are called
        "compiler/region/product.h",  # which constants a product's weights are packed in
    ] + of_runtime(
        "arena.h", "artifact/artifact.h", "artifact/hash.h", "artifact/manifest.h", "artifact/step_sizes.h", "cuda/kernel_cache.h",
        "cuda/nvrtc.h"),
    "compiler/driver/report/": GROUND + [
        "compiler/driver/artifact/", "compiler/driver/explain/",
        "compiler/kernel/model_names.h",  # FriendlyName: what locals of kernels are called
    ],
    "compiler/driver/verify/": GROUND + BUILD + [
        "compiler/reference/",
        "compiler/driver/explain/kernel_page.h",  # shows the region that is wrong
        "compiler/package/float8_products.h",  # which the manifest lists
        "compiler/package/weights_file.h",  # the temporary folder
        "passes/adapter_site.h", "passes/request_rows.h",  # which inputs the model itself has, and with how many rows
    ] + of_runtime("artifact/step_sizes.h", "cuda/cuda_pieces.h"),
    "compiler/driver/edit/": GROUND + BUILD + [
        "compiler/driver/tune/artifact_source.h",  # the graphs of an artifact, to write its kernels again
        "compiler/driver/verify/",  # the check of a kernel alone
        "compiler/emit/emit_launches.h",  # of an edited kernel
        "compiler/package/",
    ] + of_runtime(
        "artifact/launch_text.h", "artifact/manifest.h", "artifact/step_sizes.h", "bench.h", "cuda/cuda_pieces.h", "cuda/nvrtc.h"),
    "compiler/driver/shard/": GROUND + BUILD + [
        "compiler/reference/",  # the ids of a profile
        "compiler/package/", "passes/",
    ],
    "compiler/driver/refit/": GROUND + BUILD + [
        "compiler/plan/matmul/weight_panels.h",  # what tensors in panels are called
        "compiler/driver/shard/",  # the parts of a sharded artifact
        "compiler/driver/tune/",  # the choices that the artifact was built with
        "compiler/driver/edit/editable_artifact.h",  # its files as they were compiled and as they are
        "compiler/package/", "compiler/plan/kernel_name.h",
    ] + of_runtime("artifact/safetensors.h"),
    "compiler/driver/cli/": GROUND + [
        "compiler/driver/", "passes/", "fusec/",
        "compiler/import/op_versions.h",  # which opsets --list-ops names
    ] + of_runtime("artifact/step_sizes.h", "bench.h", "cuda/cuda_pieces.h"),
    "tests/": ["compiler/", "passes/", "runtime/", "fusec/", "codegen_templates/"],
    "tests/fuzz/libfuzzer/onnx": ["compiler/", "tests/", "onnx/", "google/protobuf/"],  # changes messages of models
}
# Includes that belong to somebody; what is not listed here (the standard library, fmt, ...) is free.
OWNED = re.compile(r"^(compiler/|passes/|runtime/|fusec/|codegen_templates/|tests/|onnx/|google/protobuf/|cuda|nvrtc)")
INCLUDE = re.compile(r'^\s*#\s*include\s+[<"]([^>"]+)[>"]')


def room_of(path):
    return max((room for room in ALLOWED if path.startswith(room)), key=len, default=None)


def main():
    problems = []
    checked = files(".cc", ".h", ".hpp")
    unused = {(room, permission) for room, allowed in ALLOWED.items() for permission in allowed if permission not in GROUND}
    for name in checked:
        room = room_of(name)
        if room is None:
            continue
        for number, line in enumerate(lines(name), 1):
            found = INCLUDE.match(line)
            if not found or not OWNED.match(found.group(1)):
                continue
            included = found.group(1)
            unused -= {(room, permission) for permission in ALLOWED[room] if included.startswith(permission)}
            own = included.startswith(room) or (room == "runtime/include/" and included.startswith("fusec/"))
            if not own and not any(included.startswith(allowed) for allowed in ALLOWED[room]):
                problems.append(f"{name}:{number}: {room} may not include {included}")
    problems += [f"{room} may include {permission}, but nothing there does" for room, permission in sorted(unused)]
    report(len(checked), problems)


main()
