#pragma once

#include <string>

#include "compiler/kernel/launch_shape.h"
#include "compiler/plan/matmul/schedule.h"

namespace fusec {

// One way to compute the results of a region.
struct KernelChoice {
  MatMulSchedule product;  // if the region is a product
  LaunchShape shape;       // if the kernel is generated

  bool operator==(const KernelChoice&) const = default;
  // The suffix that this choice appends to the region's name: "_rows_8", "_block_128".
  std::string Suffix() const;
  // Describes the choice: "tile of 16 x 32, 8 warps, 3 stages of 512 bytes"; "as planned" if
  // nothing is chosen.
  std::string Words() const;
  // The largest size that this choice can compute.
  int64_t MostRows() const;
};

}  // namespace fusec
