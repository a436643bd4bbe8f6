#include "compiler/region/memory_place.h"

#include "compiler/ir/op_def.h"

namespace fusec {

namespace {

// Goes where a view looks for one element, and notices what is no view.
class ViewStep : public LowerContext {
 public:
  ViewStep(const Node& view, int result, std::vector<Expr> index, const Ranges& ranges)
      : ranges_(ranges) {
    node_ = &view;
    result_number_ = result;
    index_ = std::move(index);
  }

  // The operand and its element, if the view takes it from there unchanged.
  std::optional<std::pair<const Value*, std::vector<Expr>>> Follow() {
    GetOpDef(node_->kind).functions.lower(*this);
    if (!good_ || loads_ != 1) return std::nullopt;
    return std::pair{from_, from_index_};
  }

  const Ranges& ranges() const override { return ranges_; }
  Scalar Load(int operand, const std::vector<Expr>& index) override {
    ++loads_;
    from_ = node_->operands[operand];
    from_index_ = index;
    return {"x", from_->type.dtype};
  }
  Scalar SelectBelow(const Expr& position, const Expr& limit, Dtype dtype,
                     const std::function<Scalar()>& then,
                     const std::function<Scalar()>& otherwise) override {
    if (ranges_.ProvenLess(position, limit)) return then();
    if (ranges_.ProvenNonNegative(position - limit)) return otherwise();
    return Refuse(dtype);
  }
  std::string Array(int) override { return Refuse(Dtype::kF32).text; }
  Scalar Let(const std::string&, Dtype dtype, const std::string&) override { return Refuse(dtype); }
  void Use(const std::string&) override {}
  Expr IndexFromData(const Scalar&, const Expr&, int, const std::vector<Expr>&) override {
    good_ = false;
    return 0;
  }
  Scalar DataFromIndex(const Expr&, Dtype dtype) override { return Refuse(dtype); }
  Scalar FoldRange(OpKind, Dtype dtype, const Scalar&, const Scalar&, const Expr&,
                   const std::function<Scalar(const Expr&)>&) override {
    return Refuse(dtype);
  }

 private:
  Scalar Refuse(Dtype dtype) {
    good_ = false;
    return {"x", dtype};
  }

  const Ranges& ranges_;
  const Value* from_ = nullptr;
  std::vector<Expr> from_index_;
  int loads_ = 0;
  bool good_ = true;
};

}  // namespace

std::optional<MemoryPlace> FindInMemory(const Node& region, const Value* value,
                                        const std::vector<Expr>& index, const Ranges& ranges) {
  std::vector<Expr> at = index;
  while (const Node* view = value->producer) {
    const OpDef& def = GetOpDef(view->kind);
    if (def.op_class != OpClass::kView || def.functions.lower == nullptr) return std::nullopt;
    auto next = ViewStep(*view, value->result_index, at, ranges).Follow();
    if (!next) return std::nullopt;
    std::tie(value, at) = *std::move(next);
  }
  const Graph& body = *region.body;
  for (size_t i = 0; i < body.inputs.size(); ++i) {
    if (body.inputs[i].get() == value)
      return MemoryPlace{region.operands[i], Linearize(at, value->type.shape, ranges)};
  }
  return std::nullopt;
}

}  // namespace fusec
