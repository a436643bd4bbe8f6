#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "compiler/index/expr.h"
#include "compiler/ir/dtype.h"
#include "compiler/support/adt.h"

namespace fusec {

using Shape = Exprs;
using ShapeRef = ArrayRef<Expr>;

// What is known of a tensor before it exists: element type and symbolic dims, row-major.
struct TensorType {
  Dtype dtype = Dtype::kF32;
  Shape shape;

  int rank() const { return static_cast<int>(shape.size()); }
  Expr ElementCount() const { return Product(shape); }
  Expr Bytes() const { return ElementCount() * DtypeBytes(dtype); }
  bool operator==(const TensorType& other) const = default;
  std::string ToString() const;  // "f32[batch, 13]"
};

// The static dims, or nullopt if any is symbolic.
std::optional<std::vector<int64_t>> StaticShape(ShapeRef shape);

// A dense row-major tensor whose bytes live somewhere with an owner: a heap buffer, or a mapped file.
class TensorData {
 public:
  TensorData() = default;
  TensorData(Dtype dtype, std::vector<int64_t> dims);  // zeros
  // A view; `owner` keeps the bytes alive. `in_file` says that they are a read-only mapping of one.
  TensorData(Dtype dtype, std::vector<int64_t> dims, std::shared_ptr<const void> owner,
             const std::byte* bytes, bool in_file = false);

  template <class T>
  static TensorData From(Dtype dtype, std::vector<int64_t> dims, std::vector<T> values) {
    TensorData data(dtype, std::move(dims));
    for (size_t i = 0; i < values.size(); ++i) {
      if constexpr (std::is_floating_point_v<T>) data.SetDouble(i, values[i]);
      else data.SetInt(i, static_cast<int64_t>(values[i]));
    }
    return data;
  }

  Dtype dtype() const { return dtype_; }
  const std::vector<int64_t>& dims() const { return dims_; }
  int64_t element_count() const { return element_count_; }
  size_t byte_count() const { return static_cast<size_t>(element_count_) * DtypeBytes(dtype_); }
  const std::byte* bytes() const { return bytes_; }
  std::byte* mutable_bytes();  // only for tensors made as zeros

  // The same bytes in another shape of as many elements.
  TensorData Reshaped(std::vector<int64_t> dims) const;
  // Visits all bytes in order, a few megabytes at a time, and lets go of each piece (see ReleasePages)
  // when it was visited: a file may be bigger than memory.
  void ForEachPiece(function_ref<void(const std::byte* bytes, size_t count)> visit) const;
  // Takes a file's bytes out of this process's memory; they are read again when touched. Bytes on the heap stay.
  void ReleasePages() const;

  // Any dtype, converted. Integers beyond 2^53 need GetInt; GetInt of a u64 returns its bits.
  double GetDouble(int64_t i) const;
  int64_t GetInt(int64_t i) const;
  void SetDouble(int64_t i, double value);  // rounds to the dtype; to integers as a C cast, saturating
  void SetInt(int64_t i, int64_t value);    // wraps to the dtype's width

  std::string Hash() const;  // XXH3-128 of dtype, dims and bytes, hexadecimal

 private:
  void Release(const std::byte* bytes, size_t count) const;

  Dtype dtype_ = Dtype::kF32;
  std::vector<int64_t> dims_;
  int64_t element_count_ = 0;
  std::shared_ptr<const void> owner_;
  const std::byte* bytes_ = nullptr;
  bool in_file_ = false;
};

}  // namespace fusec
