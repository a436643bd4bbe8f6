#pragma once

#include <string>
#include <vector>

#include "compiler/driver/artifact/constant_sources.h"
#include "compiler/driver/explain/explanation.h"
#include "passes/specialization.h"

namespace fusec {

// A constant of one target, from what it was made, and which kernels read it.
struct ConstantStory {
  std::string name;        // the tensor in weights.safetensors, or the graph's constant
  std::string layout;      // "" for plain row-major data, "panels", "split_tf32_panels", ...
  bool is_stored = false;  // otherwise its elements are numbers in the text of kernels
  std::string type;        // type of the graph's constant, such as "f32[64, 13]"
  ConstantSources sources;
  std::vector<std::string> kernels;  // names of the kernels that read it
};

// What became of an initializer of the model.
struct InitializerStory {
  std::string name, type;
  std::vector<std::string> constants;           // names of ConstantStories that are made from it
  std::vector<Specialization> specializations;  // in what the program depends on its value
  bool is_used() const { return !constants.empty() || !specializations.empty(); }
};

struct WeightsStory {
  std::vector<ConstantStory> constants;
  std::vector<InitializerStory> initializers;
};

// The constants and initializers of the target that is explained. If a `pattern` (a glob as in a
// shell) is given, only those whose names match, and constants that are made from these
// initializers; an error if there are none.
Result<WeightsStory> ReadWeightsStory(const std::string& artifact, const Explanation& explanation,
                                      const std::string& pattern);

// The tables that `explain --weights` prints.
std::string WeightsText(const WeightsStory& story);
// The explanation's JSON with the key "weights": {"constants": [...], "initializers": [...]}.
std::string WithWeights(const std::string& explanation_json, const WeightsStory& story);

}  // namespace fusec
