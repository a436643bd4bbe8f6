#!/usr/bin/env python3
"""Checks what libfusec_rt.so costs its users: its size, the libraries it needs when it is loaded, and the symbols it exports.

usage: check_library.py LIBRARY
"""

import os
import re
import subprocess
import sys

MOST_BYTES = 1500000
# The C library, its parts, and OpenMP. CUDA's libraries and oneDNN are opened when a program needs them; libstdc++ is linked statically.
NEEDED = {"libc.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0", "libgomp.so.1", "ld-linux-x86-64.so.2"}
passed, failed = 0, 0


def expect(good, problem):
    global passed, failed
    passed, failed = passed + bool(good), failed + (not good)
    if not good:
        print(f"FAIL  {problem}")


def readelf(*arguments):
    return subprocess.run(["readelf", "-W", *arguments], capture_output=True, text=True, check=True).stdout


library = sys.argv[1]
size = os.path.getsize(library)
expect(size <= MOST_BYTES, f"{library} has {size} bytes, expected at most {MOST_BYTES}")

dynamic = readelf("-d", library)
needed = set(re.findall(r"\(NEEDED\).*\[(.*)\]", dynamic))
expect(needed <= NEEDED, f"{library} needs {', '.join(sorted(needed - NEEDED))}")
expect("[libfusec_rt.so.1]" in dynamic, f"{library} has no SONAME libfusec_rt.so.1")

shown = [line.split() for line in readelf("--dyn-syms", library).splitlines()]
names = {words[7].split("@")[0] for words in shown if len(words) > 7 and words[6].isdigit() and words[4] in ("GLOBAL", "WEAK")}
expect(names and all(name.startswith("fusec_") for name in names),
       f"{library} shows other names than fusec_*: {', '.join(sorted(n for n in names if not n.startswith('fusec_'))[:5])}")
with open(os.path.join(os.path.dirname(__file__), "../../runtime/include/fusec/fusec.h")) as header:
    declared = set(re.findall(r"FUSEC_API [^;]*?\b(fusec_\w+)\(", header.read()))
expect(declared == names, f"fusec.h and {library} differ in {', '.join(sorted(declared ^ names))}")
print(f"{passed} passed, {failed} failed")
sys.exit(failed != 0)
