#include <algorithm>
#include <cstdio>
#include <optional>

#include "compiler/driver/artifact/artifact_ir.h"
#include "compiler/driver/build/pipeline.h"
#include "compiler/driver/explain/kernel_page.h"
#include "compiler/driver/verify/region_check.h"
#include "compiler/driver/verify/verify_modes.h"
#include "compiler/reference/interpreter.h"
#include "compiler/support/adt.h"
#include "compiler/support/child_process.h"
#include "compiler/support/interrupt.h"

namespace fusec {

namespace {

// The pass that makes regions of a class; "" if no fusion makes them.
const char* PassOfClass(RegionClass region_class) {
  switch (region_class) {
    case RegionClass::kAttention:
      return "fuse-attention";
    case RegionClass::kBlockProgram:
      return "fuse-block-program";
    case RegionClass::kMatMul:
      return "fuse-matmul-epilogue";
    case RegionClass::kSlotMatMul:
      return "fuse-slot-matmul";
    case RegionClass::kRowReduction:
      return "fuse-row-reduction";
    case RegionClass::kGatherConcat:
      return "fuse-embedding-concat";
    case RegionClass::kPointwise:
      return "fuse-pointwise";
    case RegionClass::kSequential:
    case RegionClass::kRecurrence:
      return "";
  }
  return "";
}

class Bisection {
 public:
  Bisection(const VerifyFlags& flags, const Subject& subject, ArrayRef<VerifyCase> cases)
      : flags_(flags), subject_(subject), cases_(cases) {}

  // The first comparison that fails, if any does. One context runs all sizes, as in `fusec verify`.
  Result<std::optional<Judgement>> FirstFailure() {
    FUSEC_RUNTIME_ASSIGN(const auto context, runtime::Context::Create(*subject_.program));
    for (const VerifyCase& one : cases_) {
      FUSEC_ASSIGN(const auto failure, Failure(subject_, *context, one));
      if (!failure) continue;
      case_ = &one;
      return failure;
    }
    return std::optional<Judgement>();
  }

  // Finds and prints the cause of the failure.
  Result<void> Blame(const std::string& folder) {
    if (case_ != &cases_.front()) {
      FUSEC_ASSIGN(const bool right_alone, IsRightAlone(subject_));
      if (right_alone) {
        std::puts(
            "this size is right in a new context: earlier runs of other sizes change its answers");
        return {};
      }
    }
    FUSEC_ASSIGN(const RegionCheck check, RegionCheck::Make(subject_, folder));
    FUSEC_ASSIGN(const auto judgements, check.Judge(case_->second, case_->first));
    const auto wrong = std::find_if(judgements.begin(), judgements.end(),
                                    [](const RegionJudgement& j) { return !j.comparison.pass; });
    if (wrong != judgements.end()) {
      PrintRegion(*wrong, *RegionsOf(check.graph())[wrong->region]);
      return TryCures(PassOfClass(wrong->region_class));
    }
    FUSEC_ASSIGN(const std::string pass, FirstWrongPass());
    if (!pass.empty()) {
      std::printf(
          "every kernel computes what its region says; pass %s changed the graph's meaning\n",
          Bold(pass).c_str());
      return TryCures(FindPass(pass)->optional ? pass : "");
    }
    std::puts(
        "every kernel computes what its region says, and the regions what the model says: the\n"
        "fault is between the kernels, in the memory plan or the order of launches");
    return TryCures("");
  }

 private:
  static Result<std::optional<Judgement>> Failure(const Subject& subject, runtime::Context& context,
                                                  const VerifyCase& one) {
    FUSEC_ASSIGN(const std::vector<TensorData> outputs, RunIn(context, one.second));
    std::vector<Judgement> judgements;
    FUSEC_TRY(JudgeByInterpreter(subject, one.second, outputs, one.first, judgements));
    if (Interrupted()) return Fail(ErrorKind::kUsage, "interrupted");
    for (const Judgement& judgement : judgements) {
      if (!judgement.comparison.pass) return judgement;
    }
    return std::optional<Judgement>();
  }

  // Whether the subject gives the right answer in a new context.
  Result<bool> IsRightAlone(const Subject& subject) const {
    FUSEC_RUNTIME_ASSIGN(const auto context, runtime::Context::Create(*subject.program));
    FUSEC_ASSIGN(const auto failure, Failure(subject, *context, *case_));
    return !failure;
  }

  void PrintRegion(const RegionJudgement& wrong, const Node& region) const {
    const Comparison& c = wrong.comparison;
    std::printf("the first kernel that is wrong by itself: %s, class %s, at %s\n\n",
                Bold(wrong.kernel).c_str(), RegionClassText(wrong.region_class),
                DimsText(wrong.dims).c_str());
    std::fputs(NodesText(region).c_str(), stdout);
    std::printf("\n  tensor  %s: relative L2 error %s, tolerance %s\n", c.name.c_str(),
                FormatNumber(c.rel_l2).c_str(), FormatNumber(c.tolerance.relative_l2).c_str());
    if (!c.note.empty()) std::printf("  note    %s\n", c.note.c_str());
    std::printf("  worst   element %s is %s, expected %s\n\n", IndexText(c.worst_index).c_str(),
                FormatValue(c.worst_found).c_str(), FormatValue(c.worst_expected).c_str());
  }

  // The first pass after which interpreting the graph gives other answers; "" if there is none.
  Result<std::string> FirstWrongPass() const {
    const runtime::Manifest& manifest = subject_.program->manifest();
    FUSEC_ASSIGN(const auto inputs, ReferenceInputs(subject_, *subject_.graph, case_->second));
    FUSEC_ASSIGN(const auto expected, Interpret(*subject_.graph, inputs));
    const TargetKind kind =
        subject_.program->device().target().name == "cpu" ? TargetKind::kCpu : TargetKind::kGpu;
    const std::unique_ptr<Graph> graph = subject_.graph->Clone();
    PassManager manager;
    manager.options = {subject_.options.disabled_fusions, manifest.matmul_precision,
                       manifest.index_policy};
    manager.options.per_request = subject_.options.per_request;
    for (const std::string& pass : PipelinePasses(kind, subject_.options.round_every_op)) {
      FUSEC_TRY(manager.Run(*graph, {pass}));
      FUSEC_ASSIGN(const auto found, Interpret(*graph, inputs));
      for (size_t i = 0; i < expected.size(); ++i) {
        const Tolerance tolerance =
            ToleranceOf(CoarsestDtype(subject_.graph->outputs[i]), manifest.matmul_precision);
        if (!Compare("", found[i].ToData(), expected[i], tolerance).pass) return pass;
      }
    }
    return std::string();
  }

  // Whether the model gives the right answer if it is compiled again without the pass `disabled`.
  Result<bool> IsRightWithout(const std::string& disabled) const {
    FUSEC_ASSIGN(const std::string folder, MakeTemporaryFolder());
    const TemporaryFolder cleanup(folder);
    VerifyFlags flags = flags_;
    flags.subject = subject_.model;
    flags.model_flags = subject_.model_flags;
    if (!disabled.empty()) flags.model_flags.disabled_fusions.push_back(disabled);
    ProgressLine progress;
    FUSEC_ASSIGN(const Subject anew, LoadSubject(flags, progress, folder, true));
    return IsRightAlone(anew);
  }

  Result<void> TryCures(const std::string& first) const {
    const bool is_artifact = flags_.subject != subject_.model;
    if (is_artifact) {
      FUSEC_ASSIGN(const bool right, IsRightWithout(""));
      if (right) {
        std::printf(
            "compiled again, %s gives right answers: %s differs from what this fusec makes of it\n",
            subject_.model.c_str(), flags_.subject.c_str());
        return {};
      }
    }
    std::vector<std::string> passes;
    if (!first.empty()) passes.push_back(first);
    for (const PassInfo& pass : AllPasses()) {
      if (pass.optional && pass.name != first) passes.push_back(pass.name);
    }
    for (const std::string& pass : passes) {
      FUSEC_ASSIGN(const bool right, IsRightWithout(pass));
      if (!right) continue;
      std::printf("--disable-fusion %s cures it\n", Bold(pass).c_str());
      return {};
    }
    std::puts("no --disable-fusion cures it");
    return {};
  }

  const VerifyFlags& flags_;
  const Subject& subject_;
  ArrayRef<VerifyCase> cases_;
  const VerifyCase* case_ = nullptr;  // the case that failed
};

}  // namespace

Result<int> RunVerifyBisect(const VerifyFlags& flags) {
  CatchInterrupts();
  FUSEC_ASSIGN(const std::string folder, MakeTemporaryFolder());
  const TemporaryFolder cleanup(folder);
  FUSEC_ASSIGN(const std::string apart, MakeTemporaryFolder());
  const TemporaryFolder cleanup_apart(apart);
  Subject subject;
  {
    ProgressLine progress;
    FUSEC_ASSIGN(subject, LoadSubject(flags, progress, folder, true));
  }
  FUSEC_ASSIGN(const auto cases, VerifyCases(flags, subject));
  Bisection bisection(flags, subject, cases);
  FUSEC_ASSIGN(const auto failure, bisection.FirstFailure());
  NoteEdits(*subject.program);
  PrintNote("ran on " + subject.program->device().name());
  if (!failure) {
    std::printf("%s: all answers are right, there is nothing to find\n", Green("pass").c_str());
    return 0;
  }
  const Comparison& c = failure->comparison;
  std::printf("%s: output %s at %s has a relative L2 error of %s, tolerance %s\n",
              Red("FAIL").c_str(), c.name.c_str(), DimsText(failure->dims).c_str(),
              FormatNumber(c.rel_l2).c_str(), FormatNumber(c.tolerance.relative_l2).c_str());
  FUSEC_TRY(bisection.Blame(apart));
  return 1;
}

}  // namespace fusec
