#include "compiler/ir/element_sources.h"

#include <string_view>
#include <utility>

#include "compiler/index/variables.h"
#include "compiler/ir/op_def.h"

namespace fusec {

namespace {

constexpr std::string_view kLoad = "load_";    // followed by its number
constexpr const char* kRecorded = "recorded";  // its sources were recorded already

// Runs an op's Lower to see which loads become the result. A scalar whose text is "load_<number>"
// is a load; any other text is a literal.
class SourceRecorder : public LowerContext {
 public:
  SourceRecorder(const Node& node, int result, ArrayRef<Expr> index, const Ranges& ranges,
                 IndexAt index_at)
      : ranges_(ranges), index_at_(index_at) {
    node_ = &node;
    result_number_ = result;
    index_ = Exprs(index);
  }

  std::optional<std::vector<ElementSource>> Find() {
    Record(GetOpDef(node_->kind).functions.lower(*this));
    if (computes_) return std::nullopt;
    return std::move(sources_);
  }

  const Ranges& ranges() const override { return ranges_; }
  Scalar Load(int operand, ArrayRef<Expr> index) override {
    loads_.push_back({operand, Exprs(index)});
    return {std::string(kLoad) + std::to_string(loads_.size() - 1),
            node_->operands[operand]->type.dtype};
  }
  Scalar SelectBelow(const Expr& position, const Expr& limit, Dtype dtype,
                     function_ref<Scalar()> then, function_ref<Scalar()> otherwise) override {
    if (ranges_.ProvenLess(position, limit)) return then();
    if (ranges_.ProvenNonNegative(position - limit)) return otherwise();
    Record(then());
    Record(otherwise());
    return {kRecorded, dtype};
  }
  Expr IndexFromData(const Scalar&, const Expr& extent, int operand,
                     ArrayRef<Expr> position) override {
    const std::optional<Expr> index = index_at_(operand, position, extent);
    computes_ |= !index;
    return index.value_or(Expr(0));
  }
  Expr SlotFromData(const Scalar&, int, ArrayRef<Expr>, int) override {
    computes_ = true;
    return 0;
  }
  Expr PlaceOfCachedRow(const Expr& row, int) override { return row; }
  void Use(const std::string&) override {}
  std::string Array(int) override { return Computed(Dtype::kF32).text(); }
  Scalar Let(const std::string&, Dtype dtype, const std::string&) override {
    return Computed(dtype);
  }
  Scalar DataFromIndex(const Expr&, Dtype dtype) override { return Computed(dtype); }
  Scalar FoldRange(OpKind, Dtype dtype, const Scalar&, const Scalar&, const Expr&,
                   function_ref<Scalar(const Expr&)>, bool) override {
    return Computed(dtype);
  }

 private:
  Scalar Computed(Dtype dtype) {
    computes_ = true;
    return {kRecorded, dtype};
  }
  void Record(const Scalar& element) {
    const std::string name = element.text();
    if (name == kRecorded) return;
    const bool is_load = name.compare(0, kLoad.size(), kLoad) == 0;
    sources_.push_back(is_load ? loads_[std::stoul(name.substr(kLoad.size()))]
                               : ElementSource{-1, {}});
  }

  const Ranges& ranges_;
  IndexAt index_at_;
  std::vector<ElementSource> loads_, sources_;
  bool computes_ = false;
};

}  // namespace

Exprs AnyIndex(ShapeRef shape, Ranges& ranges) {
  Exprs index;
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    index.push_back(shape[axis].IsConstant(1)
                        ? Expr(0)
                        : SetVariable(ranges, "axis_" + std::to_string(axis), 0, shape[axis] - 1));
  }
  return index;
}

std::optional<std::vector<ElementSource>> ElementSources(const Node& node, int result,
                                                         ArrayRef<Expr> index, const Ranges& ranges,
                                                         IndexAt index_at) {
  const OpDef& def = GetOpDef(node.kind);
  const bool moves = def.op_class == OpClass::kView || def.op_class == OpClass::kGather;
  if (!moves) return std::nullopt;
  return SourceRecorder(node, result, index, ranges, index_at).Find();
}

}  // namespace fusec
