#pragma once

#include "compiler/import/node_context.h"

namespace fusec {

// How the inputs and outputs of a Loop or Scan and of its body belong together.
struct LoopParts {
  const onnx::GraphProto* body = nullptr;
  bool is_scan = false;
  int first = 0;    // index of the first carried input of the node
  int carried = 0;  // carried values
  int scanned = 0;  // scan inputs, which follow them
  int own = 0;      // inputs of the body before the carried ones: a Loop's counter and condition
  int kept = 0;     // outputs of the body before the carried ones: a Loop's condition
};

// An error if the numbers of inputs and outputs do not match.
Result<LoopParts> PartsOfLoop(const onnx::NodeProto& node, const NodeContext& context);

// Element `i` of an attribute of a Scan that lists integers, 0 where the list is absent or too
// short.
int64_t ScanAttribute(const NodeContext& context, const std::string& name, int i);
// The axis of scan input `i` along which the iterations go, not negative.
int64_t ScanAxis(const NodeContext& context, int i, const Value& input);

}  // namespace fusec
