#pragma once

#include <optional>
#include <string>
#include <vector>

#include "compiler/kernel/kernel_plan.h"

namespace fusec {

// A matrix product, d[b] = activation(a[b] x b[b] + bias + addend[b]), row-major. cuBLASLt, oneDNN
// or a generated kernel computes it.
struct MatMulPlan {
  struct Operand {
    const Value* value = nullptr;
    Expr batch_stride;  // elements; 0 repeats one matrix
    bool transposed = false;
  };
  std::string name;
  std::vector<std::string> ops;
  Provenance provenance;
  Operand a, b;
  // The left operand, a value of the region's body, if the region computes it instead of reading
  // it. Then a.value is null.
  const Value* made = nullptr;
  // The right operand, a value of the region's body, if the region can compute it as well as read
  // it (kDense). b.value is then the operand of the region that holds it.
  const Value* made_right = nullptr;
  // The operands of the region that the left operand is computed from, if these are E4M3 codes and
  // one factor per row (product.h).
  const Value* codes = nullptr;
  const Value* factors = nullptr;
  const Value* bias = nullptr;
  Expr bias_stride = 0;           // elements between the biases of two matrices; 0: one bias
  const Value* addend = nullptr;  // of the result's shape, for GPUs only
  const Value* result = nullptr;
  Dtype dtype = Dtype::kF32;  // of the operands; a kernel may cast the product. i32 if these are
                              // 8-bit integers
  Expr m, n, k, batch;
  std::string activation = "none";
  std::string algorithm;  // the fastest measured one of cuBLASLt, as in the manifest; "" for none
  Expr bytes_read, bytes_written, flops;

  // The number of library calls. One call supports one bias.
  int64_t calls() const { return bias_stride.IsConstant(0) ? 1 : *batch.AsConstant(); }
};

// A step that runs only if `size` is in from..to. It is one of several steps that compute the same
// values.
struct Alternative {
  Expr size;
  int64_t from = 0, to = 0;
  bool by_waves = false;  // `from` depends on how many blocks the GPU runs at once
  bool is_first = false;
};

struct Step {
  bool is_matmul = false;
  std::optional<Alternative> alternative;
  KernelPlan kernel;
  MatMulPlan matmul;
};

// All steps of a program for one target.
struct ProgramPlan {
  TargetKind target = TargetKind::kCpu;
  std::vector<Step> steps;

  // The number of launches of one run, which does not depend on the dims. Alternatives count once.
  int LaunchCount() const {
    int count = 0;
    for (const Step& step : steps) {
      if (step.alternative && !step.alternative->is_first) continue;
      count += step.is_matmul ? static_cast<int>(step.matmul.calls()) : 1;
    }
    return count;
  }
};

}  // namespace fusec
