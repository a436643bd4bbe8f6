#include "passes/constant_linear.h"

#include <algorithm>
#include <cmath>

#include "compiler/ir/op_def.h"
#include "passes/graph_edit.h"

namespace fusec {

namespace {

double SmallestNormal(Dtype dtype) {
  if (dtype == Dtype::kF16) return std::ldexp(1.0, -14);
  return std::ldexp(1.0, dtype == Dtype::kF64 ? -1022 : -126);
}

size_t PlaceOf(const Graph& graph, const Node* node) {
  size_t place = 0;
  while (graph.nodes[place].get() != node) ++place;
  return place;
}

// If `mul` multiplies a value by a constant scalar, that value; otherwise null.
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

std::optional<ConstantMatrix> RightWeights(const Node& product) {
  if (product.kind != OpKind::kMatMul || product.Int("transpose_a") != 0) return std::nullopt;
  const TensorData* data = Payload(product.operand(1));
  if (!data || data->dims().size() != 2 || !IsFloat(data->dtype())) return std::nullopt;
  return ConstantMatrix{product.operand(1), data, product.Int("transpose_b") != 0};
}

std::optional<ConstantMatrix> LeftWeights(const Node& product) {
  if (product.kind != OpKind::kMatMul) return std::nullopt;
  const TensorData* data = Payload(product.operand(0));
  if (!data || data->dims().size() != 2 || !IsFloat(data->dtype())) return std::nullopt;
  return ConstantMatrix{product.operand(0), data, product.Int("transpose_a") == 0};
}

void Factors::Invert() {
  for (double& factor : *this) factor = 1 / factor;
  inverted = !inverted;
}

Value* Factors::In(Recipe& recipe, ArrayRef<int64_t> dims) const {
  if (constant == nullptr)
    return recipe.Literal(TensorData::From<double>(Dtype::kF64, dims.vec(), *this));
  Value* factors = recipe.Reshape(recipe.Exact(constant), dims);
  return inverted ? recipe.Div(recipe.Number(1), factors) : factors;
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
  factors.constant = value;
  for (size_t i = 0; i < factors.size(); ++i) factors[i] = data->GetDouble(static_cast<int64_t>(i));
  return factors;
}

bool AllFinite(const Factors& factors) {
  return std::all_of(factors.begin(), factors.end(), [](double x) { return std::isfinite(x); });
}

std::optional<MadeConstant> Scaled(const ConstantMatrix& weights, const Factors& terms,
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
  Recipe recipe;
  Value* product = recipe.Exact(weights.constant);
  for (const Factors* factors : {&terms, &results}) {
    if (factors->are_one()) continue;
    std::vector<int64_t> dims = {1, 1};
    dims[(factors == &terms) == weights.transposed ? 1 : 0] = static_cast<int64_t>(factors->size());
    product = recipe.Mul(product, factors->In(recipe, dims));
  }
  return recipe.Finish(product, std::move(scaled));
}

void SetConstant(Graph& graph, Node& node, int operand, MadeConstant made,
                 const std::string& name) {
  Builder builder(graph, PlaceOf(graph, &node));
  builder.set_provenance(node.provenance);
  node.operands[operand] = AddConstant(builder, std::move(made), name);
}

std::optional<ResultShift> ShiftOfResult(const Graph& graph, const ReaderMap& readers,
                                         const Node& product, const Factors& shift) {
  if (std::all_of(shift.begin(), shift.end(), [](double x) { return x == 0; }))
    return ResultShift();
  const ConstantMatrix weights = *RightWeights(product);
  TensorData addend(weights.data->dtype(), {weights.results()});
  ResultShift result;
  Factors c = {0.0};
  const Value* y = product.result();
  if (HasOneReader(graph, readers, y) && readers.at(y)[0]->kind == OpKind::kAdd) {
    Node* add = readers.at(y)[0];
    const Value* other = add->operand(add->operand(0) == y ? 1 : 0);
    const auto known = FactorsAlong(other, y->type.rank() - 1, y->type.rank());
    if (known && add->result()->type == y->type) {
      result.bias = add;
      c = *known;
    }
  }
  for (int64_t n = 0; n < weights.results(); ++n) {
    double sum = 0;
    for (int64_t k = 0; k < weights.terms(); ++k) sum += FactorAt(shift, k) * weights.At(k, n);
    addend.SetDouble(n, FactorAt(c, n) + sum);
    if (!std::isfinite(addend.GetDouble(n))) return std::nullopt;
  }
  Recipe recipe;
  Value* row = recipe.Expand(shift.In(recipe, {1, static_cast<int64_t>(shift.size())}),
                             {1, weights.terms()});
  Value* sums = recipe.MatMul(row, recipe.Exact(weights.constant), false, weights.transposed);
  sums = recipe.Reshape(sums, {weights.results()});
  if (c.constant) sums = recipe.Add(c.In(recipe, {static_cast<int64_t>(c.size())}), sums);
  result.addend = recipe.Finish(sums, std::move(addend));
  return result;
}

void ShiftResult(Graph& graph, Node& product, const ResultShift& shift, const std::string& name) {
  if (!shift.addend) return;
  Value* y = product.result();
  if (shift.bias) {
    const int constant = shift.bias->operand(0) == y ? 1 : 0;
    const std::string old = shift.bias->operand(constant)->name;
    SetConstant(graph, *shift.bias, constant, *shift.addend, old + "_shifted");
    return;
  }
  Builder builder(graph, PlaceOf(graph, &product) + 1);
  builder.set_provenance(product.provenance);
  Value* addend = AddConstant(builder, *shift.addend, name);
  Value* sum = builder.Make(OpKind::kAdd, {y, addend}, {}, y->name);
  graph.ReplaceAllUses(y, sum);
  sum->producer->operands[0] = y;
  std::swap(sum->name, y->name);
}

void AddProvenance(Node& node, const Node& cause) {
  for (const Origin& origin : cause.provenance) {
    if (std::find(node.provenance.begin(), node.provenance.end(), origin) == node.provenance.end())
      node.provenance.push_back(origin);
  }
}

bool IsKeptAdapter(const Node& product, const ReaderMap& readers, const PassOptions& options) {
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
