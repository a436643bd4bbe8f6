#include "compiler/kernel/idioms.h"

#include <functional>

#include "compiler/kernel/size_names.h"

namespace fusec {

int GpuBlockSize(const KernelBuilder& builder) {
  constexpr int kBlockSize = 256;
  return builder.shape().block_size > 0 ? builder.shape().block_size : kBlockSize;
}

int64_t CpuBlockElements(const KernelBuilder& builder) {
  constexpr int64_t kElements = 16384;
  return builder.shape().chunk > 0 ? builder.shape().chunk : kElements;
}

CExpr BlockNumber(const KernelBuilder& builder) {
  return builder.index_type() == "int" ? "blockIdx.x" : "(long long)blockIdx.x";
}

CExpr WriteSize(KernelBuilder& builder, const CExpr& size) {
  return builder.index_type() == "int" ? size : Cast("long long", size);
}

CExpr WriteSize(KernelBuilder& builder, const Expr& size, const SizeNames& names) {
  const CExpr written = builder.Write(size, names);
  return size.AsConstant() ? WriteSize(builder, written) : written;
}

void DeclareBytesOfLaunch(KernelBuilder& builder) {
  builder.Append(Statement::Declare(CExpr::Type("alignas(1024) extern __shared__ char"),
                                    CExpr::Type("shared_memory[]")));
}

void DeclareSharedMemory(KernelBuilder& builder) {
  const CExpr bytes = builder.expressions().Constant("shared_bytes", builder.plan().shared_bytes,
                                                     "dynamic shared memory");
  builder.AppendCall(Call("static_assert", {Equal("sizeof(Shape::Memory)", bytes)}));
  DeclareBytesOfLaunch(builder);
  builder.Append(Statement::Declare(CExpr::Type("Shape::Memory&"), "memory",
                                    "reinterpret_cast<Shape::Memory&>(shared_memory)"));
}

CExpr BlockSizeName(KernelBuilder& builder) {
  return builder.expressions().Constant("block_size", builder.plan().block_size, "threads");
}

Exprs Coordinates(KernelBuilder& builder, const Expr& flat, ShapeRef dims,
                  const std::string& prefix) {
  return Coordinates(builder, flat, dims, prefix, CoordinatesOf(prefix, dims));
}

Exprs Coordinates(KernelBuilder& builder, const Expr& flat, ShapeRef dims,
                  const std::string& prefix, const SizeNames& names) {
  Exprs coordinates = Delinearize(flat, dims, builder.ranges());
  for (size_t i = 0; i < coordinates.size(); ++i) {
    Expr& coordinate = coordinates[i];
    if (coordinate.AsConstant() || coordinate.AsSymbol()) continue;
    const std::string name =
        builder.LetCoordinate(prefix + "_" + std::to_string(i), builder.Write(coordinate, names));
    coordinate = SetVariable(builder.ranges(), name, 0, dims[i] - 1);
  }
  return coordinates;
}

Statement LoopHeader(KernelBuilder& builder, const std::string& variable, const CExpr& first,
                     const CExpr& last, const CExpr& step) {
  return {.kind = Statement::Kind::kFor,
          .type = builder.plan().index_type,
          .place = variable,
          .value = first,
          .condition = variable < last,
          .step = step};
}

Statement IntLoopHeader(const std::string& variable, const CExpr& first, const CExpr& condition,
                        const CExpr& step) {
  return {.kind = Statement::Kind::kFor,
          .type = "int",
          .place = variable,
          .value = first,
          .condition = condition,
          .step = step};
}

CExpr PointerTo(KernelBuilder& builder, const CExpr& buffer, const Expr& offset,
                const SizeNames& names) {
  if (offset.IsConstant(0)) return buffer;
  // As the leftmost operand of the sum, a pointer needs no parentheses.
  const std::function<CExpr(const CExpr&)> add = [&](const CExpr& sum) {
    const bool is_sum = sum.IsBinary("+") || sum.IsBinary("-");
    return is_sum ? Binary(add(sum.operand(0)), sum.word(), sum.operand(1)) : buffer + sum;
  };
  return add(builder.Write(offset, names));
}

CExpr VectorType(const std::string& element, const CExpr& lanes) {
  return Template("Vector", {element, lanes});
}

CExpr ToMemory(const CExpr& value, Dtype dtype) {
  if (dtype == Dtype::kF16) return Call("ToHalf", {value});
  if (dtype == Dtype::kBF16) return Call("ToBFloat16", {value});
  return value;
}

}  // namespace fusec
