#include "compiler/driver/artifact/tensor_files.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <optional>

#include "compiler/driver/artifact/zip_archive.h"
#include "compiler/import/tensor_file.h"
#include "compiler/support/adt.h"
#include "compiler/support/read_file.h"
#include "compiler/support/write_file.h"

namespace fusec {

namespace {

constexpr std::string_view kMagic = "\x93NUMPY";

tl::unexpected<Error> BadFile(const std::string& path, const std::string& message) {
  return Fail(ErrorKind::kInput, path + ": " + message);
}

struct DtypeCode {
  Dtype dtype;
  const char* code;  // NumPy's code, without the byte order
};
constexpr DtypeCode kCodes[] = {{Dtype::kF32, "f4"}, {Dtype::kF16, "f2"}, {Dtype::kBF16, "V2"},
                                {Dtype::kF64, "f8"}, {Dtype::kI8, "i1"},  {Dtype::kI16, "i2"},
                                {Dtype::kI32, "i4"}, {Dtype::kI64, "i8"}, {Dtype::kU8, "u1"},
                                {Dtype::kU16, "u2"}, {Dtype::kU32, "u4"}, {Dtype::kU64, "u8"},
                                {Dtype::kBool, "b1"}};

// The header, the text of a Python dictionary, from the value of `key` on; empty without that key.
std::string_view FieldOf(std::string_view header, const std::string& key) {
  const size_t at = header.find("'" + key + "':");
  if (at == std::string_view::npos) return {};
  std::string_view rest = header.substr(at + key.size() + 3);
  rest.remove_prefix(std::min(rest.find_first_not_of(' '), rest.size()));
  return rest;
}

std::optional<std::vector<int64_t>> ParseShape(std::string_view text) {
  if (!text.starts_with('(')) return std::nullopt;
  text = text.substr(1, text.find(')') - 1);
  std::vector<int64_t> dims;
  while (true) {
    text.remove_prefix(std::min(text.find_first_not_of(" ,"), text.size()));
    if (text.empty()) return dims;
    int64_t dim = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), dim);
    if (error != std::errc() || dim < 0) return std::nullopt;
    dims.push_back(dim);
    text.remove_prefix(end - text.data());
  }
}

// The bytes of a tensor with these dims, if their number fits into 63 bits.
std::optional<uint64_t> ByteCount(ArrayRef<int64_t> dims, int element_bytes) {
  int64_t bytes = element_bytes;
  for (const int64_t dim : dims) {
    if (__builtin_mul_overflow(bytes, dim, &bytes)) return std::nullopt;
  }
  return static_cast<uint64_t>(bytes);
}

// Copies column-major data to a row-major tensor.
void CopyFortranOrder(std::string_view from, TensorData& to) {
  const std::vector<int64_t>& dims = to.dims();
  const size_t size = DtypeBytes(to.dtype());
  std::vector<int64_t> index(dims.size());
  for (int64_t source = 0; source < to.element_count(); ++source) {
    int64_t target = 0;
    for (size_t axis = 0; axis < dims.size(); ++axis) target = target * dims[axis] + index[axis];
    std::memcpy(to.mutable_bytes() + target * size, from.data() + source * size, size);
    for (size_t axis = 0; axis < dims.size() && ++index[axis] == dims[axis]; ++axis)
      index[axis] = 0;
  }
}

std::optional<Dtype> DtypeOfCode(std::string_view description) {
  if (description.size() < 5) return std::nullopt;
  const std::string_view code = description.substr(2, 2);  // after the quote and the byte order
  const char order = description[1];
  for (const DtypeCode& known : kCodes) {
    if (code != known.code || description[4] != description[0]) continue;
    if (order == '<' || order == '=' || order == '|') return known.dtype;
  }
  return std::nullopt;
}

}  // namespace

Result<TensorData> ParseNpy(std::string_view bytes, const std::string& name) {
  if (!bytes.starts_with(kMagic) || bytes.size() < 12) return BadFile(name, "is not a .npy file");
  const int version = bytes[6];
  const size_t length_bytes = version == 1 ? 2 : 4;
  uint32_t header_size = 0;
  std::memcpy(&header_size, bytes.data() + 8, length_bytes);
  const size_t data_begin = 8 + length_bytes + header_size;
  if (version < 1 || version > 3 || data_begin > bytes.size())
    return BadFile(name, "has a damaged .npy header");
  const std::string_view header = bytes.substr(8 + length_bytes, header_size);

  const std::string_view description = FieldOf(header, "descr");
  const auto dtype = DtypeOfCode(description);
  if (!dtype) {
    const std::string shown(description.substr(0, description.find(',')));
    return BadFile(name, "has elements of type " + shown + ", which fusec does not read");
  }
  const auto dims = ParseShape(FieldOf(header, "shape"));
  const auto byte_count = dims ? ByteCount(*dims, DtypeBytes(*dtype)) : std::nullopt;
  if (!byte_count) return BadFile(name, "has a damaged .npy header");
  const std::string_view data = bytes.substr(data_begin);
  if (data.size() < *byte_count) {
    return BadFile(name, "is cut short: it has " + std::to_string(data.size()) +
                             " bytes of data, expected " + std::to_string(*byte_count));
  }
  TensorData tensor(*dtype, *dims);
  if (FieldOf(header, "fortran_order").starts_with("True")) {
    CopyFortranOrder(data, tensor);
  } else if (*byte_count > 0) {
    std::memcpy(tensor.mutable_bytes(), data.data(), *byte_count);
  }
  return tensor;
}

Result<TensorData> ReadNpy(const std::string& path) {
  FUSEC_ASSIGN(const std::string bytes, ReadWholeFile(path, ErrorKind::kInput));
  return ParseNpy(bytes, path);
}

std::string NpyBytes(const TensorData& data) {
  const auto code = std::find_if(std::begin(kCodes), std::end(kCodes), [&](const DtypeCode& known) {
    return known.dtype == data.dtype();
  });
  std::string shape;
  for (const int64_t dim : data.dims()) shape += std::to_string(dim) + ", ";
  if (data.dims().size() > 1) shape.resize(shape.size() - 2);
  if (data.dims().size() == 1) shape.resize(shape.size() - 1);  // "(3,)"
  std::string header = "{'descr': '" + std::string(DtypeBytes(data.dtype()) == 1 ? "|" : "<") +
                       code->code + "', 'fortran_order': False, 'shape': (" + shape + "), }";
  // The data starts at a multiple of 64 bytes; before the header are 10 bytes: 6 of magic, 2 of
  // version and 2 of length.
  header.resize((header.size() + 1 + 10 + 63) / 64 * 64 - 10, ' ');
  header.back() = '\n';
  std::string bytes(kMagic);
  bytes +=
      {'\1', '\0', static_cast<char>(header.size() & 0xff), static_cast<char>(header.size() >> 8)};
  bytes += header;
  bytes.append(reinterpret_cast<const char*>(data.bytes()), data.byte_count());
  return bytes;
}

Result<void> WriteNpy(const std::string& path, const TensorData& data) {
  return WriteWholeFile(path, NpyBytes(data));
}

Result<NamedTensors> ReadNpz(const std::string& path) {
  FUSEC_ASSIGN(const std::string bytes, ReadWholeFile(path, ErrorKind::kInput));
  FUSEC_ASSIGN(const auto members, ReadZip(bytes, path));
  NamedTensors tensors;
  for (const ZipMember& member : members) {
    if (!member.name.ends_with(".npy")) continue;
    FUSEC_ASSIGN(TensorData data, ParseNpy(member.bytes, path + ": " + member.name));
    tensors.emplace_back(member.name.substr(0, member.name.size() - 4), std::move(data));
  }
  return tensors;
}

Result<TensorData> ReadTensor(const std::string& path) {
  if (path.ends_with(".npy")) return ReadNpy(path);
  if (path.ends_with(".pb")) {
    FUSEC_ASSIGN(NamedTensor tensor, ReadTensorFile(path));
    return std::move(tensor.data);
  }
  return BadFile(path, "is neither a .npy nor a .pb file");
}

}  // namespace fusec
