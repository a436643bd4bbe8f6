#include "compiler/reference/compare.h"

#include <algorithm>
#include <cmath>

#include "compiler/ir/op_def.h"

namespace fusec {

namespace {

std::vector<int64_t> WithoutOnes(std::vector<int64_t> dims) {
  std::erase(dims, 1);
  return dims;
}

// Coordinates of element number `position` of a row-major tensor.
std::vector<int64_t> IndexOf(int64_t position, ArrayRef<int64_t> dims) {
  std::vector<int64_t> index(dims.size());
  for (size_t axis = dims.size(); axis-- > 0;) {
    index[axis] = position % dims[axis];
    position /= dims[axis];
  }
  return index;
}

void SetWorst(int64_t worst, const TensorData& found, const ReferenceTensor& expected,
              Comparison& result) {
  if (expected.element_count() == 0) return;
  result.worst_index = IndexOf(worst, expected.dims);
  result.worst_found = found.GetDouble(worst);
  result.worst_expected = expected.Real(worst);
}

void CompareReals(const TensorData& found, const ReferenceTensor& expected, Comparison& result) {
  const TensorData rounded = expected.ToData();  // to see which elements overflow the dtype
  double difference = 0, norm = 0;
  int64_t worst = 0;
  for (int64_t i = 0; i < expected.element_count(); ++i) {
    const double a = found.GetDouble(i), b = expected.Real(i), b_rounded = rounded.GetDouble(i);
    if (!std::isfinite(a) || !std::isfinite(b_rounded)) {
      const bool same = std::isnan(a) ? std::isnan(b_rounded) : a == b_rounded;
      if (!same && result.misplaced++ == 0) worst = i;
      continue;
    }
    const double error = std::abs(a - b);
    if (error > result.max_abs && result.misplaced == 0) worst = i;
    result.max_abs = std::max(result.max_abs, error);
    if (b != 0) result.max_rel = std::max(result.max_rel, error / std::abs(b));
    difference += error * error;
    norm += b * b;
  }
  SetWorst(worst, found, expected, result);
  result.rel_l2 = std::sqrt(difference);
  if (norm > 0) result.rel_l2 /= std::sqrt(norm);
}

void CompareInts(const TensorData& found, const ReferenceTensor& expected, Comparison& result) {
  double difference = 0, norm = 0;
  int64_t worst = 0;
  for (int64_t i = 0; i < expected.element_count(); ++i) {
    const int64_t a = found.GetInt(i), b = expected.ints[i];
    const double error =
        a == b ? 0 : std::max(1.0, std::abs(static_cast<double>(a) - static_cast<double>(b)));
    if (error > result.max_abs) worst = i;
    result.max_abs = std::max(result.max_abs, error);
    if (b != 0) result.max_rel = std::max(result.max_rel, error / std::abs(static_cast<double>(b)));
    difference += error * error;
    norm += static_cast<double>(b) * static_cast<double>(b);
  }
  SetWorst(worst, found, expected, result);
  result.rel_l2 = std::sqrt(difference);
  if (norm > 0) result.rel_l2 /= std::sqrt(norm);
}

}  // namespace

std::string IndexText(ArrayRef<int64_t> index) {
  std::string text = "[";
  for (size_t i = 0; i < index.size(); ++i) text += (i ? ", " : "") + std::to_string(index[i]);
  return text + "]";
}

Tolerance ToleranceOf(Dtype dtype, const std::string& matmul_precision) {
  const bool is_float8 = matmul_precision == "fp8";
  const Tolerance of_float8{1e-1, "products of fp8 factors"};
  switch (dtype) {
    case Dtype::kF64:
      return {1e-12, "f64 sums in another order"};
    case Dtype::kF16:
      if (is_float8) return of_float8;
      return {2e-3, "f16 rounds to 11 bits"};
    case Dtype::kBF16:
      if (is_float8) return of_float8;
      return {1.6e-2, "bf16 rounds to 8 bits"};
    case Dtype::kF32:
      if (is_float8) return of_float8;
      if (matmul_precision == "medium") return {2e-2, "f32 products of bf16 factors"};
      if (matmul_precision == "high") return {2e-3, "f32 products of TF32 factors"};
      return {1e-5, "f32 sums in another order"};
    default:
      return {0, "integers are exact"};
  }
}

Dtype CoarsestDtype(const Value* output) {
  if (!IsFloat(output->type.dtype)) return output->type.dtype;
  const auto coarseness = [](Dtype dtype) {
    return dtype == Dtype::kBF16 ? 3 : dtype == Dtype::kF16 ? 2 : dtype == Dtype::kF32 ? 1 : 0;
  };
  Dtype coarsest = output->type.dtype;
  std::vector<const Value*> pending = {output};
  NodeSet seen;
  while (!pending.empty()) {
    const Value* value = pending.back();
    pending.pop_back();
    // Inputs and weights are the same on both sides.
    const Node* node = value->producer;
    if (!node || node->kind == OpKind::kConstant || !seen.insert(node).second) continue;
    const bool moves = GetOpDef(node->kind).op_class == OpClass::kView ||
                       node->kind == OpKind::kGather || node->kind == OpKind::kGatherElements ||
                       node->kind == OpKind::kGatherND;
    for (const auto& result : node->results) {
      const Dtype dtype = result->type.dtype;
      if (moves) break;  // nothing is rounded here
      if (IsFloat(dtype) && coarseness(dtype) > coarseness(coarsest)) coarsest = dtype;
    }
    for (const Value* operand : node->operands) {
      if (operand) pending.push_back(operand);
    }
  }
  return coarsest;
}

Comparison Compare(const std::string& name, const TensorData& found,
                   const ReferenceTensor& expected, const Tolerance& tolerance) {
  Comparison result;
  result.name = name;
  result.elements = expected.element_count();
  result.tolerance = tolerance;
  const bool same_values = WithoutOnes(found.dims()) == WithoutOnes(expected.dims);
  if (found.dtype() != expected.dtype || !same_values) {
    result.note = "is " + std::string(DtypeName(found.dtype())) + IndexText(found.dims()) +
                  ", expected " + std::string(DtypeName(expected.dtype)) + IndexText(expected.dims);
    result.max_abs = result.max_rel = result.rel_l2 = INFINITY;
    return result;
  }
  if (found.dims() != expected.dims) {
    result.note = "shape " + IndexText(found.dims()) + ", reference " + IndexText(expected.dims) +
                  ": equal except for dims of 1";
  }
  if (IsFloat(found.dtype()))
    CompareReals(found, expected, result);
  else
    CompareInts(found, expected, result);
  if (result.misplaced > 0) {
    result.note =
        std::to_string(result.misplaced) + " elements are NaN or infinite in only one of the two";
  }
  result.pass = result.misplaced == 0 && result.rel_l2 <= tolerance.relative_l2;
  return result;
}

}  // namespace fusec
