#pragma once

#include <onnx/onnx_pb.h>

#include <string>

namespace fusec {

// Attributes of nodes that are looked at before they are imported. Null if the node lacks it.
inline const onnx::AttributeProto* FindAttribute(const onnx::NodeProto& node,
                                                 const std::string& name) {
  for (const onnx::AttributeProto& attribute : node.attribute()) {
    if (attribute.name() == name) return &attribute;
  }
  return nullptr;
}

inline int64_t IntAttribute(const onnx::NodeProto& node, const std::string& name,
                            int64_t otherwise) {
  const onnx::AttributeProto* attribute = FindAttribute(node, name);
  return attribute == nullptr ? otherwise : attribute->i();
}

}  // namespace fusec
