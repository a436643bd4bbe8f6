#!/usr/bin/env bash
# Compiles a DLRM, makes a second artifact with other tables, and serves the first one until it is interrupted.
# usage: up.sh [--sharded] [FOLDER] [OPTION...]     --sharded: with the tables on four shards, each a separate deployment of two replicas
#        FOLDER is for the artifacts (ranker); the options are those of python -m fusec.serve
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
compile=(fusec)
options=(--replicas 2)
if [ "${1:-}" = --sharded ]; then
  compile=(fusec shard --shards 4 --replicate-below 0)  # by default tables as small as these stay in the dense part
  options+=(--shard-replicas 2 --cpus 0.5 --shard-cpus 0.1)  # so that ten actors fit on two cores
  shift
fi
folder=${1:-ranker}
mkdir -p "$folder"
"${compile[@]}" "$here/../../models/dlrm_dot.ts.onnx" -o "$folder/monday"
python "$here/retrain.py" "$folder/monday" "$folder/tables.safetensors"
fusec refit "$folder/monday" --weights "$folder/tables.safetensors" --model "$here/../../models/dlrm_dot.ts.onnx" -o "$folder/tuesday"
export FUSEC_SERVE_TOKEN=${FUSEC_SERVE_TOKEN:-example}
exec python -m fusec.serve "ranker=$folder/monday" --repository "$folder" "${options[@]}" "${@:2}"
