#include "compiler/driver/refit/new_weights.h"

#include <memory>
#include <optional>

#include "compiler/driver/artifact/mapped_weights.h"
#include "compiler/package/weights_file.h"
#include "runtime/src/artifact/safetensors.h"

namespace fusec {

Result<std::map<std::string, TensorData>> ReadWeights(const std::string& path) {
  auto mapped = runtime::MappedFile::Open(path);
  if (!mapped) return Fail(ErrorKind::kInput, mapped.error().message);
  const auto owner = std::make_shared<MappedWeights>(*std::move(mapped));
  const auto stored = runtime::ReadSafetensors(owner->file.bytes(), path);
  if (!stored) return Fail(ErrorKind::kInput, stored.error().message);
  std::map<std::string, TensorData> weights;
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

}  // namespace fusec
