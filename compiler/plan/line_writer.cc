#include "compiler/plan/line_writer.h"

#include <algorithm>

namespace fusec {

LineWriter::LineWriter(const Node& region, KernelBuilder& builder)
    : region_(region),
      builder_(builder),
      lowering_(region, builder),
      node_(*region.body->nodes.back()) {
  ChooseIndexType(region_, builder_);
  type_ = builder_.plan().index_type;
  // Threads store elements one by one, and scatters load them again.
  builder_.plan().outputs_in_device_memory = true;
}

void LineWriter::OpenThreads(const Expr& count, const std::string& variable,
                             const std::string& line, const std::string& where) {
  KernelPlan& plan = builder_.plan();
  plan.block_size = is_cpu() ? 1 : GpuBlockSize(builder_);
  plan.blocks = CeilDiv(count, plan.block_size, builder_.ranges());
  plan.launch_in_words = "one thread per " + line + " " + where;
  const CExpr block = BlockNumber(builder_);
  builder_.AppendLet(variable, is_cpu() ? block : block * BlockSizeName(builder_) + "threadIdx.x");
  builder_.AppendIf(variable >= builder_.Write(count, CountOf(line + "s", where)), "return");
  builder_.DefineVariable(variable, 0, count - 1);
}

Exprs LineWriter::OpenLines(ShapeRef lines, const std::string& variable, const std::string& line,
                            const std::string& where) {
  OpenThreads(Product(lines), variable, line, where);
  return Coordinates(builder_, Variable(variable), lines, variable);
}

Exprs LineWriter::OpenBlocks(ShapeRef lines, int64_t elements, int64_t most) {
  constexpr int64_t kWarp = 32;
  const int wanted = builder_.shape().block_size;
  KernelPlan& plan = builder_.plan();
  plan.block_size =
      wanted > 0 ? wanted : static_cast<int>(std::min(CeilDiv(elements, kWarp) * kWarp, most));
  plan.blocks = Product(lines);
  plan.launch_in_words = "one block per line along the axis";
  builder_.AppendLet("row", BlockNumber(builder_));
  const Expr row = builder_.DefineVariable("row", 0, plan.blocks - 1);
  return Coordinates(builder_, row, lines, "row");
}

Shape LineWriter::Without(ShapeRef shape, int64_t axis) {
  Shape lines(shape);
  lines.erase(lines.begin() + axis);
  return lines;
}

Exprs LineWriter::Insert(Exprs line, int64_t axis, const Expr& at) {
  line.insert(line.begin() + axis, at);
  return line;
}

void LineWriter::OpenLoop(const std::string& variable, const Expr& extent) {
  builder_.Open();
  builder_.DefineVariable(variable, 0, extent - 1);
}

void LineWriter::CloseLoop(const std::string& variable, const Expr& extent,
                           const SizeNames& names) {
  builder_.CloseFor(LoopHeader(builder_, variable, 0, builder_.Write(extent, names)));
}

SizeNames LineWriter::Extent(const Value* value, int64_t axis) const {
  const std::string name = NameOf(builder_, lowering_.Outside(value));
  const Expr& extent = value->type.shape[axis];
  if (!extent.AsConstant() && !extent.AsSymbol())  // constants in it are not the extent
    return CountOf(name + "_part", "in the size of \"" + name + "\"");
  return Only(ExtentOf(name, value->type.shape, static_cast<size_t>(axis)));
}

}  // namespace fusec
