#include "compiler/driver/verify/onnxruntime_judge.h"

#include <cstdlib>
#include <filesystem>
#include <sstream>

#include "compiler/package/weights_file.h"
#include "compiler/support/child_process.h"
#include "compiler/support/interrupt.h"
#include "compiler/support/read_file.h"

namespace fusec {

namespace {

namespace fs = std::filesystem;

constexpr const char* kVersionScript = "import numpy, onnxruntime; print(onnxruntime.__version__)";

// Reads names.txt and input_N.npy in its folder, and writes outputs.txt and output_N.npy. NumPy has
// no bf16: such inputs are read as two raw bytes and passed to onnxruntime as bits.
constexpr const char* kRunScript = R"(
import sys, numpy, onnxruntime
model, folder, optimizations = sys.argv[1:]
options = onnxruntime.SessionOptions()
options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, optimizations)
options.log_severity_level = 4
session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
BFLOAT16 = 16
feeds = {}
lines = open(folder + "/names.txt", encoding="utf-8").read().split("\n")
for number, name in enumerate(lines[:-1]):
    array = numpy.load(f"{folder}/input_{number}.npy")
    if array.dtype.kind == "V":
        bits = array.view(numpy.uint16)
        feeds[name] = onnxruntime.OrtValue.ortvalue_from_numpy_with_onnx_type(bits, BFLOAT16)
    else:
        feeds[name] = onnxruntime.OrtValue.ortvalue_from_numpy(array)
names = [output.name for output in session.get_outputs()]
if any(output.type.startswith("seq(map(") for output in session.get_outputs()):
    # Maps of labels to scores (ZipMap): the scores alone.
    values = session.run(names, {name: feed.numpy() for name, feed in feeds.items()})
    values = [value if isinstance(value, numpy.ndarray) else
              numpy.array([list(row.values()) for row in value], numpy.float32) for value in values]
else:
    values = [value.numpy() for value in session.run_with_ort_values(names, feeds)]
for number, value in enumerate(values):
    numpy.save(f"{folder}/output_{number}.npy", value)
with open(folder + "/outputs.txt", "w", encoding="utf-8") as file:
    file.write("".join(name + "\n" for name in names))
)";

std::vector<std::string> Candidates() {
  if (const char* chosen = std::getenv("FUSEC_PYTHON"); chosen && *chosen) return {chosen};
  std::vector<std::string> candidates;
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/self/exe", error);
  if (!error) candidates.push_back(program.parent_path().parent_path() / ".deps/venv/bin/python");
  candidates.push_back("python3");
  return candidates;
}

// The last line that is not blank, which has the message of a Python exception.
std::string LastLine(const std::string& text) {
  std::string last;
  std::stringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.find_first_not_of(" \t\r") != std::string::npos) last = line;
  }
  return last;
}

}  // namespace

std::optional<OnnxruntimeJudge> OnnxruntimeJudge::Find(const std::string& folder) {
  for (const std::string& python : Candidates()) {
    const ChildResult child = RunChild({python, "-c", kVersionScript}, folder);
    if (child.exit_code != 0) continue;
    OnnxruntimeJudge judge;
    judge.python_ = python;
    judge.version_ = LastLine(child.output);
    return judge;
  }
  return std::nullopt;
}

Result<NamedTensors> OnnxruntimeJudge::Run(const std::string& model, const NamedTensors& inputs,
                                           bool as_written) const {
  FUSEC_ASSIGN(const std::string folder, MakeTemporaryFolder());
  const TemporaryFolder cleanup(folder);
  std::string names;
  for (size_t i = 0; i < inputs.size(); ++i) {
    names += inputs[i].first + "\n";
    FUSEC_TRY(WriteNpy(folder + "/input_" + std::to_string(i) + ".npy", inputs[i].second));
  }
  FUSEC_TRY(WriteFile(folder + "/names.txt", names));
  const std::string optimizations = as_written ? "ORT_DISABLE_ALL" : "ORT_ENABLE_ALL";
  const ChildResult child =
      RunChild({python_, "-c", kRunScript, model, folder, optimizations}, folder);
  if (child.exit_code != 0)
    return Fail(ErrorKind::kToolchain, "onnxruntime: " + LastLine(child.errors));
  FUSEC_ASSIGN(const std::string listed,
               ReadWholeFile(folder + "/outputs.txt", ErrorKind::kToolchain));
  std::stringstream output_names(listed);
  NamedTensors outputs;
  for (std::string name; std::getline(output_names, name);) {
    FUSEC_ASSIGN(TensorData data,
                 ReadNpy(folder + "/output_" + std::to_string(outputs.size()) + ".npy"));
    outputs.emplace_back(name, std::move(data));
  }
  return outputs;
}

}  // namespace fusec
