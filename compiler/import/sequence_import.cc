#include "compiler/import/sequence_import.h"

#include <fmt/format.h>

#include <algorithm>

#include "compiler/import/subgraph.h"

namespace fusec {
namespace {

class SequenceImporter {
 public:
  SequenceImporter(const onnx::NodeProto& node, const NodeContext& context, ImportState& state,
                   Scope& scope, ValueList& outputs)
      : node_(node), context_(context), state_(state), scope_(scope), outputs_(outputs) {}

  Result<void> Run() {
    const std::string& op = node_.op_type();
    if (op == "SequenceEmpty") return Define({});
    if (op == "SequenceConstruct") return Construct();
    if (op == "SplitToSequence") return Split();
    if (op == "SequenceMap") return Map();
    const Sequence* sequence = scope_.GetSequence(node_.input(0));
    if (sequence == nullptr) {
      return ModelError("its input \"" + node_.input(0) + "\" is not a sequence");
    }
    if (op == "ConcatFromSequence") return Concat(*sequence);
    if (sequence->rows != nullptr) {
      return ModelError("reads the sequence \"" + node_.input(0) +
                        "\" of a Loop, which only a ConcatFromSequence may");
    }
    if (op == "SequenceInsert") return Insert(*sequence);
    if (op == "SequenceErase") return Erase(*sequence);
    if (op == "SequenceLength") return Length(*sequence);
    return At(*sequence);
  }

 private:
  Result<void> Define(Sequence sequence) {
    scope_.Define(node_.output(0), std::move(sequence));
    return {};
  }

  Result<void> Construct() {
    Sequence sequence;
    for (const std::string& input : node_.input()) sequence.tensors.push_back(scope_.Get(input));
    return Define(std::move(sequence));
  }

  // The position that input `i` gives in a sequence of `length` tensors, at most `last`; negative
  // ones count from the end. `missing` if the input is absent.
  Result<int64_t> Position(int i, int64_t length, int64_t last, int64_t missing) const {
    if (context_.input(i) == nullptr) return missing;
    FUSEC_ASSIGN(const std::vector<int64_t> given, context_.ConstantInts(i, "position"));
    const int64_t at = given.size() != 1 ? length + 1 : given[0] < 0 ? given[0] + length : given[0];
    if (at < 0 || at > last) {
      return ModelError(fmt::format("position is {}, but the sequence has {} tensors",
                                    given.empty() ? "empty" : std::to_string(given[0]), length));
    }
    return at;
  }

  Result<void> Insert(Sequence sequence) {
    const auto length = static_cast<int64_t>(sequence.tensors.size());
    FUSEC_ASSIGN(const int64_t at, Position(2, length, length, length));
    sequence.tensors.insert(sequence.tensors.begin() + at, scope_.Get(node_.input(1)));
    return Define(std::move(sequence));
  }

  Result<void> Erase(Sequence sequence) {
    const auto length = static_cast<int64_t>(sequence.tensors.size());
    FUSEC_ASSIGN(const int64_t at, Position(1, length, length - 1, length - 1));
    if (length == 0) return ModelError("the sequence is empty");
    sequence.tensors.erase(sequence.tensors.begin() + at);
    return Define(std::move(sequence));
  }

  Result<void> At(const Sequence& sequence) {
    const auto length = static_cast<int64_t>(sequence.tensors.size());
    FUSEC_ASSIGN(const int64_t at, Position(1, length, length - 1, -1));
    outputs_[0] = sequence.tensors[at];
    return {};
  }

  Result<void> Length(const Sequence& sequence) {
    TensorData length(Dtype::kI64, {});
    length.SetInt(0, static_cast<int64_t>(sequence.tensors.size()));
    outputs_[0] = state_.builder.Constant(std::move(length));
    return {};
  }

  // Splits into parts of equal length (the last may be shorter), parts of given lengths, or single
  // elements.
  Result<void> Split() {
    Value* data = context_.input(0);
    const Shape& shape = data->type.shape;
    FUSEC_ASSIGN(const int64_t axis, NormalizeAxis(context_.Int("axis", 0), data->type.rank()));
    const bool is_given = context_.input(1) != nullptr;
    const bool keeps_axis = is_given || context_.Int("keepdims", 1) != 0;
    Exprs lengths = {Expr(1)};
    if (is_given) {
      FUSEC_ASSIGN(lengths, context_.SymbolicInts(1, "split"));
    }
    if (!is_given || context_.input(1)->type.rank() == 0) {
      const auto total = shape[axis].AsConstant(), length = lengths[0].AsConstant();
      if (!total || !length || *length < 1 || *total > kMostParts) {
        return ModelError(fmt::format("splits {} elements into parts of {}, expected constants",
                                      shape[axis].ToString(), lengths[0].ToString()));
      }
      lengths.clear();
      for (int64_t at = 0; at < *total; at += *length) {
        lengths.push_back(std::min(*length, *total - at));
      }
    }
    Expr sum;
    for (const Expr& length : lengths) sum = sum + length;
    if (!SimplifySum(sum - shape[axis], state_.ranges).IsConstant(0)) {
      return ModelError(
          fmt::format("split adds up to {}, expected {}", sum.ToString(), shape[axis].ToString()));
    }
    Sequence sequence;
    Expr start;
    for (const Expr& length : lengths) {
      FUSEC_ASSIGN(Value * part, PartOf(state_.builder, data, axis, start, length, keeps_axis));
      sequence.tensors.push_back(part);
      start = start + length;
    }
    return Define(std::move(sequence));
  }

  Result<void> Concat(const Sequence& sequence) {
    const int64_t given = context_.Int("axis", 0);
    const bool is_new = context_.Int("new_axis", 0) != 0;
    if (sequence.rows != nullptr) {
      if (given != 0 || is_new) {
        return ModelError(
            fmt::format("axis is {} and new_axis {}, expected 0 and 0 for a Loop's rows", given,
                        context_.Int("new_axis", 0)));
      }
      outputs_[0] = sequence.rows;
      return {};
    }
    if (sequence.tensors.empty()) return ModelError("the sequence is empty");
    if (is_new) {
      FUSEC_ASSIGN(outputs_[0], Stacked(state_.builder, sequence.tensors, given));
      return {};
    }
    FUSEC_ASSIGN(const int64_t axis, NormalizeAxis(given, sequence.tensors[0]->type.rank()));
    FUSEC_ASSIGN(Node * joined,
                 state_.builder.Add(OpKind::kConcat, sequence.tensors, {{"axis", axis}}));
    outputs_[0] = joined->result();
    return {};
  }

  // Inlines the body once for each tensor of the first sequence; further sequences are iterated in
  // parallel.
  Result<void> Map() {
    const onnx::GraphProto* body = SubgraphOf(node_, "body");
    const Sequence* first = scope_.GetSequence(node_.input(0));
    if (body == nullptr || body->input_size() != node_.input_size() ||
        body->output_size() != node_.output_size()) {
      return ModelError("the numbers of its inputs, outputs and body's values do not match");
    }
    if (first == nullptr || first->rows != nullptr) {
      return ModelError("its first input is not a sequence of known tensors");
    }
    std::vector<Sequence> results(node_.output_size());
    const Provenance provenance = state_.builder.provenance();
    for (size_t k = 0; k < first->tensors.size(); ++k) {
      std::vector<Named> inputs;
      for (const std::string& input : node_.input()) {
        const Sequence* sequence = scope_.GetSequence(input);
        if (sequence == nullptr) {
          inputs.push_back(scope_.Get(input));
        } else if (k < sequence->tensors.size()) {
          inputs.push_back(sequence->tensors[k]);
        } else {
          return ModelError("the sequence \"" + input + "\" is shorter than the first");
        }
      }
      FUSEC_ASSIGN(const std::vector<Named> outputs, InlineSubgraph(*body, inputs, state_, scope_));
      state_.builder.set_provenance(provenance);
      for (size_t i = 0; i < outputs.size(); ++i) {
        Value* const* tensor = std::get_if<Value*>(&outputs[i]);
        if (tensor == nullptr) return ModelError("its body gives a sequence, expected tensors");
        results[i].tensors.push_back(*tensor);
      }
    }
    for (int i = 0; i < node_.output_size(); ++i) {
      if (!node_.output(i).empty()) scope_.Define(node_.output(i), std::move(results[i]));
    }
    return {};
  }

  static constexpr int64_t kMostParts = 4096;

  const onnx::NodeProto& node_;
  const NodeContext& context_;
  ImportState& state_;
  Scope& scope_;
  ValueList& outputs_;
};

}  // namespace

bool IsSequenceOp(const std::string& onnx_op) {
  for (const char* op :
       {"ConcatFromSequence", "SequenceAt", "SequenceConstruct", "SequenceEmpty", "SequenceErase",
        "SequenceInsert", "SequenceLength", "SequenceMap", "SplitToSequence"}) {
    if (onnx_op == op) return true;
  }
  return false;
}

Result<void> ImportSequenceOp(const onnx::NodeProto& node, const NodeContext& context,
                              ImportState& state, Scope& scope, ValueList& outputs) {
  return SequenceImporter(node, context, state, scope, outputs).Run();
}

}  // namespace fusec
