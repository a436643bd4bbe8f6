#include "compiler/kernel/region_lowering.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>

#include "compiler/ir/c_text.h"
#include "compiler/kernel/branch_ranges.h"
#include "compiler/kernel/fold.h"
#include "compiler/kernel/idioms.h"
#include "compiler/kernel/size_names.h"
#include "compiler/support/check.h"

namespace fusec {

namespace {

std::string OpComment(const Node& node) {
  std::string text = GetOpDef(node.kind).text;
  if (!node.provenance.empty() && !node.provenance[0].module_path.empty()) {
    text += " of " + node.provenance[0].module_path;
  }
  return text;
}

}  // namespace

std::string ElementKey(const Value* value, ArrayRef<Expr> index) {
  std::string key = value->name;
  for (const Expr& e : index) key += "|" + e.ToString();
  return key;
}

std::string ValueName(const std::string& tensor) {
  return tensor + (WithoutMarks(tensor).ends_with("value") ? "_element" : "_value");
}

// The context in which the Lower of an op computes one element of one node.
class ElementLowering : public LowerContext {
 public:
  ElementLowering(RegionLowering& parent, const Node& node, int result, ArrayRef<Expr> index)
      : parent_(parent) {
    node_ = &node;
    index_ = Exprs(index);
    result_number_ = result;
  }

  const Ranges& ranges() const override { return parent_.builder_.ranges(); }

  Scalar Load(int operand, ArrayRef<Expr> index) override {
    return parent_.Evaluate(node_->operands[operand], index);
  }

  std::string Array(int operand) override {
    const Value* value = node_->operands[operand];
    const Value* outside = parent_.Outside(value);
    FUSEC_CHECK(outside != value || !value->producer, "computed in the kernel: " + value->name);
    return parent_.builder_.Buffer(outside).ToString();
  }

  Scalar Let(const std::string& c_expression, Dtype dtype, const std::string& name) override {
    return Let(CExpr::Parse(c_expression), dtype, name);
  }
  Scalar Let(const CExpr& value, Dtype dtype, const std::string& name = "") {
    const std::string comment = commented_ ? "" : OpComment(*node_);
    commented_ = true;
    const std::string wanted = name.empty() ? ModelName(node_->result(result_number_)->name) : name;
    return {parent_.builder_.Let(CTypeName(dtype), wanted, value, comment), dtype};
  }

  void Use(const std::string& device_file) override { parent_.builder_.Use(device_file); }

  Scalar SelectBelow(const Expr& position, const Expr& limit, Dtype dtype,
                     function_ref<Scalar()> then, function_ref<Scalar()> otherwise) override {
    KernelBuilder& builder = parent_.builder_;
    if (ranges().ProvenLess(position, limit)) return then();
    if (ranges().ProvenNonNegative(position - limit)) return otherwise();
    if (const auto is_below = parent_.decide_ ? parent_.decide_(position, limit) : std::nullopt) {
      const Scalar chosen = *is_below ? then() : otherwise();
      const bool is_literal = chosen.value.kind() == CExpr::Kind::kLiteral ||
                              chosen.value.kind() == CExpr::Kind::kPrefix;
      return is_literal ? Let(chosen.value, dtype) : chosen;
    }
    if (const auto uniform = UniformSelect(position, limit))
      return SelectForAllLanes(*uniform, dtype, then, otherwise);
    // A select in the branch of another select reuses the outer local, so that a chain becomes if /
    // else if.
    const CExpr target = branch_target_.empty()
                             ? builder.Unique(ModelName(node_->result(result_number_)->name))
                             : branch_target_;
    if (branch_target_.empty()) {
      if (!commented_) builder.Comment(OpComment(*node_));
      commented_ = true;
      builder.Declare(CTypeName(dtype), target.word());
    }
    Statement choice = Statement::If(IsBelow(position, limit), {});
    const CExpr outer_target = branch_target_;
    for (const bool is_then : {true, false}) {
      builder.Open(/*is_branch=*/true);
      branch_target_ = target;
      const BranchRanges narrowed(builder.ranges(), position, limit, is_then);
      const Scalar chosen = is_then ? then() : otherwise();
      branch_target_ = outer_target;
      if (!chosen.value.Is(target)) builder.Assign(target, chosen.value);
      (is_then ? choice.body : choice.otherwise) = builder.Close();
    }
    builder.Append(std::move(choice));
    return {target, dtype};
  }

  Expr IndexFromData(const Scalar& data, const Expr& extent, int operand,
                     ArrayRef<Expr> position) override;
  Expr SlotFromData(const Scalar& data, int operand, ArrayRef<Expr> position, int bank) override;
  Expr PlaceOfCachedRow(const Expr& row, int cache) override;
  // Like SlotFromData, for a place along the axis of operand 0.
  Expr PlaceFromData(const Scalar& data, int operand, ArrayRef<Expr> position) {
    return Checked(IndexValues::kSlot, data, operand, position, 0, node_->Int("axis"));
  }

  Scalar DataFromIndex(const Expr& index, Dtype dtype) override {
    if (auto number = index.AsConstant()) {
      const CExpr literal = Literal(*number, dtype);
      if (std::abs(*number) <= 2) return {literal, dtype};
      return {
          parent_.builder_.expressions().TypedConstant(
              CTypeName(dtype), ModelName(node_->result(result_number_)->name) + "_size", literal,
              "a size used to compute \"" + ModelName(node_->result(result_number_)->name) + "\""),
          dtype};
    }
    const std::string name = ModelName(node_->result(result_number_)->name);
    const CExpr number =
        parent_.builder_.Write(index, CountOf(name + "_size", "in \"" + name + "\""));
    return Let(Cast(CTypeName(dtype), number), dtype);
  }

  Scalar FoldRange(OpKind how, Dtype dtype, const Scalar& first, const Scalar& last,
                   const Expr& extent, function_ref<Scalar(const Expr&)> element,
                   bool side_by_side) override {
    if (!commented_) parent_.builder_.Comment(OpComment(*node_));
    commented_ = true;
    const CExpr total = WriteFold(parent_.builder_,
                                  {FoldOf(how, dtype),
                                   dtype,
                                   ModelName(node_->result(result_number_)->name),
                                   {extent},
                                   {},
                                   first.value,
                                   last.value,
                                   index(),
                                   side_by_side},
                                  [&](ArrayRef<Expr> k) { return element(k[0]); });
    return {total, dtype};
  }

 private:
  // A select that makes the same choice for all lanes of a vector.
  struct Uniform {
    Expr position, limit;               // without the lane
    Expr in_vectors, limit_in_vectors;  // narrow the ranges in the branches
  };
  std::optional<Uniform> UniformSelect(const Expr& position, const Expr& limit) const;
  Scalar SelectForAllLanes(const Uniform& uniform, Dtype dtype, function_ref<Scalar()> then,
                           function_ref<Scalar()> otherwise);

  // The condition of a select: elements from `limit` on are computed in another way.
  CExpr IsBelow(const Expr& position, const Expr& limit);
  // The axis of the first operand that the next index from data selects in.
  int64_t NextAxis();
  // `data`, which is in low..high, as a local of the index type (both arguments of min and max must
  // have this type).
  Expr AsIndex(const Scalar& data, int operand, int64_t low, int64_t high);
  // The local with the checked value of `data`, which selects a position along an axis of operand
  // `chosen`.
  Expr Checked(IndexValues values, const Scalar& data, int operand, ArrayRef<Expr> position,
               int chosen, int64_t axis);
  // The tensor and position of the data, for the error message of the check.
  RegionLowering::Origin OriginOf(const Scalar& data, int operand, ArrayRef<Expr> position) const;

  RegionLowering& parent_;
  CExpr branch_target_;
  int64_t indices_ = 0;  // the number of indices from data so far
  bool commented_ = false;
};

CExpr ElementLowering::IsBelow(const Expr& position, const Expr& limit) {
  const std::string name = ModelName(node_->result(result_number_)->name);
  const SizeNames of_position =
      CountOf(name + "_position", "of the element that \"" + name + "\" is computed from");
  const SizeNames of_limit =
      Only({0, name + "_border", "where another part of \"" + name + "\" begins"});
  return parent_.builder_.Write(position, of_position) < parent_.builder_.Write(limit, of_limit);
}

// GatherND has an index for each axis after the batch axes.
int64_t ElementLowering::NextAxis() {
  return node_->Has("axis") ? node_->Int("axis") : node_->Int("batch_dims") + indices_++;
}

std::optional<ElementLowering::Uniform> ElementLowering::UniformSelect(const Expr& position,
                                                                       const Expr& limit) const {
  KernelBuilder& builder = parent_.builder_;
  if (!builder.MaySuspendLanes(index()) || !builder.lanes()->vectors) return std::nullopt;
  const auto same = [&](const Expr& a, const Expr& b) {
    return !builder.DependsOnLane(a) && !builder.DependsOnLane(b);
  };
  if (same(position, limit)) return Uniform{position, limit, position, limit};
  const int64_t lanes = builder.lanes()->count;
  const auto base = parent_.VectorBase(position, {limit});
  if (!base || !same(*base, limit)) return std::nullopt;
  return Uniform{*base, limit, FloorDiv(*base, lanes, ranges()), FloorDiv(limit, lanes, ranges())};
}

// float chosen[kLanes]; if (position < limit) { for (lanes) ... } else { for (lanes) ... }, so that
// the loads in the branches are vectors.
Scalar ElementLowering::SelectForAllLanes(const Uniform& uniform, Dtype dtype,
                                          function_ref<Scalar()> then,
                                          function_ref<Scalar()> otherwise) {
  KernelBuilder& builder = parent_.builder_;
  builder.SuspendLanes();
  CExpr target = branch_target_;
  if (target.empty()) {
    if (!commented_) builder.Comment(OpComment(*node_));
    commented_ = true;
    const std::string array = builder.Unique(ModelName(node_->result(result_number_)->name));
    builder.DeclareLaneArray(CTypeName(dtype), array);
    target = CExpr(array)[builder.lanes()->variable];
  }
  Statement choice = Statement::If(IsBelow(uniform.position, uniform.limit), {});
  const CExpr outer_target = branch_target_;
  for (const bool is_then : {true, false}) {
    builder.Open(/*is_branch=*/true);
    branch_target_ = target;
    const BranchRanges narrowed(builder.ranges(), uniform.in_vectors, uniform.limit_in_vectors,
                                is_then);
    const auto choose = [&] {
      const Scalar chosen = is_then ? then() : otherwise();
      if (!chosen.value.Is(target)) builder.Assign(target, chosen.value);
    };
    builder.ForLanes(choose, /*nests=*/true);
    branch_target_ = outer_target;
    (is_then ? choice.body : choice.otherwise) = builder.Close();
  }
  builder.Append(std::move(choice));
  builder.ResumeLanes();
  return {target, dtype};
}

Expr ElementLowering::IndexFromData(const Scalar& data, const Expr& extent, int operand,
                                    ArrayRef<Expr> position) {
  const int64_t axis = NextAxis();
  if (auto known = parent_.known_intervals_.find(data.text());
      known != parent_.known_intervals_.end()) {
    const auto [low, high] = known->second;
    if (low == high && low < 0 && ranges().ProvenNonNegative(extent + low)) return extent + low;
    if (low >= 0 && ranges().ProvenLess(Expr(high), extent)) {
      if (low == high) return Expr(low);
      return AsIndex(data, operand, low, high);
    }
  }
  return Checked(IndexValues::kIndex, data, operand, position, 0, axis);
}

Expr ElementLowering::AsIndex(const Scalar& data, int operand, int64_t low, int64_t high) {
  KernelBuilder& builder = parent_.builder_;
  const std::string& type = builder.plan().index_type;
  std::string name = data.text();
  if (CTypeName(data.dtype) != type) {
    const std::string key = "index|" + name;
    if (const Scalar* known = builder.Recall(key)) return Variable(known->text());
    const std::string label = ModelName(parent_.Outside(node_->operands[operand])->name);
    name = builder.Let(type, label + "_" + WordFor(IndexValues::kIndex), Cast(type, data.value));
    builder.Remember(key, {name, Dtype::kI64});
  }
  return SetVariable(builder.ranges(), name, Expr(low), Expr(high));
}

Expr ElementLowering::SlotFromData(const Scalar& data, int operand, ArrayRef<Expr> position,
                                   int bank) {
  return Checked(IndexValues::kSlot, data, operand, position, bank, 0);
}

// Look-ups of one row in tables of the same cache share the place.
Expr ElementLowering::PlaceOfCachedRow(const Expr& row, int cache) {
  KernelBuilder& builder = parent_.builder_;
  const std::string array = Array(cache);
  const std::string key = "place|" + array + "|" + row.ToString();
  if (const Scalar* known = builder.Recall(key)) return Variable(known->text());
  Use("vector.cuh");
  Use("row_cache.cuh");
  const Value* table = node_->operand(0);
  const std::string label = ModelName(parent_.Outside(table)->name);
  const CExpr number = builder.Write(row, CountOf(label + "_row", "of \"" + label + "\""));
  const std::string name = builder.Let("long long", label + "_place",
                                       Call("PlaceOfCachedRow", {CExpr::Parse(array), number}));
  // Positions are simplified by the known range of the row; the place needs no range.
  builder.Remember(key, {name, Dtype::kI64});
  return SetVariable(builder.ranges(), name, 0, table->type.shape[0] - 1);
}

RegionLowering::Origin ElementLowering::OriginOf(const Scalar& data, int operand,
                                                 ArrayRef<Expr> position) const {
  const auto origin = parent_.origins_.find(data.text());
  if (origin != parent_.origins_.end()) return origin->second;
  const Value* tensor = node_->operands[operand];
  const Expr place = Linearize(position, tensor->type.shape, ranges());
  const auto& lanes = parent_.builder_.lanes();
  if (!lanes || parent_.builder_.DependsOnLane(data.value)) return {tensor, place};
  // All lanes check the same number: that of the first one.
  return {tensor, place.Substitute(
                      [&](const std::string& name) -> std::optional<Expr> {
                        if (name != VariableSymbol(lanes->variable)) return std::nullopt;
                        return Expr(0);
                      },
                      ranges())};
}

Expr ElementLowering::Checked(IndexValues values, const Scalar& data, int operand,
                              ArrayRef<Expr> position, int chosen, int64_t axis) {
  KernelBuilder& builder = parent_.builder_;
  const Value* indexed = parent_.Outside(node_->operand(chosen));
  const Shape& shape = node_->operand(chosen)->type.shape;
  const Expr& extent = shape[static_cast<size_t>(axis)];
  const std::string word = WordFor(values);
  // Look-ups of one id in tables with the same number of rows share its check.
  const std::string key = word + "|" + data.text() + "|" + extent.ToString();
  if (const Scalar* checked = builder.Recall(key)) return Variable(checked->text());
  const RegionLowering::Origin origin = OriginOf(data, operand, position);
  const ArrayRef<const Node*> alike = builder.NodesOfParts(node_);
  std::vector<IndexSite> sites;
  for (size_t part = 0; part < alike.size(); ++part) {
    const Value* of_part = builder.ValueOfPart(indexed, part);
    const bool is_list = of_part != indexed;
    sites.push_back(
        builder.SiteOf(*alike[part], builder.ValueOfPart(origin.tensor, part),
                       is_list ? of_part->type.shape[static_cast<size_t>(axis)] : extent));
  }
  if (alike.empty()) sites.push_back(builder.SiteOf(*node_, origin.tensor, extent));
  for (IndexSite& site : sites) site.values = values;
  const int number = builder.AddSites(sites);
  const CExpr site = alike.empty() ? CExpr(builder.SiteName(number)) : builder.SiteOfPart(number);
  const SizeName size = ExtentOf(NameOf(builder, indexed), shape, static_cast<size_t>(axis));
  const bool is_list = builder.ValueOfPart(origin.tensor, 0) != origin.tensor;
  const std::string label = ModelName(is_list ? origin.tensor->name : sites.front().tensor);
  const CExpr limit = builder.Write(extent, Only(size));
  const CExpr place = builder.Write(origin.position, PlaceIn(label, origin.tensor->type.shape));
  const auto noted = values == IndexValues::kIndex
                         ? builder.NotedIn({data.value, place}, limit, site)
                         : std::nullopt;
  const CExpr checked =
      noted ? Call("NotedIndex", {data.value, limit, *noted, place})
            : Call("Checked" + PascalCase(word), {data.value, limit, "errors", site, place});
  const std::string name =
      builder.Let(builder.plan().index_type,
                  ModelName(parent_.Outside(node_->operands[operand])->name) + "_" + word, checked,
                  commented_ ? "" : OpComment(*node_));
  commented_ = true;
  builder.Remember(key, {name, Dtype::kI64});
  return SetVariable(builder.ranges(), name, values == IndexValues::kSlot ? -1 : 0, extent - 1);
}

const Value* RegionLowering::Outside(const Value* value) const {
  const Graph& body = *region_.body;
  for (size_t i = 0; i < body.inputs.size(); ++i) {
    if (body.inputs[i].get() == value) return region_.operands[i];
  }
  return value;
}

const TensorData* RegionLowering::ConstantPayload(const Value* value) const {
  return Payload(Outside(value));
}

std::optional<Scalar> RegionLowering::ConstantElement(const Value* value, ArrayRef<Expr> index) {
  const TensorData* data = ConstantPayload(value);
  if (!data || data->element_count() == 0) return std::nullopt;
  const auto position = Linearize(index, value->type.shape, builder_.ranges()).AsConstant();
  const bool whole = data->element_count() == 1;
  if (!whole && !position) return std::nullopt;
  const int64_t at = whole ? 0 : *position;
  if (at < 0 || at >= data->element_count()) return std::nullopt;
  const Dtype dtype = value->type.dtype;
  const auto scalar = [&](const CExpr& literal) {
    return Scalar{NameNumber(builder_, Outside(value), at, literal), dtype};
  };
  if (IsFloat(dtype)) return scalar(Literal(data->GetDouble(at), dtype));
  const Scalar literal = scalar(Literal(data->GetInt(at), dtype));
  known_intervals_[literal.text()] = {data->GetInt(at), data->GetInt(at)};
  return literal;
}

RegionLowering::ElementType RegionLowering::ElementType::InMemory(Dtype dtype) {
  return {std::string(MemoryTypeName(dtype)), DtypeBytes(dtype)};
}

Scalar RegionLowering::LoadElement(const Value* outside, ArrayRef<Expr> index) {
  const Dtype dtype = outside->type.dtype;
  const CExpr buffer = builder_.Buffer(outside);
  const std::string label = ModelName(outside->name);
  const Expr position = Linearize(index, outside->type.shape, builder_.ranges());
  CExpr element =
      Load(buffer, ElementType::InMemory(dtype), outside->type.shape, position,
           WithPath(PlaceIn(label, outside->type.shape, ViewsInPath()), ReshapedInPath()));
  if (dtype == Dtype::kF16 || dtype == Dtype::kBF16) element = Call("ToFloat", {element});
  const std::string name = builder_.Let(CTypeName(dtype), ValueName(label), element);
  if (IsInteger(dtype)) {
    origins_[name] = {outside, position};
    if (const auto interval = ConstantInterval(outside)) known_intervals_[name] = *interval;
  }
  return {name, dtype};
}

Scalar RegionLowering::LowerNode(const Node& node, int result, ArrayRef<Expr> index) {
  const OpDef& def = GetOpDef(node.kind);
  if (def.functions.lower == nullptr && make_reduced_) return make_reduced_(node, index);
  if (def.functions.lower == nullptr && def.op_class == OpClass::kReduction)
    return FoldSerially(*this, node, index);
  FUSEC_CHECK(def.functions.lower != nullptr, "no element-wise form of " + PrintNode(node));
  ElementLowering context(*this, node, result, index);
  const Scalar scalar = def.functions.lower(context);
  if (IsInteger(scalar.dtype)) NoteInterval(node, scalar, index);
  return scalar;
}

Scalar RegionLowering::Evaluate(const Value* value, ArrayRef<Expr> index) {
  if (auto bound = bindings_.find(value); bound != bindings_.end()) {
    const auto same = std::find_if(
        bound->second.begin(), bound->second.end(),
        [&](const Binding& binding) { return ArrayRef<Expr>(binding.index) == index; });
    FUSEC_CHECK(same != bound->second.end(),
                "a reduction of the region is read at another row: " + value->name);
    return same->local;
  }
  if (value == assumed_) return {"true", Dtype::kBool};
  if (auto kept = kept_.find(value); kept != kept_.end()) {
    path_.push_back(value);
    const Scalar scalar = LoadKept(value, kept->second, index);
    path_.pop_back();
    return scalar;
  }
  if (auto literal = ConstantElement(value, index)) return *literal;
  const std::string key = ElementKey(value, index);
  if (const Scalar* known = builder_.Recall(key)) return *known;
  if (auto slots = slots_.find(value);
      slots != slots_.end() && !slot_.empty() && index == slot_index_) {
    const Dtype dtype = value->type.dtype;
    const Scalar scalar{
        builder_.Let(CTypeName(dtype), ValueName(ModelName(value->name)), slots->second[slot_]),
        dtype};
    builder_.Remember(key, scalar);
    return scalar;
  }
  const Value* outside = Outside(value);
  const bool is_input = outside != value || !value->producer;
  path_.push_back(value);
  const Scalar scalar = is_input ? LoadElement(outside, index)
                                 : LowerNode(*value->producer, value->result_index, index);
  path_.pop_back();
  builder_.Remember(key, scalar);
  return scalar;
}

Expr RegionLowering::SlotAt(const Node& node, int operand, ArrayRef<Expr> place, int bank) {
  ElementLowering element(*this, node, 0, place);
  return element.SlotFromData(element.Load(operand, place), operand, place, bank);
}

std::pair<Exprs, CExpr> RegionLowering::Scattered(const Node* scatter, ArrayRef<Expr> index,
                                                  Exprs target) {
  if (!scatter) return {target, {}};
  ElementLowering element(*this, *scatter, 0, index);
  Expr& place = target[static_cast<size_t>(scatter->Int("axis"))];
  place = element.PlaceFromData(element.Load(1, index), 1, index);
  return {target, builder_.Write(place, {}) >= 0};
}

std::vector<const Value*> RegionLowering::ViewsInPath() const {
  std::vector<const Value*> views;
  for (auto value = path_.rbegin(); value != path_.rend(); ++value) {
    if (value == path_.rbegin()) continue;  // the value that is read itself
    const OpClass op_class = GetOpDef((*value)->producer->kind).op_class;
    if (op_class != OpClass::kView && op_class != OpClass::kPointwise) break;
    if (op_class == OpClass::kView) views.push_back(*value);
  }
  return views;
}

std::vector<const Value*> RegionLowering::ReshapedInPath() const {
  std::vector<const Value*> reshaped;
  for (size_t i = path_.size(); i-- > 1;) {
    if (path_[i - 1]->producer->kind == OpKind::kReshape) reshaped.push_back(path_[i]);
  }
  return reshaped;
}

const Scalar* RegionLowering::Known(const Value* value, ArrayRef<Expr> index) const {
  return builder_.Recall(ElementKey(value, index));
}

}  // namespace fusec
