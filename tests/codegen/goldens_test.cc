// Goldens: the kernels NAME.cu that fusec generates for small graphs NAME.ir, one per kind of kernel. Each is compared as text, compiled by
// NVRTC for three architectures, and run. A case is one file:
//
//     # Why this case is here.
//     # target: gpu                or cpu, or sm_90a for what only that has
//     # precision: high            of f32 products; "highest" if not given
//     # weights: weight            an input that is a constant instead
//     graph ...                    whose symbols are among batch in 0..8192, items in 1..512, n in 1..512
//
// NAME.cu only names device functions, whose text is in codegen_templates/device. FUSEC_UPDATE_GOLDEN=1 rewrites the .cu files.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <regex>
#include <sstream>

#include "compiler/driver/build/pipeline.h"
#include "compiler/driver/explain/cubin_reader.h"
#include "compiler/emit/emit_kernel.h"
#include "compiler/emit/equal_kernels.h"
#include "compiler/plan/plan_program.h"
#include "passes/pass_manager.h"
#include "runtime/src/cuda/nvrtc.h"
#include "tests/codegen/kernel_lint.h"
#include "tests/property/compiled_graphs.h"
#include "tests/property/random_graph.h"
#include "tests/property/seeds_to_run.h"

namespace fusec {
namespace {

namespace fs = std::filesystem;

struct Case {
  std::string name;
  TargetKind target = TargetKind::kGpu;
  bool warpgroups = false;
  std::string precision = "highest";
  std::unique_ptr<Graph> graph;
};

std::string ReadText(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

std::string Path(const std::string& name) { return FUSEC_SOURCE_DIR "/tests/codegen/" + name; }

Case ReadCase(const std::string& name) {
  Case result;
  result.name = name;
  const std::string text = ReadText(Path(name + ".ir"));
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line == "# target: cpu") result.target = TargetKind::kCpu;
    if (line == "# target: sm_90a") result.warpgroups = true;
    if (line.starts_with("# precision: ")) result.precision = line.substr(13);
  }
  auto graph = Parse(text);
  EXPECT_TRUE(graph.has_value()) << name << ": " << graph.error().message;
  if (!graph) return result;
  result.graph = *std::move(graph);
  lines = std::istringstream(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("# weights: ")) MakeWeights(*result.graph, line.substr(11));
  }
  return result;
}

std::vector<Case> Cases() {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(Path(""))) {
    if (entry.path().extension() == ".ir") names.push_back(entry.path().stem());
  }
  std::sort(names.begin(), names.end());
  std::vector<Case> cases;
  for (const std::string& name : names) cases.push_back(ReadCase(name));
  return cases;
}

// The kernels of graphs that share a target and a precision, in one module.
std::string Module(ArrayRef<const Graph*> graphs, TargetKind target, const std::string& precision, bool warpgroups) {
  std::vector<std::unique_ptr<Graph>> fused;
  std::vector<const Graph*> parts;
  for (const Graph* graph : graphs) {
    fused.push_back(graph->Clone());
    PassManager manager;
    manager.options.matmul_precision = precision;
    if (target == TargetKind::kGpu) manager.options.block_shared_bytes = GpuFor("sm_90a").block_shared_bytes;
    const auto ran = manager.Run(*fused.back(), PipelinePasses(target));
    EXPECT_TRUE(ran.has_value()) << ran.error().message;
    parts.push_back(fused.back().get());
  }
  const auto all = parts.size() == 1 ? parts[0]->Clone() : SideBySide(parts);
  std::vector<IndexSite> sites;
  const PlanOptions options{target, precision, &GpuFor(warpgroups ? "sm_90a" : "sm_90")};
  auto plan = PlanProgram(*all, options, sites);
  EXPECT_TRUE(plan.has_value()) << plan.error().message;
  ShareEqualKernels(*plan);
  return EmitGpuModule(FunctionsOf(*plan), {"model.onnx", "20"});
}

// The text without device functions, except for the lines that name their files.
std::string WithoutDeviceFunctions(const std::string& module) {
  std::istringstream lines(module);
  std::string text;
  bool in_function = false;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("// ---- from ")) {
      text += line + "\n";
      in_function = true;
    } else if (line.starts_with("// kernel  : ")) {
      if (in_function) text += "\n";
      in_function = false;
    }
    if (!in_function) text += line + "\n";
  }
  return text;
}

TEST(Goldens, TextsAreTheSame) {
  const char* update = std::getenv("FUSEC_UPDATE_GOLDEN");
  for (const Case& wanted : Cases()) {
    const std::string module = Module({wanted.graph.get()}, wanted.target, wanted.precision, wanted.warpgroups);
    const std::string text = WithoutDeviceFunctions(module);
    const std::string path = Path(wanted.name + ".cu");
    if (update != nullptr && std::string(update) == "1") std::ofstream(path) << text;
    EXPECT_EQ(ReadText(path), text) << path << " (FUSEC_UPDATE_GOLDEN=1 rewrites it)";
    for (size_t at = text.find("// kernel  : "); at != std::string::npos;) {
      const size_t next = text.find("// kernel  : ", at + 1);
      for (const std::string& problem : LintKernel(text.substr(at, next - at))) ADD_FAILURE() << path << ": " << problem;
      at = next;
    }
  }
}

// Limits for local (per-thread) memory. A thread that copied a list of tables to local memory to choose one would move more bytes than it
// looks up. Products keep arrays in local memory for rows that are not finite, and may spill. For sm_100, ptxas spills a register in
// kernels for bags of any length, to allow more resident threads; the shortest list has two pointers.
constexpr int64_t kShortestList = 16;

void ExpectNoLocalMemory(const std::string& cubin) {
  const auto kernels = ReadCubin(cubin, "goldens.cubin");
  ASSERT_TRUE(kernels) << kernels.error().message;
  for (const CubinKernel& kernel : *kernels) {
    const bool multiplies = std::regex_search(kernel.name, std::regex("attention|linear|matmul|gemm|interaction"));
    EXPECT_TRUE(multiplies || kernel.frame_bytes < kShortestList) << kernel.name << " keeps " << kernel.frame_bytes << " bytes";
  }
}

TEST(Goldens, NvrtcTakesThem) {
  const auto nvrtc = runtime::Nvrtc::Get();
  ASSERT_TRUE(nvrtc) << nvrtc.error().message;
  const std::vector<Case> cases = Cases();
  for (const auto& [precision, warpgroups] :
       {std::pair<std::string, bool>{"highest", false}, {"highest", true}, {"high", false}, {"high", true}}) {
    std::vector<const Graph*> graphs;
    for (const Case& wanted : cases) {
      const bool is_alike = wanted.precision == precision && wanted.warpgroups == warpgroups;
      if (wanted.target == TargetKind::kGpu && is_alike) graphs.push_back(wanted.graph.get());
    }
    const std::string module = Module(graphs, TargetKind::kGpu, precision, warpgroups);
    for (const char* arch : {"sm_80", "sm_90a", "sm_100"}) {
      const auto cubin = (*nvrtc)->CompileToCubin("goldens.cu", module, arch);
      ASSERT_TRUE(cubin) << precision << " for " << arch << ": " << cubin.error().message;
      ExpectNoLocalMemory(*cubin);
    }
  }
}

// Tolerances for sums of up to 4100 terms in f32; TF32 keeps 11 bits of each factor, f16 keeps 11 and bf16 keeps 8.
double ToleranceOf(const Case& wanted) {
  const Dtype dtype = wanted.graph->outputs[0]->type.dtype;
  if (dtype == Dtype::kBF16) return 4e-2;
  return dtype == Dtype::kF16 || wanted.precision == "high" ? 4e-3 : 1e-5;
}

void ExpectRight(ArrayRef<const Case*> cases, RunOn where, const std::string& precision,
                 ArrayRef<int64_t> batches) {
  std::vector<const Graph*> graphs;
  for (const Case* wanted : cases) graphs.push_back(wanted->graph.get());
  const auto compiled = CompiledGraphs::Make(graphs, where, {}, precision);
  ASSERT_TRUE(compiled.has_value()) << compiled.error().message;
  for (const int64_t batch : batches) {
    std::vector<std::vector<ReferenceTensor>> inputs;
    for (const Graph* graph : graphs) inputs.push_back(RandomInputs(*graph, 1, {{"batch", batch}, {"items", 5}, {"n", 20}}));
    const auto found = (*compiled)->Run(inputs);
    ASSERT_TRUE(found.has_value()) << found.error().message;
    for (size_t i = 0; i < cases.size(); ++i) {
      const auto expected = Interpret(*graphs[i], inputs[i]);
      ASSERT_TRUE(expected.has_value()) << expected.error().message;
      const auto rounded = InterpretRounded(*graphs[i], inputs[i]);
      ASSERT_TRUE(rounded.has_value()) << rounded.error().message;
      EXPECT_EQ(FirstWrong(*expected, *rounded, (*found)[i], ToleranceOf(*cases[i])), "") << cases[i]->name << " batch " << batch;
    }
  }
}

// Runs the GPU text of graphs for the GPU with fibers as threads, and graphs for the CPU as they are.
TEST(Goldens, AnswersAreRight) {
  const std::vector<Case> cases = Cases();
  for (const auto& [target, where] : {std::pair{TargetKind::kCpu, RunOn::kCpu}, {TargetKind::kGpu, RunOn::kGpuTextOnCpu}}) {
    for (const std::string precision : {"highest", "high"}) {
      std::vector<const Case*> chosen;
      for (const Case& wanted : cases) {
        if (wanted.target == target && wanted.precision == precision) chosen.push_back(&wanted);
      }
      // Batches that use the kernels for one row, for a few rows, and for more.
      if (!chosen.empty()) ExpectRight(chosen, where, precision, {0, 1, 3, 37});
    }
  }
}

TEST(Goldens, AnswersOfKernelsForManyRowsAreRight) {
  const std::vector<Case> cases = Cases();
  const std::vector<int64_t> batches = ShareToRun() == 1 ? std::vector<int64_t>{1027, 1601} : std::vector<int64_t>{1027};
  for (const std::string precision : {"highest", "high"}) {
    std::vector<const Case*> chosen;
    for (const Case& wanted : cases) {
      const std::string text = ReadText(Path(wanted.name + ".cu"));
      const bool has_many = text.find("_many_rows(") != std::string::npos || text.find("_warpgroup_") != std::string::npos;
      if (wanted.precision == precision && has_many) chosen.push_back(&wanted);
    }
    if (!chosen.empty()) ExpectRight(chosen, RunOn::kGpuTextOnCpu, precision, batches);
  }
}

}  // namespace
}  // namespace fusec
