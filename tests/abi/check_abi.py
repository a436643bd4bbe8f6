#!/usr/bin/env python3
"""Compares the ABI of libfusec_rt.so (functions, their parameters, structs, enums) with its committed description, by libabigail.

usage: check_abi.py LIBRARY ROOT [--update]       LIBRARY has debug info: build/runtime/abi/libfusec_rt.so
"""

import copy
import pathlib
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree

# Only the declarations of fusec.h count: for a program that is linked with the library, fusec_program is just a pointer. Paths and line
# numbers are not part of the description.
DESCRIBE = ["abidw", "--drop-private-types", "--drop-undefined-syms", "--exported-interfaces-only", "--no-corpus-path",
            "--no-comp-dir-path", "--no-elf-needed", "--no-show-locs", "--type-id-style", "hash"]  # fmt: skip
UPDATE = "python3 tests/abi/check_abi.py build/runtime/abi/libfusec_rt.so . --update"
passed, failed = 0, 0


def check(name, good, text=""):
    global passed, failed
    passed, failed = passed + bool(good), failed + (not good)
    if not good:
        print(f"FAIL  {name}\n{text}")


def describe(library, headers, path):
    subprocess.run([*DESCRIBE, "--headers-dir", headers, "--out-file", path, library], check=True)


def differences(old, new, *flags):
    """The output of abidiff; "" if nothing differs."""
    done = subprocess.run(["abidiff", *flags, old, new], capture_output=True, text=True)
    if done.returncode & 3:  # no comparison was made
        raise RuntimeError(done.stdout + done.stderr)
    return done.stdout if done.returncode else ""


def incompatible(old, new):
    """Functions and enumerators may be added, since that does not affect programs linked with the old library."""
    return differences(old, new, "--no-added-syms")


def remove(corpus, function):
    for parent in corpus.iter():
        for child in list(parent):
            if child.tag in ("elf-symbol", "function-decl") and child.get("name") == function:
                parent.remove(child)


def breaking_changes(description):
    """Pairs of a change and the description after it; these are the smallest changes that the comparison must detect."""
    corpus = ElementTree.parse(description).getroot()
    long_type = corpus.find(".//type-decl[@name='long int']").get("id")

    changed = copy.deepcopy(corpus)
    remove(changed, "fusec_run")
    yield "a function is removed", changed
    changed = copy.deepcopy(corpus)
    changed.find(".//function-decl[@name='fusec_bind_input']/parameter[@name='rank']").set("type-id", long_type)
    yield "a parameter has another type", changed
    changed = copy.deepcopy(corpus)
    changed.find(".//class-decl[@name='fusec_tensor_info']//var-decl[@name='rank']").set("type-id", long_type)
    yield "a member has another type", changed
    changed = copy.deepcopy(corpus)
    changed.find(".//enumerator[@name='FUSEC_BAD_INPUT']").set("value", "7")
    yield "an enumerator has another value", changed
    changed = copy.deepcopy(corpus)
    changed.set("soname", "libfusec_rt.so.2")
    yield "the library has another SONAME", changed


def main():
    library, root = sys.argv[1], pathlib.Path(sys.argv[2])
    headers, committed = root / "runtime/include/fusec", root / "tests/abi/libfusec_rt.abi"
    if sys.argv[3:] == ["--update"]:
        describe(library, headers, committed)
        return
    with tempfile.TemporaryDirectory() as name:
        now, changed = pathlib.Path(name, "now.abi"), pathlib.Path(name, "changed.abi")
        describe(library, headers, now)
        broken = incompatible(committed, now)
        check("programs linked with the release run with this library (FUSEC_ABI_VERSION would have to rise)", not broken, broken)
        if not broken:
            added = differences(committed, now, "--harmless")
            check(f"the description has what was added; update it: {UPDATE}", not added, added)

        for what, corpus in breaking_changes(committed):
            ElementTree.ElementTree(corpus).write(changed)
            check(f"it is noticed that {what}", incompatible(committed, changed))
        less = ElementTree.parse(committed).getroot()
        remove(less, "fusec_run")
        ElementTree.ElementTree(less).write(changed)
        check("a function may be added", not incompatible(changed, committed), incompatible(changed, committed))
        check("it is noticed that a function was added", differences(changed, committed, "--harmless"))
    print(f"{passed} passed, {failed} failed")
    sys.exit(failed != 0)


main()
