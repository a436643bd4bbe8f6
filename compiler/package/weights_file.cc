#include "compiler/package/weights_file.h"

#define XXH_INLINE_ALL
#include <unistd.h>
#include <xxhash.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>

#include "compiler/support/mapped_holes.h"

namespace fusec {

namespace {

constexpr size_t kAlignment = 256;

const char* SafetensorsName(Dtype dtype) {
  switch (dtype) {
    case Dtype::kF32:
      return "F32";
    case Dtype::kF16:
      return "F16";
    case Dtype::kBF16:
      return "BF16";
    case Dtype::kF64:
      return "F64";
    case Dtype::kI8:
      return "I8";
    case Dtype::kI16:
      return "I16";
    case Dtype::kI32:
      return "I32";
    case Dtype::kI64:
      return "I64";
    case Dtype::kU8:
      return "U8";
    case Dtype::kU16:
      return "U16";
    case Dtype::kU32:
      return "U32";
    case Dtype::kU64:
      return "U64";
    case Dtype::kBool:
      return "BOOL";
  }
  return "";
}

// A file that is hashed while it is written. Long runs of zeros become holes of the file, which
// take neither time nor disk space.
class HashedFile {
 public:
  explicit HashedFile(const std::string& path)
      : path_(path), file_(std::fopen(path.c_str(), "wb")) {
    if (!file_) error_ = std::strerror(errno);
    XXH3_128bits_reset(state_.get());
  }
  ~HashedFile() {
    if (file_) std::fclose(file_);
  }
  void Write(const void* bytes, size_t count) {
    if (!file_ || !error_.empty() || count == 0) return;
    XXH3_128bits_update(state_.get(), bytes, count);
    ends_in_hole_ = AreZeros(static_cast<const std::byte*>(bytes), count);
    const bool good = ends_in_hole_ ? fseeko(file_, static_cast<off_t>(count), SEEK_CUR) == 0
                                    : std::fwrite(bytes, 1, count, file_) == count;
    if (!good) error_ = std::strerror(errno);
  }
  Result<std::string> Finish() {
    if (file_ && error_.empty() && ends_in_hole_ && !SetLength()) error_ = std::strerror(errno);
    if (file_ && std::fclose(file_) != 0 && error_.empty()) error_ = std::strerror(errno);
    file_ = nullptr;
    if (!error_.empty()) return Fail(ErrorKind::kUsage, "cannot write " + path_ + ": " + error_);
    XXH128_canonical_t canonical;
    XXH128_canonicalFromHash(&canonical, XXH3_128bits_digest(state_.get()));
    std::string text;
    for (unsigned char byte : canonical.digest) {
      char digits[3];
      std::snprintf(digits, sizeof digits, "%02x", byte);
      text += digits;
    }
    return text;
  }

 private:
  static bool AreZeros(const std::byte* bytes, size_t count) {
    constexpr size_t kLeastBytes = size_t{1} << 20;
    const std::span<const std::byte> zeros = Zeros();
    if (count < kLeastBytes || count > zeros.size()) return false;
    return bytes == zeros.data() || std::memcmp(bytes, zeros.data(), count) == 0;
  }
  // A hole at the end of a file needs an explicit length.
  bool SetLength() {
    return std::fflush(file_) == 0 && ftruncate(fileno(file_), ftello(file_)) == 0;
  }

  std::string path_, error_;
  FILE* file_;
  bool ends_in_hole_ = false;
  std::unique_ptr<XXH3_state_t, XXH_errorcode (*)(XXH3_state_t*)> state_{XXH3_createState(),
                                                                         &XXH3_freeState};
};

}  // namespace

Result<std::string> WriteWeights(const std::string& path,
                                 ArrayRef<std::pair<std::string, const TensorData*>> tensors) {
  // The offsets are computed first, because the header precedes the data. Gaps become tensors as
  // well, because the format allows no holes.
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  std::vector<size_t> padding;
  size_t offset = 0;
  for (const auto& [name, data] : tensors) {
    const size_t gap = (kAlignment - offset % kAlignment) % kAlignment;
    if (gap > 0) {
      header[kPadding + std::to_string(padding.size())] = {
          {"dtype", "U8"}, {"shape", {gap}}, {"data_offsets", {offset, offset + gap}}};
    }
    padding.push_back(gap);
    offset += gap;
    header[name] = {{"dtype", SafetensorsName(data->dtype())},
                    {"shape", data->dims()},
                    {"data_offsets", {offset, offset + data->byte_count()}}};
    offset += data->byte_count();
  }
  std::string text = header.dump();
  text.resize((text.size() + 8 + kAlignment - 1) / kAlignment * kAlignment - 8, ' ');

  HashedFile file(path);
  unsigned char size[8];
  for (int i = 0; i < 8; ++i) size[i] = static_cast<unsigned char>(text.size() >> (8 * i));
  file.Write(size, sizeof size);
  file.Write(text.data(), text.size());
  static constexpr char kZeros[kAlignment] = {};
  for (size_t i = 0; i < tensors.size(); ++i) {
    file.Write(kZeros, padding[i]);
    tensors[i].second->ForEachPiece(
        [&](const std::byte* bytes, size_t count) { file.Write(bytes, count); });
  }
  return file.Finish();
}

std::optional<Dtype> DtypeOfSafetensors(std::string_view name) {
  for (int i = 0; i < kDtypeCount; ++i) {
    if (name == SafetensorsName(static_cast<Dtype>(i))) return static_cast<Dtype>(i);
  }
  return std::nullopt;
}

Result<void> WriteFile(const std::string& path, std::string_view bytes) {
  HashedFile file(path);
  file.Write(bytes.data(), bytes.size());
  FUSEC_TRY(file.Finish());
  return {};
}

}  // namespace fusec
