// Writes graphs before and after passes for prove_passes.py: those of the cases of tests/passes, and random graphs in the pipelines for the
// CPU and for a GPU, for each pass that changes something.
//
// usage: pass_graphs cases | pass_graphs random FIRST_SEED COUNT
// A pair is one line: {"name", "before", "after": IR text, "payloads": the elements of constants that the text gives by hash}.
#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "compiler/driver/build/pipeline.h"
#include "tests/passes/pass_case.h"
#include "tests/property/random_graph.h"

namespace fusec {
namespace {

using Json = nlohmann::json;

std::string ElementText(const TensorData& data, int64_t i) {
  if (data.dtype() == Dtype::kBool) return data.GetInt(i) != 0 ? "true" : "false";
  if (!IsFloat(data.dtype())) return fmt::to_string(data.GetInt(i));
  if (data.dtype() == Dtype::kF32) return fmt::to_string(static_cast<float>(data.GetDouble(i)));
  return fmt::to_string(data.GetDouble(i));
}

void AddPayloads(const Graph& graph, Json& payloads) {
  for (const auto& node : graph.nodes) {
    if (node->body != nullptr) AddPayloads(*node->body, payloads);
    if (node->kind != OpKind::kConstant || PrintsElements(*node) ||
        node->constant.bytes() == nullptr)
      continue;
    Json& elements = payloads[node->constant_hash];
    if (!elements.is_null()) continue;
    elements = Json::array();
    for (int64_t i = 0; i < node->constant.element_count(); ++i)
      elements.push_back(ElementText(node->constant, i));
  }
}

void PrintPair(const std::string& name, const Graph& before, const Graph& after) {
  Json payloads = Json::object();
  AddPayloads(before, payloads);
  AddPayloads(after, payloads);
  std::puts(Json{
      {"name", name}, {"before", Print(before)}, {"after", Print(after)}, {"payloads", payloads}}
                .dump()
                .c_str());
}

void PrintCases() {
  for (const std::string& path : PassCasePaths()) {
    const PassCase wanted = ReadPassCase(kPassCases + path);
    const auto graph = Parse(wanted.head);
    if (!graph || !Verify(**graph)) continue;  // a case of an error
    const auto changed = (*graph)->Clone();
    PassManager manager;
    manager.options = wanted.options;
    if (manager.Run(*changed, wanted.passes)) PrintPair(path, **graph, *changed);
  }
}

// Whether all passes ran.
bool PrintPipeline(uint64_t seed, TargetKind target) {
  RandomGraphOptions options;
  options.dtype = Dtype::kF64;  // folded constants are rounded least
  options.nodes = SomeNodeCount(seed);
  const auto graph = RandomGraph(seed, options);
  int number = 0;
  for (const std::string& pass : PipelinePasses(target)) {
    const auto before = graph->Clone();
    PassManager manager;
    if (const auto run = manager.Run(*graph, {pass}); !run) {
      std::fprintf(stderr, "seed %llu: %s: %s\n", static_cast<unsigned long long>(seed),
                   pass.c_str(), run.error().message.c_str());
      return false;
    }
    ++number;
    if (Equal(*before, *graph)) continue;
    PrintPair(
        fmt::format("{}/{}-{}-{}", pass, seed, target == TargetKind::kCpu ? "cpu" : "gpu", number),
        *before, *graph);
  }
  return true;
}

}  // namespace
}  // namespace fusec

int main(int count, char** words) {
  const std::string what = count > 1 ? words[1] : "";
  if (what == "cases" && count == 2) {
    fusec::PrintCases();
    return 0;
  }
  if (what != "random" || count != 4) {
    std::fputs("usage: pass_graphs cases | pass_graphs random FIRST_SEED COUNT\n", stderr);
    return 2;
  }
  const uint64_t first = std::strtoull(words[2], nullptr, 10),
                 many = std::strtoull(words[3], nullptr, 10);
  bool good = true;
  for (uint64_t seed = first; seed < first + many; ++seed) {
    good &= fusec::PrintPipeline(seed,
                                 seed % 2 == 0 ? fusec::TargetKind::kCpu : fusec::TargetKind::kGpu);
  }
  return good ? 0 : 1;
}
