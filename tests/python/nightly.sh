#!/usr/bin/env bash
# Tests the Python package with PyTorch, with Keras, and fusec.serve with Ray and Triton's clients, each in an environment of its own,
# .deps/torch (3 GB), .deps/keras (2 GB) and .deps/serve (1 GB), in which the wheel is installed. Each ends with "N passed, N failed".
#
# usage: nightly.sh [torch] [keras] [serve]      all, without an argument
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
source "$root/.setup/setup.sh"

# in_environment NAME 'TEST...' WHEELS...: runs tests with these wheels and the package's.
in_environment() {
  local environment=$deps/$1 tests=$2
  shift 2
  local wheels=("$@" "onnx==$ONNX_VERSION" "numpy==$NUMPY_VERSION" "onnxruntime==$ONNXRUNTIME_VERSION")
  if [ "$(cat "$environment.stamp" 2>/dev/null)" != "${wheels[*]}" ]; then
    say "creating a virtual environment in $environment: ${wheels[*]}"
    /usr/bin/python3 -m venv "$environment"
    "$environment/bin/pip" install -q --disable-pip-version-check "${wheels[@]}"
    echo "${wheels[*]}" >"$environment.stamp"
  fi
  "$environment/bin/pip" install -q --disable-pip-version-check --no-deps --force-reinstall "$wheel"
  "$environment/bin/python" "$root/tests/python/run.py" $tests
}

wheel=$("$root/.setup/wheel.sh" | tail -n 1)
status=0
for part in ${@:-torch keras serve}; do
  case $part in
    torch) in_environment torch torch_cases "torch==$TORCH_VERSION" "onnxscript==$ONNXSCRIPT_VERSION" || status=1 ;;
    keras)
      in_environment keras keras_cases "tensorflow-cpu==$TENSORFLOW_VERSION" "keras==$KERAS_VERSION" "tf2onnx==$TF2ONNX_VERSION" || status=1
      ;;
    serve)
      in_environment serve 'serve_ray serve_ray_shards serve_grpc serve_direct serve_operations' "ray[serve]==$RAY_VERSION" \
        "tritonclient[http,grpc]==$TRITONCLIENT_VERSION" || status=1
      # Checks only that the benchmarks run; their figures would need an idle machine.
      for benchmark in serve serve_http; do
        "$deps/serve/bin/python" "$root/tests/benchmarks/$benchmark.py" --rows 1 --seconds 0.5 --rounds 1 || status=1
      done
      ;;
    *) echo "there is no $part; nightly.sh takes torch, keras and serve" >&2 && exit 2 ;;
  esac
done
exit $status
