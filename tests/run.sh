#!/usr/bin/env bash
# Sets up, builds and runs all tests. Ends with "N passed, N failed": GoogleTest cases, node tests of ONNX, lint scripts.
#   usage: tests/run.sh               everything, as users build it
#          tests/run.sh --sanitize    serving tests again, the runtime and the CPU kernels built with AddressSanitizer and
#                                     UndefinedBehaviorSanitizer
#          tests/run.sh --threads     serving tests again, the runtime and the CPU kernels built with ThreadSanitizer
#          tests/run.sh --sanitize-compiler
#                                     unit, pass and error tests again, fusec built with AddressSanitizer and UndefinedBehaviorSanitizer
#          tests/run.sh --nightly     the latter two; pages of fusec report in a headless Chromium, and the Debian packages by lintian, both installed where missing;
#                                     the suite's models in float16 on the CPU;
#                                     10,000 random graphs, other ones every day, fused and compiled for the CPU, against the interpreter;
#                                     all kernels of products and all faults of them by the emulation of a GPU; a tenth of the graphs
#                                     by every kernel that may be tried, and by the text for GPUs; and as many random
#                                     sequences of runs on a CUDA driver of our own; 20,000 random ONNX models; all mutants of manifests;
#                                     rows of --batch-invariant models in all batches of 1 to 300; graphs of 100,000 nodes;
#                                     then tests/python/nightly.sh
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
source "$root/.setup/setup.sh"

folder=$root/build
selection=()
case ${1:-} in
--sanitize | --sanitize-compiler)
  folder=$root/build-sanitize
  # The threads of oneDNN and OpenMP make the leak checker misread thread-local storage.
  export ASAN_OPTIONS=intercept_tls_get_addr=0:detect_leaks=1:allocator_may_return_null=1 UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1
  export FUSEC_CXXFLAGS="-fsanitize=address,undefined -fno-sanitize-recover=undefined -g1"  # for generated kernels
  targets=(serving_tests)
  if [ "$1" = --sanitize-compiler ]; then
    targets=(fusec unit_tests passes_tests errors_tests)
  else
    export FUSEC=$root/build/fusec  # which compiles the models
  fi
  selection=(-R "^($(IFS='|' && echo "${targets[*]}"))\$")
  FUSEC_CMAKE_FLAGS="-DFUSEC_SANITIZE=address,undefined" build_fusec "$folder" "${targets[@]}"
  ;;
--threads)
  folder=$root/build-threads
  selection=(-R '^serving_tests$')
  # The ordinary fusec compiles the model. oneDNN synchronizes its threads by futexes, which ThreadSanitizer does not see.
  export FUSEC=$root/build/fusec FUSEC_ONEDNN=0
  export TSAN_OPTIONS="halt_on_error=1:suppressions=$root/tests/serving/thread_sanitizer.supp"
  export FUSEC_CXXFLAGS="-fsanitize=thread -g1"
  FUSEC_CMAKE_FLAGS="-DFUSEC_SANITIZE=thread" build_fusec "$folder" serving_tests
  ;;
--nightly)
  "$0" --threads
  "$0" --sanitize-compiler
  build_fusec "$folder" fusec property_tests passes_tests unit_tests serving_tests end_to_end_tests model_judge index_claims
  command -v chromium >/dev/null || apt-get install -y -q --no-install-recommends chromium
  "$deps/venv/bin/python" "$root/tests/report/check_browser.py" "$folder/fusec"
  "$root/.setup/lint_deb.sh"
  "$deps/venv/bin/python" "$root/tests/benchmarks/check_suite.py" "$folder/fusec" --all
  export FUSEC_PROPERTY_RUNS=${FUSEC_PROPERTY_RUNS:-10000}
  export FUSEC_PROPERTY_SEED=${FUSEC_PROPERTY_SEED:-$(($(date +%s) / 86400 * 10000))}
  echo "these graphs again: FUSEC_PROPERTY_SEED=$FUSEC_PROPERTY_SEED FUSEC_PROPERTY_RUNS=$FUSEC_PROPERTY_RUNS tests/run.sh --nightly"
  nice -n 19 "$folder/tests/property_tests" --gtest_filter=CodegenProperty.CpuAnswersMatch
  FUSEC_EMULATION=all nice -n 19 "$folder/tests/property_tests" --gtest_filter='Emulation.*'
  FUSEC_PROPERTY_DEVICE=emulation FUSEC_PROPERTY_RUNS=200 nice -n 19 "$folder/tests/property_tests" --gtest_filter='Attention*:Codegen*:Pairs*'
  export FUSEC_PROPERTY_RUNS=$(((FUSEC_PROPERTY_RUNS + 9) / 10))
  nice -n 19 "$folder/tests/property_tests" --gtest_filter=CodegenProperty.CandidatesOfTuningMatch:CodegenProperty.GpuAnswersMatch
  nice -n 19 "$folder/tests/serving_tests" --gtest_filter='RandomRuns.*'
  nice -n 19 "$deps/venv/bin/python" "$root/tests/fuzz/run.py" --seed "${FUSEC_FUZZ_SEED:-$(($(date +%s) / 86400))}" \
    --models "${FUSEC_FUZZ_MODELS:-20000}" --keep "$folder/fuzz"
  nice -n 19 "$root/tests/fuzz/night.sh" "$folder"
  FUSEC_TEST_MUTANTS=all nice -n 19 "$folder/tests/serving_tests" --gtest_filter='*ManifestMutation*'
  FUSEC_TEST_BATCHES=all nice -n 19 "$folder/tests/end_to_end_tests" --gtest_filter='*BatchInvariance*'
  FUSEC_TEST_GRAPHS=large nice -n 19 "$folder/tests/end_to_end_tests" --gtest_filter='LargeGraph.*'
  exec nice -n 19 "$root/tests/python/nightly.sh"
  ;;
*)
  build_fusec "$folder" all
  ;;
esac

status=0
"$(dirname "$cmake")/ctest" --test-dir "$folder" --output-on-failure --parallel 2 "${selection[@]}" || status=$?

# One line for all tests, from the lines of GoogleTest and the scripts in ctest's log.
"$deps/venv/bin/python" - "$folder/Testing/Temporary/LastTest.log" "$status" <<'PYTHON'
import re
import sys

text = open(sys.argv[1], errors="replace").read()
passed = sum(int(n) for n in re.findall(r"^\[  PASSED  \] (\d+) tests?\.", text, re.M))
failed = sum(int(n) for n in re.findall(r"^\[  FAILED  \] (\d+) tests?, listed below", text, re.M))
for good, bad in re.findall(r"^(\d+) passed, (\d+) failed$", text, re.M):
    passed, failed = passed + int(good), failed + int(bad)
if sys.argv[2] != "0":
    failed = max(failed, 1)
print(f"{passed} passed, {failed} failed")
PYTHON
exit $status
