#pragma once

#include <cstddef>
#include <map>
#include <span>
#include <string>

#include "compiler/support/result.h"

namespace fusec {

// A serialized ModelProto without its big weights. Protobuf then parses only a few megabytes, and
// the weights stay where they are in the mapped file (protobuf would copy each into a string of its
// own).
struct SplitModel {
  bool whole = true;     // nothing was taken out: parse the file itself
  std::string skeleton;  // otherwise: the model without these raw_data fields
  std::map<int, std::span<const std::byte>> payloads;  // by index in graph.initializer
};

// Walks the outer fields of a serialized ModelProto. The errors distinguish a file that is not a
// model from one that was cut short.
Result<SplitModel> SplitPayloads(std::span<const std::byte> file);

}  // namespace fusec
