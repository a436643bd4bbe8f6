#include "compiler/region/index_limits.h"

#include <algorithm>
#include <optional>
#include <unordered_map>
#include <utility>

#include "compiler/index/variables.h"
#include "compiler/ir/element_sources.h"
#include "compiler/ir/integer_facts.h"
#include "compiler/ir/op_def.h"
#include "compiler/ir/symbolic_contents.h"

namespace fusec {

namespace {

// Limits along an axis with more indices than this are merged into one.
constexpr int64_t kMostPlaces = 4096;
// The limit of integers that nothing else limits.
constexpr int64_t kUnlimited = 1001;
// Marks floats that need not be integers.
constexpr int64_t kAnyFloat = 0;

// The limits of one value: at[0] for all its elements if `axis` is -1, else at[i] for index i of
// that axis. nullopt means that nothing is known.
struct Limits {
  int axis = -1;
  std::vector<std::optional<Expr>> at;
};

using Index = Exprs;

class LimitFinder {
 public:
  explicit LimitFinder(const Graph& graph) : graph_(graph), ranges_(graph.SymbolRanges()) {}

  void Find() {
    // From the end, so that all readers of a value are visited before it.
    for (size_t i = graph_.nodes.size(); i-- > 0;) {
      const Node& node = *graph_.nodes[i];
      LimitIndices(node);
      LimitIntegersInFloats(node);
      const auto found = limits_.find(node.result());
      if (found != limits_.end()) PassOn(node, found->second);
    }
  }

  std::map<std::string, IndexLimits> limits() const {
    std::map<std::string, IndexLimits> by_name;
    for (size_t i = 0; i < graph_.inputs.size(); ++i) {
      const auto found = limits_.find(graph_.inputs[i].get());
      if (found == limits_.end()) continue;
      IndexLimits& result = by_name[graph_.InputName(i)];
      const bool is_integer = IsInteger(graph_.inputs[i]->type.dtype);
      for (const auto& limit : found->second.at)
        result.limits.push_back(limit.value_or(Expr(is_integer ? kUnlimited : kAnyFloat)));
      const bool differ = std::any_of(result.limits.begin(), result.limits.end(),
                                      [&](const Expr& limit) { return limit != result.limits[0]; });
      if (differ)
        result.axis = found->second.axis;
      else
        result.limits.resize(1);
    }
    return by_name;
  }
  std::set<std::string> ascending() const {
    std::set<std::string> names;
    for (size_t i = 0; i < graph_.inputs.size(); ++i) {
      if (ascending_.count(graph_.inputs[i].get())) names.insert(graph_.InputName(i));
    }
    return names;
  }

 private:
  std::optional<Expr> LesserOf(const std::optional<Expr>& a, const std::optional<Expr>& b) const {
    if (!a || !b) return a ? a : b;
    return Min(*a, *b, ranges_);
  }
  // The least of the limits, as one limit for all elements.
  Limits Least(const Limits& limits) const {
    std::optional<Expr> least;
    for (const auto& limit : limits.at) least = LesserOf(least, limit);
    return {-1, {least}};
  }

  void Limit(const Value* value, const Expr& limit) { Limit(value, Limits{-1, {limit}}); }
  void Limit(const Value* value, Limits limits) {
    const auto differs = [&](const std::optional<Expr>& limit) { return limit != limits.at[0]; };
    if (std::none_of(limits.at.begin(), limits.at.end(), differs)) {
      if (!limits.at[0]) return;
      limits = {-1, {limits.at[0]}};
    }
    const auto [place, fresh] = limits_.try_emplace(value, limits);
    if (fresh) return;
    Limits& known = place->second;
    if (known.axis < 0) std::swap(known, limits);
    if (limits.axis != known.axis) limits = Least(limits);
    for (size_t i = 0; i < known.at.size(); ++i)
      known.at[i] = LesserOf(known.at[i], limits.at[limits.axis < 0 ? 0 : i]);
  }

  void LimitIndices(const Node& node) {
    const auto index_use = IntegerFactsOf(node.kind).index_use;
    for (int i = 0; index_use != nullptr && i < static_cast<int>(node.operands.size()); ++i) {
      const std::optional<IndexUse> use = index_use(node, i);
      if (!use) continue;
      for (const Expr& limit : use->limits) Limit(node.operand(i), limit);
      if (use->ascend) ascending_.insert(node.operand(i));
    }
    // Integers of rank 2 or more that are used in arithmetic are usually masks, which models apply
    // as (1 - mask) * -3.4e38 added to scores: any value but 0 and 1 would give infinities. Models
    // with a cache add masks up, to find lengths.
    const bool is_arithmetic =
        (node.kind == OpKind::kCast && IsFloat(node.result()->type.dtype)) ||
        node.kind == OpKind::kReduceSum;
    if (is_arithmetic && node.operand(0)->type.rank() >= 2 &&
        IsInteger(node.operand(0)->type.dtype))
      Limit(node.operand(0), 2);
  }

  // Floats that are cast to integers are ids or lengths stored beside dense features in one matrix.
  void LimitIntegersInFloats(const Node& node) {
    if (node.kind != OpKind::kCast || !IsInteger(node.result()->type.dtype)) return;
    const Value* floats = node.operand(0);
    if (IsFloat(floats->type.dtype)) Limit(floats, kUnlimited);
  }

  // The elements of a value that is known at compile time.
  const std::optional<std::vector<int64_t>>& Elements(const Value* value) {
    const auto [place, fresh] = elements_.try_emplace(value);
    if (fresh) place->second = ReadElements(value);
    return place->second;
  }
  std::optional<std::vector<int64_t>> ReadElements(const Value* value) const {
    std::vector<int64_t> elements;
    if (IsConstant(value)) {
      const TensorData* data = Payload(value);
      if (data == nullptr) return std::nullopt;
      for (int64_t i = 0; i < data->element_count(); ++i) elements.push_back(data->GetInt(i));
    } else if (const auto contents = SymbolicContents(value, ranges_)) {
      for (const Expr& element : *contents) {
        const auto number = element.AsConstant();
        if (!number) return std::nullopt;
        elements.push_back(*number);
      }
    }
    if (elements.empty()) return std::nullopt;
    return elements;
  }
  std::optional<int64_t> KnownElement(const Value* value, ArrayRef<Expr> index) {
    const auto position = Linearize(index, value->type.shape, ranges_).AsConstant();
    if (!position || !Elements(value)) return std::nullopt;
    const std::vector<int64_t>& elements = *Elements(value);
    const bool is_inside = *position >= 0 && *position < static_cast<int64_t>(elements.size());
    return is_inside ? std::optional(elements[*position]) : std::nullopt;
  }

  // Limits the operands of `node` such that its result stays below `limits`.
  void PassOn(const Node& node, const Limits& limits) {
    const OpClass op_class = GetOpDef(node.kind).op_class;
    if (op_class == OpClass::kView || op_class == OpClass::kGather)
      return PassOnElements(node, limits);
    const bool is_integer = IsInteger(node.result()->type.dtype);
    if (!is_integer && node.kind != OpKind::kCast) return;  // float results are not ids
    const IntegerFacts& facts = IntegerFactsOf(node.kind);
    if (facts.keeps_order && ascending_.count(node.result()))
      ascending_.insert(node.operands.begin(), node.operands.end());
    if (facts.operand_limit == nullptr) return;
    // Moves elements to data-dependent indices.
    const bool moves = op_class == OpClass::kSequential;
    for (int i = 0; i < static_cast<int>(node.operands.size()); ++i)
      PassOnTo(node, i, moves ? Least(limits) : limits);
  }

  // The limits of a broadcast operand from those of the result.
  Limits BeforeBroadcast(const Node& node, const Value* operand, const Limits& limits) const {
    if (limits.axis < 0) return limits;
    const Shape& shape = node.result()->type.shape;
    const int axis = limits.axis - static_cast<int>(shape.size()) + operand->type.rank();
    if (axis < 0 || operand->type.shape[axis] != shape[limits.axis]) return Least(limits);
    return {axis, limits.at};
  }

  // Passes limits on to an operand of a pointwise op or sort.
  void PassOnTo(const Node& node, int operand, const Limits& limits) {
    const Value* value = node.operand(operand);
    const Value* other = node.operands.size() == 2 ? node.operand(1 - operand) : nullptr;
    const std::vector<int64_t>* constants =
        other != nullptr && Elements(other) ? &*Elements(other) : nullptr;
    Limits before = limits;
    const int axis = constants != nullptr ? AxisOf(node, other) : -1;
    const bool by_place = axis >= 0 && (limits.axis < 0 || limits.axis == axis);
    if (by_place && limits.axis < 0) before = {axis, {constants->size(), limits.at[0]}};
    std::optional<LimitContext::Interval> interval;
    if (constants != nullptr) {
      const auto [least, greatest] = std::minmax_element(constants->begin(), constants->end());
      interval = {*least, *greatest};
    }
    for (size_t i = 0; i < before.at.size(); ++i) {
      if (by_place) interval = {(*constants)[i], (*constants)[i]};
      before.at[i] = IntegerFactsOf(node.kind).operand_limit(
          {operand, value->type.dtype, before.at[i], interval, ranges_});
    }
    if (by_place && node.kind == OpKind::kAdd) LimitToNextOffset(*constants, before);
    Limit(value, BeforeBroadcast(node, value, before));
  }

  // Passes limits on to the operands from which a view or gather takes elements.
  void PassOnElements(const Node& node, const Limits& limits) {
    const Index anywhere = AnyIndex(node.result()->type.shape, ranges_);
    std::set<int> operands;  // those visited
    for (const Read& read : ReadsOf(node, anywhere)) {
      const Value* value = node.operand(read.operand);
      if (!operands.insert(read.operand).second) continue;
      if (ascending_.count(node.result())) ascending_.insert(value);
      if (limits.axis < 0)
        Limit(value, BeforeTaking(node, read, anywhere, limits.at[0]));
      else
        Limit(value, BeforeReads(value, ReadsByPlace(node, read.operand, anywhere, limits)));
    }
  }

  struct Read {
    int operand = 0;
    Index index;
    std::optional<Expr> limit;
  };

  std::vector<Read> ReadsOf(const Node& node, const Index& index,
                            const std::optional<Expr>& limit = std::nullopt) {
    const auto index_at = [&](int operand, ArrayRef<Expr> position,
                              const Expr& extent) -> std::optional<Expr> {
      const std::optional<int64_t> place = KnownElement(node.operand(operand), position);
      if (!place) return Variable("data");  // an unknown index
      return *place < 0 ? extent + *place : Expr(*place);
    };
    std::vector<Read> reads;
    for (ElementSource& source :
         ElementSources(node, 0, index, ranges_, index_at).value_or(std::vector<ElementSource>())) {
      if (source.operand >= 0) reads.push_back({source.operand, std::move(source.index), limit});
    }
    return reads;
  }

  // The reads of `operand` for each index of the limited axis.
  std::vector<Read> ReadsByPlace(const Node& node, int operand, Index index, const Limits& limits) {
    std::vector<Read> reads;
    for (size_t i = 0; i < limits.at.size(); ++i) {
      index[limits.axis] = Expr(static_cast<int64_t>(i));
      for (Read& read : ReadsOf(node, index, limits.at[i])) {
        if (read.operand == operand) reads.push_back(std::move(read));
      }
    }
    return reads;
  }

  // The limits of data that is read at known indices: per index of the axis along which the most
  // indices are read.
  Limits BeforeReads(const Value* data, ArrayRef<Read> reads) const {
    Limits best{-1, {std::nullopt}};
    for (const Read& read : reads) best.at[0] = LesserOf(best.at[0], read.limit);
    size_t most = 0;
    for (int axis = 0; axis < data->type.rank(); ++axis) {
      const auto size = data->type.shape[axis].AsConstant();
      if (!size || *size < 2 || *size > kMostPlaces) continue;
      Limits before{axis, std::vector<std::optional<Expr>>(*size)};
      std::set<int64_t> places;
      const bool known = std::all_of(reads.begin(), reads.end(), [&](const Read& read) {
        const auto place = read.index[axis].AsConstant();
        if (!place || *place < 0 || *place >= *size) return false;
        before.at[*place] = LesserOf(before.at[*place], read.limit);
        return places.insert(*place), true;
      });
      if (!known || places.size() <= most) continue;
      most = places.size();
      best = std::move(before);
    }
    return best;
  }

  // The limits of data that has the same limit wherever it is read: per index of the first axis
  // along which some indices are not read.
  Limits BeforeTaking(const Node& node, const Read& anywhere, const Index& index,
                      const std::optional<Expr>& limit) {
    const Value* data = node.operand(anywhere.operand);
    const Shape &from = data->type.shape, &shape = node.result()->type.shape;
    std::vector<Read> reads = {{anywhere.operand, anywhere.index, limit}};
    for (int axis = -1; axis < static_cast<int>(shape.size()); ++axis) {
      if (axis >= 0) {
        const auto count = shape[axis].AsConstant();
        bool stays = false;
        for (size_t i = 0; i < from.size(); ++i)
          stays |= anywhere.index[i] == index[axis] && from[i] == shape[axis];
        if (stays || !count || *count < 2 || *count > kMostPlaces) continue;
        const Limits same{axis, std::vector<std::optional<Expr>>(*count, limit)};
        reads = ReadsByPlace(node, anywhere.operand, index, same);
      }
      Limits before = BeforeReads(data, reads);
      if (std::count(before.at.begin(), before.at.end(), std::nullopt) != 0) return before;
    }
    return {-1, {limit}};
  }

  // The axis of the result along which a broadcast operand varies; -1 if there is none or several.
  static int AxisOf(const Node& node, const Value* operand) {
    const Shape& shape = operand->type.shape;
    int found = -1;
    for (int axis = 0; axis < static_cast<int>(shape.size()); ++axis) {
      if (shape[axis].IsConstant(1)) continue;
      if (found >= 0 || *shape[axis].AsConstant() > kMostPlaces) return -1;
      found = axis;
    }
    return found < 0 ? -1 : found + node.result()->type.rank() - operand->type.rank();
  }

  // Ascending offsets are the begins of several tables that are stacked into one.
  void LimitToNextOffset(ArrayRef<int64_t> offsets, Limits& limits) const {
    if (!std::is_sorted(offsets.begin(), offsets.end(), std::less_equal<>())) return;
    for (size_t i = 0; i + 1 < offsets.size(); ++i)
      limits.at[i] = LesserOf(limits.at[i], Expr(offsets[i + 1] - offsets[i]));
  }

  const Graph& graph_;
  Ranges ranges_;
  std::unordered_map<const Value*, Limits> limits_;  // looked up, never iterated
  std::unordered_map<const Value*, std::optional<std::vector<int64_t>>>
      elements_;        // looked up, never iterated
  ValueSet ascending_;  // looked up, never iterated
};

}  // namespace

std::map<std::string, IndexLimits> FindIndexLimits(const Graph& graph) {
  LimitFinder finder(graph);
  finder.Find();
  return finder.limits();
}

std::set<std::string> AscendingInputs(const Graph& graph) {
  LimitFinder finder(graph);
  finder.Find();
  return finder.ascending();
}

}  // namespace fusec
