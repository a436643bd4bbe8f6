#include "compiler/kernel/idioms.h"

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

std::string BlockNumber(const KernelBuilder& builder) {
  return builder.index_type() == "int" ? "blockIdx.x" : "(long long)blockIdx.x";
}

std::string WriteSize(KernelBuilder& builder, const std::string& text) {
  if (builder.index_type() == "int") return text;
  const bool is_sum = text.find(' ') != std::string::npos;
  return is_sum ? "(long long)(" + text + ")" : "(long long)" + text;
}

std::string WriteSize(KernelBuilder& builder, const Expr& size, const SizeNames& names) {
  const std::string text = builder.Write(size, names);
  return size.AsConstant() ? WriteSize(builder, text) : text;
}

void DeclareSharedMemory(KernelBuilder& builder) {
  builder.AppendCall("static_assert(sizeof(Shape::Memory) == " +
                     builder.expressions().Constant("shared_bytes", builder.plan().shared_bytes,
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

std::string BlockSizeName(KernelBuilder& builder) {
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
