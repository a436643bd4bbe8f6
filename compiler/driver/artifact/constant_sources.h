#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "compiler/ir/graph.h"

namespace fusec {

// What a constant was made of.
struct ConstantSources {
  struct Step {
    std::string pass;              // or "import"
    std::vector<std::string> ops;  // in order; none of a constant that the pass wrote down
  };
  std::vector<std::string> initializers;  // as the model calls them
  std::vector<Step> steps;
};

// Answers from the program of an artifact's weights (passes/weights_program.h).
class WeightsTrace {
 public:
  explicit WeightsTrace(std::unique_ptr<Graph> program) : program_(std::move(program)) {}
  const Graph& program() const { return *program_; }
  // Of a constant of a target's graph; nothing if the program has none like that.
  std::optional<ConstantSources> SourcesOf(const Node& constant) const;

 private:
  const Value* OutputOf(const Node& constant) const;
  std::unique_ptr<Graph> program_;
};

// "transpose (fold-constants)"; "" of an initializer itself.
std::string StepsText(const ConstantSources& sources);

}  // namespace fusec
