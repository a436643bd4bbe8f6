#include "compiler/driver/edit/check_edits.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <map>
#include <set>
#include <utility>

#include "compiler/driver/artifact/artifact_session.h"
#include "compiler/driver/verify/judgement_json.h"
#include "compiler/package/weights_file.h"
#include "compiler/support/adt.h"
#include "compiler/support/terminal.h"
#include "runtime/src/artifact/step_sizes.h"
#include "runtime/src/bench.h"

namespace fusec {

namespace {

using Steps = std::vector<const runtime::Step*>;

Steps EditedSteps(const runtime::Program& program) {
  Steps edited;
  for (const runtime::Step& step : program.device().target().steps) {
    if (!step.edited.empty()) edited.push_back(&step);
  }
  return edited;
}

// Sizes with one dim of the given size and small others, all within their ranges.
DimValues WithOneDim(const runtime::Manifest& manifest, const DimRange& one, int64_t size) {
  constexpr int64_t kSmall = 2;
  DimValues dims;
  for (const DimRange& range : DimRanges(manifest))
    dims[range.name] = std::clamp(range.name == one.name ? size : kSmall, range.low, range.high);
  return dims;
}

// The sizes of a dim at which a step is tried, ascending: 1, 2, 3, 5, 9, ... and, for an
// alternative, the least size at which it runs.
Result<std::vector<int64_t>> SizesToTry(const runtime::Manifest& manifest,
                                        const runtime::Step& step, const DimRange& one) {
  constexpr int64_t kLargest = 4097;
  std::vector<int64_t> sizes;
  for (int64_t size = 1; size <= kLargest; size = size == 1 ? 2 : 2 * size - 1)
    sizes.push_back(size);
  if (!step.when) return sizes;
  int64_t low = one.low, high = one.high;
  while (low < high) {
    const int64_t middle = low + (high - low) / 2;
    const DimValues dims = WithOneDim(manifest, one, middle);
    FUSEC_RUNTIME_ASSIGN(const int64_t size,
                         step.when->size.Evaluate(SymbolValues(manifest, dims)));
    if (size >= step.when->from) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  sizes.insert(std::lower_bound(sizes.begin(), sizes.end(), low), low);
  return sizes;
}

// The smallest tried sizes at which a step runs with at least three blocks, or with the most blocks
// if there are none. With one block, a wrong number of blocks would not be noticed.
Result<std::optional<DimValues>> SizesOfSeveralBlocks(const runtime::Manifest& manifest,
                                                      const runtime::Step& step) {
  constexpr int64_t kBlocks = 3;
  std::optional<DimValues> best;
  int64_t best_blocks = -1, best_size = 0;
  for (const DimRange& one : DimRanges(manifest)) {
    FUSEC_ASSIGN(const std::vector<int64_t> sizes, SizesToTry(manifest, step, one));
    for (const int64_t size : sizes) {
      DimValues dims = WithOneDim(manifest, one, size);
      const std::vector<int64_t> symbols = SymbolValues(manifest, dims);
      FUSEC_RUNTIME_ASSIGN(const bool runs, runtime::Runs(step, symbols));
      if (!runs) continue;
      FUSEC_RUNTIME_ASSIGN(int64_t blocks, step.kernel.blocks.Evaluate(symbols));
      blocks = std::min(blocks, kBlocks);
      if (blocks < best_blocks || (blocks == best_blocks && size >= best_size)) continue;
      best_blocks = blocks;
      best_size = size;
      best = std::move(dims);
      if (blocks == kBlocks) break;
    }
  }
  return best;
}

struct Sizes {
  std::vector<VerifyCase> cases;
  size_t needed = 0;  // the first `needed` cases must run; the others may be refused for their data
};

Result<Sizes> SizesToCheck(const Subject& subject, const EditChecks& checks) {
  VerifyFlags flags;
  flags.dims = checks.dims;
  flags.random_flags = checks.random_flags;
  Sizes sizes;
  FUSEC_ASSIGN(sizes.cases, VerifyCases(flags, subject));
  sizes.needed = sizes.cases.size();
  if (!checks.dims.empty()) return sizes;
  const runtime::Manifest& manifest = subject.program->manifest();
  std::set<DimValues> known;
  for (const auto& [dims, inputs] : sizes.cases) known.insert(dims);
  for (const runtime::Step* step : EditedSteps(*subject.program)) {
    FUSEC_ASSIGN(const auto dims, SizesOfSeveralBlocks(manifest, *step));
    if (!dims || !known.insert(*dims).second) continue;
    // Uses other data than above, so that memory that a kernel leaves unwritten does not hold the
    // right answers.
    RandomFlags other = checks.random_flags;
    other.seed += known.size();
    FUSEC_ASSIGN(Inputs inputs, RandomInputs(manifest, *dims, other));
    sizes.cases.emplace_back(*dims, std::move(inputs));
  }
  return sizes;
}

bool IsWorse(const Comparison& a, const Comparison& b) {
  return a.pass != b.pass ? !a.pass : a.rel_l2 > b.rel_l2;
}

// Collects judgements, and keeps for every result of every edited kernel the worst one of all
// sizes.
class WorstJudgements {
 public:
  void Add(ArrayRef<RegionJudgement> judgements, const std::set<std::string>& edited) {
    for (const RegionJudgement& judgement : judgements) {
      if (edited.count(judgement.kernel) == 0) continue;
      const auto found =
          std::find_if(worst_.begin(), worst_.end(), [&](const RegionJudgement& known) {
            return known.kernel == judgement.kernel &&
                   known.comparison.name == judgement.comparison.name;
          });
      if (found == worst_.end()) {
        worst_.push_back(judgement);
      } else if (IsWorse(judgement.comparison, found->comparison)) {
        *found = judgement;
      }
    }
  }
  ArrayRef<RegionJudgement> list() const { return worst_; }
  std::vector<RegionJudgement> TakeList() { return std::move(worst_); }

 private:
  std::vector<RegionJudgement> worst_;
};

// The fastest sample of each step, in microseconds.
using Times = std::map<size_t, double>;

Result<void> AddTimes(const runtime::Program& program, const DimValues& dims,
                      const EditChecks& checks, Times& times) {
  constexpr int kSamples = 20;
  constexpr uint64_t kSets = 2;  // sets of inputs in turn, so that none is in a cache already
  std::vector<Inputs> sets;
  std::vector<std::unique_ptr<runtime::Context>> contexts;
  std::vector<runtime::Context*> pointers;
  for (uint64_t i = 0; i < kSets; ++i) {
    RandomFlags flags = checks.random_flags;
    flags.seed += i;
    FUSEC_ASSIGN(sets.emplace_back(), RandomInputs(program.manifest(), dims, flags));
    FUSEC_RUNTIME_ASSIGN(contexts.emplace_back(), runtime::Context::Create(program));
    pointers.push_back(contexts.back().get());
  }
  for (uint64_t i = 0; i < kSets; ++i) FUSEC_TRY(BindInputs(*contexts[i], sets[i]));
  FUSEC_RUNTIME_ASSIGN(const auto measured, runtime::MeasureSteps(pointers, kSamples));
  for (const runtime::StepTimes& step : measured) {
    if (step.us.empty()) continue;
    const double least = *std::min_element(step.us.begin(), step.us.end());
    const auto [known, is_new] = times.emplace(step.step, least);
    if (!is_new) known->second = std::min(known->second, least);
  }
  return {};
}

std::string Microseconds(double us) {
  char text[32];
  std::snprintf(text, sizeof text, us < 100 ? "%.2f" : "%.0f", us);
  return text;
}

std::string Ratio(double ratio) {
  char text[32];
  std::snprintf(text, sizeof text, "%.2f", ratio);
  return text;
}

}  // namespace

bool EditReport::Passes() const {
  return std::all_of(judgements.begin(), judgements.end(),
                     [](const RegionJudgement& judgement) { return judgement.comparison.pass; });
}

Result<EditReport> CheckEdits(const std::string& folder, const std::string& scratch,
                              const EditChecks& checks) {
  Subject subject;
  subject.artifact = folder;
  subject.device = checks.device;
  FUSEC_ASSIGN(subject.program, LoadProgram(folder, checks.device));
  EditReport report;
  report.device = subject.program->device().name();
  report.target = subject.program->device().target().name;
  FUSEC_TRY(WriteFile(scratch + kCheckedTarget, report.target));
  const std::string separated = scratch + "/separated";
  std::error_code error;
  std::filesystem::create_directory(separated, error);
  FUSEC_ASSIGN(const RegionCheck check, RegionCheck::Make(subject, separated));
  FUSEC_ASSIGN(const Sizes sizes, SizesToCheck(subject, checks));
  std::set<std::string> edited;
  for (const runtime::Step* step : EditedSteps(*subject.program)) edited.insert(step->name);
  WorstJudgements worst;
  for (size_t i = 0; i < sizes.cases.size(); ++i) {
    const auto& [dims, inputs] = sizes.cases[i];
    const auto judged = check.Judge(inputs, dims);
    if (!judged && i >= sizes.needed && judged.error().kind == ErrorKind::kInput) {
      PrintNote("not checked at " + DimsText(dims) + ": " + judged.error().message);
      continue;
    }
    FUSEC_TRY(judged);
    worst.Add(*judged, edited);
  }
  for (const RegionJudgement& judgement : worst.list()) edited.erase(judgement.kernel);
  if (!edited.empty()) {
    const std::vector<std::string> names(edited.begin(), edited.end());
    return Fail(ErrorKind::kUsage, Join(names, " and ") +
                                       " did not run at any size of the check; give sizes at "
                                       "which it does (--dim)");
  }
  report.judgements = worst.TakeList();
  return report;
}

Result<std::vector<EditTime>> TimeEdits(const std::string& folder, const std::string& original,
                                        const EditChecks& checks) {
  constexpr int64_t kDefaultSize = 64;
  FUSEC_ASSIGN(const auto edited, LoadProgram(folder, checks.device));
  FUSEC_ASSIGN(const auto before, LoadProgram(original, checks.device));
  const auto& steps = edited->device().target().steps;
  // Both are timed in turn, so that disturbances affect both. A CPU needs more rounds, as its times
  // vary more.
  const int rounds = edited->device().has_device_memory() ? 3 : 10;
  FUSEC_ASSIGN(const auto cases,
               DimCases(checks.dims, DimRanges(edited->manifest()), {kDefaultSize}));
  std::vector<EditTime> times;
  for (const DimValues& dims : cases) {
    Times before_times, edited_times;
    for (int round = 0; round < rounds; ++round) {
      FUSEC_TRY(AddTimes(*before, dims, checks, before_times));
      FUSEC_TRY(AddTimes(*edited, dims, checks, edited_times));
    }
    for (const auto& [step, us] : edited_times) {
      if (steps[step].edited.empty() || before_times.count(step) == 0) continue;
      times.push_back({steps[step].name, dims, before_times.at(step), us});
    }
  }
  return times;
}

std::string EditTimesTable(ArrayRef<EditTime> times) {
  if (times.empty()) return "";
  std::vector<std::vector<std::string>> rows = {
      {"kernel", "dims", "original us", "edited us", "original / edited"}};
  for (const EditTime& time : times) {
    rows.push_back({time.kernel, DimsText(time.dims), Microseconds(time.original_us),
                    Microseconds(time.edited_us),
                    time.edited_us > 0 ? Ratio(time.original_us / time.edited_us) : ""});
  }
  return FormatTable(rows, "llrrr");
}

nlohmann::ordered_json EditReportJson(const EditReport& report) {
  using Json = nlohmann::ordered_json;
  Json outputs = Json::array(), times = Json::array();
  for (const RegionJudgement& judgement : report.judgements)
    outputs.push_back(JudgementJson(judgement));
  for (const EditTime& time : report.times) {
    times.push_back({{"kernel", time.kernel},
                     {"dims", DimsJson(time.dims)},
                     {"original_us", time.original_us},
                     {"edited_us", time.edited_us}});
  }
  return {{"device", report.device},
          {"target", report.target},
          {"pass", report.Passes()},
          {"outputs", outputs},
          {"times", times}};
}

}  // namespace fusec
