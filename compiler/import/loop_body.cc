#include "compiler/import/loop_body.h"

#include <algorithm>

#include "compiler/import/node_attributes.h"
#include "compiler/import/node_order.h"
#include "compiler/ir/op_def.h"

namespace fusec {
namespace {

// An error that also says which loops are supported.
tl::unexpected<Error> Unknown(const std::string& what) {
  return ModelError(
      what +
      "; fusec takes loops that sum, average or maximise the rows between two offsets "
      "(nn.EmbeddingBag without padding_idx)");
}

}  // namespace

Result<void> LoopBody::Run(onnx::GraphProto& graph, Scope& scope, LoopTerms& terms) {
  ImportInitializers(graph, {}, state_, scope);
  Problems structure(state_.problems.path());
  const auto known = [&](const std::string& tensor) {
    return terms.count(tensor) != 0 || scope.Knows(tensor);
  };
  const std::vector<int> order = OrderNodes(graph, known, structure);
  state_.problems.Append(structure);
  if (!structure.empty()) return ModelError("");
  for (const int i : order) {
    onnx::NodeProto& node = *graph.mutable_node(i);
    Result<LoopTerm> term = Evaluate(node, scope, terms);
    if (!term) {
      const std::string& message = term.error().message;
      return ModelError(message.empty() ? "" : "its body's " + NodeLabel(node) + " " + message);
    }
    if (node.output_size() == 0) continue;
    terms[node.output(0)] = *term;
    if (term->kind == Kind::kInvariant || term->kind == Kind::kRows) {
      scope.Define(node.output(0), term->value);
    }
  }
  return {};
}

std::optional<Expr> LoopBody::Number(const LoopTerm& term) const {
  if (term.kind != Kind::kInvariant) return std::nullopt;
  const auto contents = KnownContents(term.value, state_);
  if (!contents || contents->size() != 1) return std::nullopt;
  return (*contents)[0];
}

std::optional<BagBound> LoopBody::BoundOf(const LoopTerm& term, const Value* rows) const {
  if (term.kind == Kind::kElement) return BagBound{term.value, term.shift};
  if (Number(term) == rows->type.shape[0]) return BagBound{};
  return std::nullopt;
}

Result<LoopTerm> LoopBody::Evaluate(onnx::NodeProto& node, Scope& scope, LoopTerms& terms) {
  if (node.op_type() == "If") return EvaluateIf(node, scope, terms);
  Inputs in;
  bool invariant = true;
  for (const std::string& name : node.input()) {
    LoopTerm term;
    if (const auto found = terms.find(name); found != terms.end()) {
      term = found->second;
    } else if (!name.empty()) {
      term.value = scope.Get(name);
      if (term.value == nullptr) return ModelError("");  // its node failed
    }
    in.terms.push_back(term);
    in.given.push_back(!name.empty());
    invariant &= term.kind == Kind::kInvariant;
  }
  if (node.op_type() == "Loop" || node.op_type() == "Scan") return Unknown("is a loop in a loop");
  if (invariant) return Import(node, scope);
  if (!node.domain().empty()) return Unknown("is not recognised");
  FUSEC_TRY(CheckSchema(node, state_, scope));
  return EvaluateOne(node, in, scope);
}

Result<LoopTerm> LoopBody::EvaluateOne(onnx::NodeProto& node, const Inputs& in, Scope& scope) {
  const std::string& op = node.op_type();
  const auto is_rows = [](const LoopTerm& term) { return term.kind == Kind::kRows; };
  const LoopTerm& x = in.terms[0];
  const bool one_element =
      x.kind == Kind::kCounter || x.kind == Kind::kElement || x.kind == Kind::kRest;
  if (op == "Identity") return x;
  if (one_element && (op == "Cast" || op == "CastLike" || op == "Reshape" || op == "Unsqueeze" ||
                      op == "Squeeze")) {
    return x;
  }
  // The cast of a loop-invariant integer is ignored: only its value matters.
  if (op == "CastLike" && x.kind == Kind::kInvariant && IsInteger(x.value->type.dtype)) return x;
  if (op == "Gather" && in.Is(0, Kind::kInvariant) && in.Is(1, Kind::kCounter)) {
    if (x.value->type.rank() != 1) return Unknown("looks up a row that the counter chooses");
    return LoopTerm{.kind = Kind::kElement, .value = x.value, .shift = in.terms[1].shift};
  }
  if (op == "Slice") return Slice(node, in);
  if (op == "ReduceSum" || op == "ReduceMean" || op == "ReduceMax") return Pool(node, in);
  if (op == "Equal" || op == "Less" || op == "Greater") return Compare(node, in);
  if (op == "SequenceInsert" && in.Is(0, Kind::kSequence) && in.Is(1, Kind::kPooled) &&
      in.terms.size() == 2) {
    LoopTerm inserted = in.terms[1];
    inserted.kind = Kind::kInserted;
    return inserted;
  }
  if (std::any_of(in.terms.begin(), in.terms.end(), is_rows)) return RowByRow(node, in, scope);
  if (op == "Add" || op == "Sub" || op == "Div") return Arithmetic(node, in, scope);
  return Unknown("is not recognised");
}

Result<LoopTerm> LoopBody::Import(onnx::NodeProto& node, Scope& scope) {
  ImportNode(node, state_, scope);
  LoopTerm term;
  if (node.output_size() > 0) term.value = scope.Get(node.output(0));
  if (term.value == nullptr) return ModelError("");
  return term;
}

// Applies a node that computes each row of its result from the same row of its operands to all rows
// at once.
Result<LoopTerm> LoopBody::RowByRow(onnx::NodeProto& node, const Inputs& in, Scope& scope) {
  const OpDef* op = node.domain().empty() ? FindOpByOnnx(node.op_type()) : nullptr;
  const bool is_lookup = node.op_type() == "Gather" && in.Is(0, Kind::kInvariant) &&
                         in.Is(1, Kind::kRows) && IntAttribute(node, "axis", 0) == 0;
  const bool pointwise = op != nullptr && op->op_class == OpClass::kPointwise;
  if (!is_lookup && !pointwise && node.op_type() != "Unsqueeze") {
    return Unknown("does not process each row independently");
  }
  LoopTerm rows;
  for (const LoopTerm& term : in.terms) {
    if (term.kind == Kind::kRows) {
      if (rows.value != nullptr && (rows.first != term.first || rows.last != term.last ||
                                    rows.last_to_end != term.last_to_end)) {
        return Unknown("combines rows of different bags");
      }
      rows = term;
    } else if (term.kind != Kind::kInvariant) {
      return Unknown("mixes rows with the counter");
    }
  }
  const Expr count = rows.value->type.shape[0];
  FUSEC_ASSIGN(const LoopTerm result, Import(node, scope));
  const int rank = result.value->type.rank();
  bool stays = rank > 0 && result.value->type.shape[0] == count;
  for (const LoopTerm& term : in.terms) {
    if (!pointwise || term.value == nullptr) continue;
    const Shape& shape = term.value->type.shape;
    const bool has_rows = term.value->type.rank() == rank;
    if (term.kind == Kind::kRows)
      stays &= has_rows;
    else
      stays &= !has_rows || shape[0].IsConstant(1);
  }
  if (!stays) return Unknown("mixes the rows of a bag");
  rows.value = result.value;
  return rows;
}

Result<LoopTerm> LoopBody::Arithmetic(onnx::NodeProto& node, const Inputs& in, Scope&) {
  const std::string& op = node.op_type();
  const LoopTerm &a = in.terms[0], &b = in.terms[1];
  const int counter = in.Is(0, Kind::kCounter) ? 0 : 1;
  if (op != "Div" && in.Is(counter, Kind::kCounter) && (counter == 0 || op == "Add")) {
    const auto step = Number(in.terms[1 - counter]);
    const auto number = step ? step->AsConstant() : std::nullopt;
    if (!number) return Unknown("adds a run-time value to the counter");
    LoopTerm moved = in.terms[counter];
    moved.shift += op == "Sub" ? -*number : *number;
    return moved;
  }
  if (op == "Sub" && b.kind == Kind::kElement) {
    if (const auto limit = Number(a)) {
      LoopTerm rest{.kind = Kind::kRest, .limit = *limit};
      rest.first = {b.value, b.shift};
      return rest;
    }
  }
  if (op == "Div" && a.kind == Kind::kPooled && b.kind == Kind::kRest && a.mode == Mode::kSum &&
      b.first == a.first && b.limit == a.value->type.shape[0]) {
    LoopTerm mean = a;
    mean.mode = Mode::kSumOverRest;
    return mean;
  }
  return Unknown("is not recognised");
}

Result<LoopTerm> LoopBody::Compare(onnx::NodeProto& node, const Inputs& in) {
  const std::string& op = node.op_type();
  const LoopTerm &a = in.terms[0], &b = in.terms[1];
  if (op == "Equal" && a.kind == Kind::kElement && b.kind == Kind::kElement) {
    LoopTerm term{.kind = Kind::kIsEmpty};
    term.first = {a.value, a.shift};
    term.last = {b.value, b.shift};
    return term;
  }
  const auto limit = Number(b);
  if (a.kind == Kind::kCounter && limit && op == "Equal") {
    return LoopTerm{.kind = Kind::kIsAt, .limit = *limit - a.shift};
  }
  if (a.kind == Kind::kCounter && limit && op == "Less") {
    return LoopTerm{.kind = Kind::kGoesOn, .shift = a.shift, .limit = *limit};
  }
  if (a.kind == Kind::kRest && limit && limit->IsConstant(0) && op == "Greater") {
    LoopTerm term = a;
    term.kind = Kind::kHasRest;
    return term;
  }
  return Unknown("is a comparison that is not recognised");
}

// data[i + a : i + a + 1] is an element of offsets; data[element : element] is the rows of a bag.
Result<LoopTerm> LoopBody::Slice(onnx::NodeProto&, const Inputs& in) {
  if (!in.Is(0, Kind::kInvariant) || in.terms.size() < 3)
    return Unknown("slices a value that the loop computes");
  Value* data = in.terms[0].value;
  if (data->type.rank() == 0) return Unknown("slices a scalar");
  const auto number = [&](size_t i, int64_t otherwise) {
    if (i >= in.terms.size() || !in.given[i]) return std::optional<Expr>(otherwise);
    return Number(in.terms[i]);
  };
  const auto axis = number(3, 0);
  if (!axis || !(axis->IsConstant(0) || axis->IsConstant(-data->type.rank())) ||
      number(4, 1) != Expr(1)) {
    return Unknown("slices along another axis than the first, or in steps");
  }
  const LoopTerm &start = in.terms[1], &end = in.terms[2];
  if (start.kind == Kind::kCounter && end.kind == Kind::kCounter) {
    if (end.shift != start.shift + 1 || data->type.rank() != 1) {
      return Unknown("slices " + std::to_string(end.shift - start.shift) +
                     " rows that the counter chooses");
    }
    return LoopTerm{.kind = Kind::kElement, .value = data, .shift = start.shift};
  }
  const auto first = BoundOf(start, data), last = BoundOf(end, data);
  if (!first || !last || first->offsets == nullptr) return Unknown("slices at unknown places");
  LoopTerm rows{.kind = Kind::kRows, .value = data};
  rows.first = *first;
  rows.last = *last;
  return rows;
}

Result<LoopTerm> LoopBody::Pool(onnx::NodeProto& node, const Inputs& in) {
  if (!in.Is(0, Kind::kRows)) return Unknown("reduces something other than the rows of a bag");
  bool first_axis = false;
  if (const onnx::AttributeProto* axes = FindAttribute(node, "axes")) {
    first_axis = axes->ints_size() == 1 && axes->ints(0) == 0;
  } else if (in.terms.size() > 1 && in.given[1]) {
    first_axis = Number(in.terms[1]) == Expr(0);
  }
  if (!first_axis) return Unknown("reduces along other axes than the first");
  LoopTerm pooled = in.terms[0];
  pooled.kind = Kind::kPooled;
  pooled.keepdims = IntAttribute(node, "keepdims", 1) != 0;
  pooled.mode = node.op_type() == "ReduceSum"    ? Mode::kSum
                : node.op_type() == "ReduceMean" ? Mode::kMean
                                                 : Mode::kMax;
  return pooled;
}

Result<LoopTerm> LoopBody::Branch(onnx::NodeProto& node, const std::string& which,
                                  const Scope& scope, const LoopTerms& terms) {
  for (onnx::AttributeProto& attribute : *node.mutable_attribute()) {
    if (attribute.name() != which || !attribute.has_g() || attribute.g().output_size() != 1)
      continue;
    Scope inner(&scope);
    LoopTerms known = terms;
    FUSEC_TRY(Run(*attribute.mutable_g(), inner, known));
    const std::string& output = attribute.g().output(0).name();
    if (const auto found = known.find(output); found != known.end()) return found->second;
    LoopTerm invariant;
    invariant.value = inner.Get(output);
    if (invariant.value == nullptr) return ModelError("");
    return invariant;
  }
  return Unknown("has no " + which + " with one output");
}

Result<LoopTerm> LoopBody::EvaluateIf(onnx::NodeProto& node, Scope& scope, LoopTerms& terms) {
  if (node.input_size() != 1 || node.output_size() != 1) return Unknown("has several outputs");
  LoopTerm condition;
  if (const auto found = terms.find(node.input(0)); found != terms.end()) {
    condition = found->second;
  } else {
    condition.value = scope.Get(node.input(0));
    if (condition.value == nullptr) return ModelError("");
  }
  if (condition.kind == Kind::kInvariant) {
    const auto truth = Number(condition);
    if (!truth || !truth->AsConstant()) return Unknown("has a condition known at run time only");
    return Branch(node, truth->IsConstant(0) ? "else_branch" : "then_branch", scope, terms);
  }
  FUSEC_ASSIGN(LoopTerm then, Branch(node, "then_branch", scope, terms));
  FUSEC_ASSIGN(LoopTerm otherwise, Branch(node, "else_branch", scope, terms));
  return Join(condition, std::move(then), std::move(otherwise));
}

Result<LoopTerm> LoopBody::Join(const LoopTerm& condition, LoopTerm then, LoopTerm otherwise) {
  const bool pools = otherwise.kind == Kind::kPooled;
  const bool both_pool = pools && then.kind == Kind::kPooled && then.value == otherwise.value &&
                         then.first == otherwise.first;
  const auto is_zero = [](const Value* value) {
    const TensorData* data = Payload(value);
    return data != nullptr && data->IsZero();
  };
  // start == end ? zeros : pooled
  if (condition.kind == Kind::kIsEmpty && pools && then.kind == Kind::kInvariant &&
      is_zero(then.value) && condition.first == otherwise.first &&
      condition.last == otherwise.last) {
    otherwise.zero_if_empty = true;
    return otherwise;
  }
  // rest > 0 ? sum / rest : sum
  if (condition.kind == Kind::kHasRest && both_pool && condition.first == then.first &&
      then.mode == Mode::kSumOverRest && otherwise.mode == Mode::kSum) {
    return then;
  }
  if (condition.kind == Kind::kIsAt &&
      SimplifySum(condition.limit - trips_ + 1, state_.ranges).IsConstant(0)) {
    // In the last iteration: sum / rest, else the mean.
    if (both_pool && then.mode == Mode::kSumOverRest && otherwise.mode == Mode::kMean) {
      otherwise.last_over_rest = true;
      return otherwise;
    }
    // In the last iteration: all rows that are left.
    if (then.kind == Kind::kRows && otherwise.kind == Kind::kRows &&
        then.value == otherwise.value && then.first == otherwise.first &&
        then.last.offsets == nullptr) {
      otherwise.last_to_end = true;
      return otherwise;
    }
  }
  return Unknown("chooses between values in a way that is not recognised");
}

}  // namespace fusec
