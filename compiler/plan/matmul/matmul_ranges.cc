#include "compiler/plan/matmul/matmul_ranges.h"

#include <algorithm>

#include "compiler/plan/matmul/weight_panels.h"

namespace fusec {

int SharedBytesOf(int architecture) {
  constexpr int kKiB = 1024;
  if (architecture == 80 || architecture == 87) return 163 * kKiB;
  if (architecture >= 90 && architecture < 120) return 227 * kKiB;
  return 99 * kKiB;
}

int64_t RowBytes(const MatMulPlan& matmul) {
  return *matmul.k.AsConstant() * DtypeBytes(matmul.result->type.dtype);
}

bool TakesWarpgroups(const MatMulPlan& matmul, const PlanOptions& options) {
  const Dtype dtype = matmul.result->type.dtype;
  const int64_t n = *matmul.n.AsConstant(), k = *matmul.k.AsConstant();
  const int64_t elements =
      PanelElements(n, k, dtype, PanelLayout(dtype, options.matmul_precision)) *
      *matmul.batch.AsConstant();
  return options.warpgroups && IsConstant(matmul.b.value) && RowBytes(matmul) % 4 == 0 &&
         elements <= INT32_MAX;
}

int64_t RowsBeyond(int64_t blocks, const MatMulTile& tile, int64_t n, int64_t matrices) {
  return blocks / (CeilDiv(n, tile.columns) * matrices) * tile.rows + 1;
}

int64_t FirstOfMany(const std::vector<MatMulRange>& kernels) {
  int64_t first = 0;
  for (const MatMulRange& range : kernels) {
    if (range.kernel.kind == MatMulKernel::Kind::kRows) first = range.to + 1;
  }
  return first;
}

void AddTile(MatMulKernel::Kind kind, const MatMulTile& tile, int64_t from,
             std::vector<MatMulRange>& kernels) {
  MatMulRange next;
  next.kernel.kind = kind;
  next.kernel.tile = tile;
  next.from = std::max(from, FirstOfMany(kernels));
  if (next.kernel == kernels.back().kernel) return;
  while (next.from <= kernels.back().from) kernels.pop_back();
  kernels.push_back(next);
}

}  // namespace fusec
