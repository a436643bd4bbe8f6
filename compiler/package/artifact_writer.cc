#include "compiler/package/artifact_writer.h"

#include <algorithm>
#include <deque>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <system_error>

#include "compiler/ir/host_table.h"
#include "compiler/ir/in_place.h"
#include "compiler/ir/op_def.h"
#include "compiler/package/artifact_folder.h"
#include "compiler/package/float8_products.h"
#include "compiler/package/placed_tables.h"
#include "compiler/package/specializations.h"
#include "compiler/package/stored_tables.h"
#include "compiler/package/weights_file.h"
#include "compiler/plan/matmul/weight_panels.h"
#include "compiler/support/check.h"
#include "compiler/support/gpu.h"

namespace fusec {

namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

// Assigns a number to every tensor that a step uses, in the order inputs, outputs, constants,
// arena. The graphs of all targets share the numbers of inputs, outputs and equal constants.
class BufferTable {
 public:
  explicit BufferTable(ArrayRef<TargetContents> targets) {
    const Graph& first = *targets.front().graph;
    for (size_t i = 0; i < first.inputs.size(); ++i) {
      for (const TargetContents& target : targets) {
        AddAs(first.inputs[i].get(), target.graph->inputs[i].get(), "input", first.InputName(i));
      }
    }
    for (size_t i = 0; i < first.outputs.size(); ++i) {
      for (const TargetContents& target : targets) {
        const char* kind = i < first.model_output_count() ? "output" : "sizes";
        AddAs(first.outputs[i], target.graph->outputs[i], kind, first.OutputName(i));
      }
      if (const Value* input = InputInPlaceOf(first.outputs[i])) {
        Json& json = json_[Number(first.outputs[i])];
        json["kind"] = "in_place";
        json["input"] = Number(input);
      }
    }
    for (const bool constants : {true, false}) {
      for (const TargetContents& target : targets) {
        for (const Step& step : target.plan.steps) AddStep(step, constants);
      }
    }
    for (const TargetContents& target : targets) AddUnread(*target.graph);
    for (const Node* cache : caches_) AddRowCache(*cache);
  }

  int Number(const Value* value, WeightLayout layout = WeightLayout::kPlain) const {
    auto found = numbers_.find({value, layout});
    FUSEC_CHECK(found != numbers_.end(), "no buffer for " + value->name);
    return found->second;
  }
  // The number of a constant that the kernels of all targets read in its plain layout.
  int NumberOf(const std::string& constant) const {
    for (size_t i = 0; i < json_.size(); ++i) {
      if (json_[i].value("tensor", "") == constant) return static_cast<int>(i);
    }
    FUSEC_CHECK(false, "no buffer for the table " + constant);
  }
  Json ToJson() const { return json_; }
  // The constants in buffer order, with their names in the weights file.
  const std::vector<std::pair<std::string, const TensorData*>>& constants() const {
    return constants_;
  }
  // The tables whose constants are in host memory.
  ArrayRef<PlacedTable> placed_tables() const { return placed_tables_; }
  Json RowCachesJson() const { return row_caches_; }

 private:
  void AddStep(const Step& step, bool constants) {
    auto add = [&](const Value* value, WeightLayout layout = WeightLayout::kPlain) {
      const bool is_constant = IsConstant(value);
      if (!value || is_constant != constants) return;
      if (is_constant)
        AddConstant(value, layout);
      else
        Add(value, "arena", value->name);
    };
    for (const KernelParameter& parameter : step.kernel.parameters) {
      add(parameter.value, parameter.layout);
      for (const Value* table : parameter.tables) add(table);
    }
    for (const Value* value : {step.matmul.a.value, step.matmul.b.value, step.matmul.bias,
                               step.matmul.addend, step.matmul.result}) {
      add(value);
    }
  }

  // Adds constants whose elements kernels contain as literals and that the text of the graph omits.
  // They are stored in the weights file for interpreters of the graph.
  void AddUnread(const Graph& graph) {
    for (const auto& node : graph.nodes) {
      if (node->kind != OpKind::kConstant || PrintsElements(*node)) continue;
      const auto known = numbers_.lower_bound({node->result(), WeightLayout::kPlain});
      if (known != numbers_.end() && known->first.first == node->result()) continue;
      const std::string& wanted = node->result()->name;
      const std::string key = wanted + " " + node->constant_hash;
      if (constant_numbers_.count(key) != 0 || !unread_.insert(key).second) continue;
      constants_.emplace_back(UnusedName(wanted, node->constant_hash), &node->constant);
    }
  }

  // Marks the last constant, which is a table or a part of one, as placed in host memory.
  void PlaceOnHost(const Node& constant) {
    json_.back()["placement"] = "host";
    const std::string& name = constant.Get<std::string>(kHostTable);
    auto table = std::find_if(placed_tables_.begin(), placed_tables_.end(),
                              [&](const PlacedTable& other) { return other.table == name; });
    if (table == placed_tables_.end()) table = placed_tables_.insert(placed_tables_.end(), {name});
    table->bytes += static_cast<int64_t>(constant.constant.byte_count());
  }

  // Adds a constant that stands for a row cache of a table.
  void AddRowCache(const Node& cache) {
    const std::string& constant = cache.Get<std::string>(kCachedTable);
    const Value* table = host_constants_.at(constant);
    row_caches_.push_back({{"cache", NumberOf(cache.result()->name)},
                           {"table", NumberOf(constant)},
                           {"table_rows", *table->type.shape[0].AsConstant()},
                           {"rows", cache.Int(kCachedRows)}});
    const std::string& name = table->producer->Get<std::string>(kHostTable);
    for (PlacedTable& placed : placed_tables_) {
      if (placed.table == name) placed.cached_rows = cache.Int(kCachedRows);
    }
  }

  // Adds `value`, which corresponds to `first` in another target's graph.
  void AddAs(const Value* first, const Value* value, const char* kind, const std::string& name) {
    Add(first, kind, name);
    numbers_.emplace(Key(value, WeightLayout::kPlain), Number(first));
  }

  void AddConstant(const Value* value, WeightLayout layout) {
    const std::string& hash = value->producer->constant_hash;
    const std::string wanted = value->name + LayoutSuffix(layout);
    const auto [number, is_new] =
        constant_numbers_.emplace(wanted + " " + hash, static_cast<int>(json_.size()));
    const bool is_known = !numbers_.emplace(Key(value, layout), number->second).second;
    if (is_known || !is_new) return;
    const std::string name = UnusedName(wanted, hash);
    const TensorData* data = &value->producer->constant;
    if (layout != WeightLayout::kPlain) data = &made_.emplace_back(InLayout(*data, layout));
    AddJson("constant", name, value->type.dtype, std::to_string(data->element_count()));
    json_.back()["tensor"] = name;
    constants_.emplace_back(name, data);
    if (IsHostTable(value)) {
      PlaceOnHost(*value->producer);
      host_constants_[value->name] = value;
    }
    if (value->producer->Has(kCachedTable)) caches_.push_back(value->producer);
  }

  // Different targets may have different constants of the same name.
  std::string UnusedName(const std::string& wanted, const std::string& hash) {
    return constant_names_.insert(wanted).second ? wanted : wanted + "." + hash;
  }

  void Add(const Value* value, const char* kind, const std::string& name) {
    const Key key(value, WeightLayout::kPlain);
    if (!numbers_.emplace(key, static_cast<int>(json_.size())).second) return;
    AddJson(kind, name, value->type.dtype, value->type.ElementCount().ToString());
  }

  void AddJson(const char* kind, const std::string& name, Dtype dtype,
               const std::string& elements) {
    json_.push_back(
        {{"name", name}, {"kind", kind}, {"dtype", DtypeName(dtype)}, {"elements", elements}});
  }

  using Key = std::pair<const Value*, WeightLayout>;
  std::map<Key, int> numbers_;                     // looked up only, never iterated
  std::map<std::string, int> constant_numbers_;    // by name and hash
  std::set<std::string> constant_names_, unread_;  // unread_ by name and hash
  Json json_ = Json::array();
  std::vector<std::pair<std::string, const TensorData*>> constants_;
  std::vector<PlacedTable> placed_tables_;
  std::map<std::string, const Value*> host_constants_;  // by name
  std::vector<const Node*> caches_;                     // constants that stand for row caches
  Json row_caches_ = Json::array();
  std::deque<TensorData> made_;  // constants that were converted to another layout
};

Json ShapeJson(ShapeRef shape) {
  Json json = Json::array();
  for (const Expr& dim : shape) json.push_back(dim.ToString());
  return json;
}

Json SignatureJson(const std::string& name, const Value* value, const BufferTable& buffers) {
  return {{"name", name},
          {"dtype", DtypeName(value->type.dtype)},
          {"shape", ShapeJson(value->type.shape)},
          {"buffer", buffers.Number(value)}};
}

Json ProvenanceJson(const Provenance& provenance) {
  Json json = Json::array();
  for (const Origin& origin : provenance) {
    Json item = {{"node", origin.onnx_node}, {"op", origin.onnx_op}};
    if (!origin.module_path.empty()) item["module"] = origin.module_path;
    if (!origin.source_line.empty()) item["line"] = origin.source_line;
    json.push_back(std::move(item));
  }
  return json;
}

Json KernelJson(const KernelPlan& plan, const TargetContents& target, const BufferTable& buffers) {
  Json arguments = Json::array(), inputs = Json::array(), outputs = Json::array();
  for (const KernelParameter& parameter : plan.parameters) {
    switch (parameter.kind) {
      case KernelParameter::Kind::kBuffer:
        arguments.push_back({{"buffer", buffers.Number(parameter.value, parameter.layout)}});
        (parameter.written ? outputs : inputs)
            .push_back(buffers.Number(parameter.value, parameter.layout));
        break;
      case KernelParameter::Kind::kTables: {
        Json tables = Json::array();
        for (const Value* table : parameter.tables) {
          tables.push_back(buffers.Number(table));
          inputs.push_back(buffers.Number(table));
        }
        arguments.push_back({{"buffers", tables}});
        break;
      }
      case KernelParameter::Kind::kDim:
        arguments.push_back({{"dim", parameter.dim.ToString()},
                             {"type", plan.index_type == "int" ? "i32" : "i64"}});
        break;
      case KernelParameter::Kind::kErrors:
        arguments.push_back({{"errors", true}});
        break;
    }
  }
  const bool gpu = target.plan.target == TargetKind::kGpu;
  Json json = {{"kind", "kernel"},
               {"name", plan.name},
               {"class", RegionClassText(plan.region_class)},
               {"ops", plan.ops},
               {"onnx_nodes", ProvenanceJson(plan.provenance)},
               {"source", gpu ? "kernels/" + plan.function() + ".cu" : "cpu/kernels.cc"},
               {"launch", plan.launch_in_words},
               {"blocks", plan.blocks.ToString()},
               {"block_size", plan.block_size},
               {"shared_bytes", plan.shared_bytes},
               {"dependent_launch", plan.dependent_launch},
               {"outputs_in_device_memory", plan.outputs_in_device_memory},
               {"arguments", arguments},
               {"inputs", inputs},
               {"outputs", outputs},
               {"bytes_read", plan.bytes_read.ToString()},
               {"bytes_written", plan.bytes_written.ToString()},
               {"flops", plan.flops.ToString()}};
  if (plan.function() != plan.name) json["function"] = plan.function();
  const auto module = target.modules.find(plan.function());
  if (module != target.modules.end()) json["module"] = module->second;
  return json;
}

Json MatMulJson(const MatMulPlan& plan, const BufferTable& buffers) {
  auto operand = [&](const MatMulPlan::Operand& o) {
    return Json{{"buffer", buffers.Number(o.value)},
                {"offset", "0"},
                {"batch_stride", o.batch_stride.ToString()}};
  };
  Json inputs = {buffers.Number(plan.a.value), buffers.Number(plan.b.value)};
  for (const Value* value : {plan.bias, plan.addend}) {
    if (value) inputs.push_back(buffers.Number(value));
  }
  Json json = {{"kind", "matmul"},
               {"name", plan.name},
               {"class", RegionClassText(RegionClass::kMatMul)},
               {"ops", plan.ops},
               {"onnx_nodes", ProvenanceJson(plan.provenance)},
               {"dtype", DtypeName(plan.dtype)},
               {"m", plan.m.ToString()},
               {"n", plan.n.ToString()},
               {"k", plan.k.ToString()},
               {"batch", plan.batch.ToString()},
               {"a", operand(plan.a)},
               {"b", operand(plan.b)},
               {"d",
                {{"buffer", buffers.Number(plan.result)},
                 {"offset", "0"},
                 {"batch_stride", (plan.m * plan.n).ToString()}}},
               {"transpose_a", plan.a.transposed},
               {"transpose_b", plan.b.transposed},
               {"bias", plan.bias ? buffers.Number(plan.bias) : -1},
               {"activation", plan.activation},
               {"inputs", inputs},
               {"outputs", {buffers.Number(plan.result)}},
               {"bytes_read", plan.bytes_read.ToString()},
               {"bytes_written", plan.bytes_written.ToString()},
               {"flops", plan.flops.ToString()}};
  if (!plan.bias_stride.IsConstant(0)) json["bias_stride"] = plan.bias_stride.ToString();
  if (plan.addend) json["addend"] = buffers.Number(plan.addend);
  if (!plan.algorithm.empty()) json["algorithm"] = plan.algorithm;
  return json;
}

Json NotFusedJson(const TargetContents& target) {
  Json not_fused = Json::array();
  for (const NotFused& edge : target.not_fused) {
    not_fused.push_back({{"producer", edge.producer},
                         {"consumer", edge.consumer},
                         {"tensor", edge.tensor},
                         {"producer_region", edge.producer_region},
                         {"consumer_region", edge.consumer_region},
                         {"reason", edge.reason},
                         {"needed", edge.needed}});
  }
  return not_fused;
}

void AddOutputs(const Graph& graph, const BufferTable& buffers, Json& json) {
  Json& outputs = json["outputs"] = Json::array();
  const size_t count = graph.model_output_count();
  for (size_t i = 0; i < count; ++i) {
    outputs.push_back(SignatureJson(graph.OutputName(i), graph.outputs[i], buffers));
    const Value* input = InputInPlaceOf(graph.outputs[i]);
    for (size_t j = 0; j < graph.inputs.size(); ++j) {
      if (graph.inputs[j].get() == input) outputs.back()["in_place"] = graph.InputName(j);
    }
  }
  for (size_t k = 0; k < graph.run_time_sizes.size(); ++k) {
    const auto& [output, axis] = graph.run_time_sizes[k];
    Json& sizes = outputs[output]["sizes"];
    if (sizes.is_null()) sizes = std::vector<int>(graph.outputs[output]->type.rank(), -1);
    sizes[axis] = k;
  }
  if (count == graph.outputs.size()) return;
  json["run_time_sizes"] = SignatureJson(graph.OutputName(count), graph.outputs[count], buffers);
}

Json ManifestJson(const ArtifactContents& contents, const BufferTable& buffers,
                  const std::map<std::string, std::string>& hashes) {
  const Graph& graph = *contents.targets.front().graph;
  auto metadata = [&](const char* key) {
    auto found = graph.metadata.find(key);
    return found == graph.metadata.end() ? std::string() : found->second;
  };
  Json json = {{"format", "fusec-artifact"},
               {"version", 5},
               {"model", metadata("file")},
               {"opset", metadata("opset")},
               {"matmul_precision", contents.matmul_precision},
               {"rounding", contents.round_every_op ? "every op" : "stores"},
               {"index_policy", contents.index_policy}};
  if (contents.matmul_precision == "fp8")
    json["fp8"] = Float8Json(contents.float8_budget, contents.float8_products);
  if (contents.batch_invariant) json["batch_invariant"] = true;
  if (!contents.disabled_fusions.empty()) json["disabled_fusions"] = contents.disabled_fusions;
  if (!contents.updatable.empty()) json["updatable"] = contents.updatable;
  if (!contents.frozen_inputs.empty()) json["frozen_inputs"] = contents.frozen_inputs;
  if (!contents.stored_tables.empty())
    json["table_storage"] = StoredTablesJson(contents.stored_tables);
  if (!buffers.placed_tables().empty())
    json["table_placement"] = PlacedTablesJson(buffers.placed_tables());
  if (contents.requests) json["requests"] = RequestsJson(*contents.requests);
  if (!contents.table_cache.empty()) json["table_cache"] = contents.table_cache;
  if (contents.adapters) json["adapters"] = AdaptersJson(*contents.adapters);
  Json symbols = Json::array();
  for (const DimSymbol& symbol : graph.symbols) {
    symbols.push_back({{"name", symbol.name}, {"min", symbol.low}, {"max", symbol.high}});
  }
  json["symbols"] = symbols;
  json["inputs"] = Json::array();
  for (size_t i = 0; i < graph.inputs.size(); ++i) {
    Json& input = json["inputs"].emplace_back(
        SignatureJson(graph.InputName(i), graph.inputs[i].get(), buffers));
    const auto found = contents.index_limits.find(graph.InputName(i));
    if (found != contents.index_limits.end()) {
      input["index_limits"] = ShapeJson(found->second.limits);
      if (found->second.limits.size() > 1) input["index_axis"] = found->second.axis;
    }
    if (contents.ascending_inputs.count(graph.InputName(i)) != 0) input["ascending"] = true;
    const auto total = contents.totals.find(graph.InputName(i));
    if (total != contents.totals.end()) input["total"] = total->second.ToString();
  }
  AddOutputs(graph, buffers, json);
  json["buffers"] = buffers.ToJson();
  if (!contents.tables.empty()) {
    json["tables"] = RowTablesJson(contents.tables,
                                   [&](const std::string& name) { return buffers.NumberOf(name); });
  }
  if (!contents.specializations.empty())
    json["specialized"] = SpecializationsJson(contents.specializations);
  if (const Json caches = buffers.RowCachesJson(); !caches.empty()) json["row_caches"] = caches;
  Json sites = Json::array();
  for (const IndexSite& site : contents.sites) {
    sites.push_back({{"node", site.node},
                     {"tensor", site.tensor},
                     {"input", site.input},
                     {"shape", ShapeJson(site.shape)},
                     {"extent", site.extent.ToString()}});
    if (site.values == IndexValues::kLength) sites.back()["length"] = true;
    if (site.values == IndexValues::kSlot) sites.back()["slot"] = true;
  }
  json["index_sites"] = sites;
  Json targets = Json::object();
  for (const TargetContents& target : contents.targets) {
    Json steps = Json::array();
    for (const Step& step : target.plan.steps) {
      steps.push_back(step.is_matmul ? MatMulJson(step.matmul, buffers)
                                     : KernelJson(step.kernel, target, buffers));
      if (const auto& alternative = step.alternative) {
        steps.back()["when"] = {{"size", alternative->size.ToString()},
                                {"from", alternative->from},
                                {"to", alternative->to}};
        if (alternative->by_waves) steps.back()["when"]["by_waves"] = true;
      }
    }
    Json& json_target = targets[target.name];
    json_target = {{"files", target.files},
                   {"ir", target.ir},
                   {"steps", steps},
                   {"not_fused", NotFusedJson(target)}};
    if (target.plan.target == TargetKind::kGpu)
      json_target["multiprocessors"] = GpuFor(target.name).multiprocessors();
  }
  json["targets"] = targets;
  json["before"] = {{"launches", contents.launches_before},
                    {"bytes", contents.bytes_before.ToString()}};
  json["warnings"] = contents.warnings;
  json["files"] = hashes;
  return json;
}

}  // namespace

struct ArtifactImage::Parts {
  const ArtifactContents& contents;
  BufferTable buffers;
};

ArtifactImage::ArtifactImage(const ArtifactContents& contents)
    : parts_(new Parts{contents, BufferTable(contents.targets)}) {}

ArtifactImage::~ArtifactImage() = default;

Json ArtifactImage::Manifest(const std::map<std::string, std::string>& hashes) const {
  return ManifestJson(parts_->contents, parts_->buffers, hashes);
}

Result<std::string> ArtifactImage::WriteWeights(const std::string& folder) const {
  return fusec::WriteWeights(folder + "/" + kWeightsFile, parts_->buffers.constants());
}

namespace {

Result<void> WriteInto(const std::string& folder, const ArtifactContents& contents) {
  const ArtifactImage image(contents);
  std::map<std::string, std::string> hashes;
  FUSEC_ASSIGN(hashes[kWeightsFile], image.WriteWeights(folder));
  for (const auto& [path, bytes] : contents.files) {
    std::error_code error;
    fs::create_directories(fs::path(folder + "/" + path).parent_path(), error);
    if (error)
      return Fail(ErrorKind::kUsage, "cannot create a folder for " + path + ": " + error.message());
    FUSEC_TRY(WriteFile(folder + "/" + path, bytes));
    hashes[path] = HashOf(bytes);
  }
  return WriteFile(folder + "/manifest.json", ManifestText(image.Manifest(hashes)));
}

}  // namespace

Result<void> WriteArtifact(const std::string& path, const ArtifactContents& contents) {
  FUSEC_TRY(ReplaceFolder(path, [&](const std::string& folder) -> Result<bool> {
    FUSEC_TRY(WriteInto(folder, contents));
    return true;
  }));
  return {};
}

}  // namespace fusec
