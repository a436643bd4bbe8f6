#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <set>

#include "compiler/driver/artifact_session.h"
#include "compiler/driver/cli.h"
#include "compiler/driver/input_flags.h"
#include "compiler/driver/terminal.h"

namespace fusec {

namespace {

// The name of an output as a file's: characters outside [A-Za-z0-9._-] become _. Two outputs that
// would share a file get a number.
std::string FileNameOf(const std::string& name, std::set<std::string>& taken) {
  std::string file = name;
  for (char& c : file) {
    const bool good = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                      c == '.' || c == '_' || c == '-';
    if (!good) c = '_';
  }
  const std::string wanted = file;
  for (int number = 2; !taken.insert(file).second; ++number)
    file = wanted + "_" + std::to_string(number);
  return file + ".npy";
}

// "min -1.2 max 3.4 mean 0.11", and how many are not finite.
std::string Summary(const TensorData& data) {
  double low = INFINITY, high = -INFINITY, sum = 0;
  int64_t finite = 0;
  for (int64_t i = 0; i < data.element_count(); ++i) {
    const double value = data.GetDouble(i);
    if (!std::isfinite(value)) continue;
    low = std::min(low, value);
    high = std::max(high, value);
    sum += value;
    ++finite;
  }
  std::string text = "empty";
  if (finite > 0) {
    char numbers[96];
    std::snprintf(numbers, sizeof numbers, "min %.6g  max %.6g  mean %.6g", low, high,
                  sum / static_cast<double>(finite));
    text = numbers;
  } else if (data.element_count() > 0) {
    text = "no finite value";
  }
  const int64_t rest = data.element_count() - finite;
  return rest == 0 ? text : text + "  " + std::to_string(rest) + " not finite";
}

}  // namespace

Result<int> RunRun(const RunFlags& flags) {
  FUSEC_ASSIGN(const auto program, LoadProgram(flags.artifact, flags.device));
  const runtime::Manifest& manifest = program->manifest();
  FUSEC_ASSIGN(const Inputs inputs,
               ChooseInputs(manifest, flags.inputs, flags.random, flags.dims, flags.seed));
  FUSEC_ASSIGN(const std::vector<TensorData> outputs, RunOnce(*program, inputs));
  if (!flags.output.empty()) {
    std::error_code error;
    std::filesystem::create_directories(flags.output, error);
    if (error)
      return Fail(ErrorKind::kUsage, "cannot create " + flags.output + ": " + error.message());
  }
  std::vector<std::vector<std::string>> rows = {
      {"output", "type", "values", flags.output.empty() ? "" : "file"}};
  std::set<std::string> taken;
  for (size_t i = 0; i < outputs.size(); ++i) {
    const std::string& name = manifest.outputs[i].name;
    std::string path;
    if (!flags.output.empty()) {
      path = flags.output + "/" + FileNameOf(name, taken);
      FUSEC_TRY(WriteNpy(path, outputs[i]));
    }
    rows.push_back({name, TypeText(outputs[i]), Summary(outputs[i]), path});
  }
  std::fputs(FormatTable(rows, "llll").c_str(), stdout);
  PrintNote("ran on " + program->device().name());
  return 0;
}

}  // namespace fusec
