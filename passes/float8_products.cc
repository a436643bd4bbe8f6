#include "passes/float8_products.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <random>

#include "compiler/ir/op_def.h"
#include "compiler/region/product.h"
#include "passes/graph_edit.h"

namespace fusec {

namespace {

// Products with fewer terms are limited by memory traffic.
constexpr int64_t kLeastTerms = 64;
// The sample by which the error of a product is estimated.
constexpr int64_t kSampledRows = 8, kMostSampledColumns = 256;

using Numbers = std::vector<double>;

// Normally distributed numbers (Box-Muller transform), the same ones in every run.
Numbers NormalNumbers(int64_t count) {
  std::mt19937_64 bits(1);
  const auto uniform = [&] { return (static_cast<double>(bits() >> 11) + 0.5) * 0x1p-53; };
  Numbers numbers(count);
  for (double& number : numbers) {
    const double radius = std::sqrt(-2 * std::log(uniform()));
    number = radius * std::cos(2 * std::numbers::pi * uniform());
  }
  return numbers;
}

// Rounds `count` numbers to fp8 as the ops do that the pass makes.
void RoundToFloat8(double* numbers, int64_t count) {
  double greatest = 0;
  for (int64_t i = 0; i < count; ++i) greatest = std::max(greatest, std::abs(numbers[i]));
  const double factor = Float8Factor(greatest);
  for (int64_t i = 0; i < count; ++i)
    numbers[i] = E4M3ToDouble(DoubleToE4M3(numbers[i] * factor)) / factor;
}

double Dot(const double* a, const double* b, int64_t count) {
  double sum = 0;
  for (int64_t i = 0; i < count; ++i) sum += a[i] * b[i];
  return sum;
}

// The relative L2 distance that rounding makes for rows of the product by weights [n, k].
double ErrorInFloat8(const TensorData& weights, int64_t columns, int64_t k) {
  const Numbers rows = NormalNumbers(kSampledRows * k);
  Numbers rounded = rows;
  for (int64_t row = 0; row < kSampledRows; ++row) RoundToFloat8(&rounded[row * k], k);
  double distance = 0, norm = 0;
  const int64_t sampled = std::min(columns, kMostSampledColumns);
  Numbers column(k), rounded_column;
  for (int64_t i = 0; i < sampled; ++i) {
    const int64_t first = i * columns / sampled * k;
    for (int64_t j = 0; j < k; ++j) column[j] = weights.GetDouble(first + j);
    rounded_column = column;
    RoundToFloat8(rounded_column.data(), k);
    for (int64_t row = 0; row < kSampledRows; ++row) {
      const double exact = Dot(&rows[row * k], column.data(), k);
      const double found = Dot(&rounded[row * k], rounded_column.data(), k);
      distance += (found - exact) * (found - exact);
      norm += exact * exact;
    }
  }
  return norm == 0 ? 0 : std::sqrt(distance / norm);  // NaN if a weight is not finite
}

// The number of columns, over all products of an operand, from which the products save more time
// than rounding the operand takes. On an H200, tensor cores do 600 TFLOP/s in f16 and bf16, 380 in
// TF32 and 900 in E4M3. Per million elements of the operand, a column therefore saves 1.2 ns (f16,
// bf16) or 3 ns (f32), while a kernel that rounds these elements takes 1 us or more.
constexpr int64_t kColumnsThatPay = 1024, kColumnsOfFloatsThatPay = 512;
// The number of terms per sum from which f16 and bf16 products gain. With 1,024 terms they take as
// long in fp8, or 1.5 times as long where the library computes them; with 2,816 terms they gain a
// quarter (tests/gpu/results/2026-11-27-h200-fp8-products.txt).
constexpr int64_t kTermsOfHalvesThatPay = 1536;

// Whether the kernel that makes `x` has reductions, such as a normalization: it rounds `x` as well.
bool IsMadeWithReductions(const Value* x, int depth = 0) {
  constexpr int kDeepest = 12;
  const Node* node = x ? x->producer : nullptr;
  if (!node || depth > kDeepest) return false;
  if (IsReduction(*node)) return true;
  if (GetOpDef(node->kind).op_class != OpClass::kPointwise) return false;
  return std::any_of(node->operands.begin(), node->operands.end(), [&](const Value* operand) {
    return IsMadeWithReductions(operand, depth + 1);
  });
}

// The shape of the product if its factors could be rounded to fp8; nullopt for other nodes.
std::optional<ProductShape> FindCandidate(const Node& node) {
  const auto shape = FindProductShape(node);
  if (!shape || shape->n <= kNarrowColumns || shape->k < kLeastTerms || shape->matrices > 1 ||
      StoredData(node.operand(1)) == nullptr || FindFloat8Rows(node))
    return std::nullopt;
  return shape;
}

// The name under which users know the product: its module, its ONNX node, or its result.
std::string LayerOf(const Node& product) {
  for (const Origin& origin : product.provenance) {
    if (!origin.module_path.empty()) return origin.module_path;
    if (!origin.onnx_node.empty()) return origin.onnx_node;
  }
  return product.result()->name;
}

// Rounds the factors of products to fp8.
class Rounding {
 public:
  explicit Rounding(Graph& graph) : graph_(graph) {}

  // Rounds the factors of the product at graph_.nodes[at]; `at` advances past the nodes that are
  // added before the product.
  void Round(size_t& at) {
    Node& product = *graph_.nodes[at];
    Builder builder(graph_, at);
    const Codes left = CodesOf(builder, product.operand(0));
    Value* const rounded = Decoded(builder, left, product.operand(0));
    Value* weights = product.operand(1);
    weights = Decoded(builder, CodesOf(builder, weights), weights);
    while (graph_.nodes[at].get() != &product) ++at;
    product.operands = {rounded, weights};
  }

 private:
  struct Codes {
    Value* codes;
    Value* factors;  // one per row
  };

  // The codes and factors of `x`, made once for all of its products.
  Codes CodesOf(Builder& builder, Value* x) {
    const auto [found, is_new] = codes_.try_emplace(x);
    if (!is_new) return found->second;
    const auto make = [&](OpKind kind, ValueList operands, Attributes attributes,
                          const std::string& what) {
      return builder.Make(kind, operands, std::move(attributes), x->name + what);
    };
    Value* const numbers = InF32(builder, x);
    Value* const magnitudes = make(OpKind::kAbs, {numbers}, {}, "_magnitudes");
    Value* const greatest =
        make(OpKind::kReduceMax, {magnitudes},
             {{"axes", std::vector<int64_t>{x->type.rank() - 1}}, {"keepdims", int64_t{1}}},
             "_greatest");
    Value* const factors = make(OpKind::kFloat8Factor, {greatest}, {}, "_factors");
    Value* const scaled = make(OpKind::kMul, {numbers, factors}, {}, "_scaled");
    return found->second = {make(OpKind::kToE4M3, {scaled}, {}, "_codes"), factors};
  }

  // The numbers that `codes` stand for, in the type of `x`.
  static Value* Decoded(Builder& builder, const Codes& codes, const Value* x) {
    Value* numbers = builder.Make(OpKind::kFromE4M3, {codes.codes}, {}, x->name + "_decoded");
    numbers = builder.Make(OpKind::kDiv, {numbers, codes.factors}, {}, x->name + "_rounded");
    if (x->type.dtype == Dtype::kF32) return numbers;
    return builder.Make(OpKind::kCast, {numbers}, {{"to", x->type.dtype}}, x->name + "_narrow");
  }

  static Value* InF32(Builder& builder, Value* x) {
    if (x->type.dtype == Dtype::kF32) return x;
    return builder.Make(OpKind::kCast, {x}, {{"to", Dtype::kF32}}, x->name + "_f32");
  }

  Graph& graph_;
  DenseMap<const Value*, Codes> codes_;
};

}  // namespace

Result<bool> Float8Products(Graph& graph, const PassOptions& options, PassReport& report) {
  if (options.matmul_precision != "fp8" || !options.has_float8_products) return false;
  DenseMap<const Value*, int64_t> columns;  // by operand, over all of its products
  for (const auto& node : graph.nodes) {
    if (const auto shape = FindCandidate(*node)) columns[node->operand(0)] += shape->n;
  }
  Rounding rounding(graph);
  bool changed = false;
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = *graph.nodes[i];
    const auto shape = FindCandidate(node);
    if (!shape) continue;
    Float8Product product{LayerOf(node), node.result()->name, shape->n, shape->k};
    product.error = ErrorInFloat8(*StoredData(node.operand(1)), shape->n, shape->k);
    const Value* left = node.operand(0);
    const bool of_floats = left->type.dtype == Dtype::kF32;
    const int64_t least = of_floats ? kColumnsOfFloatsThatPay : kColumnsThatPay;
    if (!(product.error <= options.float8_budget))  // true for NaN as well
      product.kept = "its error is above the budget";
    else if (!of_floats && shape->k < kTermsOfHalvesThatPay)
      product.kept = "sums of so few terms take no longer in halves";
    else if (columns.at(left) < least && !IsMadeWithReductions(left))
      product.kept = "rounding its rows would take longer than it saves";
    else
      rounding.Round(i);
    changed |= product.kept.empty();
    report.float8_products.push_back(std::move(product));
  }
  return changed;
}

}  // namespace fusec
