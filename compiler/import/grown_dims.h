#pragma once

#include <set>
#include <string>

namespace onnx {
class GraphProto;
}

namespace fusec {

// The dim_params of inputs along which the graph appends to the input: that of a cache of keys and
// values (past_key of an attention op, or the first operand of a Concat along that axis, which is
// not the first axis). In the first call nothing is cached, so that these dims may be 0.
std::set<std::string> GrownDims(const onnx::GraphProto& graph);

}  // namespace fusec
