#include "compiler/import/loop_import.h"

#include <limits>
#include <utility>

#include "compiler/import/loop_body.h"
#include "compiler/import/names.h"

namespace fusec {
namespace {

using Kind = LoopTerm::Kind;
using Mode = LoopTerm::Mode;

class LoopImporter {
 public:
  LoopImporter(onnx::NodeProto& node, ImportState& state, Scope& scope)
      : node_(node), state_(state), scope_(&scope) {}

  Result<void> Run(ValueList& results) {
    onnx::GraphProto* body = nullptr;
    for (onnx::AttributeProto& attribute : *node_.mutable_attribute()) {
      if (attribute.name() == "body" && attribute.has_g()) body = attribute.mutable_g();
    }
    const int carried = node_.input_size() - 2;
    if (body == nullptr || carried < 0 || body->input_size() != carried + 2 ||
        body->output_size() != node_.output_size() + 1 || node_.output_size() < carried) {
      return ModelError("the numbers of its inputs, outputs and body's values do not match");
    }
    FUSEC_TRY(FindTrips(*body));
    LoopTerms terms;
    terms[body->input(0).name()] = {.kind = Kind::kCounter};
    Scope inner(scope_);
    inner.Define(body->input(1).name(), True());
    for (int i = 0; i < carried; ++i) {
      FUSEC_ASSIGN(terms[body->input(i + 2).name()], Carried(node_.input(i + 2)));
    }
    LoopBody reader(state_, trips_);
    FUSEC_TRY(reader.Run(*body, inner, terms));
    const auto output = [&](int i) {
      const auto found = terms.find(body->output(i).name());
      if (found != terms.end()) return found->second;
      LoopTerm invariant;
      invariant.value = inner.Get(body->output(i).name());
      return invariant;
    };
    FUSEC_TRY(CheckCondition(output(0)));
    for (int i = 0; i < node_.output_size(); ++i) {
      FUSEC_ASSIGN(Value * result,
                   i < carried ? Final(terms.at(body->input(i + 2).name()), output(i + 1), i)
                               : Scanned(output(i + 1), node_.output(i)));
      results.push_back(result);
    }
    return {};
  }

 private:
  Value* Input(int i) const {
    return i < node_.input_size() && !node_.input(i).empty() ? scope_->Get(node_.input(i))
                                                             : nullptr;
  }
  std::optional<Expr> Number(const Value* value) const {
    const auto contents = value ? KnownContents(value, state_) : std::nullopt;
    if (!contents || contents->size() != 1) return std::nullopt;
    return (*contents)[0];
  }
  Value* True() {
    TensorData data(Dtype::kBool, {});
    data.SetInt(0, 1);
    return state_.builder.Constant(std::move(data));
  }

  // The limit with which the body's condition compares the counter, if it is known outside of the
  // loop.
  std::optional<Expr> LimitIn(const onnx::GraphProto& body) const {
    std::string name = body.output(0).name();
    for (int i = body.node_size() - 1; i >= 0; --i) {
      const onnx::NodeProto& node = body.node(i);
      if (node.output_size() != 1 || node.output(0) != name) continue;
      if (node.op_type() == "Less" && node.input_size() == 2) {
        const Value* limit = scope_->Get(node.input(1));
        return Number(limit);
      }
      if (node.op_type() != "Identity" || node.input_size() != 1) return std::nullopt;
      name = node.input(0);
    }
    return std::nullopt;
  }

  // Either the number of trips is given and the condition is true, or the loop runs while a counter
  // is below a limit. If the condition before the first trip is simply true, the limit is taken
  // from the body.
  Result<void> FindTrips(const onnx::GraphProto& body) {
    const Value* condition = Input(1);
    const auto given = Number(Input(0));
    if (Input(0) != nullptr && !given) {
      return ModelError(
          "its number of trips is computed from run-time data, which fusec does not support");
    }
    // TorchScript and dynamo write INT64_MAX if there is no trip count.
    const bool endless = !given || given->IsConstant(std::numeric_limits<int64_t>::max());
    if (!endless) {
      if (condition != nullptr && Number(condition) != Expr(1)) {
        return ModelError("it has a number of trips and a condition, expected one of them");
      }
      trips_ = *given;
      return {};
    }
    const Node* less = condition ? condition->producer : nullptr;
    const bool compares = less && less->kind == OpKind::kLess;
    const bool begins = condition && Number(condition) == Expr(1);
    const auto first = compares ? Number(less->operand(0)) : std::optional(Expr(0));
    const auto limit = compares ? Number(less->operand(1)) : begins ? LimitIn(body) : std::nullopt;
    const bool is_known = limit && (compares || state_.ranges.ProvenNonNegative(*limit - 1));
    if (!is_known || !first || !first->IsConstant(0)) {
      return ModelError("it runs until a condition on run-time data, which fusec does not support");
    }
    limit_ = trips_ = *limit;
    return {};
  }

  Result<LoopTerm> Carried(const std::string& name) const {
    if (const Sequence* sequence = scope_->GetSequence(name)) {
      if (sequence->rows != nullptr || !sequence->tensors.empty()) {
        return ModelError("it adds to a sequence that is not empty");
      }
      return LoopTerm{.kind = Kind::kSequence};
    }
    const Value* value = scope_->Get(name);
    const auto number = Number(value);
    if (number && number->IsConstant(0) && value->type.rank() <= 1)
      return LoopTerm{.kind = Kind::kCounter};
    return ModelError("it carries \"" + name +
                      "\" from iteration to iteration, expected only a counter from 0, an empty "
                      "sequence, or the states of a GRU, LSTM or RNN");
  }

  Result<void> CheckCondition(const LoopTerm& condition) const {
    if (!limit_) {
      if (condition.kind == Kind::kInvariant && Number(condition.value) == Expr(1)) return {};
    } else if (condition.kind == Kind::kGoesOn && condition.shift == 1 &&
               condition.limit == *limit_) {
      return {};
    }
    return ModelError("it may stop before its " + trips_.ToString() +
                      " trips, which fusec does not support");
  }

  Result<Value*> Final(const LoopTerm& before, const LoopTerm& after, int output) {
    if (before.kind == Kind::kCounter && after.kind == Kind::kCounter && after.shift == 1) {
      return state_.builder.Make(OpKind::kSymbolicDims, {},
                                 {{"values", Exprs{trips_}}, {"scalar", int64_t{1}}});
    }
    if (before.kind == Kind::kSequence && after.kind == Kind::kInserted && after.keepdims) {
      const std::string& name = node_.output(output);
      FUSEC_ASSIGN(Value * rows, Pooled(after, TensorIdentifier(name)));
      scope_->Define(name, Sequence{{}, rows});
      return nullptr;
    }
    return ModelError(
        "it carries a value that is neither a counter that grows by 1 nor a sequence that grows by "
        "a "
        "row");
  }

  Result<Value*> Scanned(const LoopTerm& term, const std::string& name) {
    if (term.kind != Kind::kPooled)
      return ModelError(
          "it collects values that are not pooled bags (sums, means or maxima of rows)");
    FUSEC_ASSIGN(Value * pooled, Pooled(term, TensorIdentifier(name)));
    if (!term.keepdims) return pooled;
    Shape shape = pooled->type.shape;
    shape.insert(shape.begin() + 1, Expr(1));
    return state_.builder.Make(OpKind::kReshape, {pooled}, {{"shape", shape}});
  }

  // The elements i + shift of `offsets` for all iterations i.
  Result<Value*> Bounds(const BagBound& bound) {
    const Shape& shape = bound.offsets->type.shape;
    if (bound.shift < 0 || !state_.ranges.ProvenNonNegative(shape[0] - trips_ - bound.shift)) {
      return ModelError("it runs " + trips_.ToString() + " times over offsets that are " +
                        bound.offsets->type.ToString());
    }
    if (bound.shift == 0 && shape[0] == trips_) return bound.offsets;
    return state_.builder.Make(OpKind::kSlice, {bound.offsets},
                               {{"starts", Exprs{bound.shift}},
                                {"steps", std::vector<int64_t>{1}},
                                {"shape", Exprs{trips_}}});
  }

  // Follows a bound back through slices and identities to the tensor that was sliced.
  static BagBound Traced(BagBound bound) {
    while (const Node* node = bound.offsets->producer) {
      if (node->kind == OpKind::kSlice) {
        const auto start = node->Get<Exprs>("starts")[0].AsConstant();
        if (!start || node->Ints("steps")[0] != 1) break;
        bound = {node->operand(0), bound.shift + *start};
      } else if (node->kind == OpKind::kIdentity) {
        bound.offsets = node->operand(0);
      } else {
        break;
      }
    }
    return bound;
  }

  // Whether the last bag ends with the last row: its bound is the number of rows, which was
  // concatenated to the offsets.
  bool EndsWithRows(const LoopTerm& term) const {
    if (term.last.offsets == nullptr) return true;
    const BagBound last = Traced(term.last);
    const Node* concat = last.offsets->producer;
    if (!concat || concat->kind != OpKind::kConcat) return false;
    const Value* end = concat->operands.back();
    return end->type.shape[0].IsConstant(1) && Number(end) == term.value->type.shape[0] &&
           last.offsets->type.shape[0] == trips_ + last.shift;
  }

  // The size k if all bags have the same constant size (offsets 0, k, 2 k, ..., which embedding_bag
  // makes for 2-D ids), else 0.
  int64_t FixedSize(const LoopTerm& term) const {
    if (term.last.offsets == nullptr || !EndsWithRows(term)) return 0;
    const BagBound first = Traced(term.first), last = Traced(term.last);
    const Node* concat = first.offsets->producer;
    if (first.offsets != last.offsets || first.shift != 0 || last.shift != 1 ||
        concat->operands.size() != 2)
      return 0;
    const Node* range = concat->operand(0)->producer;
    if (!range || range->kind != OpKind::kRange || !range->Has("delta")) return 0;
    const int64_t size = range->Int("delta");
    const bool fits =
        size > 0 && range->Int("start") == 0 &&
        SimplifySum(trips_ * size - term.value->type.shape[0], state_.ranges).IsConstant(0);
    return fits ? size : 0;
  }

  // All pooled bags as one tensor; `name` is the name of the loop's output.
  Result<Value*> Pooled(const LoopTerm& term, const std::string& name) {
    if (term.mode == Mode::kSumOverRest)
      return ModelError("it divides a sum by a value that is not the number of its rows");
    Builder& builder = state_.builder;
    if (!IsFloat(term.value->type.dtype)) {
      return ModelError("its rows are " + term.value->type.ToString() + ", expected floats");
    }
    if (const int64_t size = FixedSize(term)) {
      Shape shape = term.value->type.shape;
      shape[0] = size;
      shape.insert(shape.begin(), trips_);
      Value* bags = builder.Make(OpKind::kReshape, {term.value}, {{"shape", shape}});
      const OpKind kind = term.mode == Mode::kSum    ? OpKind::kReduceSum
                          : term.mode == Mode::kMean ? OpKind::kReduceMean
                                                     : OpKind::kReduceMax;
      return builder.Make(kind, {bags},
                          {{"axes", std::vector<int64_t>{1}}, {"keepdims", int64_t{0}}});
    }
    if (term.last.offsets == nullptr)
      return ModelError("each of its bags goes to the end of the rows");
    if (Value* offsets = WholeOffsets(term, EndsWithRows(term), trips_))
      return Reduced(term, {term.value, offsets}, name);
    FUSEC_ASSIGN(Value * starts, Bounds(term.first));
    FUSEC_ASSIGN(Value * ends, Bounds(term.last));
    if (EndsWithRows(term) || !(term.last_to_end || term.last_over_rest)) {
      return Reduced(term, {term.value, starts, ends}, name);
    }
    return WithOwnLast(term, starts, ends, name);
  }

  Result<Value*> Reduced(const LoopTerm& term, ValueList operands, const std::string& name) {
    const char* mode = term.mode == Mode::kMax ? "max" : term.mode == Mode::kMean ? "mean" : "sum";
    // The sum and the mean of an empty bag are 0 in any case.
    const int64_t zero_if_empty = term.zero_if_empty && term.mode == Mode::kMax;
    FUSEC_ASSIGN(
        Node * pooled,
        state_.builder.Add(OpKind::kSegmentReduce, std::move(operands),
                           {{"mode", std::string(mode)}, {"zero_if_empty", zero_if_empty}}, name));
    return pooled->result();
  }

  // The tensor of offsets, if each bag ends where the next one starts and the last bag ends with
  // the last row; else null.
  static Value* WholeOffsets(const LoopTerm& term, bool ends_with_rows, const Expr& trips) {
    const BagBound first = Traced(term.first), last = Traced(term.last);
    if (!ends_with_rows || first.offsets != last.offsets || first.shift != 0 || last.shift != 1)
      return nullptr;
    const Node* concat = first.offsets->producer;
    Value* offsets = concat && concat->operands.size() == 2 ? concat->operand(0) : nullptr;
    return offsets && offsets->type.shape[0] == trips ? offsets : nullptr;
  }

  // With include_last_offset, the dynamo exporter treats the last bag differently, as torch does:
  // whatever the last offset is, its maximum extends to the last row and its mean divides by the
  // number of rows up to there.
  Result<Value*> WithOwnLast(LoopTerm term, Value* starts, Value* ends, const std::string& name) {
    Builder& builder = state_.builder;
    Value* last_replaced = LastReplaced(ends, term);
    const Dtype dtype = term.value->type.dtype;
    Shape column(term.value->type.shape.size(), Expr(1));
    column[0] = trips_;
    const auto as_column = [&](Value* value) {
      return builder.Make(OpKind::kReshape, {value}, {{"shape", column}});
    };
    if (term.mode == Mode::kMax) {
      Value* is_empty = as_column(builder.Make(OpKind::kEqual, {starts, ends}));
      const bool zero = std::exchange(term.zero_if_empty, false);
      FUSEC_ASSIGN(Value * largest, Reduced(term, {term.value, starts, last_replaced}, name));
      if (!zero) return largest;
      return builder.Make(OpKind::kWhere, {is_empty, builder.Scalar(dtype, 0), largest});
    }
    // mean = sum / max(1, count)
    term.mode = Mode::kSum;
    FUSEC_ASSIGN(Value * sum, Reduced(term, {term.value, starts, ends}, name));
    Value* one = builder.Scalar(ends->type.dtype, 1);
    Value* count =
        builder.Make(OpKind::kMax, {builder.Make(OpKind::kSub, {last_replaced, starts}), one});
    Value* divisor = builder.Make(OpKind::kCast, {count}, {{"to", dtype}});
    return builder.Make(OpKind::kDiv, {sum, as_column(divisor)});
  }

  Value* DimAsData(const Expr& dim) {
    return state_.builder.Make(OpKind::kSymbolicDims, {},
                               {{"values", Exprs{dim}}, {"scalar", int64_t{0}}});
  }
  // `ends` with the number of rows as its last element.
  Value* LastReplaced(Value* ends, const LoopTerm& term) {
    Builder& builder = state_.builder;
    Value* bag = builder.Make(OpKind::kRange, {},
                              {{"start", int64_t{0}},
                               {"delta", int64_t{1}},
                               {"length", Exprs{trips_}},
                               {"dtype", Dtype::kI64}});
    Value* last = DimAsData(trips_ - 1);
    Value* rows = DimAsData(term.value->type.shape[0]);
    if (ends->type.dtype != Dtype::kI64)
      rows = builder.Make(OpKind::kCast, {rows}, {{"to", ends->type.dtype}});
    return builder.Make(OpKind::kWhere, {builder.Make(OpKind::kEqual, {bag, last}), rows, ends});
  }

  onnx::NodeProto& node_;
  ImportState& state_;
  Scope* scope_;
  Expr trips_;
  std::optional<Expr> limit_;  // set if the loop runs while its counter is below it
};

}  // namespace

Result<void> ImportLoop(onnx::NodeProto& node, ImportState& state, Scope& scope,
                        ValueList& results) {
  return LoopImporter(node, state, scope).Run(results);
}

}  // namespace fusec
