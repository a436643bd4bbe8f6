#include "compiler/driver/explain/explanation.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <span>

#include "compiler/driver/artifact/artifact_session.h"
#include "compiler/driver/artifact/manifest_json.h"
#include "compiler/driver/tune/tuning_table.h"
#include "compiler/support/adt.h"
#include "compiler/support/nearest_name.h"
#include "compiler/support/read_file.h"
#include "compiler/support/terminal.h"
#include "runtime/src/arena.h"
#include "runtime/src/artifact/artifact.h"
#include "runtime/src/artifact/hash.h"
#include "runtime/src/artifact/step_sizes.h"

namespace fusec {

namespace {

using Json = nlohmann::ordered_json;

constexpr int64_t kDefaultSize = 128;

Result<std::string> ChooseTarget(const runtime::Manifest& manifest, const std::string& wanted) {
  std::vector<std::string> names;
  for (const auto& [name, target] : manifest.targets) names.push_back(name);
  if (!wanted.empty()) {
    if (manifest.targets.count(wanted)) return wanted;
    return Fail(ErrorKind::kUsage, "the artifact has no target \"" + wanted + "\"" +
                                       DidYouMean(wanted, names) + "; it has " + Join(names, ", "));
  }
  for (const std::string& name : names) {
    if (name != "cpu") return name;
  }
  if (names.empty()) return Fail(ErrorKind::kArtifact, "the artifact has no target");
  return names[0];
}

// Thrown for a key of the manifest that has another type than it should. The runtime checks only
// the keys that it reads itself.
struct WrongKey {
  std::string key;
};

template <class T>
T ValueOf(const Json& object, const char* key, const T& otherwise) {
  try {
    return object.value(key, otherwise);
  } catch (const Json::exception&) {
    throw WrongKey{key};
  }
}
std::string ValueOf(const Json& object, const char* key, const char* otherwise) {
  return ValueOf(object, key, std::string(otherwise));
}

// The result of `read`, which gets the whole manifest and reads the given key of it.
template <class Read>
auto Recorded(const Json& json, const char* key, const Read& read) {
  try {
    return read(json);
  } catch (const Json::exception&) {
    throw WrongKey{key};
  }
}

std::vector<std::string> Texts(const Json& object, const char* key) {
  std::vector<std::string> texts;
  for (const Json& item : ValueOf(object, key, Json::array())) {
    if (item.is_string()) texts.push_back(item.get<std::string>());
  }
  return texts;
}

// Appends the text unless it is empty or in the list already.
void AddOnce(std::vector<std::string>& list, const std::string& text) {
  if (!text.empty() && std::find(list.begin(), list.end(), text) == list.end())
    list.push_back(text);
}

Result<ExplainedStep> ExplainStep(const runtime::Manifest& manifest, const runtime::Step& step,
                                  const Json& json, ArrayRef<int64_t> symbols) {
  ExplainedStep result;
  result.name = step.name;
  result.edited = step.edited;
  result.op_class = ValueOf(json, "class", "");
  result.launch = ValueOf(json, "launch", "");
  result.ops = Texts(json, "ops");
  for (const Json& origin : ValueOf(json, "onnx_nodes", Json::array())) {
    if (!origin.is_object()) continue;
    const std::string node = ValueOf(origin, "node", "");
    AddOnce(result.onnx_nodes, node.empty() ? ValueOf(origin, "op", "") : node);
    AddOnce(result.modules, ValueOf(origin, "module", ""));
  }
  for (const int buffer : step.inputs) result.inputs.push_back(manifest.buffers[buffer].name);
  for (const int buffer : step.outputs) result.outputs.push_back(manifest.buffers[buffer].name);
  FUSEC_RUNTIME_ASSIGN(result.bytes_read, step.bytes_read.Evaluate(symbols));
  FUSEC_RUNTIME_ASSIGN(result.bytes_written, step.bytes_written.Evaluate(symbols));
  FUSEC_RUNTIME_ASSIGN(result.flops, step.flops.Evaluate(symbols));
  if (step.kind == runtime::Step::Kind::kKernel) {
    result.code = CodeOf(manifest, step);
    FUSEC_RUNTIME_ASSIGN(const int64_t blocks, step.kernel.blocks.Evaluate(symbols));
    result.launch += (result.launch.empty() ? "" : "; ") + Plural(blocks, "block") + " of " +
                     Plural(step.kernel.block_size, "thread");
  } else {
    FUSEC_RUNTIME_ASSIGN(const int64_t m, step.matmul.m.Evaluate(symbols));
    FUSEC_RUNTIME_ASSIGN(const int64_t n, step.matmul.n.Evaluate(symbols));
    FUSEC_RUNTIME_ASSIGN(const int64_t k, step.matmul.k.Evaluate(symbols));
    FUSEC_RUNTIME_ASSIGN(const int64_t batch, step.matmul.batch.Evaluate(symbols));
    FUSEC_RUNTIME_ASSIGN(result.launches, runtime::EvaluateCalls(step, symbols));
    result.launch = "library matmul [" + std::to_string(m) + ", " + std::to_string(k) + "] x [" +
                    std::to_string(k) + ", " + std::to_string(n) + "]" +
                    (batch == 1 ? "" : ", " + std::to_string(batch) + " times");
  }
  return result;
}

Result<void> FillFootprint(const runtime::Manifest& manifest, const runtime::Target& target,
                           ArrayRef<int64_t> symbols, Explanation& explanation) {
  FUSEC_RUNTIME_ASSIGN(const std::vector<int64_t> bytes, runtime::BufferBytes(manifest, symbols));
  for (size_t i = 0; i < bytes.size(); ++i) {
    if (manifest.buffers[i].kind == runtime::BufferKind::kConstant)
      explanation.weight_bytes += bytes[i];
  }
  FUSEC_RUNTIME_ASSIGN(const runtime::ArenaPlan arena, runtime::PackArena(manifest, target, bytes));
  explanation.arena_bytes = arena.bytes;
  return {};
}

Result<void> FillStory(const runtime::Manifest& manifest, const Json& json,
                       ArrayRef<int64_t> symbols, Explanation& explanation) {
  explanation.opset = ValueOf(json, "opset", "");
  explanation.rounding = ValueOf(json, "rounding", "stores");
  explanation.index_policy = ValueOf(json, "index_policy", "error");
  explanation.batch_invariant = manifest.batch_invariant;
  explanation.stored_tables = Recorded(json, "table_storage", StoredTablesOf);
  explanation.float8_products = Recorded(json, "fp8", Float8ProductsOf);
  if (explanation.target != "cpu")
    explanation.placed_tables = Recorded(json, "table_placement", PlacedTablesOf);
  explanation.adapters = Recorded(json, "adapters", AdaptersOf);
  explanation.requests = Recorded(json, "requests", RequestsOf);
  const Json before = ValueOf(json, "before", Json::object());
  explanation.before_launches = ValueOf(before, "launches", int64_t{0});
  FUSEC_RUNTIME_ASSIGN(
      const auto bytes,
      runtime::DimExpression::Parse(ValueOf(before, "bytes", "0"), manifest.SymbolNames()));
  FUSEC_RUNTIME_ASSIGN(explanation.before_bytes, bytes.Evaluate(symbols));
  return {};
}

Result<void> FillEdges(const Json& target, Explanation& explanation) {
  std::map<std::string, const TensorType*> types;
  for (const Node* region : explanation.regions()) {
    for (const auto& result : region->results) types[result->name] = &result->type;
  }
  for (const Json& item : ValueOf(target, "not_fused", Json::array())) {
    const auto step = [&](const char* key) {
      const auto region = ValueOf(item, key, size_t{0});
      return region < explanation.steps.size() ? explanation.steps[region].name : "";
    };
    NotFusedEdge edge{ValueOf(item, "producer", ""),
                      ValueOf(item, "consumer", ""),
                      step("producer_region"),
                      step("consumer_region"),
                      ValueOf(item, "tensor", ""),
                      "",
                      0,
                      ValueOf(item, "reason", ""),
                      ValueOf(item, "needed", "")};
    if (const auto type = types.find(edge.tensor); type != types.end()) {
      edge.type = type->second->ToString();
      FUSEC_ASSIGN(edge.bytes, type->second->Bytes().Evaluate(explanation.dims));
    }
    explanation.not_fused.push_back(std::move(edge));
  }
  return {};
}

Json TuningJson(const TargetTuning& tuning) {
  Json choices = Json::array();
  for (const TunedChoice& choice : ChoicesOf(tuning)) {
    Json item = {{"kernel", choice.kernel},
                 {"dims", choice.dims.empty() ? Json::object() : Json(choice.dims)},
                 {"chosen", choice.chosen.words},
                 {"us", choice.chosen.microseconds},
                 {"planned_us", choice.planned_microseconds}};
    if (choice.runner_up) {
      item["runner_up"] = choice.runner_up->words;
      item["runner_up_us"] = choice.runner_up->microseconds;
    }
    choices.push_back(std::move(item));
  }
  return {{"device", tuning.device}, {"choices", choices}};
}

// Whether no other step makes the results of step number `i`. Alternatives are adjacent.
bool IsAlone(const runtime::Target& target, size_t i) {
  const auto makes_the_same = [&](size_t other) {
    return other < target.steps.size() && target.steps[other].outputs == target.steps[i].outputs;
  };
  return !(i > 0 && makes_the_same(i - 1)) && !makes_the_same(i + 1);
}

}  // namespace

std::vector<std::string> Explanation::step_names() const {
  std::vector<std::string> names;
  for (const ExplainedStep& step : steps) names.push_back(step.name);
  return names;
}

int64_t Explanation::host_bytes() const {
  int64_t bytes = 0;
  for (const PlacedTable& table : placed_tables) bytes += table.bytes;
  return bytes;
}

Result<Explanation::FoundStep> Explanation::FindStep(const std::string& name) const {
  const std::vector<const Node*> all = regions();
  for (size_t i = 0; i < steps.size(); ++i) {
    if (steps[i].name == name) return FoundStep{&steps[i], all[i], true};
  }
  std::vector<std::string> names = step_names();
  for (const auto& [step, region] : idle_steps) {
    if (step.name == name) return FoundStep{&step, all[region], false};
    names.push_back(step.name);
  }
  return Fail(ErrorKind::kUsage, "target " + target + " has no kernel \"" + name + "\"" +
                                     DidYouMean(name, names) + "; it has " + Join(names, ", "));
}

Result<Explanation> ExplainArtifact(const std::string& path, const std::string& wanted,
                                    ArrayRef<std::string> dim_flags) {
  FUSEC_TRY(CheckArtifact(path));
  FUSEC_TRY(CheckNotSharded(path, "report"));
  const std::string file = path + "/manifest.json";
  FUSEC_ASSIGN(const std::string text, ReadWholeFile(file, ErrorKind::kArtifact));
  FUSEC_RUNTIME_ASSIGN(const runtime::Manifest manifest, runtime::ParseManifest(text, file));
  const Json json = Json::parse(text);  // cannot throw: the runtime has parsed the text above

  Explanation explanation;
  explanation.model = manifest.model;
  explanation.matmul_precision = manifest.matmul_precision;
  FUSEC_ASSIGN(explanation.target, ChooseTarget(manifest, wanted));
  FUSEC_ASSIGN(const auto cases, DimCases(dim_flags, DimRanges(manifest), {kDefaultSize}));
  if (cases.size() != 1) return Fail(ErrorKind::kUsage, "--dim takes one size per dim here");
  explanation.dims = cases[0];
  for (const runtime::TensorSignature& output : manifest.outputs) {
    if (output.sizes.empty()) continue;
    explanation.run_time_outputs.push_back(output.name + " " + TypeText(output));
  }
  const std::vector<int64_t> symbols = SymbolValues(manifest, explanation.dims);
  const runtime::Target& target = manifest.targets.at(explanation.target);
  FUSEC_ASSIGN(explanation.graph, ReadFusedGraph(path, explanation.target));
  const Json& steps = json["targets"][explanation.target]["steps"];
  std::vector<int> last_outputs;  // outputs of the last step that runs
  try {
    for (size_t i = 0; i < target.steps.size(); ++i) {
      FUSEC_RUNTIME_ASSIGN(bool runs, runtime::Runs(target.steps[i], symbols));
      FUSEC_ASSIGN(ExplainedStep step, ExplainStep(manifest, target.steps[i], steps[i], symbols));
      if (!runs && IsAlone(target, i)) {
        step.launch = "not at these dims, at which nothing reads its results";
        step.launches = step.bytes_read = step.bytes_written = step.flops = 0;
        runs = true;
      }
      if (!runs) {
        // Alternatives write the same buffers. The one that runs may come before or after this one.
        const size_t done = explanation.steps.size();
        const bool is_behind = done > 0 && target.steps[i].outputs == last_outputs;
        explanation.idle_steps.emplace_back(std::move(step), is_behind ? done - 1 : done);
        continue;
      }
      last_outputs = target.steps[i].outputs;
      explanation.after_launches += step.launches;
      explanation.after_bytes += step.bytes_read + step.bytes_written;
      explanation.steps.push_back(std::move(step));
    }
    FUSEC_TRY(FillStory(manifest, json, symbols, explanation));
    FUSEC_TRY(FillEdges(json["targets"][explanation.target], explanation));
  } catch (const WrongKey& wrong) {
    return Fail(ErrorKind::kArtifact, file + ": " + wrong.key + " has another type than expected");
  }
  if (const size_t regions = explanation.regions().size(); regions != explanation.steps.size()) {
    return Fail(ErrorKind::kArtifact,
                file + ": target " + explanation.target + " has " +
                    std::to_string(explanation.steps.size()) +
                    " steps for these dims, expected one for each of the graph's " +
                    std::to_string(regions) + " regions");
  }
  FUSEC_TRY(FillFootprint(manifest, target, symbols, explanation));
  FUSEC_ASSIGN(TuningFile tuning, ReadTuning(path));
  if (const auto found = tuning.find(explanation.target); found != tuning.end())
    explanation.tuning = std::move(found->second);
  return explanation;
}

std::string ExplanationJson(const Explanation& e) {
  Json kernels = Json::array(), not_fused = Json::array();
  for (const ExplainedStep& step : e.steps) {
    kernels.push_back({{"name", step.name},
                       {"class", step.op_class},
                       {"ops", step.ops},
                       {"onnx_nodes", step.onnx_nodes},
                       {"modules", step.modules},
                       {"launch", step.launch},
                       {"inputs", step.inputs},
                       {"outputs", step.outputs},
                       {"bytes_read", step.bytes_read},
                       {"bytes_written", step.bytes_written},
                       {"flops", step.flops}});
    if (!step.code.function.empty()) kernels.back()["function"] = step.code.function;
    if (!step.edited.empty()) kernels.back()["edited"] = {{"check", step.edited}};
  }
  for (const NotFusedEdge& edge : e.not_fused) {
    not_fused.push_back({{"producer", edge.producer},
                         {"consumer", edge.consumer},
                         {"reason", edge.reason},
                         {"needed", edge.needed},
                         {"tensor", edge.tensor},
                         {"type", edge.type},
                         {"bytes", edge.bytes},
                         {"producer_kernel", edge.producer_step},
                         {"consumer_kernel", edge.consumer_step}});
  }
  Json json = {{"model", e.model},
               {"target", e.target},
               {"matmul_precision", e.matmul_precision},
               {"rounding", e.rounding},
               {"index_policy", e.index_policy},
               {"batch_invariant", e.batch_invariant},
               {"dims", e.dims.empty() ? Json::object() : Json(e.dims)},
               {"launches", e.after_launches},
               {"kernels", kernels},
               {"not_fused", not_fused},
               {"before", {{"launches", e.before_launches}, {"bytes", e.before_bytes}}},
               {"after", {{"launches", e.after_launches}, {"bytes", e.after_bytes}}},
               {"footprint", {{"weight_bytes", e.weight_bytes}, {"arena_bytes", e.arena_bytes}}}};
  if (!e.stored_tables.empty()) json["table_storage"] = StoredTablesJson(e.stored_tables);
  if (!e.float8_products.empty()) json["fp8"] = Float8ProductsJson(e.float8_products);
  if (!e.placed_tables.empty()) {
    json["table_placement"] = PlacedTablesJson(e.placed_tables);
    json["footprint"]["host_bytes"] = e.host_bytes();
  }
  if (e.adapters) json["adapters"] = AdaptersJson(*e.adapters);
  if (e.requests) json["requests"] = RequestsJson(*e.requests);
  if (!e.run_time_outputs.empty()) json["run_time_outputs"] = e.run_time_outputs;
  if (e.tuning) json["tuning"] = TuningJson(*e.tuning);
  return json.dump(1);
}

StepCode CodeOf(const runtime::Manifest& manifest, const runtime::Step& step) {
  const auto hash = manifest.hashes.find(step.kernel.source);
  return {step.kernel.source, hash != manifest.hashes.end() ? hash->second : "",
          step.kernel.function};
}

Result<std::string> KernelText(const std::string& artifact, const StepCode& code) {
  const std::string file = artifact + "/" + code.source;
  FUSEC_ASSIGN(const std::string text, ReadWholeFile(file, ErrorKind::kArtifact));
  const std::string hash = runtime::Hash128(std::as_bytes(std::span(text)));
  if (hash != code.source_hash) {
    return Fail(ErrorKind::kArtifact,
                file + ": was altered: its hash is " + hash + ", expected " + code.source_hash);
  }
  if (code.source.ends_with(".cu")) return text;
  // The CPU's file holds all kernels, each of which begins with its header comment.
  const std::string heading = "// kernel  : ";
  const size_t begin = text.find(heading + code.function + " ");
  if (begin == std::string::npos) return text;
  const size_t end = text.find(heading, begin + 1);
  return text.substr(begin, end == std::string::npos ? end : end - begin);
}

}  // namespace fusec
