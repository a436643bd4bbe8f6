// Tensors and dims may have any names, also those of local variables that planners use, of C++ keywords, and of device functions. The names
// of locals are read from the kernels of the goldens' graphs, so that a new local variable is tested automatically.
//
// If the names in a model change, a kernel must stay the same except for these names: its own words occur as often as before, the words of
// the model are as many as before, and none of them gets another meaning.
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>

#include "codegen_templates/templates.h"
#include "compiler/driver/build/build_targets.h"
#include "compiler/driver/build/compile.h"
#include "compiler/driver/build/pipeline.h"
#include "compiler/emit/emit_kernel.h"
#include "compiler/import/names.h"
#include "compiler/ir/region_class.h"
#include "compiler/kernel/model_names.h"
#include "compiler/kernel/statements.h"
#include "compiler/plan/plan_program.h"
#include "compiler/support/child_process.h"
#include "compiler/support/kernel_words.h"
#include "compiler/support/words.h"
#include "passes/pass_manager.h"
#include "runtime/src/cuda/nvrtc.h"
#include "tests/property/random_graph.h"

namespace fusec {
namespace {

namespace fs = std::filesystem;

constexpr const char* kTargets[] = {"cpu", "sm_90a"};
using Names = std::vector<std::string>;
using Words = std::set<std::string, std::less<>>;

struct Case {
  std::string name, text, precision;
};

// The goldens' graphs, and a graph of the class that has no golden.
const std::vector<Case>& Cases() {
  static const auto* const kCases = [] {
    auto* cases = new std::vector<Case>{{"slot_matmul", R"(
graph @g(%rows "rows": f16[batch, 64], %bank "bank": f16[2, 64, 48], %slots "slots": i32[batch])
    symbols(batch in 1..64) {
  %delta = slot_matmul(%rows, %bank, %slots) {transpose_b = 0} : f16[batch, 48]
  %y = relu(%delta) : f16[batch, 48]
  return %y "y"
}
)",
                                         "highest"}};
    for (const auto& entry : fs::directory_iterator(FUSEC_SOURCE_DIR "/tests/codegen")) {
      if (entry.path().extension() != ".ir") continue;
      std::ifstream file(entry.path());
      const std::string text{std::istreambuf_iterator<char>(file), {}};
      const bool is_high = text.find("# precision: high\n") != std::string::npos;
      cases->push_back({entry.path().stem(), text, is_high ? "high" : "highest"});
    }
    std::sort(cases->begin(), cases->end(),
              [](const Case& a, const Case& b) { return a.name < b.name; });
    return cases;
  }();
  return *kCases;
}

// The things that have a name in a fused graph, parameters of kernels first.
std::vector<Value*> ValuesOf(const Graph& graph) {
  std::vector<Value*> parameters, inner;
  for (const auto& input : graph.inputs) parameters.push_back(input.get());
  for (const auto& node : graph.nodes) {
    for (const auto& result : node->results) parameters.push_back(result.get());
    if (!node->body) continue;
    for (Value* value : ValuesOf(*node->body)) inner.push_back(value);
  }
  parameters.insert(parameters.end(), inner.begin(), inner.end());
  return parameters;
}

void RenameDims(Graph& graph, const std::map<std::string, Expr>& names) {
  const auto rename = [&](Exprs& exprs) {
    for (Expr& expr : exprs)
      expr = expr.Substitute([&](const std::string& dim) { return names.at(dim); }, Ranges());
  };
  for (DimSymbol& dim : graph.symbols) dim.name = *names.at(dim.name).AsSymbol();
  for (const auto& input : graph.inputs) rename(input->type.shape);
  for (const auto& node : graph.nodes) {
    for (const auto& result : node->results) rename(result->type.shape);
    for (auto& [name, attribute] : node->attributes) {
      if (auto* exprs = std::get_if<Exprs>(&attribute)) rename(*exprs);
    }
    if (node->body) RenameDims(*node->body, names);
  }
}

struct Kernels {
  std::unique_ptr<Graph> graph;  // whose values they have as parameters
  std::vector<KernelPlan> plans;
};

// A case's fused graph for a target.
class Fused {
 public:
  Fused(const Case& wanted, const std::string& target)
      : name_(wanted.name + " for " + target), options_(PlanFor(target, wanted.precision)) {
    auto graph = Parse(wanted.text);
    EXPECT_TRUE(graph.has_value()) << wanted.name << ": " << graph.error().message;
    graph_ = *std::move(graph);
    graph_->input_names.clear();
    graph_->output_names.clear();
    constexpr std::string_view kWeights = "# weights: ";
    for (size_t at = 0; (at = wanted.text.find(kWeights, at)) != std::string::npos;) {
      at += kWeights.size();
      MakeWeights(*graph_, wanted.text.substr(at, wanted.text.find('\n', at) - at));
    }
    PassManager manager;
    manager.options.matmul_precision = wanted.precision;
    if (options_.gpu) manager.options.block_shared_bytes = options_.gpu->block_shared_bytes;
    const auto ran = manager.Run(*graph_, PipelinePasses(options_.target));
    EXPECT_TRUE(ran.has_value()) << ran.error().message;
  }

  const std::string& name() const { return name_; }
  // How many dims, or parameters of kernels, get new names at the same time.
  size_t dim_count() const { return graph_->symbols.size(); }
  size_t parameter_count() const { return graph_->inputs.size() + graph_->nodes.size(); }

  // The kernels if dims and then tensors get the `names`, beginning with the one at `first`. All others are called "zq0q", "zq1q", ..., so
  // that derived names contain "zq".
  Kernels Plan(const Names& names, size_t first, bool names_dims) const {
    Kernels kernels{graph_->Clone(), {}};
    Graph& graph = *kernels.graph;
    size_t given = 0, made = 0;
    const auto next = [&](bool is_named) {
      if (is_named && given < names.size()) return names[(first + given++) % names.size()];
      return "zq" + std::to_string(made++) + "q";
    };
    std::map<std::string, Expr> dims;
    for (const DimSymbol& dim : graph.symbols) dims[dim.name] = Expr::Symbol(next(names_dims));
    RenameDims(graph, dims);
    for (Value* value : ValuesOf(graph)) value->name = next(true);
    std::vector<IndexSite> sites;
    auto plan = PlanProgram(graph, options_, sites);
    EXPECT_TRUE(plan.has_value()) << name_ << ": " << plan.error().message;
    for (Step& step : plan->steps) {
      if (!step.is_matmul) kernels.plans.push_back(std::move(step.kernel));
    }
    return kernels;
  }

 private:
  std::string name_;
  PlanOptions options_;
  std::unique_ptr<Graph> graph_;
};

// "table" stands for several tables of the model.
bool IsMade(std::string_view word) {
  const bool is_table = word == "table" || word.starts_with("table_") ||
                        (word.starts_with("kTable") && !word.starts_with("kTables"));
  return is_table || word.find("zq") != word.npos || word.find("Zq") != word.npos;
}

std::map<std::string, int, std::less<>> CountWords(const KernelPlan& kernel) {
  std::map<std::string, int, std::less<>> counts;
  std::string code = EmitKernelCode(kernel);
  for (size_t at = 0; (at = code.find("//", at)) != std::string::npos;)
    code.erase(at, code.find('\n', at) - at);
  ForEachWord(code, [&](std::string_view word, size_t at) {
    const bool is_member = at > 0 && code[at - 1] == '.';
    if (!is_member && !std::isdigit(static_cast<unsigned char>(word[0])))
      ++counts[std::string(word)];
  });
  return counts;
}

// The names that kernels declare themselves, whatever the tensors are called.
Names LocalsOf(const Kernels& kernels) {
  Words locals;
  for (const KernelPlan& kernel : kernels.plans) {
    ForEachStatement(kernel.body, [&](const Statement& statement) {
      using Kind = Statement::Kind;
      if (statement.kind == Kind::kLambda)
        ForEachWord(statement.text, [&](std::string_view word, size_t) { locals.emplace(word); });
      for (const Kind kind :
           {Kind::kLet, Kind::kDeclare, Kind::kUsing, Kind::kFor, Kind::kLambda}) {
        if (statement.kind == kind) locals.insert(LocalName(statement));
      }
    });
    for (const KernelParameter& parameter : kernel.parameters) locals.insert(parameter.name);
    for (const NamedConstant& constant : kernel.constants) locals.insert(constant.name);
  }
  std::erase_if(locals, IsMade);
  return {locals.begin(), locals.end()};
}

// Compares kernels with other names with those that have only made-up names; adds the names that the model's words got to `given`.
void ExpectSameButForNames(const Kernels& made, const Kernels& named, const std::string& what,
                           Words& given) {
  ASSERT_EQ(made.plans.size(), named.plans.size()) << what;
  for (size_t i = 0; i < made.plans.size(); ++i) {
    const KernelPlan& kernel = named.plans[i];
    auto counts = CountWords(kernel);
    size_t of_model = 0;
    for (const auto& [word, count] : CountWords(made.plans[i])) {
      if (IsMade(word)) {
        ++of_model;
        continue;
      }
      EXPECT_EQ(counts[word], count) << what << ": " << word << "\n" << EmitKernelCode(kernel);
      counts.erase(word);
    }
    EXPECT_EQ(counts.size(), of_model) << what << "\n" << EmitKernelCode(kernel);
    for (const auto& [word, unused] : counts) {
      EXPECT_TRUE(IsKernelConstant(word) || KernelWords().count(word) == 0) << what << ": " << word;
      given.insert(word);
    }
  }
}

// Gives each name to a tensor that is a parameter; with `names_dims`, also to a dim.
void TryNames(const Fused& fused, const Names& names, bool names_dims, Words& given) {
  const Kernels made = fused.Plan({}, 0, false);
  const size_t step =
      names_dims && fused.dim_count() > 0 ? fused.dim_count() : fused.parameter_count();
  for (size_t first = 0; first < names.size() && !made.plans.empty(); first += step) {
    ExpectSameButForNames(made, fused.Plan(names, first, names_dims),
                          fused.name() + ", names from " + names[first] + " on", given);
    if (testing::Test::HasFailure()) return;  // one kernel is enough to read
  }
}

TEST(KernelNames, TensorsAndDimsMayBeCalledAsLocals) {
  size_t met = 0;
  Words given;
  for (const Case& wanted : Cases()) {
    for (const char* target : kTargets) {
      const Fused fused(wanted, target);
      const Names locals = LocalsOf(fused.Plan({}, 0, false));
      met += locals.size();
      TryNames(fused, locals, /*names_dims=*/true, given);
    }
  }
  EXPECT_GT(met, 1000);
}

// Cases of all classes of kernels, and of all schedules of products.
const std::set<std::string> kOfAllClasses = {
    "pointwise_rows", "cpu_pointwise",  "gather_concat", "row_by_warp",          "block_program",
    "attention_half", "scatter_nd",     "top_k",         "matmul_float",         "matmul_half",
    "slot_matmul",    "recurrence_gru", "matmul_pairs",  "matmul_warpgroup_half"};

// The words of C++, of CUDA and of codegen_templates, including members and locals of device functions; of words that give the same name of
// a tensor, only one.
Names AllWords() {
  std::map<std::string, std::string> by_name;
  const auto add = [&](std::string_view word) {
    if (std::isdigit(static_cast<unsigned char>(word[0]))) return;
    by_name.emplace(FriendlyName(std::string(word)), word);
  };
  for (const std::string& word : KernelWords()) add(word);
  for (const std::string_view path : TemplatePaths())
    ForEachWord(*TemplateText(path), [&](std::string_view word, size_t) { add(word); });
  Names words;
  for (const auto& [name, word] : by_name) words.push_back(word);
  return words;
}

// A function with a local of each name.
std::string Declare(const Words& names) {
  std::string text = "\n__device__ void DeclareNames() {\n";
  for (const std::string& name : names) text += "  int " + name + " = 0; (void)" + name + ";\n";
  return text + "}\n";
}

void ExpectCpuTakes(const std::string& code) {
  const std::string folder = *MakeTemporaryFolder(), path = folder + "/words.cc";
  std::ofstream(path) << code;
  const ChildResult compiled = RunChild({"c++", "-std=c++20", "-fsyntax-only", path});
  EXPECT_EQ(compiled.exit_code, 0) << compiled.errors.substr(0, 2000);
  fs::remove_all(folder);
}

void ExpectGpuTakes(const std::string& code, const std::string& arch) {
  const auto nvrtc = runtime::Nvrtc::Get();
  ASSERT_TRUE(nvrtc) << nvrtc.error().message;
  const auto cubin = (*nvrtc)->CompileToCubin("words.cu", code, arch);
  EXPECT_TRUE(cubin) << cubin.error().message;
}

TEST(KernelNames, TensorsAndDimsMayBeCalledAsWords) {
  const Names words = AllWords();
  EXPECT_GT(words.size(), 1000);
  std::map<std::string, Words> classes;  // by target
  size_t number = 0;
  for (const Case& wanted : Cases()) {
    if (kOfAllClasses.count(wanted.name) == 0) continue;
    Names of_dims;  // names of dims, as the importer spells them, distributed over the cases
    for (size_t i = number++; i < words.size(); i += kOfAllClasses.size())
      of_dims.push_back(Identifier(words[i]));
    for (const char* target : kTargets) {
      const Fused fused(wanted, target);
      EXPECT_GT(fused.dim_count(), 0) << fused.name();
      Words given;
      TryNames(fused, words, /*names_dims=*/false, given);
      TryNames(fused, of_dims, /*names_dims=*/true, given);
      Names names = LocalsOf(fused.Plan({}, 0, false));
      names.insert(names.end(), words.begin(), words.end());
      const Kernels kernels = fused.Plan(names, 0, /*names_dims=*/true);
      std::vector<const KernelPlan*> plans;
      for (const KernelPlan& kernel : kernels.plans) {
        plans.push_back(&kernel);
        classes[target].insert(RegionClassText(kernel.region_class));
      }
      if (plans.empty()) continue;
      const bool is_cpu = std::string_view(target) == "cpu";
      const std::string text =
          (is_cpu ? EmitCpuLibrary : EmitGpuModule)(plans, {"model.onnx", "20"});
      EXPECT_EQ(text.find(kModelMark), std::string::npos) << text;
      is_cpu ? ExpectCpuTakes(text + Declare(given))
             : ExpectGpuTakes(text + Declare(given), target);
    }
  }
  Words all;
#define FUSEC_REGION_CLASS(Kind, text) all.insert(text);
#include "compiler/ir/region_classes.def"
#undef FUSEC_REGION_CLASS
  EXPECT_EQ(classes["sm_90a"], all);
  // On a CPU there is no shared memory, and a library computes products.
  for (const char* of_gpus : {"attention", "block_program", "matmul", "slot_matmul"})
    all.erase(of_gpus);
  EXPECT_EQ(classes["cpu"], all);
}

}  // namespace
}  // namespace fusec
