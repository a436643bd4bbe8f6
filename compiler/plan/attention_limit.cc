#include "compiler/plan/attention_limit.h"

#include <algorithm>
#include <limits>

#include "compiler/ir/element_sources.h"
#include "compiler/ir/op_def.h"
#include "compiler/plan/plan_region.h"
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

class LimitFinder {
 public:
  // `queries` is the number of queries, if limits may depend on the number `query` of one.
  LimitFinder(const RegionLowering& lowering, const Expr& key, std::optional<Expr> query,
              const Expr& queries, const Ranges& ranges)
      : lowering_(lowering),
        key_(key),
        query_(std::move(query)),
        queries_(queries),
        ranges_(ranges) {}

  // The limit where `element` is a choice between another element and `fill`, which it is for the
  // keys behind the limit. Moves `element` to that other element.
  std::optional<RowLimit> OfChoice(Element& element, double fill) const {
    while (true) {
      element = BehindViews(std::move(element));
      if (element.Is(OpKind::kCast) && IsFloat(element.producer()->operand(0)->type.dtype)) {
        element = element.Operand(0);
        continue;
      }
      if (!element.Is(OpKind::kWhere) || !IsNumber(element.producer()->operand(2), fill))
        return std::nullopt;
      const auto limit = OfCondition(element.Operand(0));
      element = element.Operand(1);
      if (limit) return limit;
    }
  }

 private:
  bool IsNumber(const Value* value, double number) const {
    const TensorData* data = lowering_.ConstantPayload(value);
    return data && data->element_count() == 1 && data->GetDouble(0) == number;
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
        return OfComparison(condition.Operand(0), condition.Operand(1), 0);
      case OpKind::kLessOrEqual:
        return OfComparison(condition.Operand(0), condition.Operand(1), 1);
      case OpKind::kGreater:
        return OfComparison(condition.Operand(1), condition.Operand(0), 0);
      case OpKind::kGreaterOrEqual:
        return OfComparison(condition.Operand(1), condition.Operand(0), 1);
      default:
        return std::nullopt;
    }
  }

  // The limit that `low` < `high` + `plus` is, if `low` counts keys.
  std::optional<RowLimit> OfComparison(const Element& low, const Element& high,
                                       int64_t plus) const {
    if (!IsInteger(high.value->type.dtype) || !IsWithoutKey(high)) return std::nullopt;
    const std::optional<Expr> number = NumberAt(low);
    const auto before = number ? (*number - key_).AsConstant() : std::nullopt;
    if (!before || (query_ && !IsGreatestForLast(high))) return std::nullopt;
    RowLimit limit{high.value, high.index, plus - *before};
    for (Expr& e : limit.index) e = AtLast(e);
    return limit;
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

  // An index for the last query.
  Expr AtLast(const Expr& index) const {
    if (!query_) return index;
    return index.Substitute(
        [&](const std::string& name) {
          return name == *query_->AsSymbol() ? std::optional(queries_ - 1) : std::nullopt;
        },
        ranges_);
  }

  // Whether no query has a greater element than the last one.
  bool IsGreatestForLast(Element element) const {
    if (!Mentions(element.index, *query_)) return true;
    element = BehindViews(std::move(element));
    if (!Mentions(element.index, *query_)) return true;
    const Node* node = element.producer();
    if (!node) return false;
    switch (node->kind) {
      case OpKind::kRange:
        return IsInteger(element.value->type.dtype) && node->Int("delta") >= 0 &&
               ranges_.ProvenNonNegative(AtLast(element.index[0]) - element.index[0]);
      case OpKind::kCast:
        return IsInteger(node->operand(0)->type.dtype) && IsGreatestForLast(element.Operand(0));
      case OpKind::kAdd:
      case OpKind::kMax:
      case OpKind::kMin:
        for (size_t i = 0; i < node->operands.size(); ++i) {
          if (!IsGreatestForLast(element.Operand(static_cast<int>(i)))) return false;
        }
        return true;
      case OpKind::kSub:
        return IsGreatestForLast(element.Operand(0)) &&
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
};

}  // namespace

std::optional<LimitedRow> LimitOfValues(const RegionLowering& lowering, const AttentionParts& parts,
                                        ArrayRef<Expr> element, const Expr& key,
                                        const Ranges& ranges) {
  Element rows{parts.values->operand(1), Exprs(element)};
  const auto limit = LimitFinder(lowering, key, std::nullopt, 0, ranges).OfChoice(rows, 0);
  if (!limit) return std::nullopt;
  return LimitedRow{rows.value, rows.index, *limit};
}

bool DeclareUsedRows(RegionLowering& lowering, const AttentionParts& parts,
                     const AttentionExtents& extents) {
  KernelBuilder& builder = lowering.builder();
  Ranges ranges = builder.ranges();
  const Node& values = *parts.values;
  const Expr columns = values.result()->type.shape.back();
  const Expr query = SetVariable(ranges, "query_row", 0, extents.queries - 1),
             key = SetVariable(ranges, "key_row", 0, extents.keys - 1),
             column = SetVariable(ranges, "column", 0, columns - 1);
  const auto at = [&](const Value* value, const Expr& row, const Expr& last) {
    const Shape& shape = value->type.shape;
    Exprs index =
        Delinearize(Variable("head"), Shape(shape.begin(), shape.end() - 2), builder.ranges());
    index.insert(index.end(), {row, last});
    return index;
  };
  std::optional<RowLimit> of_keys;
  if (parts.has_softmax) {
    Element score{parts.score, at(parts.score, query, key)};
    of_keys = LimitFinder(lowering, key, query, extents.queries, ranges)
                  .OfChoice(score, -std::numeric_limits<double>::infinity());
  }
  const auto of_values = LimitOfValues(
      lowering, parts, MatMulOperandIndex(values, 1, at(values.result(), 0, column), key), key,
      ranges);
  if (!of_keys || !of_values) return false;
  builder.Blank();
  builder.Comment("The rows of the cache that are in use. No query sees later keys.");
  const auto declare = [&](const char* name, const RowLimit& limit, const CExpr& least) {
    const CExpr bound = lowering.Evaluate(limit.value, limit.index).value;
    const CExpr rows = limit.plus == 0 ? bound : bound + limit.plus;
    const CExpr count = builder.Write(extents.keys, Only(extents.keys_name));
    const CExpr most = Min(Cast("long long", rows), Cast("long long", count));
    const CExpr both = Call("max", {most, Cast("long long", least)});
    builder.AppendLet(name, Cast(builder.index_type(), both));
    builder.DefineVariable(name, 0, extents.keys);
  };
  declare("used_values", of_values->limit, 0);
  declare("used_keys", *of_keys, "used_values");
  return true;
}

}  // namespace fusec
