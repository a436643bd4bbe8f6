// Tensors and dims may be called anything: what planners call their locals, words of C++, names of
// device functions. The locals are read from the kernels of the goldens' graphs, so that a
// planner's new local is met here.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <regex>
#include <set>

#include "compiler/driver/build/build_targets.h"
#include "compiler/driver/build/compile.h"
#include "compiler/driver/build/pipeline.h"
#include "compiler/emit/emit_kernel.h"
#include "compiler/plan/plan_program.h"
#include "compiler/support/child_process.h"
#include "compiler/support/kernel_words.h"
#include "passes/pass_manager.h"
#include "runtime/src/cuda/nvrtc.h"
#include "tests/property/random_graph.h"

namespace fusec {
namespace {

namespace fs = std::filesystem;

constexpr const char* kFolder = FUSEC_SOURCE_DIR "/tests/codegen";
constexpr const char* kTargets[] = {"cpu", "sm_90a"};

struct Case {
  std::string name, text, precision;
};

std::vector<Case> Cases() {
  std::vector<Case> cases;
  for (const auto& entry : fs::directory_iterator(kFolder)) {
    if (entry.path().extension() != ".ir") continue;
    std::ifstream file(entry.path());
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    const bool is_high = text.find("# precision: high\n") != std::string::npos;
    cases.push_back({entry.path().stem(), text, is_high ? "high" : "highest"});
  }
  std::sort(cases.begin(), cases.end(),
            [](const Case& a, const Case& b) { return a.name < b.name; });
  return cases;
}

// The graph of a case with the first dim called `dim` (if not "") and its tensors called by
// `names`.
std::unique_ptr<Graph> GraphOf(const Case& wanted, const std::string& dim,
                               ArrayRef<std::string> names) {
  std::smatch symbol;
  std::regex_search(wanted.text, symbol, std::regex(R"(symbols\((\w+))"));
  std::string text = wanted.text;
  if (!dim.empty() && !symbol.empty())
    text = std::regex_replace(text, std::regex("\\b" + symbol[1].str() + "\\b"), dim);
  auto graph = Parse(text);
  EXPECT_TRUE(graph.has_value()) << wanted.name << ": " << graph.error().message;
  static const std::regex kWeights("# weights: (\\w+)");
  for (std::sregex_iterator at(wanted.text.begin(), wanted.text.end(), kWeights), end; at != end;
       ++at)
    MakeWeights(**graph, (*at)[1]);
  size_t number = 0;
  const auto rename = [&](Value& value) {
    value.name = number < names.size() ? names[number] : "zq" + std::to_string(number) + "q";
    ++number;
  };
  for (auto& input : (*graph)->inputs) rename(*input);
  for (auto& node : (*graph)->nodes) {
    for (auto& result : node->results) rename(*result);
  }
  return *std::move(graph);
}

// A program of a graph, which it changes, for a target.
ProgramPlan PlanOf(Graph& graph, const std::string& target, const std::string& precision) {
  const PlanOptions options = PlanFor(target, precision);
  PassManager manager;
  manager.options.matmul_precision = precision;
  if (options.gpu) manager.options.block_shared_bytes = options.gpu->block_shared_bytes;
  const auto ran = manager.Run(graph, PipelinePasses(options.target));
  EXPECT_TRUE(ran.has_value()) << ran.error().message;
  std::vector<IndexSite> sites;
  auto plan = PlanProgram(graph, options, sites);
  EXPECT_TRUE(plan.has_value()) << plan.error().message;
  return *std::move(plan);
}

// The kernels of a graph, as files.
std::vector<std::string> FilesOf(const std::unique_ptr<Graph>& graph, const std::string& target,
                                 const std::string& precision) {
  const ProgramPlan plan = PlanOf(*graph, target, precision);
  std::vector<std::string> files;
  for (const Step& step : plan.steps) {
    if (!step.is_matmul) files.push_back(EmitKernelFile(step.kernel, {"model.onnx", "20"}));
  }
  return files;
}

// The same without device functions.
std::vector<std::string> KernelsOf(const std::unique_ptr<Graph>& graph, const std::string& target,
                                   const std::string& precision) {
  std::vector<std::string> kernels;
  for (const std::string& file : FilesOf(graph, target, precision))
    kernels.push_back(file.substr(file.find("// kernel  : ")));
  return kernels;
}

// What a kernel declares in its body.
std::set<std::string> LocalsOf(const std::string& kernel) {
  static const std::regex kLocal(
      R"(\n +(?!return|using|constexpr|static_assert|case)(?:for \()?(?:[\w:]+(?:<[\w:, ]*>)?[*&]? )+(\w+)(?: =|;|\[))");
  static const std::regex kType(R"(\n +using (\w+) =)");
  static const std::regex kTaken(R"(\[&\]\(\w[\w ]* (\w+), \w[\w ]* (\w+)\))");
  const std::string body = kernel.substr(kernel.find(" {\n"));
  std::set<std::string> locals;
  for (const std::regex* form : {&kLocal, &kType, &kTaken}) {
    for (std::sregex_iterator at(body.begin(), body.end(), *form), end; at != end; ++at) {
      for (size_t i = 1; i < at->size(); ++i) locals.insert((*at)[i]);
    }
  }
  return locals;
}

// The names of a kernel's parameters.
std::set<std::string> ParametersOf(const std::string& kernel) {
  static const std::regex kParameter(R"((\w+)[,)])");
  const size_t begin = kernel.find('(', kernel.find("__launch_bounds__(") + 18),
               end = kernel.find(" {\n", begin);
  const std::string list = kernel.substr(begin, end - begin);
  std::set<std::string> names;
  for (std::sregex_iterator at(list.begin(), list.end(), kParameter), none; at != none; ++at)
    names.insert((*at)[1]);
  return names;
}

void ExpectNoLocalIsAParameter(const std::string& kernel, const std::string& whose) {
  const std::set<std::string> parameters = ParametersOf(kernel);
  for (const std::string& local : LocalsOf(kernel))
    EXPECT_EQ(parameters.count(local), 0) << whose << ": " << local << "\n" << kernel;
}

// By case, what planners call their locals whatever tensors are called.
std::set<std::string> PlannersLocals(const Case& wanted) {
  std::set<std::string> locals;
  for (const char* target : kTargets) {
    for (const std::string& kernel : KernelsOf(GraphOf(wanted, "", {}), target, wanted.precision)) {
      for (const std::string& local : LocalsOf(kernel)) {
        if (local.find("zq") == std::string::npos && !IsKernelConstant(local)) locals.insert(local);
      }
    }
  }
  return locals;
}

TEST(KernelNames, DimsMayBeCalledAsLocals) {
  size_t met = 0;
  for (const Case& wanted : Cases()) {
    for (const std::string& local : PlannersLocals(wanted)) {
      ++met;
      if (IsKernelWord(local)) continue;  // import gives such a dim another name
      for (const char* target : kTargets) {
        for (const std::string& kernel :
             KernelsOf(GraphOf(wanted, local, {}), target, wanted.precision))
          ExpectNoLocalIsAParameter(kernel, wanted.name + ", a dim called " + local);
      }
    }
  }
  EXPECT_GT(met, 300);
}

TEST(KernelNames, TensorsMayBeCalledAsLocals) {
  for (const Case& wanted : Cases()) {
    const std::set<std::string> locals = PlannersLocals(wanted);
    std::vector<std::string> names(locals.begin(), locals.end());
    for (size_t round = 0; round < locals.size(); round += 4) {
      for (const char* target : kTargets) {
        for (const std::string& kernel :
             KernelsOf(GraphOf(wanted, "", names), target, wanted.precision))
          ExpectNoLocalIsAParameter(kernel, wanted.name);
      }
      std::rotate(names.begin(),
                  names.begin() + std::min<int64_t>(4, static_cast<int64_t>(names.size())),
                  names.end());
    }
  }
}

// One case of every class of kernels, whose tensors bear words of C++, of CUDA and of
// codegen_templates.
TEST(KernelNames, TensorsMayBeCalledAsWords) {
  std::vector<std::string> words = {"constexpr",  "co_await", "compl",      "bitand",   "bitor",
                                    "requires",   "nullptr",  "noexcept",   "char8_t",  "xor_eq",
                                    "concept",    "warpsize", "linux",      "unix",     "expf",
                                    "vector",     "half",     "indexerror", "tables",   "lanes",
                                    "min",        "max",      "errors",     "memory",   "shape",
                                    "arithmetic", "queries",  "register",   "typename", "decltype"};
  const std::set<std::string> wanted_cases = {
      "pointwise_rows", "cpu_pointwise", "gather_concat", "row_by_warp",  "block_program",
      "attention_half", "scatter_nd",    "top_k",         "matmul_float", "matmul_half"};
  const auto nvrtc = runtime::Nvrtc::Get();
  ASSERT_TRUE(nvrtc) << nvrtc.error().message;
  const std::string folder = *MakeTemporaryFolder();
  for (const Case& wanted : Cases()) {
    if (wanted_cases.count(wanted.name) == 0) continue;
    std::rotate(words.begin(), words.begin() + 3, words.end());
    for (const std::string& file :
         FilesOf(GraphOf(wanted, "", words), "sm_90a", wanted.precision)) {
      const auto cubin = (*nvrtc)->CompileToCubin("words.cu", file, "sm_90a");
      EXPECT_TRUE(cubin) << wanted.name << ": " << cubin.error().message;
    }
    const auto graph = GraphOf(wanted, "", words);
    const ProgramPlan plan = PlanOf(*graph, "cpu", wanted.precision);
    std::vector<const KernelPlan*> plans;
    for (const Step& step : plan.steps) {
      if (!step.is_matmul) plans.push_back(&step.kernel);
    }
    const std::string path = folder + "/" + wanted.name + ".cc";
    std::ofstream(path) << EmitCpuLibrary(plans, {"model.onnx", "20"});
    const ChildResult compiled = RunChild({"c++", "-std=c++20", "-fsyntax-only", path});
    EXPECT_EQ(compiled.exit_code, 0) << wanted.name << ": " << compiled.errors.substr(0, 2000);
  }
  fs::remove_all(folder);
}

}  // namespace
}  // namespace fusec
