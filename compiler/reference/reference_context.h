#pragma once

#include <map>
#include <string>
#include <vector>

#include "compiler/ir/graph.h"
#include "compiler/support/adt.h"

namespace fusec {

// A tensor of the interpreter: floats of every width are doubles, integers and bools are int64 (u64
// as bits). Never rounded to f32 or f16 on the way, so that its answers are what the compiled
// program's are judged against.
struct ReferenceTensor {
  Dtype dtype = Dtype::kF32;
  std::vector<int64_t> dims;
  std::vector<double> reals;  // if IsFloat(dtype)
  std::vector<int64_t> ints;  // otherwise

  ReferenceTensor() = default;
  ReferenceTensor(Dtype dtype, std::vector<int64_t> dims);  // zeros
  static ReferenceTensor FromData(const TensorData& data);
  TensorData ToData() const;  // rounds to the dtype
  int64_t element_count() const;
  int64_t Position(ArrayRef<int64_t> index) const;  // row-major
  double Real(int64_t i) const { return IsFloat(dtype) ? reals[i] : static_cast<double>(ints[i]); }
  void WrapInts();  // integers reduced to the dtype's width, after arithmetic in 64 bits
};

// Calls `visit(index)` for every index of `dims`, row-major; once with an empty index for a scalar,
// never if a dim is 0.
void ForEachIndex(ArrayRef<int64_t> dims, function_ref<void(ArrayRef<int64_t>)> visit);

// What an op's Reference sees: operands with values, results already allocated with their concrete
// dims.
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
  // An index into `extent` elements as ONNX means it (negative counts from the end), or the index
  // error of the call.
  Result<int64_t> CheckedIndex(int operand, int64_t position, int64_t value, int64_t extent) const;
  // Element `position` of an operand of rank 1, which is a length of at most `longest`, or the
  // index error of the call.
  Result<int64_t> CheckedLength(int operand, int64_t position, int64_t longest) const;
  // Row-major element `position` of an operand, which is one of `count` slots or -1 for none, or
  // the index error of the call.
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
