#!/usr/bin/env bash
# Copies the fuzzers to a folder from which a machine without clang can run them, with the libraries that they and the artifacts are linked
# with, run.py, and initial inputs. The programs keep function names for reports of the sanitizers, but no line numbers: llvm-symbolizer
# finds those in the programs of the build folder.
#
#   usage: pack.sh FOLDER LEARNT    LEARNT: the folder that a `run.py --corpus` left, with its artifacts
#   there: FOLDER/run.py --build FOLDER --corpus FOLDER/learnt --minutes 20 --jobs 4 --at-once --report FOLDER/table
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../../.." && pwd)
folder=${1:?usage: pack.sh FOLDER LEARNT} learnt=${2:?usage: pack.sh FOLDER LEARNT}
mkdir -p "$folder/learnt"
cp -r "$learnt/." "$folder/learnt"
cp -r "$here/run.py" "$here/corpus" "$folder"
programs=("$root"/build-libfuzzer/tests/fuzz/libfuzzer/fuzz_*)
for program in "${programs[@]}"; do objcopy --strip-debug "$program" "$folder/$(basename "$program")"; done
# All libraries except glibc's own, and those with which the artifacts of the C API fuzzer are linked.
{
  ldd "${programs[@]}" | awk '$2 == "=>" { print $3 }'
  ldconfig -p | awk '$1 == "libgomp.so.1" { print $NF; exit }'
} | sort -u | grep -vE '/lib(c|m|resolv|dl|pthread|rt)\.so' | xargs -I{} cp -L {} "$folder"
