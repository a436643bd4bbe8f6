#include "tests/unit/runtime/tiny_artifact.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "runtime/src/artifact/hash.h"

namespace fusec::runtime {
namespace {

namespace fs = std::filesystem;

constexpr const char* kKernels = R"(
struct IndexError { int site; int reserved; long long position, value, extent; };
extern "C" void k01_gather_add_blocks(void* const* arguments, long long first, long long last) {
  const float* hidden = *(const float**)arguments[0];
  const long long* index = *(const long long**)arguments[1];
  const float* table = *(const float**)arguments[2];
  float* y = *(float**)arguments[3];
  const int batch = *(int*)arguments[4];
  IndexError* error = *(IndexError**)arguments[5];
  for (long long row = first; row < last && row < batch; ++row) {
    for (int column = 0; column < 4; ++column) {
      float sum = hidden[row * 4 + column];
      for (int t = 0; t < 2; ++t) {
        long long r = index[row * 2 + t];
        if (r < -10 || r > 9) {
          int none = 0;
          if (__atomic_compare_exchange_n(&error->site, &none, 1, false, 0, 0)) {
            error->position = row * 2 + t, error->value = r, error->extent = 10;
          }
          r = 0;
        }
        sum += table[(r < 0 ? r + 10 : r) * 4 + column];
      }
      y[row * 4 + column] = sum;
    }
  }
}
)";

constexpr const char* kManifest = R"({
"format": "fusec-artifact", "version": 5, "model": "tiny.onnx", "opset": 17, "matmul_precision": "highest",
"symbols": [{"name": "batch", "min": 0, "max": 65536}],
"inputs": [{"name": "x", "dtype": "f32", "shape": ["batch", "3"], "buffer": 0},
           {"name": "index", "dtype": "i64", "shape": ["batch", "2"], "buffer": 1}],
"outputs": [{"name": "y", "dtype": "f32", "shape": ["batch", "4"], "buffer": 6}],
"buffers": [{"name": "x", "kind": "input", "dtype": "f32", "elements": "batch*3"},
            {"name": "index", "kind": "input", "dtype": "i64", "elements": "batch*2"},
            {"name": "weight", "kind": "constant", "dtype": "f32", "elements": "12", "tensor": "weight"},
            {"name": "bias", "kind": "constant", "dtype": "f32", "elements": "4", "tensor": "bias"},
            {"name": "table", "kind": "constant", "dtype": "f32", "elements": "40", "tensor": "table"},
            {"name": "hidden", "kind": "arena", "dtype": "f32", "elements": "batch*4"},
            {"name": "y", "kind": "output", "dtype": "f32", "elements": "batch*4"}],
"index_sites": [{"node": "tables.3/Gather", "tensor": "index_1", "input": "index", "shape": ["batch", "2"], "extent": "10"}],
"targets": {"cpu": {"files": {"native": "cpu/kernels-native.so"}, "steps": [
  {"kind": "matmul", "name": "m00_matmul", "dtype": "f32", "m": "batch", "n": "4", "k": "3", "batch": "1",
   "a": {"buffer": 0, "offset": "0", "batch_stride": "0"}, "b": {"buffer": 2, "offset": "0", "batch_stride": "0"},
   "d": {"buffer": 5, "offset": "0", "batch_stride": "0"}, "transpose_a": false, "transpose_b": false,
   "bias": 3, "activation": "relu", "inputs": [0, 2, 3], "outputs": [5],
   "bytes_read": "batch*12 + 64", "bytes_written": "batch*16", "flops": "batch*24"},
  {"kind": "kernel", "name": "k01_gather_add", "source": "kernels/k01_gather_add.cu", "blocks": "batch",
   "block_size": 1, "shared_bytes": 0, "outputs_in_device_memory": false,
   "arguments": [{"buffer": 5}, {"buffer": 1}, {"buffer": 4}, {"buffer": 6},
   {"dim": "batch", "type": "i32"}, {"errors": true}], "inputs": [5, 1, 4], "outputs": [6],
   "bytes_read": "batch*64", "bytes_written": "batch*16", "flops": "batch*8"}]}},
"files": {"weights.safetensors": "WEIGHTS", "cpu/kernels-native.so": "KERNELS"}
})";

std::string HashOf(const std::string& bytes) {
  return Hash128({reinterpret_cast<const std::byte*>(bytes.data()), bytes.size()});
}

// All tests share one compilation.
const std::string& CompiledKernels() {
  static const std::string library = [] {
    const fs::path folder = fs::temp_directory_path() / ("fusec_tiny_" + std::to_string(getpid()));
    fs::create_directories(folder);
    std::ofstream(folder / "kernels.cc") << kKernels;
    const std::string command = "c++ -O1 -shared -fPIC -o '" + (folder / "kernels.so").string() +
                                "' '" + (folder / "kernels.cc").string() + "'";
    if (std::system(command.c_str()) != 0) ADD_FAILURE() << "failed: " << command;
    std::ostringstream bytes;
    bytes << std::ifstream(folder / "kernels.so", std::ios::binary).rdbuf();
    fs::remove_all(folder);
    return bytes.str();
  }();
  return library;
}

void AppendFloats(std::string& bytes, size_t count, float (*value)(size_t)) {
  for (size_t i = 0; i < count; ++i) {
    const float element = value(i);
    bytes.append(reinterpret_cast<const char*>(&element), sizeof(element));
  }
}

float Weight(size_t i) { return static_cast<float>(i / 4) + static_cast<float>(i % 4) - 2; }
float Bias(size_t i) { return static_cast<float>(i); }
float Table(size_t i) { return 100 * static_cast<float>(i / 4) + static_cast<float>(i % 4); }

std::string Weights() {
  // The data are deliberately unaligned, since the loader must read files that other tools wrote.
  const std::string header = R"({"weight":{"dtype":"F32","shape":[3,4],"data_offsets":[0,48]},)"
                             R"("bias":{"dtype":"F32","shape":[4],"data_offsets":[48,64]},)"
                             R"("table":{"dtype":"F32","shape":[10,4],"data_offsets":[64,224]}})";
  std::string bytes(8, '\0');
  for (int i = 0; i < 8; ++i) bytes[i] = static_cast<char>(header.size() >> (8 * i));
  bytes += header;
  AppendFloats(bytes, 12, Weight);
  AppendFloats(bytes, 4, Bias);
  AppendFloats(bytes, 40, Table);
  return bytes;
}

}  // namespace

TinyArtifact::TinyArtifact() {
  std::string pattern = (fs::temp_directory_path() / "fusec_artifact_XXXXXX").string();
  path_ = mkdtemp(pattern.data());
  fs::create_directories(path_ + "/cpu");
  Write("cpu/kernels-native.so", CompiledKernels());
  Write("weights.safetensors", Weights());
  Write("manifest.json", kManifest);
  EditManifest("WEIGHTS", HashOf(Weights()));
  EditManifest("KERNELS", HashOf(CompiledKernels()));
}

TinyArtifact::~TinyArtifact() { fs::remove_all(path_); }

std::string TinyArtifact::Read(const std::string& relative_path) const {
  std::ostringstream bytes;
  bytes << std::ifstream(path_ + "/" + relative_path, std::ios::binary).rdbuf();
  return bytes.str();
}

void TinyArtifact::Write(const std::string& relative_path, const std::string& bytes) const {
  // A new file each time: one that is mapped must not change.
  fs::remove(path_ + "/" + relative_path);
  std::ofstream(path_ + "/" + relative_path, std::ios::binary) << bytes;
}

void TinyArtifact::EditManifest(const std::string& from, const std::string& to) const {
  std::string text = Read("manifest.json");
  const size_t at = text.find(from);
  ASSERT_NE(at, std::string::npos) << from;
  Write("manifest.json", text.replace(at, from.size(), to));
}

std::vector<float> TinyArtifact::Expected(const std::vector<float>& x,
                                          const std::vector<int64_t>& index) {
  std::vector<float> y;
  for (size_t row = 0; row < x.size() / 3; ++row) {
    for (size_t column = 0; column < 4; ++column) {
      float sum = Bias(column);
      for (size_t k = 0; k < 3; ++k) sum += x[row * 3 + k] * Weight(k * 4 + column);
      sum = std::max(sum, 0.0f);
      for (size_t t = 0; t < 2; ++t) {
        const int64_t r = index[row * 2 + t];
        sum += Table(static_cast<size_t>(r < 0 ? r + 10 : r) * 4 + column);
      }
      y.push_back(sum);
    }
  }
  return y;
}

}  // namespace fusec::runtime
