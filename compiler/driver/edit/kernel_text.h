#pragma once

#include <optional>
#include <string>
#include <vector>

#include "compiler/index/expr.h"
#include "compiler/support/adt.h"
#include "compiler/support/result.h"

namespace fusec {

// Reads the text of generated kernels: where each kernel begins, and the launch that its header
// comment states.

// The text of one kernel in a source file: from its header comment to that of the next kernel.
struct KernelPart {
  std::string function;  // "k00_softmax"
  std::string text;
  int line = 0;        // its first line, counted from 1
  std::string launch;  // "one warp per row; (batch + 7) / 8 blocks of 256 threads"
  int launch_line = 0;
};

struct KernelParts {
  std::string preamble;  // text before the first kernel: device functions that kernels share
  std::vector<KernelPart> kernels;

  const KernelPart* Find(const std::string& function) const;
};
KernelParts PartsOf(const std::string& text);

// The launch that KernelPart::launch states. Only users state the size of dynamic shared memory, by
// appending ", 49152 bytes of dynamic shared memory".
struct StatedLaunch {
  std::string words;  // "one warp per row"
  Expr blocks;
  int block_size = 1;
  std::optional<int> shared_bytes;
};

// Parses the launch of a kernel. Errors begin with `file` and the line:
// "out.edit/k00_softmax.cu:36: ...".
Result<StatedLaunch> ParseLaunch(const KernelPart& part, const std::string& file);

// Checks that the block sizes in the kernel's text, __launch_bounds__ and kBlockSize, equal the one
// that it is launched with. Otherwise the kernel would skip elements or write some twice.
Result<void> CheckBlockSize(const KernelPart& part, int block_size, const std::string& file);

// The text for a copy to edit: a first line that says "Do not edit" is replaced. A text that is a
// copy already is returned unchanged.
std::string CopyToEdit(const std::string& text);

}  // namespace fusec
