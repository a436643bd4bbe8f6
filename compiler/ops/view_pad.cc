// pad: the one view whose index may lie outside its operand.
#include <fmt/format.h>

#include <algorithm>

#include "compiler/ops/define_op.h"
#include "compiler/ops/view_support.h"

namespace fusec {
namespace {

// The pads before the data for all axes, then those after it, as in ONNX.
Result<Exprs> ImportedPads(const ImportContext& context, int rank) {
  Exprs given;
  if (context.Has("pads")) {
    for (int64_t pad : context.Ints("pads")) given.push_back(pad);
  } else {
    FUSEC_ASSIGN(given, context.SymbolicInts(1, "pads"));
  }
  std::vector<int64_t> axes;
  if (HasInput(context, 3)) {
    FUSEC_ASSIGN(const std::vector<int64_t> raw, context.ConstantInts(3, "axes"));
    for (int64_t axis : raw) {
      FUSEC_ASSIGN(const int64_t normalized, ImportAxis(context, axis, rank));
      axes.push_back(normalized);
    }
  } else {
    for (int i = 0; i < rank; ++i) axes.push_back(i);
  }
  if (given.size() != 2 * axes.size()) {
    return context.Fail(
        fmt::format("pads has {} values, expected {}", given.size(), 2 * axes.size()));
  }
  Exprs pads(2 * rank);
  for (size_t i = 0; i < axes.size(); ++i) {
    pads[axes[i]] = given[i];
    pads[rank + axes[i]] = given[axes.size() + i];
  }
  return pads;
}

// The fill value, a scalar: the attribute `value` before opset 11, input 2 in later opsets, zero if
// absent.
Result<Value*> ImportedFill(ImportContext& context) {
  Value* fill = HasInput(context, 2) ? context.input(2) : nullptr;
  const Dtype dtype = context.input(0)->type.dtype;
  if (fill == nullptr) return context.builder().Scalar(dtype, context.Float("value", 0));
  if (fill->type.rank() == 0) return fill;
  return AddView(context, OpKind::kReshape, {fill}, {{"shape", Shape{}}});
}

// The modes that repeat elements see only what negative pads leave, so negative pads become a slice
// before the pad.
Result<Value*> Cropped(ImportContext& context, Value* data, Exprs& pads) {
  const int rank = data->type.rank();
  Exprs starts(rank, Expr(0));
  Shape shape = data->type.shape;
  bool crops = false;
  for (int i = 0; i < 2 * rank; ++i) {
    const std::optional<int64_t> pad = pads[i].AsConstant();
    if (!pad || *pad >= 0) continue;
    crops = true;
    if (i < rank) starts[i] = -pads[i];
    shape[i % rank] = shape[i % rank] + pads[i];
    pads[i] = Expr(0);
  }
  if (!crops) return data;
  return AddView(context, OpKind::kSlice, {data},
                 {{"starts", starts}, {"steps", std::vector<int64_t>(rank, 1)}, {"shape", shape}});
}

// Whether each pad is shorter than the axis, so that indices are reflected at most once.
bool ReflectsOnce(const Expr& begin, const Expr& end, const Expr& dim, const Ranges& ranges) {
  return ranges.ProvenLess(begin, dim) && ranges.ProvenLess(end, dim);
}

// An error unless the conditions that SourceCoordinate needs are proven for an axis.
Result<void> CheckRepeatable(const std::string& mode, int axis, const Expr& begin, const Expr& end,
                             const Expr& dim, const Ranges& ranges) {
  if (!ranges.ProvenNonNegative(begin) || !ranges.ProvenNonNegative(end)) {
    return ModelError(fmt::format("pads of axis {} are {} and {}, expected 0 or more in mode {}",
                                  axis, begin.ToString(), end.ToString(), mode));
  }
  if (!ranges.ProvenLess(0, dim)) {
    return ModelError(fmt::format("axis {} has {} elements, expected 1 or more in mode {}", axis,
                                  dim.ToString(), mode));
  }
  if (mode == "reflect" && !dim.AsConstant() && !ReflectsOnce(begin, end, dim, ranges)) {
    return ModelError(
        fmt::format("pads of axis {} are {} and {}, which may be more than the axis's "
                    "{} elements can reflect",
                    axis, begin.ToString(), end.ToString(), dim.ToString()));
  }
  return {};
}

// The index (0..dim - 1) of the element that `position` (-begin .. dim - 1 + end) repeats, in the
// modes that repeat elements.
Expr SourceCoordinate(const std::string& mode, const Expr& position, const Expr& begin,
                      const Expr& end, const Expr& dim, const Ranges& ranges) {
  if (mode == "edge") return Min(Max(position, 0, ranges), dim - 1, ranges);
  if (mode == "wrap") return Mod(position, dim, ranges);
  // reflect: a zigzag of period 2(dim - 1). If indices are reflected only once, |position| needs no
  // modulus.
  if (dim.IsConstant(1)) return Expr(0);
  const Expr period = (dim - 1) * 2;
  const Expr forwards = ReflectsOnce(begin, end, dim, ranges) ? Max(position, -position, ranges)
                                                              : Mod(position, period, ranges);
  return Min(forwards, period - forwards, ranges);
}

int64_t ReferenceCoordinate(const std::string& mode, int64_t position, int64_t dim) {
  if (position >= 0 && position < dim) return position;
  if (mode == "edge") return position < 0 ? 0 : dim - 1;
  if (mode == "wrap") return ((position % dim) + dim) % dim;
  if (dim == 1) return 0;
  while (position < 0 || position >= dim) {
    position = position < 0 ? -position : 2 * (dim - 1) - position;
  }
  return position;
}

// The element if the index is inside along all axes from `axis` on, else the fill value.
Scalar ElementOrFill(LowerContext& context, Exprs& source, size_t axis) {
  const Shape& dims = context.node().operand(0)->type.shape;
  const Dtype dtype = context.node().result()->type.dtype;
  if (axis == source.size()) return context.Load(0, source);
  const auto fill = [&] { return context.Load(1, {}); };
  const auto next = [&] { return ElementOrFill(context, source, axis + 1); };
  const auto below_end = [&] {
    if (context.ranges().ProvenLess(source[axis], dims[axis])) return next();
    return context.SelectBelow(source[axis], dims[axis], dtype, next, fill);
  };
  if (context.ranges().ProvenNonNegative(source[axis])) return below_end();
  return context.SelectBelow(source[axis], Expr(0), dtype, fill, below_end);
}

}  // namespace

// result[i] = operand[i - begins] if that is inside; otherwise the second operand (mode "constant")
// or an element of the same row: the nearest ("edge"), the mirrored ("reflect", without repeating
// the edge) or the wrapped-around one ("wrap").
struct PadOp {
  static constexpr AttributeSpec kAttributes[] = {{"pads", "dims"},
                                                  {"mode", "constant|reflect|edge|wrap"}};
  static Result<void> Import(ImportContext& context) {
    Value* data = context.input(0);
    const std::string mode = context.String("mode", "constant");
    FUSEC_ASSIGN(Exprs pads, ImportedPads(context, data->type.rank()));
    FUSEC_ASSIGN(Value * fill, ImportedFill(context));
    if (mode != "constant") {
      FUSEC_ASSIGN(data, Cropped(context, data, pads));
    }
    return context.AddNode(OpKind::kPad, {data, fill}, {{"pads", pads}, {"mode", mode}});
  }
  static InferResult Infer(const InferContext& context) {
    TensorType result = context.operand(0);
    const int rank = result.rank();
    const Exprs& pads = context.Dims("pads");
    const std::string& mode = std::get<std::string>(context.attributes.at("mode"));
    FUSEC_TRY(CheckCount("pads", pads.size(), 2 * result.shape.size()));
    if (context.operand(1).dtype != result.dtype || context.operand(1).rank() != 0) {
      return ModelError(fmt::format("the fill value is {}, expected a scalar {}",
                                    context.operand(1).ToString(), DtypeName(result.dtype)));
    }
    for (int i = 0; i < rank; ++i) {
      const Expr dim = result.shape[i];
      const bool changes = !pads[i].IsConstant(0) || !pads[rank + i].IsConstant(0);
      if (mode != "constant" && changes) {
        FUSEC_TRY(CheckRepeatable(mode, i, pads[i], pads[rank + i], dim, context.ranges));
      }
      result.shape[i] = dim + pads[i] + pads[rank + i];
      const std::optional<int64_t> length = result.shape[i].AsConstant();
      if (length && *length < 0) {
        return ModelError(fmt::format("pads of axis {} are {} and {}, but it has {} elements", i,
                                      pads[i].ToString(), pads[rank + i].ToString(),
                                      dim.ToString()));
      }
    }
    return std::vector<TensorType>{std::move(result)};
  }
  static Result<void> Reference(ReferenceContext& context) {
    FUSEC_ASSIGN(const std::vector<int64_t> pads,
                 EvaluateDims(context.node.Get<Exprs>("pads"), context.symbols));
    const std::string& mode = context.node.Get<std::string>("mode");
    const ReferenceTensor& data = context.input(0);
    int64_t position = 0;
    ForEachIndex(context.output().dims, [&](std::vector<int64_t> index) {
      bool inside = true;
      for (size_t i = 0; i < index.size(); ++i) {
        index[i] -= pads[i];
        if (mode != "constant") index[i] = ReferenceCoordinate(mode, index[i], data.dims[i]);
        inside = inside && index[i] >= 0 && index[i] < data.dims[i];
      }
      const ReferenceTensor& from = inside ? data : context.input(1);
      CopyElement(from, inside ? data.Position(index) : 0, context.output(), position++);
    });
    return {};
  }
  static Scalar Lower(LowerContext& context) {
    const Exprs& pads = context.node().Get<Exprs>("pads");
    const std::string& mode = context.node().Get<std::string>("mode");
    const Shape& dims = context.node().operand(0)->type.shape;
    const size_t rank = dims.size();
    Exprs source = context.index();
    for (size_t i = 0; i < rank; ++i) {
      source[i] = source[i] - pads[i];
      const bool changes = !pads[i].IsConstant(0) || !pads[rank + i].IsConstant(0);
      if (mode != "constant" && changes) {
        source[i] =
            SourceCoordinate(mode, source[i], pads[i], pads[rank + i], dims[i], context.ranges());
      }
    }
    return mode == "constant" ? ElementOrFill(context, source, 0) : context.Load(0, source);
  }
};
FUSEC_DEFINE_OP(Pad)

}  // namespace fusec
