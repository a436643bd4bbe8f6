#!/usr/bin/env python3
"""Makes the wheel of a build, with scikit-build-core and cmake of the environment, and prints its path. Its platform tag follows from its
files: manylinux_2_36_x86_64 (PEP 600) if GLIBC_2.36 is the newest version of the C library's symbols that one of them uses.

usage: build_wheel.py BUILD_FOLDER OUTPUT_FOLDER
       build_wheel.py --platform FOLDER             prints the platform of a folder's files; fails if one needs a library of another package
"""

import pathlib
import platform
import re
import shutil
import subprocess
import sys
import tempfile

import packaging.tags

PACKAGE = pathlib.Path(__file__).resolve().parents[1]
C_LIBRARY = re.compile(r"(lib(c|m|dl|rt|pthread)|ld-linux-x86-64)\.so\.\d+")


def platform_of(folder):
    needed, versions = {}, set()
    files = [path for path in pathlib.Path(folder).rglob("*") if path.is_file() and path.open("rb").read(4) == b"\x7fELF"]
    for path in files:
        text = subprocess.run(["objdump", "-p", path], capture_output=True, text=True, check=True).stdout
        needed.update((library, path.name) for library in re.findall(r"^ +NEEDED +(\S+)$", text, re.M))
        versions.update(tuple(map(int, version.split("."))) for version in re.findall(r" GLIBC_(\d+\.\d+)", text))
    names = {path.name for path in files}
    foreign = [f"{file} needs {library}" for library, file in needed.items() if library not in names and not C_LIBRARY.fullmatch(library)]
    if foreign:
        sys.exit(f"no wheel for other machines: {', '.join(foreign)}")
    if not versions:
        sys.exit(f"no file in {folder} needs the C library")
    major, minor = max(versions)
    return f"manylinux_{major}_{minor}_{platform.machine()}"


def run(*command):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode != 0:
        sys.exit(done.stdout)


def tag_of(folder):
    """The wheel's tag: cp311-cp311-PLATFORM, or cp312-abi3-PLATFORM if the extension works with all versions from 3.12 on."""
    own = next(packaging.tags.sys_tags())
    is_stable = next(pathlib.Path(folder).rglob("_native.*.so")).name == "_native.abi3.so"
    return f"{'cp312-abi3' if is_stable else f'{own.interpreter}-{own.abi}'}-{platform_of(folder)}"


def build(build_folder, output):
    with tempfile.TemporaryDirectory() as installed:
        run("cmake", "--install", build_folder, "--component", "python", "--prefix", installed)
        tag = tag_of(installed)
    with tempfile.TemporaryDirectory() as made:
        # Without build isolation, so that scikit-build-core and cmake have the versions that set-up pins.
        run(sys.executable, "-m", "pip", "wheel", "--no-build-isolation", "--no-deps", "--disable-pip-version-check", "--config-settings",
            f"cmake.define.FUSEC_BUILD={pathlib.Path(build_folder).absolute()}", "--config-settings", f"wheel.tags={tag}", "--wheel-dir", made,
            PACKAGE)  # fmt: skip
        (wheel,) = pathlib.Path(made).glob("*.whl")
        print(shutil.move(wheel, pathlib.Path(output) / wheel.name))


if len(sys.argv) != 3:
    sys.exit(__doc__)
if sys.argv[1] == "--platform":
    print(platform_of(sys.argv[2]))
else:
    build(*sys.argv[1:])
