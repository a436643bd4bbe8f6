// The properties of a kernel that the runtime must know before it places outputs in page-locked host memory.
#include <gtest/gtest.h>

#include "compiler/plan/region_kernels.h"
#include "compiler/support/gpu.h"

namespace fusec {
namespace {

bool OutputsInDeviceMemory(const std::string& region_class, const std::string& node) {
  const auto graph = Parse("graph @g(%x: f32[b, 8]) symbols(b in 1..64) {\n  %y = region(%x) {class = \"" + region_class +
                           "\"} : f32[b, 8] {\n    graph @body(%x: f32[b, 8]) {\n      %y = " + node +
                           " : f32[b, 8]\n      return %y\n    }\n  }\n  return %y\n}\n");
  EXPECT_TRUE(graph.has_value()) << graph.error().message;
  const PlanOptions options{TargetKind::kGpu, "highest", &GpuFor("sm_90")};
  std::vector<IndexSite> sites;
  const RegionKernels kernels(*(*graph)->nodes[0], "k00", {}, options, **graph);
  return kernels.Plan(kernels.Planned(), sites)[0].kernel.outputs_in_device_memory;
}

TEST(OutputsInDeviceMemory, OfSequentialKernelsOnly) {
  EXPECT_TRUE(OutputsInDeviceMemory("sequential", "cumsum(%x) {axis = 1, exclusive = 0, reverse = 0}"));
  EXPECT_FALSE(OutputsInDeviceMemory("pointwise", "relu(%x)"));
}

}  // namespace
}  // namespace fusec
