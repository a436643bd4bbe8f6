#!/usr/bin/env python3
"""Makes the wheel of the build, installs it into an empty environment without a package index, and compiles and runs a model there, without
numpy and without anything from folders of the build machine.

usage: check_wheel.py BUILD_FOLDER ROOT PYTHON CMAKE       PYTHON has scikit-build-core
"""

import os
import pathlib
import re
import subprocess
import sys
import tempfile
import zipfile

BUILD, ROOT, PYTHON, CMAKE = (pathlib.Path(argument) for argument in sys.argv[1:])
BUILDER = ROOT / "runtime/python/wheel/build_wheel.py"
passed = failed = 0

# A user's first steps, with tensors in memory of Python's standard library.
TEN_LINES = """
import array, fusec
artifact = fusec.compile("MODEL", output="fused", target="cpu", dims={"batch": (1, 64)})
model = fusec.load("fused")
x = memoryview(array.array("f", [0.5] * 32)).cast("B").cast("f", (2, 16))
print(model)
print(memoryview(model(x)).shape, memoryview(model(x)).tolist()[0] == memoryview(model(x)).tolist()[1])
print(fusec.__file__)
"""
# The parts in the wheel, by their names in .setup/notices.cmake, and a word of the license of each.
COPYRIGHTS = {
    "gcc-12-base": "GCC RUNTIME LIBRARY EXCEPTION", "boost": "Boost Software License", "libcli11-dev": "University of Cincinnati",
    "libexpected-dev": "CC0",
    "libfmt-dev": "Victor Zverovich", "libprotobuf-dev": "Google Inc.", "libxxhash-dev": "Yann Collet", "llvm-19-dev": "LLVM Exceptions",
    "nanobind": "Wenzel Jakob", "nlohmann-json3-dev": "Niels Lohmann", "onnx": "ONNX Project Contributors",
    "robin_map": "Thibaut Goetghebuer-Planchon", "zlib1g": "Jean-loup Gailly",
}  # fmt: skip
# Libraries that are shipped with it, which belong to the parts fmt, GCC (the other three) and zlib.
LIBRARIES = {"libfmt", "libgcc_s", "libgomp", "libstdc++", "libz"}


def check(name, good, text):
    global passed, failed
    passed, failed = passed + bool(good), failed + (not good)
    if not good:
        print(f"FAIL  {name}\n{text}")


def run(*command, cwd=None, **environment):
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, cwd=cwd, env={**os.environ, **environment})
    return done.returncode, done.stdout + done.stderr


def build(folder):
    path = f"{CMAKE.parent}:{PYTHON.parent}:{os.environ['PATH']}"
    code, text = run(PYTHON, BUILDER, BUILD, folder, PATH=path)
    check("the wheel is built", code == 0, text)
    return next(folder.glob("fusec-*.whl"), None)


def check_notices(wheel):
    """Checks that the wheel has the license of each part that is linked into its files or shipped beside them, with the texts that Debian's
    copyright files name."""
    text = wheel.read("fusec/THIRD_PARTY_NOTICES.txt").decode()
    parts = re.findall("^---- contains: (.*) ----$", text, re.M)
    check("the parts of the wheel are named", set(COPYRIGHTS) == set(parts), parts)
    missing = [part for part, notice in COPYRIGHTS.items() if notice not in text]
    check("their licences are there", not missing and "License: none." in text, missing)
    named = {path.rstrip(".") for path in re.findall(r"/usr/share/common-licenses/[\w.+-]+", text)}
    missing = [path for path in named if f"---- text of {path} ----" not in text]
    check("the common licences are there", named and not missing, missing)
    beside = {re.sub(r"\.so.*", "", pathlib.Path(name).name) for name in wheel.namelist() if name.startswith("fusec/lib/")}
    check("no other library lies beside them", beside == {"libfusec_rt", *LIBRARIES}, beside)


def check_platform(wheel, folder):
    """Checks that the wheel's name states the version of the C library whose symbols it needs, and that a file which needs another library
    is rejected."""
    zipfile.ZipFile(wheel).extractall(folder / "unpacked")
    code, text = run(PYTHON, BUILDER, "--platform", folder / "unpacked")
    check("its name has the platform of its files", code == 0 and wheel.stem.endswith("-" + text.strip()), f"{wheel.name}: {text}")
    check("that is one of manylinux", re.fullmatch(r"manylinux_2_\d+_x86_64\n", text), text)
    (folder / "unpacked/fusec/lib/libz.so.1").unlink()
    code, text = run(PYTHON, BUILDER, "--platform", folder / "unpacked")
    check("a library of another package is refused", code == 1 and "needs libz.so.1" in text, text)


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        wheel = build(folder)
        if wheel is None:
            return
        names = zipfile.ZipFile(wheel).namelist()
        wanted = ["fusec/py.typed", "fusec/_native.pyi", "fusec/serve/__main__.py", "fusec/bin/fusec", "fusec/lib/libfusec_rt.so.1"]
        check("it has its parts", set(wanted) <= set(names), "\n".join(names))
        check_notices(zipfile.ZipFile(wheel))
        check_platform(wheel, folder)
        environment = folder / "environment"
        subprocess.run(["/usr/bin/env", "python3", "-m", "venv", environment], check=True)
        python = environment / "bin/python"
        code, text = run(python, "-m", "pip", "install", "--quiet", "--no-index", "--disable-pip-version-check", wheel)
        check("it is installed without an index", code == 0, text)
        bare = {"PYTHONPATH": "", "LD_LIBRARY_PATH": "", "VIRTUAL_ENV": ""}
        code, text = run(python, "-c", TEN_LINES.replace("MODEL", str(ROOT / "models/lora_mlp.ts.onnx")), cwd=folder, **bare)
        check("it compiles and runs a model", code == 0 and "(2, 4) True" in text and str(environment) in text, text)
        code, text = run(environment / "bin/fusec", "--version", **bare)
        check("its command is the program", code == 0 and re.match(r"fusec \d", text), text)
        code, text = run(environment / "bin/fusec", "nothing.onnx", "-o", "out", cwd=folder, **bare)
        check("the command has the program's exit codes", code == 3, text)
        package = next(environment.rglob("fusec/__init__.py")).parent
        for path in (package / "bin/fusec", package / "lib/libfusec_rt.so.1", *package.glob("_native.*.so")):
            _, text = run("ldd", path, **bare)
            foreign = re.findall(r"=> (?!/lib/x86_64-linux-gnu/lib(?:c|m|dl|rt|pthread)\.so)(/(?:usr/)?lib/\S+|not found)", text)
            check(f"{path.name} needs nothing but the C library", not foreign, text)


main()
print(f"{passed} passed, {failed} failed")
sys.exit(failed != 0)
