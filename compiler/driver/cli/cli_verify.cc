#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>

#include "compiler/driver/verify/drift.h"
#include "compiler/driver/verify/float8_notes.h"
#include "compiler/driver/verify/judgement_json.h"
#include "compiler/driver/verify/onnxruntime_judgement.h"
#include "compiler/driver/verify/verify_modes.h"
#include "compiler/driver/verify/verify_subject.h"
#include "compiler/support/adt.h"
#include "compiler/support/child_process.h"
#include "compiler/support/interrupt.h"

namespace fusec {

namespace {

using Json = nlohmann::ordered_json;

// Whether the output passes its comparison with onnxruntime, without being judged again.
bool IsJudgedByOnnxruntime(const Judgement& judgement, ArrayRef<Judgement> judgements) {
  return std::any_of(judgements.begin(), judgements.end(), [&](const Judgement& other) {
    return other.against == "onnxruntime" && other.dims == judgement.dims &&
           other.comparison.name == judgement.comparison.name && other.comparison.pass &&
           other.comparison.note.empty();
  });
}

// Whether at least half of all elements could be judged. If some could not, a note says how many.
bool JudgesEnough(ArrayRef<Judgement> judgements) {
  int64_t elements = 0, unjudged = 0;
  for (const Judgement& judgement : judgements) {
    if (judgement.against != "interpreter") continue;
    elements += judgement.comparison.elements;
    if (!IsJudgedByOnnxruntime(judgement, judgements)) unjudged += judgement.comparison.unjudged;
  }
  if (unjudged == 0) return true;
  const bool is_enough = 2 * unjudged <= elements;
  PrintNote(std::to_string(unjudged) + " of " + Plural(elements, "element") +
            " cannot be judged, because rounding moves the reference itself by as much" +
            (is_enough ? "" : "; expected at most half of all elements"));
  return is_enough;
}

// Checks that --drift-bound and --labels are used with flags that they work with.
Result<void> CheckDriftFlags(const VerifyFlags& flags) {
  if (!flags.drift_bound && flags.labels.empty()) return {};
  const char* flag = flags.drift_bound ? "--drift-bound" : "--labels";
  if (flags.per_fusion || flags.bisect) {
    return Fail(ErrorKind::kUsage,
                std::string(flag) + ": " + (flags.bisect ? "--bisect" : "--per-fusion") +
                    " compares on the stored tables only, so that no drift is measured");
  }
  if (!flags.labels.empty() && flags.inputs.empty())
    return Fail(ErrorKind::kUsage,
                "--labels: expected --inputs, the data to whose scores the labels belong");
  return {};
}

Result<DriftMeter> MeterFor(const VerifyFlags& flags, const Subject& subject) {
  DriftMeter meter;
  if (!subject.with_own_tables && (flags.drift_bound || !flags.labels.empty())) {
    return Fail(ErrorKind::kUsage, std::string(flags.drift_bound ? "--drift-bound" : "--labels") +
                                       ": all tables are stored as the model has them, so there is "
                                       "no drift (--table-storage)");
  }
  if (!flags.labels.empty()) FUSEC_TRY(meter.ReadLabels(flags.labels));
  return meter;
}

void PrintJson(const Subject& subject, ArrayRef<Judgement> judgements, std::optional<Json> drift,
               bool pass) {
  Json against = Json::array(), outputs = Json::array();
  for (const Judgement& judgement : judgements) {
    if (std::find(against.begin(), against.end(), judgement.against) == against.end()) {
      against.push_back(judgement.against);
    }
    Json output = ComparisonJson(judgement.comparison);
    output["against"] = judgement.against;
    output["dims"] = DimsJson(judgement.dims);
    outputs.push_back(std::move(output));
  }
  Json json = VerificationJson(subject, against, std::move(outputs), pass);
  if (drift) json["drift"] = *std::move(drift);
  std::printf("%s\n", json.dump(1).c_str());
}

void PrintTables(ArrayRef<Judgement> judgements) {
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
  std::error_code ignored;  // LoadSubject reports a path that cannot be read
  if (!flags.model.empty() && std::filesystem::is_regular_file(flags.subject, ignored))
    return Fail(ErrorKind::kUsage,
                "--model is for an artifact, and " + flags.subject + " is a model");
  FUSEC_TRY(CheckDriftFlags(flags));
  if (flags.per_fusion) return RunVerifyPerFusion(flags);
  if (flags.bisect) return RunVerifyBisect(flags);
  if (flags.special_values) return RunVerifySpecialValues(flags);
  CatchInterrupts();
  FUSEC_ASSIGN(const std::string folder, MakeTemporaryFolder());
  const TemporaryFolder cleanup(folder);
  std::vector<Judgement> judgements;
  Subject subject;
  DriftMeter meter;
  {
    ProgressLine progress;
    FUSEC_ASSIGN(subject, LoadSubject(flags, progress, folder, true));
    FUSEC_ASSIGN(meter, MeterFor(flags, subject));
    const auto judge = subject.with_own_tables ? std::nullopt : OnnxruntimeJudge::Find(folder);
    if (Interrupted()) return Fail(ErrorKind::kUsage, "interrupted");
    if (subject.with_own_tables) {
      PrintNote(
          "onnxruntime could run only the model's own tables, not those that the artifact stores: "
          "the interpreter judges alone");
    } else if (!judge) {
      PrintNote(
          "no python3 with onnxruntime was found (FUSEC_PYTHON names one): the interpreter judges "
          "alone");
    }
    bool ask_onnxruntime = judge.has_value();
    FUSEC_ASSIGN(const auto cases, VerifyCases(flags, subject));
    // One context runs all sizes, as a server's context does.
    FUSEC_RUNTIME_ASSIGN(const auto context, runtime::Context::Create(*subject.program));
    for (size_t i = 0; i < cases.size(); ++i) {
      const auto& [dims, inputs] = cases[i];
      progress.Update("comparing " + DimsText(dims),
                      static_cast<double>(i) / static_cast<double>(cases.size()));
      FUSEC_ASSIGN(const std::vector<TensorData> outputs, RunIn(*context, inputs));
      FUSEC_ASSIGN(const auto interpretation,
                   JudgeByInterpreter(subject, inputs, outputs, dims, judgements));
      ask_onnxruntime = ask_onnxruntime && JudgeByOnnxruntime(*judge, subject, inputs, outputs,
                                                              *interpretation, dims, judgements);
      if (subject.with_own_tables) FUSEC_TRY(MeasureDrift(subject, inputs, outputs, meter));
      if (Interrupted()) return Fail(ErrorKind::kUsage, "interrupted");
    }
  }
  FUSEC_ASSIGN(const std::vector<Drift> drifts, meter.Measure());
  const bool pass =
      std::all_of(judgements.begin(), judgements.end(),
                  [](const Judgement& judgement) { return judgement.comparison.pass; }) &&
      std::all_of(drifts.begin(), drifts.end(),
                  [&](const Drift& drift) { return Passes(drift, flags.drift_bound); }) &&
      JudgesEnough(judgements);
  if (flags.json) {
    PrintJson(subject, judgements,
              subject.with_own_tables ? std::optional(DriftJson(drifts, flags.drift_bound))
                                      : std::nullopt,
              pass);
  } else {
    PrintTables(judgements);
    if (subject.with_own_tables) std::fputs(DriftText(drifts, flags.drift_bound).c_str(), stdout);
    std::puts(pass ? Green("pass").c_str() : Red("FAIL").c_str());
  }
  FUSEC_ASSIGN(const std::vector<std::string> notes, Float8Notes(subject));
  for (const std::string& note : notes) PrintNote(note);
  NoteEdits(*subject.program);
  PrintNote("ran on " + subject.program->device().name());
  return pass ? 0 : 1;
}

}  // namespace fusec
