#include "compiler/import/inlined_size.h"

#include <onnx/onnx_pb.h>

#include <algorithm>
#include <map>
#include <string>
#include <tuple>

namespace fusec {

namespace {

class Counter {
 public:
  Counter(const onnx::ModelProto& model, int64_t most) : most_(most) {
    for (const onnx::FunctionProto& function : model.functions())
      functions_[{function.domain(), function.name(), function.overload()}] = &function;
  }

  template <class Nodes>
  int64_t CountOf(const Nodes& nodes) {
    constexpr int kMostDepth = 1000;  // nested calls and bodies; the stack has room for these
    if (depth_ == kMostDepth) return most_;
    ++depth_;
    int64_t count = 0;
    for (const onnx::NodeProto& node : nodes) count = std::min(most_, count + CountOfNode(node));
    --depth_;
    return count;
  }

 private:
  using Name = std::tuple<std::string, std::string, std::string>;

  int64_t CountOfNode(const onnx::NodeProto& node) {
    const Name name = {node.domain(), node.op_type(), node.overload()};
    const auto function = functions_.find(name);
    if (function != functions_.end()) {
      const bool is_fresh = counts_.try_emplace(name, 1).second;
      if (is_fresh) counts_[name] = CountOf(function->second->node());
      return counts_[name];
    }
    int64_t count = 1;
    for (const onnx::AttributeProto& attribute : node.attribute()) {
      if (attribute.has_g()) count = std::min(most_, count + CountOf(attribute.g().node()));
    }
    return count;
  }

  const int64_t most_;
  int depth_ = 0;
  std::map<Name, const onnx::FunctionProto*> functions_;
  std::map<Name, int64_t> counts_;
};

}  // namespace

int64_t InlinedNodes(const onnx::ModelProto& model, int64_t most) {
  return Counter(model, most).CountOf(model.graph().node());
}

}  // namespace fusec
