#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>

#include "compiler/driver/artifact/artifact_session.h"
#include "compiler/driver/artifact/input_flags.h"
#include "compiler/driver/artifact/output_files.h"
#include "compiler/driver/cli/cli.h"
#include "compiler/support/terminal.h"

namespace fusec {

namespace {

// "min -1.2  max 3.4  mean 0.11" of the finite elements, and how many elements are not finite.
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

// Loads an adapter into a slot; `flag` is "SLOT=PATH".
Result<void> LoadAdapter(const std::string& flag, runtime::Program& program) {
  const size_t equals = flag.find('=');
  int64_t slot = 0;
  const char* const end = flag.data() + std::min(equals, flag.size());
  const auto [read, error] = std::from_chars(flag.data(), end, slot);
  if (equals == std::string::npos || error != std::errc() || read != end)
    return Fail(ErrorKind::kUsage,
                "--adapter " + flag + ": expected SLOT=PATH, with the number of a slot");
  FUSEC_RUNTIME_TRY(program.LoadAdapter(slot, flag.substr(equals + 1)));
  return {};
}

}  // namespace

Result<int> RunRun(const RunFlags& flags) {
  FUSEC_ASSIGN(const auto program, LoadProgram(flags.artifact, flags.device));
  for (const std::string& adapter : flags.adapters) FUSEC_TRY(LoadAdapter(adapter, *program));
  const runtime::Manifest& manifest = program->manifest();
  FUSEC_ASSIGN(const Inputs inputs,
               ChooseInputs(manifest, flags.inputs, flags.random, flags.dims, flags.random_flags));
  FUSEC_ASSIGN(const std::vector<TensorData> outputs, RunOnce(*program, inputs));
  std::vector<std::string> paths(outputs.size());
  if (!flags.output.empty()) {
    FUSEC_ASSIGN(paths, WriteOutputs(manifest, outputs, flags.output));
  }
  std::vector<std::vector<std::string>> rows = {
      {"output", "type", "values", flags.output.empty() ? "" : "file"}};
  for (size_t i = 0; i < outputs.size(); ++i) {
    rows.push_back({manifest.outputs[i].name, TypeText(outputs[i]), Summary(outputs[i]), paths[i]});
  }
  std::fputs(FormatTable(rows, "llll").c_str(), stdout);
  NoteEdits(*program);
  PrintNote("ran on " + program->device().name());
  return 0;
}

}  // namespace fusec
