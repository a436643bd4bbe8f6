#!/usr/bin/env python3
"""Installs the build into a folder, moves that folder, and builds the serving examples against it: by find_package and by pkg-config.

usage: check_install.py BUILD_FOLDER CMAKE ROOT
"""

import pathlib
import re
import sys
import tempfile

import numpy as np
from serving import check, expected_scores, report, run, scores_in

BUILD, CMAKE, ROOT = (pathlib.Path(argument).absolute() for argument in sys.argv[1:])
# Flags for building C and C++ as users do; warnings in the headers are errors.
STRICT = ("-pedantic", "-Wall", "-Wextra", "-Werror")


def install(folder):
    """Installs the build, moves the folder, and returns the new prefix, which is not the one of the installation."""
    run(CMAKE, "--install", BUILD, "--prefix", folder / "installed")
    return (folder / "installed").rename(folder / "moved")


def check_paths(prefix, installed):
    """Checks that no file contains a path of the build machine. The program's libonnx may, if an older set-up built it."""
    ours = re.compile(rb"|".join(re.escape(bytes(path)) + rb"/(?!\.deps/onnx)" for path in (ROOT, BUILD, installed)))
    for path in prefix.rglob("*"):
        found = ours.search(path.read_bytes()) if path.is_file() else None
        assert not found, f"{path.relative_to(prefix)} has the path {found.group().decode()}"


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        prefix = install(folder)
        fusec, artifact = prefix / "bin/fusec", folder / "dlrm_fused"
        run(fusec, ROOT / "models/dlrm_dot.ts.onnx", "-o", artifact, "--target", "cpu")
        pkg_config = {"PKG_CONFIG_PATH": f"{prefix}/lib/pkgconfig"}
        library_path = {"LD_LIBRARY_PATH": f"{prefix}/lib"}

        def pages_of(example):
            return ROOT / "examples" / example

        def build_by_cmake(example):
            run(CMAKE, "-S", pages_of(example), "-B", folder / example, f"-Dfusec_ROOT={prefix}")
            run(CMAKE, "--build", folder / example)

        def build_by_pkg_config(program, *compiler):
            flags = run("pkg-config", "--cflags", "--libs", "fusec", environment=pkg_config).split()
            run(*compiler, *STRICT, "-o", folder / program, *flags)

        def expect_scores(text, count, batch):
            wanted = expected_scores(fusec, artifact, folder, batch)
            scores = scores_in(text)
            assert len(scores) == count, text
            np.testing.assert_allclose(scores, wanted if count == batch else wanted[0], atol=2e-6)

        def no_path_of_the_build():
            check_paths(prefix, folder / "installed")

        def folders():  # the Python package is a component that is installed only on request
            names = sorted(path.name for path in prefix.iterdir())
            assert names == ["bin", "include", "lib", "share"], names

        def one_version():
            release = run("pkg-config", "--modversion", "fusec", environment=pkg_config).strip()
            header = (prefix / "include/fusec/fusec.h").read_text()
            assert f'#define FUSEC_VERSION "{release}"' in header, release
            assert release in run(fusec, "--version"), release
            names = sorted(path.name for path in (prefix / "lib").glob("libfusec_rt.so*"))
            assert names == ["libfusec_rt.so", "libfusec_rt.so.1", f"libfusec_rt.so.1.{release}"], names

        def serve_c_by_cmake():
            build_by_cmake("serve_c")
            expect_scores(run(folder / "serve_c/serve", artifact, "cpu"), 4, 4)

        def serve_cpp_by_cmake():
            build_by_cmake("serve_cpp")
            expect_scores(run(folder / "serve_cpp/server", artifact), 4, 64)

        def serve_c_by_pkg_config():
            build_by_pkg_config("serve", "cc", "-std=c99", pages_of("serve_c") / "serve.c")
            expect_scores(run(folder / "serve", artifact, "cpu", environment=library_path), 4, 4)

        def serve_cpp_by_pkg_config():
            build_by_pkg_config("server", "g++", "-std=c++20", "-pthread", pages_of("serve_cpp") / "server.cc")
            expect_scores(run(folder / "server", artifact, environment=library_path), 4, 64)

        for case in (folders, no_path_of_the_build, one_version, serve_c_by_cmake, serve_cpp_by_cmake,
                     serve_c_by_pkg_config, serve_cpp_by_pkg_config):  # fmt: skip
            check(case.__name__, case)
    return report()


sys.exit(main())
