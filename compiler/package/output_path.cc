#include "compiler/package/output_path.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <system_error>

#include "compiler/support/read_file.h"

namespace fusec {

namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

// Checks that `folder` contains only the files of an artifact. Otherwise it must not be replaced,
// because other files would be lost. `path` is the name that the user gave.
Result<void> CheckIsArtifact(const std::string& path, const std::string& folder) {
  const auto text = ReadWholeFile(folder + "/manifest.json", ErrorKind::kUsage);
  const Json manifest = text ? Json::parse(*text, nullptr, false) : Json();
  const bool is_artifact = manifest.is_object() &&
                           manifest.value("format", Json()) == "fusec-artifact" &&
                           manifest.contains("files") && manifest["files"].is_object();
  if (!is_artifact)
    return Fail(ErrorKind::kUsage,
                path + " exists and is not a fusec artifact; it is left as it is");
  std::error_code error;
  for (fs::recursive_directory_iterator at(folder, error), end; !error && at != end;
       at.increment(error)) {
    std::error_code ignored;  // an unreadable entry is not a folder of an artifact
    if (at->symlink_status(ignored).type() == fs::file_type::directory) continue;
    const std::string file = at->path().lexically_relative(folder).generic_string();
    if (file == "manifest.json" || manifest["files"].contains(file)) continue;
    return Fail(ErrorKind::kUsage, path + " is an artifact that would be replaced, but " + file +
                                       " in it is not fusec's; it is left as it is");
  }
  if (error) return Fail(ErrorKind::kUsage, path + " cannot be read: " + error.message());
  return {};
}

}  // namespace

Result<std::string> CheckOutputPath(const std::string& path) {
  if (path.empty()) return Fail(ErrorKind::kUsage, "no output path was given (-o OUT)");
  std::error_code error;
  if (fs::is_symlink(path, error) && !fs::exists(path, error))
    return Fail(ErrorKind::kUsage, path + " is a symbolic link to a place that does not exist");
  std::string folder = fs::weakly_canonical(fs::absolute(path, error), error).string();
  if (error) return Fail(ErrorKind::kUsage, "cannot write " + path + ": " + error.message());
  while (folder.size() > 1 && folder.back() == '/') folder.pop_back();
  // The folder is replaced as a whole, so that it must not contain the working folder.
  if ((fs::current_path(error).string() + "/").starts_with(folder + "/"))
    return Fail(ErrorKind::kUsage, "cannot write " + path +
                                       ": it would be replaced under the working folder; run fusec "
                                       "from another one");
  if (fs::exists(folder, error)) {
    const bool empty_folder = fs::is_directory(folder, error) && fs::is_empty(folder, error);
    if (!empty_folder) FUSEC_TRY(CheckIsArtifact(path, folder));
  }
  const fs::path parent = fs::path(folder).parent_path();
  if (!fs::is_directory(parent, error)) {
    return Fail(ErrorKind::kUsage,
                "cannot write " + path + ": " + parent.string() + " is not a folder");
  }
  if (access(parent.c_str(), W_OK) != 0) {
    return Fail(ErrorKind::kUsage, "cannot write " + path + ": " + std::strerror(errno));
  }
  return folder;
}

}  // namespace fusec
