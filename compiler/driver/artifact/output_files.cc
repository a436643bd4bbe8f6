#include "compiler/driver/artifact/output_files.h"

#include <filesystem>
#include <set>

#include "compiler/driver/artifact/tensor_files.h"
#include "compiler/support/adt.h"

namespace fusec {

namespace {

// The most bytes of a file name without its number and ending; file systems allow 255 in all.
constexpr size_t kMostBytes = 240;

std::string FileNameOf(const std::string& name, std::set<std::string>& taken) {
  std::string file = name.substr(0, kMostBytes);
  for (char& c : file) {
    const bool good = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                      c == '.' || c == '_' || c == '-';
    if (!good) c = '_';
  }
  const std::string wanted = file;
  for (int number = 2; !taken.insert(file).second; ++number)
    file = wanted + "_" + std::to_string(number);
  return file + ".npy";
}

}  // namespace

Result<std::vector<std::string>> WriteOutputs(const runtime::Manifest& manifest,
                                              ArrayRef<TensorData> outputs,
                                              const std::string& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) return Fail(ErrorKind::kUsage, "cannot create " + folder + ": " + error.message());
  std::vector<std::string> paths;
  std::set<std::string> taken;
  for (size_t i = 0; i < outputs.size(); ++i) {
    paths.push_back(folder + "/" + FileNameOf(manifest.outputs[i].name, taken));
    FUSEC_TRY(WriteNpy(paths.back(), outputs[i]));
  }
  return paths;
}

}  // namespace fusec
