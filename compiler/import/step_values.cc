#include "compiler/import/step_values.h"

#include <algorithm>

#include "compiler/ir/op_def.h"
#include "compiler/support/check.h"

namespace fusec {

namespace {

// Whether a node is where(x < 0, .., x), which makes a place from one that may count from the end.
bool IsPlaceFromEither(const Node& node) {
  if (node.kind != OpKind::kWhere) return false;
  const Node* less = node.operand(0)->producer;
  if (less == nullptr || less->kind != OpKind::kLess || less->operand(0) != node.operand(2))
    return false;
  const Node* limit = less->operand(1)->producer;
  return limit != nullptr && limit->kind == OpKind::kConstant &&
         IsInteger(less->operand(1)->type.dtype) && limit->constant.element_count() == 1 &&
         limit->constant.GetInt(0) == 0;
}

Shape After(const Expr& first, const Shape& rest) {
  Shape shape = {first};
  shape.insert(shape.end(), rest.begin(), rest.end());
  return shape;
}

}  // namespace

bool StepValues::IsCounter(const Value* value) const {
  while (const Node* node = value->producer) {
    if (!value->type.ElementCount().IsConstant(1)) return false;
    if (IsPlaceFromEither(*node)) {
      value = node->operand(2);  // a counter is never negative
    } else if (node->kind == OpKind::kCast || node->kind == OpKind::kIdentity ||
               node->kind == OpKind::kReshape ||
               (node->kind == OpKind::kConcat && node->operands.size() == 1)) {
      value = node->operand(0);
    } else {
      return false;
    }
  }
  return counters_.contains(value);
}

void StepValues::DeclareComputed(const Value* value, Value* sequence) {
  ForgetComputed(value);
  computed_.insert(value);
  // What depends on it could not be computed before.
  std::vector<const Value*> unknown;
  for (const auto& [other, all_steps] : all_steps_) {
    if (all_steps == nullptr) unknown.push_back(other);
  }
  for (const Value* other : unknown) all_steps_.erase(other);
  all_steps_[value] = sequence;
}

void StepValues::ForgetComputed(const Value* value) {
  computed_.erase(value);
  all_steps_.erase(value);
  dependences_.clear();
}

StepValues::Dependence StepValues::Depends(const Value* value) {
  if (states_.contains(value)) return {.on_state = true};
  if (counters_.contains(value) || computed_.contains(value)) return {.on_step = true};
  if (copies_.count(value) != 0) return {};
  if (value->producer == nullptr) return {.on_step = all_steps_.count(value) != 0};
  if (dependences_.empty()) {
    // In the order of the body, so that operands come first.
    for (const auto& node : body_.nodes) {
      Dependence all;
      for (const Value* operand : node->operands) {
        if (operand == nullptr) continue;
        const auto known = dependences_.find(operand);
        const bool is_input = operand->producer == nullptr;
        const Dependence one = known != dependences_.end() ? known->second
                               : is_input                  ? Depends(operand)
                                                           : Dependence{};
        all.on_state |= one.on_state;
        all.on_step |= one.on_step;
      }
      for (const auto& result : node->results) {
        dependences_[result.get()] =
            computed_.contains(result.get()) ? Dependence{.on_step = true} : all;
      }
    }
  }
  const auto found = dependences_.find(value);
  return found == dependences_.end() ? Dependence{} : found->second;
}

Value* StepValues::Invariant(Value* value) {
  if (const auto found = copies_.find(value); found != copies_.end()) return found->second;
  (void)Depends(value);
  if (value->producer == nullptr || dependences_.count(value) == 0) return value;
  const Node& node = *value->producer;
  ValueList operands;
  for (Value* operand : node.operands)
    operands.push_back(operand == nullptr ? nullptr : Invariant(operand));
  Builder& builder = outer_.builder;
  if (node.kind == OpKind::kConstant) {
    Value* copy = builder.Constant(node.constant, value->name);
    copy->producer->attributes = node.attributes;
    copy->producer->derivation = node.derivation;
    const auto named = inner_.constant_names.find(value->name);
    if (named != inner_.constant_names.end()) outer_.constant_names[copy->name] = named->second;
    return copies_[value] = copy;
  }
  const Result<Node*> copy = builder.Add(node.kind, operands, node.attributes, value->name);
  FUSEC_CHECK(copy.has_value(), "a node of a loop is not valid around it: " + PrintNode(node));
  for (size_t i = 0; i < node.results.size(); ++i)
    copies_[node.results[i].get()] = (*copy)->results[i].get();
  return copies_[value];
}

Value* StepValues::AllSteps(Value* value) { return Part(value, nullptr); }

Value* StepValues::Columns(Value* value, ArrayRef<int64_t> blocks, int64_t width) {
  bool is_whole = value->type.shape.back().IsConstant(width * static_cast<int64_t>(blocks.size()));
  for (size_t i = 0; i < blocks.size(); ++i) is_whole &= blocks[i] == static_cast<int64_t>(i);
  if (is_whole) return AllSteps(value);
  const Block block{blocks, width};
  return Part(value, &block);
}

Value* StepValues::Part(Value* value, const Block* blocks) {
  if (!blocks) {
    const auto known = all_steps_.find(value);
    if (known != all_steps_.end()) return known->second;
  }
  const Node* node = value->producer;
  Value* result = nullptr;
  bool is_part = true;  // whether `result` has only the blocks
  if (counters_.contains(value)) {
    if (reads_backwards_) return nullptr;
    result = f_.Cast(f_.Iota(0, steps_), value->type.dtype);
  } else if (node == nullptr || computed_.contains(value)) {
    const auto known = all_steps_.find(value);
    result = known == all_steps_.end() ? nullptr : known->second;
    is_part = false;
  } else if (node->kind == OpKind::kMatMul || node->kind == OpKind::kGemm) {
    result = Product(*node, blocks);
  } else if (GetOpDef(node->kind).op_class == OpClass::kPointwise) {
    result = Pointwise(*node, blocks);
  } else {
    result = node->kind == OpKind::kGather ? Gathered(*node) : Other(*node);
    is_part = false;
  }
  if (result && blocks && !is_part) {
    const int last = result->type.rank() - 1;
    return ColumnsOf(result, blocks->numbers, blocks->width, last);
  }
  if (!blocks) all_steps_[value] = result;
  return result;
}

Value* StepValues::ColumnsOf(Value* tensor, ArrayRef<int64_t> blocks, int64_t width, int axis) {
  ValueList parts;
  for (size_t i = 0; i < blocks.size();) {
    size_t count = 1;
    while (i + count < blocks.size() &&
           blocks[i + count] == blocks[i] + static_cast<int64_t>(count))
      ++count;
    const int64_t columns = static_cast<int64_t>(count) * width;
    const bool is_all = blocks[i] == 0 && tensor->type.shape[axis].IsConstant(columns);
    parts.push_back(is_all ? tensor : f_.Slice(tensor, axis, blocks[i] * width, columns));
    i += count;
  }
  return parts.size() == 1 ? parts[0] : f_.Concat(parts, axis);
}

Value* StepValues::WithRank(Value* all_steps, int rank) {
  if (all_steps == nullptr || all_steps->type.rank() == rank + 1) return all_steps;
  Shape shape = all_steps->type.shape;
  shape.insert(shape.begin() + 1, rank + 1 - shape.size(), Expr(1));
  return f_.Reshape(all_steps, shape);
}

Value* StepValues::Pointwise(const Node& node, const Block* blocks) {
  if (node.Has("axis")) return nullptr;
  const int rank = node.result()->type.rank();
  const auto width = rank == 0 ? std::nullopt : node.result()->type.shape.back().AsConstant();
  ValueList operands;
  for (Value* operand : node.operands) {
    if (operand == nullptr) return nullptr;
    const bool has_columns =
        blocks && operand->type.rank() > 0 && !operand->type.shape.back().IsConstant(1);
    if (has_columns && (!width || !operand->type.shape.back().IsConstant(*width))) return nullptr;
    if (DependsOnStep(operand)) {
      operands.push_back(WithRank(Part(operand, has_columns ? blocks : nullptr), rank));
    } else {
      Value* copy = Invariant(operand);
      operands.push_back(
          has_columns ? ColumnsOf(copy, blocks->numbers, blocks->width, copy->type.rank() - 1)
                      : copy);
    }
    if (operands.back() == nullptr) return nullptr;
  }
  return f_.Make(node.kind, operands, node.attributes);
}

bool StepValues::IsByInvariantMatrix(const Node& product) {
  const Value* matrix = product.operand(1);
  const bool is_scaled =
      product.kind == OpKind::kGemm && (product.Float("alpha") != 1 || product.Float("beta") != 1);
  return !DependsOnState(matrix) && !DependsOnStep(matrix) && matrix->type.rank() == 2 &&
         product.Int("transpose_a") == 0 && !is_scaled;
}

Value* StepValues::Product(const Node& node, const Block* blocks) {
  if (!IsByInvariantMatrix(node)) return nullptr;
  Value* weights = node.operand(1);
  const bool is_gemm = node.kind == OpKind::kGemm;
  Value* left = AllSteps(node.operand(0));
  if (left == nullptr) return nullptr;
  const bool transposed = node.Int("transpose_b") != 0;
  Value* right = Invariant(weights);
  if (blocks) right = ColumnsOf(right, blocks->numbers, blocks->width, transposed ? 0 : 1);
  Value* product = f_.MatMul(left, right, false, transposed);
  Value* addend = node.operand(2);
  if (!is_gemm || addend == nullptr) return product;
  if (DependsOnStep(addend) || addend->type.rank() > 1) return nullptr;
  Value* copy = Invariant(addend);
  if (blocks && addend->type.rank() == 1 && !addend->type.shape[0].IsConstant(1))
    copy = ColumnsOf(copy, blocks->numbers, blocks->width, 0);
  return f_.Add(product, copy);
}

bool StepValues::IsElement(const Node& gather) {
  const Value *sequence = gather.operand(0), *index = gather.operand(1);
  return gather.kind == OpKind::kGather && gather.Int("axis") == 0 &&
         gather.operand(2) == nullptr && IsCounter(index) && index->type.rank() == 0 &&
         !DependsOnStep(sequence) && sequence->type.shape[0] == steps_;
}

Value* StepValues::Gathered(const Node& gather) {
  if (!IsElement(gather)) {
    Value *table = gather.operand(0), *ids = gather.operand(1);
    if (gather.Int("axis") != 0 || gather.operand(2) || DependsOnStep(table) || !DependsOnStep(ids))
      return nullptr;
    Value* all_ids = AllSteps(ids);
    return all_ids ? f_.Gather(Invariant(table), all_ids) : nullptr;
  }
  Value* sequence = Invariant(gather.operand(0));
  return reads_backwards_ ? Unreversed(sequence) : sequence;
}

Value* StepValues::Unreversed(Value* sequence) const {
  const Node* slice = sequence->producer;
  if (slice == nullptr || slice->kind != OpKind::kSlice) return nullptr;
  const auto& starts = slice->Get<Exprs>("starts");
  const auto& steps = slice->Ints("steps");
  const bool others_stay =
      std::all_of(steps.begin() + 1, steps.end(), [](int64_t step) { return step == 1; });
  const bool is_reversed = steps[0] == -1 && starts[0] == steps_ - 1 && others_stay;
  return is_reversed && slice->operand(0)->type == sequence->type ? slice->operand(0) : nullptr;
}

bool StepValues::ReadBackwards() {
  bool has_any = false;
  for (const auto& node : body_.nodes) {
    if (!IsElement(*node)) continue;
    if (Unreversed(Invariant(node->operand(0))) == nullptr) return false;
    has_any = true;
  }
  for (const auto& input : body_.inputs) {
    const auto declared = all_steps_.find(input.get());
    if (declared == all_steps_.end()) continue;
    if (Unreversed(declared->second) == nullptr) return false;
    has_any = true;
  }
  if (!has_any) return false;
  for (const auto& input : body_.inputs) {
    const auto declared = all_steps_.find(input.get());
    if (declared != all_steps_.end()) declared->second = Unreversed(declared->second);
  }
  return reads_backwards_ = true;
}

Value* StepValues::Other(const Node& node) {
  ValueList operands;
  for (Value* operand : node.operands) {
    Value* all = operand && DependsOnStep(operand) ? AllSteps(operand) : nullptr;
    if (all == nullptr) return nullptr;
    operands.push_back(all);
  }
  const Shape shape = After(steps_, node.result()->type.shape);
  switch (node.kind) {
    case OpKind::kIdentity:
      return operands[0];
    case OpKind::kReshape:
      return f_.Reshape(operands[0], shape);
    case OpKind::kExpand:
      return f_.Expand(WithRank(operands[0], node.result()->type.rank()), shape);
    case OpKind::kConcat:
      return f_.Concat(operands, static_cast<int>(node.Int("axis")) + 1);
    case OpKind::kTranspose: {
      std::vector<int64_t> perm = {0};
      for (const int64_t axis : node.Ints("perm")) perm.push_back(axis + 1);
      return f_.Transpose(operands[0], perm);
    }
    case OpKind::kSlice: {
      std::vector<int64_t> steps = {1};
      steps.insert(steps.end(), node.Ints("steps").begin(), node.Ints("steps").end());
      Exprs starts = {Expr(0)};
      starts.insert(starts.end(), node.Get<Exprs>("starts").begin(),
                    node.Get<Exprs>("starts").end());
      return f_.Make(OpKind::kSlice, {operands[0]},
                     {{"starts", starts}, {"steps", steps}, {"shape", shape}});
    }
    case OpKind::kSoftmax:
    case OpKind::kLogSoftmax:
      return f_.Make(node.kind, {operands[0]}, {{"axis", node.Int("axis") + 1}});
    default:
      break;
  }
  if (GetOpDef(node.kind).op_class != OpClass::kReduction || !node.Has("axes")) return nullptr;
  Attributes attributes = node.attributes;
  std::vector<int64_t> axes;
  for (const int64_t axis : node.Ints("axes")) axes.push_back(axis + 1);
  attributes["axes"] = axes;
  return f_.Make(node.kind, {operands[0]}, std::move(attributes));
}

}  // namespace fusec
