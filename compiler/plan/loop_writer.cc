#include "compiler/plan/loop_writer.h"

#include <algorithm>

#include "compiler/plan/pooled_lanes.h"

namespace fusec {

namespace {

Exprs Shifted(ArrayRef<Expr> index, Exprs offset) {
  const size_t stacked = offset.size() - index.size();
  for (size_t i = 0; i < index.size(); ++i) offset[stacked + i] = index[i] + offset[stacked + i];
  return offset;
}

}  // namespace

Shape LoopWriter::Lead() const {
  const Shape& shape = segments_.groups[0].shape();
  return Shape(shape.begin(), shape.begin() + segments_.lead);
}

void LoopWriter::StoreGroup(const LoopGroup& group, ArrayRef<Expr> index) {
  if (group.run) return StorePart(group, index);
  for (const LoopSegment& segment : group.segments) {
    const auto place = PlaceOfPart(builder_, region_.result(segment.output), segment.offset,
                                   ModelName(segment.value->name));
    const auto [to, when] =
        lowering_.Scattered(segment.scatter, index, Shifted(index, segment.offset));
    lowering_.Store(segment.output, to, lowering_.Evaluate(segment.value, index), place, when);
  }
}

// Stores one element of part number `part` of a run.
void LoopWriter::StorePart(const LoopGroup& group, ArrayRef<Expr> index) {
  const LoopSegment& segment = group.segments[0];
  RegionLowering lowering(*group.run->region, builder_);
  const Value* result = region_.result(segment.output);
  const auto first = PlaceOfPart(builder_, result, segment.offset, "parts");
  Exprs place = Shifted(index, segment.offset);
  Expr& along = place[place.size() - index.size() + group.run_axis];
  along = along + Variable(kPartVariable) * segment.shape()[group.run_axis];
  lowering_.Store(segment.output, place, lowering.Evaluate(group.run->output, index), first);
}

void LoopWriter::StoreElementOfRow(const LoopGroup& group, int64_t lanes, const SizeNames& names) {
  const Expr per_row = FloorDiv(Product(Inner(group.shape())), lanes, builder_.ranges());
  StoreElementOf(RowOfThread(per_row, names), group, lanes, names);
}

void LoopWriter::StoreElementOf(Exprs row, const LoopGroup& group, int64_t lanes,
                                const SizeNames& names) {
  const Shape inner = Inner(group.shape());
  const Expr i = Variable("i");
  const Expr per_row = FloorDiv(Product(inner), lanes, builder_.ranges());
  if (lanes > 1) {
    AddVectorOf(inner, i, lanes, names, row);
  } else if (per_row.IsConstant(1)) {
    row.resize(row.size() + inner.size(), 0);
  } else {
    LocalCoordinate("column", Mod(i, per_row, builder_.ranges()), per_row, names);
    for (const Expr& e : Coordinates(builder_, Variable("column"), inner, "column", names))
      row.push_back(e);
  }
  StoreGroup(group, row);
  if (lanes > 1) builder_.CloseLanes();
}

// The leading coordinates of the element that thread `i` computes; a row has `per_row` elements.
Exprs LoopWriter::RowOfThread(const Expr& per_row, const SizeNames& names) {
  const Expr rows = Product(Lead());
  if (rows.IsConstant(1)) return Exprs(segments_.lead, 0);
  LocalCoordinate("row", FloorDiv(Variable("i"), per_row, builder_.ranges()), rows, names);
  return Coordinates(builder_, Variable("row"), Lead(), "row");
}

// Opens a loop over the lanes of vector `i`, and appends the coordinates in `inner` to `index`.
void LoopWriter::AddVectorOf(ShapeRef inner, const Expr& i, int64_t lanes, const SizeNames& names,
                             Exprs& index) {
  Shape vectors(inner);
  vectors.back() = FloorDiv(inner.back(), lanes, builder_.ranges());
  const Expr count = Product(vectors);
  Expr vector = 0;
  if (!count.IsConstant(1)) {
    LocalCoordinate("vector", Mod(i, count, builder_.ranges()), count, names);
    vector = Variable("vector");
  }
  for (const Expr& e : Coordinates(builder_, vector, vectors, "vector", names)) index.push_back(e);
  if (const auto last = index.back().AsSymbol())
    builder_.expressions().NameFactor(WordOfSymbol(*last), lanes, LanesName(lanes));
  index.back() = index.back() * lanes + OpenVector(lanes);
}

int64_t LoopWriter::LanesOf(const LoopGroup& group, ArrayRef<Expr> extents,
                            int64_t at_least) const {
  int bytes = 2;
  for (const LoopSegment& segment : group.segments)
    bytes = std::max(bytes, DtypeBytes(region_.body->outputs[segment.output]->type.dtype));
  const int64_t most =
      builder_.shape().lanes > 0 ? builder_.shape().lanes : std::max<int64_t>(16 / bytes, at_least);
  for (const int lanes : {64 / bytes, 32 / bytes, 16 / bytes, 8 / bytes}) {
    if (lanes > most) continue;
    const bool fits = std::all_of(extents.begin(), extents.end(), [&](const Expr& extent) {
      return IsMultiple(extent, lanes) && !extent.IsConstant(0);
    });
    if (fits) return lanes;
  }
  return 1;
}

int64_t LoopWriter::LanesOfRows(const LoopGroup& group) const {
  const Shape inner = Inner(group.shape());
  if (inner.empty() || !Product(inner).AsConstant()) return 1;
  Exprs extents = {inner.back()};
  for (const LoopSegment& segment : group.segments) {
    extents.push_back(region_.body->outputs[segment.output]->type.shape.back());
    if (segment.offset.back() != 0) extents.push_back(segment.offset.back());
  }
  const bool is_gpu = builder_.target() == TargetKind::kGpu;
  return LanesOf(group, extents, is_gpu ? LanesOfPooledRows(group.segments[0].value) : 0);
}

CExpr LoopWriter::LanesName(int64_t lanes) {
  return builder_.expressions().Constant("lanes", lanes, "elements that a thread computes");
}

Expr LoopWriter::OpenVector(int64_t lanes) {
  builder_.OpenLanes({"lane", lanes, true, "#pragma unroll", LanesName(lanes)});
  return Variable("lane");
}

void LoopWriter::LocalCoordinate(const std::string& name, const Expr& value, const Expr& extent,
                                 const SizeNames& names) {
  builder_.AppendLet(name, builder_.Write(value, names));
  builder_.DefineVariable(name, 0, extent - 1);
}

}  // namespace fusec
