#include "compiler/driver/build/host_compiler.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <vector>

#include "compiler/package/weights_file.h"
#include "compiler/support/adt.h"
#include "compiler/support/child_process.h"
#include "compiler/support/interrupt.h"
#include "compiler/support/read_file.h"
#include "runtime/src/cuda/kernel_cache.h"

namespace fusec {

namespace {

// Longer texts have thousands of loops or statements. They are compiled with -O1 and vectorised
// loops only, which takes a tenth of the time.
constexpr size_t kLongText = 200'000;

bool IsProgram(const std::string& path) {
  std::error_code error;
  return std::filesystem::is_regular_file(path, error) && access(path.c_str(), X_OK) == 0;
}

std::string FindOnPath(const std::string& program) {
  if (program.find('/') != std::string::npos) return IsProgram(program) ? program : "";
  const char* path = std::getenv("PATH");
  std::stringstream folders(path ? path : "/usr/bin:/bin");
  for (std::string folder; std::getline(folders, folder, ':');) {
    const std::string candidate = folder + "/" + program;
    if (IsProgram(candidate)) return candidate;
  }
  return "";
}

Result<std::string> FindCompiler() {
  if (const char* chosen = std::getenv("FUSEC_CXX"); chosen && *chosen) {
    if (std::string found = FindOnPath(chosen); !found.empty()) return found;
    return Fail(ErrorKind::kToolchain,
                "FUSEC_CXX is " + std::string(chosen) + ", expected a C++ compiler");
  }
  for (const char* name : {"g++", "c++", "clang++"}) {
    if (std::string found = FindOnPath(name); !found.empty()) return found;
  }
  return Fail(ErrorKind::kToolchain,
              "no C++ compiler found for the CPU target (tried g++, c++, clang++ on PATH; "
              "FUSEC_CXX names another)");
}

// What identifies the compiler in the kernel cache: its path, size and modification time.
std::string Fingerprint(const std::string& compiler) {
  struct stat info {};
  stat(compiler.c_str(), &info);
  return compiler + " " + std::to_string(info.st_size) + " " + std::to_string(info.st_mtime);
}

// The bytes of the library that `compiler` builds from `source`.
Result<std::string> Compile(const std::string& compiler, ArrayRef<std::string> flags,
                            const std::string& source) {
  FUSEC_ASSIGN(const std::string folder, MakeTemporaryFolder());
  const TemporaryFolder cleanup(folder);
  FUSEC_TRY(WriteFile(folder + "/kernels.cc", source));
  std::vector<std::string> arguments = {compiler};
  arguments.insert(arguments.end(), flags.begin(), flags.end());
  arguments.insert(arguments.end(), {"-o", folder + "/kernels.so", folder + "/kernels.cc", "-lm"});
  const ChildResult child = RunChild(arguments, folder);
  if (Interrupted()) return Fail(ErrorKind::kToolchain, "interrupted");
  if (child.exit_code != 0) {
    constexpr size_t kShown = 4000;
    const std::string how =
        child.exit_code < 0 ? "failed" : "exited with " + std::to_string(child.exit_code);
    std::string log = child.errors.substr(0, kShown);
    while (log.ends_with('\n')) log.pop_back();
    return Fail(ErrorKind::kToolchain, compiler + " " + how + " on the generated CPU kernels" +
                                           (log.empty() ? "" : ":\n" + log));
  }
  Result<std::string> library = ReadWholeFile(folder + "/kernels.so", ErrorKind::kToolchain);
  if (library && !library->empty()) return library;
  return Fail(ErrorKind::kToolchain, compiler + " made no library of the generated CPU kernels");
}

}  // namespace

Result<std::string> CompileHostLibrary(const std::string& source, const std::string& march,
                                       int optimization, bool batch_invariant) {
  FUSEC_ASSIGN(const std::string compiler, FindCompiler());
  const bool is_long = source.size() > kLongText;
  std::vector<std::string> flags = {"-std=c++20",
                                    "-O" + std::to_string(is_long ? 1 : optimization),
                                    "-march=" + march,
                                    "-fPIC",
                                    "-shared",
                                    "-fno-math-errno",
                                    "-fno-trapping-math",
                                    "-fopenmp-simd",
                                    "-fno-exceptions",
                                    "-fno-rtti",
                                    "-fvisibility=hidden",
                                    "-fwrapv",
                                    "-nostartfiles",
                                    "-w"};
  if (is_long && optimization > 1) flags.push_back("-ftree-vectorize");
  if (march == "x86-64-v4") flags.push_back("-mprefer-vector-width=512");
  // g++ contracts products and sums to FMAs separately for the vectors of a loop and for the
  // remaining elements, so that the two may be rounded differently. It may also start a sum at an
  // aligned address. Both are switched off.
  if (batch_invariant)
    flags.insert(flags.end(), {"-ffp-contract=off", "--param=vect-max-peeling-for-alignment=0"});
  if (const char* more = std::getenv("FUSEC_CXXFLAGS")) {  // for tests, which sanitise the kernels
    std::istringstream words(more);
    for (std::string word; words >> word;) flags.push_back(word);
  }
  std::string key = "host library\n" + Fingerprint(compiler) + "\n";
  for (const std::string& flag : flags) key += flag + "\n";
  key += source;
  const auto made =
      runtime::KernelCache::Default().GetOrMake(key, [&]() -> runtime::StatusOr<std::string> {
        Result<std::string> library = Compile(compiler, flags, source);
        if (!library) return runtime::Fail(FUSEC_NO_DEVICE, library.error().message);
        return *std::move(library);
      });
  if (!made) return Fail(ErrorKind::kToolchain, made.error().message);
  return *made;
}

}  // namespace fusec
