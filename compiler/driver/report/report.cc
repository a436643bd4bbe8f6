#include "compiler/driver/report/report.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "compiler/driver/report/line_links.h"
#include "compiler/driver/report/origins.h"
#include "compiler/ir/op_def.h"
#include "compiler/support/gpu.h"

namespace fusec {

namespace {

using Json = nlohmann::ordered_json;

template <class T>
Json JsonOf(const std::optional<T>& value) {
  return value ? Json(*value) : Json();
}

// Builds the document. Its lists are filled kernel by kernel.
class Writer {
 public:
  Writer(const std::string& artifact, const ReportContents& contents)
      : artifact_(artifact),
        contents_(contents),
        e_(contents.explanation),
        regions_(e_.regions()),
        origins_(*e_.graph) {}

  Result<std::string> Write() {
    json_ = Json::parse(WithResources(ExplanationJson(e_), contents_.resources));
    json_["opset"] = e_.opset;
    json_["nodes"] = Json::array();
    for (const Origin& origin : origins_.all()) {
      json_["nodes"].push_back({{"name", origin.onnx_node},
                                {"op", origin.onnx_op},
                                {"module", origin.module_path},
                                {"line", origin.source_line}});
    }
    AddValues();
    for (size_t i = 0; i < regions_.size(); ++i) FUSEC_TRY(AddKernel(i));
    json_["values"] = std::move(values_);
    AddEdges();
    AddIr();
    json_["sources"] = std::move(sources_);
    json_["texts"] = std::move(texts_);
    AddTimes();
    // Names may contain any bytes; invalid UTF-8 is replaced by U+FFFD.
    return json_.dump(-1, ' ', true, Json::error_handler_t::replace);
  }

 private:
  void AddValue(const Value& value, const std::string& label, const char* kind, const Json& maker) {
    places_[&value] = values_.size();
    values_.push_back({{"name", value.name},
                       {"label", label},
                       {"type", value.type.ToString()},
                       {"bytes", value.type.Bytes().Evaluate(e_.dims).value_or(0)},
                       {"kind", kind},
                       {"outputs", Json::array()},
                       {"producer", maker},
                       {"readers", Json::array()}});
  }

  // Adds all tensors in memory: inputs, weights, and results of kernels.
  void AddValues() {
    for (size_t i = 0; i < e_.graph->inputs.size(); ++i)
      AddValue(*e_.graph->inputs[i], e_.graph->InputName(i), "input", Json());
    size_t region = 0;
    for (const auto& node : e_.graph->nodes) {
      const bool is_region = node->kind == OpKind::kRegion;
      for (const auto& result : node->results) {
        AddValue(*result, result->name, is_region ? "memory" : "weight",
                 is_region ? Json(region) : Json());
      }
      if (!is_region) continue;
      for (const Value* operand : node->operands) {
        Json& readers = values_[places_.at(operand)]["readers"];
        if (readers.empty() || readers.back() != region) readers.push_back(region);
      }
      ++region;
    }
    for (size_t i = 0; i < e_.graph->outputs.size(); ++i)
      values_[places_.at(e_.graph->outputs[i])]["outputs"].push_back(e_.graph->OutputName(i));
  }

  Json OpJson(const Node& region, const Node& node, const DenseMap<const Value*, size_t>& made) {
    Json from = Json::array(), reads = Json::array(), nodes = Json::array();
    for (const Value* operand : node.operands) {
      if (operand == nullptr) continue;
      if (const auto found = made.find(operand); found != made.end()) {
        from.push_back(found->second);
        continue;
      }
      for (size_t i = 0; i < region.operands.size(); ++i) {
        if (region.body->inputs[i].get() == operand)
          reads.push_back(places_.at(region.operands[i]));
      }
    }
    for (const Origin& origin : node.provenance) nodes.push_back(origins_.PlaceOf(origin));
    return {{"op", GetOpDef(node.kind).text},
            {"value", node.result()->name},
            {"type", node.result()->type.ToString()},
            {"nodes", nodes},
            {"from", from},
            {"reads", reads}};
  }

  // The index of a kernel's code among the sources; null for a product of the library. Steps that
  // share a function share its text, whose locals are named after the tensors of the first of them.
  Result<Json> SourceOf(const ExplainedStep& step, const Node& region) {
    if (step.code.source.empty()) return Json();
    const Node* owner = &region;
    for (size_t i = 0; i < regions_.size(); ++i) {
      if (e_.steps[i].name == step.code.function && HaveEqualOps(*regions_[i], region))
        owner = regions_[i];
    }
    const auto key = std::pair(step.code.function, owner);
    for (size_t i = 0; i < source_keys_.size(); ++i) {
      if (source_keys_[i] == key) return Json(i);
    }
    FUSEC_ASSIGN(const std::string text, KernelText(artifact_, step.code));
    Json ops = Json::object();
    for (const auto& [line, places] : LinkCodeLines(text, *owner->body))
      ops[std::to_string(line)] = places;
    sources_.push_back({{"file", step.code.source},
                        {"function", step.code.function},
                        {"parts", PartsOf(text)},
                        {"ops", ops}});
    source_keys_.push_back(key);
    return Json(sources_.size() - 1);
  }

  // A text as indices into the list of texts, which has device functions that kernels share only
  // once.
  Json PartsOf(const std::string& text) {
    Json parts = Json::array();
    for (size_t begin = 0; begin < text.size();) {
      const size_t end = std::min({text.find("\n// ---- from ", begin),
                                   text.find("\n// kernel  : ", begin), text.size() - 1}) +
                         1;
      const auto [found, is_new] =
          text_places_.emplace(text.substr(begin, end - begin), texts_.size());
      if (is_new) texts_.push_back(found->first);
      parts.push_back(found->second);
      begin = end;
    }
    return parts;
  }

  static bool HaveEqualOps(const Node& a, const Node& b) {
    const auto &left = a.body->nodes, &right = b.body->nodes;
    return std::equal(left.begin(), left.end(), right.begin(), right.end(),
                      [](const auto& x, const auto& y) { return x->kind == y->kind; });
  }

  Result<void> AddKernel(size_t number) {
    const Node& region = *regions_[number];
    Json& kernel = json_["kernels"][number];
    DenseMap<const Value*, size_t> made;  // never iterated, as its order varies
    kernel["body"] = Json::array();
    for (size_t i = 0; i < region.body->nodes.size(); ++i) {
      const Node& node = *region.body->nodes[i];
      kernel["body"].push_back(OpJson(region, node, made));
      for (const auto& result : node.results) made[result.get()] = i;
    }
    kernel["writes"] = Json::array();
    for (size_t i = 0; i < region.results.size(); ++i) {
      const auto from = made.find(region.body->outputs[i]);
      kernel["writes"].push_back({{"value", places_.at(region.result(static_cast<int>(i)))},
                                  {"from", from == made.end() ? Json() : Json(from->second)}});
    }
    FUSEC_ASSIGN(kernel["source"], SourceOf(e_.steps[number], region));
    kernel["other_sizes"] = Json::array();
    for (const auto& [step, of] : e_.idle_steps) {
      if (of != number) continue;
      FUSEC_ASSIGN(const Json source, SourceOf(step, region));
      kernel["other_sizes"].push_back(
          {{"name", step.name}, {"launch", step.launch}, {"source", source}});
    }
    return {};
  }

  void AddEdges() {
    for (Json& edge : json_["not_fused"]) {
      const auto kernel = [&](const char* key) {
        const auto& steps = e_.steps;
        const auto found = std::find_if(steps.begin(), steps.end(), [&](const ExplainedStep& step) {
          return edge[key] == step.name;
        });
        return found == steps.end() ? Json() : Json(found - steps.begin());
      };
      const auto& values = json_["values"];
      const auto value = std::find_if(values.begin(), values.end(), [&](const Json& item) {
        return item["kind"] == "memory" && item["name"] == edge["tensor"];
      });
      edge["value"] = value == values.end() ? Json() : Json(value - values.begin());
      edge["from"] = kernel("producer_kernel");
      edge["to"] = kernel("consumer_kernel");
    }
  }

  void AddIr() {
    const std::string text = Print(*e_.graph);
    Json links = Json::object(), values = Json::object();
    const std::vector<IrLine> lines = LinkIrLines(text, *e_.graph);
    for (size_t i = 0; i < lines.size(); ++i) {
      const IrLine& line = lines[i];
      if (line.value != nullptr) values[std::to_string(i)] = places_.at(line.value);
      if (!line.region) continue;
      Json& link = links[std::to_string(i)] = {*line.region};
      if (!line.op) continue;
      link.push_back(*line.op);
      json_["kernels"][*line.region]["body"][*line.op]["line"] = i;
    }
    json_["ir"] = {{"file", e_.target == "cpu" ? "ir/cpu.ir" : "ir/gpu.ir"},
                   {"text", text},
                   {"links", links},
                   {"values", values}};
  }

  void AddTimes() {
    Json& runs = json_["runs"] = Json::array();
    for (const MeasuredRun& run : contents_.runs) {
      runs.push_back({{"device", run.device},
                      {"dims", run.dims},
                      {"device_us", JsonOf(run.device_us)},
                      {"call_us", JsonOf(run.call_us)}});
    }
    const Gpu* gpu = FindGpu(e_.target);
    if (gpu != nullptr) {
      json_["peaks"] = {{"bytes_per_second", gpu->card->bytes_per_second},
                        {"f32_per_second", gpu->card->f32_flops},
                        {"tf32_per_second", gpu->card->tf32_flops},
                        {"f16_per_second", gpu->card->f16_flops},
                        {"source", "data sheet of " + std::string(gpu->card->name)}};
    }
    if (!contents_.measured) return;
    const MeasuredRun& run = *contents_.measured;
    if (run.peaks.bytes_per_second > 0) {
      Json& peaks = json_["peaks"];
      peaks["bytes_per_second"] = run.peaks.bytes_per_second;
      if (run.peaks.f32_per_second > 0) peaks["f32_per_second"] = run.peaks.f32_per_second;
      peaks["source"] = run.device + ": " + run.peaks.source;
    }
    for (size_t i = 0; i < run.steps.size(); ++i) {
      json_["kernels"][i]["measured"] = {{"us", run.steps[i].us}, {"p99_us", run.steps[i].p99_us}};
    }
  }

  const std::string& artifact_;
  const ReportContents& contents_;
  const Explanation& e_;
  const std::vector<const Node*> regions_;
  const Origins origins_;
  Json json_, values_ = Json::array(), sources_ = Json::array(), texts_ = Json::array();
  DenseMap<const Value*, size_t> places_;  // never iterated, as its order varies
  std::map<std::string, size_t> text_places_;
  std::vector<std::pair<std::string, const Node*>> source_keys_;
};

// The flags of --dim for a text such as "batch=64, items=10".
std::vector<std::string> DimFlags(const std::string& dims) {
  std::vector<std::string> flags;
  for (size_t begin = 0; begin < dims.size();) {
    const size_t end = std::min(dims.find(", ", begin), dims.size());
    const std::string flag = dims.substr(begin, end - begin);
    if (flag.find('=') != flag.npos) flags.push_back(flag);
    begin = end + 2;
  }
  return flags;
}

}  // namespace

Result<ReportContents> ReadReport(const std::string& artifact, const std::string& target,
                                  ArrayRef<std::string> dim_flags, const std::string& bench) {
  ReportContents contents;
  std::vector<std::string> dims(dim_flags.begin(), dim_flags.end());
  std::string wanted = target;
  if (!bench.empty()) {
    FUSEC_ASSIGN(contents.runs, ReadBenchFile(bench));
    const MeasuredRun& last = contents.runs.back();
    if (dims.empty()) dims = DimFlags(last.dims);
    if (wanted.empty() && last.device.starts_with("cpu")) wanted = "cpu";
  }
  Result<Explanation> explanation = ExplainArtifact(artifact, wanted, dims);
  if (!explanation && explanation.error().kind != ErrorKind::kArtifact && !bench.empty() &&
      dim_flags.empty() && target.empty()) {
    return Fail(ErrorKind::kInput, bench + ": was measured on another artifact or target: " +
                                       explanation.error().message);
  }
  FUSEC_ASSIGN(contents.explanation, std::move(explanation));
  if (!bench.empty()) {
    FUSEC_ASSIGN(contents.measured, FindRun(contents.runs, contents.explanation, bench));
  }
  if (contents.explanation.target.starts_with("sm_")) {
    FUSEC_ASSIGN(contents.resources, ReadCubinResources(artifact, contents.explanation.target));
  }
  return contents;
}

Result<std::string> ReportJson(const std::string& artifact, const ReportContents& contents) {
  return Writer(artifact, contents).Write();
}

}  // namespace fusec
