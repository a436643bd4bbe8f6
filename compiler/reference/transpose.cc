#include "compiler/reference/transpose.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "compiler/reference/reference_context.h"

namespace fusec {

namespace {

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

}  // namespace

TensorData Transposed(const TensorData& source, ArrayRef<int64_t> perm) {
  std::vector<int64_t> dims;
  for (const int64_t axis : perm) dims.push_back(source.dims()[axis]);
  TensorData result(source.dtype(), dims);
  switch (DtypeBytes(source.dtype())) {
    case 1:
      TileMover<1>(source, perm, result).Run();
      break;
    case 2:
      TileMover<2>(source, perm, result).Run();
      break;
    case 4:
      TileMover<4>(source, perm, result).Run();
      break;
    default:
      TileMover<8>(source, perm, result).Run();
  }
  return result;
}

}  // namespace fusec
