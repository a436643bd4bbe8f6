#include <cstdio>

#include "compiler/driver/verify/judgement_json.h"
#include "compiler/driver/verify/verify_modes.h"
#include "compiler/support/adt.h"
#include "compiler/support/child_process.h"
#include "compiler/support/interrupt.h"

namespace fusec {

namespace {

using Json = nlohmann::ordered_json;

bool IsWorse(const Comparison& a, const Comparison& b) {
  if (a.pass != b.pass) return !a.pass;
  return a.rel_l2 > b.rel_l2;
}

// Merges judgements of another size into `kept`, which holds the worst one of every result.
void KeepWorst(std::vector<RegionJudgement>& kept, std::vector<RegionJudgement> more) {
  if (kept.empty()) {
    kept = std::move(more);
    return;
  }
  for (size_t i = 0; i < kept.size(); ++i) {
    if (IsWorse(more[i].comparison, kept[i].comparison)) kept[i] = std::move(more[i]);
  }
}

void PrintJson(const Subject& subject, ArrayRef<RegionJudgement> judgements, bool pass) {
  Json outputs = Json::array();
  for (const RegionJudgement& judgement : judgements) outputs.push_back(JudgementJson(judgement));
  const Json json =
      VerificationJson(subject, Json::array({"unfused regions"}), std::move(outputs), pass);
  std::printf("%s\n", json.dump(1).c_str());
}

}  // namespace

Result<int> RunVerifyPerFusion(const VerifyFlags& flags) {
  CatchInterrupts();
  FUSEC_ASSIGN(const std::string folder, MakeTemporaryFolder());
  const TemporaryFolder cleanup(folder);
  FUSEC_ASSIGN(const std::string apart, MakeTemporaryFolder());
  const TemporaryFolder cleanup_apart(apart);
  Subject subject;
  std::vector<RegionJudgement> judgements;
  {
    ProgressLine progress;
    FUSEC_ASSIGN(subject, LoadSubject(flags, progress, folder, false));
    FUSEC_ASSIGN(const RegionCheck check, RegionCheck::Make(subject, apart));
    FUSEC_ASSIGN(const auto cases, VerifyCases(flags, subject));
    for (size_t i = 0; i < cases.size(); ++i) {
      progress.Update("comparing " + DimsText(cases[i].first),
                      static_cast<double>(i) / static_cast<double>(cases.size()));
      FUSEC_ASSIGN(auto judged, check.Judge(cases[i].second, cases[i].first));
      KeepWorst(judgements, std::move(judged));
      if (Interrupted()) return Fail(ErrorKind::kUsage, "interrupted");
    }
  }
  const bool pass =
      std::all_of(judgements.begin(), judgements.end(),
                  [](const RegionJudgement& judgement) { return judgement.comparison.pass; });
  if (flags.json) {
    PrintJson(subject, judgements, pass);
  } else {
    std::fputs(JudgementTable(judgements).c_str(), stdout);
    std::puts(pass ? Green("pass").c_str() : Red("FAIL").c_str());
  }
  NoteEdits(*subject.program);
  PrintNote("every kernel alone against its unfused ops in double; ran on " +
            subject.program->device().name());
  return pass ? 0 : 1;
}

}  // namespace fusec
