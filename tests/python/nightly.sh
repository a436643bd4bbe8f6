#!/usr/bin/env bash
# What takes long or needs PyTorch: the tests of the Python package with 10,000 loads and calls, and those of PyTorch in an environment of
# their own, .deps/torch, in which the wheel is installed (3 GB, once). Each part ends with "N passed, N failed".
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
source "$root/.setup/setup.sh"
build_fusec "$root/build" fusec_python fake_cuda

FUSEC_PYTHON_RUNS=10000 PYTHONPATH=$root/build/python LD_LIBRARY_PATH=$root/build/tests/fake_cuda \
  "$deps/venv/bin/python" "$root/tests/python/run.py"

environment=$deps/torch
wheels=("torch==$TORCH_VERSION" "onnxscript==$ONNXSCRIPT_VERSION" "onnx==$ONNX_VERSION" "numpy==$NUMPY_VERSION"
        "onnxruntime==$ONNXRUNTIME_VERSION")
if [ "$(cat "$environment.stamp" 2>/dev/null)" != "${wheels[*]}" ]; then
  say "creating a virtual environment in .deps/torch: ${wheels[*]}"
  /usr/bin/python3 -m venv "$environment"
  "$environment/bin/pip" install -q --disable-pip-version-check "${wheels[@]}"
  echo "${wheels[*]}" >"$environment.stamp"
fi
wheel=$("$root/.setup/wheel.sh" | tail -n 1)
"$environment/bin/pip" install -q --disable-pip-version-check --no-deps --force-reinstall "$wheel"
"$environment/bin/python" "$root/tests/python/run.py" torch_cases
