#include "compiler/import/loop_states.h"

#include <algorithm>

#include "compiler/ir/recurrence.h"

namespace fusec {
namespace {

constexpr size_t kMostStates = 32;

tl::unexpected<Error> NotACell(const std::string& why) { return ModelError(why); }

// The states that depend on each other, in an order in which each group depends only on those
// before it.
std::vector<std::vector<LoopState*>> GroupsOf(const Graph& body, std::vector<LoopState>& states) {
  const size_t count = states.size();
  using Bits = uint32_t;  // one for each state
  DenseMap<const Value*, Bits> reads;
  for (size_t i = 0; i < count; ++i) reads[states[i].input] = Bits{1} << i;
  for (const auto& node : body.nodes) {
    Bits all = 0;
    for (const Value* operand : node->operands) {
      const auto found = reads.find(operand);
      if (found != reads.end()) all |= found->second;
    }
    for (const auto& result : node->results) reads[result.get()] = all;
  }
  std::vector<Bits> reached(count);
  for (size_t i = 0; i < count; ++i) {
    const auto found = reads.find(states[i].after);
    reached[i] = (found == reads.end() ? 0 : found->second) | Bits{1} << i;
  }
  for (size_t through = 0; through < count; ++through) {
    for (Bits& bits : reached) {
      if (bits >> through & 1) bits |= reached[through];
    }
  }
  // What a group reaches includes all that the groups that it depends on reach, and itself.
  std::vector<size_t> order(count);
  for (size_t i = 0; i < count; ++i) order[i] = i;
  const auto size = [&](size_t i) { return __builtin_popcount(reached[i]); };
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return size(a) < size(b); });
  std::vector<std::vector<LoopState*>> groups;
  for (size_t i = 0; i < count; ++i) {
    const bool joins =
        std::any_of(order.begin(), order.begin() + static_cast<int64_t>(i),
                    [&](size_t other) { return reached[other] == reached[order[i]]; });
    if (joins) continue;
    groups.emplace_back();
    for (const size_t other : order) {
      if (reached[other] == reached[order[i]]) groups.back().push_back(&states[other]);
    }
  }
  return groups;
}

// The factor `weight` of all terms of next - state, as of state + weight * (H - state), whose H it
// returns; nullopt if there is no such factor.
std::optional<Polynomial> WithoutWeight(const Polynomial& next, int state, int weight) {
  Polynomial moved;
  bool has_state = false;
  for (const auto& [monomial, factor] : next.terms) {
    if (monomial == Monomial{state}) {
      has_state = factor == 1;
      continue;
    }
    if (std::count(monomial.begin(), monomial.end(), weight) != 1) return std::nullopt;
    Monomial rest = monomial;
    rest.erase(std::find(rest.begin(), rest.end(), weight));
    moved.terms[rest] = factor;
  }
  if (!has_state) return std::nullopt;
  Polynomial itself;
  itself.terms[{state}] = 1;
  return CellAlgebra::Add(moved, itself);
}

}  // namespace

Result<void> LoopStates::Compute(std::vector<LoopState>& states) {
  if (states.size() > kMostStates) return NotACell("it carries too many states");
  for (std::vector<LoopState*>& group : GroupsOf(body_, states)) {
    if (group.size() == 1 && Follows(*group[0])) continue;
    FUSEC_TRY(ComputeGroup(std::move(group)));
  }
  // Values that are a state's only where the mask is true are of no use to the outputs.
  for (const auto& [value, known] : known_) {
    if (known.mask != nullptr) values_.ForgetComputed(value);
  }
  return {};
}

// Keras carries the last output beside the state that it is equal to: both begin with zeros, and
// where the mask is true, both become the same.
bool LoopStates::Follows(LoopState& state) {
  CellAlgebra algebra;
  CellReader reader(values_, inner_, algebra, *state.after->type.shape[1].AsConstant(),
                    {{state.input, 0}}, 1);
  const auto next = reader.Read(state.after);
  if (next.size() != 1) return false;
  const auto masks = algebra.MasksIn(next[0]);
  if (masks.size() != 1 || CellAlgebra::Where(next[0], masks[0], false).Single() != 0) return false;
  const auto taken = CellAlgebra::Where(next[0], masks[0], true).Single();
  const auto found = taken ? known_.find(algebra.atom(*taken).value) : known_.end();
  if (found == known_.end() || algebra.atom(*taken).block != 0) return false;
  const LoopState& other = *found->second.state;
  if (found->second.mask != algebra.atom(masks[0]).value || !IsZeroState(other.before) ||
      !IsZeroState(state.before))
    return false;
  state.last = other.last;
  Value* all_steps = values_.AllSteps(other.after);
  ValueSet same;
  for (const auto& node : body_.nodes) {
    if (node->result()->type == state.after->type && reader.Read(node->result()) == next)
      same.insert(node->result());
  }
  for (const Value* value : same) values_.DeclareComputed(value, all_steps);
  return true;
}

Result<void> LoopStates::ComputeGroup(std::vector<LoopState*> states) {
  const TensorType& type = states[0]->before->type;
  for (const LoopState* state : states) {
    if (!(state->before->type == type)) return NotACell("its states are of unlike shapes");
  }
  if (states.size() > 2) return NotACell("it carries more than two states");
  groups_.push_back(std::make_unique<Group>());
  Group& group = *groups_.back();
  group.states = std::move(states);
  RecurrenceInputs inputs;
  inputs.steps = steps_;
  inputs.batch = type.shape[0];
  inputs.units = *type.shape[1].AsConstant();
  inputs.dtype = type.dtype;
  inputs.is_reverse = is_reverse_;
  DenseMap<const Value*, int> numbers;
  for (size_t i = 0; i < group.states.size(); ++i)
    numbers[group.states[i]->input] = static_cast<int>(i);
  group.reader = std::make_unique<CellReader>(values_, inner_, group.algebra, inputs.units, numbers,
                                              static_cast<int>(group.states.size()));
  for (const LoopState* state : group.states) {
    const auto blocks = group.reader->Read(state->after);
    group.next.push_back(blocks.size() == 1 ? blocks[0] : Polynomial());
  }
  FUSEC_TRY(FindMask(group));
  FUSEC_TRY(MatchGroup(group, inputs));
  const MatchedCell& cell = group.cell;
  const int64_t bytes =
      StateBytesPerRow(*cell.kind, inputs.units, cell.linear_before_reset, inputs.dtype);
  if (bytes > kMostStateBytes)
    return NotACell(std::to_string(inputs.units) + " units are too many");
  const auto initial = [&](int number) {
    Value* before = group.states[number]->before;
    return IsZeroState(before) ? nullptr : before;
  };
  const bool is_lstm = cell.kind->cell == Cell::kLstm;
  inputs.state = initial(cell.state);
  if (is_lstm) inputs.cell = initial(cell.cell);
  group.node = AddRecurrence(cell, inputs, values_, outer_.builder);
  if (group.node == nullptr)
    return NotACell("fusec cannot compute the inputs of its gates for all steps at once");
  Formula f(outer_.builder);
  const auto last = [&](int result) {
    return f.Reshape(group.node->result(result), {inputs.batch, Expr(inputs.units)});
  };
  group.states[cell.state]->last = last(1);
  if (is_lstm) group.states[cell.cell]->last = last(2);
  Publish(group);
  return {};
}

// The mask of a group, which must be that of the groups before it: they are read where it is true.
Result<void> LoopStates::FindMask(Group& group) {
  for (const Polynomial& one : group.next) {
    for (const int mask : group.algebra.MasksIn(one)) {
      if (group.mask && *group.mask != mask) return NotACell("it has several masks");
      group.mask = mask;
    }
  }
  const Value* mask = group.mask ? group.algebra.atom(*group.mask).value : nullptr;
  for (const auto& [value, known] : known_) {
    if (known.mask != nullptr && known.mask != mask) return NotACell("it has several masks");
  }
  for (size_t i = 0; group.mask && i < group.next.size(); ++i) {
    if (group.AtMask(group.next[i], false).Single() != static_cast<int>(i))
      return NotACell("its mask does not keep the state");
    group.next[i] = group.AtMask(group.next[i], true);
  }
  return {};
}

// A column of a step, [batch, 1], for all steps, [steps, batch]; null if it cannot be computed.
Value* LoopStates::PerStep(const CellFactor& column, const RecurrenceInputs& inputs) {
  if (column.value->type.shape != Shape{inputs.batch, 1}) return nullptr;
  Value* all = values_.AllSteps(column.value);
  return all ? Formula(outer_.builder).Reshape(all, {steps_, inputs.batch}) : nullptr;
}

// Finds the cell of a group, and how far each step moves its states.
Result<void> LoopStates::MatchGroup(Group& group, RecurrenceInputs& inputs) {
  const CellAlgebra& algebra = group.algebra;
  if (group.mask) {
    group.updates = inputs.updates = PerStep(algebra.atom(*group.mask), inputs);
    if (group.updates == nullptr)
      return NotACell("fusec cannot compute its mask for all steps at once");
  }
  if (const auto cell = MatchCell(algebra, group.next)) {
    group.cell = *cell;
    return {};
  }
  for (int weight = 0; weight < algebra.atom_count(); ++weight) {
    if (algebra.atom(weight).kind != CellFactor::Kind::kStep) continue;
    std::vector<Polynomial> whole;
    for (size_t i = 0; i < group.next.size(); ++i) {
      const auto one = WithoutWeight(group.next[i], static_cast<int>(i), weight);
      if (one) whole.push_back(*one);
    }
    const auto cell = whole.size() == group.next.size() ? MatchCell(algebra, whole) : std::nullopt;
    Value* weights = cell ? PerStep(algebra.atom(weight), inputs) : nullptr;
    if (weights == nullptr || weights->type.dtype != inputs.dtype) continue;
    Formula f(outer_.builder);
    inputs.updates =
        group.mask ? f.Where(group.updates, weights, f.Number(0, inputs.dtype)) : weights;
    group.cell = *cell;
    return {};
  }
  return NotACell("its formula is another one");
}

// Tells what the states of all steps are: values of the body that are the state after a step, and
// those that are it where the mask is true.
void LoopStates::Publish(const Group& group) {
  const LoopState& state = *group.states[group.cell.state];
  const Value* mask = group.mask ? group.algebra.atom(*group.mask).value : nullptr;
  for (const auto& node : body_.nodes) {
    Value* value = node->result();
    if (!(value->type == state.after->type) || !values_.DependsOnState(value)) continue;
    const auto blocks = group.reader->Read(value);
    if (blocks.size() != 1 || !(group.AtMask(blocks[0], true) == group.next[group.cell.state]))
      continue;
    const bool is_exact = !mask || group.AtMask(blocks[0], false).Single() == group.cell.state;
    if (!is_exact && !group.algebra.MasksIn(blocks[0]).empty()) continue;
    known_[value] = {&state, is_exact ? nullptr : mask};
  }
  for (const auto& [value, known] : known_) {
    if (known.state == &state) values_.DeclareComputed(value, group.node->result());
  }
}

// An output that is zero where the mask is false, and else a state.
Value* LoopStates::Shown(const Group& group, Value* output) {
  const auto blocks = group.reader->Read(output);
  if (!group.mask || blocks.size() != 1 || !group.AtMask(blocks[0], false).IsZero() ||
      !(group.AtMask(blocks[0], true) == group.next[group.cell.state]))
    return nullptr;
  Formula f(outer_.builder);
  Value* states = group.node->result();
  Shape shape = states->type.shape;
  shape[2] = 1;
  return f.Where(f.Reshape(group.updates, shape), states, f.Number(0, states->type.dtype));
}

Value* LoopStates::AllSteps(Value* output) {
  if (!values_.DependsOnState(output)) {
    Shape shape = output->type.shape;
    shape.insert(shape.begin(), steps_);
    if (!values_.DependsOnStep(output))
      return Formula(outer_.builder).Expand(values_.Invariant(output), shape);
    Value* all = values_.AllSteps(output);
    return all && all->type.shape == shape ? all : nullptr;
  }
  for (const auto& group : groups_) {
    if (Value* shown = Shown(*group, output)) return shown;
  }
  return nullptr;
}

}  // namespace fusec
