#include "compiler/kernel/fold.h"

#include <algorithm>
#include <limits>

#include "compiler/ir/c_text.h"
#include "compiler/kernel/idioms.h"
#include "compiler/kernel/region_lowering.h"
#include "compiler/kernel/rows_together.h"
#include "compiler/kernel/size_names.h"

namespace fusec {

namespace {

// The greatest (`highest`) or least value of `dtype`: an infinity for floats.
CExpr ExtremeLiteral(Dtype dtype, bool highest) {
  if (IsFloat(dtype)) {
    const double infinity = std::numeric_limits<double>::infinity();
    return Literal(highest ? infinity : -infinity, dtype);
  }
  const int bits = 8 * DtypeBytes(dtype);
  if (IsUnsigned(dtype)) {
    const uint64_t top = bits == 64 ? ~uint64_t{0} : (uint64_t{1} << bits) - 1;
    return Literal(static_cast<int64_t>(highest ? top : 0), dtype);
  }
  const int64_t top = static_cast<int64_t>((uint64_t{1} << (bits - 1)) - 1);
  return Literal(highest ? top : -top - 1, dtype);
}

// So many lanes have one-byte codes, or smaller ones.
constexpr int64_t kManyLanes = 16;

// Lets ptxas use registers for codes that are loaded ahead. Otherwise it keeps to 64 registers,
// which the sums of so many lanes nearly fill, and moves the loads of a group of rows between the
// conversions of the rows before (tests/gpu/results/2026-11-28-h200-registers-of-bags.txt).
void LetLoadsRunAhead(KernelPlan& plan) {
  constexpr int kThreadsTogether = 768;  // of a multiprocessor, with 80 registers each
  plan.blocks_together = std::max(1, kThreadsTogether / plan.block_size);
}

// One loop whose entries are folded in SIMD lanes; those of each element of a vector apart.
CExpr WriteSimdFold(KernelBuilder& builder, const FoldLoop& loop,
                    function_ref<Scalar(ArrayRef<Expr>)> element) {
  const bool by_lanes = builder.MaySuspendLanes(loop.index);
  CExpr total;
  const auto write = [&] {
    const std::string name = builder.Unique(loop.name + (by_lanes ? "_sum" : ""));
    builder.Declare(CTypeName(loop.dtype), name, loop.fold.start);
    const std::string variable = builder.Unique(kFoldVariable);
    Statement header = LoopHeader(builder, variable, loop.first, loop.last);
    builder.Open();
    const Expr k = builder.DefineVariable(variable, 0, loop.dims[0] - 1);
    builder.Assign(name, loop.fold.step(name, element(k).value));
    builder.CloseFor(std::move(header),
                     "#pragma omp simd reduction(" + loop.fold.simd + " : " + name + ")");
    if (by_lanes)
      builder.Assign(total, name);
    else
      total = name;
  };
  if (!by_lanes) {
    write();
    return total;
  }
  builder.SuspendLanes();
  const std::string array = builder.Unique(loop.name);
  builder.DeclareLaneArray(CTypeName(loop.dtype), array);
  total = CExpr(array)[builder.lanes()->variable];
  builder.ForLanes(write);
  builder.ResumeLanes();
  return total;
}

}  // namespace

CExpr Combined(const std::string& how, Dtype dtype, const CExpr& a, const CExpr& b) {
  const CExpr combine = how + "::Combine";
  const bool is_narrow = IsInteger(dtype) && DtypeBytes(dtype) < 4;
  return Call(is_narrow ? Template(combine, {CTypeName(dtype)}) : combine, {a, b});
}

Fold FoldOf(OpKind kind, Dtype dtype) {
  const bool is_bool = dtype == Dtype::kBool;
  const auto call = [dtype](const std::string& how) {
    return [how, dtype](const CExpr& total, const CExpr& element) {
      return Combined(how, dtype, total, element);
    };
  };
  switch (kind) {
    case OpKind::kReduceProd:
      return {Literal(1, dtype), "ProductOf",
              [](auto& total, auto& element) { return total * element; }};
    case OpKind::kReduceMax:
      if (is_bool) return {"false", "LargerOf", [](auto& t, auto& e) { return Or(t, e); }};
      return {ExtremeLiteral(dtype, false), "LargerOf", call("LargerOf"), true,
              IsFloat(dtype) ? "larger" : "max"};
    case OpKind::kReduceMin:
      if (is_bool) return {"true", "SmallerOf", [](auto& t, auto& e) { return And(t, e); }};
      return {ExtremeLiteral(dtype, true), "SmallerOf", call("SmallerOf"), true,
              IsFloat(dtype) ? "smaller" : "min"};
    default:  // sums, means, matrix products
      return {Literal(0, dtype), "SumOf",
              [](auto& total, auto& element) { return total + element; }, false, "+"};
  }
}

CExpr WriteFold(KernelBuilder& builder, const FoldLoop& loop,
                function_ref<Scalar(ArrayRef<Expr>)> element) {
  const Fold& fold = loop.fold;
  if (loop.side_by_side && builder.target() == TargetKind::kCpu && fold.simd == "+")
    return WriteSimdFold(builder, loop, element);
  if (fold.calls_how) builder.Use("block_reduce.cuh");
  // The loop over the lanes is inside the fold, unless the bounds of the fold differ between lanes.
  const bool by_lanes = builder.MaySuspendLanes(loop.index) && !builder.IsInnermost(loop.first) &&
                        !builder.IsInnermost(loop.last);
  if (by_lanes) builder.SuspendLanes();
  const std::string array = builder.Unique(loop.name);
  CExpr total = array;
  if (by_lanes) {
    total = total[builder.lanes()->variable];
    builder.DeclareLaneArray(CTypeName(loop.dtype), array);
    builder.ForLanes([&] { builder.Assign(total, fold.start); });
  } else {
    builder.Declare(CTypeName(loop.dtype), array, fold.start);
  }
  builder.BeginNotes();
  Exprs k;
  std::vector<Statement> headers;
  std::vector<CExpr> lasts;
  for (size_t axis = 0; axis < loop.dims.size(); ++axis) {
    const Expr& dim = loop.dims[axis];
    const std::string variable = builder.Unique(kFoldVariable);
    lasts.push_back(loop.last.empty() ? builder.Write(dim, loop.sizes[axis]) : loop.last);
    headers.push_back(
        LoopHeader(builder, variable, loop.first.empty() ? 0 : loop.first, lasts.back()));
    builder.Open();
    k.push_back(builder.DefineVariable(variable, 0, dim - 1));
  }
  const auto step = [&] { builder.Assign(total, fold.step(total, element(k).value)); };
  if (by_lanes)
    builder.ForLanes(step);
  else
    step();
  for (size_t axis = headers.size(); axis-- > 0;) {
    Statement& header = headers[axis];
    header.body = builder.Close();
    // If there are several loops, only the innermost is transformed.
    if (axis + 1 < headers.size() || !builder.HasNotes()) {
      builder.Append(std::move(header));
      continue;
    }
    const auto count = loop.last.empty() ? loop.dims[axis].AsConstant() : std::nullopt;
    if (by_lanes && count && builder.lanes()->count >= kManyLanes) LetLoadsRunAhead(builder.plan());
    for (Statement& statement : WithRowsTogether(builder, std::move(header), lasts[axis], count))
      builder.Append(std::move(statement));
  }
  builder.EndNotes();
  if (by_lanes) builder.ResumeLanes();
  return total;
}

Scalar FoldSerially(RegionLowering& lowering, const Node& reduction, ArrayRef<Expr> index) {
  KernelBuilder& builder = lowering.builder();
  const Value* result = reduction.result();
  const Dtype dtype = FoldDtype(reduction);
  const bool is_mean = reduction.kind == OpKind::kReduceMean;
  const std::string name = ModelName(result->name);
  const Shape dims = ReducedDims(reduction);
  std::vector<SizeNames> sizes;
  const Value* source = reduction.operand(0);
  for (const int64_t axis : reduction.Ints("axes"))
    sizes.push_back(Only(ExtentOf(NameOf(builder, source), source->type.shape, axis)));
  if (sizes.size() == 1) sizes[0] = LengthOf(reduction);
  const CExpr total = WriteFold(
      builder,
      {FoldOf(reduction.kind, dtype),
       dtype,
       name + (is_mean ? "_sum" : ""),
       dims,
       sizes,
       {},
       {},
       Exprs(index)},
      [&](ArrayRef<Expr> k) {
        return lowering.Evaluate(reduction.operand(0), ReductionOperandIndex(reduction, index, k));
      });
  return {
      is_mean ? WriteMean(builder, reduction, total, Product(dims), LengthOf(reduction)) : total,
      result->type.dtype};
}

SizeNames LengthOf(const Node& reducer, const CExpr& lanes) {
  const std::string name = ModelName(reducer.result()->name);
  const bool is_sum = reducer.kind == OpKind::kMatMul;
  const std::string words = is_sum ? "terms" : "entries";
  const std::string whose = (is_sum ? "of each sum of \"" : "per element of \"") + name + "\"";
  const std::string hint = name + (is_sum ? "_depth" : "_entries");
  if (lanes.empty()) return Only({0, hint, words + " " + whose});
  return Only({0, name + (is_sum ? "_depth_vectors" : "_entry_vectors"),
               lanes.ToString() + " " + words + " each, " + whose});
}

CExpr WriteMean(KernelBuilder& builder, const Node& reducer, const CExpr& total, const Expr& count,
                const SizeNames& names) {
  const Value* result = reducer.result();
  const CExpr fold_type = CTypeName(FoldDtype(reducer));
  const CExpr divisor = Cast(fold_type, builder.Write(count, names));
  const bool is_integer = IsInteger(result->type.dtype);
  if (is_integer) builder.Use("divide.cuh");  // so that the mean of no elements is 0
  return builder.Let(
      CTypeName(result->type.dtype), ModelName(result->name),
      is_integer ? Call(Template("Divide", {fold_type}), {total, divisor}) : total / divisor);
}

}  // namespace fusec
