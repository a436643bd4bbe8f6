#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "runtime/src/artifact/artifact.h"
#include "runtime/src/executor.h"
#include "runtime/src/status.h"

namespace fusec::runtime {

// A loaded artifact on a device: what fusec_load gives. Any number of threads may use it.
class Program {
 public:
  // `device`: "cpu", "cuda", "cuda:N", or null for a GPU where the artifact and the machine have
  // one, else the CPU.
  static StatusOr<std::unique_ptr<Program>> Load(const std::string& path, const char* device);
  // The error of Load that does not depend on the weights, if there is one.
  static Status CanLoad(const std::string& path, const char* device);
  // Other weights for all contexts: those of the artifact at `path`, which must be the same
  // program. Runs go on meanwhile.
  Status UpdateWeights(const std::string& path);
  // On a device made for `artifact`.
  Program(std::unique_ptr<Artifact> artifact, std::unique_ptr<Device> device);

  const Artifact& artifact() const { return *artifact_; }
  const Manifest& manifest() const { return artifact_->manifest(); }
  Device& device() const { return *device_; }
  const fusec_tensor_info& input_info(int i) const { return input_infos_[i]; }
  const fusec_tensor_info& output_info(int i) const { return output_infos_[i]; }

 private:
  void DescribeTensors();

  std::unique_ptr<Artifact> artifact_;
  std::unique_ptr<Device> device_;
  std::mutex updates_;
  std::vector<fusec_tensor_info> input_infos_, output_infos_;
  std::vector<std::vector<const char*>> dim_texts_;  // what the infos' dims point to
};

}  // namespace fusec::runtime
