#pragma once

#include <cstdint>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <optional>
#include <string>

#include "compiler/ir/tensor.h"

namespace fusec {

// The arrays of a golden file as numpy.savez writes it: a zip archive of uncompressed .npy files,
// little-endian, C order. An array of another kind is left out, so that a test that looks for it
// fails.
inline std::map<std::string, TensorData> ReadGoldens(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string zip((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  const auto number = [&](size_t at, int bytes) {
    uint64_t value = 0;
    std::memcpy(&value, zip.data() + at, bytes);
    return value;
  };
  std::map<std::string, TensorData> arrays;
  size_t entry = zip.rfind("PK\5\6");  // end of the central directory; its offset is at byte 16
  if (entry == std::string::npos) return arrays;
  for (entry = number(entry + 16, 4); zip.compare(entry, 4, "PK\1\2") == 0;) {
    const size_t name_size = number(entry + 28, 2);
    const std::string name = zip.substr(entry + 46, name_size - 4);  // without ".npy"
    const size_t local = number(entry + 42, 4);
    const size_t npy = local + 30 + number(local + 26, 2) + number(local + 28, 2);
    entry += 46 + name_size + number(entry + 30, 2) + number(entry + 32, 2);

    const size_t header_size = number(npy + 8, 2);
    const std::string header = zip.substr(npy + 10, header_size);
    std::optional<Dtype> dtype;
    if (header.find("'<f4'") != std::string::npos) dtype = Dtype::kF32;
    if (header.find("'<i8'") != std::string::npos) dtype = Dtype::kI64;
    if (!dtype) continue;
    std::vector<int64_t> dims;
    size_t at = header.find("'shape': (") + 10;
    while (header[at] != ')') {
      size_t digits = 0;
      if (header[at] == ',' || header[at] == ' ')
        digits = 1;
      else
        dims.push_back(std::stoll(header.substr(at), &digits));
      at += digits;
    }
    TensorData data(*dtype, dims);
    std::memcpy(data.mutable_bytes(), zip.data() + npy + 10 + header_size, data.byte_count());
    arrays.emplace(name, std::move(data));
  }
  return arrays;
}

}  // namespace fusec
