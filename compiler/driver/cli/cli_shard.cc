#include <fmt/format.h>

#include <cstdio>

#include "compiler/driver/artifact/dim_flags.h"
#include "compiler/driver/build/compile.h"
#include "compiler/driver/cli/cli.h"
#include "compiler/driver/shard/plan_text.h"
#include "compiler/driver/shard/shard.h"
#include "compiler/support/interrupt.h"
#include "compiler/support/terminal.h"

namespace fusec {

namespace {

constexpr double kBytesOfGigabyte = 1e9, kBytesOfGigabit = 1e9 / 8;

Result<ShardOptions> OptionsOf(const ShardFlags& flags) {
  ShardOptions options;
  FUSEC_ASSIGN(options.compile, CompileOptionsOf(flags.compile));
  options.profile = flags.profile;
  options.wire = ParseWire(flags.wire).value_or(Wire::kExact);
  options.plan.shards = flags.shards;
  options.plan.most_bytes = static_cast<double>(flags.shard_memory);
  options.plan.least_bytes = static_cast<double>(flags.replicate_below);
  options.plan.costs = {flags.row_gigabytes * kBytesOfGigabyte,
                        flags.network_gigabits * kBytesOfGigabit, flags.message_us,
                        flags.dense_gigaflops * 1e9};
  FUSEC_ASSIGN(const auto dims, ParseDimRanges(flags.plan_dims));
  for (const auto& [name, range] : dims) {
    if (range.first != range.second)
      return Fail(ErrorKind::kUsage, fmt::format("--plan-dim {}={}..{}: expected one size", name,
                                                 range.first, range.second));
    options.dims[name] = range.first;
  }
  return options;
}

}  // namespace

Result<int> RunShard(const ShardFlags& flags) {
  FUSEC_ASSIGN(ShardOptions options, OptionsOf(flags));
  CatchInterrupts();
  Result<ShardReport> report = Fail(ErrorKind::kUsage, "");
  {
    ProgressLine progress;
    options.compile.progress = [&](const std::string& stage, double fraction) {
      progress.Update(stage, fraction);
    };
    report = ShardModel(options);
  }
  FUSEC_TRY(report);
  for (const std::string& warning : report->warnings) PrintWarning(warning);
  const std::string text = flags.json ? report->plan.dump(1) + "\n" : ShardPlanText(report->plan);
  std::fputs(text.c_str(), stdout);
  PrintNote(fmt::format("built {} in {:.1f} s", flags.compile.output, report->seconds));
  return 0;
}

}  // namespace fusec
