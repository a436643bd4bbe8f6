// model_judge: compares compiled ONNX models with the interpreter, with one run of the host compiler for many models.
//
//   model_judge [--interpreter] [--gpu-text] [--sm-90a] < FOLDERS
//
// Each line of stdin is the folder of one model (judged_model.h says what is in it); an empty line
// ends a batch. The verdicts of the batch are printed as one JSON object per line, followed by an empty line. Every model is imported,
// interpreted and compared with the other implementation's answers; then all models of a batch are compiled together for the CPU, and run.
// --gpu-text also runs the text of their GPU kernels on the CPU, and --sm-90a compiles it by NVRTC. The work is done in a fork of this
// process; if that crashes or the compiler fails, the batch is halved until the model is found.
#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>

#include "compiler/emit/emit_kernel.h"
#include "compiler/emit/equal_kernels.h"
#include "compiler/plan/plan_program.h"
#include "compiler/support/child_process.h"
#include "compiler/support/gpu.h"
#include "runtime/src/cuda/nvrtc.h"
#include "tests/fuzz/judged_model.h"
#include "tests/property/compiled_graphs.h"

namespace fusec {
namespace {

using Json = nlohmann::json;
using Folders = std::vector<std::string>;

constexpr int kSecondsPerBatch = 60, kSecondsPerModel = 20;

struct Settings {
  bool compiles = true, gpu_text = false, sm_90a = false;
};

struct Scratch {
  std::string verdicts, errors;  // files that a copy writes
};

std::vector<const Graph*> Pointers(const std::vector<std::unique_ptr<Graph>>& graphs) {
  std::vector<const Graph*> pointers;
  for (const auto& graph : graphs) pointers.push_back(graph.get());
  return pointers;
}

Result<void> CompileForHopper(ArrayRef<const Graph*> fused) {
  const auto graph = SideBySide(fused);
  std::vector<IndexSite> sites;
  FUSEC_ASSIGN(const ProgramPlan plan,
               PlanProgram(*graph, {TargetKind::kGpu, "highest", &GpuFor("sm_90a")}, sites));
  const auto nvrtc = runtime::Nvrtc::Get();
  if (!nvrtc) return Fail(ErrorKind::kToolchain, nvrtc.error().message);
  const auto cubin =
      runtime::CompileCached("kernels.cu", EmitGpuModule(FunctionsOf(plan), {}), "sm_90a");
  if (!cubin) return Fail(ErrorKind::kToolchain, cubin.error().message);
  return {};
}

// Judges the models by one program for `where`.
Result<void> JudgeCompiled(std::vector<JudgedModel>& models, RunOn where,
                           const Settings& settings) {
  const TargetKind target = where == RunOn::kCpu ? TargetKind::kCpu : TargetKind::kGpu;
  std::vector<std::unique_ptr<Graph>> fused;
  for (const JudgedModel& model : models) {
    FUSEC_ASSIGN(auto graph, model.Fused(target));
    fused.push_back(std::move(graph));
  }
  if (target == TargetKind::kGpu && settings.sm_90a) FUSEC_TRY(CompileForHopper(Pointers(fused)));
  FUSEC_ASSIGN(const auto compiled,
               CompiledGraphs::Make(Pointers(fused), where, {"eliminate-dead-nodes"}));
  size_t sets = models.front().set_count();
  for (size_t set = 0; set < sets; ++set) {
    std::vector<std::vector<ReferenceTensor>> inputs;
    for (const JudgedModel& model : models) inputs.push_back(model.inputs(set));
    FUSEC_ASSIGN(auto found, compiled->Run(inputs));
    for (size_t i = 0; i < models.size(); ++i) {
      models[i].Judge(set, where == RunOn::kCpu ? "cpu" : "gpu-text", std::move(found[i]));
    }
  }
  return {};
}

const char* VerdictOf(ErrorKind kind) {
  return kind == ErrorKind::kModel   ? "unsupported"
         : kind == ErrorKind::kInput ? "refused"
                                     : "error";
}

// Runs in a fork of the process. Verdicts are written to `out`; an error concerns all remaining models.
Result<void> JudgeAll(const Folders& folders, const Settings& settings, std::ostream& out) {
  std::vector<JudgedModel> models;
  for (const std::string& folder : folders) {
    auto model = JudgedModel::Read(folder);
    if (model) {
      FUSEC_TRY(model->JudgeOther());
      models.push_back(*std::move(model));
    } else {
      out << Json{{"model", folder},
                  {"verdict", VerdictOf(model.error().kind)},
                  {"reason", model.error().message}}
          << "\n";
    }
  }
  if (models.empty()) return {};
  if (settings.compiles) FUSEC_TRY(JudgeCompiled(models, RunOn::kCpu, settings));
  if (settings.gpu_text) FUSEC_TRY(JudgeCompiled(models, RunOn::kGpuTextOnCpu, settings));
  for (const JudgedModel& model : models) out << model.Verdict() << "\n";
  return {};
}

std::string FirstLines(const std::string& path) {
  constexpr size_t kShown = 1000;
  std::ifstream file(path);
  std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  return text.substr(0, kShown);
}

void JudgeBatch(const Folders& folders, const Settings& settings, const Scratch& scratch) {
  if (folders.empty()) return;
  const int code = RunInCopy([&] {
    alarm(static_cast<unsigned>(kSecondsPerBatch + kSecondsPerModel * folders.size()));
    if (std::freopen(scratch.errors.c_str(), "w", stderr) == nullptr) return 1;
    if (dup2(STDERR_FILENO, STDOUT_FILENO) < 0) return 1;  // generated kernels complain there
    std::ofstream out(scratch.verdicts);
    const Result<void> judged = JudgeAll(folders, settings, out);
    if (!judged) std::fprintf(stderr, "%s\n", judged.error().message.c_str());
    return judged ? 0 : static_cast<int>(judged.error().kind);
  });
  if (code == 0) {
    std::cout << std::ifstream(scratch.verdicts).rdbuf();
    std::cout.clear();  // an empty file sets its failure bit
  } else if (folders.size() == 1) {
    const bool is_crash = code < 0 || code > static_cast<int>(ErrorKind::kInput);
    const std::string why =
        code < 0 ? fmt::format("signal {}: ", -code) : fmt::format("code {}: ", code);
    std::cout << Json{{"model", folders[0]},
                      {"verdict", is_crash ? "crash" : VerdictOf(static_cast<ErrorKind>(code))},
                      {"judge", "compiled"},
                      {"reason", why + FirstLines(scratch.errors)}}
                     .dump(-1, ' ', false, Json::error_handler_t::replace)
              << "\n";
  } else {
    const auto middle = folders.begin() + static_cast<std::ptrdiff_t>(folders.size() / 2);
    JudgeBatch({folders.begin(), middle}, settings, scratch);
    JudgeBatch({middle, folders.end()}, settings, scratch);
  }
}

}  // namespace
}  // namespace fusec

int main(int argc, char** argv) {
  fusec::Settings settings;
  for (int i = 1; i < argc; ++i) {
    const std::string flag = argv[i];
    if (flag == "--interpreter") {
      settings.compiles = false;
    } else if (flag == "--gpu-text") {
      settings.gpu_text = true;
    } else if (flag == "--sm-90a") {
      settings.sm_90a = true;
    } else {
      fmt::print(stderr, "usage: model_judge [--interpreter] [--gpu-text] [--sm-90a] < FOLDERS\n");
      return 2;
    }
  }
  const auto folder = fusec::MakeTemporaryFolder();
  if (!folder) {
    fmt::print(stderr, "{}\n", folder.error().message);
    return 1;
  }
  const fusec::Scratch scratch{*folder + "/verdicts", *folder + "/errors"};
  fusec::Folders folders;
  for (std::string line; std::getline(std::cin, line);) {
    if (!line.empty()) {
      folders.push_back(line);
      continue;
    }
    fusec::JudgeBatch(folders, settings, scratch);
    std::cout << std::endl;
    folders.clear();
  }
  std::filesystem::remove_all(*folder);
  return 0;
}
