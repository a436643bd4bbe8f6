#include "passes/update_in_place.h"

#include <algorithm>
#include <numeric>

#include "passes/graph_edit.h"

namespace fusec {

namespace {

class Updater {
 public:
  Updater(Graph& graph, const InPlace& wanted) : graph_(graph), wanted_(wanted) {}

  Result<void> Run() {
    bool found = false;
    for (size_t i = 0; i < graph_.model_output_count(); ++i) {
      const auto input = wanted_.InputOf(graph_.OutputName(i));
      if (!input) continue;
      found = true;
      FUSEC_TRY(Update(i, *input));
    }
    if (found) return {};
    std::vector<std::string> names;
    for (size_t i = 0; i < graph_.model_output_count(); ++i) names.push_back(graph_.OutputName(i));
    return Problem("no output has this name; the model has " + Listed(names));
  }

 private:
  tl::unexpected<Error> Problem(const std::string& text) const {
    return Fail(ErrorKind::kUsage,
                "--in-place " + wanted_.output + "=" + wanted_.input + ": " + text);
  }

  static std::string Listed(const std::vector<std::string>& names) {
    constexpr size_t kMost = 8;
    std::string list;
    for (size_t i = 0; i < std::min(names.size(), kMost); ++i)
      list += (i == 0 ? "\"" : ", \"") + names[i] + "\"";
    return names.size() > kMost ? list + ", ..." : list;
  }

  Result<void> Update(size_t output, const std::string& input_name) {
    Value* input = nullptr;
    std::vector<std::string> names;
    for (size_t i = 0; i < graph_.inputs.size(); ++i) {
      names.push_back(graph_.InputName(i));
      if (names.back() == input_name) input = graph_.inputs[i].get();
    }
    if (!input)
      return Problem("no input is called \"" + input_name + "\"; the model has " + Listed(names));
    const std::string what = "output \"" + graph_.OutputName(output) +
                             "\" cannot lie in the memory of input \"" + input_name + "\": ";
    Value* value = graph_.outputs[output];
    if (value->type != input->type)
      return Problem(what + "it is " + value->type.ToString() + ", the input " +
                     input->type.ToString());
    Node* scatter = ScatterOf(value, input);
    if (!scatter)
      return Problem(what +
                     "it is not the input with new rows along an axis, as GroupQueryAttention, "
                     "TensorScatter, ScatterElements and ScatterND make it");
    if (!HasOneReader(graph_, Readers(graph_), input))
      return Problem(what + "the model also reads the input elsewhere");
    if (std::count(graph_.outputs.begin(), graph_.outputs.end(), value) > 1)
      return Problem(what + "it is an output twice");
    if (scatter->kind == OpKind::kScatterND)
      scatter = AlongAnAxis(*scatter, value, input);
    else if (scatter->kind == OpKind::kScatterElements)
      CountFromStart(*scatter);
    scatter->attributes[kInPlace] = int64_t{1};
    return {};
  }

  // The node that puts new rows into `input`, and whose result is `value`, possibly behind
  // transposes of both (index_copy of PyTorch); null if there is none.
  Node* ScatterOf(const Value* value, const Value* input) const {
    Node* node = value->producer;
    if (!node) return nullptr;
    if (node->kind == OpKind::kTensorScatter) return node->operand(0) == input ? node : nullptr;
    if (node->kind == OpKind::kScatterElements)
      return node->operand(0) == input && IsAssignment(*node) ? node : nullptr;
    const std::vector<int64_t> order = OrderBefore(value);
    if (!OrderOf(*node).empty()) node = node->operand(0)->producer;
    if (!node || node->kind != OpKind::kScatterND || !IsAssignment(*node)) return nullptr;
    const TensorType& indices = node->operand(1)->type;
    const Value* data = node->operand(0);
    if (indices.rank() != 2 || !indices.shape[1].IsConstant(1)) return nullptr;
    if (data != input && !HasOneReader(graph_, Readers(graph_), data)) return nullptr;
    const std::vector<int64_t> data_order = OrderBehind(data, input);
    // The two transposes cancel out.
    bool is_same = data_order.size() == order.size();
    for (size_t i = 0; is_same && i < order.size(); ++i)
      is_same = data_order[static_cast<size_t>(order[i])] == static_cast<int64_t>(i);
    return is_same ? node : nullptr;
  }

  static bool IsAssignment(const Node& scatter) {
    return scatter.Get<std::string>("reduction") == "none";
  }

  static std::vector<int64_t> Identity(int rank) {
    std::vector<int64_t> order(static_cast<size_t>(rank));
    std::iota(order.begin(), order.end(), 0);
    return order;
  }
  // The axes of the transpose that `node` is, or that a reshape is which only moves axes of one
  // element: result axis i is operand axis order[i]. Empty if it is neither.
  static std::vector<int64_t> OrderOf(const Node& node) {
    if (node.kind == OpKind::kTranspose) return node.Get<std::vector<int64_t>>("perm");
    if (node.kind != OpKind::kReshape) return {};
    const Shape &from = node.operand(0)->type.shape, &to = node.result()->type.shape;
    if (from.size() != to.size()) return {};
    std::vector<int64_t> order;
    size_t next[2] = {0, 0};  // of the operand's other axes; of those of one element
    for (const Expr& dim : to) {
      const bool is_one = dim.IsConstant(1);
      size_t& axis = next[is_one];
      while (axis < from.size() && from[axis].IsConstant(1) != is_one) ++axis;
      if (axis == from.size() || from[axis] != dim) return {};
      order.push_back(static_cast<int64_t>(axis++));
    }
    return order;
  }
  // The axes of the transpose that makes `value`, or of none.
  static std::vector<int64_t> OrderBefore(const Value* value) {
    const std::vector<int64_t> order =
        value->producer ? OrderOf(*value->producer) : std::vector<int64_t>();
    return order.empty() ? Identity(value->type.rank()) : order;
  }
  // The axes of the transpose that makes `data` of `input`, or of none; empty if it is neither.
  static std::vector<int64_t> OrderBehind(const Value* data, const Value* input) {
    if (data == input) return Identity(data->type.rank());
    const Node* node = data->producer;
    return node && node->operand(0) == input ? OrderOf(*node) : std::vector<int64_t>();
  }

  Builder BuilderAt(const Node& node) {
    const auto at = std::find_if(graph_.nodes.begin(), graph_.nodes.end(),
                                 [&](const auto& other) { return other.get() == &node; });
    Builder builder(graph_, at - graph_.nodes.begin());
    builder.set_provenance(node.provenance);
    return builder;
  }

  // Places along an axis of `extent` elements, of which negative ones count from its end. A kernel
  // that writes in place takes no negative numbers; those that are too low become `extent`, which
  // is an index error like those that are too high.
  static Value* FromStart(Value* places, const Expr& extent, Builder& builder) {
    const auto make = [&](OpKind kind, ValueList operands, Attributes attributes = {}) {
      return builder.Make(kind, std::move(operands), std::move(attributes), places->name);
    };
    Value* zero = builder.Scalar(Dtype::kI64, 0);
    Value* end =
        make(OpKind::kSymbolicDims, {}, {{"values", Exprs{extent}}, {"scalar", int64_t{1}}});
    Value* given = places;
    if (given->type.dtype != Dtype::kI64)
      given = make(OpKind::kCast, {given}, {{"to", Dtype::kI64}});
    Value* counted = make(OpKind::kWhere, {make(OpKind::kLess, {given, zero}),
                                           make(OpKind::kAdd, {given, end}), given});
    return make(OpKind::kWhere, {make(OpKind::kLess, {counted, zero}), end, counted});
  }
  void CountFromStart(Node& scatter) {
    Builder builder = BuilderAt(scatter);
    const auto axis = static_cast<size_t>(scatter.Int("axis"));
    scatter.operands[1] =
        FromStart(scatter.operand(1), scatter.operand(0)->type.shape[axis], builder);
  }

  // Replaces the scatter_nd of rows of the first axis, which may be transposed, by a
  // scatter_elements along an axis of the input.
  Node* AlongAnAxis(const Node& scatter, Value* value, Value* input) {
    const std::vector<int64_t> order = OrderBefore(value);
    const int64_t axis = std::find(order.begin(), order.end(), 0) - order.begin();
    Builder builder = BuilderAt(scatter);
    const Expr& extent = input->type.shape[static_cast<size_t>(axis)];
    Value* rows = builder.Make(OpKind::kTranspose, {scatter.operand(2)}, {{"perm", order}});
    Exprs along(rows->type.shape.size(), 1);
    along[static_cast<size_t>(axis)] = rows->type.shape[static_cast<size_t>(axis)];
    Value* places = FromStart(scatter.operand(1), extent, builder);
    places = builder.Make(OpKind::kReshape, {places}, {{"shape", along}});
    places = builder.Make(OpKind::kExpand, {places},
                          {{"shape", Exprs(rows->type.shape.begin(), rows->type.shape.end())}});
    Value* updated = builder.Make(OpKind::kScatterElements, {input, places, rows},
                                  {{"axis", axis}, {"reduction", std::string("none")}});
    // Others may read the scatter_nd through transposes of their own.
    const std::vector<int64_t> data_order = OrderBehind(scatter.operand(0), input);
    Value* turned = builder.Make(OpKind::kTranspose, {updated}, {{"perm", data_order}});
    graph_.ReplaceAllUses(value, updated);
    if (scatter.result() != value) graph_.ReplaceAllUses(scatter.result(), turned);
    std::swap(updated->name, value->name);
    RemoveDeadNodes(graph_);
    return updated->producer;
  }

  Graph& graph_;
  const InPlace& wanted_;
};

}  // namespace

Result<bool> UpdateInPlace(Graph& graph, const PassOptions& options, PassReport&) {
  for (const InPlace& wanted : options.in_place) FUSEC_TRY(Updater(graph, wanted).Run());
  return !options.in_place.empty();
}

}  // namespace fusec
