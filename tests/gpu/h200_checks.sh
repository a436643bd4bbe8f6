#!/usr/bin/env bash
# Runs all checks that need a GPU, on a machine that has one. The parts can be run separately, since a machine may be available only for a
# short time:
#   models       every model in models/, and one whose sums are long enough for clusters: answers against double precision and
#                onnxruntime at batches 64, 1030, 7, 1500, 1, 2048, 3, 600, each kernel alone (verify --per-fusion), an oversized batch,
#                compute-sanitizer (memcheck, racecheck, initcheck), device time and call latency; the smoke program; an id outside its
#                table (7 minutes)
#   families     float16 and bfloat16 versions of these models, and the small models of tests/end_to_end/models (3 minutes)
#   suite        the families of models/suite.py beyond DLRM and LoRA, in TF32 and float16: answers at awkward batches, each kernel alone,
#                compute-sanitizer (memcheck, racecheck, initcheck) (4 minutes)
#   precisions   dlrm_dot and lora_mlp_1k in TF32 and float16, at batches of as many kernels as they have: answers in turn, each kernel alone,
#                compute-sanitizer (1 minute)
#   tuned        models of one exporter with kernels chosen by measuring: answers, each kernel alone, and that times are remembered;
#                the sweep goes to RESULTS_FOLDER/sweep-MODEL.txt (3 minutes)
#   examples     the models of examples/ at batches 1, 7, 64 and 2048 (1 minute)
#   conformance  ONNX's node tests on the GPU (3 minutes)
#   failures     of a tuned program: ten threads on it, and on one with clusters, also under compute-sanitizer (memcheck, racecheck); load, run
#                and unload 1,000 times, and 20 times under its leak checker; out of memory; device errors, after which every context says why (3 minutes)
# With MODELS='[a-k]*' the first part is of these models alone (two GPUs take a half each).
# Needs build/fusec, build/tests/gpu/gpu_smoke, build/tests/serving_tests and build/tests/conformance/conformance, or what FUSEC, GPU_SMOKE,
# SERVING_TESTS and CONFORMANCE name.
#
#   usage: tests/gpu/h200_checks.sh RESULTS_FOLDER [PART...]   writes checks-PART.txt there (and bench.json); each ends with
#                                                              "N passed, N failed"
set -uo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
results=${1:?usage: tests/gpu/h200_checks.sh RESULTS_FOLDER [PART...]}
shift
fusec=${FUSEC:-$root/build/fusec}
smoke=${GPU_SMOKE:-$root/build/tests/gpu/gpu_smoke}
serving=${SERVING_TESTS:-$root/build/tests/serving_tests}
conformance=${CONFORMANCE:-$root/build/tests/conformance/conformance}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$results"

passed=0 failed=0
most_seconds=300  # time limit of a check; one that hangs fails, and the others continue
check() {  # check NAME EXPECTED_EXIT COMMAND...   leaves the exit code in `exit_code`, what it said in $work/log
  local name=$1 expected=$2
  exit_code=0
  shift 2
  timeout --kill-after=10 "$most_seconds" "$@" >"$work/log" 2>&1 || exit_code=$?
  if [ "$exit_code" = "$expected" ]; then passed=$((passed + 1)); echo "pass  $name"
  else
    failed=$((failed + 1)); echo "FAIL  $name (exit $exit_code, expected $expected)"
    { grep -i -m 10 'fail\|error' "$work/log"; echo ...; tail -n 15 "$work/log"; } | sed 's/^/      /'
  fi
}

# Of runs on random data, one that fails by what the tool finds.
sanitize() {  # sanitize NAME OUT DIM SIZE TOOL...
  local name=$1 out=$2 dim=$3 size=$4
  shift 4
  for tool in "$@"; do
    check "$name: compute-sanitizer $tool at batch $size" 0 env FUSEC_CUDA_GRAPH=0 compute-sanitizer --tool "$tool" \
      --error-exitcode 99 "$fusec" run "$out" --random --device cuda --dim "$dim=$size"
  done
}

# A model whose kernels run in clusters of blocks at some sizes: $work/suite/lora_mlp_1k.fp32.onnx.
model_of_long_sums() { check "a model of long sums" 0 python3 "$root/models/suite.py" lora_mlp_1k "$work/suite"; }

models() {
  check "smoke program" 0 "$smoke"
  check "smoke program without graphs" 0 env FUSEC_CUDA_GRAPH=0 "$smoke"

  # The output of the checks for every model goes to the results unchanged.
  echo "[" >"$results/bench.json"
  separator=
  model_of_long_sums
  for model in "$root"/models/*.onnx "$work"/suite/*.onnx; do
    name=$(basename "$model" .onnx)
    [[ $name == ${MODELS:-*} ]] || continue
    out=$work/$name
    check "$name: compile" 0 "$fusec" "$model" -o "$out" --target sm_90a
    dim=$(python3 -c "import json; print(json.load(open('$out/manifest.json'))['symbols'][0]['name'])")
    # All sizes in one context. The 68 blocks of the last model's first product at 1030 rows would not fill the clusters of 8 that it has at
    # 64 rows.
    check "$name: answers at batches 64, 1030, 7, 1500, 1, 2048, 3, 600 in turn" 0 \
      "$fusec" verify "$out" --model "$model" --device cuda --dim "$dim=64,1030,7,1500,1,2048,3,600"
    sed 's/^/      /' "$work/log"
    check "$name: each kernel alone" 0 "$fusec" verify "$out" --per-fusion --device cuda --dim "$dim=7"
    check "$name: an oversized batch" 6 "$fusec" run "$out" --random --device cuda --dim "$dim=70000"
    check "$name: times at batches 1, 16, 64, 1024, 2048, of each kernel, and from 4 contexts" 0 \
      "$fusec" bench "$out" --device cuda --dim "$dim=1,16,64,1024,2048" --seconds 0.3 --per-kernel --contexts 4 --json
    if [ "$exit_code" = 0 ]; then
      printf '%s{"model": "%s", "bench": %s}\n' "$separator" "$name" "$(cat "$work/log")" >>"$results/bench.json"
      separator=,
    fi
    # Sizes that use different kernels: few rows, groups of rows or small tiles, pairs of blocks, many rows.
    for size in 3 40 600 1100; do sanitize "$name" "$out" "$dim" $size memcheck racecheck initcheck; done
  done
  echo "]" >>"$results/bench.json"

  # An out-of-range id is named in the error, and nothing is read out of bounds.
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
}

families() {
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
}

suite() {
  for model in target_attention compressed_interaction experts field_attention gru hstu bert; do
    for type in fp32 fp16; do
      check "$model $type: write" 0 python3 "$root/models/suite.py" $model "$work/suite" --dtype $type --scale small
      path=$(ls "$work/suite/$model.$type".*onnx)
      out=$work/$model.$type
      check "$model $type: compile" 0 "$fusec" "$path" -o "$out" --target sm_90a --matmul-precision high
      check "$model $type: answers at batches 1, 65, 3 in turn" 0 "$fusec" verify "$out" --model "$path" --device cuda --dim batch=1,65,3
      sed 's/^/      /' "$work/log"
      check "$model $type: each kernel alone" 0 "$fusec" verify "$out" --per-fusion --device cuda --dim batch=3,65
      sanitize "$model $type" "$out" batch 3 memcheck racecheck initcheck
    done
  done
}

precisions() {
  for model in dlrm_dot lora_mlp_1k; do
    for type in fp32 fp16; do
      check "$model $type: write" 0 python3 "$root/models/suite.py" $model "$work/suite" --dtype $type --scale small
      path=$(ls "$work/suite/$model.$type".*onnx)
      out=$work/$model.$type
      check "$model $type: compile" 0 "$fusec" "$path" -o "$out" --target sm_90a --matmul-precision high
      sizes=300,64,600,130,1030,3,2048,450,1,40
      check "$model $type: answers at batches $sizes in turn" 0 "$fusec" verify "$out" --model "$path" --device cuda --dim batch=$sizes
      sed 's/^/      /' "$work/log"
      check "$model $type: each kernel alone" 0 "$fusec" verify "$out" --per-fusion --device cuda --dim batch=130,300,600,1030,2048
      for size in 130 300 600; do sanitize "$model $type" "$out" batch $size memcheck racecheck; done
    done
  done
}

examples() {
  for model in "$root"/examples/fusion/*/model.onnx; do
    name=$(basename "$(dirname "$model")")
    check "$name: compile" 0 "$fusec" "$model" -o "$work/$name" --target sm_90a
    check "$name: answers at batches 1, 7, 64, 2048" 0 \
      "$fusec" verify "$work/$name" --model "$model" --device cuda --dim batch=1,7,64,2048
    sanitize "$name" "$work/$name" batch 7 memcheck
  done
}

tuned() {
  for model in "$root"/models/*.ts.onnx; do
    name=$(basename "$model" .onnx)
    out=$work/$name
    check "$name: compile" 0 "$fusec" "$model" -o "$out" --target sm_90a
    sizes=batch=1,16,128,1024,2048
    check "$name: tune" 0 env FUSEC_CACHE_DIR="$work/cache" "$fusec" tune "$out" --device cuda --dim $sizes --time-limit 30 --table
    grep -v '^fusec' "$work/log" >"$results/sweep-$name.txt"
    grep '^fusec' "$work/log" | grep -v ': measuring' | sed 's/^/      /'
    cp "$work/log" "$work/tuned"
    check "$name: answers at batches 1, 7, 64, 300, 2048" 0 \
      "$fusec" verify "$out" --model "$model" --device cuda --dim batch=1,7,64,300,2048
    check "$name: each kernel alone" 0 "$fusec" verify "$out" --per-fusion --device cuda --dim batch=1,7,300
    check "$name: tune again" 0 env FUSEC_CACHE_DIR="$work/cache" "$fusec" tune "$out" --device cuda --dim $sizes --time-limit 30
    tail -n 1 "$work/log" | sed 's/^/      /'
    cp "$work/log" "$work/again"
    if ! grep -q 'left out' "$work/tuned"; then
      check "$name: every time is remembered" 0 grep -q ' 0 measurements and' "$work/again"
    fi
  done
}

conformance() {
  check "node tests of ONNX" 0 "$conformance" --cuda -j 8
  sed 's/^/      /' "$work/log"
}

failures() {
  check "compile" 0 "$fusec" "$root/models/dlrm_dot.ts.onnx" -o "$work/served" --target sm_90a
  check "tune" 0 env FUSEC_CACHE_DIR="$work/cache" "$fusec" tune "$work/served" --device cuda --dim batch=1,16,128 --time-limit 20
  grep 'measurements and' "$work/log" | sed 's/^/      /'
  export FUSEC_TEST_ARTIFACT=$work/served FUSEC_TEST_DEVICE=cuda
  check "first answer within 150 ms of the driver's context" 0 "$serving" --gtest_filter='Start.*'
  grep -h 'first answer' "$work/log" | sed 's/^/      /'
  for seconds in 2 60; do
    check "ten threads on one program for $seconds s" 0 env FUSEC_TEST_SECONDS=$seconds "$serving" --gtest_filter='Concurrency.*'
    grep -h 'runs on\|grew by' "$work/log" | sed 's/^/      /'
  done
  model_of_long_sums
  check "it: compile" 0 "$fusec" "$work/suite/lora_mlp_1k.fp32.onnx" -o "$work/clusters" --target sm_90a
  check "it: ten threads for 20 s" 0 env FUSEC_TEST_ARTIFACT="$work/clusters" FUSEC_TEST_SECONDS=20 "$serving" --gtest_filter='Concurrency.*'
  grep -h 'runs on\|grew by' "$work/log" | sed 's/^/      /'
  for artifact in served clusters; do
    for tool in memcheck racecheck; do
      # Under racecheck, CUDA graphs with clusters in ten threads do not end; without the tool they do.
      graphs=1
      [ "$artifact $tool" = "clusters racecheck" ] && graphs=0
      check "ten threads on $artifact under compute-sanitizer $tool (FUSEC_CUDA_GRAPH=$graphs)" 0 env FUSEC_TEST_ARTIFACT="$work/$artifact" \
        FUSEC_TEST_SECONDS=8 FUSEC_TEST_MEMORY=0 FUSEC_CUDA_GRAPH=$graphs \
        compute-sanitizer --tool "$tool" --error-exitcode 99 "$serving" --gtest_filter='Concurrency.*'
      grep -h 'runs on\|ERROR SUMMARY\|RACECHECK SUMMARY' "$work/log" | sed 's/^/      /'
    done
  done
  check "load, run and unload 1,000 times" 0 "$serving" --gtest_filter='LoadRunUnload.*'
  grep -h 'grew' "$work/log" | sed 's/^/      /'
  check "load, run and unload 20 times under the leak checker" 0 env FUSEC_TEST_ROUNDS=20 compute-sanitizer --tool memcheck \
    --leak-check full --error-exitcode 99 "$serving" --gtest_filter='LoadRunUnload.*'
  grep -h 'LEAK SUMMARY\|ERROR SUMMARY' "$work/log" | sed 's/^/      /'
  for graphs in 1 0; do
    for case in "out of memory" "fatal error" "bad pointer"; do
      check "$case (FUSEC_CUDA_GRAPH=$graphs)" 0 env FUSEC_CUDA_GRAPH=$graphs "$smoke" --fatal $case
      grep -h '^ ' "$work/log" | sed 's/^/      /'
    done
  done
}

status=0
for part in "${@:-models families suite precisions examples tuned conformance failures}"; do
  for name in $part; do
    passed=0 failed=0
    {
      nvidia-smi --query-gpu=name,driver_version --format=csv,noheader
      "$fusec" --version
      "$name"
      echo "$passed passed, $failed failed"
    } > >(tee "$results/checks-$name.txt") 2>&1
    [ "$failed" = 0 ] || status=1
  done
done
exit $status
