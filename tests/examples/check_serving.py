#!/usr/bin/env python3
"""Builds examples/serve_c and examples/serve_cpp as their pages say, runs them, and compares their scores with those of `fusec run`.

usage: check_serving.py FUSEC RUNTIME_FOLDER ROOT CUDA_HOME
"""

import os
import pathlib
import subprocess
import sys
import tempfile

import numpy as np

passed, failed = 0, 0


def run(*command, environment=None):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, env={**os.environ, **(environment or {})})
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(map(str, command))} ended with {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def check(name, body):
    global passed, failed
    try:
        body()
        passed += 1
    except Exception as error:  # whatever it is, it is the result
        failed += 1
        print(f"FAIL  {name}: {error}")


def expected_scores(fusec, artifact, folder, batch):
    """What the examples feed, through `fusec run`."""
    row, column = np.ogrid[:batch, :13]
    np.save(folder / "dense.npy", ((row + column) % 5 / 4).astype(np.float32))
    row, column = np.ogrid[:batch, :26]
    np.save(folder / "ids.npy", ((row + column) % 3).astype(np.int64))
    run(fusec, "run", artifact, "--device", "cpu", "--input", f"in0={folder}/dense.npy", "--input", f"in1={folder}/ids.npy",
        "--output", folder)
    return np.load(folder / "out0.npy").ravel()


def scores_in(text):
    return np.array([float(line.split()[1]) for line in text.splitlines() if line.startswith("score ")])


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
    print(f"{passed} passed, {failed} failed")
    return failed != 0


sys.exit(main())
