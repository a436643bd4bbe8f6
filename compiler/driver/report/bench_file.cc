#include "compiler/driver/report/bench_file.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "compiler/support/json_number.h"
#include "compiler/support/read_file.h"
#include "compiler/support/terminal.h"

namespace fusec {

namespace {

using Json = nlohmann::json;

MeasuredPeaks ReadPeaks(const Json& json) {
  return {json.at("bytes_per_second").get<double>(), json.at("f32_per_second").get<double>(),
          json.at("source").get<std::string>()};
}

// Reads an entry of `fusec bench --json`.
MeasuredRun ReadEntry(const Json& json) {
  MeasuredRun run;
  run.device = json.at("device").get<std::string>();
  run.dims = DimsText(IntegersOf<DimValues>(json.at("dims")));
  run.device_us = json.at("device_us").at("median").get<double>();
  run.call_us = json.at("call_us").at("median").get<double>();
  run.launches = IntegerOf<int64_t>(json.at("launches"));
  run.bytes = IntegerOf<int64_t>(json.at("bytes"));
  run.flops = IntegerOf<int64_t>(json.at("flops"));
  if (json.contains("peak")) run.peaks = ReadPeaks(json.at("peak"));
  if (!json.contains("kernels")) return run;
  for (const Json& item : json.at("kernels")) {
    run.steps.push_back(
        {item.at("name").get<std::string>(), item.at("us").at("median").get<double>(),
         item.at("us").at("p99").get<double>(), IntegerOf<int64_t>(item.at("bytes_read")),
         IntegerOf<int64_t>(item.at("bytes_written")), IntegerOf<int64_t>(item.at("flops"))});
  }
  return run;
}

// Reads a file of `fusec bench --trace`, which has a process for each size and a slice for each
// kernel.
std::vector<MeasuredRun> ReadTrace(const Json& json) {
  std::vector<MeasuredRun> runs;
  const Json& other = json.at("otherData");
  for (const Json& event : json.at("traceEvents")) {
    const size_t process = IntegerOf<size_t>(event.at("pid"));
    if (process > runs.size()) throw std::out_of_range("a process without a name");
    if (process == runs.size()) {
      MeasuredRun& run = runs.emplace_back();
      run.device = other.at("device").get<std::string>();
      run.peaks = ReadPeaks(other.at("peaks"));
    }
    MeasuredRun& run = runs[process];
    const std::string name = event.at("name").get<std::string>();
    const Json& args = event.at("args");
    if (event.at("ph") == "M") {
      if (name == "process_name") run.dims = args.at("name").get<std::string>();
      continue;
    }
    run.steps.push_back({name, event.at("dur").get<double>(), args.at("p99 us").get<double>(),
                         IntegerOf<int64_t>(args.at("bytes read")),
                         IntegerOf<int64_t>(args.at("bytes written")),
                         IntegerOf<int64_t>(args.at("flops"))});
  }
  return runs;
}

tl::unexpected<Error> OfAnother(const std::string& path, const std::string& what) {
  return Fail(ErrorKind::kInput, path + ": was measured on another artifact or target: " + what);
}

std::string StepText(const std::string& name, int64_t read, int64_t written, int64_t flops) {
  return "\"" + name + "\" (" + std::to_string(read) + " bytes read, " + std::to_string(written) +
         " written, " + std::to_string(flops) + " flops)";
}

Result<void> CheckSteps(const MeasuredRun& run, const Explanation& e, const std::string& path) {
  if (run.steps.size() != e.steps.size()) {
    return OfAnother(path, "it has " + Plural(static_cast<int64_t>(run.steps.size()), "kernel") +
                               ", expected " + std::to_string(e.steps.size()));
  }
  for (size_t i = 0; i < e.steps.size(); ++i) {
    const MeasuredStep& found = run.steps[i];
    const ExplainedStep& step = e.steps[i];
    const std::string expected =
        StepText(step.name, step.bytes_read, step.bytes_written, step.flops);
    const std::string has =
        StepText(found.name, found.bytes_read, found.bytes_written, found.flops);
    if (has != expected)
      return OfAnother(path, "it has the kernel " + has + ", expected " + expected);
  }
  return {};
}

}  // namespace

Result<std::vector<MeasuredRun>> ReadBenchFile(const std::string& path) {
  FUSEC_ASSIGN(const std::string text, ReadWholeFile(path, ErrorKind::kInput));
  const Json json = Json::parse(text, nullptr, false);
  const std::string expected = "expected what `fusec bench --json` or `--trace` writes";
  if (json.is_discarded()) return Fail(ErrorKind::kInput, path + ": is not JSON, " + expected);
  std::vector<MeasuredRun> runs;
  try {
    if (json.is_object()) {
      runs = ReadTrace(json);
    } else {
      for (const Json& entry : json) runs.push_back(ReadEntry(entry));
    }
  } catch (const std::exception&) {  // a key that is missing or has another type
    return Fail(ErrorKind::kInput, path + ": has other keys, " + expected);
  }
  if (runs.empty()) return Fail(ErrorKind::kInput, path + ": has no times, " + expected);
  return runs;
}

Result<MeasuredRun> FindRun(const std::vector<MeasuredRun>& runs, const Explanation& e,
                            const std::string& path) {
  const std::string wanted = DimsText(e.dims);
  const auto found = std::find_if(runs.begin(), runs.end(),
                                  [&](const MeasuredRun& run) { return run.dims == wanted; });
  if (found == runs.end()) {
    std::vector<std::string> sizes;
    for (const MeasuredRun& run : runs) sizes.push_back(run.dims);
    return Fail(ErrorKind::kInput,
                path + ": has no times at " + wanted + "; it has " + Join(sizes, "; "));
  }
  int64_t flops = 0;
  for (const ExplainedStep& step : e.steps) flops += step.flops;
  const bool same = found->launches.value_or(e.after_launches) == e.after_launches &&
                    found->bytes.value_or(e.after_bytes) == e.after_bytes &&
                    found->flops.value_or(flops) == flops;
  if (!same) {
    return OfAnother(path, "a run has " + Plural(*found->launches, "launch") + ", " +
                               std::to_string(*found->bytes) + " bytes and " +
                               std::to_string(*found->flops) + " flops, expected " +
                               std::to_string(e.after_launches) + ", " +
                               std::to_string(e.after_bytes) + " and " + std::to_string(flops));
  }
  if (!found->steps.empty()) FUSEC_TRY(CheckSteps(*found, e, path));
  return *found;
}

}  // namespace fusec
