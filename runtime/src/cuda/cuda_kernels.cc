#include "runtime/src/cuda/cuda_kernels.h"

#include <algorithm>
#include <atomic>
#include <charconv>
#include <optional>
#include <set>
#include <thread>
#include <utility>

#include "runtime/src/cuda/nvrtc.h"

namespace fusec::runtime {
namespace {

// The architecture in a target's name: "sm_90a" has capability 90 and suffix 'a'; names such as
// "cpu" have none.
struct Architecture {
  int capability = 0;
  // 'a': only this capability; 'f': its family; none: also later minor versions
  char suffix = '\0';
};

std::optional<Architecture> ParseArchitecture(std::string_view name) {
  if (name.substr(0, 3) != "sm_") return std::nullopt;
  name.remove_prefix(3);
  Architecture architecture;
  const auto [end, error] =
      std::from_chars(name.data(), name.data() + name.size(), architecture.capability);
  if (error != std::errc() || architecture.capability < 10) return std::nullopt;
  name.remove_prefix(static_cast<size_t>(end - name.data()));
  if (name.size() > 1 || (name.size() == 1 && name != "a" && name != "f")) return std::nullopt;
  if (name.size() == 1) architecture.suffix = name[0];
  return architecture;
}

bool Fits(const Architecture& code, int capability) {
  if (code.suffix == 'a') return code.capability == capability;
  return code.capability / 10 == capability / 10 && code.capability <= capability;
}

// Compiles every source of the target, several at the same time; the results are in the order of
// `sources`.
StatusOr<std::vector<std::string>> CompileSources(const Artifact& artifact,
                                                  const std::vector<std::string>& sources,
                                                  const std::string& arch) {
  std::vector<StatusOr<std::string>> images(sources.size());
  std::atomic<size_t> next = 0;
  const auto work = [&] {
    for (size_t i = next++; i < sources.size(); i = next++) {
      const StatusOr<MappedFile> file = artifact.ReadFile(sources[i]);
      if (file) {
        images[i] = CompileCached(sources[i], std::string(file->text()), arch);
      } else {
        images[i] = tl::unexpected<RuntimeError>(file.error());
      }
    }
  };
  const size_t cores = std::max(1u, std::thread::hardware_concurrency());
  {
    std::vector<std::jthread> threads;
    for (size_t i = 1; i < std::min(cores, sources.size()); ++i) threads.emplace_back(work);
    work();
  }
  std::vector<std::string> results;
  for (StatusOr<std::string>& image : images) {
    FUSEC_RT_ASSIGN(std::string text, std::move(image));
    results.push_back(std::move(text));
  }
  return results;
}

// Loads the modules of a target, by key in its files, or by source file if they are compiled.
StatusOr<std::map<std::string, CudaModule>> LoadModules(const CudaContext& context,
                                                        const Artifact& artifact,
                                                        const GpuTargetChoice& choice) {
  std::map<std::string, CudaModule> modules;
  if (choice.machine_code_fits) {
    for (const auto& [key, path] : choice.target->files) {
      if (key == kRowKernels) continue;  // see LoadRowKernels
      FUSEC_RT_ASSIGN(const MappedFile file, artifact.ReadFile(path));
      FUSEC_RT_ASSIGN(CudaModule module, LoadModule(context, file.bytes().data(), path));
      modules.emplace(key, std::move(module));
    }
    return modules;
  }
  std::set<std::string> unique;
  for (const Step& step : choice.target->steps) {
    if (step.kind == Step::Kind::kKernel) unique.insert(step.kernel.source);
  }
  if (unique.empty()) return modules;
  FUSEC_RT_ASSIGN(const Nvrtc* nvrtc, Nvrtc::Get());
  FUSEC_RT_ASSIGN(const std::string arch,
                  NvrtcArchitecture(context.capability(), nvrtc->supported_capabilities()));
  const std::vector<std::string> sources(unique.begin(), unique.end());
  FUSEC_RT_ASSIGN(const std::vector<std::string> images, CompileSources(artifact, sources, arch));
  for (size_t i = 0; i < images.size(); ++i) {
    FUSEC_RT_ASSIGN(CudaModule module, LoadModule(context, images[i].c_str(), sources[i]));
    modules.emplace(sources[i], std::move(module));
  }
  return modules;
}

// The kernel of this name in a module, or null. The function is loaded immediately; otherwise the
// driver would load it when it is first used, which might be in a run or during a stream capture.
StatusOr<CUfunction> FindFunction(const CudaContext& context, const CudaModule& module,
                                  const std::string& name) {
  CUfunction function = nullptr;
  const CUresult result =
      context.driver().cuModuleGetFunction(&function, module.get(), name.c_str());
  if (result == CUDA_ERROR_NOT_FOUND) return nullptr;
  FUSEC_RT_TRY(context.Check(result, "cuModuleGetFunction", Text("kernel ", name)));
  FUSEC_RT_TRY(FUSEC_CUDA(context, Text("kernel ", name), cuFuncLoad, function));
  return function;
}

}  // namespace

StatusOr<GpuTargetChoice> ChooseGpuTarget(const Manifest& manifest, int capability) {
  const Target* fitting = nullptr;  // the most specific machine code that fits
  const Target* older = nullptr;    // the newest target that is not newer than the GPU
  const Target* oldest = nullptr;
  int fitting_rank = -1, older_capability = -1, oldest_capability = -1;
  for (const auto& [name, target] : manifest.targets) {
    const std::optional<Architecture> architecture = ParseArchitecture(name);
    if (!architecture) continue;
    const int made_for = architecture->capability;
    const int rank =
        10 * made_for + (architecture->suffix == 'a' ? 2 : architecture->suffix == 'f');
    if (!target.files.empty() && Fits(*architecture, capability) && rank > fitting_rank) {
      fitting = &target;
      fitting_rank = rank;
    }
    if (made_for <= capability && made_for > older_capability) {
      older = &target;
      older_capability = made_for;
    }
    if (oldest == nullptr || made_for < oldest_capability) {
      oldest = &target;
      oldest_capability = made_for;
    }
  }
  if (fitting != nullptr) return GpuTargetChoice{fitting, true};
  if (oldest == nullptr) {
    return Fail(FUSEC_NO_DEVICE,
                "the artifact has no GPU target, only \"cpu\"; compile it with --target");
  }
  return GpuTargetChoice{older != nullptr ? older : oldest, false};
}

namespace {

// Whether b is the alternative that follows a: alternatives are adjacent, ordered by size, and
// compute the same values.
bool Follow(const Step& a, const Step& b) {
  return a.when && b.when && a.outputs == b.outputs && b.when->from == a.when->to + 1;
}

// value * numerator / denominator, all positive, or the largest number below 2^63 - 1.
int64_t Scaled(int64_t value, int numerator, int denominator) {
  const auto scaled = static_cast<__int128>(value) * numerator / denominator;
  return static_cast<int64_t>(std::min<__int128>(scaled, INT64_MAX - 1));
}

}  // namespace

std::vector<Step> ForMultiprocessors(std::vector<Step> steps, int planned, int multiprocessors) {
  if (planned <= 0 || planned == multiprocessors) return steps;
  std::vector<Step> moved;
  for (size_t first = 0, end = 0; first < steps.size(); first = end) {
    end = first + 1;
    while (end < steps.size() && Follow(steps[end - 1], steps[end])) ++end;
    if (end - first == 1) {
      moved.push_back(steps[first]);
      continue;
    }
    // From the last alternative to the first: a range that would be empty is dropped, except the
    // first.
    std::vector<Step> kept;
    int64_t to = steps[end - 1].when->to;
    for (size_t i = end; i-- > first;) {
      SizeRange when = *steps[i].when;
      if (i > first && when.by_waves)
        when.from = Scaled(when.from - 1, multiprocessors, planned) + 1;
      size_t fixed = i;  // the last alternative before this one whose range does not move
      while (fixed > first && (fixed == i || steps[fixed].when->by_waves)) --fixed;
      if (i > first) when.from = std::max(when.from, steps[fixed].when->from + 1);
      if (when.from > to) continue;
      when.to = std::exchange(to, when.from - 1);
      kept.push_back(steps[i]);
      kept.back().when = when;
    }
    moved.insert(moved.end(), kept.rbegin(), kept.rend());
  }
  return moved;
}

std::vector<Step> WithinSharedMemory(const std::vector<Step>& steps, int most_shared_bytes) {
  std::vector<Step> kept;
  std::optional<int64_t> first;  // the first size of the range that the next step takes over
  for (size_t i = 0; i < steps.size(); ++i) {
    const Step& step = steps[i];
    const bool fits =
        step.kind != Step::Kind::kKernel || step.kernel.shared_bytes <= most_shared_bytes;
    if (!fits && !first && i > 0 && !kept.empty() && Follow(steps[i - 1], step)) {
      kept.back().when->to = step.when->to;
      continue;
    }
    if (!fits && i + 1 < steps.size() && Follow(step, steps[i + 1])) {
      if (!first) first = step.when->from;
      continue;
    }
    kept.push_back(step);
    if (first) kept.back().when->from = *first;
    first.reset();
  }
  return kept;
}

StatusOr<std::string> NvrtcArchitecture(int capability, const std::vector<int>& supported) {
  if (std::binary_search(supported.begin(), supported.end(), capability)) {
    return Text("sm_", capability, capability >= 90 ? "a" : "");
  }
  const auto above = std::upper_bound(supported.begin(), supported.end(), capability);
  if (above == supported.begin()) {
    return Fail(FUSEC_NO_DEVICE, "the GPU's compute capability is ", capability / 10, ".",
                capability % 10, ", NVRTC supports ",
                supported.empty() ? 0 : supported.front() / 10, ".",
                supported.empty() ? 0 : supported.front() % 10, " or newer");
  }
  return Text("compute_", *std::prev(above));
}

StatusOr<CudaModule> LoadModule(const CudaContext& context, const void* image,
                                std::string_view purpose) {
  CUmodule module = nullptr;
  FUSEC_RT_TRY(FUSEC_CUDA(context, purpose, cuModuleLoadData, &module, image));
  return CudaModule(context, module);
}

Status LoadFunctions(const CudaContext& context, const CudaModule& module,
                     std::initializer_list<std::pair<CUfunction*, const char*>> wanted) {
  for (const auto& [function, name] : wanted) {
    const std::string purpose = Text("kernel ", name);
    FUSEC_RT_TRY(FUSEC_CUDA(context, purpose, cuModuleGetFunction, function, module.get(), name));
    FUSEC_RT_TRY(FUSEC_CUDA(context, purpose, cuFuncLoad, *function));
  }
  return {};
}

StatusOr<CudaModule> LoadRowKernels(const CudaContext& context, const Artifact& artifact,
                                    const GpuTargetChoice& choice) {
  const auto code = choice.target->files.find(kRowKernels);
  if (choice.machine_code_fits && code != choice.target->files.end()) {
    FUSEC_RT_ASSIGN(const MappedFile file, artifact.ReadFile(code->second));
    return LoadModule(context, file.bytes().data(), code->second);
  }
  FUSEC_RT_ASSIGN(const MappedFile text, artifact.ReadFile(kRowKernelsText));
  FUSEC_RT_ASSIGN(const Nvrtc* nvrtc, Nvrtc::Get());
  FUSEC_RT_ASSIGN(const std::string arch,
                  NvrtcArchitecture(context.capability(), nvrtc->supported_capabilities()));
  FUSEC_RT_ASSIGN(const std::string image,
                  CompileCached(kRowKernelsText, std::string(text.text()), arch));
  return LoadModule(context, image.c_str(), kRowKernelsText);
}

StatusOr<CudaKernels> CudaKernels::Load(const CudaContext& context, const Artifact& artifact,
                                        const GpuTargetChoice& choice) {
  CudaKernels kernels;
  FUSEC_RT_ASSIGN(kernels.modules_, LoadModules(context, artifact, choice));
  struct Wanted {
    std::string module;
    int shared_bytes = 0;
  };
  std::map<std::string, Wanted> all_wanted;  // by function
  for (const Step& step : choice.target->steps) {
    if (step.kind != Step::Kind::kKernel) continue;
    Wanted& wanted = all_wanted[step.kernel.function];
    wanted.module = choice.machine_code_fits ? step.kernel.module : step.kernel.source;
    wanted.shared_bytes = std::max(wanted.shared_bytes, step.kernel.shared_bytes);
  }
  for (const auto& [name, wanted] : all_wanted) {
    const auto module = kernels.modules_.find(wanted.module);
    CUfunction function = nullptr;
    if (module != kernels.modules_.end()) {
      FUSEC_RT_ASSIGN(function, FindFunction(context, module->second, name));
    }
    if (function == nullptr) {
      return Fail(FUSEC_BAD_ARTIFACT, artifact.path(), ": ", wanted.module,
                  " does not hold the kernel \"", name, "\"");
    }
    if (const int bytes = wanted.shared_bytes; bytes > 0) {
      FUSEC_RT_TRY(FUSEC_CUDA(
          context, Text("kernel ", name, " (", bytes, " bytes of shared memory)"),
          cuFuncSetAttribute, function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, bytes));
    }
    int cluster_blocks = 0;
    FUSEC_RT_TRY(FUSEC_CUDA(context, Text("kernel ", name), cuFuncGetAttribute, &cluster_blocks,
                            CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH, function));
    kernels.functions_[name] = {function, cluster_blocks};
  }
  if (const auto first = kernels.modules_.find("cubin"); first != kernels.modules_.end()) {
    FUSEC_RT_ASSIGN(kernels.of_runtime_.copy_inputs,
                    FindFunction(context, first->second, "copy_inputs"));
    FUSEC_RT_ASSIGN(kernels.of_runtime_.end_run, FindFunction(context, first->second, "end_run"));
  }
  return kernels;
}

}  // namespace fusec::runtime
