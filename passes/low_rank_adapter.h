#pragma once

#include <optional>

#include "passes/constant_linear.h"

namespace fusec {

// A low-rank adapter (LoRA, Hu et al. 2021, section 4.1) of a linear layer, as models contain it:
//
//   %base  = matmul(%x, %W)
//   %down  = matmul(%x, %A)
//   %delta = matmul(%down, %B)
//   %scaled = mul(%delta, %s)
//   %sum   = add(%base, %scaled)
//
// where W, A, B and s are constants (W may be packed, see keep_packed_weights.h); a bias may be added
// in between, and s may follow either product. Casts between float types may stand anywhere, as PEFT computes adapters in f32 beside
// layers in f16.
struct LowRankAdapter {
  int delta = 0;       // the number of the sum's operand that comes from the adapter
  Value* x = nullptr;  // the operand of %down
  const Node* down_product = nullptr;
  const Node* up_product = nullptr;
  ConstantMatrix down, up;  // A, B
  double scale = 1;
  std::vector<const Value*> scale_factors;  // constants of one element each, which make `scale`
  Node* base = nullptr;                     // the product by W, which is not read elsewhere
};

// `product`, an f64 tensor, times the scale of the adapter.
Value* Scaled(Recipe& recipe, const LowRankAdapter& adapter, Value* product);

// The adapter that `sum`, an add, adds to a layer; nullopt if there is none.
std::optional<LowRankAdapter> FindLowRankAdapter(const Graph& graph, const ReaderMap& readers,
                                                 const Node& sum);

}  // namespace fusec
