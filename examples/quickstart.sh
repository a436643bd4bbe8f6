#!/usr/bin/env bash
# Takes an exported model through all steps: installs what is needed, compiles, explains, compares with onnxruntime, and measures the time.
#   usage: examples/quickstart.sh [MODEL.onnx]        default: the lecture's DLRM, 26 hashed embedding tables
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
model=$(realpath "${1:-$root/models/lecture_dlrm.dynamo.onnx}")
source "$root/.setup/setup.sh"

name=$(basename "$model" .onnx)
out=$root/build/quickstart/$name
mkdir -p "$root/build/quickstart"
bold() { if [ -t 1 ] && [ -z "${NO_COLOR:-}" ]; then printf '\n\033[1m%s\033[0m\n' "$*"; else printf '\n%s\n' "$*"; fi; }
show() { printf '  $ %s\n' "$*"; }
fusec=$root/build/fusec
export FUSEC_PYTHON=$deps/venv/bin/python

bold "1. Compile $name"
show "build/fusec $(basename "$model") -o ${out#"$root/"}"
"$fusec" "$model" -o "$out"

bold "2. What was fused"
show "build/fusec explain ${out#"$root/"}"
"$fusec" explain "$out"

devices=(cpu)
[ "$has_gpu" = no ] || devices+=(cuda)
for device in "${devices[@]}"; do
  bold "3. Right answers on $device: against double precision and onnxruntime"
  show "build/fusec verify ${out#"$root/"} --device $device --model $(basename "$model")"
  "$fusec" verify "$out" --model "$model" --device "$device"
  bold "4. How fast on $device"
  show "build/fusec bench ${out#"$root/"} --device $device"
  "$fusec" bench "$out" --device "$device"
done

bold "5. Read the kernels"
first=$(find "$out/kernels" -name '*.cu' | sort | head -n 1)
echo "  CUDA for the GPU : ${out#"$root/"}/kernels/*.cu    (the same kernels planned for the CPU: cpu/kernels.cc)"
echo "  a first one      : build/fusec explain ${out#"$root/"} --kernel $(basename "$first" .cu)"
