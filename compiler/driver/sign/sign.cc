#include "compiler/driver/sign/sign.h"

#include <algorithm>
#include <filesystem>
#include <vector>

#include "compiler/support/child_process.h"
#include "compiler/support/write_file.h"
#include "runtime/src/artifact/signature.h"

namespace fusec {
namespace {

namespace fs = std::filesystem;

// Runs a program and returns its output. The error of a failed run has the first line of its
// stderr.
Result<std::string> RunTool(ArrayRef<std::string> arguments) {
  const ChildResult child = RunChild(arguments);
  if (child.exit_code == 0) return child.output;
  const std::string first = child.errors.substr(0, child.errors.find('\n'));
  return Fail(ErrorKind::kToolchain,
              first.empty() ? arguments[0] + " cannot be run" : arguments[0] + ": " + first);
}

// The paths of the files to sign, relative to the artifact.
Result<std::vector<std::string>> FilesOf(const std::string& artifact) {
  std::vector<std::string> paths;
  std::error_code error;
  for (fs::recursive_directory_iterator files(artifact, error), end; !error && files != end;
       files.increment(error)) {
    if (!files->is_regular_file(error)) continue;
    const std::string path = fs::relative(files->path(), artifact).string();
    if (path.find_first_of("\n\\") != std::string::npos)
      return Fail(ErrorKind::kArtifact,
                  artifact + ": the name of a file has a line break or a backslash");
    if (path != runtime::kSums && path != runtime::kSignature) paths.push_back(path);
  }
  if (error) return Fail(ErrorKind::kArtifact, artifact + ": cannot be read: " + error.message());
  std::sort(paths.begin(), paths.end());
  return paths;
}

}  // namespace

Result<size_t> SignArtifact(const std::string& artifact, const std::string& key) {
  const std::string sums = artifact + "/" + runtime::kSums;
  const std::string signature = artifact + "/" + runtime::kSignature;
  if (!fs::exists(artifact + "/manifest.json"))
    return Fail(ErrorKind::kArtifact, artifact + ": is not an artifact: it has no manifest.json");
  if (!fs::exists(key)) return Fail(ErrorKind::kUsage, key + ": no such key");
  std::error_code ignored;
  fs::remove(signature, ignored);
  FUSEC_ASSIGN(const std::vector<std::string> paths, FilesOf(artifact));
  std::vector<std::string> summing = {"env", "-C", artifact, "sha256sum", "--"};
  summing.insert(summing.end(), paths.begin(), paths.end());
  FUSEC_ASSIGN(const std::string lines, RunTool(summing));
  FUSEC_TRY(WriteWholeFile(sums, lines));
  FUSEC_TRY(RunTool(
      {"ssh-keygen", "-Y", "sign", "-q", "-f", key, "-n", runtime::kSignatureNamespace, sums}));
  return paths.size();
}

}  // namespace fusec
