#include "passes/combine_parts.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "compiler/ir/op_def.h"
#include "passes/constant_linear.h"
#include "passes/graph_edit.h"

namespace fusec {

namespace {

constexpr int kMostOps = 64;  // of one part's sum

// A linear combination of values, in the order in which they were added.
class LinearForm {
 public:
  void Add(Value* atom, double factor) {
    for (auto& [known, sum] : terms_) {
      if (known != atom) continue;
      sum += factor;
      return;
    }
    terms_.emplace_back(atom, factor);
  }
  ArrayRef<std::pair<Value*, double>> terms() const { return terms_; }
  bool Is(const Value* atom) const {
    return terms_.size() == 1 && terms_[0].first == atom && terms_[0].second == 1;
  }

 private:
  std::vector<std::pair<Value*, double>> terms_;
};

// The value that `value` replicates to more rows; `value` itself if it replicates nothing.
Value* SourceOf(Value* value) {
  while (value->producer && value->producer->kind == OpKind::kExpand) {
    Value* source = value->producer->operand(0);
    if (source->type.rank() != value->type.rank() ||
        source->type.shape.back() != value->type.shape.back())
      break;
    value = source;
  }
  return value;
}

// Adds `factor` times `value`, which has `columns` columns, to `form`, expanded into a sum of other
// values. Returns false if the expansion takes more than kMostOps ops.
bool AddTerms(Value* value, double factor, const Expr& columns, int& ops, LinearForm& form) {
  if (++ops > kMostOps) return false;
  Value* source = SourceOf(value);
  const Node* node = source->producer;
  const auto is_term = [&](const Value* operand) {
    return operand->type.rank() == value->type.rank() && operand->type.shape.back() == columns;
  };
  const OpKind kind = node ? node->kind : OpKind::kConstant;
  if ((kind == OpKind::kAdd || kind == OpKind::kSub) && is_term(node->operand(0)) &&
      is_term(node->operand(1))) {
    const double second = kind == OpKind::kSub ? -factor : factor;
    return AddTerms(node->operand(0), factor, columns, ops, form) &&
           AddTerms(node->operand(1), second, columns, ops, form);
  }
  if (kind == OpKind::kNeg) return AddTerms(node->operand(0), -factor, columns, ops, form);
  if (kind == OpKind::kMul) {
    for (const int number : {0, 1}) {
      const auto scale = ScalarConstant(node->operand(number));
      if (scale && std::isfinite(*scale) && is_term(node->operand(1 - number)))
        return AddTerms(node->operand(1 - number), factor * *scale, columns, ops, form);
    }
  }
  form.Add(source, factor);
  return true;
}

// A part that stays, and the parts whose weights it is multiplied by, each with a factor.
struct Kept {
  Value* part;
  std::vector<std::pair<size_t, double>> weights;
};

class Combiner {
 public:
  explicit Combiner(const Node& product) : product_(product) {}

  // Returns the new weights; nullopt if all parts stay.
  std::optional<MadeConstant> Run() {
    if (!FindParts() || !FindKept()) return std::nullopt;
    return CombinedWeights();
  }
  ValueList parts() const {
    ValueList parts;
    for (const Kept& kept : kept_) parts.push_back(kept.part);
    return parts;
  }

 private:
  // Finds the concatenation that the product reads, and the rows of the weights for each part.
  bool FindParts() {
    if (!RightWeights(product_) || !IsFloat(product_.result()->type.dtype)) return false;
    concat_ = product_.operand(0)->producer;
    if (!concat_ || concat_->kind != OpKind::kConcat ||
        concat_->Int("axis") != concat_->result()->type.rank() - 1)
      return false;
    int64_t first = 0;
    for (const Value* part : concat_->operands) {
      const auto columns = part->type.shape.back().AsConstant();
      if (!columns) return false;
      rows_.emplace_back(first, *columns);
      first += *columns;
    }
    return true;
  }

  // Finds the parts that stay. Returns false if all do.
  bool FindKept() {
    std::vector<std::pair<size_t, LinearForm>> sums;
    for (size_t i = 0; i < concat_->operands.size(); ++i) {
      Value* part = concat_->operands[i];
      LinearForm form;
      int ops = 0;
      const bool is_short = AddTerms(part, 1, part->type.shape.back(), ops, form);
      if (is_short && !form.Is(SourceOf(part)))
        sums.emplace_back(i, std::move(form));
      else
        AddWeights(SourceOf(part), i, 1);
    }
    for (const auto& [i, form] : sums) {
      const bool are_parts =
          std::all_of(form.terms().begin(), form.terms().end(),
                      [&](const auto& term) { return places_.count(term.first) != 0; });
      if (!are_parts) {
        AddWeights(concat_->operands[i], i, 1);
        continue;
      }
      for (const auto& [value, factor] : form.terms()) AddWeights(value, i, factor);
    }
    return kept_.size() < concat_->operands.size();
  }

  void AddWeights(const Value* value, size_t part, double factor) {
    const auto [place, is_new] = places_.try_emplace(value, kept_.size());
    if (is_new) kept_.push_back({concat_->operands[part], {}});
    kept_[place->second].weights.emplace_back(part, factor);
  }

  std::optional<MadeConstant> CombinedWeights() const {
    const ConstantMatrix weights = *RightWeights(product_);
    int64_t depth = 0;
    for (const Kept& kept : kept_) depth += rows_[kept.weights[0].first].second;
    const int64_t columns = weights.results();
    TensorData data(weights.data->dtype(), weights.transposed
                                               ? std::vector<int64_t>{columns, depth}
                                               : std::vector<int64_t>{depth, columns});
    Recipe recipe;
    Value* old = recipe.Exact(weights.constant);
    const int64_t axis = weights.transposed ? 1 : 0;
    ValueList slices;
    int64_t first = 0;
    for (const Kept& kept : kept_) {
      const int64_t count = rows_[kept.weights[0].first].second;
      for (int64_t k = 0; k < count; ++k) {
        for (int64_t n = 0; n < columns; ++n) {
          double sum = 0;
          for (const auto& [part, factor] : kept.weights)
            sum += factor * weights.At(rows_[part].first + k, n);
          const int64_t at = weights.transposed ? n * depth + first + k : (first + k) * columns + n;
          data.SetDouble(at, sum);
          if (!std::isfinite(data.GetDouble(at))) return std::nullopt;
        }
      }
      Value* sum = nullptr;
      for (const auto& [part, factor] : kept.weights) {
        Value* rows = recipe.Slice(old, axis, rows_[part].first, rows_[part].first + count);
        if (factor != 1) rows = recipe.Mul(rows, recipe.Number(factor));
        sum = sum ? recipe.Add(sum, rows) : rows;
      }
      slices.push_back(sum);
      first += count;
    }
    return recipe.Finish(recipe.Concat(slices, axis), std::move(data));
  }

  const Node& product_;
  const Node* concat_ = nullptr;
  std::vector<std::pair<int64_t, int64_t>> rows_;  // of the weights, by part: first, count
  std::vector<Kept> kept_;
  DenseMap<const Value*, size_t> places_;  // index in kept_, by the value that a part replicates
};

}  // namespace

Result<bool> CombineParts(Graph& graph, const PassOptions&, PassReport&) {
  bool changed = false;
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    Node& product = *graph.nodes[i];
    if (product.kind != OpKind::kMatMul) continue;
    Combiner combiner(product);
    auto weights = combiner.Run();
    if (!weights) continue;
    const Node& concat = *product.operand(0)->producer;
    const ValueList parts = combiner.parts();
    Builder builder(graph, i);
    builder.set_provenance(concat.provenance);
    Value* row = parts[0];
    if (parts.size() > 1) {
      row = builder.Make(OpKind::kConcat, parts, {{"axis", concat.Int("axis")}},
                         concat.result()->name + "_combined");
    }
    const std::string name = product.operand(1)->name + "_combined";
    product.operands[1] = AddConstant(builder, std::move(*weights), name);
    product.operands[0] = row;
    i = builder.insert_at();
    changed = true;
  }
  if (changed) RemoveDeadNodes(graph);
  return changed;
}

}  // namespace fusec
