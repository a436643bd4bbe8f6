#pragma once

#include <map>
#include <string>
#include <vector>

#include "compiler/ir/graph.h"
#include "compiler/support/adt.h"

namespace fusec {

// A tensor of the interpreter: floats of every width are stored as double, integers and bools as
// int64 (u64 as its bits). Values are not rounded to f32 or f16 in between, so that compiled
// programs can be judged against the results.
struct ReferenceTensor {
  Dtype dtype = Dtype::kF32;
  std::vector<int64_t> dims;
  std::vector<double> reals;  // if IsFloat(dtype)
  std::vector<int64_t> ints;  // otherwise

  ReferenceTensor() = default;
  ReferenceTensor(Dtype dtype, std::vector<int64_t> dims);  // zeros
  static ReferenceTensor FromData(const TensorData& data);
  // `count` elements from number `begin` on, as a vector.
  static ReferenceTensor FromData(const TensorData& data, int64_t begin, int64_t count);
  TensorData ToData() const;  // rounds to the dtype
  // The same into the elements of `data` from number `begin` on.
  void Store(TensorData& data, int64_t begin) const;
  int64_t element_count() const;
  int64_t Position(ArrayRef<int64_t> index) const;  // row-major
  double Real(int64_t i) const { return IsFloat(dtype) ? reals[i] : static_cast<double>(ints[i]); }
  void WrapInts();  // reduces integers to the dtype's width after 64-bit arithmetic
};

// The product of the dims: 1 without dims.
int64_t CountElements(ArrayRef<int64_t> dims);

// The nearest value of `dtype`, a float.
double RoundedTo(Dtype dtype, double value);

// Calls `visit(index)` for every index of `dims`, in row-major order: once with an empty index for
// a scalar, never if a dim is 0.
void ForEachIndex(ArrayRef<int64_t> dims, function_ref<void(ArrayRef<int64_t>)> visit);

// How far the elements along each axis of a row-major tensor are apart.
std::vector<int64_t> StridesOf(ArrayRef<int64_t> dims);
// The same for each axis of a result with `rank` axes to which the tensor broadcasts: 0 along axes
// that repeat its elements.
std::vector<int64_t> BroadcastStrides(ArrayRef<int64_t> dims, size_t rank);

// The interface of an op's Reference: operands with values, and results that are already allocated
// with their concrete dims.
class ReferenceContext {
 public:
  ReferenceContext(const Node& node, std::vector<const ReferenceTensor*> operands,
                   std::vector<ReferenceTensor>& results,
                   const std::map<std::string, int64_t>& symbols)
      : node(node), operands_(std::move(operands)), results_(results), symbols(symbols) {}

  const Node& node;
  bool has_input(int i) const {
    return i < static_cast<int>(operands_.size()) && operands_[i] != nullptr;
  }
  const ReferenceTensor& input(int i) const { return *operands_[i]; }
  ReferenceTensor& output(int i = 0) const { return results_[i]; }
  // The non-negative index into `extent` elements that `value` means in ONNX (negative values count
  // from the end). An index error if it is out of range.
  Result<int64_t> CheckedIndex(int operand, int64_t position, int64_t value, int64_t extent) const;
  // Element `position` of an operand of rank 1, which must be a length in 0..longest; otherwise an
  // index error.
  Result<int64_t> CheckedLength(int operand, int64_t position, int64_t longest) const;
  // Element `position` (row-major) of an operand, which must be a slot in 0..count - 1, or -1 for
  // none; otherwise an index error.
  Result<int64_t> CheckedSlot(int operand, int64_t position, int64_t count) const;

 private:
  tl::unexpected<Error> OutsideError(int operand, int64_t position, const std::string& found,
                                     const std::string& limits) const;

  std::vector<const ReferenceTensor*> operands_;
  std::vector<ReferenceTensor>& results_;

 public:
  const std::map<std::string, int64_t>& symbols;
};

}  // namespace fusec
