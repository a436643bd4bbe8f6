// In a warpgroup kernel, computing warpgroups take registers from the one that copies (setmaxnreg). It hangs if the block was not launched
// with that many registers. This test checks every candidate that `fusec tune` may run, since a hanging kernel cannot be measured.
#include <gtest/gtest.h>

#include <regex>

#include "compiler/driver/explain/cubin_reader.h"
#include "compiler/emit/emit_kernel.h"
#include "compiler/plan/region_kernels.h"
#include "runtime/src/cuda/nvrtc.h"

namespace fusec {
namespace {

// x [b, 1152] by weights [192, 1152].
std::string Layer(const std::string& dtype) {
  const std::string x = dtype + "[b, 1152]", w = dtype + "[192, 1152]", y = dtype + "[b, 192]";
  return "graph @g(%x \"x\": " + x +
         ") symbols(b in 1..65536) {\n  %w = constant() payload \"0\" : " + w +
         "\n  %y = region(%x, %w) {class = \"matmul\"} : " + y + " {\n    graph @matmul(%x: " + x +
         ", %w: " + w + ") {\n      %y = matmul(%x, %w) {transpose_a = 0, transpose_b = 1} : " + y +
         "\n      return %y\n    }\n  }\n  return %y \"y\"\n}\n";
}

// The number after `instruction` in the text; 0 if there is none.
int RegistersOf(const std::string& ptx, const std::string& instruction) {
  std::smatch match;
  const bool found =
      std::regex_search(ptx, match, std::regex(instruction + R"(\.sync\.aligned\.u32\s+(\d+))"));
  return found ? std::stoi(match[1]) : 0;
}

TEST(WarpgroupRegisters, BlocksHaveWhatTheirGroupsTake) {
  const auto nvrtc = runtime::Nvrtc::Get();
  ASSERT_TRUE(nvrtc) << nvrtc.error().message;
  constexpr int kGroup = 128;
  for (const auto& [dtype, precision] : {std::pair{"f32", "highest"}, {"f16", "high"}}) {
    const auto graph = Parse(Layer(dtype));
    ASSERT_TRUE(graph) << graph.error().message;
    const PlanOptions options{TargetKind::kGpu, precision, &GpuFor("sm_90a")};
    const RegionKernels kernels(*(*graph)->nodes.back(), "k00", {}, options, **graph);
    int checked = 0;
    for (const KernelChoice& choice : kernels.Candidates(128)) {
      const auto* tile = std::get_if<schedule::Warpgroup>(&choice.product);
      if (tile == nullptr || tile->split_k.blocks > 2) continue;
      std::vector<IndexSite> sites;
      const auto steps = kernels.Plan({{choice, choice.Suffix()}}, sites);
      const std::string text = EmitKernelFile(steps[0].kernel, {});
      const auto ptx = (*nvrtc)->CompileToPtx("kernel.cu", text, "compute_90a");
      ASSERT_TRUE(ptx) << ptx.error().message;
      const int taken = RegistersOf(*ptx, "setmaxnreg\\.inc"),
                left = RegistersOf(*ptx, "setmaxnreg\\.dec");
      if (taken == 0) continue;
      const auto cubin = (*nvrtc)->CompileToCubin("kernel.cu", text, "sm_90a");
      ASSERT_TRUE(cubin) << cubin.error().message;
      const auto found = ReadCubin(*cubin, "kernel.cubin");
      ASSERT_TRUE(found) << found.error().message;
      const int groups = steps[0].kernel.block_size / kGroup - 1;
      EXPECT_GE((*found)[0].registers * steps[0].kernel.block_size,
                kGroup * (groups * taken + left))
          << dtype << " " << precision << " " << choice.Words();
      ++checked;
    }
    EXPECT_GT(checked, 3) << dtype << " " << precision;
  }
}

}  // namespace
}  // namespace fusec
