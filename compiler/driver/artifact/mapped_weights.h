#pragma once

#include <memory>
#include <utility>

#include "compiler/support/mapped_holes.h"
#include "runtime/src/artifact/mapped_file.h"

namespace fusec {

// A mapped file of weights that tensors view.
struct MappedWeights {
  explicit MappedWeights(runtime::MappedFile mapped)
      : file(std::move(mapped)), holes(file.descriptor(), file.bytes()) {}

  const runtime::MappedFile file;
  const MappedHoles holes;
};

}  // namespace fusec
