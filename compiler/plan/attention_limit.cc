#include "compiler/plan/attention_limit.h"

#include <algorithm>
#include <cmath>

#include "compiler/ir/element_sources.h"
#include "compiler/ir/op_def.h"
#include "compiler/plan/attention_mask.h"
#include "compiler/plan/plan_region.h"
#include "compiler/plan/tile_copier.h"
#include "compiler/region/reducers.h"

namespace fusec {

namespace {

bool Mentions(const Expr& expr, const Expr& variable) {
  std::vector<std::string> names;
  expr.CollectSymbols(names);
  return std::find(names.begin(), names.end(), *variable.AsSymbol()) != names.end();
}

bool Mentions(ArrayRef<Expr> index, const Expr& variable) {
  return std::any_of(index.begin(), index.end(),
                     [&](const Expr& e) { return Mentions(e, variable); });
}

// An element of a value inside the region.
struct Element {
  const Value* value = nullptr;
  Exprs index;

  const Node* producer() const { return value->producer; }
  bool Is(OpKind kind) const { return producer() && producer()->kind == kind; }
  Element Operand(int i) const {
    const Value* operand = producer()->operand(i);
    return {operand, BroadcastIndex(index, operand->type.shape)};
  }
};

// The keys behind a limit are hidden by a mask.
struct HiddenKeys {
  RowLimit limit;
  Dtype dtype = Dtype::kF32;  // of the mask
  bool to_infinity = false;   // their scores are -infinity, and not a low number
};

Exprs Replace(ArrayRef<Expr> index, const Expr& variable, const Expr& by, const Ranges& ranges) {
  Exprs replaced;
  for (const Expr& e : index) {
    replaced.push_back(e.Substitute(
        [&](const std::string& name) {
          return name == *variable.AsSymbol() ? std::optional(by) : std::nullopt;
        },
        ranges));
  }
  return replaced;
}

enum class Side { kEnd, kBegin };

class LimitFinder {
 public:
  // `queries` is the number of queries, if limits may depend on the number `query` of one. At the
  // side kBegin, a limit is the first row in use.
  LimitFinder(const RegionLowering& lowering, const Expr& key, std::optional<Expr> query,
              const Expr& queries, const Ranges& ranges, Side side = Side::kEnd)
      : lowering_(lowering),
        key_(key),
        query_(std::move(query)),
        queries_(queries),
        ranges_(ranges),
        side_(side) {}

  // The limit where `element` is a choice between another element and zero, which it is for the
  // keys behind the limit. Moves `element` to that other element.
  std::optional<RowLimit> OfZeros(Element& element) const {
    while (true) {
      element = BehindViewsAndCasts(std::move(element));
      if (!element.Is(OpKind::kWhere) || NumberIn(element.producer()->operand(2)) != 0)
        return std::nullopt;
      const auto limit = OfCondition(element.Operand(0));
      element = element.Operand(1);
      if (limit) return limit;
    }
  }

  // The limit from which on `element`, a score, is hidden by a mask: a choice between another score
  // and a number that hides, or a sum with such a choice.
  std::optional<HiddenKeys> OfScore(Element element) const {
    element = BehindViewsAndCasts(std::move(element));
    if (element.Is(OpKind::kAdd)) {
      const auto found = OfScore(element.Operand(0));
      return found ? found : OfScore(element.Operand(1));
    }
    if (!element.Is(OpKind::kWhere)) return std::nullopt;
    const std::optional<double> number = NumberIn(element.producer()->operand(2));
    if (!number || !Hides(*number, element.value->type.dtype)) return std::nullopt;
    const auto limit = OfCondition(element.Operand(0));
    if (!limit) return OfScore(element.Operand(1));
    return HiddenKeys{*limit, element.value->type.dtype, std::isinf(*number)};
  }

 private:
  std::optional<double> NumberIn(const Value* value) const {
    const TensorData* data = lowering_.ConstantPayload(value);
    return data && data->element_count() == 1 ? std::optional(data->GetDouble(0)) : std::nullopt;
  }

  // Whether a score of this number has no weight beside one that is not hidden (kLeastSeen in
  // attention_tile.cuh). Some exporters write the lowest finite number for -infinity.
  static bool Hides(double number, Dtype dtype) {
    constexpr double kLowestF16 = -65504, kLow = -1e30;
    return number <= (dtype == Dtype::kF16 ? kLowestF16 : kLow);
  }

  Element BehindViewsAndCasts(Element element) const {
    element = BehindViews(std::move(element));
    while (element.Is(OpKind::kCast) && IsFloat(element.producer()->operand(0)->type.dtype))
      element = BehindViews(element.Operand(0));
    return element;
  }

  // The element that views show at this place.
  Element BehindViews(Element element) const {
    while (element.producer() && GetOpDef(element.producer()->kind).op_class == OpClass::kView &&
           !element.producer()->operands.empty()) {
      const auto sources = ElementSources(*element.producer(), element.value->result_index,
                                          element.index, ranges_, NoIndexIsKnown);
      if (!sources || sources->size() != 1 || (*sources)[0].operand < 0) break;
      element = {element.producer()->operand((*sources)[0].operand), (*sources)[0].index};
    }
    return element;
  }

  // The limit without which the condition cannot hold.
  std::optional<RowLimit> OfCondition(Element condition) const {
    condition = BehindViews(std::move(condition));
    const Node* node = condition.producer();
    if (!node) return std::nullopt;
    switch (node->kind) {
      case OpKind::kAnd: {
        const auto first = OfCondition(condition.Operand(0));
        return first ? first : OfCondition(condition.Operand(1));
      }
      case OpKind::kLess:
        return OfComparison(*node, condition.Operand(0), condition.Operand(1), 0);
      case OpKind::kLessOrEqual:
        return OfComparison(*node, condition.Operand(0), condition.Operand(1), 1);
      case OpKind::kGreater:
        return OfComparison(*node, condition.Operand(1), condition.Operand(0), 0);
      case OpKind::kGreaterOrEqual:
        return OfComparison(*node, condition.Operand(1), condition.Operand(0), 1);
      default:
        return std::nullopt;
    }
  }

  // The limit that `low` < `high` + `plus` is, if `low` counts keys; at the side kBegin, if `high`
  // does.
  std::optional<RowLimit> OfComparison(const Node& comparison, const Element& low,
                                       const Element& high, int64_t plus) const {
    const bool ends = side_ == Side::kEnd;
    const Element& limit = ends ? high : low;
    if (!IsInteger(limit.value->type.dtype) || !IsWithoutKey(limit)) return std::nullopt;
    const std::optional<Expr> number = NumberAt(ends ? low : high);
    const auto before = number ? (*number - key_).AsConstant() : std::nullopt;
    if (!before || (query_ && !Ascends(limit))) return std::nullopt;
    const int64_t distance = ends ? plus - *before : 1 - plus - *before;
    return RowLimit{limit.value, limit.index, distance, comparison.result()};
  }

  // The number that an element of a range is.
  std::optional<Expr> NumberAt(Element element) const {
    element = BehindViews(std::move(element));
    if (!element.Is(OpKind::kRange) || !IsInteger(element.value->type.dtype)) return std::nullopt;
    const Node& range = *element.producer();
    return range.Int("delta") == 1 ? std::optional(element.index[0] + range.Int("start"))
                                   : std::nullopt;
  }

  bool IsWithoutKey(const Element& element) const { return !Mentions(element.index, key_); }

  // An index for another query.
  Expr At(const Expr& index, const Expr& query) const {
    return Replace({index}, *query_, query, ranges_)[0];
  }

  // Whether no query has a greater element than the last one, or a smaller one than the first.
  bool Ascends(Element element) const {
    if (!Mentions(element.index, *query_)) return true;
    element = BehindViews(std::move(element));
    if (!Mentions(element.index, *query_)) return true;
    const Node* node = element.producer();
    if (!node) return false;
    switch (node->kind) {
      case OpKind::kRange:
        return IsInteger(element.value->type.dtype) && node->Int("delta") >= 0 &&
               ranges_.ProvenNonNegative(At(element.index[0], queries_ - 1) - element.index[0]) &&
               ranges_.ProvenNonNegative(element.index[0] - At(element.index[0], 0));
      case OpKind::kCast:
        return IsInteger(node->operand(0)->type.dtype) && Ascends(element.Operand(0));
      case OpKind::kAdd:
      case OpKind::kMax:
      case OpKind::kMin:
        for (size_t i = 0; i < node->operands.size(); ++i) {
          if (!Ascends(element.Operand(static_cast<int>(i)))) return false;
        }
        return true;
      case OpKind::kSub:
        return Ascends(element.Operand(0)) &&
               !Mentions(BehindViews(element.Operand(1)).index, *query_);
      default:
        return false;
    }
  }

  const RegionLowering& lowering_;
  const Expr key_;
  const std::optional<Expr> query_;
  const Expr queries_;
  const Ranges& ranges_;
  const Side side_;
};

}  // namespace

std::optional<LimitedRow> LimitOfValues(const RegionLowering& lowering, const AttentionParts& parts,
                                        ArrayRef<Expr> element, const Expr& key,
                                        const Ranges& ranges) {
  Element rows{parts.values->operand(1), Exprs(element)};
  const auto limit = LimitFinder(lowering, key, std::nullopt, 0, ranges).OfZeros(rows);
  if (!limit) return std::nullopt;
  return LimitedRow{rows.value, rows.index, *limit};
}

namespace {

// Writes the locals that DeclareUsedRows declares.
class UsedRowsWriter {
 public:
  UsedRowsWriter(RegionLowering& lowering, const AttentionParts& parts,
                 const AttentionExtents& extents)
      : lowering_(lowering),
        builder_(lowering.builder()),
        parts_(parts),
        extents_(extents),
        ranges_(builder_.ranges()),
        query_(SetVariable(ranges_, "query_row", 0, extents.queries - 1)),
        key_(SetVariable(ranges_, "key_row", 0, extents.keys - 1)) {}

  UsedRows Declare() {
    UsedRows used = DeclareEnd();
    const std::optional<HiddenKeys> hidden = FindHiddenKeys(Side::kBegin);
    if (!hidden || !hidden->to_infinity) return used;
    builder_.Comment("No query sees earlier keys, which are outside of its window.");
    DeclareCount("unseen_keys", RowsBefore(LimitOf(*hidden, 0)), 0);
    used.has_begin = true;
    return used;
  }

 private:
  UsedRows DeclareEnd() {
    const std::optional<HiddenKeys> hidden = FindHiddenKeys(Side::kEnd);
    if (!hidden) return {};
    const std::optional<RowLimit> zeros = FindZeros();
    builder_.Blank();
    builder_.Comment("The rows of the cache that are in use. No query sees later keys.");
    if (zeros) DeclareCount("used_values", RowsBefore(*zeros), 0);
    const RowLimit limit = LimitOf(*hidden, extents_.queries - 1);
    const CExpr least = zeros ? CExpr("used_values") : CExpr(0);
    if (hidden->to_infinity) {
      DeclareCount("used_keys", RowsBefore(limit), least);
    } else {
      DeclareCount("seen_keys", RowsBefore(limit), least);
      DeclareUsedKeys(*hidden);
    }
    DeclareCount("seen_by_all", RowsBefore(LimitOf(*hidden, 0)), 0);
    return {true, zeros.has_value(),
            IsReadOnce(hidden->limit.comparison) ? hidden->limit.comparison : nullptr};
  }

  Exprs At(const Value* value, const Expr& row, const Expr& last) const {
    const Shape& shape = value->type.shape;
    Exprs index =
        Delinearize(Variable("head"), Shape(shape.begin(), shape.end() - 2), builder_.ranges());
    index.insert(index.end(), {row, last});
    return index;
  }

  // Whether each element of `value`, a part of the mask, is read for one score alone: it has one
  // reader, and so have the results up to the score.
  bool IsReadOnce(const Value* value) const {
    while (value != parts_.score) {
      const Node* reader = nullptr;
      for (const auto& node : lowering_.region().body->nodes) {
        for (const Value* operand : node->operands) {
          if (operand != value) continue;
          if (reader != nullptr) return false;
          reader = node.get();
        }
      }
      if (reader == nullptr || reader->results.size() != 1) return false;
      value = reader->result();
    }
    return true;
  }

  std::optional<HiddenKeys> FindHiddenKeys(Side side) const {
    if (!parts_.has_softmax) return std::nullopt;
    return LimitFinder(lowering_, key_, query_, extents_.queries, ranges_, side)
        .OfScore({parts_.score, At(parts_.score, query_, key_)});
  }

  std::optional<RowLimit> FindZeros() {
    const Value* values = parts_.values->result();
    const Expr column = SetVariable(ranges_, "column", 0, values->type.shape.back() - 1);
    const auto found = LimitOfValues(
        lowering_, parts_, MatMulOperandIndex(*parts_.values, 1, At(values, 0, column), key_), key_,
        ranges_);
    return found ? std::optional(found->limit) : std::nullopt;
  }

  // The number of rows in front of the limit, at most all keys, plus `more`.
  CExpr RowsBefore(const RowLimit& limit, int64_t more = 0) {
    const CExpr value = Cast("long long", lowering_.Evaluate(limit.value, limit.index).value);
    const CExpr most = limit.plus == 0 ? Count() : Count() - limit.plus;
    const CExpr rows = Min(value, Cast("long long", most));
    return limit.plus + more == 0 ? rows : rows + (limit.plus + more);
  }
  RowLimit LimitOf(const HiddenKeys& hidden, const Expr& query) const {
    RowLimit limit = hidden.limit;
    limit.index = Replace(limit.index, query_, query, ranges_);
    return limit;
  }
  CExpr Count() { return builder_.Write(extents_.keys, Only(extents_.keys_name)); }

  // Declares a local for `rows`, but at least `least`.
  void DeclareCount(const char* name, const CExpr& rows, const CExpr& least) {
    builder_.AppendLet(name,
                       Cast(builder_.index_type(), Call("max", {rows, Cast("long long", least)})));
    builder_.DefineVariable(name, 0, extents_.keys);
  }

  // Beside a hidden score, which is a low number, a key has no weight only if its query sees a key.
  // The last one in front of the limit is the one that it sees in a causal mask. Other masks may
  // hide that one: its score is computed, without its product.
  void DeclareUsedKeys(const HiddenKeys& hidden) {
    builder_.Comment(
        "Hidden keys have no weight if each query sees its own last key, else they do.");
    builder_.Append(Statement::Declare("bool", "sees_key", "true"));
    builder_.Open();
    builder_.DefineVariable("i", 0, extents_.tile.count - 1);
    const Expr query = LetWithin(builder_, "query_row", CExpr("first_query") + "i",
                                 extents_.queries, extents_.queries_name, extents_.tile.count);
    const CExpr last = Call("max", {RowsBefore(hidden.limit, -1), Cast("long long", 0)});
    builder_.AppendLet("key_row", Cast(builder_.index_type(), last));
    builder_.DefineVariable("key_row", 0, extents_.keys - 1);
    builder_.Append(Statement::Let("float", "product", "0.0f"));
    builder_.DefineVariable("product", 0, 0);
    bool reads_product = false;
    const CExpr score = EvaluateScore(lowering_, parts_,
                                      At(parts_.score, query, Variable("key_row")), reads_product)
                            .value;
    const bool is_half = hidden.dtype == Dtype::kF16;
    builder_.Assign("sees_key",
                    And("sees_key", score > (is_half ? "kLeastSeenHalf" : "kLeastSeen")));
    builder_.CloseFor(
        LoopHeader(builder_, "i", "threadIdx.x", extents_.tile.name, BlockSizeName(builder_)));
    const CExpr all_see = Call("__syncthreads_and", {"sees_key"});
    builder_.AppendLet("used_keys", Conditional(all_see, "seen_keys", Count()));
    builder_.DefineVariable("used_keys", 0, extents_.keys);
  }

  RegionLowering& lowering_;
  KernelBuilder& builder_;
  const AttentionParts& parts_;
  const AttentionExtents& extents_;
  Ranges ranges_;
  const Expr query_, key_;
};

}  // namespace

UsedRows DeclareUsedRows(RegionLowering& lowering, const AttentionParts& parts,
                         const AttentionExtents& extents) {
  return UsedRowsWriter(lowering, parts, extents).Declare();
}

}  // namespace fusec
