#pragma once

#include <optional>
#include <vector>

#include "passes/graph_edit.h"
#include "passes/pass_manager.h"
#include "passes/recipe.h"

// Helpers that the passes which rewrite constant weights share.
namespace fusec {

// A constant matrix as a matrix product reads it: the weight of term k in the sum of result n.
struct ConstantMatrix {
  const Value* constant = nullptr;
  const TensorData* data = nullptr;
  bool transposed = false;  // stored as [n, k]
  int64_t terms() const { return data->dims()[transposed ? 1 : 0]; }
  int64_t results() const { return data->dims()[transposed ? 0 : 1]; }
  int64_t Position(int64_t k, int64_t n) const {
    return transposed ? n * terms() + k : k * results() + n;
  }
  double At(int64_t k, int64_t n) const { return data->GetDouble(Position(k, n)); }
};

// The constant matrix in operand 1 (or 0) of `product`, if it is a matmul by one matrix for all
// rows (or columns); on the right, only where the left operand is not transposed.
std::optional<ConstantMatrix> RightWeights(const Node& product);
std::optional<ConstantMatrix> LeftWeights(const Node& product);

// One factor for all elements of an axis, or one for each.
struct Factors : std::vector<double> {
  using std::vector<double>::vector;
  const Value* constant = nullptr;  // holds the factors, or their reciprocals if `inverted`
  bool inverted = false;
  void Invert();
  bool are_one() const { return constant == nullptr && *this == Factors{1.0}; }
  // As f64[dims], which has as many elements.
  Value* In(Recipe& recipe, ArrayRef<int64_t> dims) const;
};
inline double FactorAt(const Factors& factors, int64_t i) {
  return factors[factors.size() == 1 ? 0 : i];
}
// The elements of a constant that is broadcast to a tensor of `rank` axes and varies along `axis`
// only; nullopt if it varies along another axis.
std::optional<Factors> FactorsAlong(const Value* value, int64_t axis, int64_t rank);
bool AllFinite(const Factors& factors);

// w[k, n] * terms[k] * results[n], computed in double and rounded to the dtype once. nullopt if a
// weight is NaN or infinite, or if the largest weight of a result is below the dtype's normal
// range. Smaller weights beside it therefore lose at most what rounding takes from the largest.
std::optional<MadeConstant> Scaled(const ConstantMatrix& weights, const Factors& terms,
                                   const Factors& results);

// Gives `node` a new constant for an operand.
void SetConstant(Graph& graph, Node& node, int operand, MadeConstant made, const std::string& name);

// What must be added to the result of a product by constant weights when `shift` is taken from all
// rows of its left operand: sum over k of shift[k] w[k, n], computed in double and rounded once
// together with the constant that is added already, if there is one. nullopt if it is not finite.
struct ResultShift {
  std::optional<MadeConstant> addend;
  Node* bias = nullptr;  // the sum with a constant that `addend` holds as well
};
std::optional<ResultShift> ShiftOfResult(const Graph& graph, const ReaderMap& readers,
                                         const Node& product, const Factors& shift);
void ShiftResult(Graph& graph, Node& product, const ResultShift& shift, const std::string& name);

// Records that `node` now also computes what `cause` computed.
void AddProvenance(Node& node, const Node& cause);

// Whether `product` is one of the two products of a low-rank adapter (two products by constant
// weights in a row, with at most scalar factors between them) that the user asked to keep
// (--keep-lora).
bool IsKeptAdapter(const Node& product, const ReaderMap& readers, const PassOptions& options);

}  // namespace fusec
