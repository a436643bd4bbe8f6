#pragma once

#include <onnx/onnx_pb.h>

#include <map>
#include <memory>
#include <span>
#include <string>

#include "compiler/import/mapped_file.h"
#include "compiler/support/result.h"

namespace fusec {

// A model as the file holds it, before import.
struct OnnxFile {
  onnx::ModelProto model;
  std::shared_ptr<const MappedFile> file;
  std::map<int, std::span<const std::byte>> payloads;  // raw_data of big initializers, by index
};

// Reads protobuf, or ONNX's text syntax from a file ending in `.onnxtxt`. A good model has a graph,
// an IR version and an opset of ai.onnx that fusec knows (kMinOpset .. kMaxOpset); the domain
// "ai.onnx" is spelled "" from here on.
Result<OnnxFile> ReadOnnx(const std::string& path);

inline constexpr int kMinOpset = 7;  // before, add and mul broadcast by attribute
inline constexpr int kMaxOpset = 27;

}  // namespace fusec
