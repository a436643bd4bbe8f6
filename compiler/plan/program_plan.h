#pragma once

#include <optional>
#include <string>
#include <vector>

#include "compiler/kernel/kernel_plan.h"

namespace fusec {

// A matrix product given to cuBLASLt or oneDNN: d[b] = activation(a[b] x b[b] + bias +
// addend[b]), row-major.
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
  // Inside the region: the left operand, if that is no operand of the region but made by it. Then
  // `a` has no value.
  const Value* made = nullptr;
  // Operands of the region that it is made of, if these are E4M3 codes and factors of rows
  // (product.h).
  const Value* codes = nullptr;
  const Value* factors = nullptr;
  const Value* bias = nullptr;
  Expr bias_stride = 0;           // from one matrix's bias to the next one's; 0: all have one
  const Value* addend = nullptr;  // of the result's shape, for GPUs only
  const Value* result = nullptr;
  Dtype dtype = Dtype::kF32;  // of the factors; a kernel may cast what it makes of the product
  Expr m, n, k, batch;
  std::string activation = "none";
  std::string algorithm;  // of cuBLASLt, measured to be fast, as the manifest has it; "" for none
  Expr bytes_read, bytes_written, flops;

  // Library calls: each knows one bias.
  int64_t calls() const { return bias_stride.IsConstant(0) ? 1 : *batch.AsConstant(); }
};

// A step that only runs where `size` is in from..to, one of several that make the same values.
struct Alternative {
  Expr size;
  int64_t from = 0, to = 0;
  bool by_waves = false;  // `from` follows from how many blocks the GPU runs at once
  bool is_first = false;
};

struct Step {
  bool is_matmul = false;
  std::optional<Alternative> alternative;
  KernelPlan kernel;
  MatMulPlan matmul;
};

// All that one target runs.
struct ProgramPlan {
  TargetKind target = TargetKind::kCpu;
  std::vector<Step> steps;

  // Steps that run, whatever the dims.
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
