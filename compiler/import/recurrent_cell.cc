#include "compiler/import/recurrent_cell.h"

#include <algorithm>

#include "compiler/ops/formula.h"

namespace fusec {

namespace {

class CellWriter {
 public:
  CellWriter(const MatchedCell& cell, const RecurrenceInputs& inputs, StepValues& values,
             Builder& builder)
      : cell_(cell), inputs_(inputs), values_(values), builder_(builder), f_(builder) {}

  Node* Write() {
    Value* gates = GateInputs();
    if (gates == nullptr) return nullptr;
    Value* weights = Weights();
    ValueList operands = {
        gates,   weights,        nullptr, nullptr, Initial(inputs_.state), Initial(inputs_.cell),
        nullptr, inputs_.updates};
    if (!cell_.reset_bias.empty()) {
      Value* bias = nullptr;
      for (const GateTerm& term : cell_.reset_bias) {
        Value* part = Invariant(term);
        if (part == nullptr) return nullptr;
        bias = bias ? f_.Add(bias, part) : part;
      }
      operands[kBias] = f_.Reshape(f_.Expand(bias, {units()}), {Expr(1), units()});
    }
    while (operands.back() == nullptr) operands.pop_back();
    Result<Node*> node =
        builder_.Add(OpKind::kRecurrence, operands,
                     {{"cell", std::string(cell_.kind->name)},
                      {"direction", std::string(inputs_.is_reverse ? "reverse" : "forward")},
                      {"batch_first", int64_t{0}},
                      {"activations", cell_.activations},
                      {"alphas", cell_.alphas},
                      {"betas", cell_.betas},
                      {"clip", 0.0},
                      {"linear_before_reset", int64_t{cell_.linear_before_reset}},
                      {"input_forget", int64_t{0}}});
    return node ? *node : nullptr;
  }

 private:
  Expr units() const { return inputs_.units; }
  Value* Initial(Value* state) {
    return state ? f_.Reshape(state, {Expr(1), inputs_.batch, units()}) : nullptr;
  }
  Value* Scaled(Value* value, double factor) { return factor == 1 ? value : f_.Mul(value, factor); }

  // The columns of an invariant term, [units] or one element, times its factor.
  Value* Invariant(const GateTerm& term) {
    Value* value = values_.Invariant(term.value);
    const Shape& shape = value->type.shape;
    const Expr columns = shape.empty() ? Expr(1) : shape.back();
    if (!(value->type.ElementCount() == columns)) return nullptr;
    value = f_.Reshape(value, {columns});
    if (term.block >= 0) value = values_.ColumnsOf(value, {term.block}, inputs_.units, 0);
    return Scaled(value, term.factor);
  }

  // The sum of a gate's invariant terms and its number, [units]; null if one cannot be taken.
  Value* InvariantSum(const GateSum& gate) {
    Value* sum = f_.Number(gate.number, inputs_.dtype);
    for (const GateTerm& term : gate.terms) {
      if (!term.is_invariant) continue;
      Value* part = Invariant(term);
      if (part == nullptr) return nullptr;
      sum = f_.Add(sum, part);
    }
    return f_.Expand(sum, {units()});
  }

  // The blocks of `value` for all gates in order, if each gate has it once and with factor 1.
  std::optional<std::vector<int64_t>> BlocksOfAllGates(const Value* value) const {
    std::vector<int64_t> blocks;
    for (const GateSum& gate : cell_.gates) {
      int found = 0;
      for (const GateTerm& term : gate.terms) {
        if (term.value != value || term.is_invariant) continue;
        if (term.factor != 1 || term.block < 0) return std::nullopt;
        blocks.push_back(term.block);
        ++found;
      }
      if (found != 1) return std::nullopt;
    }
    return blocks;
  }

  std::vector<Value*> StepTerms() const {
    std::vector<Value*> values;
    for (const GateSum& gate : cell_.gates) {
      for (const GateTerm& term : gate.terms) {
        const bool is_known = std::find(values.begin(), values.end(), term.value) != values.end();
        if (!term.is_invariant && !is_known) values.push_back(term.value);
      }
    }
    return values;
  }

  // What steps and invariants add to the gates, [steps, batch, gates * units].
  Value* GateInputs() {
    Value* sum = AllGatesAtOnce();
    if (sum == nullptr) sum = GateByGate();
    if (sum == nullptr) return nullptr;
    ValueList invariants;
    bool has_any = false;
    for (const GateSum& gate : cell_.gates) {
      has_any |= gate.number != 0;
      for (const GateTerm& term : gate.terms) has_any |= term.is_invariant;
    }
    for (const GateSum& gate : cell_.gates) {
      if (!has_any) break;
      invariants.push_back(InvariantSum(gate));
      if (invariants.back() == nullptr) return nullptr;
    }
    if (has_any)
      sum = f_.Add(sum, invariants.size() == 1 ? invariants[0] : f_.Concat(invariants, 0));
    return f_.Expand(sum, {inputs_.steps, inputs_.batch, GateColumns()});
  }
  Expr GateColumns() const { return inputs_.units * static_cast<int64_t>(cell_.gates.size()); }

  Value* AllGatesAtOnce() {
    Value* sum = nullptr;
    for (Value* value : StepTerms()) {
      const auto blocks = BlocksOfAllGates(value);
      Value* part = blocks ? values_.Columns(value, *blocks, inputs_.units) : nullptr;
      if (part == nullptr) return nullptr;
      sum = sum ? f_.Add(sum, part) : part;
    }
    return sum;
  }

  Value* GateByGate() {
    ValueList gates;
    for (const GateSum& gate : cell_.gates) {
      Value* sum = f_.Number(0, inputs_.dtype);
      for (const GateTerm& term : gate.terms) {
        if (term.is_invariant) continue;
        Value* part = term.block < 0 ? values_.AllSteps(term.value)
                                     : values_.Columns(term.value, {term.block}, inputs_.units);
        if (part == nullptr) return nullptr;
        sum = f_.Add(sum, Scaled(part, term.factor));
      }
      gates.push_back(f_.Expand(sum, {inputs_.steps, inputs_.batch, units()}));
    }
    return gates.size() == 1 ? gates[0] : f_.Concat(gates, 2);
  }

  // The weights of the state, [1, units, gates * units].
  Value* Weights() {
    std::vector<int64_t> blocks;
    bool is_one = true;
    for (const GateSum& gate : cell_.gates) {
      is_one &= gate.product != nullptr && gate.product == cell_.gates[0].product &&
                gate.product_factor == 1;
      blocks.push_back(gate.product_block);
    }
    Value* all = nullptr;
    if (is_one) {
      all = values_.ColumnsOf(RightFactor(*cell_.gates[0].product), blocks, inputs_.units, 1);
    } else {
      ValueList parts;
      for (const GateSum& gate : cell_.gates) {
        if (gate.product == nullptr) {
          parts.push_back(f_.Expand(f_.Number(0, inputs_.dtype), {units(), units()}));
          continue;
        }
        Value* columns =
            values_.ColumnsOf(RightFactor(*gate.product), {gate.product_block}, inputs_.units, 1);
        parts.push_back(Scaled(columns, gate.product_factor));
      }
      all = f_.Concat(parts, 1);
    }
    return f_.Reshape(all, {Expr(1), units(), GateColumns()});
  }
  Value* RightFactor(const Node& product) {
    Value* weights = values_.Invariant(product.operand(1));
    return product.Int("transpose_b") != 0 ? f_.Transpose(weights, {1, 0}) : weights;
  }

  const MatchedCell& cell_;
  const RecurrenceInputs& inputs_;
  StepValues& values_;
  Builder& builder_;
  Formula f_;
};

}  // namespace

Node* AddRecurrence(const MatchedCell& cell, const RecurrenceInputs& inputs, StepValues& values,
                    Builder& builder) {
  return CellWriter(cell, inputs, values, builder).Write();
}

}  // namespace fusec
