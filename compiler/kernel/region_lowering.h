#pragma once

#include <functional>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "compiler/kernel/kernel_builder.h"
#include "compiler/support/adt.h"

namespace fusec {

// Writes the computation of single elements of a region's values. It goes from the wanted element
// back to the loads that it depends on, through the Lower of each op, and lets the builder write
// each step only once.
class RegionLowering {
 public:
  RegionLowering(const Node& region, KernelBuilder& builder) : region_(region), builder_(builder) {}

  // Element `index` of `value`, a value of the region's body.
  Scalar Evaluate(const Value* value, ArrayRef<Expr> index);
  // From now on, element `index` of `value` (the result of a reduction) is the local `local`. No
  // other element is known.
  void Bind(const Value* value, ArrayRef<Expr> index, const Scalar& local) {
    bindings_[value] = {{Exprs(index), local}};
  }
  // The same for one more element of a value that is bound.
  void BindAlso(const Value* value, ArrayRef<Expr> index, const Scalar& local) {
    bindings_[value].push_back({Exprs(index), local});
  }
  // An array in shared memory that holds a value for the rows of a block. The leading `row_rank`
  // coordinates of the value select the row, number `row_in_block` of the block. The other
  // coordinates are row-major, with a gap of `gap` unused elements after every `run` elements (0:
  // no gaps).
  struct KeptRows {
    std::string array;
    size_t row_rank = 0;
    int64_t run = 0, gap = 0;
    bool for_all_rows = false;  // one copy per block, 16-bit floats not widened
    // The number of places, gaps included, that a row of `elements` elements takes.
    Expr Places(const Expr& elements, const Ranges& ranges) const {
      return run > 0 ? elements + FloorDiv(elements, run, ranges) * gap : elements;
    }
  };
  // From now on, `value` is read from the array of `rows`.
  void Keep(const Value* value, const KeptRows& rows) { kept_[value] = rows; }
  // The place of element `index` of `value` within a row of the array, and its position in the
  // array for the row of SetRowInBlock.
  Expr PlaceInRow(const Value* value, const KeptRows& rows, ArrayRef<Expr> index) const;
  Expr PositionInRows(const Value* value, const KeptRows& rows, ArrayRef<Expr> index) const;
  // Sets the function that computes an element of a matmul or reduction where it is needed.
  using ReducerFunction = std::function<Scalar(const Node&, ArrayRef<Expr>)>;
  void OnReducer(ReducerFunction make) { make_reduced_ = std::move(make); }
  // Writes a store of `scalar` to element `index` of a kept value.
  void StoreKept(const Value* value, const KeptRows& rows, ArrayRef<Expr> index,
                 const Scalar& scalar, ArrayRef<SizeName> offsets = {});
  // Sets a function that decides whether the position of a select is below its limit, if the
  // planner of the kernel knows; else it returns nullopt.
  using SelectFunction =
      std::function<std::optional<bool>(const Expr& position, const Expr& limit)>;
  void OnSelect(SelectFunction decide) { decide_ = std::move(decide); }
  // From now on, every element of the condition `value` holds; null for none. `value` must not have
  // been computed in an open scope.
  void Assume(const Value* value) { assumed_ = value; }
  // Sets the row of the block that the next statements compute.
  void SetRowInBlock(const Expr& row_in_block) { row_in_block_ = row_in_block; }
  // From now on, `value` is read from `array`, which holds elements that a thread keeps, if it is
  // needed for the element of SetSlot: `index`, which the thread keeps at position `slot`.
  void KeepInSlots(const Value* value, const CExpr& array) { slots_[value] = array; }
  bool IsInSlots(const Value* value) const { return slots_.count(value) > 0; }
  void SetSlot(ArrayRef<Expr> index, const CExpr& slot) {
    slot_index_ = Exprs(index);
    slot_ = slot;
  }
  // The next statements compute no element that is kept.
  void LeaveSlot() { slot_ = {}; }
  // The checked slot (LowerContext::SlotFromData) at `place` of operand number `operand` of `node`,
  // a node of the region's body. The slot is an index into the first axis of operand number `bank`.
  Expr SlotAt(const Node& node, int operand, ArrayRef<Expr> place, int bank);
  // `target`, moved along the axis to the checked index of update `index` of `scatter`, a
  // scatter_elements in place; unchanged if that is null. The second is the condition on which
  // there is such an element; empty if there always is.
  std::pair<Exprs, CExpr> Scattered(const Node* scatter, ArrayRef<Expr> index, Exprs target);
  // The local that holds element `index` of `value`, or null.
  const Scalar* Known(const Value* value, ArrayRef<Expr> index) const;
  // Writes a store of `scalar` to element `index` of result number `output` of the region.
  // `offsets` name the offsets at which parts begin. Nothing is stored unless the condition holds.
  void Store(int output, ArrayRef<Expr> index, const Scalar& scalar,
             ArrayRef<SizeName> offsets = {}, const CExpr& condition = {});
  // The number of loads inside the loop over the lanes: those for all lanes at once, and those for
  // single lanes.
  struct Loads {
    int of_vectors = 0, of_lanes = 0;
  };
  const Loads& loads() const { return loads_; }

  KernelBuilder& builder() { return builder_; }
  const Node& region() const { return region_; }
  // The value outside the region that a body input stands for, or the body value itself.
  const Value* Outside(const Value* value) const;
  // The data of a constant inside or outside the region, or null.
  const TensorData* ConstantPayload(const Value* value) const;

 private:
  friend class ElementLowering;
  struct Origin {
    const Value* tensor;  // a value outside the region
    Expr position;
  };
  // The type of an array's elements.
  struct ElementType {
    std::string name;
    int64_t bytes;
    static ElementType InMemory(Dtype dtype);
    static ElementType Kept(const Value* value, const KeptRows& rows);
  };
  // Writes `buffer[position] = value`, or sets an element of the vector that the lanes store
  // together with the function `store`.
  void StoreElement(const std::string& buffer, const ElementType& type, ShapeRef shape,
                    const Expr& position, const CExpr& value, const char* store,
                    const SizeNames& names, const CExpr& condition = {});
  // `buffer[position]`, or an element of a vector that is loaded for all lanes.
  CExpr Load(const CExpr& buffer, const ElementType& type, ShapeRef shape, const Expr& position,
             const SizeNames& names);
  // The number of places of a row of a kept value, as a shape.
  Shape PlacesOfRow(const Value* value, const KeptRows& rows) const;
  // The names of the sizes in positions of the array of a kept value.
  SizeNames PlaceInRows(const Value* value, const KeptRows& rows) const;
  // The views through which the current value is read, the nearest first.
  std::vector<const Value*> ViewsInPath() const;
  // The reshaped values on that path; their coordinates are quotients.
  std::vector<const Value*> ReshapedInPath() const;
  // VectorBegin for the open lanes.
  std::optional<Expr> VectorBase(const Expr& position, ShapeRef shape,
                                 int64_t aligned = INT64_MAX) const;
  // ReadsInPairs: whether two consecutive lanes read each element at `position`. PairBase: the
  // VectorBase of the elements that all lanes read in that case.
  bool ReadsInPairs(const Expr& position) const;
  std::optional<Expr> PairBase(const Expr& position, ShapeRef shape, int64_t aligned) const;
  std::optional<Ranges::Interval> ConstantInterval(const Value* value) const;
  Scalar LoadElement(const Value* outside, ArrayRef<Expr> index);
  std::optional<Scalar> ConstantElement(const Value* value, ArrayRef<Expr> index);
  Scalar LowerNode(const Node& node, int result, ArrayRef<Expr> index);
  // Remembers the proven range of `scalar`, an integer element of `node` (known_intervals.cc).
  void NoteInterval(const Node& node, const Scalar& scalar, ArrayRef<Expr> index);
  Ranges::Interval IntervalOf(const Node& node, int operand, ArrayRef<Expr> index);
  std::optional<Ranges::Interval> ChoiceInterval(const Value* value);
  std::optional<Ranges::Interval> FindChoiceInterval(const Value* value);

  const Node& region_;
  KernelBuilder& builder_;
  struct Binding {
    Exprs index;
    Scalar local;
  };
  std::unordered_map<const Value*, std::vector<Binding>> bindings_;
  Scalar LoadKept(const Value* value, const KeptRows& kept, ArrayRef<Expr> index);
  std::unordered_map<const Value*, KeptRows> kept_;
  std::vector<const Value*> path_;  // values under evaluation, each needed by the one before it
  Expr row_in_block_;
  DenseMap<const Value*, CExpr> slots_;  // arrays
  Exprs slot_index_;
  CExpr slot_;
  ReducerFunction make_reduced_;
  SelectFunction decide_;
  const Value* assumed_ = nullptr;
  Loads loads_;
  std::map<std::string, Origin> origins_;  // by local: the source of integer data
  std::map<std::string, Ranges::Interval>
      known_intervals_;  // by local: the proven range of integer data
  DenseMap<const Value*, std::optional<Ranges::Interval>> choice_intervals_;  // ChoiceInterval
};

// The position of the first element of the vector that holds `position`, in a tensor of `shape`,
// for all of `lanes`. nullopt unless the vector is aligned and the tensor consists of whole
// vectors: every term of the position except the lane must be a multiple of the vector's length, or
// of `aligned` elements if that is less. Buffers are aligned to 16 bytes.
std::optional<Expr> VectorBegin(const Expr& position, ShapeRef shape,
                                const KernelBuilder::Lanes& lanes, int64_t aligned = INT64_MAX);
// The names of the sizes in positions of the array of a kept value, including its gaps.
std::vector<SizeName> KeptSizes(const Value* value, const RegionLowering::KeptRows& rows);

// The name of an element of a tensor, and the key by which a builder recalls it.
std::string ValueName(const std::string& tensor);
std::string ElementKey(const Value* value, ArrayRef<Expr> index);

}  // namespace fusec
