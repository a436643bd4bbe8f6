#include "compiler/ir/tensor.h"

#define XXH_INLINE_ALL
#include <sys/mman.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <new>

#include "compiler/support/check.h"
#include "compiler/support/mapped_holes.h"

namespace fusec {
namespace {

int64_t CountElements(ArrayRef<int64_t> dims, Dtype dtype) {
  int64_t count = 1;
  for (int64_t dim : dims) {
    FUSEC_CHECK(dim >= 0, "a tensor has a dim of " + std::to_string(dim));
    FUSEC_CHECK(!__builtin_mul_overflow(count, dim, &count), "a tensor's size overflows 64 bits");
  }
  int64_t bytes;
  FUSEC_CHECK(!__builtin_mul_overflow(count, DtypeBytes(dtype), &bytes),
              "a tensor's size overflows 64 bits");
  return count;
}

// Elements of mapped files need not be aligned.
template <class T>
T LoadElement(const std::byte* bytes, int64_t i) {
  T value;
  std::memcpy(&value, bytes + i * sizeof(T), sizeof(T));
  return value;
}

template <class T>
void StoreElement(std::byte* bytes, int64_t i, T value) {
  std::memcpy(bytes + i * sizeof(T), &value, sizeof(T));
}

// Truncates toward zero; NaN becomes 0. The largest T is either exact as a double or rounds up to the first value out of range.
template <class T>
T Saturate(double value) {
  using Limits = std::numeric_limits<T>;
  if (std::isnan(value)) return 0;
  if (value <= static_cast<double>(Limits::min())) return Limits::min();
  if (value >= static_cast<double>(Limits::max())) return Limits::max();
  return static_cast<T>(value);
}

// Runs `visit` with a value of the C++ type that stores an integer dtype.
template <class Visit>
auto WithIntegerType(Dtype dtype, Visit visit) {
  switch (dtype) {
    case Dtype::kI8: return visit(int8_t{});
    case Dtype::kI16: return visit(int16_t{});
    case Dtype::kI32: return visit(int32_t{});
    case Dtype::kI64: return visit(int64_t{});
    case Dtype::kU8: return visit(uint8_t{});
    case Dtype::kU16: return visit(uint16_t{});
    case Dtype::kU32: return visit(uint32_t{});
    case Dtype::kU64: return visit(uint64_t{});
    default: break;
  }
  ReportBug(__FILE__, __LINE__, "IsInteger(dtype)", std::string(DtypeName(dtype)));
}

}  // namespace

std::string TensorType::ToString() const {
  std::string text(DtypeName(dtype));
  text += '[';
  for (size_t i = 0; i < shape.size(); ++i) {
    if (i != 0) text += ", ";
    text += shape[i].ToString();
  }
  return text + ']';
}

std::optional<std::vector<int64_t>> StaticShape(ShapeRef shape) {
  std::vector<int64_t> dims;
  for (const Expr& dim : shape) {
    const std::optional<int64_t> constant = dim.AsConstant();
    if (!constant) return std::nullopt;
    dims.push_back(*constant);
  }
  return dims;
}

TensorData::TensorData(Dtype dtype, std::vector<int64_t> dims)
    : dtype_(dtype), dims_(std::move(dims)), element_count_(CountElements(dims_, dtype)) {
  void* buffer = std::calloc(std::max<size_t>(byte_count(), 1), 1);
  if (buffer == nullptr) throw std::bad_alloc();
  owner_ = std::shared_ptr<void>(buffer, std::free);
  bytes_ = static_cast<const std::byte*>(buffer);
}

TensorData::TensorData(Dtype dtype, std::vector<int64_t> dims, std::shared_ptr<const void> owner,
                       const std::byte* bytes, bool in_file)
    : dtype_(dtype),
      dims_(std::move(dims)),
      element_count_(CountElements(dims_, dtype)),
      owner_(std::move(owner)),
      bytes_(bytes),
      in_file_(in_file) {
  // Null bytes mean "payload not loaded", so an empty tensor needs an address too.
  static constexpr std::byte kNoBytes{};
  if (element_count_ == 0) bytes_ = &kNoBytes;
}

std::byte* TensorData::mutable_bytes() { return const_cast<std::byte*>(bytes_); }

TensorData TensorData::Reshaped(std::vector<int64_t> dims) const {
  TensorData reshaped(dtype_, std::move(dims), owner_, bytes_, in_file_);
  FUSEC_CHECK(reshaped.element_count_ == element_count_, "a reshape changes the element count");
  return reshaped;
}

void TensorData::ForEachPiece(
    function_ref<void(const std::byte* bytes, size_t count)> visit) const {
  constexpr size_t kPieceBytes = 8 << 20;
  size_t count = 0;
  for (size_t begin = 0; begin < byte_count(); begin += count) {
    const std::byte* const piece = bytes_ + begin;
    const size_t rest = byte_count() - begin;
    const size_t hole = in_file_ ? HoleBytes(piece, rest) : 0;
    count = std::min(hole > 0 ? std::min(hole, Zeros().size()) : kPieceBytes, rest);
    visit(hole > 0 ? Zeros().data() : piece, count);
    if (hole == 0) Release(piece, count);
  }
}

void TensorData::ReleasePages() const { Release(bytes_, byte_count()); }

void TensorData::Release(const std::byte* bytes, size_t count) const {
  static const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  if (!in_file_ || count < 16 * page) return;  // not worth the call
  const uintptr_t begin = reinterpret_cast<uintptr_t>(bytes) / page * page;
  const uintptr_t end = reinterpret_cast<uintptr_t>(bytes) + count;
  madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
}

double TensorData::GetDouble(int64_t i) const {
  switch (dtype_) {
    case Dtype::kF32: return LoadElement<float>(bytes_, i);
    case Dtype::kF64: return LoadElement<double>(bytes_, i);
    case Dtype::kF16: return HalfToDouble(LoadElement<uint16_t>(bytes_, i));
    case Dtype::kBF16: return BFloat16ToDouble(LoadElement<uint16_t>(bytes_, i));
    case Dtype::kU64: return static_cast<double>(LoadElement<uint64_t>(bytes_, i));
    default: return static_cast<double>(GetInt(i));
  }
}

int64_t TensorData::GetInt(int64_t i) const {
  if (IsFloat(dtype_)) return Saturate<int64_t>(GetDouble(i));
  if (dtype_ == Dtype::kBool) return LoadElement<uint8_t>(bytes_, i) != 0;
  return WithIntegerType(dtype_, [&](auto type) {
    return static_cast<int64_t>(LoadElement<decltype(type)>(bytes_, i));
  });
}

void TensorData::SetDouble(int64_t i, double value) {
  std::byte* bytes = mutable_bytes();
  switch (dtype_) {
    case Dtype::kF32: return StoreElement(bytes, i, static_cast<float>(value));
    case Dtype::kF64: return StoreElement(bytes, i, value);
    case Dtype::kF16: return StoreElement(bytes, i, DoubleToHalf(value));
    case Dtype::kBF16: return StoreElement(bytes, i, DoubleToBFloat16(value));
    case Dtype::kBool: return StoreElement<uint8_t>(bytes, i, value != 0);
    default:
      WithIntegerType(dtype_, [&](auto type) {
        StoreElement(bytes, i, Saturate<decltype(type)>(value));
      });
  }
}

void TensorData::SetInt(int64_t i, int64_t value) {
  std::byte* bytes = mutable_bytes();
  if (dtype_ == Dtype::kF32) return StoreElement(bytes, i, static_cast<float>(value));
  if (IsFloat(dtype_)) return SetDouble(i, static_cast<double>(value));
  if (dtype_ == Dtype::kBool) return StoreElement<uint8_t>(bytes, i, value != 0);
  WithIntegerType(dtype_, [&](auto type) {
    StoreElement(bytes, i, static_cast<decltype(type)>(value));
  });
}

bool TensorData::IsZero() const {
  for (int64_t i = 0; i < element_count_; ++i) {
    if (GetDouble(i) != 0) return false;
  }
  return true;
}

std::string TensorData::Hash() const {
  std::string header(DtypeName(dtype_));
  for (int64_t dim : dims_) header += ' ' + std::to_string(dim);
  header += '\n';

  XXH3_state_t state;
  XXH3_128bits_reset(&state);
  XXH3_128bits_update(&state, header.data(), header.size());
  ForEachPiece([&](const std::byte* bytes, size_t count) {
    XXH3_128bits_update(&state, bytes, count);
  });
  XXH128_canonical_t canonical;
  XXH128_canonicalFromHash(&canonical, XXH3_128bits_digest(&state));

  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (const unsigned char byte : canonical.digest) {
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

}  // namespace fusec
