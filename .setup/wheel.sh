#!/usr/bin/env bash
# Builds the Python package as dist/fusec-VERSION-*.whl: the extension, libfusec_rt.so, the program, and the shared libraries that these
# two need. It builds in build/, so that a checkout that is built needs seconds. The last line on stdout is the wheel's path.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
source "$root/.setup/setup.sh"

mkdir -p "$root/dist"
rm -f "$root"/dist/fusec-*.whl
say "building a wheel (log: build/wheel.log)"
# Without isolation: scikit-build-core, nanobind and cmake are those that set-up pins. The folder of the ordinary build then gets its own
# settings again, such as where it installs to.
cp -p "$root/build/CMakeCache.txt" "$root/build/CMakeCache.ordinary.txt"
trap 'mv "$root/build/CMakeCache.ordinary.txt" "$root/build/CMakeCache.txt"' EXIT
# PYTHON: another Python with these packages, whose wheel it will be.
python=${PYTHON:-$deps/venv/bin/python}
PATH=$(dirname "$python"):$deps/venv/bin:$PATH "$python" -m pip wheel --no-build-isolation --no-deps --disable-pip-version-check \
  --wheel-dir "$root/dist" "$root/runtime/python" >"$root/build/wheel.log" 2>&1 || { tail -30 "$root/build/wheel.log" >&2; exit 4; }
ls "$root"/dist/fusec-*.whl
