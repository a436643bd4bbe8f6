#include "runtime/src/cuda/resolve_steps.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>

#include "runtime/src/artifact/dtype.h"
#include "runtime/src/artifact/step_sizes.h"

namespace fusec::runtime {
namespace {

class StepResolver {
 public:
  StepResolver(CudaDevice& device, const RunBindings& bindings, const RunAddresses& addresses,
               std::vector<Operation>& operations)
      : device_(device), bindings_(bindings), addresses_(addresses), operations_(operations) {}

  Status AddKernel(const Step& step);
  Status AddMatmul(const Step& step);

 private:
  // Adds one of the library calls for a batch.
  Status AddCall(const Step& step, MatmulSizes sizes);
  Status AddEpilogue(const Step& step, const MatmulSizes& sizes, const MatmulPointers& pointers,
                     bool from_zero);

  CUdeviceptr Address(int buffer) const { return addresses_.buffers[static_cast<size_t>(buffer)]; }

  CudaDevice& device_;
  const RunBindings& bindings_;
  const RunAddresses& addresses_;
  std::vector<Operation>& operations_;
};

Status StepResolver::AddKernel(const Step& step) {
  FUSEC_RT_ASSIGN(const int64_t blocks, EvaluateBlocks(step, bindings_.symbols));
  if (blocks == 0) return {};
  KernelOperation kernel;
  kernel.name = step.name;
  const CudaFunction& function = device_.kernels().Find(step.kernel.function);
  kernel.function = function.handle;
  kernel.cluster_blocks = function.cluster_blocks;
  kernel.blocks = static_cast<unsigned>(blocks);
  kernel.block_size = static_cast<unsigned>(step.kernel.block_size);
  kernel.shared_bytes = static_cast<unsigned>(step.kernel.shared_bytes);
  kernel.dependent_launch = step.kernel.dependent_launch && device_.launches_dependently();
  for (const KernelArgument& argument : step.kernel.arguments) {
    kernel.starts.push_back(kernel.arguments.size());
    if (argument.kind == KernelArgument::Kind::kBuffer) {
      kernel.arguments.push_back(Address(argument.buffer));
      continue;
    }
    if (argument.kind == KernelArgument::Kind::kBuffers) {
      for (const int buffer : argument.buffers) {
        kernel.arguments.push_back(Address(buffer));
      }
      continue;
    }
    if (argument.kind == KernelArgument::Kind::kErrors) {
      kernel.arguments.push_back(addresses_.index_error);
      continue;
    }
    FUSEC_RT_ASSIGN(const int64_t value, argument.dim.Evaluate(bindings_.symbols));
    using Limits = std::numeric_limits<int32_t>;
    if (argument.kind == KernelArgument::Kind::kInt32 &&
        (value < Limits::min() || value > Limits::max())) {
      return Fail(FUSEC_BAD_INPUT, "kernel ", step.name, ": argument ", argument.dim.text(), " is ",
                  value, ", which does not fit 32 bits");
    }
    kernel.arguments.push_back(static_cast<uint64_t>(value));  // an i32 is in the low half
  }
  operations_.emplace_back(std::move(kernel));
  return {};
}

Status StepResolver::AddMatmul(const Step& step) {
  FUSEC_RT_ASSIGN(
      const MatmulSizes sizes,
      EvaluateMatmul(device_.manifest(), step, bindings_.symbols, bindings_.buffer_bytes));
  if (sizes.IsEmpty()) return {};
  for (int64_t call = 0; call < sizes.Calls(); ++call) {
    FUSEC_RT_TRY(AddCall(step, sizes.OfCall(call)));
  }
  return {};
}

Status StepResolver::AddCall(const Step& step, MatmulSizes sizes) {
  const Matmul& matmul = step.matmul;
  const auto address = [&](int buffer, int64_t offset) {
    return Address(buffer) + static_cast<CUdeviceptr>(offset * DtypeBytes(matmul.dtype));
  };
  MatmulPointers pointers;
  pointers.a = address(matmul.a.buffer, sizes.a_offset);
  pointers.b = address(matmul.b.buffer, sizes.b_offset);
  pointers.d = address(matmul.d.buffer, sizes.d_offset);
  if (matmul.bias >= 0) pointers.bias = address(matmul.bias, sizes.bias_offset);
  if (matmul.addend >= 0) pointers.addend = address(matmul.addend, 0);
  if (sizes.k == 0) return AddEpilogue(step, sizes, pointers, true);

  // A batch whose matrices a and d are contiguous and which shares b is one product with more rows.
  const bool rows_follow = !matmul.transpose_a && sizes.a_stride == sizes.m * sizes.k &&
                           sizes.d_stride == sizes.m * sizes.n && sizes.b_stride == 0;
  if (sizes.batch > 1 && rows_follow &&
      sizes.m <= std::numeric_limits<int32_t>::max() / sizes.batch) {
    sizes.m *= sizes.batch;
    sizes.batch = 1;
  }
  if (sizes.batch == 1) sizes.a_stride = sizes.b_stride = sizes.d_stride = 0;

  MatmulProblem problem;
  problem.dtype = matmul.dtype;
  problem.precision = device_.precision();
  problem.m = sizes.m;
  problem.n = sizes.n;
  problem.k = sizes.k;
  problem.batch = sizes.batch;
  problem.a_stride = sizes.a_stride;
  problem.b_stride = sizes.b_stride;
  problem.d_stride = sizes.d_stride;
  problem.transpose_a = matmul.transpose_a;
  problem.transpose_b = matmul.transpose_b;
  problem.a_alignment = AlignmentOf(pointers.a);
  problem.b_alignment = AlignmentOf(pointers.b);
  problem.d_alignment = AlignmentOf(pointers.d);
  problem.has_addend = matmul.addend >= 0;
  problem.addend_alignment = AlignmentOf(pointers.addend);
  const MatmulProblem bare = problem;
  problem.has_bias = matmul.bias >= 0;
  problem.activation = matmul.activation;
  problem.bias_alignment = AlignmentOf(pointers.bias);
  // A measured algorithm may depend on the alignment and batch with which it was measured.
  constexpr uint32_t kMeasuredAlignment = 16;
  const bool as_measured =
      problem.batch == 1 &&
      std::min({problem.a_alignment, problem.b_alignment, problem.d_alignment,
                problem.bias_alignment, problem.addend_alignment}) >= kMeasuredAlignment;
  if (as_measured) problem.algorithm = matmul.algorithm;

  const bool needs_epilogue = problem.has_bias || problem.activation != Activation::kNone;
  std::optional<MatmulPlan> plan;
  if (CublasLt::KnowsActivation(problem.activation, problem.dtype)) {
    FUSEC_RT_ASSIGN(plan, device_.cublaslt()->Plan(problem));
  }
  const bool fused = plan.has_value();
  if (!fused && needs_epilogue) {
    FUSEC_RT_ASSIGN(plan, device_.cublaslt()->Plan(bare));
  }
  if (!plan) {
    return Fail(FUSEC_NO_DEVICE, "step \"", step.name, "\": cuBLASLt has no algorithm for ",
                DtypeName(problem.dtype), " with m ", problem.m, ", n ", problem.n, ", k ",
                problem.k, ", batch ", problem.batch);
  }
  MatmulPointers product_pointers = pointers;
  if (!fused) product_pointers.bias = 0;
  operations_.emplace_back(MatmulOperation{step.name, *plan, product_pointers});
  if (fused || !needs_epilogue) return {};
  return AddEpilogue(step, sizes, pointers, false);
}

Status StepResolver::AddEpilogue(const Step& step, const MatmulSizes& sizes,
                                 const MatmulPointers& pointers, bool from_zero) {
  KernelOperation kernel;
  kernel.name = step.name;
  FUSEC_RT_ASSIGN(kernel.function, device_.epilogues().Kernel(step.matmul.dtype));
  const int64_t matrix_elements = sizes.m * sizes.n;
  const int64_t total = matrix_elements * sizes.batch;
  const int64_t blocks = (total + kEpilogueBlockSize - 1) / kEpilogueBlockSize;
  kernel.blocks = static_cast<unsigned>(std::min<int64_t>(blocks, 1 << 20));  // grid-stride loop
  kernel.block_size = kEpilogueBlockSize;
  kernel.arguments = {pointers.d,
                      pointers.bias,
                      static_cast<uint64_t>(matrix_elements),
                      static_cast<uint64_t>(sizes.n),
                      static_cast<uint64_t>(sizes.d_stride),
                      static_cast<uint64_t>(total),
                      static_cast<uint64_t>(from_zero),
                      static_cast<uint64_t>(step.matmul.activation)};
  for (size_t k = 0; k < kernel.arguments.size(); ++k) kernel.starts.push_back(k);
  operations_.emplace_back(std::move(kernel));
  return {};
}

}  // namespace

Status AppendSteps(CudaDevice& device, const RunBindings& bindings, const RunAddresses& addresses,
                   std::vector<Operation>& operations) {
  StepResolver resolver(device, bindings, addresses, operations);
  for (const Step& step : device.target().steps) {
    FUSEC_RT_ASSIGN(const bool runs, Runs(step, bindings.symbols));
    if (!runs) continue;
    FUSEC_RT_TRY(step.kind == Step::Kind::kKernel ? resolver.AddKernel(step)
                                                  : resolver.AddMatmul(step));
  }
  return {};
}

}  // namespace fusec::runtime
