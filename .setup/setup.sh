#!/usr/bin/env bash
# Set-up shared by examples/quickstart.sh, tests/run.sh and .ci/run: Debian packages, a private virtual environment, libonnx built
# once, CUDA compilers, then the build of build/fusec. Idempotent: when nothing changed it only asks ninja. Source it or run it.
set -euo pipefail
repository=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
source "$repository/.setup/versions.env"
deps=$repository/.deps
mkdir -p "$deps"

say() { printf '\033[2m[set-up]\033[0m %s\n' "$*" >&2; }

# 1. Debian packages, only the ones that are missing.
packages=(g++ make ninja-build ccache git ca-certificates python3 python3-dev python3-venv
          libprotobuf-dev protobuf-compiler libfmt-dev libcli11-dev nlohmann-json3-dev libexpected-dev libxxhash-dev
          zlib1g-dev "llvm-$LLVM_VERSION-dev" libgtest-dev librapidcheck-dev libdnnl-dev clang-format openssh-client
          abigail-tools dpkg-dev file pkg-config)
# Debian has two releases of Boost, of which a machine can have one; either will do.
[ -e /usr/include/boost/beast.hpp ] || packages+=(libboost-dev)
missing=()
for package in "${packages[@]}"; do
  dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || missing+=("$package")
done
if [ ${#missing[@]} -gt 0 ]; then
  as_root=()
  if [ "$(id -u)" != 0 ]; then
    if command -v sudo >/dev/null && sudo -n true 2>/dev/null; then as_root=(sudo)
    else
      echo "set-up needs these Debian packages; install them as root, then run this again:" >&2
      echo "  apt-get install ${missing[*]}" >&2
      exit 4
    fi
  fi
  say "installing ${#missing[@]} Debian packages (log: .deps/apt.log)"
  export DEBIAN_FRONTEND=noninteractive
  { "${as_root[@]}" apt-get update -q && "${as_root[@]}" apt-get install -y -q --no-install-recommends "${missing[@]}"; } \
    >"$deps/apt.log" 2>&1 || { tail -5 "$deps/apt.log" >&2; exit 4; }
fi

# 2. A private virtual environment: cmake for libonnx, nanobind for the Python package, numpy and onnxruntime as the judges of the tests,
# nbclient to execute notebooks.
wheels=("cmake==$CMAKE_WHEEL_VERSION" "numpy==$NUMPY_VERSION" "onnxruntime==$ONNXRUNTIME_VERSION" "onnx==$ONNX_VERSION"
        "nanobind==$NANOBIND_VERSION" "scikit-build-core==$SCIKIT_BUILD_CORE_VERSION"
        "nbclient==$NBCLIENT_VERSION" "ipykernel==$IPYKERNEL_VERSION")
cuda_home=
for candidate in "${CUDA_HOME:-}" /usr/local/cuda; do
  [ -n "$candidate" ] && [ -e "$candidate/include/cuda.h" ] && [ -e "$candidate/lib64/libnvrtc.so" ] && cuda_home=$candidate && break
done
has_gpu=$([ -e /dev/nvidia0 ] || [ -e /dev/nvidiactl ] && echo yes || echo no)
if [ -z "$cuda_home" ]; then
  wheels+=("nvidia-cuda-nvrtc==$CUDA_NVRTC_VERSION" "nvidia-cuda-runtime==$CUDA_RUNTIME_VERSION")
  [ "$has_gpu" = no ] || wheels+=("nvidia-cublas==$CUBLAS_VERSION")  # 421 MB, needed only where kernels run
  cuda_home=$deps/venv/lib/python3.11/site-packages/nvidia/cu13
fi
if [ "$(cat "$deps/venv.stamp" 2>/dev/null)" != "${wheels[*]}" ]; then
  say "creating a virtual environment in .deps/venv: ${wheels[*]}"
  /usr/bin/python3 -m venv "$deps/venv"
  "$deps/venv/bin/pip" install -q --disable-pip-version-check "${wheels[@]}"
  echo "${wheels[*]}" >"$deps/venv.stamp"
fi
cmake=$deps/venv/bin/cmake

# 3. libonnx, static, from its source distribution (which also carries the official node tests).
if [ "$(cat "$deps/onnx.stamp" 2>/dev/null)" != "$ONNX_VERSION" ]; then
  say "building libonnx $ONNX_VERSION (about 3 minutes on 2 cores, once; log: .deps/onnx.log)"
  rm -rf "$deps"/onnx-* "$deps/onnx"
  {
    "$deps/venv/bin/pip" download -q --disable-pip-version-check --no-binary onnx --no-deps --dest "$deps" "onnx==$ONNX_VERSION" &&
    tar -xzf "$deps/onnx-$ONNX_VERSION.tar.gz" -C "$deps" &&
    "$cmake" -S "$deps/onnx-$ONNX_VERSION" -B "$deps/onnx-build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DONNX_ML=ON \
      -DONNX_BUILD_PYTHON=OFF -DONNX_USE_PROTOBUF_SHARED_LIBS=OFF -DProtobuf_USE_STATIC_LIBS=ON \
      -DCMAKE_CXX_FLAGS="-ffile-prefix-map=$deps/=" -DCMAKE_INSTALL_PREFIX="$deps/onnx" &&
    "$cmake" --build "$deps/onnx-build" &&
    "$cmake" --install "$deps/onnx-build"
  } >"$deps/onnx.log" 2>&1 || { tail -20 "$deps/onnx.log" >&2; exit 4; }
  rm -rf "$deps/onnx-build"
  echo "$ONNX_VERSION" >"$deps/onnx.stamp"
fi

# 4. The build. `build_fusec [FOLDER] [TARGET ...]`: quiet unless it fails; ninja finds out in a second that nothing changed.
build_fusec() {
  local folder=${1:-$repository/build}
  [ $# -eq 0 ] || shift
  local targets=("${@:-fusec}") log=$folder/build.log started=$SECONDS
  mkdir -p "$folder"
  if [ ! -e "$folder/build.ninja" ]; then
    say "configuring $(basename "$folder")"
    "$cmake" -S "$repository" -B "$folder" -G Ninja -DFUSEC_CUDA_HOME="$cuda_home" ${FUSEC_CMAKE_FLAGS:-} >"$log" 2>&1 ||
      { tail -30 "$log" >&2; exit 4; }
    say "building $(basename "$folder") (about 9 minutes on 2 cores the first time; log: ${log#"$repository/"})"
  fi
  "$cmake" --build "$folder" --target "${targets[@]}" >"$log" 2>&1 || { tail -60 "$log" >&2; exit 4; }
  [ $((SECONDS - started)) -lt 5 ] || say "built ${targets[*]} in $((SECONDS - started)) s"
}
build_fusec "$repository/build" fusec fusec_rt
