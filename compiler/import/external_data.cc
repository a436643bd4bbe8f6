#include "compiler/import/external_data.h"

#include <onnx/onnx_pb.h>

#include <charconv>
#include <filesystem>

namespace fusec {
namespace {

struct Entry {
  std::string location;
  uint64_t offset = 0;
  std::optional<uint64_t> length;
};

Result<uint64_t> ParseCount(const std::string& key, const std::string& text) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) {
    return ModelError("external data has the " + key + " \"" + text + "\", expected a number");
  }
  return value;
}

Result<Entry> ReadEntry(const onnx::TensorProto& proto) {
  Entry entry;
  for (const auto& pair : proto.external_data()) {
    if (pair.key() == "location") entry.location = pair.value();
    if (pair.key() == "offset") {
      FUSEC_ASSIGN(entry.offset, ParseCount("offset", pair.value()));
    }
    if (pair.key() == "length") {
      FUSEC_ASSIGN(entry.length, ParseCount("length", pair.value()));
    }
  }
  if (entry.location.empty()) return ModelError("external data has no location");
  return entry;
}

}  // namespace

ExternalData::ExternalData(const std::string& model_path)
    : folder_(model_path.substr(0, model_path.find_last_of('/') + 1)) {}

Result<TensorData> ExternalData::View(const onnx::TensorProto& proto, Dtype dtype,
                                      std::vector<int64_t> dims) {
  FUSEC_ASSIGN(const Entry entry, ReadEntry(proto));
  FUSEC_ASSIGN(const auto file, File(entry.location));
  const TensorData wanted(dtype, dims, nullptr, nullptr);
  const uint64_t bytes = wanted.byte_count();
  const std::string name = "external data \"" + entry.location + "\"";
  if (entry.length && *entry.length != bytes) {
    return ModelError(name + " has length " + std::to_string(*entry.length) + ", expected " +
                      std::to_string(bytes) + " bytes");
  }
  const uint64_t size = file->bytes().size();
  if (entry.offset > size || bytes > size - entry.offset) {
    return ModelError(name + " has " + std::to_string(size) + " bytes, expected " +
                      std::to_string(bytes) + " from byte " + std::to_string(entry.offset));
  }
  return TensorData(dtype, std::move(dims), file, file->bytes().data() + entry.offset, true);
}

Result<std::shared_ptr<const MappedFile>> ExternalData::File(const std::string& location) {
  const auto known = files_.find(location);
  if (known != files_.end()) return known->second;

  const std::string name = "external data \"" + location + "\"";
  const std::filesystem::path relative(location);
  if (location.find('\0') != std::string::npos) return ModelError(name + " is no file name");
  if (relative.is_absolute()) {
    return ModelError(name + " is an absolute path, expected a file in the model's folder");
  }
  std::filesystem::path path(folder_);
  for (const std::filesystem::path& part : relative) {
    if (part == "..") {
      return ModelError(name + " leaves the model's folder, expected a file inside it");
    }
    path /= part;
    std::error_code error;
    if (std::filesystem::is_symlink(path, error)) {
      return ModelError(name + " is or passes a symbolic link, expected a plain file");
    }
  }
  auto file = MappedFile::Open(path.string(), MappedFile::Links::kReject);
  if (!file) return ModelError(name + " " + file.error().message);
  return files_.emplace(location, *file).first->second;
}

}  // namespace fusec
