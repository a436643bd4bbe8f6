#!/usr/bin/env bash
# All that is claimed of the GPU, in one run on a machine that has one: answers of every model in models/ against double precision at
# batches 1, 5, 64 and 2048, an out-of-range id, an oversized batch, compute-sanitizer (memcheck, racecheck, initcheck), the smoke
# program, device time and call latency. Needs build/fusec and build/tests/gpu_smoke (or GPU_SMOKE=path); takes about 5 minutes.
#
#   usage: tests/gpu/h200_checks.sh RESULTS_FOLDER        writes checks.txt and bench.json there, ends with "N passed, N failed"
set -uo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
results=${1:?usage: tests/gpu/h200_checks.sh RESULTS_FOLDER}
fusec=${FUSEC:-$root/build/fusec}
smoke=${GPU_SMOKE:-$root/build/tests/gpu_smoke}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$results"
exec > >(tee "$results/checks.txt") 2>&1

passed=0 failed=0
check() {  # check NAME EXPECTED_EXIT COMMAND...
  local name=$1 expected=$2 status=0
  shift 2
  "$@" >"$work/log" 2>&1 || status=$?
  if [ "$status" = "$expected" ]; then passed=$((passed + 1)); echo "pass  $name"
  else failed=$((failed + 1)); echo "FAIL  $name (exit $status, expected $expected)"; tail -n 15 "$work/log" | sed 's/^/      /'; fi
}

nvidia-smi --query-gpu=name,driver_version --format=csv,noheader
"$fusec" --version
check "smoke program" 0 "$smoke"
check "smoke program without graphs" 0 env FUSEC_CUDA_GRAPH=0 "$smoke"

# What the checks say of every model goes to the results as it is.
echo "[" >"$results/bench.json"
separator=
for model in "$root"/models/*.onnx; do
  name=$(basename "$model" .onnx)
  out=$work/$name
  check "$name: compile" 0 "$fusec" "$model" -o "$out" --target sm_90a
  dim=$(python3 -c "import json; print(json.load(open('$out/manifest.json'))['symbols'][0]['name'])")
  check "$name: answers at batches 1, 5, 64, 2048" 0 \
    "$fusec" verify "$out" --model "$model" --device cuda --dim "$dim=1,5,64,2048"
  sed 's/^/      /' "$work/log"
  check "$name: an oversized batch" 6 "$fusec" run "$out" --random --device cuda --dim "$dim=70000"
  "$fusec" bench "$out" --device cuda --dim "$dim=1,64,2048" --seconds 0.5 --json >"$work/bench" 2>"$work/log" || cat "$work/log"
  printf '%s{"model": "%s", "bench": %s}\n' "$separator" "$name" "$(cat "$work/bench")" >>"$results/bench.json"
  separator=,
  for tool in memcheck racecheck initcheck; do
    check "$name: compute-sanitizer $tool" 0 env FUSEC_CUDA_GRAPH=0 compute-sanitizer --tool "$tool" \
      --error-exitcode 99 "$fusec" run "$out" --random --device cuda --dim "$dim=5"
  done
done
echo "]" >>"$results/bench.json"

# float16 and bfloat16 versions of every model, and the small models of the families.
for model in "$root"/models/*.onnx "$root"/tests/end_to_end/models/*.onnx; do
  name=$(basename "$model" .onnx)
  versions=$model
  case $model in "$root"/models/*)
    versions=
    for type in float16 bfloat16; do
      python3 "$root/models/to_half.py" "$model" "$work/$name.$type.onnx" $type && versions="$versions $work/$name.$type.onnx"
    done ;;
  esac
  for version in $versions; do
    name=$(basename "$version" .onnx)
    check "$name: compile" 0 "$fusec" "$version" -o "$work/$name" --target sm_90a
    dim=$(python3 -c "import json; print(json.load(open('$work/$name/manifest.json'))['symbols'][0]['name'])")
    check "$name: answers at batches 1, 5, 64" 0 \
      "$fusec" verify "$work/$name" --model "$version" --device cuda --dim "$dim=1,5,64"
    tail -n 30 "$work/log" | sed 's/^/      /'
  done
done

# An id outside its table is named, and never read.
python3 - "$work" <<'PYTHON'
import sys
import numpy
numpy.save(sys.argv[1] + "/dense.npy", numpy.zeros((5, 13), numpy.float32))
ids = numpy.zeros((5, 26), numpy.int64)
ids[3, 7] = 99999
numpy.save(sys.argv[1] + "/ids.npy", ids)
PYTHON
check "an id outside its table" 6 env FUSEC_CUDA_GRAPH=0 compute-sanitizer --tool memcheck --error-exitcode 99 \
  "$fusec" run "$work/dlrm_dot.dynamo" --device cuda --input in0="$work/dense.npy" --input in1="$work/ids.npy"
grep -h 'outside' "$work/log" | sed 's/^/      /'

echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
