#!/usr/bin/env bash
# For a machine with a GPU: for HOURS hours, compiles random ONNX models for that GPU and compares them with the interpreter, at sizes in a
# hostile order, in which sizes repeat after others; with special values; every tenth model under compute-sanitizer, with its tools in turn;
# and after each round the smoke program with its random sequences of runs. It continues where it stopped: STATE/next is the number of the
# next round, and a round is done when its line is in STATE/rounds.txt.
#
#   usage: tests/fuzz/gpu_night.sh STATE HOURS      FUSEC, GPU_SMOKE and FUSEC_PYTHON name other programs than those of build/ and .deps
#          a failure leaves its model in STATE/failed, with the command that repeats it in STATE/rounds.txt
set -uo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
state=${1:?usage: tests/fuzz/gpu_night.sh STATE HOURS}
end=$((SECONDS + ${2:?usage: tests/fuzz/gpu_night.sh STATE HOURS} * 3600))
fusec=${FUSEC:-$root/build/fusec}
smoke=${GPU_SMOKE:-$root/build/tests/gpu/gpu_smoke}
python=${FUSEC_PYTHON:-$root/.deps/venv/bin/python}
most_seconds=300  # time limit of one command
seed=7
models_of_round=20
tools=(memcheck racecheck initcheck synccheck)
mkdir -p "$state/failed"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
nvidia-smi -L >/dev/null 2>&1 || { echo "gpu_night.sh: nvidia-smi finds no GPU" >&2; exit 4; }

passed=0 failed=0
try() {  # try MODEL_OR_EMPTY COMMAND...
  local model=$1
  shift
  if timeout --kill-after=10 "$most_seconds" "$@" >"$work/log" 2>&1; then passed=$((passed + 1)); return 0; fi
  failed=$((failed + 1))
  [ -z "$model" ] || cp "$model" "$state/failed/"
  { echo "FAIL round $round: $*" && { grep FAIL "$work/log" | head -n 5; tail -n 3 "$work/log"; } | sed 's/^/      /'; } |
    tee -a "$state/rounds.txt"
  return 1
}

try_model() {  # try_model FILE NUMBER
  local model=$1 number=$2 out=$work/out symbol sizes=()
  # A model that fusec rejects with a reason is not a finding here; the CPU judges check those.
  timeout "$most_seconds" "$fusec" "$model" -o "$out" --target "$target" >"$work/log" 2>&1
  case $? in 0) ;; 3) return ;; *) try "$model" "$fusec" "$model" -o "$out" --target "$target"; return ;; esac
  while read -r symbol; do sizes+=(--dim "$symbol=7,1,129,7,64,2,65,1"); done \
    < <("$python" -c 'import json, sys; [print(s["name"]) for s in json.load(open(sys.argv[1])).get("symbols", [])]' "$out/manifest.json")
  try "$model" "$fusec" verify "$out" --model "$model" --device cuda "${sizes[@]}"
  try "$model" "$fusec" verify "$out" --model "$model" --device cuda --special-values
  if [ $((number % 10)) = 0 ]; then
    try "$model" env FUSEC_CUDA_GRAPH=0 compute-sanitizer --tool "${tools[$((number / 10 % ${#tools[@]}))]}" --error-exitcode 99 \
      "$fusec" run "$out" --random --device cuda
  fi
  rm -rf "$out"
}

target=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader | head -n 1 | tr -d .)
case $target in 90 | 100) target=sm_${target}a ;; *) target=sm_$target ;; esac
round=$(cat "$state/next" 2>/dev/null || echo 0)
while [ $SECONDS -lt $end ]; do
  rm -rf "$work/models"
  "$python" "$root/tests/fuzz/write_models.py" --seed $seed --first $((round * models_of_round)) --models $models_of_round "$work/models" ||
    exit 1
  for model in "$work"/models/*.onnx; do
    [ $SECONDS -lt $end ] || exit 0  # the round is made again
    number=$(basename "$model" .onnx)
    try_model "$model" "$((10#$number))"
  done
  try "" "$smoke"
  echo "round $round: $passed passed, $failed failed" | tee -a "$state/rounds.txt"
  round=$((round + 1))
  echo "$round" >"$state/next"
done
[ "$failed" = 0 ]
