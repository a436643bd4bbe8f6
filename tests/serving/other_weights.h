#pragma once

#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <span>
#include <string>

#include "runtime/src/artifact/hash.h"
#include "runtime/src/artifact/safetensors.h"

namespace fusec::serving {

// Copies an artifact to `folder` with all f32 weights multiplied by `factor`, and returns its path.
inline std::string WithOtherWeights(const std::string& artifact, const std::string& folder,
                                    float factor) {
  namespace fs = std::filesystem;
  const auto read = [](const fs::path& path) {
    std::string bytes(fs::file_size(path), '\0');
    std::ifstream(path, std::ios::binary).read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    return bytes;
  };
  fs::remove_all(folder);
  fs::copy(artifact, folder, fs::copy_options::recursive);
  const std::string weights = folder + "/weights.safetensors";
  std::string bytes = read(weights);
  const auto tensors = runtime::ReadSafetensors(std::as_bytes(std::span(bytes)), weights);
  for (const auto& [name, tensor] : *tensors) {
    if (tensor.dtype != "F32") continue;
    auto* values = const_cast<std::byte*>(tensor.bytes.data());
    for (size_t at = 0; at < tensor.bytes.size(); at += sizeof(float)) {
      float value;
      std::memcpy(&value, values + at, sizeof value);
      value *= factor;
      std::memcpy(values + at, &value, sizeof value);
    }
  }
  std::ofstream(weights, std::ios::binary) << bytes;
  auto manifest = nlohmann::ordered_json::parse(read(folder + "/manifest.json"));
  manifest.erase("hash");  // as in a manifest that was edited by hand
  manifest["files"]["weights.safetensors"] = runtime::Hash128(std::as_bytes(std::span(bytes)));
  std::ofstream(folder + "/manifest.json") << manifest;
  return folder;
}

}  // namespace fusec::serving
