#!/usr/bin/env bash
# Makes an environment in .deps/zoo (about 6 GB), then exports, compiles and verifies the models of many libraries.
#   usage: tests/zoo/nightly.sh [flags of run.py; -h lists them]
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
environment=$(cd "$here/../.." && pwd)/.deps/zoo
stamp=$environment/requirements.txt

if ! cmp -s "$here/requirements.txt" "$stamp"; then
  printf '[zoo] installing the libraries into .deps/zoo\n' >&2
  /usr/bin/python3 -m venv "$environment"
  # --no-deps: the list is complete, and leaves out packages that a library needs only for training (ray, tensorflow).
  "$environment/bin/pip" install -q --disable-pip-version-check --no-deps -r "$here/requirements.txt"
  cp "$here/requirements.txt" "$stamp"
fi
export OMP_NUM_THREADS=1 HF_HUB_OFFLINE=1 PYTHONHASHSEED=0 TOKENIZERS_PARALLELISM=false
exec nice -n 19 "$environment/bin/python" -W ignore "$here/run.py" "$@"
