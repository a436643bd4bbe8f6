#pragma once

#include <vector>

#include "runtime/src/artifact/manifest.h"
#include "runtime/src/artifact/step_sizes.h"

namespace fusec::runtime {

// One matmul on the host, as Matmul in manifest.h describes it. The pointers point to the first
// matrix (with offsets applied).
struct HostMatmul {
  fusec_dtype dtype = FUSEC_F32;
  MatmulSizes sizes;
  bool transpose_a = false, transpose_b = false;
  Activation activation = Activation::kNone;
  const void* a = nullptr;
  const void* b = nullptr;
  const void* bias = nullptr;    // n elements, or null
  const void* addend = nullptr;  // in the layout of d, or null
  void* d = nullptr;
  const float* panels = nullptr;  // b in the layout of PackPanels for PlainMatmul, or null
  // The factors are 8-bit integers: a is u8, b i8, and dtype, that of d, i32.
  bool has_short_factors = false;
};

// The runtime's own product, for machines without oneDNN and for dtypes that oneDNN lacks: f32
// (with f32 accumulators), f64 (f64 accumulators), i32, i64, u32 and u64 (wrapping). Returns false
// for any other dtype, and for an activation of integers.
//
// The terms of an element are added one by one in the order of k, independently of the number of
// rows and threads. It has no products of 8-bit factors.
bool PlainMatmul(const HostMatmul& call, int threads);

// Packs the matrix b of an f32 product into the layout that PlainMatmul uses, which otherwise packs
// it in every call: panels of columns, each [k][columns], with zeros beyond n.
std::vector<float> PackPanels(const HostMatmul& call);

// Whether PlainMatmul supports this dtype directly.
bool PlainMatmulHas(fusec_dtype dtype);

}  // namespace fusec::runtime
