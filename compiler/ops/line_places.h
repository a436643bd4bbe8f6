#pragma once

#include <cstdint>
#include <functional>
#include <numeric>
#include <vector>

#include "compiler/support/adt.h"

namespace fusec {

// The lines of a tensor along one axis: element j of line l is at starts[l] + j * stride.
struct LinePlaces {
  LinePlaces(ArrayRef<int64_t> dims, int64_t axis) : length(dims[axis]) {
    const auto product = [&](int64_t begin, int64_t end) {
      return std::accumulate(dims.begin() + begin, dims.begin() + end, int64_t{1},
                             std::multiplies<>());
    };
    stride = product(axis + 1, static_cast<int64_t>(dims.size()));
    for (int64_t outer = 0; outer < product(0, axis); ++outer) {
      for (int64_t inner = 0; inner < stride; ++inner) {
        starts.push_back(outer * length * stride + inner);
      }
    }
  }
  int64_t length = 0;
  int64_t stride = 1;
  std::vector<int64_t> starts;
};

}  // namespace fusec
