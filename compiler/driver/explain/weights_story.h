#pragma once

#include <string>
#include <vector>

#include "compiler/driver/artifact/constant_sources.h"
#include "compiler/driver/explain/explanation.h"
#include "passes/specialization.h"

namespace fusec {

// A constant of one target's program.
struct ConstantStory {
  std::string name;        // the tensor in weights.safetensors, or the graph's constant
  std::string layout;      // "" of rows as they are, "panels", "split_tf32_panels", ...
  bool is_stored = false;  // otherwise kernels hold its elements as numbers in their text
  std::string type;        // "f32[64, 13]"; that of the graph's constant
  ConstantSources sources;
  std::vector<std::string> kernels;  // that read it
};

// Where an initializer of the model went.
struct InitializerStory {
  std::string name, type;
  std::vector<std::string> constants;           // names of ConstantStories that are made of it
  std::vector<Specialization> specializations;  // what the program is for this value of it only
  bool is_used() const { return !constants.empty() || !specializations.empty(); }
};

struct WeightsStory {
  std::vector<ConstantStory> constants;
  std::vector<InitializerStory> initializers;
};

// Of the target that is explained. With a `pattern` (a glob as shells have it), only constants and
// initializers whose names match, and constants that are made of these; an error if there are none.
Result<WeightsStory> ReadWeightsStory(const std::string& artifact, const Explanation& explanation,
                                      const std::string& pattern);

std::string WeightsText(const WeightsStory& story);
// The explanation's JSON with the key "weights": {"constants": [...], "initializers": [...]}.
std::string WithWeights(const std::string& explanation_json, const WeightsStory& story);

}  // namespace fusec
