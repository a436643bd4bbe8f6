#pragma once

#include <functional>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "compiler/kernel/kernel_builder.h"
#include "compiler/support/adt.h"

namespace fusec {

// Computes single elements of a region's values inside a kernel: walks from a wanted element to the
// loads that make it, through every op's Lower, and lets the builder write down each step once.
class RegionLowering {
 public:
  RegionLowering(const Node& region, KernelBuilder& builder) : region_(region), builder_(builder) {}

  // Element `index` of `value`, a value of the region's body.
  Scalar Evaluate(const Value* value, ArrayRef<Expr> index);
  // From now on `value` (a reduction's result) is the local `local`, known for element `index`
  // only.
  void Bind(const Value* value, ArrayRef<Expr> index, const Scalar& local);
  // An array in shared memory that holds a value for the rows of a block: the value's leading
  // `row_rank` coordinates are row number `row_in_block` of these, the rest lie row-major, with
  // `gap` elements of nothing behind every `run` of them (0: nowhere).
  struct KeptRows {
    std::string array;
    size_t row_rank = 0;
    int64_t run = 0, gap = 0;
    bool for_all_rows = false;  // once in a block, halves as such
    // Of a row that holds so many elements.
    Expr Places(const Expr& elements, const Ranges& ranges) const {
      return run > 0 ? elements + FloorDiv(elements, run, ranges) * gap : elements;
    }
  };
  // From now on `value` is read from there.
  void Keep(const Value* value, const KeptRows& rows) { kept_[value] = rows; }
  // Where a row of it holds element `index` of `value`, and where that is for the row that
  // SetRowInBlock names.
  Expr PlaceInRow(const Value* value, const KeptRows& rows, ArrayRef<Expr> index) const;
  Expr PositionInRows(const Value* value, const KeptRows& rows, ArrayRef<Expr> index) const;
  // Makes an element of a matmul's or reduction's result where it is needed.
  using ReducerFunction = std::function<Scalar(const Node&, ArrayRef<Expr>)>;
  void OnReducer(ReducerFunction make) { make_reduced_ = std::move(make); }
  // Writes `scalar` to element `index` of a value that is kept.
  void StoreKept(const Value* value, const KeptRows& rows, ArrayRef<Expr> index,
                 const Scalar& scalar, ArrayRef<SizeName> offsets = {});
  // Says whether a position that an op selects by is below its limit, where whoever plans the
  // kernel knows.
  using SelectFunction =
      std::function<std::optional<bool>(const Expr& position, const Expr& limit)>;
  void OnSelect(SelectFunction decide) { decide_ = std::move(decide); }
  // The row of the block that the next statements are about.
  void SetRowInBlock(const Expr& row_in_block) { row_in_block_ = row_in_block; }
  // From now on `value` is read from `array` where it is wanted for the element that SetSlot names:
  // `index`, which a thread keeps in its place `slot`.
  void KeepInSlots(const Value* value, const CExpr& array) { slots_[value] = array; }
  bool IsInSlots(const Value* value) const { return slots_.count(value) > 0; }
  void SetSlot(ArrayRef<Expr> index, const CExpr& slot) {
    slot_index_ = Exprs(index);
    slot_ = slot;
  }
  // The next statements are about no element that is kept.
  void LeaveSlot() { slot_ = {}; }
  // The checked slot (LowerContext::SlotFromData) that operand number `operand` of `node`, of the
  // region's body, has at `place`; it chooses a place of the first axis of operand `bank`.
  Expr SlotAt(const Node& node, int operand, ArrayRef<Expr> place, int bank);
  // The local that holds element `index` of `value`, if one does.
  const Scalar* Known(const Value* value, ArrayRef<Expr> index) const;
  // Writes `scalar` to element `index` of result number `output` of the region; `offsets` are what
  // begins there.
  void Store(int output, ArrayRef<Expr> index, const Scalar& scalar,
             ArrayRef<SizeName> offsets = {});
  // Loads inside the lanes' loop: for all lanes at once, and one by one.
  struct Loads {
    int of_vectors = 0, of_lanes = 0;
  };
  const Loads& loads() const { return loads_; }

  KernelBuilder& builder() { return builder_; }
  const Node& region() const { return region_; }
  // The value outside the region that a body input stands for, or the body value itself.
  const Value* Outside(const Value* value) const;
  // Payload of a constant inside or outside the region, or null.
  const TensorData* ConstantPayload(const Value* value) const;

 private:
  friend class ElementLowering;
  struct Origin {
    const Value* tensor;  // outside the region
    Expr position;
  };
  // Of an array's elements.
  struct ElementType {
    std::string name;
    int64_t bytes;
    static ElementType InMemory(Dtype dtype);
    static ElementType Kept(const Value* value, const KeptRows& rows);
  };
  // `buffer[position] = value`, or a part of the vector that the lanes store together by `store`.
  void StoreElement(const std::string& buffer, const ElementType& type, ShapeRef shape,
                    const Expr& position, const CExpr& value, const char* store,
                    const SizeNames& names);
  // `buffer[position]`, or its part of a vector that is loaded for all lanes.
  CExpr Load(const CExpr& buffer, const ElementType& type, ShapeRef shape, const Expr& position,
             const SizeNames& names);
  // What a row of a kept value takes, as a shape.
  Shape PlacesOfRow(const Value* value, const KeptRows& rows) const;
  // What positions in the array of a kept value are made of.
  SizeNames PlaceInRows(const Value* value, const KeptRows& rows) const;
  // The views through which the value that is being read is read, the nearest first.
  std::vector<const Value*> ViewsInPath() const;
  // What was reshaped on the way there, whose coordinates are quotients.
  std::vector<const Value*> ReshapedInPath() const;
  // VectorBegin, for the open lanes.
  std::optional<Expr> VectorBase(const Expr& position, ShapeRef shape,
                                 int64_t aligned = INT64_MAX) const;
  // Whether each element at `position` is read by two neighbouring lanes, and VectorBase of what
  // all lanes read then.
  bool ReadsInPairs(const Expr& position) const;
  std::optional<Expr> PairBase(const Expr& position, ShapeRef shape, int64_t aligned) const;
  std::optional<Ranges::Interval> ConstantInterval(const Value* value) const;
  Scalar LoadElement(const Value* outside, ArrayRef<Expr> index);
  std::optional<Scalar> ConstantElement(const Value* value, ArrayRef<Expr> index);
  Scalar LowerNode(const Node& node, int result, ArrayRef<Expr> index);
  // Remembers what is proven of `scalar`, an integer element of `node` (known_intervals.cc).
  void NoteInterval(const Node& node, const Scalar& scalar, ArrayRef<Expr> index);
  Ranges::Interval IntervalOf(const Node& node, int operand, ArrayRef<Expr> index);

  const Node& region_;
  KernelBuilder& builder_;
  struct Binding {
    Exprs index;
    Scalar local;
  };
  std::unordered_map<const Value*, Binding> bindings_;
  Scalar LoadKept(const Value* value, const KeptRows& kept, ArrayRef<Expr> index);
  std::unordered_map<const Value*, KeptRows> kept_;
  std::vector<const Value*> path_;  // that are being evaluated, each for the one before it
  Expr row_in_block_;
  DenseMap<const Value*, CExpr> slots_;  // arrays
  Exprs slot_index_;
  CExpr slot_;
  ReducerFunction make_reduced_;
  SelectFunction decide_;
  Loads loads_;
  std::map<std::string, Origin> origins_;  // by local: where integer data was loaded from
  std::map<std::string, Ranges::Interval>
      known_intervals_;  // by local: what integer data is proven to be
};

// Where the vector begins that holds `position` in a `shape` for all of `lanes`, if it is aligned
// and the tensor is made of whole ones: every term but the lane itself is a multiple of its length,
// or of `aligned` elements if that is less. Buffers are aligned to 16 bytes.
std::optional<Expr> VectorBegin(const Expr& position, ShapeRef shape,
                                const KernelBuilder::Lanes& lanes, int64_t aligned = INT64_MAX);
// What positions in the array of a kept value are made of, its gaps included.
std::vector<SizeName> KeptSizes(const Value* value, const RegionLowering::KeptRows& rows);

// What an element of a tensor is called, and by which key a builder recalls it.
std::string ValueName(const std::string& tensor);
std::string ElementKey(const Value* value, ArrayRef<Expr> index);

}  // namespace fusec
