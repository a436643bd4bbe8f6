// Products whose right matrix is chosen per row by a slot, as the low-rank adapters of several
// users need.
#include <fmt/format.h>

#include <algorithm>

#include "compiler/ops/define_op.h"
#include "compiler/ops/view_support.h"

namespace fusec {

// Operands are x [l.., m.., k], a bank of matrices [slot, k, n] (or [slot, n, k] if transpose_b is
// 1) and slots [l..]. result[l.., m.., n] = the sum over k of x[l.., m.., k] * bank[slots[l..], k,
// n]. If the slot is -1, the result is 0; other negative slots are errors.
//
// Punica (Chen et al. 2023) calls this gather matrix-vector multiplication, and S-LoRA (Sheng et
// al. 2023) uses it to serve adapters.
struct SlotMatMulOp {
  static constexpr AttributeSpec kAttributes[] = {{"transpose_b", "int"}};
  enum Operand { kX, kBank, kSlots };

  static InferResult Infer(const InferContext& context) {
    const TensorType& x = context.operand(kX);
    const TensorType& bank = context.operand(kBank);
    const TensorType& slots = context.operand(kSlots);
    const bool transposed = context.Int("transpose_b") != 0;
    if (!IsFloat(x.dtype) || bank.dtype != x.dtype || bank.rank() != 3) {
      return ModelError(
          fmt::format("the rows are {} and the bank is {}, expected floats of one "
                      "type and a bank of rank 3",
                      x.ToString(), bank.ToString()));
    }
    if (!IsInteger(slots.dtype) || slots.rank() == 0 || slots.rank() >= x.rank() ||
        !std::equal(slots.shape.begin(), slots.shape.end(), x.shape.begin())) {
      return ModelError(fmt::format("the slots are {}, expected integers for leading axes of {}",
                                    slots.ToString(), x.ToString()));
    }
    if (x.shape.back() != bank.shape[transposed ? 2 : 1]) {
      return ModelError(
          fmt::format("rows of {} do not fit matrices of {}", x.ToString(), bank.ToString()));
    }
    TensorType result = x;
    result.shape.back() = bank.shape[transposed ? 1 : 2];
    return std::vector<TensorType>{std::move(result)};
  }

  static Result<void> Reference(ReferenceContext& context) {
    const bool transposed = context.node.Int("transpose_b") != 0;
    const ReferenceTensor& x = context.input(kX);
    const ReferenceTensor& bank = context.input(kBank);
    ReferenceTensor& output = context.output();
    const int64_t terms = x.dims.back(), columns = output.dims.back();
    const int64_t term_stride = transposed ? 1 : columns, column_stride = transposed ? terms : 1;
    const int64_t slots = context.input(kSlots).element_count();
    int64_t rows_of_slot = 1;
    for (size_t axis = context.input(kSlots).dims.size(); axis + 1 < x.dims.size(); ++axis)
      rows_of_slot *= x.dims[axis];
    for (int64_t place = 0; place < slots; ++place) {
      FUSEC_ASSIGN(const int64_t slot, context.CheckedSlot(kSlots, place, bank.dims[0]));
      for (int64_t row = place * rows_of_slot; row < (place + 1) * rows_of_slot; ++row) {
        for (int64_t n = 0; n < columns; ++n) {
          double sum = 0;
          for (int64_t k = 0; slot >= 0 && k < terms; ++k) {
            sum += x.reals[row * terms + k] *
                   bank.reals[slot * terms * columns + k * term_stride + n * column_stride];
          }
          output.reals[row * columns + n] = sum;
        }
      }
    }
    return {};
  }

  static Scalar Lower(LowerContext& context) {
    const Node& node = context.node();
    const bool transposed = node.Int("transpose_b") != 0;
    const Dtype dtype = node.result()->type.dtype;
    const Expr& terms = node.operand(kX)->type.shape.back();
    const Exprs place(context.index().begin(),
                      context.index().begin() + node.operand(kSlots)->type.rank());
    const Expr slot = context.SlotFromData(context.Load(kSlots, place), kSlots, place, kBank);
    const Expr& column = context.index().back();
    const auto zero = [&] { return ZeroOf(dtype); };
    return context.SelectBelow(slot, 0, dtype, zero, [&] {
      return context.FoldRange(
          OpKind::kReduceSum, dtype, context.DataFromIndex(0, Dtype::kI64),
          context.DataFromIndex(terms, Dtype::kI64), terms,
          [&](const Expr& k) {
            Exprs of_row = context.index();
            of_row.back() = k;
            const Scalar x = context.Load(kX, of_row);
            const Scalar weight =
                context.Load(kBank, transposed ? Exprs{slot, column, k} : Exprs{slot, k, column});
            return context.Let(fmt::format("{} * {}", x.text(), weight.text()), dtype, "product");
          },
          transposed);
    });
  }

  static std::optional<IndexUse> UseOfIndices(const Node& node, int operand) {
    if (operand != kSlots) return std::nullopt;
    return IndexUse{{node.operand(kBank)->type.shape[0]}};
  }
};
FUSEC_DEFINE_OP(SlotMatMul)

}  // namespace fusec
