#include "runtime/src/program.h"

#include <charconv>
#include <cstring>
#include <string_view>

#include "runtime/src/artifact/same_program.h"

namespace fusec::runtime {
namespace {

// The N of "cuda:N", 0 for "cuda", -1 for "cpu".
StatusOr<int> ParseDevice(std::string_view device) {
  if (device == "cpu") return -1;
  if (device == "cuda") return 0;
  if (device.starts_with("cuda:")) {
    const std::string_view number = device.substr(5);
    int ordinal = -1;
    const auto [end, code] = std::from_chars(number.data(), number.data() + number.size(), ordinal);
    if (code == std::errc() && end == number.data() + number.size() && ordinal >= 0) return ordinal;
  }
  return Fail(FUSEC_BAD_USAGE, "unknown device \"", device, "\", expected cpu, cuda or cuda:N");
}

// Without a name: a GPU where the artifact and the machine have one, else the CPU. Of an artifact
// for GPUs alone, which has no other device, the GPU's is the problem to tell of.
StatusOr<int> ChooseDevice(const char* device, const Artifact& artifact) {
  if (device) return ParseDevice(device);
  return CudaUsable(artifact) || artifact.manifest().targets.count("cpu") == 0 ? 0 : -1;
}

}  // namespace

StatusOr<std::unique_ptr<Program>> Program::Load(const std::string& path, const char* device) {
  if (device) FUSEC_RT_TRY(ParseDevice(device));  // before files are read
  FUSEC_RT_ASSIGN(auto artifact, Artifact::Open(path));
  FUSEC_RT_ASSIGN(const int ordinal, ChooseDevice(device, *artifact));
  FUSEC_RT_ASSIGN(auto chosen,
                  ordinal >= 0 ? CreateCudaDevice(*artifact, ordinal) : CreateCpuDevice(*artifact));
  return std::make_unique<Program>(std::move(artifact), std::move(chosen));
}

Status Program::CanLoad(const std::string& path, const char* device) {
  FUSEC_RT_ASSIGN(const auto artifact, Artifact::OpenManifest(path));
  FUSEC_RT_ASSIGN(const int ordinal, ChooseDevice(device, *artifact));
  return ordinal >= 0 ? CheckCudaDevice(*artifact, ordinal) : CheckCpuDevice(*artifact);
}

Status Program::UpdateWeights(const std::string& path) {
  const std::lock_guard lock(updates_);
  FUSEC_RT_ASSIGN(auto weights, Artifact::Open(path));
  FUSEC_RT_TRY(CheckSameProgram(manifest(), weights->manifest(), path));
  return device_->UpdateWeights(std::move(weights));
}

Program::Program(std::unique_ptr<Artifact> artifact, std::unique_ptr<Device> device)
    : artifact_(std::move(artifact)), device_(std::move(device)) {
  DescribeTensors();
}

void Program::DescribeTensors() {
  const auto describe = [this](const std::vector<TensorSignature>& tensors,
                               std::vector<fusec_tensor_info>& infos) {
    for (const TensorSignature& tensor : tensors) {
      std::vector<const char*>& dims = dim_texts_.emplace_back();
      for (const DimExpression& dim : tensor.shape) dims.push_back(dim.text().c_str());
      infos.push_back(
          {tensor.name.c_str(), tensor.dtype, static_cast<int>(tensor.shape.size()), dims.data()});
    }
  };
  // The infos point into the lists, so these must not move.
  dim_texts_.reserve(manifest().inputs.size() + manifest().outputs.size());
  describe(manifest().inputs, input_infos_);
  describe(manifest().outputs, output_infos_);
}

}  // namespace fusec::runtime
