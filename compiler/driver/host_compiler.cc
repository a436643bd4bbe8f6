#include "compiler/driver/host_compiler.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>
#include <vector>

#include "compiler/package/weights_file.h"
#include "compiler/support/interrupt.h"
#include "runtime/src/kernel_cache.h"

extern char** environ;

namespace fusec {

namespace {

std::string FindOnPath(const std::string& program) {
  if (program.find('/') != std::string::npos)
    return access(program.c_str(), X_OK) == 0 ? program : "";
  const char* path = std::getenv("PATH");
  std::stringstream folders(path ? path : "/usr/bin:/bin");
  for (std::string folder; std::getline(folders, folder, ':');) {
    const std::string candidate = folder + "/" + program;
    if (access(candidate.c_str(), X_OK) == 0) return candidate;
  }
  return "";
}

std::string FindCompiler() {
  if (const char* chosen = std::getenv("FUSEC_CXX")) return FindOnPath(chosen);
  for (const char* name : {"g++", "c++", "clang++"}) {
    if (std::string found = FindOnPath(name); !found.empty()) return found;
  }
  return "";
}

std::string ReadAll(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

// Runs `arguments` with stderr in `log`; whether it exited with 0.
bool Run(const std::vector<std::string>& arguments, const std::string& log) {
  std::vector<char*> argv;
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, log.c_str(),
                                   O_WRONLY | O_CREAT | O_TRUNC, 0600);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  pid_t child = 0;
  const int spawned = posix_spawn(&child, argv[0], &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (spawned != 0) return false;
  int status = 0;
  while (waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) return false;
  }
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

// The compiler and what identifies it, for the cache: path, size and time of change.
std::string Fingerprint(const std::string& compiler) {
  struct stat info {};
  stat(compiler.c_str(), &info);
  return compiler + " " + std::to_string(info.st_size) + " " + std::to_string(info.st_mtime);
}

}  // namespace

Result<std::string> CompileHostLibrary(const std::string& source, const std::string& march,
                                       int optimization) {
  const std::string compiler = FindCompiler();
  if (compiler.empty()) {
    return Fail(
        ErrorKind::kToolchain,
        "no C++ compiler found for the CPU target (tried $FUSEC_CXX, g++, c++, clang++ on PATH)");
  }
  std::vector<std::string> flags = {"-std=c++20",
                                    "-O" + std::to_string(optimization),
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
  if (march == "x86-64-v4") flags.push_back("-mprefer-vector-width=512");
  std::string key = "host library\n" + Fingerprint(compiler) + "\n";
  for (const std::string& flag : flags) key += flag + "\n";
  key += source;
  auto made =
      runtime::KernelCache::Default().GetOrMake(key, [&]() -> runtime::StatusOr<std::string> {
        const char* temp = std::getenv("TMPDIR");
        std::string folder = std::string(temp ? temp : "/tmp") + "/fusec-XXXXXX";
        if (!mkdtemp(folder.data())) {
          return runtime::Fail(FUSEC_NO_DEVICE,
                               "cannot make a temporary folder: ", std::strerror(errno));
        }
        const TemporaryFolder cleanup(folder);
        if (auto written = WriteFile(folder + "/kernels.cc", source); !written) {
          return runtime::Fail(FUSEC_NO_DEVICE, written.error().message);
        }
        std::vector<std::string> arguments = {compiler};
        arguments.insert(arguments.end(), flags.begin(), flags.end());
        arguments.insert(arguments.end(),
                         {"-o", folder + "/kernels.so", folder + "/kernels.cc", "-lm"});
        if (!Run(arguments, folder + "/log")) {
          if (Interrupted()) return runtime::Fail(FUSEC_NO_DEVICE, "interrupted");
          return runtime::Fail(FUSEC_NO_DEVICE, compiler, " failed on the generated CPU kernels:\n",
                               ReadAll(folder + "/log").substr(0, 4000));
        }
        return ReadAll(folder + "/kernels.so");
      });
  if (!made) return Fail(ErrorKind::kToolchain, made.error().message);
  return *std::move(made);
}

}  // namespace fusec
