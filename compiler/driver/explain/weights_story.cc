#include "compiler/driver/explain/weights_story.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "compiler/package/specializations.h"
#include "compiler/plan/matmul/weight_panels.h"
#include "compiler/region/product.h"
#include "compiler/support/glob.h"
#include "compiler/support/read_file.h"
#include "compiler/support/terminal.h"

namespace fusec {

namespace {

using Json = nlohmann::ordered_json;

void AddOnce(std::vector<std::string>& list, const std::string& text) {
  if (std::find(list.begin(), list.end(), text) == list.end()) list.push_back(text);
}

struct StoredTensor {
  std::string name, layout;
};

// The tensors that a step reads and that hold this constant, in any layout.
std::vector<StoredTensor> StoredAs(const Node& constant, const ExplainedStep& step) {
  std::vector<StoredTensor> tensors;
  for (const WeightLayout layout : kWeightLayouts) {
    const std::string suffix = LayoutSuffix(layout);
    const std::string name = constant.result()->name + suffix;
    for (const std::string& wanted : {name + "." + constant.constant_hash, name}) {
      if (std::find(step.inputs.begin(), step.inputs.end(), wanted) == step.inputs.end()) continue;
      tensors.push_back({wanted, suffix.empty() ? "" : suffix.substr(1)});
      break;
    }
  }
  return tensors;
}

// Whether a step of a product reads the dequantized weights, and not those that they are made of.
bool ReadsDense(const Node& region, const ExplainedStep& step) {
  const Value* dense = DenseOperand(region);
  return dense != nullptr &&
         std::find(step.inputs.begin(), step.inputs.end(), dense->name) != step.inputs.end();
}

// The text of the column "how (pass)", such as "transpose (fold-constants); panels".
std::string HowText(const ConstantStory& constant) {
  const std::string steps = StepsText(constant.sources);
  if (constant.layout.empty()) return steps.empty() ? "as it is" : steps;
  return steps + (steps.empty() ? "" : "; ") + constant.layout;
}

// The most names that a cell shows of a list.
constexpr size_t kShownInitializers = 4, kShownKernels = 2;

class StoryTeller {
 public:
  StoryTeller(const Explanation& explanation, const WeightsTrace& trace)
      : explanation_(explanation), trace_(trace) {}

  std::vector<ConstantStory> Constants() {
    const std::vector<const Node*> regions = explanation_.regions();
    for (size_t i = 0; i < regions.size(); ++i) AddReads(*regions[i], explanation_.steps[i]);
    for (const auto& [step, region] : explanation_.idle_steps) AddReads(*regions[region], step);
    return std::move(stories_);
  }

 private:
  void AddReads(const Node& region, const ExplainedStep& step) {
    const ValueSet packed = ReadsDense(region, step) ? PackedInputs(region) : ValueSet();
    for (size_t i = 0; i < region.operands.size(); ++i) {
      const Value* operand = region.operands[i];
      if (!IsConstant(operand) || packed.count(region.body->inputs[i].get()) != 0) continue;
      const Node& constant = *operand->producer;
      const std::vector<StoredTensor> stored = StoredAs(constant, step);
      for (const StoredTensor& tensor : stored) {
        ConstantStory& story = StoryOf(constant, tensor.name, true);
        story.layout = tensor.layout;
        AddOnce(story.kernels, step.name);
      }
      if (stored.empty()) AddOnce(StoryOf(constant, operand->name, false).kernels, step.name);
    }
  }

  ConstantStory& StoryOf(const Node& constant, const std::string& name, bool is_stored) {
    const auto known = std::find_if(stories_.begin(), stories_.end(), [&](const auto& story) {
      return story.name == name && story.is_stored == is_stored;
    });
    if (known != stories_.end()) return *known;
    ConstantStory& story = stories_.emplace_back();
    story.name = name;
    story.is_stored = is_stored;
    story.type = constant.result()->type.ToString();
    story.sources = trace_.SourcesOf(constant).value_or(ConstantSources());
    return story;
  }

  const Explanation& explanation_;
  const WeightsTrace& trace_;
  std::vector<ConstantStory> stories_;
};

std::vector<InitializerStory> Initializers(const Graph& program, ArrayRef<ConstantStory> constants,
                                           ArrayRef<Specialization> specializations) {
  std::vector<InitializerStory> stories;
  for (size_t i = 0; i < program.inputs.size(); ++i) {
    InitializerStory story{program.InputName(i), program.inputs[i]->type.ToString(), {}, {}};
    for (const ConstantStory& constant : constants) {
      const auto& sources = constant.sources.initializers;
      if (std::find(sources.begin(), sources.end(), story.name) != sources.end())
        AddOnce(story.constants, constant.name);
    }
    for (const Specialization& one : specializations) {
      if (one.tensor == story.name) story.specializations.push_back(one);
    }
    stories.push_back(std::move(story));
  }
  return stories;
}

Result<void> Filter(const std::string& artifact, const std::string& pattern, WeightsStory& story) {
  const auto matches = [&](const std::string& name) { return MatchesGlob(pattern, name); };
  std::erase_if(story.constants, [&](const ConstantStory& constant) {
    const auto& sources = constant.sources.initializers;
    return !matches(constant.name) && std::none_of(sources.begin(), sources.end(), matches);
  });
  std::erase_if(story.initializers,
                [&](const InitializerStory& initializer) { return !matches(initializer.name); });
  if (!story.constants.empty() || !story.initializers.empty()) return {};
  return Fail(ErrorKind::kUsage, "--tensor " + pattern + ": no initializer and no tensor of " +
                                     artifact + " has a name that matches");
}

std::string Fate(const Specialization& one) {
  switch (one.kind) {
    case Specialization::Kind::kDecided:
      return one.pass + " made a decision by its value";
    case Specialization::Kind::kEqual:
      return "equals " + one.constant + ", and both are stored as one (" + one.pass + ")";
    case Specialization::Kind::kFrozen:
      return one.pass + " computed " + one.constant + " from its value";
  }
  return "";
}

std::string FateText(const InitializerStory& initializer,
                     const std::vector<ConstantStory>& constants) {
  std::vector<std::string> fates;
  for (const ConstantStory& constant : constants) {
    const auto& names = initializer.constants;
    if (std::find(names.begin(), names.end(), constant.name) == names.end()) continue;
    const std::string kernels = Shorten(constant.kernels, 1);
    fates.push_back(constant.is_stored ? constant.name + " of " + kernels
                                       : "a number in the text of " + kernels);
  }
  for (const Specialization& one : initializer.specializations) fates.push_back(Fate(one));
  return fates.empty() ? "no kernel reads it" : Join(fates, "; ");
}

}  // namespace

Result<WeightsStory> ReadWeightsStory(const std::string& artifact, const Explanation& explanation,
                                      const std::string& pattern) {
  FUSEC_ASSIGN(auto program, ReadWeightsProgram(artifact));
  const WeightsTrace trace(std::move(program));
  const std::string file = artifact + "/manifest.json";
  FUSEC_ASSIGN(const std::string text, ReadWholeFile(file, ErrorKind::kArtifact));
  std::vector<Specialization> specializations;
  try {
    specializations = SpecializationsOf(Json::parse(text));
  } catch (const Json::exception&) {
    return Fail(ErrorKind::kArtifact, file + ": specialized has another type than expected");
  }
  WeightsStory story;
  story.constants = StoryTeller(explanation, trace).Constants();
  story.initializers = Initializers(trace.program(), story.constants, specializations);
  if (!pattern.empty()) FUSEC_TRY(Filter(artifact, pattern, story));
  return story;
}

std::string WeightsText(const WeightsStory& story) {
  std::vector<std::vector<std::string>> stored = {
      {"  tensor", "type", "made of", "how (pass)", "read by"}};
  std::vector<std::vector<std::string>> numbers = {
      {"  constant", "type", "made of", "how (pass)", "kernels"}};
  for (const ConstantStory& constant : story.constants) {
    (constant.is_stored ? stored : numbers)
        .push_back({"  " + constant.name, constant.type,
                    Shorten(constant.sources.initializers, kShownInitializers), HowText(constant),
                    Shorten(constant.kernels, kShownKernels)});
  }
  std::vector<std::vector<std::string>> initializers = {{"  initializer", "type", "where it went"}};
  for (const InitializerStory& initializer : story.initializers) {
    initializers.push_back(
        {"  " + initializer.name, initializer.type, FateText(initializer, story.constants)});
  }
  std::string text;
  const auto add = [&](const char* title, const auto& rows) {
    if (rows.size() < 2) return;
    text += (text.empty() ? "" : "\n") + std::string(title) + "\n\n" +
            FormatTable(rows, std::string(rows[0].size(), 'l'));
  };
  add("tensors in weights.safetensors", stored);
  add("constants that kernels hold as numbers in their text", numbers);
  add("initializers of the model", initializers);
  return text;
}

std::string WithWeights(const std::string& explanation_json, const WeightsStory& story) {
  Json constants = Json::array(), initializers = Json::array();
  for (const ConstantStory& constant : story.constants) {
    Json steps = Json::array();
    for (const ConstantSources::Step& step : constant.sources.steps)
      steps.push_back({{"pass", step.pass}, {"ops", step.ops}});
    constants.push_back({{"name", constant.name},
                         {"stored", constant.is_stored},
                         {"layout", constant.layout},
                         {"type", constant.type},
                         {"kernels", constant.kernels},
                         {"initializers", constant.sources.initializers},
                         {"made_by", steps}});
  }
  for (const InitializerStory& initializer : story.initializers) {
    initializers.push_back({{"name", initializer.name},
                            {"type", initializer.type},
                            {"constants", initializer.constants},
                            {"specialized", SpecializationsJson(initializer.specializations)}});
  }
  Json json = Json::parse(explanation_json);
  json["weights"] = {{"constants", constants}, {"initializers", initializers}};
  return json.dump(1);
}

}  // namespace fusec
