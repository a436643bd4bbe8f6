// Loads and stores of elements that a block keeps in shared memory.
#include <algorithm>

#include "compiler/ir/c_text.h"
#include "compiler/kernel/region_lowering.h"
#include "compiler/kernel/size_names.h"

namespace fusec {

RegionLowering::ElementType RegionLowering::ElementType::Kept(const Value* value,
                                                              const KeptRows& rows) {
  const Dtype dtype = value->type.dtype;
  if (rows.for_all_rows) return InMemory(dtype);
  return {CTypeName(dtype), IsFloat(dtype) ? std::max(4, DtypeBytes(dtype)) : DtypeBytes(dtype)};
}

Expr RegionLowering::PlaceInRow(const Value* value, const KeptRows& rows,
                                ArrayRef<Expr> index) const {
  const auto lead = static_cast<int64_t>(rows.row_rank);
  const Shape inner(value->type.shape.begin() + lead, value->type.shape.end());
  const Expr element = Linearize({index.begin() + lead, index.end()}, inner, builder_.ranges());
  return rows.Places(element, builder_.ranges());
}

Expr RegionLowering::PositionInRows(const Value* value, const KeptRows& rows,
                                    ArrayRef<Expr> index) const {
  const auto lead = static_cast<int64_t>(rows.row_rank);
  const Shape inner(value->type.shape.begin() + lead, value->type.shape.end());
  const Expr place = PlaceInRow(value, rows, index);
  if (rows.for_all_rows) return place;
  return row_in_block_ * rows.Places(Product(inner), builder_.ranges()) + place;
}

Shape RegionLowering::PlacesOfRow(const Value* value, const KeptRows& rows) const {
  const auto lead = static_cast<int64_t>(rows.row_rank);
  const Shape inner(value->type.shape.begin() + lead, value->type.shape.end());
  return {rows.Places(Product(inner), builder_.ranges())};
}

std::vector<SizeName> KeptSizes(const Value* value, const RegionLowering::KeptRows& rows) {
  const std::string name = ModelName(value->name);
  const Shape& shape = value->type.shape;
  if (rows.run == 0) return SizesOf(name, shape, rows.row_rank);
  const std::string gap = std::to_string(rows.gap), run = std::to_string(rows.run);
  std::vector<SizeName> sizes = {{rows.run + rows.gap, name + "_pitch",
                                  "from one run of " + run + " of \"" + name + "\" to the next"}};
  const auto with_gaps = [&](int64_t elements) {
    return elements + elements / rows.run * rows.gap;
  };
  Expr stride = 1;
  for (size_t axis = shape.size(); axis-- > rows.row_rank + 1;) {
    stride = stride * shape[axis];
    const std::string which = std::to_string(axis - 1);
    if (const int64_t step = *stride.AsConstant(); step > rows.run && step % rows.run == 0)
      sizes.push_back({with_gaps(step), name + "_step_" + which,
                       "stride of axis " + which + " of \"" + name + "\", gaps included"});
  }
  const int64_t elements = *(stride * shape[rows.row_rank]).AsConstant();
  sizes.push_back({with_gaps(elements), name + "_places",
                   (rows.for_all_rows ? "for \"" : "for one row of \"") + name + "\", with " + gap +
                       " unused after every " + run + ", against bank conflicts"});
  sizes.push_back({rows.gap, name + "_gap", "unused elements after each run of \"" + name + "\""});
  for (SizeName& size : SizesOf(name, shape, rows.row_rank)) sizes.push_back(std::move(size));
  sizes.push_back({rows.run, name + "_run", "elements of each run of \"" + name + "\""});
  return sizes;
}

SizeNames RegionLowering::PlaceInRows(const Value* value, const KeptRows& rows) const {
  return {ModelName(value->name), "", true, KeptSizes(value, rows), {}, {}};
}

Scalar RegionLowering::LoadKept(const Value* value, const KeptRows& kept, ArrayRef<Expr> index) {
  const std::string key = ElementKey(value, index);
  if (const Scalar* known = builder_.Recall(key)) return *known;
  const std::string type = CTypeName(value->type.dtype), label = ModelName(value->name);
  const Expr position = PositionInRows(value, kept, index);
  const ElementType kept_type = ElementType::Kept(value, kept);
  CExpr element = Load(kept.array, kept_type, PlacesOfRow(value, kept), position,
                       WithPath(PlaceInRows(value, kept), ReshapedInPath()));
  if (kept_type.name != type) element = Call("ToFloat", {element});
  const Scalar scalar{builder_.Let(type, ValueName(label), element), value->type.dtype};
  builder_.Remember(key, scalar);
  return scalar;
}

void RegionLowering::StoreKept(const Value* value, const KeptRows& rows, ArrayRef<Expr> index,
                               const Scalar& scalar, ArrayRef<SizeName> offsets) {
  SizeNames names = PlaceInRows(value, rows);
  names.offsets = offsets;
  StoreElement(rows.array, ElementType::Kept(value, rows), PlacesOfRow(value, rows),
               PositionInRows(value, rows, index), scalar.value, "KeepVector", names);
}

}  // namespace fusec
