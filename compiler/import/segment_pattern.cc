#include "compiler/import/segment_pattern.h"

#include <cstring>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "compiler/import/contrib/contrib_ops.h"
#include "compiler/import/node_attributes.h"

namespace fusec {
namespace {

class Segments {
 public:
  explicit Segments(onnx::GraphProto& graph) : graph_(graph) {
    for (const auto& initializer : graph.initializer())
      constants_[initializer.name()] = &initializer;
    for (onnx::NodeProto& node : *graph.mutable_node()) {
      for (const std::string& output : node.output()) makers_[output] = &node;
      const auto* value = node.op_type() == "Constant" ? FindAttribute(node, "value") : nullptr;
      if (value != nullptr && node.output_size() == 1) constants_[node.output(0)] = &value->t();
    }
  }

  void Run() {
    for (onnx::NodeProto& node : *graph_.mutable_node()) {
      ReplaceReduction(node);
      ReplaceSizes(node);
    }
    for (auto& [inputs, node] : numbers_) graph_.add_node()->Swap(&node);
  }

 private:
  // The node of that type that makes a tensor; null otherwise.
  const onnx::NodeProto* Maker(const std::string& tensor, const std::string& op_type) {
    const auto found = makers_.find(tensor);
    if (found == makers_.end() || found->second->op_type() != op_type) return nullptr;
    return found->second;
  }
  // The same for input `i` of a node, which may be null.
  const onnx::NodeProto* Part(const onnx::NodeProto* node, int i, const std::string& op_type,
                              int inputs = 1) {
    if (node == nullptr || i >= node->input_size()) return nullptr;
    const onnx::NodeProto* part = Maker(node->input(i), op_type);
    if (part == nullptr || part->input_size() < inputs) return nullptr;
    return part;
  }
  // A constant of one 64-bit integer.
  std::optional<int64_t> Number(const std::string& tensor) {
    const auto found = constants_.find(tensor);
    return found == constants_.end() ? std::nullopt : Number(*found->second);
  }
  static std::optional<int64_t> Number(const onnx::TensorProto& data) {
    if (data.data_type() != onnx::TensorProto::INT64) return std::nullopt;
    if (data.int64_data_size() == 1) return data.int64_data(0);
    if (data.raw_data().size() != sizeof(int64_t)) return std::nullopt;
    int64_t number = 0;
    std::memcpy(&number, data.raw_data().data(), sizeof number);
    return number;
  }
  // An axis that is an attribute or, since opset 13, an input.
  std::optional<int64_t> AxisOf(const onnx::NodeProto& node) {
    if (const auto* axes = FindAttribute(node, "axes"))
      return axes->ints_size() == 1 ? std::optional(axes->ints(0)) : std::nullopt;
    return node.input_size() == 2 ? Number(node.input(1)) : std::nullopt;
  }

  void ReplaceReduction(onnx::NodeProto& reduce) {
    static const std::map<std::string, std::string> kReductions = {
        {"ReduceSum", "add"}, {"ReduceMax", "max"}, {"ReduceMin", "min"}, {"ReduceProd", "mul"}};
    const auto how = kReductions.find(reduce.op_type());
    if (how == kReductions.end() || IntAttribute(reduce, "keepdims", 1) != 0 || AxisOf(reduce) != 1)
      return;
    const onnx::NodeProto* rows = Part(&reduce, 0, "Gather", 2);
    const onnx::NodeProto* padded = Part(rows, 0, "Concat", 2);
    const onnx::NodeProto* table = Part(rows, 1, "ScatterND", 3);
    if (padded == nullptr || table == nullptr || padded->input_size() != 2 ||
        IntAttribute(*rows, "axis", 0) != 0 || IntAttribute(*padded, "axis", 1) != 0 ||
        !IsRow(padded->input(1)))
      return;
    const onnx::NodeProto* sort = SortOf(table);
    const onnx::NodeProto* unique = UniqueOf(table, sort);
    const std::optional<std::string> segments = SegmentsOf(table, unique);
    if (!segments) return;
    const std::string number = NumberOf(*segments, sort->input(0));
    auto& reduction = Become(reduce, "SegmentReduce",
                             {padded->input(0), padded->input(1), sort->input(0), number});
    reduction.set_name("reduction");
    reduction.set_type(onnx::AttributeProto::STRING);
    reduction.set_s(how->second);
  }

  // Whether a tensor has one row.
  bool IsRow(const std::string& tensor) {
    const auto constant = constants_.find(tensor);
    if (constant != constants_.end())
      return constant->second->dims_size() > 0 && constant->second->dims(0) == 1;
    const onnx::NodeProto* unsqueeze = Maker(tensor, "Unsqueeze");
    return unsqueeze != nullptr && AxisOf(*unsqueeze) == 0;
  }

  // How many ids each segment has; a constant for those without.
  void ReplaceSizes(onnx::NodeProto& scatter) {
    if (scatter.op_type() != "ScatterElements" || IntAttribute(scatter, "axis", 0) != 0 ||
        FindAttribute(scatter, "reduction") != nullptr)
      return;
    const onnx::NodeProto* unique = Part(&scatter, 1, "Unique");
    const onnx::NodeProto* sort = Part(unique, 0, "TopK", 2);
    const onnx::NodeProto* fill = Part(&scatter, 0, "ConstantOfShape");
    const auto* value = fill == nullptr ? nullptr : FindAttribute(*fill, "value");
    if (sort == nullptr || value == nullptr || !IsSort(*sort) || unique->output_size() < 4 ||
        unique->input(0) != sort->output(0) || scatter.input(1) != unique->output(0) ||
        scatter.input(2) != unique->output(3))
      return;
    const std::optional<int64_t> of_empty = Number(value->t());
    if (!of_empty) return;
    const std::string ids = sort->input(0), number = NumberOf(fill->input(0), ids);
    auto& attribute = Become(scatter, "SegmentSizes", {ids, number});
    attribute.set_name("of_empty");
    attribute.set_type(onnx::AttributeProto::INT);
    attribute.set_i(*of_empty);
  }

  // Makes a node one of that type; returns its attribute.
  onnx::AttributeProto& Become(onnx::NodeProto& node, const std::string& op_type,
                               const std::vector<std::string>& inputs) {
    node.set_op_type(op_type);
    node.set_domain(std::string(kTensorFlowDomain));
    node.clear_attribute();
    node.clear_input();
    for (const std::string& input : inputs) node.add_input(input);
    return *node.add_attribute();
  }

  // The tensor with the number of segments to allocate; ops on the same ids share it, so that their
  // results have equal sizes.
  std::string NumberOf(const std::string& segments, const std::string& ids) {
    onnx::NodeProto& node = numbers_[{segments, ids}];
    if (node.output_size() == 0) {
      node.set_op_type("SegmentsOf");
      node.set_domain(std::string(kTensorFlowDomain));
      node.set_name(segments);
      node.add_input(segments);
      node.add_input(ids);
      node.add_output(segments + "/of/" + ids);
    }
    return node.output(0);
  }

  // The sort of all ids whose order the table holds.
  const onnx::NodeProto* SortOf(const onnx::NodeProto* table) {
    const onnx::NodeProto* sort = Part(table, 2, "TopK", 2);
    const bool is_order = sort != nullptr && IsSort(*sort) && table->input(2) == sort->output(1);
    return is_order ? sort : nullptr;
  }

  // Whether a TopK sorts all elements of a vector in ascending order.
  bool IsSort(const onnx::NodeProto& sort) {
    const onnx::NodeProto* size = Part(&sort, 1, "Shape");
    return size != nullptr && size->input(0) == sort.input(0) && sort.output_size() == 2 &&
           IntAttribute(sort, "axis", -1) == 0 && IntAttribute(sort, "largest", 1) == 0;
  }

  // The Unique of the sorted ids, if the row of each of them in the table is its id, and its column
  // one that no other id of the same segment has.
  const onnx::NodeProto* UniqueOf(const onnx::NodeProto* table, const onnx::NodeProto* sort) {
    const onnx::NodeProto* place = Part(table, 1, "Concat", 2);
    const onnx::NodeProto* row = Part(place, 0, "Unsqueeze");
    const onnx::NodeProto* column = Part(place, 1, "Unsqueeze");
    const onnx::NodeProto* remainder = Part(column, 0, "Mod", 2);
    const onnx::NodeProto* position = Part(remainder, 0, "Range", 3);
    const onnx::NodeProto* count = Part(remainder, 1, "Gather", 2);
    const onnx::NodeProto* unique = Part(count, 0, "Unique");
    if (sort == nullptr || row == nullptr || position == nullptr || unique == nullptr ||
        unique->output_size() < 4)
      return nullptr;
    const bool counts = Number(position->input(0)) == 0 && Number(position->input(2)) == 1;
    const auto is_last = [](std::optional<int64_t> axis) { return axis == 1 || axis == -1; };
    if (!is_last(AxisOf(*row)) || !is_last(AxisOf(*column)) ||
        !is_last(IntAttribute(*place, "axis", 0)))
      return nullptr;
    const bool is_place = row->input(0) == sort->output(0) && unique->input(0) == sort->output(0) &&
                          count->input(0) == unique->output(3) &&
                          count->input(1) == unique->output(2) &&
                          IntAttribute(*count, "axis", 0) == 0;
    return counts && is_place ? unique : nullptr;
  }

  // The tensor with the number of segments.
  std::optional<std::string> SegmentsOf(const onnx::NodeProto* table,
                                        const onnx::NodeProto* unique) {
    const onnx::NodeProto* fill = Part(table, 0, "ConstantOfShape");
    const onnx::NodeProto* shape = Part(fill, 0, "Concat", 2);
    const onnx::NodeProto* longest = Part(shape, 1, "ReduceMax");
    const auto* value = fill == nullptr ? nullptr : FindAttribute(*fill, "value");
    if (unique == nullptr || longest == nullptr || shape->input_size() != 2 || value == nullptr ||
        longest->input(0) != unique->output(3))
      return std::nullopt;
    if (Number(value->t()) != -1) return std::nullopt;
    return shape->input(0);
  }

  onnx::GraphProto& graph_;
  std::map<std::string, onnx::NodeProto*> makers_;
  std::map<std::string, const onnx::TensorProto*> constants_;
  // The nodes that make the numbers of segments, by their inputs.
  std::map<std::pair<std::string, std::string>, onnx::NodeProto> numbers_;
};

}  // namespace

void RecognizeSegments(onnx::GraphProto& graph) {
  for (const onnx::NodeProto& node : graph.node()) {
    if (node.op_type() == "ScatterND") return Segments(graph).Run();
  }
}

}  // namespace fusec
