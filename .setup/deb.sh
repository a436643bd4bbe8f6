#!/usr/bin/env bash
# Builds the Debian packages as dist/*.deb: fusec (the program), libfusec-rt1 (the library) and libfusec-dev (headers, CMake package,
# fusec.pc). They are made of build/, so that a checkout that is built needs seconds. stdout lists their paths.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
source "$root/.setup/setup.sh"

# The times in the packages are that of the commit, so that the same build gives the same bytes.
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git -C "$root" log -1 --format=%ct 2>/dev/null || echo 0)}
export SOURCE_DATE_EPOCH
mkdir -p "$root/dist"
rm -f "$root"/dist/*fusec*.deb
"$(dirname "$cmake")/cpack" --config "$root/build/CPackConfig.cmake" -G DEB -B "$root/build/deb" >"$root/build/deb.log" 2>&1 ||
  { tail -30 "$root/build/deb.log" >&2; exit 4; }
mv "$root"/build/deb/*.deb "$root/dist/"
ls "$root"/dist/*fusec*.deb
