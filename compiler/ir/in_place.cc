#include "compiler/ir/in_place.h"

#include <algorithm>

namespace fusec {

std::optional<std::string> InPlace::InputOf(const std::string& output_name) const {
  const size_t star = output.find('*');
  if (star == std::string::npos) return output == output_name ? std::optional(input) : std::nullopt;
  const std::string before = output.substr(0, star), behind = output.substr(star + 1);
  if (output_name.size() < before.size() + behind.size() || !output_name.starts_with(before) ||
      !output_name.ends_with(behind))
    return std::nullopt;
  const size_t length = output_name.size() - before.size() - behind.size();
  std::string name = input;
  if (const size_t place = name.find('*'); place != std::string::npos)
    name.replace(place, 1, output_name.substr(before.size(), length));
  return name;
}

bool IsInPlace(const Node& node) {
  return node.kind == OpKind::kScatterElements && node.Has(kInPlace);
}

const Value* InputInPlaceOf(const Value* output) {
  const Node* node = output->producer;
  if (!node) return nullptr;
  if (node->kind != OpKind::kRegion) return IsInPlace(*node) ? node->operand(0) : nullptr;
  const Graph& body = *node->body;
  const Value* inside = InputInPlaceOf(body.outputs[output->result_index]);
  if (!inside) return nullptr;
  const auto input = std::find_if(body.inputs.begin(), body.inputs.end(),
                                  [&](const auto& candidate) { return candidate.get() == inside; });
  return input == body.inputs.end() ? nullptr : node->operands[input - body.inputs.begin()];
}

}  // namespace fusec
