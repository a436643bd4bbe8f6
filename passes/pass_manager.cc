#include "passes/pass_manager.h"

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <fstream>

#include "compiler/support/check.h"
#include "compiler/support/glob.h"
#include "passes/lineage.h"
#include "passes/passes.h"
#include "passes/segments.h"

namespace fusec {

const std::vector<PassInfo>& AllPasses() {
  static const std::vector<PassInfo>& passes = *new std::vector<PassInfo>{
#define FUSEC_PASS(name, Function, optional, segments, summary) \
  {name, &Function, optional, segments, summary},
#include "passes/passes.def"
#undef FUSEC_PASS
  };
  return passes;
}

bool LiesOnHost(ArrayRef<TablePlacement> placements, const std::string& table) {
  bool on_host = false;
  for (const TablePlacement& placement : placements) {
    if (MatchesGlob(placement.pattern, table)) on_host = placement.on_host;
  }
  return on_host;
}

const PassInfo* FindPass(std::string_view name) {
  for (const PassInfo& pass : AllPasses()) {
    if (pass.name == name) return &pass;
  }
  return nullptr;
}

void PassReport::Refuse(const Value* value, const Node& reader, const std::string& reason,
                        const std::string& needed) {
  const std::string& reader_name = reader.result()->name;
  const auto [place, is_new] =
      places_.try_emplace({pass, value->name, reader_name}, refusals.size());
  if (is_new) refusals.push_back({pass, value->name, reader_name, reason, needed});
  Refusal& refusal = refusals[place->second];
  refusal.reason = reason;
  refusal.needed = needed;
}

Result<void> PassManager::Run(Graph& graph, ArrayRef<std::string> names) {
  MarkInitializers(graph);
  for (const std::string& name : names) {
    if (stop_after >= 0 && run_count_ >= stop_after) return {};
    const PassInfo* pass = FindPass(name);
    if (!pass) return Fail(ErrorKind::kUsage, "no pass is called \"" + name + "\"");
    if (options.disabled_fusions.count(name)) continue;
    const auto start = std::chrono::steady_clock::now();
    report_.pass = name;
    const LineageRecorder lineage(graph);
    FUSEC_ASSIGN(const bool changed, pass->in_segments
                                         ? RunInSegments(graph, pass->run, options, report_)
                                         : pass->run(graph, options, report_));
    const std::chrono::duration<double, std::milli> spent =
        std::chrono::steady_clock::now() - start;
    timings_.push_back({name, spent.count(), changed});
    ++run_count_;
    if (!changed) continue;
    if (auto verified = Verify(graph); !verified) {
      FUSEC_CHECK(false, "pass " + name + " left a broken graph: " + verified.error().message +
                             "\n" + Print(graph));
    }
    lineage.Record(graph, name);
    if (watch_changes) watch_changes(graph, name);
    FUSEC_TRY(Dump(graph, name));
  }
  return {};
}

Result<void> PassManager::Dump(const Graph& graph, const std::string& pass) const {
  if (dump_directory.empty()) return {};
  char number[16];
  std::snprintf(number, sizeof number, "%02d-", run_count_);
  const std::string path = dump_directory + "/" + dump_prefix + number + pass + ".ir";
  errno = 0;
  std::ofstream file(path);
  file << Print(graph);
  file.close();
  if (!file) {
    return Fail(ErrorKind::kUsage, "cannot write " + path + ": " + std::strerror(errno));
  }
  return {};
}

}  // namespace fusec
