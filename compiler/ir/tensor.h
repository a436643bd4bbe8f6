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

// The type of a tensor: element type and symbolic dims, row-major.
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

// A dense row-major tensor. Its bytes belong to a shared owner: a heap buffer or a mapped file.
class TensorData {
 public:
  TensorData() = default;
  TensorData(Dtype dtype, std::vector<int64_t> dims);  // zeros
  // A view of `bytes`, which `owner` keeps alive. `in_file` says that they are a read-only mapping
  // of a file.
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
  std::byte* mutable_bytes();  // only for tensors that were constructed as zeros

  // The same bytes with another shape of as many elements.
  TensorData Reshaped(std::vector<int64_t> dims) const;
  // Visits all bytes in order, at most 8 MiB at a time, and releases the pages of each piece (see
  // ReleasePages) after its visit: a file may be bigger than memory.
  void ForEachPiece(function_ref<void(const std::byte* bytes, size_t count)> visit) const;
  // Drops the resident pages of a mapped file; they are read again on the next access. Bytes on the
  // heap are not affected.
  void ReleasePages() const;

  // These convert from and to any dtype. Integers beyond 2^53 need GetInt; GetInt of a u64 returns
  // its bits.
  double GetDouble(int64_t i) const;
  int64_t GetInt(int64_t i) const;
  void SetDouble(int64_t i, double value);  // rounds; to integers it truncates and saturates
  void SetInt(int64_t i, int64_t value);    // wraps to the dtype's width

  bool IsZero() const;       // whether all elements are zero
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
