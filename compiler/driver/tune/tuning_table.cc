#include "compiler/driver/tune/tuning_table.h"

#include <algorithm>
#include <cstdio>

#include "compiler/support/terminal.h"

namespace fusec {

namespace {

std::string Fixed(double value, const char* format = "%.2f") {
  char text[32];
  std::snprintf(text, sizeof text, format, value);
  return text;
}

// `amount` per time: in 1e9 per second for `per_microsecond` = 1e3, in 1e12 per second for 1e6.
std::string Rate(int64_t amount, double microseconds, double per_microsecond) {
  if (amount == 0) return "";
  return Fixed(static_cast<double>(amount) / microseconds / per_microsecond, "%.3g");
}

// The numbers of the kernels that were timed, fastest first.
std::vector<size_t> ByTime(const MeasuredSize& size) {
  std::vector<size_t> order;
  for (size_t i = 0; i < size.kernels.size(); ++i) {
    if (size.kernels[i].problem.empty()) order.push_back(i);
  }
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return size.kernels[a].microseconds < size.kernels[b].microseconds;
  });
  return order;
}

std::string ChoiceWords(const MeasuredRegion& region, const MeasuredSize& size, size_t number) {
  const KernelChoice& choice = size.kernels[number].choice;
  const bool library = region.region_class == RegionClass::kMatMul && choice == KernelChoice();
  return library ? "library" : choice.Words();
}

}  // namespace

std::string SweepText(const TargetTuning& tuning) {
  std::vector<std::vector<std::string>> rows = {
      {"kernel", "sizes", "choice", "us", "GB/s", "TFLOP/s", "vs planned", ""}};
  for (const MeasuredRegion& region : tuning.regions) {
    for (const MeasuredSize& size : region.sizes) {
      for (size_t i = 0; i < size.kernels.size(); ++i) {
        const MeasuredKernel& kernel = size.kernels[i];
        std::vector<std::string> row = {region.kernel, DimsText(size.dims),
                                        ChoiceWords(region, size, i)};
        const double us = kernel.microseconds;
        if (kernel.problem.empty()) {
          row.insert(row.end(), {Fixed(us), Rate(size.bytes, us, 1e3), Rate(size.flops, us, 1e6),
                                 Fixed(us / size.kernels[0].microseconds)});
          row.push_back(std::string(i == 0 ? "planned" : "") +
                        (i == size.winner ? (i == 0 ? ", winner" : "winner") : ""));
        } else {
          row.insert(row.end(), {"", "", "", "", kernel.problem});
        }
        rows.push_back(std::move(row));
      }
    }
  }
  return FormatTable(rows, "lllrrrrl");
}

std::vector<TunedChoice> ChoicesOf(const TargetTuning& tuning) {
  std::vector<TunedChoice> choices;
  for (const MeasuredRegion& region : tuning.regions) {
    for (const MeasuredSize& size : region.sizes) {
      const size_t winner = region.complete ? size.winner : 0;
      const auto timed = [&](size_t number) {
        return TimedChoice{ChoiceWords(region, size, number), size.kernels[number].microseconds};
      };
      TunedChoice& choice = choices.emplace_back(
          TunedChoice{region.kernel, size.dims, timed(winner), {}, timed(0).microseconds});
      for (const size_t number : ByTime(size)) {
        if (number == winner) continue;
        choice.runner_up = timed(number);
        break;
      }
    }
  }
  return choices;
}

std::string ChoicesText(const TargetTuning& tuning) {
  std::vector<std::vector<std::string>> rows = {
      {"kernel", "sizes", "chosen", "us", "runner-up", "us", "planned us"}};
  for (const TunedChoice& choice : ChoicesOf(tuning)) {
    const auto& next = choice.runner_up;
    rows.push_back({choice.kernel, DimsText(choice.dims), choice.chosen.words,
                    Fixed(choice.chosen.microseconds), next ? next->words : "",
                    next ? Fixed(next->microseconds) : "", Fixed(choice.planned_microseconds)});
  }
  return FormatTable(rows, "lllrlrr");
}

}  // namespace fusec
