#include "compiler/driver/refit/new_weights.h"

#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "compiler/driver/artifact/mapped_weights.h"
#include "compiler/package/weights_file.h"
#include "compiler/support/read_file.h"
#include "runtime/src/artifact/safetensors.h"

namespace fusec {

namespace {

using Tensors = std::map<std::string, TensorData>;

Result<Tensors> ReadFile(const std::string& path) {
  auto mapped = runtime::MappedFile::Open(path);
  if (!mapped) return Fail(ErrorKind::kInput, mapped.error().message);
  const auto owner = std::make_shared<MappedWeights>(*std::move(mapped));
  const auto stored = runtime::ReadSafetensors(owner->file.bytes(), path);
  if (!stored) return Fail(ErrorKind::kInput, stored.error().message);
  Tensors weights;
  for (const auto& [name, tensor] : *stored) {
    if (name.starts_with(kPadding)) continue;
    const std::string place = path + ": tensor \"" + name + "\"";
    const std::optional<Dtype> dtype = DtypeOfSafetensors(tensor.dtype);
    if (!dtype)
      return Fail(ErrorKind::kInput,
                  place + " has type " + tensor.dtype + ", which fusec does not support");
    int64_t bytes = DtypeBytes(*dtype);
    bool fits = true;
    for (const int64_t dim : tensor.shape) fits &= !__builtin_mul_overflow(bytes, dim, &bytes);
    if (!fits || static_cast<size_t>(bytes) != tensor.bytes.size()) {
      return Fail(ErrorKind::kInput, place + " has " + std::to_string(tensor.bytes.size()) +
                                         " bytes, which does not match its shape");
    }
    weights.emplace(name, TensorData(*dtype, tensor.shape, owner, tensor.bytes.data(),
                                     /*in_file=*/true));
  }
  if (weights.empty()) return Fail(ErrorKind::kInput, path + ": has no tensors");
  return weights;
}

// The files that the object "weight_map" of an index has, which maps tensors to files beside it.
Result<std::set<std::string>> FilesOf(const std::string& index) {
  FUSEC_ASSIGN(const std::string text, ReadWholeFile(index, ErrorKind::kInput));
  const auto json = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  const auto map = json.is_object() ? json.find("weight_map") : json.end();
  if (map == json.end() || !map->is_object() || map->empty()) {
    return Fail(ErrorKind::kInput, index +
                                       ": expected a JSON object with \"weight_map\", an object "
                                       "from names of tensors to names of files");
  }
  std::set<std::string> files;
  for (const auto& file : *map) {
    const std::string name = file.is_string() ? file.get<std::string>() : "";
    if (name.empty() || std::filesystem::path(name).filename() != name) {
      return Fail(ErrorKind::kInput, index + ": \"weight_map\" has " + file.dump() +
                                         ", expected the name of a file in the same folder");
    }
    files.insert(name);
  }
  return files;
}

}  // namespace

Result<Tensors> ReadWeights(const std::string& path) {
  if (!path.ends_with(kWeightsIndex)) return ReadFile(path);
  FUSEC_ASSIGN(const std::set<std::string> files, FilesOf(path));
  Tensors weights;
  for (const std::string& file : files) {
    FUSEC_ASSIGN(Tensors part, ReadFile(std::filesystem::path(path).replace_filename(file)));
    weights.merge(part);
  }
  return weights;
}

}  // namespace fusec
