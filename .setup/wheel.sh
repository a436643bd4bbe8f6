#!/usr/bin/env bash
# Builds the Python package as dist/fusec-VERSION-*.whl: the extension, libfusec_rt.so, the program, and the shared libraries that these
# two need. It is made of build/, so that a checkout that is built needs seconds. The last line on stdout is the wheel's path.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
source "$root/.setup/setup.sh"
build_fusec "$root/build" fusec fusec_rt fusec_python

mkdir -p "$root/dist"
rm -f "$root"/dist/fusec-*.whl
# Without isolation: scikit-build-core and cmake are those that set-up pins.
PATH=$deps/venv/bin:$PATH "$deps/venv/bin/pip" wheel --no-build-isolation --no-deps --disable-pip-version-check \
  --config-settings "cmake.define.FUSEC_BUILD=$root/build" --wheel-dir "$root/dist" "$root/runtime/python" \
  >"$root/build/wheel.log" 2>&1 || { tail -30 "$root/build/wheel.log" >&2; exit 4; }
ls "$root"/dist/fusec-*.whl
