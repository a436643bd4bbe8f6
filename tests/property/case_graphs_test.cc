// Compiles and runs the input graphs of tests/passes. The interpreter computes a region node by node, so it cannot show that a fusion took
// an op that its kernel cannot compute. These graphs can, since each was made for what a pass does or must not do.
#include <gtest/gtest.h>

#include "compiler/reference/interpreter.h"
#include "tests/passes/pass_case.h"
#include "tests/property/compiled_graphs.h"
#include "tests/property/pass_checks.h"
#include "tests/property/random_graph.h"
#include "tests/property/run_settings.h"

namespace fusec {
namespace {

constexpr size_t kGraphsTogether = 20;

struct CaseGraph {
  std::string path;
  std::unique_ptr<Graph> graph;
  std::vector<ReferenceTensor> inputs, expected, rounded;
};

// nullopt for cases that are errors, that have regions already, or whose ids are out of range.
std::optional<CaseGraph> ReadCaseGraph(const std::string& path) {
  const PassCase given = ReadPassCase(kPassCases + path);
  auto graph = Parse(given.head);
  if (!graph || !Verify(**graph) || given.expected.starts_with("error: ")) return std::nullopt;
  FillPayloads(**graph);
  CaseGraph made{path, *std::move(graph)};
  made.inputs = RandomInputs(*made.graph, 1, SomeSizes(*made.graph));
  auto expected = Interpret(*made.graph, made.inputs),
       rounded = InterpretRounded(*made.graph, made.inputs);
  if (!expected || !rounded) return std::nullopt;
  made.expected = *std::move(expected);
  made.rounded = *std::move(rounded);
  return made;
}

// Cases that can be compiled into one program, since symbols with the same name are equal in all of them.
struct Together {
  std::vector<DimSymbol> symbols;
  std::vector<CaseGraph> cases;

  bool Takes(const Graph& graph) const {
    if (cases.size() == kGraphsTogether) return false;
    return std::none_of(graph.symbols.begin(), graph.symbols.end(), [&](const DimSymbol& symbol) {
      return std::any_of(symbols.begin(), symbols.end(), [&](const DimSymbol& own) {
        return own.name == symbol.name && !(own == symbol);
      });
    });
  }
  void Add(CaseGraph added) {
    symbols.insert(symbols.end(), added.graph->symbols.begin(), added.graph->symbols.end());
    cases.push_back(std::move(added));
  }
};

std::vector<Together> CaseGraphs() {
  constexpr size_t kFewest = 100;  // of about 190 files
  std::vector<Together> all;
  size_t count = 0;
  for (const std::string& path : PassCasePaths()) {
    auto read = ReadCaseGraph(path);
    if (!read) continue;
    auto place = std::find_if(all.begin(), all.end(),
                              [&](const Together& some) { return some.Takes(*read->graph); });
    if (place == all.end()) place = all.emplace(all.end());
    place->Add(*std::move(read));
    ++count;
  }
  EXPECT_GE(count, kFewest);
  return all;
}

void Compare(const Together& some, RunOn where) {
  std::string names;
  std::vector<const Graph*> graphs;
  std::vector<std::vector<ReferenceTensor>> inputs;
  for (const CaseGraph& one : some.cases) {
    names += one.path + " ";
    graphs.push_back(one.graph.get());
    inputs.push_back(one.inputs);
  }
  const auto compiled = CompiledGraphs::Make(graphs, where);
  ASSERT_TRUE(compiled.has_value()) << names << compiled.error().message;
  const auto found = (*compiled)->Run(inputs);
  ASSERT_TRUE(found.has_value()) << names << found.error().message;
  for (size_t i = 0; i < graphs.size(); ++i) {
    const CaseGraph& one = some.cases[i];
    EXPECT_EQ(FirstWrong(one.expected, one.rounded, (*found)[i], 1e-5), "") << one.path;
  }
}

TEST(CaseGraphs, CpuAnswersMatch) {
  for (const Together& some : CaseGraphs()) Compare(some, RunOn::kCpu);
}

TEST(CaseGraphs, GpuAnswersMatch) {
  for (const Together& some : CaseGraphs()) Compare(some, GpuOrItsText());
}

}  // namespace
}  // namespace fusec
