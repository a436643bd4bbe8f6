#!/usr/bin/env bash
# The Python package with PyTorch, in an environment of its own, .deps/torch, in which the wheel is installed (3 GB, once). Ends with
# "N passed, N failed".
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
source "$root/.setup/setup.sh"

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
