#include "passes/round_every_op.h"

#include "compiler/ir/op_def.h"
#include "passes/graph_edit.h"

namespace fusec {

namespace {

// Whether elements of the results may have more digits than the half type (f16, bf16) holds.
bool MayNeedRounding(const Node& node) {
  switch (GetOpDef(node.kind).op_class) {
    case OpClass::kPointwise:
      break;
    case OpClass::kReduction:
      return node.kind != OpKind::kReduceMax && node.kind != OpKind::kReduceMin;
    case OpClass::kContraction:
    case OpClass::kComposite:
      return true;
    default:
      return false;  // ops that copy, and ops whose own kernel stores the result
  }
  switch (node.kind) {
    case OpKind::kAbs:
    case OpKind::kCast:  // a cast rounds by itself
    case OpKind::kCeil:
    case OpKind::kClip:
    case OpKind::kFloor:
    case OpKind::kMax:
    case OpKind::kMin:
    case OpKind::kNeg:
    case OpKind::kRelu:
    case OpKind::kRound:
    case OpKind::kSign:
    case OpKind::kWhere:
      return false;
    default:
      return true;
  }
}

}  // namespace

Result<bool> RoundEveryOp(Graph& graph, const PassOptions&, PassReport&) {
  bool changed = false;
  const auto readers = Readers(graph);
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = *graph.nodes[i];
    if (!MayNeedRounding(node)) continue;
    Builder builder(graph, i + 1);
    builder.set_provenance(node.provenance);
    for (const auto& result : node.results) {
      const Dtype dtype = result->type.dtype;
      const auto found = readers.find(result.get());
      if ((dtype != Dtype::kF16 && dtype != Dtype::kBF16) || found == readers.end()) continue;
      Value* wide = builder.Make(OpKind::kCast, {result.get()}, {{"to", Dtype::kF32}},
                                 result->name + "_wide");
      Value* rounded =
          builder.Make(OpKind::kCast, {wide}, {{"to", dtype}}, result->name + "_rounded");
      for (Node* reader : found->second) {
        for (Value*& operand : reader->operands) {
          if (operand == result.get()) operand = rounded;
        }
      }
      changed = true;
    }
    i = builder.insert_at() - 1;
  }
  return changed;
}

}  // namespace fusec
