#include "passes/fold_large.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "compiler/ir/op_def.h"
#include "compiler/reference/interpreter.h"

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

// Transposes in tiles of 64 x 64 bytes, spanned by the last axis of the source and the last axis
// of the result, so that whole cache lines are read and written.
template <int kBytes>
class TileMover {
 public:
  TileMover(const TensorData& source, ArrayRef<int64_t> perm, TensorData& result)
      : source_(source),
        result_(result),
        dims_(source.dims()),
        strides_(perm.size()),
        from_strides_(StridesOf(source.dims())) {
    const std::vector<int64_t> of_result = StridesOf(result.dims());
    for (size_t i = 0; i < perm.size(); ++i) strides_[perm[i]] = of_result[i];
    across_ = static_cast<size_t>(perm.back());
  }
  void Run() {
    Walk(0, 0, 0);
    source_.ReleasePages();
  }

 private:
  static constexpr int64_t kTile = 64 / kBytes, kReleaseBytes = 32 << 20;

  void Walk(size_t axis, int64_t from, int64_t to) {
    if (axis == dims_.size()) return Tiles(from, to);
    const bool in_tile = axis == across_ || axis + 1 == dims_.size();
    for (int64_t i = 0; i < (in_tile ? 1 : dims_[axis]); ++i)
      Walk(axis + 1, from + i * from_strides_[axis], to + i * strides_[axis]);
  }

  // The column stride of the source and the row stride of the result are 1.
  void Tiles(int64_t from, int64_t to) {
    const size_t along = dims_.size() - 1;
    const int64_t rows = across_ == along ? 1 : dims_[across_], columns = dims_[along];
    const int64_t row_bytes = from_strides_[across_] * kBytes;
    const int64_t column_bytes = strides_[along] * kBytes;
    const std::byte* const source = source_.bytes() + from * kBytes;
    std::byte* const result = result_.mutable_bytes() + to * kBytes;
    for (int64_t row = 0; row < rows; row += kTile) {
      for (int64_t column = 0; column < columns; column += kTile) {
        const int64_t row_end = std::min(rows, row + kTile);
        const int64_t column_end = std::min(columns, column + kTile);
        for (int64_t c = column; c < column_end; ++c) {
          for (int64_t r = row; r < row_end; ++r) {
            std::memcpy(result + c * column_bytes + r * kBytes, source + r * row_bytes + c * kBytes,
                        kBytes);
          }
        }
        CountMoved((row_end - row) * (column_end - column) * kBytes);
      }
    }
  }

  void CountMoved(int64_t bytes) {
    moved_ += bytes;
    if (moved_ < kReleaseBytes) return;
    source_.ReleasePages();
    moved_ = 0;
  }

  const TensorData& source_;
  TensorData& result_;
  const std::vector<int64_t> dims_;
  std::vector<int64_t> strides_, from_strides_;  // of the source's axes, in result and source
  size_t across_;                                // the source's axis that becomes the result's last
  int64_t moved_ = 0;
};

void FoldTranspose(const TensorData& source, ArrayRef<int64_t> perm, TensorData& result) {
  switch (DtypeBytes(source.dtype())) {
    case 1:
      return TileMover<1>(source, perm, result).Run();
    case 2:
      return TileMover<2>(source, perm, result).Run();
    case 4:
      return TileMover<4>(source, perm, result).Run();
    default:
      return TileMover<8>(source, perm, result).Run();
  }
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
  TensorData result(source.dtype(), dims);
  FoldTranspose(source, node.Ints("perm"), result);
  return result;
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
