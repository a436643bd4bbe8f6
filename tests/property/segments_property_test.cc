// Graphs that are cut into segments for a pass (passes/segments.h) keep their answers and names, and names stay unique.

#include <gtest/gtest.h>

#include "compiler/driver/build/pipeline.h"
#include "compiler/reference/interpreter.h"
#include "passes/segments.h"
#include "tests/property/random_graph.h"
#include "tests/property/seeds_to_run.h"

namespace fusec {
namespace {

TEST(SegmentsProperty, AnswersStay) {
  RandomGraphOptions options;
  options.nodes = 30;
  for (const uint64_t seed : SeedsToRun(200)) {
    const auto graph = RandomGraph(seed, options);
    const auto inputs = RandomInputs(*graph, seed, {{"batch", 5}, {"items", 3}});
    const auto expected = Interpret(*graph, inputs);
    ASSERT_TRUE(expected.has_value()) << expected.error().message;
    const auto cut = graph->Clone();
    const SegmentSizes sizes{8, 3 + seed % 5};
    for (const std::string& name : PipelinePasses(TargetKind::kGpu)) {
      const PassInfo& pass = *FindPass(name);
      PassReport report;
      const auto changed =
          pass.in_segments ? RunInSegments(*cut, pass.run, {}, report, sizes) : pass.run(*cut, {}, report);
      ASSERT_TRUE(changed.has_value()) << name << ", seed " << seed << ": " << changed.error().message;
      const auto verified = Verify(*cut);
      ASSERT_TRUE(verified.has_value()) << name << ", seed " << seed << ": " << verified.error().message << "\n"
                                        << Print(*cut);
    }
    const auto found = Interpret(*cut, inputs);
    ASSERT_TRUE(found.has_value()) << "seed " << seed << ": " << found.error().message;
    EXPECT_EQ(FirstDifference(*expected, *found, 1e-5), "") << "seed " << seed << "\n" << Print(*cut);
  }
}

}  // namespace
}  // namespace fusec
