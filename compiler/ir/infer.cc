#include "compiler/ir/infer.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "compiler/ir/op_def.h"
#include "compiler/support/check.h"

namespace fusec {
namespace {

struct OperandCount {
  size_t least = 0;
  size_t most = SIZE_MAX;
};

// Reads "2", "1..3" or "1..".
OperandCount ParseOperandCount(std::string_view text) {
  OperandCount count;
  const char* end = text.data() + text.size();
  const char* rest = std::from_chars(text.data(), end, count.least).ptr;
  if (rest == end)
    count.most = count.least;
  else if (rest + 2 < end)
    std::from_chars(rest + 2, end, count.most);
  return count;
}

Result<void> CheckOperandCount(const OpDef& def, ArrayRef<Value*> operands) {
  const OperandCount count = ParseOperandCount(def.operands);
  if (operands.size() < count.least || operands.size() > count.most) {
    return ModelError(std::string(def.text) + " has " + std::to_string(operands.size()) +
                      " operands, expected " + def.operands);
  }
  // Operands of an op that takes any number of them cannot be absent.
  const size_t needed = count.most == SIZE_MAX ? operands.size() : count.least;
  for (size_t i = 0; i < needed; ++i) {
    if (operands[i] == nullptr) {
      return ModelError(std::string(def.text) + " lacks its operand " + std::to_string(i));
    }
  }
  return {};
}

// The alternatives of Attribute, as AttributeSpec calls them.
const char* KindOf(const Attribute& attribute) {
  constexpr const char* kKinds[] = {"int", "float", "text", "ints", "floats", "dims", "dtype"};
  static_assert(std::size(kKinds) == std::variant_size_v<Attribute>);
  return kKinds[attribute.index()];
}

bool IsWordOf(std::string_view words, const std::string& text) {
  return ("|" + std::string(words) + "|").find("|" + text + "|") != std::string::npos &&
         text.find('|') == std::string::npos;
}

Result<void> CheckAttribute(const AttributeSpec& spec, const Attribute& attribute) {
  const std::string_view found = KindOf(attribute), expected = spec.kind;
  if (found == expected) return {};
  if (expected == "number" && (found == "int" || found == "float")) return {};
  if (expected.find('|') == expected.npos || found != "text") {
    return ModelError(
        fmt::format("attribute \"{}\" is of kind {}, expected {}", spec.name, found, expected));
  }
  const std::string& text = std::get<std::string>(attribute);
  if (IsWordOf(expected, text)) return {};
  return ModelError(fmt::format("{} is \"{}\", expected one of {}", spec.name, text, expected));
}

}  // namespace

Result<void> CheckAttributes(OpKind kind, const Attributes& attributes) {
  const OpDef& def = GetOpDef(kind);
  const std::vector<AttributeSpec>& specs = def.functions.attributes;
  for (const AttributeSpec& spec : specs) {
    const auto found = attributes.find(spec.name);
    if (found != attributes.end()) {
      FUSEC_TRY(CheckAttribute(spec, found->second));
    } else if (!spec.optional) {
      return ModelError(
          fmt::format("{} lacks its attribute \"{}\" ({})", def.text, spec.name, spec.kind));
    }
  }
  for (const auto& [name, attribute] : attributes) {
    const bool known = std::any_of(specs.begin(), specs.end(),
                                   [&](const AttributeSpec& spec) { return name == spec.name; });
    if (!known) return ModelError(fmt::format("{} has no attribute \"{}\"", def.text, name));
  }
  return {};
}

Result<std::vector<TensorType>> InferTypes(OpKind kind, ArrayRef<Value*> operands,
                                           const Attributes& attributes, const Ranges& ranges) {
  const OpDef& def = GetOpDef(kind);
  FUSEC_TRY(CheckOperandCount(def, operands));
  FUSEC_TRY(CheckAttributes(kind, attributes));
  FUSEC_CHECK(def.functions.infer != nullptr, std::string(def.text) + " has no Infer");
  std::vector<const TensorType*> types;
  for (const Value* operand : operands) {
    types.push_back(operand == nullptr ? nullptr : &operand->type);
  }
  FUSEC_ASSIGN(std::vector<TensorType> results,
               def.functions.infer(InferContext{kind, types, attributes, ranges}));
  for (const TensorType& result : results) {
    if (result.rank() > kMostAxes)
      return ModelError(fmt::format("{} gives a tensor of rank {}, expected at most {}", def.text,
                                    result.rank(), kMostAxes));
  }
  return results;
}

}  // namespace fusec
