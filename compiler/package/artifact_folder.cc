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

// Puts `made` in the place of `target`. What was there is found under the name `made` afterwards,
// and a process that is killed meanwhile leaves one of the two in place, where the file system can
// exchange names.
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

// A new folder beside `target`. Processes of containers have the same numbers, and one that was
// killed leaves its folder, which the next one sweeps.
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
    // Told of the place where the user wants it.
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
  // A file's name may be of any bytes.
  const auto replace = nlohmann::ordered_json::error_handler_t::replace;
  const std::string rest = (keys.dump(1, ' ', false, replace) + "\n").substr(2);  // behind "{\n"
  return fmt::format("{}{}{}{}", runtime::kManifestHash, HashOf(rest), runtime::kManifestHashEnd,
                     rest);
}

}  // namespace fusec
