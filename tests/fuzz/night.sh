#!/usr/bin/env bash
# Runs the judges that need further tools, for the nightly run: proofs by Z3 (.deps/z3) for the index simplifier and for passes; fuzzers by
# clang and libFuzzer (build-libfuzzer), which run FUSEC_FUZZ_MINUTES each (default: 5) and keep new inputs in FOLDER/fuzz-corpus; and
# faults that are put into passes and planners, whose table is written to FOLDER/faults.md.
#
#   usage: tests/fuzz/night.sh FOLDER    the build folder
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
folder=$(cd "${1:?usage: tests/fuzz/night.sh FOLDER}" && pwd)
source "$root/.setup/setup.sh"
status=0

seed=${FUSEC_FUZZ_SEED:-$(($(date +%s) / 86400))}
if [ "$(cat "$deps/z3.stamp" 2>/dev/null)" != "$Z3_SOLVER_VERSION" ]; then
  /usr/bin/python3 -m venv "$deps/z3"
  "$deps/z3/bin/pip" install -q --disable-pip-version-check "z3-solver==$Z3_SOLVER_VERSION"
  echo "$Z3_SOLVER_VERSION" >"$deps/z3.stamp"
fi
"$deps/z3/bin/python" "$root/tests/fuzz/proofs/prove.py" --program "$folder/tests/fuzz/index_claims" --seed "${seed}0000" --expressions 5000 ||
  status=1
for pairs in "" "--random ${seed}000:100" --wrong; do
  "$deps/z3/bin/python" "$root/tests/fuzz/proofs/prove_passes.py" --program "$folder/tests/fuzz/pass_graphs" $pairs || status=1
done

command -v "clang++-$LLVM_VERSION" >/dev/null && [ -e "/usr/lib/llvm-$LLVM_VERSION/lib/libomp.so" ] ||
  apt-get install -y -q --no-install-recommends "clang-$LLVM_VERSION" "libfuzzer-$LLVM_VERSION-dev" "libclang-rt-$LLVM_VERSION-dev" \
    "libomp-$LLVM_VERSION-dev"
FUSEC_CMAKE_FLAGS="-DFUSEC_LIBFUZZER=ON -DCMAKE_CXX_COMPILER=clang++-$LLVM_VERSION" \
  build_fusec "$root/build-libfuzzer" fuzzers
"$deps/venv/bin/python" "$root/tests/fuzz/libfuzzer/run.py" --fusec "$folder/fusec" --minutes "${FUSEC_FUZZ_MINUTES:-5}" \
  --corpus "$folder/fuzz-corpus" || status=1

"$deps/venv/bin/python" "$root/tests/fuzz/faults/run.py" --build "$folder" --table "$folder/faults.md" || status=1
exit $status
