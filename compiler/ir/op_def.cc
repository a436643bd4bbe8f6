#include <map>

#include "compiler/ir/op_def.h"
#include "compiler/support/check.h"

namespace fusec {

// A row without a definition is a link error.
#define FUSEC_OP(Kind, text, onnx, operands, Class, algebra) OpFunctions Kind##Functions();
#include "compiler/ir/op_list.def"
#undef FUSEC_OP

namespace {

// Checks that the functions of an op, besides Infer, are those that its class needs.
void CheckFunctions(const OpDef& op) {
  const OpFunctions& functions = op.functions;
  const bool composite = op.op_class == OpClass::kComposite;
  const bool element_wise = op.op_class == OpClass::kPointwise ||
                            op.op_class == OpClass::kView || op.op_class == OpClass::kGather;
  const bool run_by_interpreter =
      composite || op.op_class == OpClass::kConstant || op.op_class == OpClass::kRegion;
  const std::string text = op.text;
  FUSEC_CHECK((functions.import != nullptr) == (*op.onnx != '\0'), text + " and its Import");
  FUSEC_CHECK(functions.decompose != nullptr || !composite, text + " and its Decompose");
  FUSEC_CHECK((functions.lower != nullptr) == element_wise, text + " and its Lower");
  FUSEC_CHECK(functions.reference != nullptr || run_by_interpreter, text + " and its Reference");
}

std::vector<OpDef> MakeOps() {
  std::vector<OpDef> ops;
#define FUSEC_OP(Kind, text, onnx, operands, Class, algebra) \
  ops.push_back(                                             \
      {OpKind::k##Kind, text, onnx, operands, OpClass::k##Class, algebra, Kind##Functions()});
#include "compiler/ir/op_list.def"
#undef FUSEC_OP
  for (const OpDef& op : ops) CheckFunctions(op);
  return ops;
}

std::map<std::string_view, const OpDef*> MakeOnnxIndex() {
  std::map<std::string_view, const OpDef*> index;
  for (const OpDef& op : AllOps()) {
    std::string_view names = op.onnx;
    while (!names.empty()) {
      const size_t comma = std::min(names.find(','), names.size());
      const bool inserted = index.emplace(names.substr(0, comma), &op).second;
      FUSEC_CHECK(inserted, std::string(names.substr(0, comma)) + " is imported by two rows");
      names.remove_prefix(std::min(comma + 1, names.size()));
    }
  }
  return index;
}

}  // namespace

const std::vector<OpDef>& AllOps() {
  static const std::vector<OpDef> ops = MakeOps();
  return ops;
}

const OpDef& GetOpDef(OpKind kind) { return AllOps()[static_cast<size_t>(kind)]; }

const OpDef* FindOpByText(std::string_view text) {
  for (const OpDef& op : AllOps()) {
    if (op.text == text) return &op;
  }
  return nullptr;
}

const OpDef* FindOpByOnnx(std::string_view onnx_op_type) {
  static const std::map<std::string_view, const OpDef*> index = MakeOnnxIndex();
  const auto found = index.find(onnx_op_type);
  return found == index.end() ? nullptr : found->second;
}

ImportFunction FindImport(std::string_view onnx_op_type) {
  static const std::map<std::string_view, ImportFunction> expansions = {
#define FUSEC_EXPANSION(Name) {#Name, &Import##Name},
#include "compiler/ir/expansion_list.def"
#undef FUSEC_EXPANSION
  };
  if (const OpDef* op = FindOpByOnnx(onnx_op_type)) return op->functions.import;
  const auto found = expansions.find(onnx_op_type);
  return found == expansions.end() ? nullptr : found->second;
}

const std::vector<std::string>& AllExpansions() {
  static const std::vector<std::string> names = {
#define FUSEC_EXPANSION(Name) #Name,
#include "compiler/ir/expansion_list.def"
#undef FUSEC_EXPANSION
  };
  return names;
}

const char* OpClassName(OpClass op_class) {
  switch (op_class) {
    case OpClass::kConstant: return "constant";
    case OpClass::kPointwise: return "pointwise";
    case OpClass::kView: return "view";
    case OpClass::kGather: return "gather";
    case OpClass::kReduction: return "reduction";
    case OpClass::kContraction: return "contraction";
    case OpClass::kComposite: return "composite";
    case OpClass::kSequential: return "sequential";
    case OpClass::kRegion: return "region";
  }
  return "";
}

}  // namespace fusec
