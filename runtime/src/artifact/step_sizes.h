#pragma once

#include <cstdint>
#include <span>

#include "runtime/src/artifact/manifest.h"
#include "runtime/src/status.h"

namespace fusec::runtime {

// The sizes of a matmul step for bound dims. Offsets and strides count elements.
struct MatmulSizes {
  int64_t m = 0, n = 0, k = 0, batch = 0;
  int64_t a_offset = 0, b_offset = 0, d_offset = 0;
  int64_t a_stride = 0, b_stride = 0, d_stride = 0;  // from one matrix of the batch to the next
  int64_t bias_offset = 0, bias_stride = 0;

  bool IsEmpty() const { return m == 0 || n == 0 || batch == 0; }
  // The number of library calls for the batch; one call has only one bias.
  int64_t Calls() const { return bias_stride != 0 ? batch : 1; }
  MatmulSizes OfCall(int64_t call) const;
  bool operator==(const MatmulSizes&) const = default;
};

// Evaluates the sizes of a matmul, and checks that every matrix and the bias lie inside their
// buffers, so that no library call accesses memory outside them.
StatusOr<MatmulSizes> EvaluateMatmul(const Manifest& manifest, const Step& step,
                                     std::span<const int64_t> symbols,
                                     std::span<const int64_t> buffer_bytes);

// Whether the step runs for these values of the symbols (SizeRange).
StatusOr<bool> Runs(const Step& step, std::span<const int64_t> symbols);

// The number of launches of a step, if it runs: the library calls of a matmul, otherwise one.
StatusOr<int64_t> EvaluateCalls(const Step& step, std::span<const int64_t> symbols);

// The number of blocks of a kernel step; a negative number and more than 2^31 - 1 are errors.
StatusOr<int64_t> EvaluateBlocks(const Step& step, std::span<const int64_t> symbols);

}  // namespace fusec::runtime
