#include "compiler/plan/fold.h"

#include <limits>

#include "compiler/ops/c_text.h"

namespace fusec {

namespace {

// What no element of `dtype` is below (or above): infinity for floats.
std::string ExtremeLiteral(Dtype dtype, bool highest) {
  if (IsFloat(dtype)) {
    const double infinity = std::numeric_limits<double>::infinity();
    return CLiteral(highest ? infinity : -infinity, dtype);
  }
  const int bits = 8 * DtypeBytes(dtype);
  if (IsUnsigned(dtype)) {
    const uint64_t top = bits == 64 ? ~uint64_t{0} : (uint64_t{1} << bits) - 1;
    return CLiteral(static_cast<int64_t>(highest ? top : 0), dtype);
  }
  const int64_t top = static_cast<int64_t>((uint64_t{1} << (bits - 1)) - 1);
  return CLiteral(highest ? top : -top - 1, dtype);
}

}  // namespace

Fold FoldOf(OpKind kind, Dtype dtype) {
  const bool is_bool = dtype == Dtype::kBool;
  const std::string type = CTypeName(dtype);
  auto call = [](const char* how) {
    return [how](const std::string& total, const std::string& element) {
      return std::string(how) + "::Combine(" + total + ", " + element + ")";
    };
  };
  switch (kind) {
    case OpKind::kReduceProd:
      return {CLiteral(int64_t{1}, dtype), "ProductOf",
              [](auto& total, auto& element) { return total + " * " + element; }};
    case OpKind::kReduceMax:
      if (is_bool) return {"false", "LargerOf", [](auto& t, auto& e) { return t + " || " + e; }};
      return {ExtremeLiteral(dtype, false), "LargerOf", call("LargerOf")};
    case OpKind::kReduceMin:
      if (is_bool) return {"true", "SmallerOf", [](auto& t, auto& e) { return t + " && " + e; }};
      return {ExtremeLiteral(dtype, true), "SmallerOf", call("SmallerOf")};
    default:  // sums, means, products of matrices
      return {CLiteral(int64_t{0}, dtype), "SumOf",
              [](auto& total, auto& element) { return total + " + " + element; }};
  }
}

Dtype FoldDtype(const Node& reducer) {
  const Dtype dtype = reducer.operand(0)->type.dtype;
  if (reducer.kind != OpKind::kReduceMean || !IsInteger(dtype)) return dtype;
  return IsUnsigned(dtype) ? Dtype::kU64 : Dtype::kI64;
}

bool IsReducer(const Node& node) {
  const OpClass op_class = GetOpDef(node.kind).op_class;
  return op_class == OpClass::kReduction || op_class == OpClass::kContraction;
}

}  // namespace fusec
