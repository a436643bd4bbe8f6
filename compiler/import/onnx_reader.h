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

// Reads protobuf, or ONNX's text syntax from a file ending in `.onnxtxt`. An error unless the model
// has a graph, a supported IR version, and an opset of ai.onnx in kMinOpset..kMaxOpset, or ops of
// ai.onnx.ml only. The domain "ai.onnx" is normalised to "".
Result<OnnxFile> ReadOnnx(const std::string& path);

inline constexpr int kMinOpset = 7;  // in older opsets, Add and Mul broadcast by an attribute
inline constexpr int kMaxOpset = 28;

}  // namespace fusec
