#include "runtime/src/artifact/signature.h"

#include <fcntl.h>
#include <fts.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <set>
#include <string_view>
#include <vector>

#include "runtime/src/artifact/mapped_file.h"

extern char** environ;

namespace fusec::runtime {
namespace {

constexpr int kNoSuchProgram = 127;  // exit code if posix_spawnp could not run the program

struct Answer {
  int exit_code = -1;  // -1: the program could not be started, or a signal ended it
  std::string text;    // stdout and stderr
};

// Runs a program, which is found on PATH, in `folder` with a file as its stdin.
Answer Ask(std::vector<std::string> words, const std::string& folder, const std::string& input) {
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  std::array<int, 2> pipe_ends{};
  if (pipe2(pipe_ends.data(), O_CLOEXEC) != 0) return {};
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, input.c_str(), O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, pipe_ends[1], 1);
  posix_spawn_file_actions_adddup2(&actions, pipe_ends[1], 2);
  posix_spawn_file_actions_addchdir_np(&actions, folder.c_str());
  pid_t child = 0;
  const int error =
      posix_spawnp(&child, arguments[0], &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  close(pipe_ends[1]);
  Answer answer;
  if (error == 0) {
    std::array<char, 4096> part;
    for (ssize_t count; (count = read(pipe_ends[0], part.data(), part.size())) != 0;) {
      if (count > 0)
        answer.text.append(part.data(), static_cast<size_t>(count));
      else if (errno != EINTR)
        break;
    }
    int status = 0;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    if (WIFEXITED(status)) answer.exit_code = WEXITSTATUS(status);
  }
  close(pipe_ends[0]);
  return answer;
}

std::string FirstLine(const std::string& text) { return text.substr(0, text.find('\n')); }

// The paths in a file of sha256sum.
StatusOr<std::set<std::string, std::less<>>> SignedPaths(const std::string& file) {
  constexpr size_t kPlaceOfPath = 64 + 2;
  FUSEC_RT_ASSIGN(const MappedFile lines, MappedFile::Open(file));
  std::set<std::string, std::less<>> paths;
  for (std::string_view rest = lines.text(); !rest.empty();) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(line.size() + 1, rest.size()));
    if (line.size() <= kPlaceOfPath || line.substr(kPlaceOfPath - 2, 2) != "  ")
      return Fail(FUSEC_BAD_ARTIFACT, file, ": line ", paths.size() + 1,
                  " does not have the format of sha256sum");
    paths.emplace(line.substr(kPlaceOfPath));
  }
  return paths;
}

// Checks that each file of the artifact is among the signed ones.
Status CheckComplete(const std::string& artifact, const std::set<std::string, std::less<>>& paths) {
  std::string root = artifact;
  std::array<char*, 2> roots = {root.data(), nullptr};
  const std::unique_ptr<FTS, int (*)(FTS*)> files(
      fts_open(roots.data(), FTS_PHYSICAL | FTS_NOCHDIR, nullptr), fts_close);
  if (files == nullptr) return Fail(FUSEC_BAD_ARTIFACT, artifact, ": ", std::strerror(errno));
  while (const FTSENT* entry = fts_read(files.get())) {
    if (entry->fts_info == FTS_D || entry->fts_info == FTS_DP) continue;
    const std::string_view path = std::string_view(entry->fts_path).substr(root.size() + 1);
    if (path == kSums || path == kSignature || paths.count(path) != 0) continue;
    return Fail(FUSEC_BAD_ARTIFACT, artifact, "/", path,
                ": is not among the files that were signed (", kSums, ")");
  }
  return {};
}

StatusOr<std::string> RealPath(const std::string& path, const std::string& problem) {
  const std::unique_ptr<char, void (*)(void*)> real(realpath(path.c_str(), nullptr), std::free);
  if (real) return std::string(real.get());
  return Fail(FUSEC_BAD_ARTIFACT, problem, ": ", path, ": ", std::strerror(errno));
}

}  // namespace

Status CheckSignature(const std::string& path) {
  const char* signers = std::getenv("FUSEC_ALLOWED_SIGNERS");
  if (signers == nullptr || *signers == '\0') return {};
  const std::string unsigned_artifact =
      path + ": is not signed, which FUSEC_ALLOWED_SIGNERS asks for (see fusec sign)";
  FUSEC_RT_ASSIGN(const std::string artifact, RealPath(path, path));
  FUSEC_RT_ASSIGN(const std::string sums, RealPath(artifact + "/" + kSums, unsigned_artifact));
  FUSEC_RT_ASSIGN(const std::string signature,
                  RealPath(artifact + "/" + kSignature, unsigned_artifact));
  FUSEC_RT_ASSIGN(const std::string allowed, RealPath(signers, "FUSEC_ALLOWED_SIGNERS"));
  Answer answer =
      Ask({"ssh-keygen", "-Y", "find-principals", "-f", allowed, "-s", signature}, artifact, sums);
  if (answer.exit_code < 0 || answer.exit_code == kNoSuchProgram)
    return Fail(FUSEC_NO_DEVICE, "ssh-keygen cannot be run, which FUSEC_ALLOWED_SIGNERS needs");
  if (answer.exit_code != 0)
    return Fail(FUSEC_BAD_ARTIFACT, signature, ": is of nobody in ", signers, ": ",
                FirstLine(answer.text));
  const std::string signer = FirstLine(answer.text);
  answer = Ask({"ssh-keygen", "-Y", "verify", "-f", allowed, "-I", signer, "-n",
                kSignatureNamespace, "-s", signature},
               artifact, sums);
  if (answer.exit_code != 0)
    return Fail(FUSEC_BAD_ARTIFACT, sums, ": is not what ", signer,
                " has signed: ", FirstLine(answer.text));
  FUSEC_RT_ASSIGN(const auto paths, SignedPaths(sums));
  FUSEC_RT_TRY(CheckComplete(artifact, paths));
  answer = Ask({"sha256sum", "--check", "--strict", "--quiet", kSums}, artifact, "/dev/null");
  if (answer.exit_code == 0) return {};
  return Fail(FUSEC_BAD_ARTIFACT, path, ": was altered since ", signer,
              " signed it: ", FirstLine(answer.text));
}

}  // namespace fusec::runtime
