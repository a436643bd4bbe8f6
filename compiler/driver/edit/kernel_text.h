#pragma once

#include <optional>
#include <string>
#include <vector>

#include "compiler/index/expr.h"
#include "compiler/support/adt.h"
#include "compiler/support/result.h"

namespace fusec {

// The text of generated kernels, as far as editing it concerns the compiler: where each kernel
// begins, and the launch that its header comment states.

// One kernel of a source file: from its header comment to that of the next one.
struct KernelPart {
  std::string function;  // "k00_softmax"
  std::string text;
  int line = 0;        // where it begins, counted from 1
  std::string launch;  // "one warp per row; (batch + 7) / 8 blocks of 256 threads"
  int launch_line = 0;
};

struct KernelParts {
  std::string preamble;  // device functions, which all kernels of the file share
  std::vector<KernelPart> kernels;

  const KernelPart* Find(const std::string& function) const;
};
KernelParts PartsOf(const std::string& text);

// What KernelPart::launch states. The size of dynamic shared memory is stated only by editors, as
// ", 49152 bytes of dynamic shared memory" at the end.
struct StatedLaunch {
  std::string words;  // "one warp per row"
  Expr blocks;
  int block_size = 1;
  std::optional<int> shared_bytes;
};

// `file` is for messages: "out.edit/k00_softmax.cu:36: ...".
Result<StatedLaunch> ParseLaunch(const KernelPart& part, const std::string& file);

// Whether what the kernel's own text says of its block size, __launch_bounds__ and kBlockSize, is
// what it is launched with. A kernel that disagreed would leave elements out or write some twice.
Result<void> CheckBlockSize(const KernelPart& part, int block_size, const std::string& file);

// The text as a copy to be edited: its first line no longer says "Do not edit". An edited text is
// its own copy.
std::string CopyToEdit(const std::string& text);

}  // namespace fusec
