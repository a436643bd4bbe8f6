#include "compiler/package/artifact_folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <span>
#include <system_error>

#include "compiler/package/output_path.h"
#include "compiler/package/sharded_manifest.h"
#include "compiler/support/interrupt.h"
#include "compiler/support/leftovers.h"
#include "runtime/src/artifact/hash.h"
#include "runtime/src/artifact/manifest.h"

namespace fusec {

namespace {

namespace fs = std::filesystem;

// Replaces `target` by `made`. If the file system can exchange names atomically, the old contents
// of `target` are at `made` afterwards, and a process that is killed leaves either the old or the
// new folder at `target`.
bool Replace(const std::string& made, const std::string& target, std::error_code& error) {
  if (renameat2(AT_FDCWD, made.c_str(), AT_FDCWD, target.c_str(), RENAME_EXCHANGE) == 0)
    return true;
  const bool can_exchange = errno != EINVAL && errno != ENOSYS && errno != ENOENT;
  error = {errno, std::generic_category()};
  if (can_exchange) return false;
  const std::string old = made + ".old";
  error.clear();
  const bool exists = fs::exists(target, error);
  if (exists) fs::rename(target, old, error);
  if (!error) fs::rename(made, target, error);
  std::error_code ignored;
  if (error && exists) fs::rename(old, target, ignored);
  if (!error) fs::remove_all(old, ignored);
  return !error;
}

// Creates a new folder next to `target`, named after the process id. Processes in different
// containers may have equal ids, so that other names are tried as well. Folders that killed
// processes have left are removed.
Result<std::string> MakeFolderBeside(const std::string& target) {
  constexpr int kMostTries = 1000;
  const std::string prefix = target + ".fusec-partial.";
  const fs::path beside(prefix);
  SweepFolders(beside.parent_path().string(), beside.filename().string());
  const std::string first = prefix + std::to_string(getpid());
  for (int i = 0; i < kMostTries; ++i) {
    std::string folder = i == 0 ? first : first + "." + std::to_string(i);
    if (mkdir(folder.c_str(), 0777) == 0) {
      HoldFolder(folder);
      return folder;
    }
    if (errno != EEXIST) break;
  }
  return Fail(ErrorKind::kUsage, std::strerror(errno));
}

}  // namespace

Result<bool> ReplaceFolder(const std::string& path,
                           function_ref<Result<bool>(const std::string& folder)> make) {
  FUSEC_ASSIGN(const std::string target, CheckOutputPath(path));
  const Result<std::string> made = MakeFolderBeside(target);
  if (!made) return Fail(made.error().kind, "cannot write " + path + ": " + made.error().message);
  const std::string& aside = *made;
  const TemporaryFolder cleanup(aside);
  const Result<bool> filled = make(aside);
  if (!filled) {
    // The message should name the path that the user gave.
    std::string message = filled.error().message;
    if (const size_t at = message.find(aside); at != std::string::npos)
      message.replace(at, aside.size(), path);
    return Fail(filled.error().kind, message);
  }
  if (Interrupted()) return Fail(ErrorKind::kUsage, "interrupted");
  if (!*filled) return false;
  std::error_code error;
  if (!Replace(aside, target, error))
    return Fail(ErrorKind::kUsage, "cannot write " + path + ": " + error.message());
  FUSEC_TRY(NoteChangedPart(target));
  return true;
}

std::string HashOf(const std::string& bytes) {
  return runtime::Hash128(std::as_bytes(std::span(bytes.data(), bytes.size())));
}

std::string ManifestText(const nlohmann::ordered_json& keys) {
  // A file name may contain any bytes.
  const auto replace = nlohmann::ordered_json::error_handler_t::replace;
  const std::string rest = (keys.dump(1, ' ', false, replace) + "\n").substr(2);  // after "{\n"
  return fmt::format("{}{}{}{}", runtime::kManifestHash, HashOf(rest), runtime::kManifestHashEnd,
                     rest);
}

}  // namespace fusec
