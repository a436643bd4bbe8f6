#include "compiler/driver/verify/verify_subject.h"

#include <algorithm>
#include <filesystem>

#include "compiler/driver/artifact/input_flags.h"
#include "compiler/driver/build/recorded_flags.h"
#include "compiler/reference/interpreter.h"
#include "compiler/support/adt.h"
#include "runtime/src/cuda/cuda_pieces.h"

namespace fusec {

namespace {

const std::vector<int64_t> kDefaultSizes = {1, 2, 5, 64};

bool IsFolder(const std::string& path) {
  std::error_code error;
  return std::filesystem::is_directory(path, error);
}

// The targets to compile for if only --device is given.
std::vector<std::string> TargetsFor(const std::string& device) {
  if (device == "cpu") return {"cpu"};
  if (const auto gpu = runtime::GpuArchitecture()) return {*gpu};
  return {device.empty() ? "cpu" : "sm_90a"};
}

// The path of the model; "" for an artifact whose model is neither given nor needed.
Result<std::string> ModelOf(const VerifyFlags& flags, bool needed) {
  if (!IsFolder(flags.subject)) return flags.subject;
  if (!flags.model.empty() || !needed) return flags.model;
  return Fail(ErrorKind::kUsage, "verifying the artifact " + flags.subject +
                                     " needs the model that it was made from (--model MODEL.onnx)");
}

// Sets a flag to the value with which the artifact was compiled. A flag that was given must have
// that value.
Result<void> TakeFlag(const char* name, const std::string& artifact,
                      const std::optional<std::string>& decided, std::optional<std::string>& flag) {
  if (flag && flag != decided) {
    const std::string with = decided ? std::string("with ") + name + " " + *decided : "without it";
    return Fail(ErrorKind::kUsage, std::string(name) + " " + *flag + ": " + artifact +
                                       " was compiled " + with + ", and is verified as it is");
  }
  flag = decided;
  return {};
}

Result<void> TakeSwitch(const char* name, const std::string& artifact, bool decided, bool& flag) {
  if (flag && !decided)
    return Fail(ErrorKind::kUsage, std::string(name) + ": " + artifact +
                                       " was compiled without it, and is verified as it is");
  flag = decided;
  return {};
}

// Fails if placement flags are given that put other tables into host memory than the artifact does.
Result<void> CheckPlacement(const std::string& artifact, const nlohmann::ordered_json& manifest,
                            ArrayRef<std::string> flags) {
  if (flags.empty()) return {};
  std::vector<TablePlacement> placements;
  for (const std::string& flag : flags) {
    FUSEC_ASSIGN(TablePlacement placement, ParseTablePlacement(flag));
    placements.push_back(std::move(placement));
  }
  FUSEC_ASSIGN(const auto decided, RecordedPlacement(artifact, manifest));
  for (const auto& [table, on_host] : decided) {
    if (LiesOnHost(placements, table) == on_host) continue;
    return Fail(ErrorKind::kUsage, "--table-placement: table \"" + table + "\" of " + artifact +
                                       " lies in " + (on_host ? "host" : "device") +
                                       " memory, and is verified as it is");
  }
  return {};
}

// Sets the flags to those with which the artifact was compiled, as its manifest records them. A
// given flag that contradicts them is an error.
Result<void> TakeFlags(const std::string& artifact, ModelFlags& flags) {
  FUSEC_ASSIGN(const auto manifest, ReadManifest(artifact));
  const std::string wire =
      manifest.value(nlohmann::ordered_json::json_pointer("/shards/wire"), "f32");
  if (wire != "f32") {
    return Fail(ErrorKind::kUsage, artifact + " rounds the answers of its shards (--wire " + wire +
                                       "), so it differs from its model by more than the order of "
                                       "sums: expected one that was sharded with --wire f32");
  }
  FUSEC_ASSIGN(const ModelFlags recorded, RecordedFlags(artifact, manifest));
  FUSEC_TRY(
      TakeFlag("--matmul-precision", artifact, recorded.matmul_precision, flags.matmul_precision));
  if (flags.float8_budget && flags.float8_budget != recorded.float8_budget) {
    return Fail(ErrorKind::kUsage, "--fp8-budget: " + artifact +
                                       " was compiled with another, and is verified as it is");
  }
  flags.float8_budget = recorded.float8_budget;
  FUSEC_TRY(TakeFlag("--index-policy", artifact, recorded.index_policy, flags.index_policy));
  FUSEC_TRY(TakeFlag("--table-cache", artifact, recorded.table_cache, flags.table_cache));
  FUSEC_TRY(TakeFlag("--adapters", artifact, recorded.adapters, flags.adapters));
  FUSEC_TRY(TakeSwitch("--request-map", artifact, recorded.request_map, flags.request_map));
  if (!flags.per_request.empty() && flags.per_request != recorded.per_request) {
    return Fail(ErrorKind::kUsage,
                "--per-request " + Join(flags.per_request, ",") + ": " + artifact +
                    " was compiled " +
                    (recorded.per_request.empty()
                         ? "without it"
                         : "with --per-request " + Join(recorded.per_request, ",")) +
                    ", and is verified as it is");
  }
  flags.per_request = recorded.per_request;
  if (!flags.in_place.empty() && flags.in_place != recorded.in_place) {
    return Fail(ErrorKind::kUsage,
                "--in-place: " + artifact + " was compiled with another, and is verified as it is");
  }
  flags.in_place = recorded.in_place;
  FUSEC_TRY(
      TakeSwitch("--round-every-op", artifact, recorded.round_every_op, flags.round_every_op));
  FUSEC_TRY(
      TakeSwitch("--batch-invariant", artifact, recorded.batch_invariant, flags.batch_invariant));
  if (flags.table_storage.empty()) flags.table_storage = recorded.table_storage;
  FUSEC_TRY(CheckPlacement(artifact, manifest, flags.table_placement));
  flags.table_placement = recorded.table_placement;
  flags.disabled_fusions.insert(flags.disabled_fusions.end(), recorded.disabled_fusions.begin(),
                                recorded.disabled_fusions.end());
  flags.updatable = recorded.updatable;
  return {};
}

std::string StorageText(ArrayRef<StoredTable> tables) {
  std::vector<std::string> texts;
  for (const StoredTable& table : tables) texts.push_back(table.table + "=" + table.storage);
  return texts.empty() ? "as the model has them" : Join(texts, ", ");
}

// Stores the tables of the subject's graph as the program does, and keeps a copy of the graph with
// the model's own tables.
Result<void> StoreTables(const std::map<std::string, std::string>& constant_names,
                         Subject& subject) {
  if (subject.options.table_storage.empty()) return {};
  subject.with_own_tables = subject.graph->Clone();
  PassManager manager;
  manager.options.table_storage = subject.options.table_storage;
  manager.options.constant_names = constant_names;
  FUSEC_TRY(manager.Run(*subject.graph, {"quantize-tables"}));
  FUSEC_ASSIGN(const auto manifest, ReadManifest(subject.artifact));
  FUSEC_ASSIGN(const auto stored, RecordedTables(subject.artifact, manifest));
  const auto found = StorageText(manager.report().stored_tables);
  if (found == StorageText(stored)) return {};
  return Fail(ErrorKind::kUsage, "--table-storage stores " + found + ", but " + subject.artifact +
                                     " stores " + StorageText(stored) +
                                     ", and is verified as it is");
}

Result<void> ApplyIndexPolicy(const std::string& policy, const PerRequest& per_request,
                              Graph& graph) {
  if (policy == "error") return {};
  PassManager manager;
  manager.options.per_request = per_request;
  manager.options.index_policy = policy;
  return manager.Run(graph, {"decompose", "index-policy"});
}

}  // namespace

Result<Subject> LoadSubject(const VerifyFlags& flags, ProgressLine& progress,
                            const std::string& folder, bool needs_model) {
  Subject subject;
  FUSEC_ASSIGN(subject.model, ModelOf(flags, needs_model));
  subject.model_flags = flags.model_flags;
  subject.options.model_path = subject.model;
  subject.artifact = flags.subject;
  const bool is_artifact = IsFolder(flags.subject);
  if (is_artifact) {
    FUSEC_ASSIGN(subject.program, LoadProgram(subject.artifact, flags.device));
    FUSEC_TRY(TakeFlags(subject.artifact, subject.model_flags));
  }
  FUSEC_TRY(ApplyModelFlags(subject.model_flags, subject.options));
  if (!is_artifact) {
    subject.artifact = folder + "/artifact";
    subject.options.output_path = subject.artifact;
    subject.options.targets = TargetsFor(flags.device);
    subject.options.cpu_level = "native";
    subject.options.progress = [&](const std::string& stage, double fraction) {
      progress.Update(stage, fraction);
    };
    FUSEC_ASSIGN(const CompileReport report, CompileModel(subject.options));
    for (const std::string& warning : report.warnings) PrintWarning(warning);
    FUSEC_ASSIGN(subject.program, LoadProgram(subject.artifact, flags.device));
  }
  subject.device = flags.device;
  if (subject.model.empty()) return subject;
  // The ranges of dims for which it was compiled, if they differ from the default range.
  const DimSymbol usual;
  for (const runtime::Symbol& symbol : subject.program->manifest().symbols) {
    if (symbol.min < usual.low || symbol.max > usual.high)
      subject.options.dim_ranges[symbol.name] = {symbol.min, symbol.max};
  }
  FUSEC_ASSIGN(LoadedModel loaded, LoadModel(subject.options));
  subject.graph = std::move(loaded.imported);
  FUSEC_TRY(StoreTables(loaded.constant_names, subject));
  const std::string& policy = subject.program->manifest().index_policy;
  const PerRequest& per_request = subject.options.per_request;
  FUSEC_TRY(ApplyIndexPolicy(policy, per_request, *subject.graph));
  if (subject.with_own_tables)
    FUSEC_TRY(ApplyIndexPolicy(policy, per_request, *subject.with_own_tables));
  return subject;
}

Result<std::vector<ReferenceTensor>> ReferenceInputs(const Subject& subject, const Graph& graph,
                                                     const Inputs& inputs) {
  const runtime::Manifest& manifest = subject.program->manifest();
  std::vector<ReferenceTensor> reference;
  for (size_t i = 0; i < graph.inputs.size(); ++i) {
    const std::string& name = graph.InputName(i);
    const auto found =
        std::find_if(manifest.inputs.begin(), manifest.inputs.end(),
                     [&](const runtime::TensorSignature& input) { return input.name == name; });
    if (found == manifest.inputs.end()) {
      return Fail(
          ErrorKind::kInput,
          subject.model + " has an input \"" + name +
              "\" that the artifact lacks: is it another model, or was it frozen (--freeze)?");
    }
    reference.push_back(ReferenceTensor::FromData(inputs[found - manifest.inputs.begin()]));
  }
  return reference;
}

Result<std::unique_ptr<Interpretation>> JudgeByInterpreter(const Subject& subject,
                                                           const Inputs& inputs,
                                                           ArrayRef<TensorData> outputs,
                                                           const DimValues& dims,
                                                           std::vector<Judgement>& judgements) {
  FUSEC_ASSIGN(auto reference_inputs, ReferenceInputs(subject, *subject.graph, inputs));
  const runtime::Manifest& manifest = subject.program->manifest();
  auto interpreted = Interpret(*subject.graph, reference_inputs);
  if (!interpreted) {
    const std::string model = std::filesystem::path(subject.model).filename();
    const Error& error = interpreted.error();
    if (model == manifest.model) return tl::unexpected(error);
    return Fail(error.kind, subject.model + ": " + error.message + "; " + subject.artifact +
                                " was made from " + manifest.model);
  }
  if (interpreted->size() != outputs.size()) {
    return Fail(ErrorKind::kInput, subject.model + " has " +
                                       Plural(static_cast<int64_t>(interpreted->size()), "output") +
                                       ", the artifact " + std::to_string(outputs.size()));
  }
  auto interpretation = std::make_unique<Interpretation>(
      *subject.graph, std::move(reference_inputs), *std::move(interpreted));
  for (size_t i = 0; i < outputs.size(); ++i) {
    const Tolerance tolerance =
        ToleranceOf(CoarsestDtype(subject.graph->outputs[i]), manifest.matmul_precision);
    judgements.push_back(
        {"interpreter", dims,
         interpretation->judge.Judge(i, manifest.outputs[i].name, outputs[i], tolerance)});
  }
  return interpretation;
}

namespace {

// Whether the model, too, refuses data that the program refused. Without a model, the program
// counts.
Result<bool> ModelRefuses(const Subject& subject, const Inputs& inputs) {
  if (subject.graph == nullptr) return true;
  FUSEC_ASSIGN(const auto reference_inputs, ReferenceInputs(subject, *subject.graph, inputs));
  return !Interpret(*subject.graph, reference_inputs);
}

// A milder case than one that was refused: with masks if they are not used yet (`flags` then keeps
// that), else with smaller sizes. nullopt if there is none.
Result<std::optional<VerifyCase>> Milder(const runtime::Manifest& manifest, const DimValues& dims,
                                         RandomFlags& flags) {
  const bool has_unlimited = std::any_of(
      manifest.inputs.begin(), manifest.inputs.end(), [](const runtime::TensorSignature& input) {
        return input.index_limits.empty() && IsInteger(ToDtype(input.dtype));
      });
  DimValues milder = dims;
  if (has_unlimited && !flags.masks) {
    flags.masks = true;
  } else {
    for (const DimRange& range : DimRanges(manifest)) {
      int64_t& size = milder.at(range.name);
      size = std::max(range.low, size / 2);
    }
    if (milder == dims) return std::nullopt;
  }
  FUSEC_ASSIGN(Inputs inputs, RandomInputs(manifest, milder, flags));
  return VerifyCase(std::move(milder), std::move(inputs));
}

// Replaces a case by milder ones until the program accepts it. If the program refuses a case that
// the model accepts, or if nothing milder is left, the case stays, and comparing it reports the
// error.
Result<void> MakeAcceptable(const Subject& subject, runtime::Context& context, RandomFlags& flags,
                            VerifyCase& given) {
  while (true) {
    const Result<std::vector<TensorData>> ran = RunIn(context, given.second);
    if (ran || ran.error().kind != ErrorKind::kInput) return {};
    FUSEC_ASSIGN(const bool refused, ModelRefuses(subject, given.second));
    if (!refused) return {};
    FUSEC_ASSIGN(auto milder, Milder(subject.program->manifest(), given.first, flags));
    if (!milder) return {};
    PrintNote(
        "not compared at " + DimsText(given.first) + ", but " +
        (milder->first == given.first ? "with masks of 0 and 1" : "at " + DimsText(milder->first)) +
        ": " + ran.error().message);
    given = *std::move(milder);
  }
}

}  // namespace

Result<std::vector<VerifyCase>> VerifyCases(const VerifyFlags& flags, const Subject& subject) {
  const runtime::Manifest& manifest = subject.program->manifest();
  std::vector<VerifyCase> cases;
  if (!flags.inputs.empty()) {
    if (!flags.dims.empty())
      return Fail(ErrorKind::kUsage, "--dim is for random data, --inputs has sizes of its own");
    FUSEC_ASSIGN(Inputs inputs, InputsFromNpz(manifest, flags.inputs));
    DimValues dims = DimsOf(manifest, inputs);
    cases.emplace_back(std::move(dims), std::move(inputs));
    return cases;
  }
  RandomFlags random_flags = flags.random_flags;
  FUSEC_RUNTIME_ASSIGN(const auto context, runtime::Context::Create(*subject.program));
  FUSEC_ASSIGN(const auto dim_cases, DimCases(flags.dims, DimRanges(manifest), kDefaultSizes));
  for (const DimValues& dims : dim_cases) {
    FUSEC_ASSIGN(Inputs inputs, RandomInputs(manifest, dims, random_flags));
    cases.emplace_back(dims, std::move(inputs));
    if (flags.dims.empty()) {
      FUSEC_TRY(MakeAcceptable(subject, *context, random_flags, cases.back()));
    }
  }
  return cases;
}

}  // namespace fusec
