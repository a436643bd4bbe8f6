#pragma once

#include <memory>
#include <string>
#include <vector>

#include "runtime/src/status.h"

namespace fusec::runtime {

struct NvrtcFunctions;

struct CompileOptions {
  bool line_info = false;  // so that profilers and compute-sanitizer can name source lines
};

// NVIDIA's run-time compiler, opened when it is first needed. It needs neither a GPU nor a driver.
// Its methods may be called from several threads at once.
class Nvrtc {
 public:
  // The one instance of the process. Where there is no library the error is FUSEC_NO_DEVICE and
  // names what was tried.
  static StatusOr<const Nvrtc*> Get();
  ~Nvrtc();

  int major() const { return major_; }
  int minor() const { return minor_; }
  // Compute capabilities (90 for 9.0) that it can compile for, ascending.
  const std::vector<int>& supported_capabilities() const { return supported_capabilities_; }

  // Machine code of a self-contained CUDA C++17 source (no includes) for `arch`, such as "sm_90a".
  // An error of the source is FUSEC_NO_DEVICE, and its text holds the compiler's log with
  // `source_name` and lines.
  StatusOr<std::string> CompileToCubin(const std::string& source_name, const std::string& source,
                                       const std::string& arch,
                                       const CompileOptions& options = {}) const;
  // The text that stands between source and machine code for `arch`, and what the assembler says
  // of each kernel's registers, spills and shared memory ("ptxas info    : Used 61 registers, ...").
  struct Inspection {
    std::string ptx, log;
  };
  StatusOr<Inspection> Inspect(const std::string& source_name, const std::string& source,
                               const std::string& arch) const;
  // Text for `arch` such as "compute_90", which the driver compiles at load: for a GPU that this
  // NVRTC is too old for.
  StatusOr<std::string> CompileToPtx(const std::string& source_name, const std::string& source,
                                     const std::string& arch,
                                     const CompileOptions& options = {}) const;

 private:
  Nvrtc();
  Status Open();
  std::unique_ptr<NvrtcFunctions> functions_;
  int major_ = 0, minor_ = 0;
  std::vector<int> supported_capabilities_;
};

// CompileToCubin (CompileToPtx for a "compute_..." arch) through KernelCache::Default().
StatusOr<std::string> CompileCached(const std::string& source_name, const std::string& source,
                                    const std::string& arch, const CompileOptions& options = {});

}  // namespace fusec::runtime
