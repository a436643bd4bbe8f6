#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>

#include "compiler/driver/artifact_session.h"
#include "compiler/driver/child_process.h"
#include "compiler/driver/cli.h"
#include "compiler/driver/compare.h"
#include "compiler/driver/input_flags.h"
#include "compiler/driver/model_flags.h"
#include "compiler/driver/onnxruntime_judge.h"
#include "compiler/driver/terminal.h"
#include "compiler/reference/interpreter.h"
#include "compiler/support/interrupt.h"
#include "runtime/src/cuda_pieces.h"

namespace fusec {

namespace {

using Json = nlohmann::ordered_json;

const std::vector<int64_t> kDefaultSizes = {1, 2, 5, 64};

struct Judgement {
  std::string against;  // "interpreter", "onnxruntime"
  DimValues dims;
  Comparison comparison;
};

// What is compared: a program, the graph it was made from, and the inputs that were frozen in both.
struct Subject {
  std::string model, device;
  CompileOptions options;
  std::unique_ptr<runtime::Program> program;
  std::unique_ptr<Graph> graph;
};

bool IsFolder(const std::string& path) {
  std::error_code error;
  return std::filesystem::is_directory(path, error);
}

// The targets to compile for when only a device is known.
std::vector<std::string> TargetsFor(const std::string& device) {
  if (device == "cpu") return {"cpu"};
  if (const auto gpu = runtime::GpuArchitecture()) return {*gpu};
  return {device.empty() ? "cpu" : "sm_90a"};
}

Result<std::string> ModelOf(const VerifyFlags& flags) {
  if (!IsFolder(flags.subject)) return flags.subject;
  if (!flags.model.empty()) return flags.model;
  return Fail(ErrorKind::kUsage, "verifying the artifact " + flags.subject +
                                     " needs the model that it was made from (--model MODEL.onnx)");
}

Result<Subject> LoadSubject(const VerifyFlags& flags, ProgressLine& progress,
                            const std::string& folder) {
  Subject subject;
  FUSEC_ASSIGN(subject.model, ModelOf(flags));
  FUSEC_TRY(ApplyModelFlags(flags.model_flags, subject.options));
  subject.options.model_path = subject.model;
  std::string artifact = flags.subject;
  if (!IsFolder(flags.subject)) {
    artifact = folder + "/artifact";
    subject.options.output_path = artifact;
    subject.options.targets = TargetsFor(flags.device);
    subject.options.cpu_level = "native";
    subject.options.progress = [&](const std::string& stage, double fraction) {
      progress.Update(stage, fraction);
    };
    FUSEC_ASSIGN(const CompileReport report, CompileModel(subject.options));
    for (const std::string& warning : report.warnings) PrintWarning(warning);
  }
  FUSEC_ASSIGN(subject.program, LoadProgram(artifact, flags.device));
  FUSEC_ASSIGN(LoadedModel loaded, LoadModel(subject.options));
  subject.graph = std::move(loaded.imported);
  return subject;
}

// The interpreter's inputs are the manifest's by name; a mismatch means another model, or other
// frozen inputs.
Result<std::vector<ReferenceTensor>> ReferenceInputs(const Subject& subject, const Inputs& inputs) {
  const runtime::Manifest& manifest = subject.program->manifest();
  std::vector<ReferenceTensor> reference;
  for (const std::string& name : subject.graph->input_names) {
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

Result<void> JudgeByInterpreter(const Subject& subject, const Inputs& inputs,
                                const std::vector<TensorData>& outputs, const DimValues& dims,
                                std::vector<Judgement>& judgements) {
  FUSEC_ASSIGN(const auto reference_inputs, ReferenceInputs(subject, inputs));
  FUSEC_ASSIGN(const auto expected, Interpret(*subject.graph, reference_inputs));
  const runtime::Manifest& manifest = subject.program->manifest();
  if (expected.size() != outputs.size()) {
    return Fail(ErrorKind::kInput, subject.model + " has " +
                                       Plural(static_cast<int64_t>(expected.size()), "output") +
                                       ", the artifact " + std::to_string(outputs.size()));
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    const Tolerance tolerance =
        ToleranceOf(CoarsestDtype(subject.graph->outputs[i]), manifest.matmul_precision);
    judgements.push_back({"interpreter", dims,
                          Compare(manifest.outputs[i].name, outputs[i], expected[i], tolerance)});
  }
  return {};
}

// Whether onnxruntime can run the model. That it cannot is told as a note: the interpreter has judged
// it already, and further sizes would only repeat the note.
bool JudgeByOnnxruntime(const OnnxruntimeJudge& judge, const Subject& subject, const Inputs& inputs,
                        const std::vector<TensorData>& outputs, const DimValues& dims,
                        std::vector<Judgement>& judgements) {
  const runtime::Manifest& manifest = subject.program->manifest();
  NamedTensors named;
  for (size_t i = 0; i < inputs.size(); ++i) named.emplace_back(manifest.inputs[i].name, inputs[i]);
  for (const auto& [name, data] : subject.options.frozen_inputs) named.emplace_back(name, data);
  const Result<NamedTensors> expected = judge.Run(subject.model, named);
  if (!expected) {
    PrintNote("not compared with onnxruntime at " + DimsText(dims) +
              " and later sizes: " + expected.error().message);
    return false;
  }
  for (size_t i = 0; i < outputs.size() && i < expected->size(); ++i) {
    Tolerance tolerance =
        ToleranceOf(CoarsestDtype(subject.graph->outputs[i]), manifest.matmul_precision);
    if (tolerance.relative_l2 > 0) {
      tolerance.relative_l2 *= 2;
      tolerance.reason += ", on both sides";
    }
    const ReferenceTensor reference = ReferenceTensor::FromData((*expected)[i].second);
    judgements.push_back(
        {"onnxruntime", dims, Compare(manifest.outputs[i].name, outputs[i], reference, tolerance)});
  }
  return true;
}

// Sizes and inputs of every comparison.
Result<std::vector<std::pair<DimValues, Inputs>>> Cases(const VerifyFlags& flags,
                                                        const runtime::Manifest& manifest) {
  std::vector<std::pair<DimValues, Inputs>> cases;
  if (!flags.inputs.empty()) {
    if (!flags.dims.empty())
      return Fail(ErrorKind::kUsage, "--dim is for random data, --inputs has sizes of its own");
    FUSEC_ASSIGN(Inputs inputs, InputsFromNpz(manifest, flags.inputs));
    DimValues dims = DimsOf(manifest, inputs);
    cases.emplace_back(std::move(dims), std::move(inputs));
    return cases;
  }
  FUSEC_ASSIGN(const auto dim_cases, DimCases(flags.dims, DimRanges(manifest), kDefaultSizes));
  for (const DimValues& dims : dim_cases) {
    FUSEC_ASSIGN(Inputs inputs, RandomInputs(manifest, dims, flags.seed));
    cases.emplace_back(dims, std::move(inputs));
  }
  return cases;
}

Json NumberJson(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }

void PrintJson(const Subject& subject, const std::vector<Judgement>& judgements, bool pass) {
  Json against = Json::array(), outputs = Json::array();
  for (const Judgement& judgement : judgements) {
    if (std::find(against.begin(), against.end(), judgement.against) == against.end()) {
      against.push_back(judgement.against);
    }
    const Comparison& c = judgement.comparison;
    Json output = {{"name", c.name},
                   {"max_abs", NumberJson(c.max_abs)},
                   {"max_rel", NumberJson(c.max_rel)},
                   {"rel_l2", NumberJson(c.rel_l2)},
                   {"tolerance", c.tolerance.relative_l2},
                   {"pass", c.pass},
                   {"reason", c.tolerance.reason},
                   {"against", judgement.against},
                   {"dims", judgement.dims.empty() ? Json::object() : Json(judgement.dims)}};
    if (!c.note.empty()) output["note"] = c.note;
    outputs.push_back(std::move(output));
  }
  const Json json = {{"against", against},
                     {"outputs", outputs},
                     {"pass", pass},
                     {"model", subject.program->manifest().model},
                     {"device", subject.program->device().name()}};
  std::printf("%s\n", json.dump(1).c_str());
}

void PrintTables(const std::vector<Judgement>& judgements) {
  std::vector<std::vector<std::string>> rows = {{"output", "dims", "against", "max abs", "max rel",
                                                 "relative L2", "tolerance", "reason", "", ""}};
  for (const Judgement& judgement : judgements) {
    const Comparison& c = judgement.comparison;
    rows.push_back({c.name, DimsText(judgement.dims), judgement.against, FormatNumber(c.max_abs),
                    FormatNumber(c.max_rel), FormatNumber(c.rel_l2),
                    FormatNumber(c.tolerance.relative_l2), c.tolerance.reason,
                    c.pass ? "pass" : "FAIL", c.note});
  }
  std::fputs(FormatTable(rows, "lllrrrrlll").c_str(), stdout);
}

}  // namespace

Result<int> RunVerify(const VerifyFlags& flags) {
  CatchInterrupts();
  FUSEC_ASSIGN(const std::string folder, MakeTemporaryFolder());
  const TemporaryFolder cleanup(folder);
  std::vector<Judgement> judgements;
  Subject subject;
  {
    ProgressLine progress;
    FUSEC_ASSIGN(subject, LoadSubject(flags, progress, folder));
    const auto judge = OnnxruntimeJudge::Find();
    if (!judge)
      PrintNote(
          "no python3 with onnxruntime was found (FUSEC_PYTHON names one): the interpreter judges "
          "alone");
    bool ask_onnxruntime = judge.has_value();
    FUSEC_ASSIGN(const auto cases, Cases(flags, subject.program->manifest()));
    for (size_t i = 0; i < cases.size(); ++i) {
      const auto& [dims, inputs] = cases[i];
      progress.Update("comparing " + DimsText(dims),
                      static_cast<double>(i) / static_cast<double>(cases.size()));
      FUSEC_ASSIGN(const std::vector<TensorData> outputs, RunOnce(*subject.program, inputs));
      FUSEC_TRY(JudgeByInterpreter(subject, inputs, outputs, dims, judgements));
      ask_onnxruntime = ask_onnxruntime && JudgeByOnnxruntime(*judge, subject, inputs, outputs,
                                                              dims, judgements);
      if (Interrupted()) return Fail(ErrorKind::kUsage, "interrupted");
    }
  }
  const bool pass =
      std::all_of(judgements.begin(), judgements.end(),
                  [](const Judgement& judgement) { return judgement.comparison.pass; });
  if (flags.json) {
    PrintJson(subject, judgements, pass);
  } else {
    PrintTables(judgements);
    std::puts(pass ? Green("pass").c_str() : Red("FAIL").c_str());
  }
  PrintNote("ran on " + subject.program->device().name());
  return pass ? 0 : 1;
}

}  // namespace fusec
