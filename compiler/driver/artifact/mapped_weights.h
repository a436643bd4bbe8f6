#pragma once

#include <memory>
#include <utility>

#include "compiler/support/mapped_holes.h"
#include "runtime/src/artifact/mapped_file.h"

namespace fusec {

// A memory-mapped file of weights, which tensors point into.
struct MappedWeights {
  explicit MappedWeights(runtime::MappedFile mapped)
      : file(std::move(mapped)), holes(file.descriptor(), file.bytes()) {}

  const runtime::MappedFile file;
  const MappedHoles holes;
};

}  // namespace fusec
