#include "runtime/src/artifact/step_sizes.h"

#include "runtime/src/artifact/dtype.h"

namespace fusec::runtime {
namespace {

// a + b * c, or -1 if an operand is negative or the result does not fit.
int64_t MultiplyAdd(int64_t a, int64_t b, int64_t c) {
  int64_t product = 0, sum = 0;
  if (a < 0 || b < 0 || c < 0) return -1;
  if (__builtin_mul_overflow(b, c, &product) || __builtin_add_overflow(a, product, &sum)) return -1;
  return sum;
}

Status CheckInside(const Manifest& manifest, const Step& step, const char* operand, int buffer,
                   int64_t elements_needed, std::span<const int64_t> buffer_bytes) {
  const int64_t has = buffer_bytes[buffer] / DtypeBytes(manifest.buffers[buffer].dtype);
  if (elements_needed >= 0 && elements_needed <= has) return {};
  return Fail(FUSEC_BAD_ARTIFACT, "step \"", step.name, "\": operand ", operand,
              " does not lie inside buffer \"", manifest.buffers[buffer].name, "\" of ", has,
              " elements");
}

// Checks that the sizes of a product agree with the bytes and flops that the step states.
Status CheckStated(const Step& step, const MatmulSizes& sizes, std::span<const int64_t> symbols) {
  FUSEC_RT_ASSIGN(const int64_t read, step.bytes_read.Evaluate(symbols));
  FUSEC_RT_ASSIGN(const int64_t written, step.bytes_written.Evaluate(symbols));
  FUSEC_RT_ASSIGN(const int64_t flops, step.flops.Evaluate(symbols));
  if (sizes.IsEmpty() && written == 0) return {};
  const auto elements = [&](int64_t stride, int64_t rows, int64_t columns) {
    return MultiplyAdd(MultiplyAdd(0, stride, sizes.batch - 1), rows, columns);
  };
  const int64_t result = MultiplyAdd(0, MultiplyAdd(0, sizes.batch, sizes.m), sizes.n);
  const int64_t bytes = DtypeBytes(step.matmul.dtype);
  int64_t operands = 0;  // bytes
  const auto add = [&](int64_t count, int64_t bytes_each) {
    operands = MultiplyAdd(operands, count, bytes_each);
  };
  add(elements(sizes.a_stride, sizes.m, sizes.k), DtypeBytes(step.matmul.a.dtype));
  add(elements(sizes.b_stride, sizes.k, sizes.n), DtypeBytes(step.matmul.b.dtype));
  if (step.matmul.bias >= 0) add(elements(sizes.bias_stride, 1, sizes.n), bytes);
  if (step.matmul.addend >= 0) add(result, bytes);
  if (read == operands && operands >= 0 && written == MultiplyAdd(0, result, bytes) &&
      flops == MultiplyAdd(0, MultiplyAdd(0, result, sizes.k), 2))
    return {};
  return Fail(FUSEC_BAD_ARTIFACT, "step \"", step.name, "\": ", read, " bytes read, ", written,
              " bytes written and ", flops, " flops do not fit its ", sizes.batch, " products of ",
              sizes.m, " x ", sizes.k, " and ", sizes.k, " x ", sizes.n);
}

}  // namespace

MatmulSizes MatmulSizes::OfCall(int64_t call) const {
  MatmulSizes one = *this;
  if (bias_stride == 0) return one;
  one.a_offset += call * a_stride;
  one.b_offset += call * b_stride;
  one.d_offset += call * d_stride;
  one.bias_offset += call * bias_stride;
  one.a_stride = one.b_stride = one.d_stride = one.bias_stride = 0;
  one.batch = 1;
  return one;
}

StatusOr<MatmulSizes> EvaluateMatmul(const Manifest& manifest, const Step& step,
                                     std::span<const int64_t> symbols,
                                     std::span<const int64_t> buffer_bytes) {
  const Matmul& matmul = step.matmul;
  MatmulSizes sizes;
  FUSEC_RT_ASSIGN(sizes.m, matmul.m.Evaluate(symbols));
  FUSEC_RT_ASSIGN(sizes.n, matmul.n.Evaluate(symbols));
  FUSEC_RT_ASSIGN(sizes.k, matmul.k.Evaluate(symbols));
  FUSEC_RT_ASSIGN(sizes.batch, matmul.batch.Evaluate(symbols));
  FUSEC_RT_ASSIGN(sizes.a_offset, matmul.a.offset.Evaluate(symbols));
  FUSEC_RT_ASSIGN(sizes.b_offset, matmul.b.offset.Evaluate(symbols));
  FUSEC_RT_ASSIGN(sizes.d_offset, matmul.d.offset.Evaluate(symbols));
  FUSEC_RT_ASSIGN(sizes.a_stride, matmul.a.batch_stride.Evaluate(symbols));
  FUSEC_RT_ASSIGN(sizes.b_stride, matmul.b.batch_stride.Evaluate(symbols));
  FUSEC_RT_ASSIGN(sizes.d_stride, matmul.d.batch_stride.Evaluate(symbols));
  FUSEC_RT_ASSIGN(sizes.bias_stride, matmul.bias_stride.Evaluate(symbols));
  if (sizes.m < 0 || sizes.n < 0 || sizes.k < 0 || sizes.batch < 0) {
    return Fail(FUSEC_BAD_ARTIFACT, "step \"", step.name, "\": negative size ", sizes.batch, " x ",
                sizes.m, " x ", sizes.n, " x ", sizes.k);
  }
  FUSEC_RT_TRY(CheckStated(step, sizes, symbols));
  if (sizes.IsEmpty()) return sizes;
  if (sizes.batch > 1 && sizes.d_stride / sizes.m < sizes.n) {
    return Fail(FUSEC_BAD_ARTIFACT, "step \"", step.name, "\": the matrices of d overlap");
  }
  // The last matrix ends at offset + (batch - 1) * stride + rows * columns.
  const auto end = [&](int64_t offset, int64_t stride, int64_t rows, int64_t columns) {
    return MultiplyAdd(MultiplyAdd(offset, stride, sizes.batch - 1), rows, columns);
  };
  const auto check = [&](const char* name, const MatmulOperand& operand, int64_t needed) {
    return CheckInside(manifest, step, name, operand.buffer, needed, buffer_bytes);
  };
  if (sizes.k > 0) {
    FUSEC_RT_TRY(check("a", matmul.a, end(sizes.a_offset, sizes.a_stride, sizes.m, sizes.k)));
    FUSEC_RT_TRY(check("b", matmul.b, end(sizes.b_offset, sizes.b_stride, sizes.k, sizes.n)));
  }
  FUSEC_RT_TRY(check("d", matmul.d, end(sizes.d_offset, sizes.d_stride, sizes.m, sizes.n)));
  if (matmul.addend >= 0) {
    // The addend has the layout of d, with offset 0.
    FUSEC_RT_TRY(CheckInside(manifest, step, "addend", matmul.addend,
                             end(0, sizes.d_stride, sizes.m, sizes.n), buffer_bytes));
    if (sizes.bias_stride != 0) {
      return Fail(FUSEC_BAD_ARTIFACT, "step \"", step.name,
                  "\": has both an addend and a bias for each matrix");
    }
    if (sizes.k == 0) {
      return Fail(FUSEC_BAD_ARTIFACT, "step \"", step.name, "\": has an addend, but k is 0");
    }
  }
  if (matmul.bias >= 0) {
    FUSEC_RT_TRY(CheckInside(manifest, step, "bias", matmul.bias,
                             end(0, sizes.bias_stride, 1, sizes.n), buffer_bytes));
  }
  return sizes;
}

StatusOr<bool> Runs(const Step& step, std::span<const int64_t> symbols) {
  if (!step.when) return true;
  FUSEC_RT_ASSIGN(const int64_t size, step.when->size.Evaluate(symbols));
  return size >= step.when->from && size <= step.when->to;
}

StatusOr<int64_t> EvaluateCalls(const Step& step, std::span<const int64_t> symbols) {
  MatmulSizes sizes;
  FUSEC_RT_ASSIGN(sizes.batch, step.matmul.batch.Evaluate(symbols));
  FUSEC_RT_ASSIGN(sizes.bias_stride, step.matmul.bias_stride.Evaluate(symbols));
  return sizes.Calls();
}

StatusOr<int64_t> EvaluateBlocks(const Step& step, std::span<const int64_t> symbols) {
  FUSEC_RT_ASSIGN(const int64_t blocks, step.kernel.blocks.Evaluate(symbols));
  FUSEC_RT_ASSIGN(const int64_t bytes_written, step.bytes_written.Evaluate(symbols));
  const int64_t fewest = bytes_written > 0 ? 1 : 0;
  if (blocks >= fewest && blocks <= INT32_MAX) return blocks;
  return Fail(FUSEC_BAD_ARTIFACT, "step \"", step.name, "\": ", blocks, " blocks write ",
              bytes_written, " bytes, expected ", fewest, "..", INT32_MAX, " blocks");
}

}  // namespace fusec::runtime
