#pragma once

#include <vector>

#include "runtime/src/artifact/manifest.h"
#include "runtime/src/artifact/step_sizes.h"

namespace fusec::runtime {

// One matmul on the host, as manifest.h's Matmul describes it. The pointers are those of the first
// matrix (offsets applied).
struct HostMatmul {
  fusec_dtype dtype = FUSEC_F32;
  MatmulSizes sizes;
  bool transpose_a = false, transpose_b = false;
  Activation activation = Activation::kNone;
  const void* a = nullptr;
  const void* b = nullptr;
  const void* bias = nullptr;    // n elements, or null
  const void* addend = nullptr;  // laid out as d, or null
  void* d = nullptr;
  const float* panels = nullptr;  // what PackPanels makes of b, or null; for PlainMatmul
};

// The runtime's own product, for machines without oneDNN and for dtypes that it lacks: f32 (float
// accumulators), f64 (double), i32, i64, u32 and u64 (wrapping). False for any other dtype, and for
// an activation of integers.
//
// An element's terms are added one by one in the order of k, whatever the rows and threads are.
bool PlainMatmul(const HostMatmul& call, int threads);

// The one matrix b of an f32 product in the layout that PlainMatmul multiplies, which it otherwise
// makes in every call: panels of columns, each [k][columns], zeros beyond n.
std::vector<float> PackPanels(const HostMatmul& call);

// Whether PlainMatmul takes this dtype directly.
bool PlainMatmulHas(fusec_dtype dtype);

}  // namespace fusec::runtime
