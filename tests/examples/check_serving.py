#!/usr/bin/env python3
"""Builds examples/serve_c and examples/serve_cpp as their pages say, runs them, and compares their scores with those of `fusec run`.

usage: check_serving.py FUSEC RUNTIME_FOLDER ROOT CUDA_HOME
"""

import pathlib
import sys
import tempfile

import numpy as np
from serving import check, expected_scores, report, run, scores_in


def main():
    fusec, runtime, root, cuda_home = (pathlib.Path(argument) for argument in sys.argv[1:])
    environment = {"LD_LIBRARY_PATH": str(runtime)}
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        artifact = folder / "dlrm_fused"
        run(fusec, root / "models/dlrm_dot.ts.onnx", "-o", artifact, "--target", "cpu")
        include, library = f"-I{root}/runtime/include", ("-L" + str(runtime), "-lfusec_rt")

        def serve_c():
            run("cc", "-std=c99", "-pedantic", "-Wall", "-Wextra", "-Werror", include, root / "examples/serve_c/serve.c",
                "-o", folder / "serve", *library)
            text = run(folder / "serve", artifact, "cpu", environment=environment)
            for line in ("symbol batch 0..65536", "input in0 f32[batch, 13]", "input in1 i64[batch, 26]", "output out0 f32[batch, 1]"):
                assert line in text.splitlines(), f"{line} is not in\n{text}"
            np.testing.assert_allclose(scores_in(text), expected_scores(fusec, artifact, folder, 4), atol=2e-6)

        def header_alone():  # fusec.h in strict C99 and in C++
            for language in (["cc", "-std=c99", "-x", "c"], ["g++", "-std=c++20", "-x", "c++"]):
                run(*language, "-pedantic", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", root / "runtime/include/fusec/fusec.h")

        flags = ("-std=c++20", "-O1", "-pedantic", "-Wall", "-Wextra", "-Werror", include)

        def serve_cpp():
            source = root / "examples/serve_cpp/server.cc"
            lines = len(source.read_text().splitlines())
            assert lines <= 60, f"{source} has {lines} lines, expected at most 60"
            run("g++", *flags, source, "-o", folder / "server", *library, "-pthread")
            text = run(folder / "server", artifact, environment=environment)
            scores = scores_in(text)
            assert len(scores) == 4, text
            np.testing.assert_allclose(scores, expected_scores(fusec, artifact, folder, 64)[0], atol=2e-6)

        def serve_cpp_on_a_gpu():  # compiled only
            run("g++", *flags, "-DDEVICE_MEMORY", "-isystem", cuda_home / "include", "-c", root / "examples/serve_cpp/server.cc",
                "-o", folder / "server.o")

        for case in (header_alone, serve_c, serve_cpp):
            check(case.__name__, case)
        if (cuda_home / "include/cuda_runtime_api.h").exists():
            check("serve_cpp_on_a_gpu", serve_cpp_on_a_gpu)
    return report()


sys.exit(main())
