#include "passes/constant_linear.h"

#include <algorithm>
#include <cmath>

#include "compiler/ops/op_def.h"

namespace fusec {

namespace {

double SmallestNormal(Dtype dtype) {
  if (dtype == Dtype::kF16) return std::ldexp(1.0, -14);
  return std::ldexp(1.0, dtype == Dtype::kF64 ? -1022 : -126);
}

// What `mul` by a constant number multiplies, or null.
const Value* ScaledByNumber(const Node& mul) {
  if (mul.kind != OpKind::kMul) return nullptr;
  for (int side = 0; side < 2; ++side) {
    const TensorData* factor = Payload(mul.operand(side));
    const Value* other = mul.operand(1 - side);
    if (factor && factor->element_count() == 1 && other->type == mul.result()->type) return other;
  }
  return nullptr;
}

}  // namespace

const TensorData* Payload(const Value* value) {
  if (!value || !value->producer || value->producer->kind != OpKind::kConstant) return nullptr;
  const TensorData& data = value->producer->constant;
  return data.bytes() || data.element_count() == 0 ? &data : nullptr;
}

std::optional<ConstantMatrix> RightWeights(const Node& product) {
  if (product.kind != OpKind::kMatMul || product.Int("transpose_a") != 0) return std::nullopt;
  const TensorData* data = Payload(product.operand(1));
  if (!data || data->dims().size() != 2 || !IsFloat(data->dtype())) return std::nullopt;
  return ConstantMatrix{data, product.Int("transpose_b") != 0};
}

std::optional<ConstantMatrix> LeftWeights(const Node& product) {
  if (product.kind != OpKind::kMatMul) return std::nullopt;
  const TensorData* data = Payload(product.operand(0));
  if (!data || data->dims().size() != 2 || !IsFloat(data->dtype())) return std::nullopt;
  return ConstantMatrix{data, product.Int("transpose_a") == 0};
}

std::optional<Factors> FactorsAlong(const Value* value, int64_t axis, int64_t rank) {
  const TensorData* data = Payload(value);
  if (!data || !IsFloat(data->dtype()) || data->element_count() == 0) return std::nullopt;
  const auto& dims = data->dims();
  const int64_t missing = rank - static_cast<int64_t>(dims.size());
  for (size_t i = 0; i < dims.size(); ++i) {
    if (static_cast<int64_t>(i) + missing != axis && dims[i] != 1) return std::nullopt;
  }
  Factors factors(data->element_count());
  for (size_t i = 0; i < factors.size(); ++i) factors[i] = data->GetDouble(static_cast<int64_t>(i));
  return factors;
}

bool AllFinite(const Factors& factors) {
  return std::all_of(factors.begin(), factors.end(), [](double x) { return std::isfinite(x); });
}

std::optional<TensorData> Scaled(const ConstantMatrix& weights, const Factors& terms,
                                 const Factors& results) {
  TensorData scaled(weights.data->dtype(), weights.data->dims());
  const double smallest = SmallestNormal(scaled.dtype());
  for (int64_t n = 0; n < weights.results(); ++n) {
    double largest_before = 0, largest = 0;
    for (int64_t k = 0; k < weights.terms(); ++k) {
      const double weight = weights.At(k, n) * FactorAt(terms, k) * FactorAt(results, n);
      const int64_t at = weights.Position(k, n);
      scaled.SetDouble(at, weight);
      const double stored = std::fabs(scaled.GetDouble(at));
      if (!std::isfinite(stored)) return std::nullopt;
      if (FactorAt(terms, k) != 0)
        largest_before = std::max(largest_before, std::fabs(weights.At(k, n)));
      largest = std::max(largest, stored);
    }
    if (largest_before > 0 && largest < smallest) return std::nullopt;
  }
  return scaled;
}

void AddProvenance(Node& node, const Node& cause) {
  for (const Origin& origin : cause.provenance) {
    if (std::find(node.provenance.begin(), node.provenance.end(), origin) == node.provenance.end())
      node.provenance.push_back(origin);
  }
}

bool IsKeptAdapter(const Node& product, const std::map<const Value*, std::vector<Node*>>& readers,
                   const PassOptions& options) {
  if (!options.disabled_fusions.count("merge-lora")) return false;
  const Value* above = product.operand(0);
  while (above->producer && ScaledByNumber(*above->producer))
    above = ScaledByNumber(*above->producer);
  if (above->producer && RightWeights(*above->producer)) return true;
  std::vector<const Value*> below = {product.result()};
  while (!below.empty()) {
    const auto found = readers.find(below.back());
    below.pop_back();
    if (found == readers.end()) continue;
    for (const Node* reader : found->second) {
      if (RightWeights(*reader)) return true;
      if (ScaledByNumber(*reader)) below.push_back(reader->result());
    }
  }
  return false;
}

}  // namespace fusec
