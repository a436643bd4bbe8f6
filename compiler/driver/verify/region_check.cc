#include "compiler/driver/verify/region_check.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "compiler/driver/artifact/artifact_ir.h"
#include "compiler/package/weights_file.h"
#include "compiler/reference/interpreter.h"
#include "compiler/support/adt.h"
#include "compiler/support/read_file.h"
#include "compiler/support/terminal.h"
#include "runtime/src/artifact/step_sizes.h"

namespace fusec {

namespace {

using Json = nlohmann::ordered_json;

// The results of regions that another region reads, in graph order.
std::vector<const Value*> CrossingValues(const Graph& graph) {
  std::vector<const Value*> crossing;
  for (const Node* region : RegionsOf(graph)) {
    for (const auto& result : region->results) {
      const bool is_read = std::any_of(
          graph.nodes.begin(), graph.nodes.end(), [&](const std::unique_ptr<Node>& node) {
            return std::find(node->operands.begin(), node->operands.end(), result.get()) !=
                   node->operands.end();
          });
      if (is_read) crossing.push_back(result.get());
    }
  }
  return crossing;
}

Value* FindResult(Graph& graph, const std::string& name) {
  for (const auto& node : graph.nodes) {
    for (const auto& result : node->results) {
      if (result->name == name) return result.get();
    }
  }
  return nullptr;
}

// Makes all results of regions outputs of the graph, so that the interpreter returns them.
void ExposeResults(Graph& graph) {
  graph.outputs.clear();
  graph.output_names.clear();
  graph.run_time_sizes.clear();
  for (const Node* region : RegionsOf(graph)) {
    for (const auto& result : region->results) {
      graph.outputs.push_back(result.get());
      graph.output_names.push_back(result->name);
    }
  }
}

std::string GivenName(const std::string& value) { return value + " as given"; }

std::unique_ptr<Graph> Separate(const Graph& graph, ArrayRef<const Value*> crossing) {
  std::unique_ptr<Graph> separated = graph.Clone();
  for (const Value* value : crossing) {
    Value* made = FindResult(*separated, value->name);
    Value* given = separated->AddInput(separated->UniqueName(value->name + "_given"), value->type);
    separated->input_names.push_back(GivenName(value->name));
    separated->ReplaceAllUses(made, given);
  }
  ExposeResults(*separated);
  return separated;
}

// The steps that compute a region: the first one and their number. Several steps are alternatives,
// which write the same buffers and of which only one runs.
struct StepRange {
  size_t first = 0, count = 0;
};
std::vector<StepRange> StepsOfRegions(const runtime::Target& target) {
  std::vector<StepRange> ranges;
  for (size_t i = 0; i < target.steps.size(); ++i) {
    const runtime::Step& step = target.steps[i];
    const bool is_alternative = i > 0 && step.when && target.steps[i - 1].when &&
                                step.outputs == target.steps[i - 1].outputs;
    if (!is_alternative) ranges.push_back({i, 0});
    ++ranges.back().count;
  }
  return ranges;
}

const Json& BufferOfOutput(const Json& manifest, size_t output) {
  const Json& outputs = manifest["outputs"];
  return (output < outputs.size() ? outputs[output] : manifest["run_time_sizes"])["buffer"];
}

// The numbers of the buffers that hold the regions' results, by the result's name; -1 if there is
// none. It is the buffer that the region's step writes and that has the name of the result, or that
// belongs to the output of the graph which the result is.
std::map<std::string, int> BuffersOfResults(const Json& manifest, const runtime::Target& target,
                                            const Graph& graph) {
  const std::vector<StepRange> ranges = StepsOfRegions(target);
  std::map<std::string, int> numbers;
  const auto regions = RegionsOf(graph);
  for (size_t i = 0; i < regions.size(); ++i) {
    const Json& step = manifest["targets"][target.name]["steps"][ranges[i].first];
    for (const auto& result : regions[i]->results) {
      const auto output = std::find(graph.outputs.begin(), graph.outputs.end(), result.get());
      int& number = numbers[result->name] = -1;
      for (const Json& written : step["outputs"]) {
        const Json& buffer = manifest["buffers"][written.get<size_t>()];
        const bool is_it =
            output == graph.outputs.end()
                ? buffer["kind"] == "arena" && buffer["name"] == result->name
                : written ==
                      BufferOfOutput(manifest, static_cast<size_t>(output - graph.outputs.begin()));
        if (is_it) number = written.get<int>();
      }
    }
  }
  return numbers;
}

// Replaces each buffer number b that a step reads by `replaced[b]`, in all keys that hold buffers.
void ReplaceReads(Json& json, const std::string& key, const std::map<int, int>& replaced) {
  if (json.is_object()) {
    for (auto& [name, item] : json.items()) ReplaceReads(item, name, replaced);
  } else if (json.is_array()) {
    for (Json& item : json) ReplaceReads(item, key, replaced);
  } else if (json.is_number_integer() && (key == "buffer" || key == "buffers" || key == "bias" ||
                                          key == "addend" || key == "inputs")) {
    const auto found = replaced.find(json.get<int>());
    if (found != replaced.end()) json = found->second;
  }
}

Json Shape(const Value& value) {
  Json shape = Json::array();
  for (const Expr& dim : value.type.shape) shape.push_back(dim.ToString());
  return shape;
}

// The manifest of a program with the same kernels, in which every result is an output and every
// value that crosses from one region to another is an input.
Result<Json> SeparateManifest(Json manifest, const runtime::Target& target, const Graph& graph,
                              ArrayRef<const Value*> crossing) {
  const std::map<std::string, int> numbers = BuffersOfResults(manifest, target, graph);
  for (const auto& [name, number] : numbers) {
    if (number < 0) {
      return Fail(ErrorKind::kArtifact, "target " + target.name + " has no step that writes \"" +
                                            name + "\", expected one, as in its graph");
    }
  }
  manifest.erase("hash");
  manifest["targets"] = Json::object({{target.name, manifest["targets"][target.name]}});
  std::map<int, int> given;
  for (const Value* value : crossing) {
    Json& buffers = manifest["buffers"];
    const int number = static_cast<int>(buffers.size());
    given[numbers.at(value->name)] = number;
    const std::string dtype(DtypeName(value->type.dtype));
    buffers.push_back({{"name", GivenName(value->name)},
                       {"kind", "input"},
                       {"dtype", dtype},
                       {"elements", value->type.ElementCount().ToString()}});
    manifest["inputs"].push_back({{"name", GivenName(value->name)},
                                  {"dtype", dtype},
                                  {"shape", Shape(*value)},
                                  {"buffer", number}});
  }
  Json outputs = Json::array();
  for (const Node* region : RegionsOf(graph)) {
    for (const auto& result : region->results) {
      const int number = numbers.at(result->name);
      Json& buffer = manifest["buffers"][static_cast<size_t>(number)];
      if (buffer["kind"] != "in_place") buffer["kind"] = "output";
      buffer["name"] = result->name;  // may differ from the name of the model's output
      outputs.push_back({{"name", result->name},
                         {"dtype", DtypeName(result->type.dtype)},
                         {"shape", Shape(*result)},
                         {"buffer", number}});
    }
  }
  manifest["outputs"] = outputs;
  manifest.erase("run_time_sizes");  // the sizes are an ordinary output here
  // Every region runs, even if no step reads its result at some dims.
  for (const StepRange& range : StepsOfRegions(target)) {
    if (range.count == 1) manifest["targets"][target.name]["steps"][range.first].erase("when");
  }
  for (Json& step : manifest["targets"][target.name]["steps"]) {
    std::map<int, int> reads = given;
    for (const Json& written : step["outputs"]) reads.erase(written.get<int>());
    ReplaceReads(step, "", reads);
  }
  return manifest;
}

// Fills `folder` with links to the artifact's files and with another manifest.
Result<void> LinkArtifact(const std::string& artifact, const std::string& folder,
                          const std::string& manifest) {
  namespace fs = std::filesystem;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(artifact, error)) {
    const std::string name = entry.path().filename();
    if (name == "manifest.json") continue;
    fs::create_symlink(fs::absolute(entry.path()), folder + "/" + name, error);
    if (error) break;
  }
  if (error)
    return Fail(ErrorKind::kToolchain,
                "cannot link " + artifact + " into " + folder + ": " + error.message());
  return WriteFile(folder + "/manifest.json", manifest);
}

}  // namespace

Result<RegionCheck> RegionCheck::Make(const Subject& subject, const std::string& folder) {
  // The target as the manifest has it, because the device may have dropped some of its
  // alternatives.
  const runtime::Target& target =
      subject.program->manifest().targets.at(subject.program->device().target().name);
  RegionCheck check;
  FUSEC_ASSIGN(check.graph_, ReadFusedGraph(subject.artifact, target.name));
  FUSEC_TRY(LoadPayloads(subject.artifact, *check.graph_));
  check.given_ = CrossingValues(*check.graph_);
  check.own_inputs_ = check.graph_->inputs.size();
  check.separated_ = Separate(*check.graph_, check.given_);
  FUSEC_ASSIGN(const std::string text,
               ReadWholeFile(subject.artifact + "/manifest.json", ErrorKind::kArtifact));
  const size_t steps = StepsOfRegions(target).size();
  if (const size_t regions = RegionsOf(*check.graph_).size(); regions != steps) {
    return Fail(ErrorKind::kArtifact,
                subject.artifact + ": target " + target.name + " has " + std::to_string(steps) +
                    " steps (alternatives count as one), expected one for each of the graph's " +
                    std::to_string(regions) + " regions");
  }
  FUSEC_ASSIGN(const Json manifest,
               SeparateManifest(Json::parse(text), target, *check.graph_, check.given_));
  FUSEC_TRY(LinkArtifact(subject.artifact, folder, manifest.dump(1)));
  FUSEC_ASSIGN(check.program_, LoadProgram(folder, subject.device));
  return check;
}

Result<std::vector<RegionJudgement>> RegionCheck::Judge(const Inputs& inputs,
                                                        const DimValues& dims) const {
  // The operands that every region has if all regions before it are exact.
  std::vector<ReferenceTensor> operands;
  for (const TensorData& input : inputs) operands.push_back(ReferenceTensor::FromData(input));
  std::unique_ptr<Graph> exposed = graph_->Clone();
  ExposeResults(*exposed);
  FUSEC_ASSIGN(const auto exact, Interpret(*exposed, operands));
  Inputs given = inputs;
  for (const Value* value : given_) {
    for (size_t i = 0; i < exact.size(); ++i) {
      if (exposed->output_names[i] != value->name) continue;
      given.push_back(exact[i].ToData());
      operands.push_back(ReferenceTensor::FromData(given.back()));
      break;
    }
  }
  FUSEC_ASSIGN(const auto expected, Interpret(*separated_, operands));
  FUSEC_ASSIGN(const std::vector<TensorData> found, RunOnce(*program_, given));
  std::vector<RegionJudgement> judgements;
  OutputJudge judge(*separated_, operands, expected);
  const runtime::Target& target = program_->device().target();
  const std::vector<StepRange> ranges = StepsOfRegions(target);
  const std::vector<int64_t> symbols = SymbolValues(program_->manifest(), dims);
  const auto regions = RegionsOf(*graph_);
  for (size_t region = 0; region < regions.size(); ++region) {
    size_t step = ranges[region].first;
    for (size_t i = step; i < ranges[region].first + ranges[region].count; ++i) {
      FUSEC_RUNTIME_ASSIGN(const bool runs, runtime::Runs(target.steps[i], symbols));
      if (runs) step = i;
    }
    for (size_t i = 0; i < regions[region]->results.size(); ++i) {
      const size_t number = judgements.size();
      const Tolerance tolerance = ToleranceOf(CoarsestDtype(regions[region]->body->outputs[i]),
                                              program_->manifest().matmul_precision);
      Comparison comparison =
          judge.Judge(number, regions[region]->results[i]->name, found[number], tolerance);
      judgements.push_back({region, target.steps[step].name, RegionClassOf(*regions[region]), dims,
                            std::move(comparison)});
    }
  }
  return judgements;
}

std::string JudgementTable(ArrayRef<RegionJudgement> judgements) {
  std::vector<std::vector<std::string>> rows = {{"kernel", "class", "tensor", "dims", "max abs",
                                                 "relative L2", "tolerance", "worst at", "found",
                                                 "expected", "", ""}};
  for (const RegionJudgement& judgement : judgements) {
    const Comparison& c = judgement.comparison;
    const bool exact = c.pass && c.max_abs == 0;
    rows.push_back({judgement.kernel, RegionClassText(judgement.region_class), c.name,
                    DimsText(judgement.dims), FormatNumber(c.max_abs), FormatNumber(c.rel_l2),
                    FormatNumber(c.tolerance.relative_l2), exact ? "" : IndexText(c.worst_index),
                    exact ? "" : FormatValue(c.worst_found),
                    exact ? "" : FormatValue(c.worst_expected), c.pass ? "pass" : "FAIL", c.note});
  }
  return FormatTable(rows, "llllrrrlrrll");
}

}  // namespace fusec
