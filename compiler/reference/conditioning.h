#pragma once

#include <string>
#include <vector>

#include "compiler/reference/compare.h"
#include "compiler/reference/reference_context.h"
#include "compiler/support/adt.h"

namespace fusec {

// Judges a comparison that failed again, element by element, by `rounded`: draws of the reference
// with inputs that moved by a unit in the last place and results that were rounded up or down
// (InterpretRounded). An element may be farther from the reference than its tolerance by 8 times
// what the draws moved it, and be NaN, infinite or another integer where a draw is so too.
// `comparison.unjudged` counts the elements that draws move by so much that any answer passes.
void JudgeByConditioning(const TensorData& found, const ReferenceTensor& expected,
                         ArrayRef<ReferenceTensor> rounded, Comparison& comparison);

// Compares outputs of a graph with the interpreter's, and judges those that are too far by
// conditioning, for which it interprets the graph again until a failure is explained or kDraws
// have not done so.
class OutputJudge {
 public:
  static constexpr uint64_t kDraws = 16;

  // `expected`: what the interpreter makes of `inputs`. All are kept by reference.
  OutputJudge(const Graph& graph, ArrayRef<ReferenceTensor> inputs,
              ArrayRef<ReferenceTensor> expected)
      : graph_(graph), inputs_(inputs), expected_(expected) {}

  Comparison Judge(size_t output, const std::string& name, const TensorData& found,
                   const Tolerance& tolerance);

 private:
  void JudgeSize(size_t output, Comparison& comparison);
  void Draw();

  const Graph& graph_;
  ArrayRef<ReferenceTensor> inputs_, expected_;
  uint64_t draws_ = 0;
  std::vector<std::vector<ReferenceTensor>> rounded_;  // by output, one for each draw
};

}  // namespace fusec
