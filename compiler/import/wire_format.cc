#include "compiler/import/wire_format.h"

#include <cstdint>

namespace fusec {
namespace {

// Smaller payloads are cheaper to copy than to keep separately.
constexpr size_t kSplitBytes = 64 << 10;

// Field numbers of onnx.proto.
constexpr uint32_t kModelGraph = 7;
constexpr uint32_t kGraphInitializer = 5;
constexpr uint32_t kTensorRawData = 9;

constexpr int kVarint = 0, kFixed64 = 1, kLengthDelimited = 2, kFixed32 = 5;  // wire types

// One field of a message: it is [begin, end) of the file, and its contents are [value, end).
struct Field {
  uint32_t number = 0;
  int wire_type = 0;
  size_t begin = 0, value = 0, end = 0;
};

// Steps through the fields of the message in file[position .. limit).
class Scanner {
 public:
  Scanner(std::span<const std::byte> file, size_t position, size_t limit)
      : file_(file), position_(position), limit_(limit) {}

  bool AtEnd() const { return position_ == limit_; }

  Result<Field> Next() {
    Field field;
    field.begin = position_;
    FUSEC_ASSIGN(const uint64_t tag, Varint());
    field.number = static_cast<uint32_t>(tag >> 3);
    field.wire_type = static_cast<int>(tag & 7);
    if (field.number == 0 || (tag >> 32) != 0) return Damaged(field.begin);
    uint64_t length = 0;
    field.value = position_;
    switch (field.wire_type) {
      case kVarint: {
        FUSEC_TRY(Varint());
        break;
      }
      case kFixed64:
        length = 8;
        break;
      case kFixed32:
        length = 4;
        break;
      case kLengthDelimited: {
        FUSEC_ASSIGN(length, Varint());
        field.value = position_;
        break;
      }
      default:
        return Damaged(field.begin);
    }
    if (length > limit_ - position_) {
      if (limit_ != file_.size()) return Damaged(field.begin);
      return ModelError("the file is truncated: the field at byte " + std::to_string(field.begin) +
                        " has " + std::to_string(length) + " bytes, but only " +
                        std::to_string(limit_ - position_) + " follow");
    }
    position_ += length;
    field.end = position_;
    return field;
  }

 private:
  static tl::unexpected<Error> Damaged(size_t at) {
    return ModelError("the file is damaged: byte " + std::to_string(at) +
                      " does not begin a protobuf field");
  }

  Result<uint64_t> Varint() {
    uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      if (position_ == limit_) {
        return ModelError("the file is truncated: it ends inside the field at byte " +
                          std::to_string(position_));
      }
      const auto byte = std::to_integer<uint64_t>(file_[position_++]);
      value |= (byte & 127) << shift;
      if (byte < 128) return value;
    }
    return Damaged(position_);
  }

  std::span<const std::byte> file_;
  size_t position_, limit_;
};

// Copies the model, field by field, without the big payloads.
class Splitter {
 public:
  explicit Splitter(std::span<const std::byte> file) : file_(file) {}

  Result<SplitModel> Run() {
    if (!CanBeginModel(std::to_integer<int>(file_[0]))) return ModelError("is not an ONNX model");
    Scanner scanner(file_, 0, file_.size());
    while (!scanner.AtEnd()) {
      FUSEC_ASSIGN(const Field field, scanner.Next());
      if (field.number == kModelGraph && field.wire_type == kLengthDelimited) {
        FUSEC_ASSIGN(const std::string graph, Graph(field));
        AppendMessage(field, graph, split_.skeleton);
      } else {
        AppendCopy(field, split_.skeleton);
      }
    }
    split_.whole = split_.payloads.empty();
    if (split_.whole) split_.skeleton.clear();
    return std::move(split_);
  }

 private:
  // The first field of a ModelProto is the integer 1 or 5, or the text or message 2, 3, 4, 6, 7, 8
  // or 14.
  static bool CanBeginModel(int first_byte) {
    const int number = first_byte >> 3, wire_type = first_byte & 7;
    if (number == 1 || number == 5) return wire_type == kVarint;
    return ((number >= 2 && number <= 8) || number == 14) && wire_type == kLengthDelimited;
  }

  Result<std::string> Graph(const Field& graph) {
    std::string copy;
    Scanner scanner(file_, graph.value, graph.end);
    while (!scanner.AtEnd()) {
      FUSEC_ASSIGN(const Field field, scanner.Next());
      if (field.number == kGraphInitializer && field.wire_type == kLengthDelimited) {
        FUSEC_ASSIGN(const std::string tensor, Tensor(field));
        AppendMessage(field, tensor, copy);
        ++initializer_index_;
      } else {
        AppendCopy(field, copy);
      }
    }
    return copy;
  }

  Result<std::string> Tensor(const Field& tensor) {
    std::string copy;
    Scanner scanner(file_, tensor.value, tensor.end);
    while (!scanner.AtEnd()) {
      FUSEC_ASSIGN(const Field field, scanner.Next());
      const bool raw = field.number == kTensorRawData && field.wire_type == kLengthDelimited;
      if (raw && field.end - field.value >= kSplitBytes) {
        split_.payloads[initializer_index_] = file_.subspan(field.value, field.end - field.value);
      } else {
        if (raw) split_.payloads.erase(initializer_index_);  // the last of repeated fields counts
        AppendCopy(field, copy);
      }
    }
    return copy;
  }

  void AppendCopy(const Field& field, std::string& copy) const {
    copy.append(reinterpret_cast<const char*>(file_.data()) + field.begin, field.end - field.begin);
  }
  static void AppendVarint(uint64_t value, std::string& copy) {
    for (; value >= 128; value >>= 7) copy.push_back(static_cast<char>(value | 128));
    copy.push_back(static_cast<char>(value));
  }
  static void AppendMessage(const Field& field, const std::string& message, std::string& copy) {
    AppendVarint(uint64_t{field.number} << 3 | kLengthDelimited, copy);
    AppendVarint(message.size(), copy);
    copy += message;
  }

  std::span<const std::byte> file_;
  int initializer_index_ = 0;
  SplitModel split_;
};

}  // namespace

Result<SplitModel> SplitPayloads(std::span<const std::byte> file) { return Splitter(file).Run(); }

}  // namespace fusec
