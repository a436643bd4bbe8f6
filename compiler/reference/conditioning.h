#pragma once

#include <string>
#include <vector>

#include "compiler/reference/compare.h"
#include "compiler/reference/reference_context.h"
#include "compiler/support/adt.h"

namespace fusec {

// Judges a failed comparison again, element by element, using `rounded`: draws of the reference
// whose inputs were moved by a unit in the last place and whose results were rounded up or down at
// random (InterpretRounded). The error of an element may exceed its tolerance by 8 times the
// distance that the draws moved it; it may be NaN, infinite or another integer if some draw is. If
// the graph `rounds_to_codes`, a draw moves few elements, by whole codes, and each draw others: as
// many elements as a draw moves may be off by as much as any draw moved any element.
// `comparison.unjudged` counts the elements that the draws move so far that any answer passes.
void JudgeByConditioning(const TensorData& found, const ReferenceTensor& expected,
                         ArrayRef<ReferenceTensor> rounded, bool rounds_to_codes,
                         Comparison& comparison);

// Compares outputs of a graph with the interpreter's. If an output is too far off, it is judged by
// conditioning: the graph is interpreted again until the failure is explained or kDraws draws have
// not explained it.
class OutputJudge {
 public:
  static constexpr uint64_t kDraws = 16;

  // `expected` holds the interpreter's outputs for `inputs`. All arguments are kept by reference.
  OutputJudge(const Graph& graph, ArrayRef<ReferenceTensor> inputs,
              ArrayRef<ReferenceTensor> expected)
      : graph_(graph),
        inputs_(inputs),
        expected_(expected),
        rounds_to_codes_(RoundsToCodes(graph)) {}

  Comparison Judge(size_t output, const std::string& name, const TensorData& found,
                   const Tolerance& tolerance);

 private:
  // Whether the graph has ops that round to whole numbers or to 8-bit floats, as those of quantized
  // models do.
  static bool RoundsToCodes(const Graph& graph);
  void JudgeSize(size_t output, Comparison& comparison);
  void Draw();

  const Graph& graph_;
  ArrayRef<ReferenceTensor> inputs_, expected_;
  const bool rounds_to_codes_;
  uint64_t draws_ = 0;
  std::vector<std::vector<ReferenceTensor>> rounded_;  // by output, one per draw
};

}  // namespace fusec
