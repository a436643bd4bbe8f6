#include "compiler/import/loop_recurrence.h"

#include <algorithm>
#include <limits>

#include "compiler/import/loop_parts.h"
#include "compiler/import/loop_states.h"
#include "compiler/import/split_products.h"
#include "compiler/import/subgraph.h"

namespace fusec {
namespace {

constexpr size_t kMostNodes = 1000;  // of a step, so that recursion over them ends

// A carried value of the loop. kLast is not read by the body: its result is what the last step
// gives it.
struct Carried {
  enum class Role { kCounter, kInvariant, kState, kLast };
  Role role = Role::kState;
  Value* before = nullptr;  // around the loop
  Value* input = nullptr;   // in the body: an input, or a constant that all steps pass on
  Value* after = nullptr;   // in the body
  int state = -1;           // its number, if it is a state
};

class RecurrentLoop {
 public:
  RecurrentLoop(const onnx::NodeProto& node, const NodeContext& context, ImportState& state,
                Scope& scope)
      : node_(node),
        context_(context),
        state_(state),
        scope_(scope),
        is_scan_(node.op_type() == "Scan"),
        inner_(state.problems.path(), graph_) {
    inner_.ranges = state.ranges;
    inner_.opsets = state.opsets;
    inner_.weight_match = state.weight_match;
    inner_.counts.ContinueNumbers(state.counts);
    graph_.symbols = state.graph.symbols;
  }

  Result<void> Run(ValueList& results) {
    FUSEC_TRY(ReadBody());
    FUSEC_TRY(FindRoles());
    FUSEC_TRY(CheckConditions());
    StepValues values(graph_, state_, inner_, trips_);
    Declare(values);
    is_reverse_ = !states_.empty() && values.ReadBackwards();
    LoopStates states(graph_, state_, inner_, values, trips_, is_reverse_);
    if (const auto computed = states.Compute(states_); !computed)
      return NotACell(computed.error().message);
    ValueList all;
    FUSEC_TRY(SetResults(states, all));
    results = std::move(all);
    return {};
  }

 private:
  tl::unexpected<Error> NotACell(const std::string& what) const {
    if (states_.empty()) return ModelError("");
    return ModelError(
        "it carries a state from step to step, but its step is no GRU, LSTM or RNN cell: " + what);
  }

  Result<void> ReadBody() {
    const auto parts = PartsOfLoop(node_, context_);
    if (!parts || parts->body->node_size() > static_cast<int>(kMostNodes))
      return NotACell("its parts do not match, or it has too many nodes");
    const onnx::GraphProto* body = parts->body;
    const int first = parts->first, count = parts->carried;
    scanned_ = parts->scanned;
    for (int i = 0; is_scan_ && i < node_.output_size() - count; ++i) {
      if (ScanAttribute(context_, "scan_output_axes", i) != 0)
        return NotACell("it stacks along another axis");
    }
    FUSEC_TRY(FindTrips(count));
    std::vector<Named> inputs;
    if (!is_scan_) {
      counter_ = graph_.AddInput("iteration", {Dtype::kI64, {}});
      TensorData data(Dtype::kBool, {});
      data.SetInt(0, 1);
      inputs = {counter_, inner_.builder.Constant(std::move(data))};
    }
    for (int i = 0; i < count; ++i) {
      Value* before = context_.input(first + i);
      if (before == nullptr) return NotACell("a sequence that it carries");
      carried_.push_back({.before = before, .input = graph_.AddInput("carried", before->type)});
      const bool is_kept =
          body->output(parts->kept + i).name() == body->input(parts->own + i).name();
      auto known = is_kept ? KnownTensor(before, state_) : std::nullopt;
      if (known) carried_.back().input = inner_.builder.Constant(*std::move(known));
      inputs.push_back(carried_.back().input);
    }
    for (int i = 0; i < scanned_; ++i) {
      FUSEC_ASSIGN(Value * element, ScanElement(count + i, i));
      inputs.push_back(element);
    }
    inner_.inlined_nodes = state_.inlined_nodes;
    const auto inlined = InlineSubgraph(*body, inputs, inner_, scope_);
    state_.inlined_nodes = inner_.inlined_nodes;
    if (graph_.nodes.size() > kMostNodes) return NotACell("its step has too many nodes");
    if (!inlined) {
      const auto& sizes = inner_.problems.size_problem();
      if (!sizes) return NotACell("fusec does not support its step");
      return tl::unexpected<Error>(
          Error{ErrorKind::kModel, "in its body: " + sizes->message, sizes->fitting_dim});
    }
    const std::vector<Named>& outputs = *inlined;
    for (const Named& output : outputs) {
      Value* const* tensor = std::get_if<Value*>(&output);
      if (tensor == nullptr) return NotACell("a sequence that it makes");
      outputs_.push_back(*tensor);
    }
    if (graph_.symbols.size() != state_.graph.symbols.size())
      return NotACell("sizes that are data");
    condition_ = is_scan_ ? nullptr : outputs_[0];
    if (!is_scan_) outputs_.erase(outputs_.begin());
    SplitProductsOfConcats(graph_, outputs_);
    for (int i = 0; i < count; ++i) carried_[i].after = outputs_[i];
    return {};
  }

  Result<void> FindTrips(int count) {
    if (is_scan_) {
      const Value* first = context_.input(count);
      if (scanned_ < 1 || first == nullptr || first->type.rank() < 1 ||
          ScanAxis(context_, 0, *first) != 0)
        return NotACell("an axis that is not the first");
      trips_ = first->type.shape[0];
      return {};
    }
    const Value* given = context_.input(0);
    std::optional<Expr> trips = given ? Number(given, state_) : std::nullopt;
    is_endless_ =
        given == nullptr || (trips && trips->IsConstant(std::numeric_limits<int64_t>::max()));
    if (is_endless_) trips = FirstLimit(context_.input(1));
    if (!trips) return NotACell("a number of steps that is run-time data");
    trips_ = *trips;
    return {};
  }
  // The limit with which the condition before the first trip compares 0.
  std::optional<Expr> FirstLimit(const Value* condition) {
    const Node* less = condition ? Uncast(condition)->producer : nullptr;
    if (!less || less->kind != OpKind::kLess) return std::nullopt;
    const auto first = Number(less->operand(0), state_);
    return first && first->IsConstant(0) ? Number(less->operand(1), state_) : std::nullopt;
  }
  // The input of the body that is an element of scan input `i`, which is input `at` of the node.
  Result<Value*> ScanElement(int at, int i) {
    Value* sequence = context_.input(at);
    if (!sequence || sequence->type.rank() < 1 || ScanAxis(context_, i, *sequence) != 0 ||
        !(sequence->type.shape[0] == trips_))
      return NotACell("an axis that is not the first");
    if (ScanAttribute(context_, "scan_input_directions", i) != 0)
      sequence = Formula(state_.builder).Slice(sequence, 0, trips_ - 1, trips_, -1);
    TensorType type = sequence->type;
    type.shape.erase(type.shape.begin());
    Value* element = graph_.AddInput("element", std::move(type));
    elements_.emplace_back(element, sequence);
    return element;
  }

  Result<void> FindRoles() {
    const auto uses = graph_.CountUses();
    for (Carried& one : carried_) {
      const auto first = KnownContents(one.before, state_);
      const bool begins = first && first->size() == 1 && (*first)[0].IsConstant(0);
      const Value* after = one.after;
      while (after->producer && after->producer->kind == OpKind::kIdentity)
        after = after->producer->operand(0);
      if (after == one.input) {
        one.role = Carried::Role::kInvariant;
      } else if (begins && one.before->type.rank() == 0 && IsInteger(one.before->type.dtype)) {
        if (CounterShift(one.after, one.input) != 1) return NotACell("a counter");
        one.role = Carried::Role::kCounter;
      } else if (uses.count(one.input) == 0 && !IsPassedOn(one.input) &&
                 IsFloat(one.after->type.dtype) && state_.ranges.ProvenNonNegative(trips_ - 1)) {
        one.role = Carried::Role::kLast;
      } else {
        const TensorType& type = one.before->type;
        if (type.rank() != 2 || !type.shape[1].AsConstant() || !IsFloat(type.dtype) ||
            !(one.after->type == type))
          return NotACell("it also carries " + type.ToString());
        one.state = static_cast<int>(states_.size());
        states_.push_back({.before = one.before, .input = one.input, .after = one.after});
      }
    }
    return {};
  }

  // Whether another value of the next step is this input.
  bool IsPassedOn(const Value* input) const {
    return std::find(outputs_.begin(), outputs_.end(), input) != outputs_.end();
  }

  static const Value* Uncast(const Value* value) {
    while (value->producer &&
           (value->producer->kind == OpKind::kCast || value->producer->kind == OpKind::kIdentity))
      value = value->producer->operand(0);
    return value;
  }
  // k if `value` is input + k.
  std::optional<int64_t> CounterShift(const Value* value, const Value* input) {
    value = Uncast(value);
    if (value == input) return 0;
    const Node* add = value->producer;
    if (!add || add->kind != OpKind::kAdd) return std::nullopt;
    for (const int i : {0, 1}) {
      const auto number = KnownContents(add->operand(1 - i), inner_);
      const auto shift = number && number->size() == 1 ? (*number)[0].AsConstant() : std::nullopt;
      if (Uncast(add->operand(i)) == input && shift) return *shift;
    }
    return std::nullopt;
  }

  // The loop must make all of its trips: before the first one, its condition holds if there is
  // one; in the body, it holds at least up to the last one. Counters may be compared as f32, which
  // is exact up to 2^24.
  Result<void> CheckConditions() {
    if (is_scan_) return {};
    const Value* before = context_.input(1);
    const bool begins = before == nullptr || Holds(before, state_, [&](const Value* less) {
                          const auto number = Number(less, state_);
                          return number ? number->AsConstant() : std::nullopt;
                        });
    const bool goes_on =
        Holds(condition_, inner_, [&](const Value* less) -> std::optional<int64_t> {
          // In the trip before the last one, a counter is trips - 2.
          std::optional<int64_t> shift = CounterShift(less, counter_);
          for (const Carried& one : carried_) {
            if (!shift && one.role == Carried::Role::kCounter)
              shift = CounterShift(less, one.input);
          }
          return shift ? std::optional(*shift - 1) : std::nullopt;
        });
    if (begins && goes_on && (ends_ || !is_endless_)) return {};
    return NotACell("its condition may end it before its " + trips_.ToString() + " steps");
  }
  std::optional<Expr> Number(const Value* value, ImportState& state) {
    value = Uncast(value);
    for (const Carried& one : carried_) {
      if (value == one.input && one.role == Carried::Role::kInvariant) value = Uncast(one.before);
    }
    const auto contents = KnownContents(value, state);
    return contents && contents->size() == 1 ? std::optional((*contents)[0]) : std::nullopt;
  }
  // Whether `condition` is true, or compares values with limits that they are below: `above` gives
  // k so that the value is at most trips - 1 + k wherever the condition must hold.
  template <class Above>
  bool Holds(const Value* condition, ImportState& state, const Above& above) {
    const auto known = KnownTensor(condition, state);
    if (known) return known->element_count() == 1 && known->GetInt(0) != 0;
    const Node* node = Uncast(condition)->producer;
    if (node && node->kind == OpKind::kAnd)
      return Holds(node->operand(0), state, above) && Holds(node->operand(1), state, above);
    if (!node || node->kind != OpKind::kLess) return false;
    const auto value = above(node->operand(0));
    const auto limit = Number(node->operand(1), state);
    if (!value || !limit) return false;
    const Expr rest = *limit - trips_ - *value;
    ends_ |= &state == &inner_ && rest.IsConstant(0);
    return state_.ranges.ProvenNonNegative(rest);
  }

  void Declare(StepValues& values) {
    if (counter_) values.DeclareCounter(counter_);
    for (const Carried& one : carried_) {
      if (one.role == Carried::Role::kCounter) values.DeclareCounter(one.input);
      if (one.role == Carried::Role::kInvariant) values.DeclareInvariant(one.input, one.before);
      if (one.role == Carried::Role::kState) values.DeclareState(one.input);
    }
    for (const auto& [element, sequence] : elements_) values.DeclareElement(element, sequence);
  }

  // The results of the loop: what it carries after the last step, and the values of all steps, in
  // the order of the sequences.
  Result<void> SetResults(LoopStates& states, ValueList& results) {
    Formula f(state_.builder);
    const auto all_steps = [&](Value* output) -> Result<Value*> {
      Value* all = states.AllSteps(output);
      if (all == nullptr) return NotACell("it collects another value");
      return all;
    };
    for (const Carried& one : carried_) {
      if (one.role == Carried::Role::kInvariant) {
        results.push_back(one.before);
      } else if (one.role == Carried::Role::kCounter) {
        Value* trips =
            f.Make(OpKind::kSymbolicDims, {}, {{"values", Exprs{trips_}}, {"scalar", int64_t{1}}});
        results.push_back(f.Cast(trips, one.before->type.dtype));
      } else if (one.role == Carried::Role::kLast) {
        FUSEC_ASSIGN(Value * all, all_steps(one.after));
        const Expr last = is_reverse_ ? Expr(0) : trips_ - 1;
        results.push_back(f.Reshape(f.Slice(all, 0, last, 1), one.after->type.shape));
      } else {
        results.push_back(states_[one.state].last);
      }
    }
    for (size_t i = carried_.size(); i < outputs_.size(); ++i) {
      FUSEC_ASSIGN(Value * all, all_steps(outputs_[i]));
      const int number = static_cast<int>(i - carried_.size());
      const bool is_turned =
          is_scan_ && ScanAttribute(context_, "scan_output_directions", number) != 0;
      results.push_back(is_turned != is_reverse_ ? f.Slice(all, 0, trips_ - 1, trips_, -1) : all);
    }
    return {};
  }

  const onnx::NodeProto& node_;
  const NodeContext& context_;
  ImportState& state_;
  Scope& scope_;
  const bool is_scan_;
  int scanned_ = 0;
  Expr trips_;
  bool is_endless_ = false;  // whether only its condition ends the loop,
  bool ends_ = false;        // and whether that is after `trips_` trips
  Graph graph_;              // one iteration
  ImportState inner_;        // of its import
  Value* counter_ = nullptr;
  const Value* condition_ = nullptr;
  std::vector<Carried> carried_;
  std::vector<LoopState> states_;
  std::vector<std::pair<Value*, Value*>> elements_;
  std::vector<Value*> outputs_;
  bool is_reverse_ = false;  // whether the steps go from the end of the sequences
};

}  // namespace

Result<void> ImportRecurrentLoop(const onnx::NodeProto& node, const NodeContext& context,
                                 ImportState& state, Scope& scope, ValueList& results) {
  return RecurrentLoop(node, context, state, scope).Run(results);
}

}  // namespace fusec
