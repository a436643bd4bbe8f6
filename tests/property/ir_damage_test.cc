// IR text with one error gives an error message that names its place, or is compiled; it never causes a crash, a hang or a failed
// FUSEC_CHECK. The test takes the .ir files of tests/passes and tests/codegen and a graph for every op, unfused and fused, and removes or
// exchanges tokens. A child process does the work, so that a crash is reported as a failure with the text that caused it.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <random>

#include "compiler/driver/build/pipeline.h"
#include "compiler/emit/emit_kernel.h"
#include "compiler/emit/equal_kernels.h"
#include "compiler/ir/infer.h"
#include "compiler/plan/plan_program.h"
#include "compiler/support/read_file.h"
#include "passes/check_fused.h"
#include "passes/pass_manager.h"
#include "tests/property/ir_tokens.h"
#include "tests/property/op_cases.h"
#include "tests/property/run_settings.h"

namespace fusec {
namespace {

constexpr unsigned kMostSeconds = 20;  // time limit for one text
constexpr TargetKind kTargets[] = {TargetKind::kCpu, TargetKind::kGpu};

Result<void> Emit(const Graph& graph, TargetKind target) {
  std::vector<IndexSite> sites;
  FUSEC_ASSIGN(const ProgramPlan plan, PlanProgram(graph, {target, "highest", &GpuFor("sm_90")}, sites));
  const auto kernels = FunctionsOf(plan);
  const std::string text = target == TargetKind::kCpu ? EmitCpuLibrary(kernels, {"damaged", "0"})
                                                      : EmitGpuModule(kernels, {"damaged", "0"});
  return text.empty() ? ModelError("the kernels have no text") : Result<void>();
}

bool HasGoodDims(const Node& node) {
  const auto is_good = [](const Value* value) {
    return value == nullptr ||
           std::all_of(value->type.shape.begin(), value->type.shape.end(),
                       [](const Expr& dim) { return dim.AsConstant().value_or(0) >= 0; });
  };
  return std::all_of(node.operands.begin(), node.operands.end(), is_good);
}

// Recomputes the types of results, so that wrong types do not hide other errors.
void InferAgain(Graph& graph) {
  for (const auto& node : graph.nodes) {
    if (node->body != nullptr) InferAgain(*node->body);
    if (node->kind == OpKind::kConstant || !HasGoodDims(*node)) continue;
    std::vector<TensorType> types;
    if (node->kind == OpKind::kRegion) {
      for (size_t i = 0; i < node->operands.size() && i < node->body->inputs.size(); ++i) {
        if (node->operands[i] != nullptr) node->body->inputs[i]->type = node->operands[i]->type;
      }
      InferAgain(*node->body);
      for (const Value* output : node->body->outputs) types.push_back(output->type);
    } else if (auto inferred =
                   InferTypes(node->kind, node->operands, node->attributes, graph.SymbolRanges())) {
      types = *std::move(inferred);
    }
    for (size_t i = 0; i < std::min(types.size(), node->results.size()); ++i)
      node->results[i]->type = types[i];
  }
}

// Compiles the text; a fused graph is only checked.
Result<void> Compile(const std::string& text, bool infer_again) {
  FUSEC_ASSIGN(const auto graph, Parse(text));
  if (infer_again) InferAgain(*graph);
  FUSEC_TRY(Verify(*graph));
  const bool is_fused = std::any_of(graph->nodes.begin(), graph->nodes.end(),
                                    [](const auto& node) { return node->kind == OpKind::kRegion; });
  if (is_fused) return CheckFused(*graph);
  for (const TargetKind target : kTargets) {
    const auto copy = graph->Clone();
    PassManager manager;
    FUSEC_TRY(manager.Run(*copy, PipelinePasses(target)));
    FUSEC_TRY(Emit(*copy, target));
  }
  return {};
}

// Some passes in any order, as `fusec opt` allows.
Result<void> Optimize(const std::string& text, std::mt19937_64& random) {
  FUSEC_ASSIGN(const auto graph, Parse(text));
  FUSEC_TRY(Verify(*graph));
  PassManager manager;
  std::vector<std::string> passes;
  for (int i = 0; i < 4; ++i) passes.push_back(AllPasses()[random() % AllPasses().size()].name);
  return manager.Run(*graph, passes);
}

// A graph and its fused forms.
void AddForms(const std::string& text, std::vector<std::string>& texts) {
  texts.push_back(text);
  const auto graph = Parse(text);
  if (!graph || !Verify(**graph)) return;  // a case of an error
  for (const TargetKind target : kTargets) {
    const auto copy = (*graph)->Clone();
    PassManager manager;
    if (!manager.Run(*copy, PipelinePasses(target))) continue;
    texts.push_back(Print(*copy));
    const auto checked = CheckFused(*copy);
    EXPECT_TRUE(checked) << text << checked.error().message;
  }
}

std::vector<std::string> AllTexts() {
  std::vector<std::string> paths, texts;
  for (const char* folder : {"/tests/passes", "/tests/codegen"}) {
    for (const auto& entry :
         std::filesystem::recursive_directory_iterator(FUSEC_SOURCE_DIR + std::string(folder))) {
      if (entry.path().extension() == ".ir") paths.push_back(entry.path());
    }
  }
  std::sort(paths.begin(), paths.end());
  for (const std::string& path : paths) {
    const auto text = ReadWholeFile(path, ErrorKind::kModel);
    EXPECT_TRUE(text) << text.error().message;
    AddForms(text->substr(0, text->find("# ----")), texts);
  }
  for (const Dtype dtype : {Dtype::kF32, Dtype::kI64}) {
    for (const OpCase& one : PointwiseCases(dtype)) AddForms(Print(*one.graph), texts);
    for (const OpCase& one : StructuralCases(dtype)) AddForms(Print(*one.graph), texts);
  }
  return texts;
}

// The text with one token, or what is around it, removed or exchanged.
std::string Damaged(const std::string& text, std::mt19937_64& random) {
  const std::vector<Place> tokens = TokensOf(text);
  const size_t at = random() % tokens.size();
  const Place token = tokens[at];
  const auto word = [&](const Place& place) {
    return text.substr(place.begin, place.end - place.begin);
  };
  const auto replaced = [&](size_t begin, size_t end, const std::string& by) {
    return text.substr(0, begin) + by + text.substr(end);
  };
  switch (random() % 4) {
    case 0:
      return replaced(token.begin, token.end, "");
    case 1: {  // an operand, result, dim or attribute: up to the next comma or bracket, or with it
      size_t end = text.find_first_of(",)]}:\n", token.end);
      if (end != text.npos && random() % 2) ++end;
      return replaced(token.begin, std::min(end, text.size()), "");
    }
    default:
      break;
  }
  if (token.kind == Token::Kind::kNumber) {
    const char* const numbers[] = {"-1",
                                   "0",
                                   "1",
                                   "2",
                                   "3",
                                   "1000000007",
                                   "9223372036854775807",
                                   "-9223372036854775808",
                                   "99999999999999999999",
                                   "0.5",
                                   "nan"};
    return replaced(token.begin, token.end, numbers[random() % std::size(numbers)]);
  }
  if (token.kind == Token::Kind::kWord && ParseDtype(word(token))) {
    const Dtype dtype = static_cast<Dtype>(random() % kDtypeCount);
    return replaced(token.begin, token.end, std::string(DtypeName(dtype)));
  }
  std::vector<Place> alike;  // for a word, string or symbol another of the text
  for (const Place& other : tokens) {
    if (other.kind == token.kind && word(other) != word(token)) alike.push_back(other);
  }
  if (alike.empty()) return replaced(token.begin, token.end, word(token) + " " + word(token));
  return replaced(token.begin, token.end, word(alike[random() % alike.size()]));
}

// Runs `seeds` from `first` on in a child process; returns the seed that crashed it, if any.
size_t RunInChild(ArrayRef<std::string> texts, ArrayRef<uint64_t> seeds,
                  size_t first, size_t* current, int* status) noexcept {
  const pid_t child = fork();
  if (child == 0) {
    for (*current = first; *current < seeds.size(); ++*current) {
      std::mt19937_64 random(seeds[*current]);
      alarm(kMostSeconds);
      const std::string text = Damaged(texts[random() % texts.size()], random);
      const auto done =
          random() % 4 == 0 ? Optimize(text, random) : Compile(text, random() % 2 != 0);
      if (!done && done.error().message.empty()) abort();
    }
    _exit(0);
  }
  waitpid(child, status, 0);
  return *current;
}

TEST(IrDamage, TextsAreRefusedOrCompiled) {
  const std::vector<std::string> texts = AllTexts();
  const std::vector<uint64_t> seeds = SeedsToRun(30000);
  auto* current = static_cast<size_t*>(
      mmap(nullptr, sizeof(size_t), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  ASSERT_NE(current, MAP_FAILED);
  int status = 0;
  for (size_t next = 0; next < seeds.size(); ++next) {
    next = RunInChild(texts, seeds, next, current, &status);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) break;
    std::mt19937_64 random(seeds[next]);
    ADD_FAILURE() << "seed " << seeds[next] << " ended in "
                  << (WIFSIGNALED(status) ? "signal " + std::to_string(WTERMSIG(status))
                                          : "exit " + std::to_string(WEXITSTATUS(status)))
                  << ":\n"
                  << Damaged(texts[random() % texts.size()], random);
  }
  munmap(current, sizeof(size_t));
}

}  // namespace
}  // namespace fusec
