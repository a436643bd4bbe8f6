#include "compiler/driver/edit/working_copy.h"

#include <algorithm>
#include <filesystem>

#include "compiler/driver/edit/kernel_text.h"
#include "compiler/support/nearest_name.h"
#include "compiler/support/read_file.h"
#include "compiler/support/terminal.h"

namespace fusec {

namespace fs = std::filesystem;

std::string WorkingCopyOf(const std::string& artifact) {
  std::string path = artifact;
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  return path + ".edit";
}

Result<std::vector<CopiedFile>> OpenWorkingCopy(const EditableArtifact& artifact,
                                                ArrayRef<std::string> kernels,
                                                const std::string& folder) {
  FUSEC_ASSIGN(const auto sources, SourcesOf(artifact, kernels));
  if (sources.empty())
    return Fail(ErrorKind::kUsage,
                artifact.path + " has no generated kernels: all of its steps are library calls");
  std::vector<CopiedFile> copied;
  for (const KernelSource* source : sources) {
    CopiedFile& file = copied.emplace_back();
    file.path = folder + "/" + source->file_name();
    std::error_code error;
    file.was_there = fs::exists(file.path, error);
    if (file.was_there) continue;
    FUSEC_TRY(WriteFileIn(folder, source->file_name(), CopyToEdit(source->current)));
  }
  return copied;
}

Result<std::vector<CopiedFile>> TakeEditedFiles(const EditableArtifact& artifact,
                                                const std::string& from,
                                                const std::string& folder) {
  std::error_code error;
  std::vector<std::string> found;
  for (fs::directory_iterator at(from, error), end; !error && at != end; at.increment(error)) {
    const fs::path& path = at->path();
    if (path.extension() == ".cu" || path.extension() == ".cc") found.push_back(path.filename());
  }
  if (error) return Fail(ErrorKind::kUsage, from + " cannot be read: " + error.message());
  std::sort(found.begin(), found.end());
  if (found.empty())
    return Fail(ErrorKind::kUsage, from + " has no .cu or .cc files, expected edited kernels");
  std::vector<std::string> names;
  for (const KernelSource& source : artifact.sources) names.push_back(source.file_name());
  for (const std::string& name : found) {
    if (std::find(names.begin(), names.end(), name) != names.end()) continue;
    return Fail(ErrorKind::kUsage, from + "/" + name + " has the name of no kernel file of " +
                                       artifact.path + DidYouMean(name, names) +
                                       "; its files are " + Join(names, ", "));
  }
  std::vector<CopiedFile> copied;
  for (const std::string& name : found) {
    FUSEC_ASSIGN(const std::string text, ReadWholeFile(from + "/" + name, ErrorKind::kUsage));
    FUSEC_TRY(WriteFileIn(folder, name, CopyToEdit(text)));
    copied.push_back({folder + "/" + name});
  }
  return copied;
}

}  // namespace fusec
