#pragma once

#include <string>
#include <vector>

#include "runtime/src/artifact/artifact.h"
#include "runtime/src/cpu/loaded_code.h"
#include "runtime/src/status.h"

namespace fusec::runtime {

// The shared library with a program's CPU kernels, the best one that this machine can run. The
// destructor closes it.
class CpuLibrary {
 public:
  using BlocksFunction = void (*)(void* const* arguments, long long first_block,
                                  long long last_block);

  // Chooses among the files of `target` by their keys: "native" if it declares the features that it
  // needs and this CPU has them all, then "x86-64-v4", "x86-64-v3", then a "native" without a
  // declaration. FUSEC_NO_DEVICE: none fits.
  //
  // A library declares the features that it needs as `extern "C" const char fusec_cpu_features[] =
  // "avx2 fma avx512f";`, in GCC's names.
  static StatusOr<CpuLibrary> Open(const Artifact& artifact, const Target& target);

  const std::string& level() const { return level_; }  // the key chosen
  StatusOr<BlocksFunction> FindKernel(const std::string& name) const;
  // The declaration of its kernels' launches (launch_text.h); null if it has none.
  const char* Launches() const;

 private:
  static StatusOr<CpuLibrary> Load(const Artifact& artifact, const std::string& level,
                                   const std::string& relative_path);
  std::string level_, path_;
  LoadedCode code_;
};

}  // namespace fusec::runtime
