// Vector loads and stores of a thread that computes several consecutive elements.
#include <algorithm>

#include "compiler/kernel/idioms.h"
#include "compiler/kernel/region_lowering.h"
#include "compiler/kernel/size_names.h"

namespace fusec {

constexpr int64_t kVectorBytes = 16;  // per load or store instruction

// Two 4-bit values of one byte are in consecutive lanes.
bool RegionLowering::ReadsInPairs(const Expr& position) const {
  const KernelBuilder::Lanes* lanes = builder_.lanes();
  if (!lanes || !lanes->vectors || lanes->count % 2 != 0 || lanes->count < 4) return false;
  const Expr lane = Variable(lanes->variable);
  return !builder_.DependsOnLane(position - FloorDiv(lane, 2, builder_.ranges()));
}

std::optional<Expr> RegionLowering::PairBase(const Expr& position, ShapeRef shape,
                                             int64_t aligned) const {
  if (builder_.InLaneBranch()) return std::nullopt;
  KernelBuilder::Lanes pairs = *builder_.lanes();
  pairs.count /= 2;
  const Expr lane = Variable(pairs.variable);
  return VectorBegin(position - FloorDiv(lane, 2, builder_.ranges()) + lane, shape, pairs, aligned);
}

CExpr RegionLowering::Load(const CExpr& buffer, const ElementType& type, ShapeRef shape,
                           const Expr& position, const SizeNames& names) {
  const CExpr element = buffer[builder_.Write(position, names)];
  auto base = VectorBase(position, shape, kVectorBytes / type.bytes);
  const bool in_pairs = !base && ReadsInPairs(position);
  if (in_pairs) base = PairBase(position, shape, kVectorBytes / type.bytes);
  if (!base) {
    loads_.of_lanes += builder_.DependsOnLane(element);
    return element;
  }
  ++loads_.of_vectors;
  builder_.Use("vector.cuh");
  const CExpr lane = builder_.lanes()->variable;
  const CExpr& lanes = builder_.lanes()->count_name;
  const CExpr pair =
      in_pairs ? builder_.expressions().Constant("lanes_per_byte", 2, "elements that share a byte")
               : CExpr();
  const CExpr count = in_pairs ? lanes / pair : lanes;
  const CExpr vector = builder_.Let(
      VectorType(type.name, count), names.subject + "_vector",
      Call(Template("LoadVector", {count}), {PointerTo(builder_, buffer, *base, names)}));
  return vector.Dot("at")[in_pairs ? lane / pair : lane];
}

std::optional<Expr> VectorBegin(const Expr& position, ShapeRef shape,
                                const KernelBuilder::Lanes& lanes, int64_t aligned) {
  const Expr base = position - Variable(lanes.variable);
  std::vector<std::string> symbols;
  base.CollectSymbols(symbols);
  if (std::find(symbols.begin(), symbols.end(), VariableSymbol(lanes.variable)) != symbols.end())
    return std::nullopt;
  const int64_t multiple = std::min(lanes.count, aligned);
  if (!IsMultiple(base, multiple) || !IsMultiple(Product(shape), multiple)) return std::nullopt;
  return base;
}

std::optional<Expr> RegionLowering::VectorBase(const Expr& position, ShapeRef shape,
                                               int64_t aligned) const {
  const KernelBuilder::Lanes* lanes = builder_.lanes();
  // In a branch that runs only for some lanes, the elements of the other lanes may not exist in
  // memory.
  if (!lanes || !lanes->vectors || builder_.InLaneBranch()) return std::nullopt;
  return VectorBegin(position, shape, *lanes, aligned);
}

void RegionLowering::Store(int output, ArrayRef<Expr> index, const Scalar& scalar,
                           ArrayRef<SizeName> offsets, const CExpr& condition) {
  const Value* result = region_.result(output);
  const std::string buffer = builder_.Buffer(result, /*written=*/true).word();
  SizeNames names = PlaceIn(buffer, result->type.shape);
  names.offsets = offsets;
  StoreElement(buffer, ElementType::InMemory(result->type.dtype), result->type.shape,
               Linearize(index, result->type.shape, builder_.ranges()),
               ToMemory(scalar.value, result->type.dtype), "StoreVector", names, condition);
}

void RegionLowering::StoreElement(const std::string& buffer, const ElementType& type,
                                  ShapeRef shape, const Expr& position, const CExpr& value,
                                  const char* store, const SizeNames& names,
                                  const CExpr& condition) {
  const auto conditional = [&](Statement statement) {
    return condition.empty() ? statement : Statement::If(condition, {std::move(statement)});
  };
  const auto base =
      builder_.AtLanes() ? VectorBase(position, shape, kVectorBytes / type.bytes) : std::nullopt;
  if (!base) {
    const CExpr place = CExpr(buffer)[builder_.Write(position, names)];
    return builder_.Append(conditional(Statement::Assign(place, value)));
  }
  const CExpr& lanes = builder_.lanes()->count_name;
  const std::string vector = builder_.Unique(buffer + "_vector");
  builder_.Use("vector.cuh");
  builder_.BeforeLanes(Statement::Declare(VectorType(type.name, lanes), vector));
  builder_.Assign(CExpr(vector).Dot("at")[builder_.lanes()->variable], value);
  builder_.AfterLanes(conditional(
      Statement::Call(Call(store, {PointerTo(builder_, buffer, *base, names), vector}))));
}

}  // namespace fusec
