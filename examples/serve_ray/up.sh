#!/usr/bin/env bash
# Compiles a DLRM, makes a second artifact with other tables, and serves the first one until it is interrupted.
# usage: up.sh [FOLDER] [OPTION...]     FOLDER is for the artifacts (ranker); the options are those of python -m fusec.serve
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
folder=${1:-ranker}
mkdir -p "$folder"
fusec "$here/../../models/dlrm_dot.ts.onnx" -o "$folder/monday"
python "$here/retrain.py" "$folder/monday" "$folder/tables.safetensors"
fusec refit "$folder/monday" --weights "$folder/tables.safetensors" --model "$here/../../models/dlrm_dot.ts.onnx" -o "$folder/tuesday"
export FUSEC_SERVE_TOKEN=${FUSEC_SERVE_TOKEN:-example}
exec python -m fusec.serve "ranker=$folder/monday" --repository "$folder" --replicas 2 "${@:2}"
