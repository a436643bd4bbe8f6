#include "compiler/region/index_limits.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <optional>
#include <utility>

#include "compiler/ir/symbolic_contents.h"

namespace fusec {

namespace {

// Limits of a value along more places than these become one.
constexpr int64_t kMostPlaces = 4096;
// Of places that nothing limits, in an input that is limited elsewhere.
constexpr int64_t kUnlimited = 1001;

// Of one value: at[0] for all its elements if `axis` is -1, else at[i] for place i of that axis,
// where nothing is known of places that have none.
struct Limits {
  int axis = -1;
  std::vector<std::optional<Expr>> at;
};

class LimitFinder {
 public:
  explicit LimitFinder(const Graph& graph) : graph_(graph), ranges_(graph.SymbolRanges()) {}

  void Find() {
    // From the end, so that all readers of a value have had their say.
    for (size_t i = graph_.nodes.size(); i-- > 0;) {
      const Node& node = *graph_.nodes[i];
      LimitIndices(node);
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
      for (const auto& limit : found->second.at)
        result.limits.push_back(limit.value_or(Expr(kUnlimited)));
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
  // The limits as one for all.
  Limits Least(const Limits& limits) const {
    std::optional<Expr> least;
    for (const auto& limit : limits.at) least = LesserOf(least, limit);
    return {-1, {least}};
  }

  void Limit(const Value* value, const Expr& limit) { Limit(value, Limits{-1, {limit}}); }
  void Limit(const Value* value, Limits limits) {
    if (!IsInteger(value->type.dtype)) return;
    const auto [place, fresh] = limits_.emplace(value, limits);
    if (fresh) return;
    Limits& known = place->second;
    if (known.axis < 0) std::swap(known, limits);
    if (limits.axis != known.axis) limits = Least(limits);
    for (size_t i = 0; i < known.at.size(); ++i)
      known.at[i] = LesserOf(known.at[i], limits.at[limits.axis < 0 ? 0 : i]);
  }

  void LimitIndices(const Node& node) {
    switch (node.kind) {
      case OpKind::kGather:
      case OpKind::kGatherElements:
      case OpKind::kScatterElements:
        return Limit(node.operand(1), node.operand(0)->type.shape[node.Int("axis")]);
      case OpKind::kSegmentReduce:  // bounds: all rows may be left out
        for (int i = 1; i < static_cast<int>(node.operands.size()); ++i) {
          Limit(node.operand(i), node.operand(0)->type.shape[0] + 1);
          ascending_.insert(node.operand(i));
        }
        return;
      case OpKind::kCast:
        // Integers of rank 2 and more that are calculated with are masks, as a rule, and masks add
        // (1 - mask) * -3.4e38 to scores: any other value would be an infinity.
        if (node.operand(0)->type.rank() >= 2 && IsFloat(node.result()->type.dtype)) {
          Limit(node.operand(0), 2);
        }
        return;
      case OpKind::kGatherND:
      case OpKind::kScatterND: {
        const int64_t first = node.Has("batch_dims") ? node.Int("batch_dims") : 0;
        const Shape& data = node.operand(0)->type.shape;
        const auto count = node.operand(1)->type.shape.back().AsConstant();
        for (int64_t i = 0; count && i < *count; ++i) {
          Limit(node.operand(1), data[first + i]);
        }
        return;
      }
      default:
        return;
    }
  }

  // The elements of a value that is known at compile time.
  std::optional<std::vector<int64_t>> Elements(const Value* value) const {
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

  // What `node`'s operands must stay below for its result to stay below `limits`.
  void PassOn(const Node& node, const Limits& limits) {
    const Value* first = node.operand(0);
    if (ascending_.count(node.result())) PassOnAscent(node);
    switch (node.kind) {
      case OpKind::kCast:
      case OpKind::kIdentity:
        return Limit(first, limits);
      case OpKind::kExpand:
      case OpKind::kTile:
        return Limit(first, BeforeBroadcast(node, first, limits));
      case OpKind::kGather:
        return Limit(first, BeforeGather(node, limits));
      case OpKind::kGatherElements:
      case OpKind::kGatherND:
        return Limit(first, Least(limits));
      case OpKind::kReshape:
        return Limit(first, BeforeReshape(node, limits));
      case OpKind::kSlice:
        return Limit(first, BeforeSlice(node, limits));
      case OpKind::kTranspose: {
        const bool one = limits.axis < 0;
        const int axis = one ? -1 : static_cast<int>(node.Ints("perm")[limits.axis]);
        return Limit(first, {axis, limits.at});
      }
      case OpKind::kConcat:
        return PassOnConcat(node, limits);
      case OpKind::kMax:
        for (const Value* operand : node.operands)
          Limit(operand, BeforeBroadcast(node, operand, limits));
        return;
      case OpKind::kWhere:
        for (const int i : {1, 2})
          Limit(node.operand(i), BeforeBroadcast(node, node.operand(i), limits));
        return;
      case OpKind::kMod:  // any id finds a row; of 2^62, few products with constants overflow
        return Limit(first, DtypeBytes(first->type.dtype) == 8
                                ? Expr(int64_t{1} << 62)
                                : Expr(std::numeric_limits<int32_t>::max()));
      case OpKind::kAdd:
      case OpKind::kSub:
      case OpKind::kMul:
      case OpKind::kDiv:
        return PassOnArithmetic(node, limits);
      default:
        return;
    }
  }

  void PassOnAscent(const Node& node) {
    switch (node.kind) {
      case OpKind::kCast:
      case OpKind::kExpand:
      case OpKind::kGather:
      case OpKind::kGatherElements:
      case OpKind::kGatherND:
      case OpKind::kIdentity:
      case OpKind::kReshape:
      case OpKind::kSlice:
      case OpKind::kTile:
      case OpKind::kTranspose:
        ascending_.insert(node.operand(0));
        return;
      case OpKind::kConcat:
      case OpKind::kMax:
        ascending_.insert(node.operands.begin(), node.operands.end());
        return;
      default:
        return;
    }
  }

  // Of an operand that is repeated, or has fewer axes than the result.
  Limits BeforeBroadcast(const Node& node, const Value* operand, const Limits& limits) const {
    if (limits.axis < 0) return limits;
    const Shape& shape = node.result()->type.shape;
    const int axis = limits.axis - static_cast<int>(shape.size()) + operand->type.rank();
    if (axis < 0 || operand->type.shape[axis] != shape[limits.axis]) return Least(limits);
    return {axis, limits.at};
  }

  // Of data of which `places` along `axis` are taken, with these limits, in this order; negative
  // places count from the end.
  Limits BeforeTaking(const Value* data, int axis, const std::vector<int64_t>& places,
                      const Limits& limits) const {
    const auto size = data->type.shape[axis].AsConstant();
    if (!size || *size > kMostPlaces) return Least(limits);
    Limits before{axis, std::vector<std::optional<Expr>>(*size)};
    for (size_t i = 0; i < places.size(); ++i) {
      const int64_t place = places[i] < 0 ? places[i] + *size : places[i];
      if (place < 0 || place >= *size) continue;
      before.at[place] = LesserOf(before.at[place], limits.at[limits.axis < 0 ? 0 : i]);
    }
    return before;
  }

  Limits BeforeGather(const Node& node, const Limits& limits) const {
    const int axis = static_cast<int>(node.Int("axis"));
    const int index_rank = node.operand(1)->type.rank();
    if (limits.axis >= 0 && limits.axis < axis) return limits;
    if (limits.axis >= axis + index_rank) return {limits.axis - index_rank + 1, limits.at};
    const auto places = Elements(node.operand(1));
    if (!places || index_rank > 1) return Least(limits);
    return BeforeTaking(node.operand(0), axis, *places, limits);
  }

  Limits BeforeSlice(const Node& node, const Limits& limits) const {
    const Value* data = node.operand(0);
    const Shape& shape = node.result()->type.shape;
    const std::vector<Expr>& starts = node.Get<std::vector<Expr>>("starts");
    for (int axis = 0; axis < static_cast<int>(shape.size()); ++axis) {
      const bool wanted =
          limits.axis < 0 ? shape[axis] != data->type.shape[axis] : axis == limits.axis;
      const auto start = starts[axis].AsConstant(), count = shape[axis].AsConstant();
      if (!wanted || !start || !count || *count > kMostPlaces) continue;
      std::vector<int64_t> places;
      for (int64_t i = 0; i < *count; ++i) places.push_back(*start + i * node.Ints("steps")[axis]);
      return BeforeTaking(data, axis, places, limits);
    }
    return Least(limits);
  }

  // An axis goes through a reshape where the elements before it and its dim stay.
  Limits BeforeReshape(const Node& node, const Limits& limits) const {
    if (limits.axis < 0) return limits;
    const Shape &before = node.operand(0)->type.shape, &after = node.result()->type.shape;
    const auto outer = [](const Shape& shape, int axis) {
      return Product({shape.begin(), shape.begin() + axis});
    };
    for (int axis = 0; axis < static_cast<int>(before.size()); ++axis) {
      if (before[axis] == after[limits.axis] && outer(before, axis) == outer(after, limits.axis))
        return {axis, limits.at};
    }
    return Least(limits);
  }

  void PassOnConcat(const Node& node, const Limits& limits) {
    const int axis = static_cast<int>(node.Int("axis"));
    int64_t begin = 0;
    for (const Value* operand : node.operands) {
      const auto count = operand->type.shape[axis].AsConstant();
      if (limits.axis != axis || !count) {
        Limit(operand, limits.axis != axis ? limits : Least(limits));
        continue;
      }
      Limit(operand, {axis, {limits.at.begin() + begin, limits.at.begin() + begin + *count}});
      begin += *count;
    }
  }

  // Of an operand, the other one being constants from `least` to `greatest`.
  std::optional<Expr> BeforeConstant(OpKind kind, const std::optional<Expr>& limit, int64_t least,
                                     int64_t greatest) const {
    if (!limit) return std::nullopt;
    if (kind == OpKind::kAdd) return *limit - greatest;
    if (kind == OpKind::kSub) return *limit + least;
    if (least <= 0) return std::nullopt;
    return kind == OpKind::kMul ? CeilDiv(*limit, greatest, ranges_) : *limit * least;
  }

  void PassOnArithmetic(const Node& node, const Limits& limits) {
    const bool commutes = node.kind == OpKind::kAdd || node.kind == OpKind::kMul;
    for (int side = 0; side < (commutes ? 2 : 1); ++side) {
      const Value *operand = node.operand(side), *other = node.operand(1 - side);
      const auto constants = Elements(other);
      if (!constants) continue;
      Limits before = limits;
      const int axis = AxisOf(node, other);
      const bool by_place = axis >= 0 && (limits.axis < 0 || limits.axis == axis);
      if (by_place && limits.axis < 0) before = {axis, {constants->size(), limits.at[0]}};
      const auto [least, greatest] = std::minmax_element(constants->begin(), constants->end());
      for (size_t i = 0; i < before.at.size(); ++i) {
        before.at[i] = BeforeConstant(node.kind, before.at[i], by_place ? (*constants)[i] : *least,
                                      by_place ? (*constants)[i] : *greatest);
      }
      if (by_place && node.kind == OpKind::kAdd) LimitToNextOffset(*constants, before);
      const auto known = [](const std::optional<Expr>& limit) { return limit.has_value(); };
      if (std::none_of(before.at.begin(), before.at.end(), known)) continue;
      Limit(operand, BeforeBroadcast(node, operand, before));
    }
  }

  // The axis of the result along which a broadcast operand's elements differ; -1 if there is none,
  // or more.
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

  // Offsets that ascend say where each of several tables begins that lie in one.
  void LimitToNextOffset(const std::vector<int64_t>& offsets, Limits& limits) const {
    if (!std::is_sorted(offsets.begin(), offsets.end(), std::less_equal<>())) return;
    for (size_t i = 0; i + 1 < offsets.size(); ++i)
      limits.at[i] = LesserOf(limits.at[i], Expr(offsets[i + 1] - offsets[i]));
  }

  const Graph& graph_;
  const Ranges ranges_;
  std::map<const Value*, Limits> limits_;  // looked up, never iterated
  std::set<const Value*> ascending_;       // looked up, never iterated
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
