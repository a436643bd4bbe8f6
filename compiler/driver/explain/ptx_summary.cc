#include "compiler/driver/explain/ptx_summary.h"

#include <algorithm>
#include <cstdio>
#include <future>
#include <map>
#include <nlohmann/json.hpp>

#include "compiler/driver/artifact/artifact_session.h"
#include "compiler/support/adt.h"
#include "compiler/support/read_file.h"
#include "compiler/support/terminal.h"
#include "runtime/src/artifact/artifact.h"
#include "runtime/src/cuda/kernel_cache.h"
#include "runtime/src/cuda/nvrtc.h"

namespace fusec {

namespace {

using Json = nlohmann::ordered_json;

// The PTX and the assembler's log of one source. The kernel cache keeps them, separated by a zero
// byte.
Result<runtime::Nvrtc::Inspection> InspectCached(const std::string& name, const std::string& source,
                                                 const std::string& architecture) {
  FUSEC_RUNTIME_ASSIGN(const runtime::Nvrtc* nvrtc, runtime::Nvrtc::Get());
  const std::string key = "nvrtc inspection " + std::to_string(nvrtc->major()) + "." +
                          std::to_string(nvrtc->minor()) + " " + architecture + "\n" + source;
  FUSEC_RUNTIME_ASSIGN(
      const std::string both,
      runtime::KernelCache::Default().GetOrMake(key, [&]() -> runtime::StatusOr<std::string> {
        auto made = nvrtc->Inspect(name, source, architecture);
        if (!made) return tl::unexpected(made.error());
        while (made->ptx.ends_with('\0')) made->ptx.pop_back();
        return made->ptx + '\0' + made->log;
      }));
  const size_t middle = std::min(both.find('\0'), both.size() - 1);
  return runtime::Nvrtc::Inspection{both.substr(0, middle), both.substr(middle + 1)};
}

// Kernels with the key of their cubin file in the manifest. An edited kernel is in two files: its
// own and the one that held the original.
using CubinKernels = std::vector<std::pair<std::string, CubinKernel>>;

Result<CubinKernels> ReadTargetCubin(const std::string& artifact, const runtime::Target& target) {
  CubinKernels kernels;  // empty if all steps are library calls
  FUSEC_RUNTIME_ASSIGN(const auto opened, runtime::Artifact::Open(artifact));
  for (const auto& [key, path] : target.files) {
    FUSEC_RUNTIME_ASSIGN(const runtime::MappedFile mapped, opened->ReadFile(path));
    FUSEC_ASSIGN(const auto of_file, ReadCubin(mapped.text(), artifact + "/" + path));
    for (const CubinKernel& kernel : of_file) kernels.emplace_back(key, kernel);
  }
  return kernels;
}

std::string Percent(double fraction) {
  char text[16];
  std::snprintf(text, sizeof text, "%.0f%%", 100 * fraction);
  return text;
}

std::string SpillText(const PtxasKernel& kernel) {
  if (kernel.spill_store_bytes == 0 && kernel.spill_load_bytes == 0) return "0";
  return std::to_string(kernel.spill_store_bytes) + " + " +
         std::to_string(kernel.spill_load_bytes) + " B";
}

// A table with a row for each kernel and a column for each class of instructions that occurs. `mix`
// gives the numbers of a kernel.
template <class MixOf>
std::string MixTable(ArrayRef<KernelResources> kernels, const MixOf& mix) {
  std::array<bool, kInstructionClasses> used{};
  for (const KernelResources& kernel : kernels) {
    for (size_t i = 0; i < kInstructionClasses; ++i) used[i] |= mix(kernel)[i] > 0;
  }
  std::vector<std::vector<std::string>> rows = {{"kernel"}};
  for (size_t i = 0; i < kInstructionClasses; ++i) {
    if (used[i]) rows[0].push_back(InstructionClassName(static_cast<InstructionClass>(i)));
  }
  for (const KernelResources& kernel : kernels) {
    rows.push_back({kernel.name});
    for (size_t i = 0; i < kInstructionClasses; ++i) {
      const int count = mix(kernel)[i];
      if (used[i]) rows.back().push_back(count == 0 ? "." : std::to_string(count));
    }
  }
  return FormatTable(rows, "l" + std::string(rows[0].size() - 1, 'r'));
}

Json MixJson(const InstructionMix& mix) {
  Json json = Json::object();
  for (size_t i = 0; i < kInstructionClasses; ++i)
    json[InstructionClassName(static_cast<InstructionClass>(i))] = mix[i];
  return json;
}

}  // namespace

Result<std::vector<KernelResources>> ReadCubinResources(const std::string& artifact,
                                                        const std::string& architecture) {
  if (!architecture.starts_with("sm_")) {
    return Fail(ErrorKind::kUsage, "--ptx is for GPU kernels, but the target is " + architecture +
                                       "; compile for a GPU such as sm_90a (--target)");
  }
  const std::string file = artifact + "/manifest.json";
  FUSEC_ASSIGN(const std::string text, ReadWholeFile(file, ErrorKind::kArtifact));
  FUSEC_RUNTIME_ASSIGN(const runtime::Manifest manifest, runtime::ParseManifest(text, file));
  const runtime::Target& target = manifest.targets.at(architecture);
  FUSEC_ASSIGN(const CubinKernels cubin, ReadTargetCubin(artifact, target));
  const Gpu* gpu = FindGpu(architecture);
  std::vector<KernelResources> kernels;
  for (const runtime::Step& step : target.steps) {  // all alternatives, whichever of them runs
    if (step.kind != runtime::Step::Kind::kKernel) continue;  // a library call
    const std::string& function = step.kernel.function;
    KernelResources& kernel = kernels.emplace_back();
    kernel.name = step.name;
    kernel.code = CodeOf(manifest, step);
    kernel.block_size = step.kernel.block_size;
    const auto found = std::find_if(cubin.begin(), cubin.end(), [&](const auto& k) {
      return k.first == step.kernel.module && k.second.name == function;
    });
    if (found == cubin.end()) {
      return Fail(ErrorKind::kArtifact, artifact + "/cubin: no file for " + architecture +
                                            " has the kernel \"" + function + "\"");
    }
    kernel.cubin = found->second;
    kernel.shared_bytes = found->second.shared_bytes + step.kernel.shared_bytes;
    if (gpu != nullptr) {
      kernel.occupancy =
          OccupancyOf(*gpu, kernel.block_size, kernel.cubin.registers, kernel.shared_bytes);
    }
  }
  return kernels;
}

Result<std::vector<KernelResources>> ReadResources(const std::string& artifact,
                                                   const std::string& architecture) {
  FUSEC_ASSIGN(std::vector<KernelResources> kernels, ReadCubinResources(artifact, architecture));
  std::map<std::string, std::shared_future<Result<runtime::Nvrtc::Inspection>>>
      inspections;  // by function
  for (const KernelResources& kernel : kernels) {
    if (inspections.count(kernel.code.function)) continue;
    FUSEC_ASSIGN(std::string source, KernelText(artifact, kernel.code));
    inspections[kernel.code.function] = std::async(
        std::launch::async, InspectCached, kernel.code.source, std::move(source), architecture);
  }
  for (KernelResources& kernel : kernels) {
    const std::string& function = kernel.code.function;
    FUSEC_ASSIGN(const runtime::Nvrtc::Inspection inspection, inspections.at(function).get());
    kernel.compiled = {ReadPtxasLog(inspection.log)[function], ReadPtx(inspection.ptx)[function]};
  }
  return kernels;
}

std::string ResourcesText(ArrayRef<KernelResources> kernels, const std::string& architecture) {
  if (kernels.empty()) return "no generated kernels: a library computes all steps\n";
  std::vector<std::vector<std::string>> rows = {{"kernel", "threads", "registers", "spills",
                                                 "stack", "shared", "code", "blocks/SM",
                                                 "occupancy", "limited by"}};
  for (const KernelResources& k : kernels) {
    const auto& occupancy = k.occupancy;
    rows.push_back({k.name, std::to_string(k.block_size), std::to_string(k.cubin.registers),
                    SpillText(k.compiled->ptxas), std::to_string(k.cubin.frame_bytes) + " B",
                    std::to_string(k.shared_bytes) + " B",
                    FormatBytes(static_cast<double>(k.cubin.code_bytes)),
                    occupancy ? std::to_string(occupancy->blocks) : "?",
                    occupancy ? Percent(occupancy->fraction) : "?",
                    occupancy ? occupancy->limit : "unknown architecture"});
  }
  return "resources on " + architecture +
         " (spills as ptxas reports them; registers, stack, shared memory and code of the "
         "cubin)\n\n" +
         FormatTable(rows, "lrrrrrrrrl") +
         "\nPTX instructions of each kernel, by class (the body of a loop counts once)\n\n" +
         MixTable(kernels, [](const KernelResources& k) { return k.compiled->mix; }) +
         "\nmachine instructions of each kernel, by class, after unrolling and scheduling\n\n" +
         MixTable(kernels, [](const KernelResources& k) { return k.cubin.mix; });
}

std::string WithResources(const std::string& text, ArrayRef<KernelResources> kernels) {
  Json json = Json::parse(text);
  for (Json& item : json["kernels"]) {
    const auto found = std::find_if(kernels.begin(), kernels.end(), [&](const KernelResources& k) {
      return item["name"] == k.name;
    });
    if (found == kernels.end()) continue;
    const KernelResources& k = *found;
    Json& ptx = item["ptx"];
    ptx = {{"threads", k.block_size},
           {"max_threads", k.cubin.max_threads},
           {"registers", k.cubin.registers},
           {"frame_bytes", k.cubin.frame_bytes},
           {"shared_bytes", k.shared_bytes},
           {"code_bytes", k.cubin.code_bytes},
           {"machine_instructions", MixJson(k.cubin.mix)}};
    if (k.compiled) {
      ptx["spill_store_bytes"] = k.compiled->ptxas.spill_store_bytes;
      ptx["spill_load_bytes"] = k.compiled->ptxas.spill_load_bytes;
      ptx["instructions"] = MixJson(k.compiled->mix);
    }
    if (k.occupancy) {
      ptx["blocks_per_sm"] = k.occupancy->blocks;
      ptx["occupancy"] = k.occupancy->fraction;
      ptx["limited_by"] = k.occupancy->limit;
    }
  }
  return json.dump(1);
}

}  // namespace fusec
