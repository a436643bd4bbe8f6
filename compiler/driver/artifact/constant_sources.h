#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "compiler/ir/graph.h"

namespace fusec {

// The initializers and ops from which a constant was made.
struct ConstantSources {
  struct Step {
    std::string pass;              // name of the pass, or "import"
    std::vector<std::string> ops;  // in order; empty if the pass wrote the constant down itself
  };
  std::vector<std::string> initializers;  // their names in the model
  std::vector<Step> steps;
};

// Finds sources of constants in the weights program of an artifact (passes/weights_program.h).
class WeightsTrace {
 public:
  explicit WeightsTrace(std::unique_ptr<Graph> program) : program_(std::move(program)) {}
  const Graph& program() const { return *program_; }
  // The sources of a constant of a target's graph; nothing if the program does not compute it.
  std::optional<ConstantSources> SourcesOf(const Node& constant) const;

 private:
  const Value* OutputOf(const Node& constant) const;
  std::unique_ptr<Graph> program_;
};

// Such as "transpose (fold-constants)"; "" for a constant that is an initializer.
std::string StepsText(const ConstantSources& sources);

}  // namespace fusec
