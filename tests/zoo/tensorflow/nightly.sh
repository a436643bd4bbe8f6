#!/usr/bin/env bash
# Makes two environments in .deps (TensorFlow 2.21 with Keras 3, and 2.15 with Keras 2, together 3.3 GB), then exports, compiles and
# verifies models of TensorFlow.
#   usage: tests/zoo/tensorflow/nightly.sh [flags of ../run.py; -h lists them]
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
deps=$(cd "$here/../../.." && pwd)/.deps
export OMP_NUM_THREADS=1 PYTHONHASHSEED=0

# run ENVIRONMENT REQUIREMENTS FLAG... runs ../run.py in the environment, which it makes if the requirements changed.
run() {
  local environment=$deps/$1 requirements=$here/$2
  if ! cmp -s "$requirements" "$environment/requirements.txt"; then
    printf '[zoo] installing the libraries into .deps/%s\n' "$1" >&2
    /usr/bin/python3 -m venv "$environment"
    "$environment/bin/pip" install -q --disable-pip-version-check --no-deps -r "$requirements"
    cp "$requirements" "$environment/requirements.txt"
  fi
  nice -n 19 "$environment/bin/python" -W ignore "$here/../run.py" --framework tensorflow "${@:3}"
}

run zoo_tensorflow requirements.txt --library keras_models --library keras_recurrent_models --library keras_layers_models \
  --library tensorflow_models "$@"
# The second run adds its rows to the same table.
run zoo_tensorflow_keras2 requirements_keras2.txt --library deepctr_models --library deepmatch_models \
  --library tensorflow_recommenders_models "$@"
