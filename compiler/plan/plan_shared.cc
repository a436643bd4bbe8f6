#include <algorithm>

#include "compiler/ops/op_def.h"
#include "compiler/plan/fold.h"
#include "compiler/plan/plan_region.h"
#include "compiler/plan/traffic.h"

namespace fusec {

int GpuBlockSize(const KernelBuilder& builder) {
  constexpr int kBlockSize = 256;
  return builder.shape().block_size > 0 ? builder.shape().block_size : kBlockSize;
}

int64_t CpuBlockElements(const KernelBuilder& builder) {
  constexpr int64_t kElements = 16384;
  return builder.shape().chunk > 0 ? builder.shape().chunk : kElements;
}

void ChooseIndexType(const Node& region, KernelBuilder& builder) {
  if (builder.target() == TargetKind::kCpu) {
    builder.plan().index_type = "long long";
    builder.expressions().CountInLongLong();
    return;
  }
  auto fits = [&](const Value* value) {
    return builder.ranges().IntervalOf(value->type.ElementCount()).high <= INT32_MAX / 2;
  };
  bool all_fit = true;
  for (const Value* operand : region.operands) all_fit &= fits(operand);
  for (const auto& result : region.results) all_fit &= fits(result.get());
  // Scores of attention have no positions unless a view asks for them.
  const bool only_views = region.Get<std::string>("class") == "attention";
  for (const auto& node : region.body->nodes) {
    if (only_views && GetOpDef(node->kind).op_class != OpClass::kView) continue;
    for (const auto& result : node->results) all_fit &= fits(result.get());
  }
  builder.plan().index_type = all_fit ? "int" : "long long";
  if (!all_fit) builder.expressions().CountInLongLong();
}

void CountTraffic(const Node& region, KernelPlan& plan) {
  const Graph& body = *region.body;
  const Ranges ranges = body.SymbolRanges();
  for (size_t i = 0; i < region.operands.size(); ++i)
    plan.bytes_read = plan.bytes_read + RegionBytesRead(region, i, ranges);
  for (const auto& result : region.results)
    plan.bytes_written = plan.bytes_written + result->type.Bytes();
  for (const auto& node : body.nodes) {
    const OpClass op_class = GetOpDef(node->kind).op_class;
    for (const auto& result : node->results) {
      const bool is_output =
          std::find(body.outputs.begin(), body.outputs.end(), result.get()) != body.outputs.end();
      const bool is_free = op_class == OpClass::kView || node->kind == OpKind::kConstant;
      if (!is_output && !is_free) plan.bytes_kept = plan.bytes_kept + result->type.Bytes();
    }
    if (op_class == OpClass::kPointwise)
      plan.flops = plan.flops + node->result()->type.ElementCount();
    if (node->kind == OpKind::kMatMul)
      plan.flops = plan.flops + node->result()->type.ElementCount() * MatMulDepth(*node) * 2;
    if (op_class == OpClass::kReduction || node->kind == OpKind::kSegmentReduce) {
      plan.flops = plan.flops + node->operands[0]->type.ElementCount();
    }
  }
}

std::string BlockNumber(const KernelBuilder& builder) {
  return builder.index_type() == "int" ? "blockIdx.x" : "(long long)blockIdx.x";
}

std::string WriteSize(KernelBuilder& builder, const std::string& text) {
  if (builder.index_type() == "int") return text;
  const bool is_sum = text.find(' ') != std::string::npos;
  return is_sum ? "(long long)(" + text + ")" : "(long long)" + text;
}

std::string WriteSize(KernelBuilder& builder, const Expr& size) {
  const std::string text = builder.Write(size);
  return size.AsConstant() ? WriteSize(builder, text) : text;
}

std::string TensorCoreArithmetic(Dtype dtype, const std::string& precision) {
  if (dtype == Dtype::kF16) return "Arithmetic::kHalf";
  if (dtype == Dtype::kBF16) return "Arithmetic::kBFloat16";
  return precision == "highest" ? "Arithmetic::kSplitTf32" : "Arithmetic::kTf32";
}

void DeclareSharedMemory(KernelBuilder& builder) {
  builder.AppendCall("static_assert(sizeof(Shape::Memory) == " +
                     builder.expressions().OwnConstant("shared_bytes", builder.plan().shared_bytes,
                                                       "given at launch") +
                     ")");
  builder.AppendCall("alignas(1024) extern __shared__ char shared_memory[]");
  builder.Append({Statement::Kind::kDeclare,
                  "Shape::Memory&",
                  "memory",
                  "reinterpret_cast<Shape::Memory&>(shared_memory)",
                  {},
                  {}});
}

const std::string& BlockSizeName(KernelBuilder& builder) {
  return builder.expressions().OwnConstant("block_size", builder.plan().block_size, "threads");
}

std::vector<Expr> Coordinates(KernelBuilder& builder, const Expr& flat, const Shape& dims,
                              const std::string& prefix) {
  std::vector<Expr> coordinates = Delinearize(flat, dims, builder.ranges());
  for (size_t i = 0; i < coordinates.size(); ++i) {
    const std::string name = prefix + "_" + std::to_string(i);
    NameCount(builder, dims[i], name + "_count", "how many " + name + " there are");
  }
  for (size_t i = 0; i < coordinates.size(); ++i) {
    Expr& coordinate = coordinates[i];
    if (coordinate.AsConstant() || coordinate.AsSymbol()) continue;
    const std::string name =
        builder.LetCoordinate(prefix + "_" + std::to_string(i), builder.Write(coordinate));
    builder.ranges().Set(name, 0, dims[i] - 1);
    coordinate = Expr::Symbol(name);
  }
  return coordinates;
}

std::string LoopHeader(KernelBuilder& builder, const std::string& variable,
                       const std::string& first, const std::string& last, const std::string& step) {
  return builder.plan().index_type + " " + variable + " = " + first + "; " + variable + " < " +
         last + "; " + (step.empty() ? "++" + variable : variable + " += " + step);
}

}  // namespace fusec
