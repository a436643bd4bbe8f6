#!/usr/bin/env bash
# Builds the Python package as dist/fusec-VERSION-*.whl: the extension, libfusec_rt.so, the program, and the shared libraries that these
# two need. It is made of build/, so that a checkout that is built needs seconds. The last line on stdout is the wheel's path.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
source "$root/.setup/setup.sh"
build_fusec "$root/build" fusec fusec_rt fusec_python

mkdir -p "$root/dist"
rm -f "$root"/dist/fusec-*.whl
PATH=$deps/venv/bin:$PATH "$deps/venv/bin/python" "$root/runtime/python/wheel/build_wheel.py" "$root/build" "$root/dist" \
  2>"$root/build/wheel.log" || { tail -30 "$root/build/wheel.log" >&2; exit 4; }
