#include "passes/join_products.h"

#include <algorithm>

#include "compiler/ir/op_def.h"
#include "compiler/region/product.h"
#include "compiler/region/slot_product.h"
#include "passes/constant_linear.h"
#include "passes/fuse_block_program.h"
#include "passes/graph_edit.h"
#include "passes/packed_columns.h"
#include "passes/slot_adapter.h"

namespace fusec {

namespace {

constexpr int64_t kPackBytes = 16;  // bytes of one load; columns should begin at multiples of it

// The columns of the right operand of a product, and the terms of its sums.
struct Columns {
  int64_t count, terms;
};

// The columns if the right operand is a constant matrix, or if it is weights of 4 bits
// [columns, terms] that stay packed (keep-packed-weights).
std::optional<Columns> ColumnsOf(const Node& product) {
  if (const auto weights = RightWeights(product))
    return Columns{weights->results(), weights->terms()};
  if (product.kind != OpKind::kMatMul || product.Int("transpose_a") != 0 ||
      product.Int("transpose_b") != 1 || !ArePackedColumns(product.operand(1)))
    return std::nullopt;
  const Shape& shape = product.operand(1)->type.shape;
  return Columns{*shape[0].AsConstant(), *shape[1].AsConstant()};
}

// A product and the pointwise ops after it that read nothing but its values and constants. Its
// adapter in slots, if it has one, belongs to the product.
struct Member {
  std::vector<Node*> steps;  // the product first
  std::optional<SlotAdapter> adapter;
  std::string words;  // describes what the steps do, without their attributes
  bool stays_alone = false;

  const Node& product() const { return *steps[0]; }
  int64_t columns() const { return ColumnsOf(product())->count; }
  // Whether both do the same, each with its own constants.
  bool DoesTheSame(const Member& other) const {
    return words == other.words && HasWeightsLike(other) &&
           std::equal(steps.begin() + 1, steps.end(), other.steps.begin() + 1,
                      [](const Node* a, const Node* b) { return a->attributes == b->attributes; });
  }
  bool HasWeightsLike(const Member& other) const {
    const bool is_packed = !RightWeights(product()),
               other_is_packed = !RightWeights(other.product());
    if (!is_packed || !other_is_packed) return is_packed == other_is_packed;
    return AreMadeAlike(product().operand(1), other.product().operand(1));
  }
  // What a step makes for its readers.
  Value* ResultOf(size_t step) const {
    return step == 0 && adapter ? adapter->sum->result() : steps[step]->result();
  }
  // The step that makes `value`, or -1.
  int StepOf(const Value* value) const {
    for (size_t step = 0; step < steps.size(); ++step) {
      if (ResultOf(step) == value) return static_cast<int>(step);
    }
    return -1;
  }
};

class Joiner {
 public:
  Joiner(Graph& graph, const ReaderMap& readers, const PassOptions& options, PassReport& report)
      : graph_(graph), readers_(readers), options_(options), report_(report) {}

  Member MemberOf(Node& product) const {
    Member member;
    member.steps = {&product};
    member.adapter = SlotAdapterOf(graph_, readers_, product);
    for (size_t i = 0; i < member.steps.size(); ++i) {
      for (Node* reader : ReadersOfValue(member.ResultOf(i))) {
        if (member.StepOf(reader->result()) < 0 && WordsOf(member, *reader))
          member.steps.push_back(reader);
      }
    }
    member.stays_alone = !LeavesNoWork(member) || (IsSmall(product) && !IsReadByProducts(member));
    while (member.steps.size() > 1 && IsLeftToReaders(member)) member.steps.pop_back();
    member.words = std::string(DtypeName(product.result()->type.dtype));
    for (size_t i = 1; i < member.steps.size(); ++i)
      member.words += *WordsOf(member, *member.steps[i]);
    return member;
  }

  void Join(const std::vector<Member>& members) {
    Builder builder(graph_);
    std::vector<Value*> joined;
    for (size_t step = 0; step < members[0].steps.size(); ++step) {
      builder.set_provenance({});
      const Node& first = *members[0].steps[step];
      ValueList operands;
      for (size_t i = 0; i < first.operands.size(); ++i) {
        const int made = members[0].StepOf(first.operands[i]);
        operands.push_back(made >= 0 ? joined[static_cast<size_t>(made)]
                                     : Joined(builder, members, step, i));
      }
      joined.push_back(builder.Make(first.kind, operands, AttributesOf(first),
                                    first.result()->name + "_joined"));
      for (const Member& member : members)
        AddProvenance(*joined.back()->producer, *member.steps[step]);
      if (step == 0) joined[0] = WithAdapters(builder, members, joined[0]);
    }
    int64_t begin = 0;
    for (const Member& member : members) {
      for (size_t step = 0; step < member.steps.size(); ++step)
        CutOut(builder, joined[step], member, step, begin);
      begin += member.columns();
    }
  }

 private:
  // Adds the adapters of all members to their joined product.
  Value* WithAdapters(Builder& builder, const std::vector<Member>& members, Value* product) const {
    std::vector<JoinedLayer> layers;
    for (const Member& member : members) layers.push_back({member.columns(), member.adapter});
    builder.set_provenance({});
    Value* delta = JoinedDelta(builder, layers, report_);
    if (delta == nullptr) return product;
    Value* sum = builder.Make(OpKind::kAdd, {product, delta}, {}, product->name + "_adapted");
    for (const Member& member : members) {
      if (member.adapter) AddProvenance(*sum->producer, *member.adapter->sum);
    }
    return sum;
  }

  const std::vector<Node*>& ReadersOfValue(const Value* value) const {
    static const std::vector<Node*> kNone;
    const auto found = readers_.find(value);
    return found == readers_.end() ? kNone : found->second;
  }

  static std::optional<Factors> FactorsOf(const Node& node, size_t operand) {
    const int64_t rank = node.result()->type.rank();
    return FactorsAlong(node.operands[operand], rank - 1, rank);
  }

  // Describes what `reader` does to values of the member; nullopt if it also reads other values.
  static std::optional<std::string> WordsOf(const Member& member, const Node& reader) {
    if (!IsPointwise(reader, member.product().result()->type.shape)) return std::nullopt;
    std::string words = "; " + std::string(GetOpDef(reader.kind).text) + " " +
                        std::string(DtypeName(reader.result()->type.dtype));
    for (size_t i = 0; i < reader.operands.size(); ++i) {
      const Value* operand = reader.operands[i];
      const int step = member.StepOf(operand);
      if (step >= 0) {
        words += " " + std::to_string(step);
      } else if (operand && FactorsOf(reader, i)) {
        words += " " + std::string(DtypeName(operand->type.dtype));
      } else {
        return std::nullopt;
      }
    }
    return words;
  }

  // Whether the readers of the last step can better compute it themselves: reductions compute cheap
  // ops from a value that is stored anyway, and loops and reductions compute ops that the library
  // cannot do in the call of the product.
  bool IsLeftToReaders(const Member& member) const {
    const Node& last = *member.steps.back();
    const std::vector<Node*>& readers = ReadersOfValue(member.ResultOf(member.steps.size() - 1));
    const bool is_light = (GetOpDef(last.kind).algebra & kExpensive) == 0;
    if (is_light && std::all_of(readers.begin(), readers.end(),
                                [](const Node* reader) { return IsReduction(*reader); }))
      return true;
    if (std::any_of(readers.begin(), readers.end(),
                    [&](const Node* reader) { return IsForProducts(*reader); }))
      return false;
    const Dtype dtype = member.product().result()->type.dtype;
    if (IsSplit(dtype, options_.matmul_precision)) return false;  // generated kernels do them
    const bool reads_product = member.steps.size() == 2;
    const bool is_bias = reads_product && last.kind == OpKind::kAdd;
    const bool is_relu = last.kind == OpKind::kRelu &&
                         (reads_product || member.steps[1]->kind == OpKind::kAdd) &&
                         member.steps.size() <= 3;
    return !is_bias && !is_relu;
  }

  // Whether all outside readers of the member's results can read slices at no extra cost.
  bool LeavesNoWork(const Member& member) const {
    ValueSet made;
    for (size_t step = 0; step < member.steps.size(); ++step) made.insert(member.ResultOf(step));
    for (const Value* value : made) {
      if (IsOutput(graph_, value) || !AreFree(value, member, made)) return false;
    }
    return true;
  }

  bool AreFree(const Value* value, const Member& member, const ValueSet& made) const {
    for (const Node* reader : ReadersOfValue(value)) {
      if (member.StepOf(reader->result()) >= 0) continue;
      if (ColumnsOf(*reader) || LeftWeights(*reader)) {
        if (!IsInABlockProgram(*reader)) return false;
        continue;
      }
      const OpClass op_class = GetOpDef(reader->kind).op_class;
      if (op_class == OpClass::kView) {
        if (IsOutput(graph_, reader->result()) || !AreFree(reader->result(), member, made))
          return false;
      } else if (IsPointwise(*reader, member.product().result()->type.shape) &&
                 !DependsOnlyOn(*reader, made) && !ReadsOnlySiblings(*reader, member)) {
        return false;
      }
    }
    return true;
  }

  // Whether the library computes the product and a loop the pointwise op `reader`, which reads
  // nothing but products of the same rows, as a gate does: the loop may then read slices of one
  // product.
  bool ReadsOnlySiblings(const Node& reader, const Member& member) const {
    constexpr int kMostOps = 16;
    if (DtypeBytes(member.product().result()->type.dtype) != 2) return false;
    int ops = 0;
    std::vector<const Node*> work = {&reader};
    while (!work.empty()) {
      const Node* node = work.back();
      work.pop_back();
      if (++ops > kMostOps) return false;
      for (const Value* operand : node->operands) {
        if (!operand || IsConstant(operand)) continue;
        const Node* maker = operand->producer;
        if (maker && maker->kind == OpKind::kMatMul) {
          if (maker->operand(0) != member.product().operand(0) || !ColumnsOf(*maker)) return false;
        } else if (maker && maker->kind == OpKind::kSlotMatMul) {
          const Value* rows = maker->operand(0);
          if (const Node* down = ProducerOf(rows, OpKind::kSlotMatMul)) rows = down->operand(0);
          if (rows != member.product().operand(0)) return false;
        } else if (maker && IsPointwise(*maker, member.product().result()->type.shape)) {
          work.push_back(maker);
        } else {
          return false;
        }
      }
    }
    return true;
  }

  // Whether a block program, whose loops can read slices, will compute the product. It also has ops
  // that end a chain of layers, such as a softmax, so that stack-products does not stack the chain.
  bool IsInABlockProgram(const Node& product) const {
    if (options_.block_shared_bytes == 0 || !RightWeights(product) || !IsSmall(product))
      return false;
    const std::optional<NodeSet> program = FindBlockProgram(graph_, product, options_);
    return program && std::any_of(program->begin(), program->end(), [](const Node* node) {
             return IsReduction(*node) || (node->kind == OpKind::kMatMul && !RightWeights(*node));
           });
  }

  // Whether a block program would compute the product together with its reader, unless that is a
  // product.
  static bool IsSmall(const Node& product) {
    const Columns columns = *ColumnsOf(product);
    return columns.terms * columns.count <= kMostSharedWeights;
  }
  bool IsReadByProducts(const Member& member) const {
    for (size_t step = 0; step < member.steps.size(); ++step) {
      for (const Node* reader : ReadersOfValue(member.ResultOf(step))) {
        if (member.StepOf(reader->result()) < 0 && !IsForProducts(*reader)) return false;
      }
    }
    return true;
  }
  // Whether `node` is a product, or a view for products.
  bool IsForProducts(const Node& node) const {
    const OpClass op_class = GetOpDef(node.kind).op_class;
    if (op_class != OpClass::kView) return op_class == OpClass::kContraction;
    const std::vector<Node*>& readers = ReadersOfValue(node.result());
    return std::all_of(readers.begin(), readers.end(),
                       [&](const Node* reader) { return IsForProducts(*reader); });
  }

  // Whether every operand except constants is one of `made`, or made directly from one of them.
  static bool DependsOnlyOn(const Node& node, const ValueSet& made) {
    return std::all_of(node.operands.begin(), node.operands.end(), [&](const Value* operand) {
      if (!operand || made.count(operand) || IsConstant(operand)) return true;
      const Node* maker = operand->producer;
      return maker && std::any_of(maker->operands.begin(), maker->operands.end(),
                                  [&](const Value* v) { return v && made.count(v) != 0; });
    });
  }

  static Attributes AttributesOf(const Node& step) {
    Attributes attributes = step.attributes;
    if (step.kind == OpKind::kMatMul) attributes["transpose_b"] = int64_t{1};
    return attributes;
  }

  // Operand number `i` of a joined step, where no step makes that operand.
  static Value* Joined(Builder& builder, const std::vector<Member>& members, size_t step,
                       size_t i) {
    Value* first = members[0].steps[step]->operands[i];
    if (step == 0 && i == 0) return first;
    if (step == 0) {
      return RightWeights(members[0].product()) ? JoinedWeights(builder, members)
                                                : JoinedPacked(builder, members);
    }
    std::vector<Factors> factors;
    for (const Member& member : members) factors.push_back(*FactorsOf(*member.steps[step], i));
    const auto alike = [&](const Factors& own) { return own.size() == 1 && own == factors[0]; };
    if (std::all_of(factors.begin(), factors.end(), alike)) return first;
    std::vector<double> elements;
    Recipe recipe;
    ValueList parts;
    for (size_t member = 0; member < members.size(); ++member) {
      const Factors& own = factors[member];
      const int64_t columns = members[member].columns();
      for (int64_t column = 0; column < columns; ++column)
        elements.push_back(FactorAt(own, column));
      parts.push_back(recipe.Expand(own.In(recipe, {static_cast<int64_t>(own.size())}), {columns}));
    }
    TensorData data(first->type.dtype, {static_cast<int64_t>(elements.size())});
    for (size_t at = 0; at < elements.size(); ++at)
      data.SetDouble(static_cast<int64_t>(at), elements[at]);
    return AddConstant(builder, recipe.Finish(recipe.Concat(parts, 0), std::move(data)),
                       first->name + "_joined");
  }

  // [columns of all members, depth]
  static Value* JoinedWeights(Builder& builder, const std::vector<Member>& members) {
    const ConstantMatrix first = *RightWeights(members[0].product());
    int64_t columns = 0;
    for (const Member& member : members) columns += member.columns();
    TensorData data(first.data->dtype(), {columns, first.terms()});
    Recipe recipe;
    ValueList parts;
    int64_t begin = 0;
    for (const Member& member : members) {
      const ConstantMatrix weights = *RightWeights(member.product());
      for (int64_t n = 0; n < weights.results(); ++n) {
        for (int64_t k = 0; k < weights.terms(); ++k)
          data.SetDouble((begin + n) * first.terms() + k, weights.At(k, n));
      }
      begin += weights.results();
      parts.push_back(recipe.Turned(recipe.Use(weights.constant), !weights.transposed));
    }
    return AddConstant(builder, recipe.Finish(recipe.Concat(parts, 0), std::move(data)),
                       first.constant->name + "_joined");
  }

  // Packed weights [columns of all members, depth].
  static Value* JoinedPacked(Builder& builder, const std::vector<Member>& members) {
    ValueList weights;
    for (const Member& member : members) weights.push_back(member.product().operands[1]);
    return JoinPacked(builder, weights);
  }

  // Gives outside readers of a member's value a slice of the joined value, from column `begin` on.
  void CutOut(Builder& builder, Value* joined, const Member& member, size_t step, int64_t begin) {
    const Node& node = *member.steps[step];
    Value* value = member.ResultOf(step);
    const std::vector<Node*>& readers = ReadersOfValue(value);
    const bool is_read = std::any_of(readers.begin(), readers.end(), [&](const Node* reader) {
      return member.StepOf(reader->result()) < 0;
    });
    if (!is_read) return;
    builder.set_provenance(node.provenance);
    const int64_t columns = *value->type.shape.back().AsConstant();
    Value* own =
        Sliced(builder, joined, value->type.rank() - 1, begin, begin + columns, value->name);
    graph_.ReplaceAllUses(value, own);
    std::swap(own->name, value->name);
  }

  Graph& graph_;
  const ReaderMap& readers_;
  const PassOptions& options_;
  PassReport& report_;
};

bool IsWhole(const Node& product) {
  const Value& result = *product.result();
  return ColumnsOf(product)->count * DtypeBytes(result.type.dtype) % kPackBytes == 0;
}

// Members that read the same value and do the same, or a single member that stays alone.
using Group = std::vector<Member>;

// Whether the adapters of a group and of another member may share their products: a kernel of
// layers adds products of few terms only (region/slot_product.h).
bool MayJoinAdapters(const Group& group, const Member& member) {
  int64_t rank = member.adapter ? member.adapter->rank() : 0;
  for (const Member& other : group) {
    if (!other.adapter) continue;
    if (member.adapter && other.adapter->slots() != member.adapter->slots()) return false;
    rank += other.adapter->rank();
  }
  return rank <= kMostAddendTerms;
}

std::vector<Group> FindGroups(const Graph& graph, const ReaderMap& readers, const Joiner& joiner,
                              const PassOptions& options) {
  std::vector<Group> groups;
  DenseMap<const Value*, std::vector<size_t>> by_input;
  for (const auto& node : graph.nodes) {
    if (node->kind != OpKind::kMatMul || !ColumnsOf(*node) || !IsWhole(*node) ||
        IsKeptAdapter(*node, readers, options))
      continue;
    Member member = joiner.MemberOf(*node);
    std::vector<size_t>& of_input = by_input[node->operand(0)];
    const auto found = std::find_if(of_input.begin(), of_input.end(), [&](size_t group) {
      return groups[group][0].DoesTheSame(member) && !groups[group][0].stays_alone &&
             MayJoinAdapters(groups[group], member);
    });
    if (found != of_input.end() && !member.stays_alone) {
      groups[*found].push_back(std::move(member));
    } else {
      of_input.push_back(groups.size());
      groups.push_back({std::move(member)});
    }
  }
  return groups;
}

int64_t DepthOf(const Member& member) { return ColumnsOf(member.product())->terms; }

// Whether stack-products might stack products of the group with other products of the same shapes,
// which joining would prevent, since those are in groups of another size.
bool IsStackedApart(const Group& group, const std::vector<Group>& groups) {
  const TensorType& type = group[0].product().result()->type;
  if (type.rank() != 2) return false;
  return std::any_of(groups.begin(), groups.end(), [&](const Group& other) {
    return other.size() != group.size() && other[0].product().result()->type == type &&
           DepthOf(other[0]) == DepthOf(group[0]);
  });
}

bool JoinSome(Graph& graph, const PassOptions& options, PassReport& report) {
  const ReaderMap readers = Readers(graph);
  Joiner joiner(graph, readers, options, report);
  const std::vector<Group> groups = FindGroups(graph, readers, joiner, options);
  // No group reads values of another group, since a product that reads other products stays alone.
  bool changed = false;
  for (const Group& group : groups) {
    if (group.size() < 2 || IsStackedApart(group, groups)) continue;
    joiner.Join(group);
    changed = true;
  }
  if (!changed) return false;
  SortNodes(graph);
  RemoveDeadNodes(graph);
  return true;
}

}  // namespace

Result<bool> JoinProducts(Graph& graph, const PassOptions& options, PassReport& report) {
  bool changed = false;
  while (JoinSome(graph, options, report)) changed = true;
  return changed;
}

}  // namespace fusec
