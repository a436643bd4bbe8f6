#include "runtime/src/artifact/safetensors.h"

#include "runtime/src/artifact/json_reader.h"

namespace fusec::runtime {
namespace {

constexpr size_t kSizeBytes = 8;

StatusOr<StoredTensor> ReadTensor(const JsonValue& entry, std::span<const std::byte> data) {
  const auto as_size = [](const JsonValue& item) { return item.AsInt(0, INT64_MAX); };
  StoredTensor tensor;
  FUSEC_RT_ASSIGN(tensor.dtype, ReadText(entry, "dtype"));
  FUSEC_RT_ASSIGN(tensor.shape, ReadList(entry, "shape", as_size));
  FUSEC_RT_ASSIGN(const auto offsets, ReadList(entry, "data_offsets", as_size));
  const bool inside = offsets.size() == 2 && offsets[0] <= offsets[1] &&
                      static_cast<uint64_t>(offsets[1]) <= data.size();
  if (!inside) {
    return Fail(FUSEC_BAD_ARTIFACT, entry.where(), ".data_offsets is not a range inside the ",
                data.size(), " bytes of data");
  }
  tensor.bytes = data.subspan(offsets[0], offsets[1] - offsets[0]);
  return tensor;
}

}  // namespace

StatusOr<std::map<std::string, StoredTensor>> ReadSafetensors(std::span<const std::byte> file,
                                                              const std::string& file_name) {
  uint64_t header_bytes = 0;
  for (size_t i = 0; i < kSizeBytes && file.size() >= kSizeBytes; ++i) {
    header_bytes |= std::to_integer<uint64_t>(file[i]) << (8 * i);
  }
  if (file.size() < kSizeBytes || header_bytes > file.size() - kSizeBytes) {
    return Fail(FUSEC_BAD_ARTIFACT, file_name, ": has ", file.size(), " bytes, its header needs ",
                kSizeBytes, " + ", header_bytes);
  }
  const auto header = file.subspan(kSizeBytes, header_bytes);
  const std::string_view json(reinterpret_cast<const char*>(header.data()), header.size());
  FUSEC_RT_ASSIGN(const auto document, JsonDocument::Parse(json, file_name));
  FUSEC_RT_ASSIGN(const auto members, document.root().Members());
  std::map<std::string, StoredTensor> tensors;
  for (const auto& [name, entry] : members) {
    if (name == "__metadata__") continue;
    FUSEC_RT_ASSIGN(tensors[name], ReadTensor(entry, file.subspan(kSizeBytes + header_bytes)));
  }
  return tensors;
}

}  // namespace fusec::runtime
