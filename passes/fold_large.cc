#include "passes/fold_large.h"

#include <algorithm>
#include <cstring>

#include "compiler/ir/op_def.h"
#include "compiler/reference/interpreter.h"
#include "compiler/reference/transpose.h"
#include "compiler/support/parallel.h"

namespace fusec {

namespace {

constexpr int64_t kInterpreterElements = 48 << 20;
constexpr int64_t kPieceElements = 1 << 16;  // 512 KB of doubles, which a CPU's cache holds
constexpr int64_t kPiecesKept = 16;          // after so many, pages of mapped files are released
constexpr int64_t kRowElements = 1 << 20;    // of a matrix product's piece

const TensorData& ConstantOf(const Value* value) { return value->producer->constant; }

int64_t Elements(const Value* value) { return *value->type.ElementCount().AsConstant(); }

// Steps through the elements of an operand in the order of the elements of the result to which they
// are broadcast.
class BroadcastWalk {
 public:
  // Begins at element number `begin` of the result.
  BroadcastWalk(ArrayRef<int64_t> operand, ArrayRef<int64_t> result, int64_t begin)
      : dims_(result),
        index_(result.size(), 0),
        strides_(BroadcastStrides(operand, result.size())) {
    for (size_t axis = dims_.size(); axis-- > 0; begin /= std::max<int64_t>(dims_[axis], 1)) {
      index_[axis] = begin % std::max<int64_t>(dims_[axis], 1);
      position_ += index_[axis] * strides_[axis];
    }
  }
  int64_t Next() {
    const int64_t position = position_;
    for (size_t axis = dims_.size(); axis-- > 0;) {
      position_ += strides_[axis];
      if (++index_[axis] < dims_[axis]) break;
      position_ -= strides_[axis] * dims_[axis];
      index_[axis] = 0;
    }
    return position;
  }

 private:
  ArrayRef<int64_t> dims_;
  std::vector<int64_t> index_, strides_;
  int64_t position_ = 0;
};

// A constant operand of a pointwise node.
struct Operand {
  const TensorData* data;
  std::optional<ReferenceTensor> repeated;  // all elements, if some are used several times

  // What elements `begin` to `begin` + `count` - 1 of the result are computed from. Scalars keep
  // their shape, since some ops require scalars.
  ReferenceTensor Piece(ArrayRef<int64_t> result, int64_t begin, int64_t count) const {
    if (!repeated) {
      if (begin / kPieceElements % kPiecesKept == 0) data->ReleasePages();
      return ReferenceTensor::FromData(*data, begin, count);
    }
    if (data->element_count() == 1) return *repeated;
    BroadcastWalk walk(data->dims(), result, begin);
    ReferenceTensor piece(data->dtype(), {count});
    for (double& real : piece.reals) real = repeated->reals[walk.Next()];
    for (int64_t& integer : piece.ints) integer = repeated->ints[walk.Next()];
    return piece;
  }
};

// Computes a pointwise node for a range of elements at a time.
Result<void> FoldElementWise(const Node& node, TensorData& result) {
  std::vector<Operand> operands;
  for (const Value* value : node.operands) {
    if (!value) continue;
    Operand& operand = operands.emplace_back(Operand{&ConstantOf(value), std::nullopt});
    if (operand.data->dims() != result.dims())
      operand.repeated = ReferenceTensor::FromData(*operand.data);
  }
  const int64_t elements = result.element_count();
  const int64_t pieces = CeilDiv(elements, kPieceElements);
  std::vector<Result<void>> ended(RangeCount(pieces, elements));
  ForRanges(pieces, elements, [&](int64_t first, int64_t last, int64_t range) {
    for (int64_t piece = first; piece < last && ended[range]; ++piece) {
      const int64_t begin = piece * kPieceElements;
      const int64_t count = std::min(kPieceElements, elements - begin);
      std::vector<ReferenceTensor> inputs;
      for (const Operand& operand : operands)
        inputs.push_back(operand.Piece(result.dims(), begin, count));
      const auto computed = InterpretNode(node, inputs);
      if (computed)
        (*computed)[0].Store(result, begin);
      else
        ended[range] = tl::unexpected<Error>(computed.error());
    }
  });
  for (const Result<void>& one : ended) FUSEC_TRY(one);
  return {};
}

// Computes [m, k] x [k, n] for some rows of the left operand at a time.
Result<void> FoldMatMul(const Node& node, TensorData& result) {
  const TensorData& a = ConstantOf(node.operand(0));
  const ReferenceTensor b = ReferenceTensor::FromData(ConstantOf(node.operand(1)));
  const int64_t m = a.dims()[0], k = a.dims()[1], n = result.dims()[1];
  const int64_t rows = std::max<int64_t>(1, kRowElements / std::max(k, n));
  for (int64_t row = 0; row < m; row += rows) {
    const int64_t count = std::min(rows, m - row);
    ReferenceTensor piece = ReferenceTensor::FromData(a, row * k, count * k);
    piece.dims = {count, k};
    FUSEC_ASSIGN(const auto products, InterpretNode(node, {std::move(piece), b}));
    products[0].Store(result, row * n);
    a.ReleasePages();
  }
  return {};
}

bool IsElementWise(const Node& node) {
  return GetOpDef(node.kind).op_class == OpClass::kPointwise && node.kind != OpKind::kOneHot &&
         node.kind != OpKind::kEyeLike && node.kind != OpKind::kRange &&
         node.kind != OpKind::kSymbolicDims;
}

// A concatenation of constants.
TensorData Joined(const Node& node, const std::vector<int64_t>& dims) {
  const int64_t axis = node.Int("axis");
  TensorData result(node.result()->type.dtype, dims);
  const auto bytes_from = [&](ArrayRef<int64_t> shape) {
    return CountElements(shape.drop_front(axis)) * DtypeBytes(result.dtype());
  };
  const int64_t blocks = CountElements(ArrayRef(dims).take_front(axis)), step = bytes_from(dims);
  std::byte* to = result.mutable_bytes();
  for (const Value* operand : node.operands) {
    const TensorData& part = ConstantOf(operand);
    const int64_t own = bytes_from(part.dims());
    for (int64_t block = 0; block < blocks && own > 0; ++block)
      std::memcpy(to + block * step, part.bytes() + block * own, static_cast<size_t>(own));
    part.ReleasePages();
    to += own;
  }
  return result;
}

// A slice of a constant; nullopt unless it consists of consecutive elements along its last axis.
std::optional<TensorData> Cut(const Node& node, const TensorData& source,
                              const std::vector<int64_t>& dims) {
  const auto starts = StaticShape(node.Get<Exprs>("starts"));
  const std::vector<int64_t>& steps = node.Ints("steps");
  if (!starts || dims.empty() || steps.back() != 1) return std::nullopt;
  TensorData result(source.dtype(), dims);
  if (result.element_count() == 0) return result;
  const std::vector<int64_t> strides = StridesOf(source.dims());
  const int64_t element = DtypeBytes(source.dtype()), row = dims.back() * element;
  std::byte* to = result.mutable_bytes();
  ForEachIndex(ArrayRef(dims).drop_back(), [&](ArrayRef<int64_t> index) {
    int64_t from = starts->back();
    for (size_t i = 0; i < index.size(); ++i)
      from += ((*starts)[i] + index[i] * steps[i]) * strides[i];
    std::memcpy(to, source.bytes() + from * element, static_cast<size_t>(row));
    to += row;
  });
  source.ReleasePages();
  return result;
}

bool IsRowByRow(const Node& node) {
  return node.kind == OpKind::kMatMul && node.operand(0)->type.rank() == 2 &&
         node.operand(1)->type.rank() == 2 && node.Int("transpose_a") == 0 &&
         Elements(node.operand(1)) <= kInterpreterElements;
}

}  // namespace

std::optional<TensorData> FoldView(const Node& node) {
  switch (node.kind) {
    case OpKind::kReshape:
    case OpKind::kIdentity:
    case OpKind::kTranspose:
    case OpKind::kConcat:
    case OpKind::kSlice:
      break;
    default:
      return std::nullopt;
  }
  const std::vector<int64_t> dims = *StaticShape(node.result()->type.shape);
  if (node.kind == OpKind::kConcat) return Joined(node, dims);
  const TensorData& source = ConstantOf(node.operand(0));
  if (node.kind == OpKind::kSlice) return Cut(node, source, dims);
  if (node.kind != OpKind::kTranspose || dims.empty()) return source.Reshaped(dims);
  return Transposed(source, node.Ints("perm"));
}

bool IsPiecewise(const Node& node) {
  return IsElementWise(node) && Elements(node.result()) > kPieceElements;
}

bool FitsInterpreter(const Node& node) {
  int64_t elements = 0;
  for (const Value* operand : node.operands) elements += operand ? Elements(operand) : 0;
  for (const auto& result : node.results) elements += Elements(result.get());
  return elements <= kInterpreterElements;
}

Result<std::optional<TensorData>> FoldLarge(const Node& node) {
  if (!IsElementWise(node) && !IsRowByRow(node)) return std::nullopt;
  const TensorType& type = node.result()->type;
  TensorData result(type.dtype, *StaticShape(type.shape));
  FUSEC_TRY(IsElementWise(node) ? FoldElementWise(node, result) : FoldMatMul(node, result));
  return result;
}

}  // namespace fusec
