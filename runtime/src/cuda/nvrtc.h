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
  // The instance of this process. FUSEC_NO_DEVICE: the library was not found; the error lists the
  // paths that were tried.
  static StatusOr<const Nvrtc*> Get();
  ~Nvrtc();

  int major() const { return major_; }
  int minor() const { return minor_; }
  // Compute capabilities (90 for 9.0) that it can compile for, ascending.
  const std::vector<int>& supported_capabilities() const { return supported_capabilities_; }

  // Compiles a self-contained CUDA C++17 source (no includes) to machine code for `arch`, such as
  // "sm_90a". FUSEC_NO_DEVICE: the source does not compile; the error contains the compiler's log
  // with `source_name` and lines.
  StatusOr<std::string> CompileToCubin(const std::string& source_name, const std::string& source,
                                       const std::string& arch,
                                       const CompileOptions& options = {}) const;
  // The PTX of a source for `arch`, and the assembler's log with each kernel's registers, spills
  // and shared memory ("ptxas info    : Used 61 registers, ...").
  struct Inspection {
    std::string ptx, log;
  };
  StatusOr<Inspection> Inspect(const std::string& source_name, const std::string& source,
                               const std::string& arch) const;
  // Compiles to PTX for `arch`, such as "compute_90", which the driver compiles when it is loaded.
  // It is for GPUs that are newer than this NVRTC.
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

// CompileToCubin (or CompileToPtx for a "compute_..." arch), with KernelCache::Default() as a
// cache.
StatusOr<std::string> CompileCached(const std::string& source_name, const std::string& source,
                                    const std::string& arch, const CompileOptions& options = {});

}  // namespace fusec::runtime
