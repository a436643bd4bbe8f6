#include "compiler/driver/explain/cubin_reader.h"

#include <algorithm>
#include <cstring>
#include <map>

namespace fusec {

namespace {

constexpr uint32_t kNoBits = 8, kSymbols = 2;  // section types
constexpr int kRegCount = 0x2f, kFrameSize = 0x11, kMaxThreads = 0x05, kNumBarriers = 0x4c;
constexpr int64_t kReservedShared = 1024;

// The little-endian number at `offset`; 0 beyond the end.
template <class T>
T At(std::string_view bytes, uint64_t offset) {
  T value = 0;
  if (offset <= bytes.size() && bytes.size() - offset >= sizeof value)
    std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

std::string NameAt(std::string_view table, uint64_t offset) {
  if (offset >= table.size()) return "";
  return std::string(table.substr(offset, table.find('\0', offset) - offset));
}

struct Section {
  std::string name;
  uint32_t type = 0, link = 0, info = 0;
  uint64_t size = 0;
  std::string_view bytes;  // empty for sections without bytes in the file
};

// One record of .nv.info.
struct Attribute {
  int number = 0;
  std::string_view value;
};

std::vector<Attribute> Attributes(std::string_view bytes) {
  std::vector<Attribute> attributes;
  while (bytes.size() >= 4) {
    const bool sized = bytes[0] == 4;
    const size_t size = sized ? At<uint16_t>(bytes, 2) : 2;
    const size_t begin = sized ? 4 : 2;
    if (bytes.size() - begin < size) break;
    attributes.push_back({static_cast<unsigned char>(bytes[1]), bytes.substr(begin, size)});
    bytes.remove_prefix(begin + size);
  }
  return attributes;
}

class CubinReader {
 public:
  explicit CubinReader(std::string_view bytes) : bytes_(bytes) {}

  // Reads the section headers. Returns what is wrong with the file, or "".
  std::string ReadSections() {
    if (bytes_.size() < 64 ||
        bytes_.substr(0, 4) !=
            "\x7f"
            "ELF" ||
        bytes_[4] != 2 || bytes_[5] != 1)
      return "is not a 64-bit little-endian ELF file";
    const uint64_t table = At<uint64_t>(bytes_, 0x28);
    const uint64_t entry = At<uint16_t>(bytes_, 0x3a), count = At<uint16_t>(bytes_, 0x3c);
    const uint64_t names = At<uint16_t>(bytes_, 0x3e);
    if (entry < 64 || table > bytes_.size() || (bytes_.size() - table) / entry < count)
      return "has section headers outside of the file";
    for (uint64_t i = 0; i < count; ++i) {
      const std::string_view header = bytes_.substr(table + i * entry, entry);
      Section section;
      section.type = At<uint32_t>(header, 4);
      section.size = At<uint64_t>(header, 0x20);
      section.link = At<uint32_t>(header, 0x28);
      section.info = At<uint32_t>(header, 0x2c);
      const uint64_t offset = At<uint64_t>(header, 0x18);
      if (section.type != kNoBits) {
        if (offset > bytes_.size() || bytes_.size() - offset < section.size)
          return "has a section outside of the file";
        section.bytes = bytes_.substr(offset, section.size);
      }
      sections_.push_back(section);
    }
    if (names >= count) return "has no section names";
    for (uint64_t i = 0; i < count; ++i)
      sections_[i].name = NameAt(sections_[names].bytes, At<uint32_t>(bytes_, table + i * entry));
    return "";
  }

  std::vector<CubinKernel> Kernels() {
    const std::string text = ".text.";
    const int capability = static_cast<int>(At<uint32_t>(bytes_, 0x30) >> 8 & 0xff);  // e_flags
    for (const Section& section : sections_) {
      if (!section.name.starts_with(text)) continue;
      CubinKernel& kernel = kernels_[section.name.substr(text.size())];
      kernel.name = section.name.substr(text.size());
      kernel.code_bytes = static_cast<int64_t>(section.size);
      kernel.registers = static_cast<int>(section.info >> 24);
      kernel.mix = ReadMachineCode(section.bytes, capability);
    }
    for (const Section& section : sections_) ReadSection(section);
    std::vector<CubinKernel> kernels;
    for (auto& [name, kernel] : kernels_) kernels.push_back(kernel);
    return kernels;
  }

 private:
  void ReadSection(const Section& section) {
    const std::string shared = ".nv.shared.", info = ".nv.info.";
    if (section.name == ".nv.info") {
      ReadFileInfo(section);
    } else if (section.name.starts_with(shared)) {
      const auto kernel = kernels_.find(section.name.substr(shared.size()));
      if (kernel == kernels_.end()) return;
      const bool reserved = std::any_of(sections_.begin(), sections_.end(), [](const Section& s) {
        return s.name == ".nv.shared.reserved.0";
      });
      kernel->second.shared_bytes = std::max<int64_t>(
          static_cast<int64_t>(section.size) - (reserved ? kReservedShared : 0), 0);
    } else if (section.name.starts_with(info)) {
      const auto kernel = kernels_.find(section.name.substr(info.size()));
      if (kernel != kernels_.end()) ReadKernelInfo(section, kernel->second);
    }
  }

  void ReadFileInfo(const Section& section) {
    const Section none;
    const Section& symbols = section.link < sections_.size() ? sections_[section.link] : none;
    const bool has_names = symbols.type == kSymbols && symbols.link < sections_.size();
    const std::string_view names = has_names ? sections_[symbols.link].bytes : "";
    for (const Attribute& attribute : Attributes(section.bytes)) {
      if (attribute.number != kRegCount && attribute.number != kFrameSize) continue;
      const uint64_t symbol = At<uint32_t>(attribute.value, 0);
      const auto kernel = kernels_.find(NameAt(names, At<uint32_t>(symbols.bytes, symbol * 24)));
      if (kernel == kernels_.end()) continue;  // a function that kernels call
      const uint32_t value = At<uint32_t>(attribute.value, 4);
      if (attribute.number == kRegCount)
        kernel->second.registers = static_cast<int>(value);
      else
        kernel->second.frame_bytes = value;
    }
  }

  static void ReadKernelInfo(const Section& section, CubinKernel& kernel) {
    for (const Attribute& attribute : Attributes(section.bytes)) {
      if (attribute.number == kMaxThreads) {
        kernel.max_threads =
            static_cast<int>(At<uint32_t>(attribute.value, 0) * At<uint32_t>(attribute.value, 4) *
                             At<uint32_t>(attribute.value, 8));
      }
      if (attribute.number == kNumBarriers) kernel.barriers = At<uint8_t>(attribute.value, 0);
    }
  }

  std::string_view bytes_;
  std::vector<Section> sections_;
  std::map<std::string, CubinKernel> kernels_;
};

}  // namespace

Result<std::vector<CubinKernel>> ReadCubin(std::string_view bytes, const std::string& file) {
  CubinReader reader(bytes);
  if (const std::string wrong = reader.ReadSections(); !wrong.empty())
    return Fail(ErrorKind::kArtifact, file + " " + wrong + ", expected a cubin");
  return reader.Kernels();
}

}  // namespace fusec
