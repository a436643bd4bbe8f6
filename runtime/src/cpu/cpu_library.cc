#include "runtime/src/cpu/cpu_library.h"

#include <dlfcn.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

namespace fusec::runtime {
namespace {

// The features that the library declares; null without a declaration.
const char* DeclaredFeatures(void* handle) {
  return static_cast<const char*>(dlsym(handle, "fusec_cpu_features"));
}

#if defined(__x86_64__)
// __builtin_cpu_supports takes only literals.
bool HasFeature(const std::string& name) {
#define FUSEC_FEATURE(feature) \
  if (name == feature) return __builtin_cpu_supports(feature) != 0;
  FUSEC_FEATURE("sse3") FUSEC_FEATURE("ssse3") FUSEC_FEATURE("sse4.1") FUSEC_FEATURE("sse4.2")
  FUSEC_FEATURE("popcnt") FUSEC_FEATURE("avx") FUSEC_FEATURE("avx2") FUSEC_FEATURE("fma")
  FUSEC_FEATURE("bmi") FUSEC_FEATURE("bmi2") FUSEC_FEATURE("avx512f") FUSEC_FEATURE("avx512bw")
  FUSEC_FEATURE("avx512cd") FUSEC_FEATURE("avx512dq") FUSEC_FEATURE("avx512vl")
  FUSEC_FEATURE("avx512ifma") FUSEC_FEATURE("avx512vbmi") FUSEC_FEATURE("avx512vbmi2")
  FUSEC_FEATURE("avx512vnni") FUSEC_FEATURE("avx512bitalg") FUSEC_FEATURE("avx512vpopcntdq")
  FUSEC_FEATURE("avx512bf16") FUSEC_FEATURE("gfni") FUSEC_FEATURE("vpclmulqdq")
#if !defined(__clang__)  // clang 14 does not know these names; they count as missing
  FUSEC_FEATURE("f16c") FUSEC_FEATURE("lzcnt") FUSEC_FEATURE("movbe") FUSEC_FEATURE("vaes")
  FUSEC_FEATURE("avxvnni") FUSEC_FEATURE("avx512fp16")
#endif
#undef FUSEC_FEATURE
  return false;
}
constexpr const char* kV3 = "avx avx2 bmi bmi2 fma popcnt sse4.2";
constexpr const char* kV4 =
    "avx avx2 bmi bmi2 fma popcnt sse4.2 avx512f avx512bw avx512cd avx512dq avx512vl";
#else
bool HasFeature(const std::string&) { return false; }
constexpr const char* kV3 = "x86-64";
constexpr const char* kV4 = "x86-64";
#endif

// Whether this CPU has all features in a list separated by spaces.
bool HasAll(const std::string& features) {
  for (size_t begin = 0; begin < features.size();) {
    const size_t end = std::min(features.find(' ', begin), features.size());
    if (end > begin && !HasFeature(features.substr(begin, end - begin))) return false;
    begin = end + 1;
  }
  return true;
}

}  // namespace

StatusOr<CpuLibrary> CpuLibrary::Load(const Artifact& artifact, const std::string& level,
                                      const std::string& relative_path) {
  CpuLibrary library;
  library.level_ = level;
  library.path_ = artifact.path() + "/" + relative_path;
  FUSEC_RT_ASSIGN(MappedFile file, artifact.ReadFile(relative_path));
  FUSEC_RT_ASSIGN(library.code_, LoadedCode::Of(std::move(file), library.path_));
  return library;
}

StatusOr<CpuLibrary> CpuLibrary::Open(const Artifact& artifact, const Target& target) {
  std::optional<CpuLibrary> undeclared;
  if (const auto native = target.files.find("native"); native != target.files.end()) {
    FUSEC_RT_ASSIGN(CpuLibrary library, Load(artifact, native->first, native->second));
    const char* features = DeclaredFeatures(library.code_.handle());
    if (features && HasAll(features)) return library;
    if (!features) undeclared = std::move(library);
  }
  for (const auto& [level, features] : {std::pair{"x86-64-v4", kV4}, std::pair{"x86-64-v3", kV3}}) {
    const auto file = target.files.find(level);
    if (file != target.files.end() && HasAll(features)) return Load(artifact, level, file->second);
  }
  if (undeclared) return *std::move(undeclared);
  std::string levels;
  for (const auto& [level, path] : target.files) levels += Text(levels.empty() ? "" : ", ", level);
  return Fail(FUSEC_NO_DEVICE, artifact.path(), ": has CPU kernels for ",
              levels.empty() ? "no machine" : levels, ", and this machine can run none of them");
}

StatusOr<CpuLibrary::BlocksFunction> CpuLibrary::FindKernel(const std::string& name) const {
  void* function = dlsym(code_.handle(), (name + "_blocks").c_str());
  if (!function) return Fail(FUSEC_BAD_ARTIFACT, path_, ": has no function ", name, "_blocks");
  return reinterpret_cast<BlocksFunction>(function);
}

const char* CpuLibrary::Launches() const {
  return static_cast<const char*>(dlsym(code_.handle(), "fusec_launches"));
}

}  // namespace fusec::runtime
