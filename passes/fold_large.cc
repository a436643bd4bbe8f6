#include "passes/fold_large.h"

#include <algorithm>

#include "compiler/ir/op_def.h"
#include "compiler/reference/interpreter.h"
#include "compiler/reference/transpose.h"

namespace fusec {

namespace {

constexpr int64_t kInterpreterElements = 48 << 20;
constexpr int64_t kPieceElements = 1 << 20;

const TensorData& ConstantOf(const Value* value) { return value->producer->constant; }

int64_t Elements(const Value* value) { return *value->type.ElementCount().AsConstant(); }

void Store(const ReferenceTensor& piece, int64_t begin, TensorData& result) {
  const int64_t count = piece.element_count();
  for (int64_t i = 0; i < count; ++i) {
    if (IsFloat(piece.dtype)) {
      result.SetDouble(begin + i, piece.reals[i]);
    } else {
      result.SetInt(begin + i, piece.ints[i]);
    }
  }
}

void Load(const TensorData& data, int64_t from, ReferenceTensor& piece, int64_t to) {
  if (IsFloat(piece.dtype)) {
    piece.reals[to] = data.GetDouble(from);
  } else {
    piece.ints[to] = data.GetInt(from);
  }
}

// Steps through the elements of an operand in the order of the elements of the result to which they
// are broadcast.
class BroadcastWalk {
 public:
  BroadcastWalk(ArrayRef<int64_t> operand, ArrayRef<int64_t> result)
      : dims_(result),
        index_(result.size(), 0),
        strides_(BroadcastStrides(operand, result.size())) {}
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

// Computes a pointwise node for a range of elements at a time. Scalars keep their shape, since some
// ops require scalars.
Result<void> FoldElementWise(const Node& node, TensorData& result) {
  std::vector<const TensorData*> operands;
  std::vector<BroadcastWalk> walks;
  for (const Value* operand : node.operands) {
    if (!operand) continue;
    operands.push_back(&ConstantOf(operand));
    walks.emplace_back(operands.back()->dims(), result.dims());
  }
  for (int64_t begin = 0; begin < result.element_count(); begin += kPieceElements) {
    const int64_t count = std::min(kPieceElements, result.element_count() - begin);
    std::vector<ReferenceTensor> pieces;
    for (size_t i = 0; i < operands.size(); ++i) {
      const TensorData& data = *operands[i];
      if (data.element_count() == 1) {
        pieces.push_back(ReferenceTensor::FromData(data));
        continue;
      }
      ReferenceTensor& piece = pieces.emplace_back(data.dtype(), std::vector<int64_t>{count});
      for (int64_t j = 0; j < count; ++j) Load(data, walks[i].Next(), piece, j);
      data.ReleasePages();
    }
    FUSEC_ASSIGN(const auto results, InterpretNode(node, pieces));
    Store(results[0], begin, result);
  }
  return {};
}

// Computes [m, k] x [k, n] for some rows of the left operand at a time.
Result<void> FoldMatMul(const Node& node, TensorData& result) {
  const TensorData& a = ConstantOf(node.operand(0));
  const ReferenceTensor b = ReferenceTensor::FromData(ConstantOf(node.operand(1)));
  const int64_t m = a.dims()[0], k = a.dims()[1], n = result.dims()[1];
  const int64_t rows = std::max<int64_t>(1, kPieceElements / std::max(k, n));
  for (int64_t row = 0; row < m; row += rows) {
    ReferenceTensor piece(a.dtype(), {std::min(rows, m - row), k});
    for (int64_t i = 0; i < piece.element_count(); ++i) Load(a, row * k + i, piece, i);
    FUSEC_ASSIGN(const auto products, InterpretNode(node, {std::move(piece), b}));
    Store(products[0], row * n, result);
    a.ReleasePages();
  }
  return {};
}

bool IsElementWise(const Node& node) {
  return GetOpDef(node.kind).op_class == OpClass::kPointwise && node.kind != OpKind::kOneHot &&
         node.kind != OpKind::kEyeLike && node.kind != OpKind::kRange &&
         node.kind != OpKind::kSymbolicDims;
}

bool IsRowByRow(const Node& node) {
  return node.kind == OpKind::kMatMul && node.operand(0)->type.rank() == 2 &&
         node.operand(1)->type.rank() == 2 && node.Int("transpose_a") == 0 &&
         Elements(node.operand(1)) <= kInterpreterElements;
}

}  // namespace

std::optional<TensorData> FoldView(const Node& node) {
  if (node.kind != OpKind::kReshape && node.kind != OpKind::kIdentity &&
      node.kind != OpKind::kTranspose)
    return std::nullopt;
  const std::vector<int64_t> dims = *StaticShape(node.result()->type.shape);
  const TensorData& source = ConstantOf(node.operand(0));
  if (node.kind != OpKind::kTranspose || dims.empty()) return source.Reshaped(dims);
  return Transposed(source, node.Ints("perm"));
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
