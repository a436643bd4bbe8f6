#pragma once

#include <cstddef>
#include <map>
#include <span>
#include <string>

#include "compiler/support/result.h"

namespace fusec {

// A serialized ModelProto split into a small skeleton and its big weights. Protobuf then parses
// only a few megabytes, and the weights stay in the mapped file (protobuf would copy each into a
// string).
struct SplitModel {
  bool whole = true;     // nothing was split off: parse the file itself
  std::string skeleton;  // otherwise: the model without the raw_data fields in `payloads`
  std::map<int, std::span<const std::byte>> payloads;  // by index in graph.initializer
};

// Walks the outer fields of a serialized ModelProto. The error says whether the file is not a model
// or is truncated.
Result<SplitModel> SplitPayloads(std::span<const std::byte> file);

}  // namespace fusec
