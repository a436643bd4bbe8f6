// CudaExecutor's way from the steps of the manifest to operations with every address and size
// known.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "runtime/src/artifact/dtype.h"
#include "runtime/src/cuda/cuda_executor.h"

namespace fusec::runtime {

void CudaExecutor::AddCopyOfInputs(const RunBindings& bindings, const Staging& staging,
                                   std::vector<Operation>& operations) const {
  std::vector<CudaInputCopy::Segment> segments;
  // Tensors have room in staging up to a multiple of more than a word.
  const auto add = [&](size_t offset, CUdeviceptr from, size_t bytes) {
    constexpr size_t kWordBytes = CudaInputCopy::kWordBytes;
    segments.push_back(
        {staging_device_.get() + offset, from, (bytes + kWordBytes - 1) / kWordBytes});
  };
  if (const size_t bytes = staging.graph_bytes; bytes > 0) {
    if (!device_.input_copy() || bytes > kMaxCopyKernelBytes) {
      operations.emplace_back(CopyOperation{staging_device_.get(), staging_host_.get(), bytes});
      return;  // no input is of kPinnedRead
    }
    add(0, staging_host_address_, bytes);
  }
  for (const StagedTensor& input : staging.inputs) {
    if (input.place != Place::kPinnedRead) continue;
    const void* data = bindings.inputs[input.tensor].data;
    add(input.offset, reinterpret_cast<CUdeviceptr>(data), input.bytes);
  }
  if (segments.empty()) return;
  KernelOperation kernel = device_.input_copy().CopyOf(segments);
  kernel.dependent_launch = device_.launches_dependently();
  operations.emplace_back(std::move(kernel));
}

StatusOr<std::vector<Operation>> CudaExecutor::Resolve(const RunBindings& bindings,
                                                       const Addresses& addresses) {
  std::vector<Operation> operations;
  AddCopyOfInputs(bindings, addresses.staging, operations);
  for (const Step& step : device_.target().steps) {
    FUSEC_RT_ASSIGN(const bool runs, Runs(step, bindings.symbols));
    if (!runs) continue;
    FUSEC_RT_TRY(step.kind == Step::Kind::kKernel
                     ? ResolveKernel(step, bindings, addresses, operations)
                     : ResolveMatmul(step, bindings, addresses, operations));
  }
  if (!signals_end_ || operations.empty()) return operations;
  KernelOperation end;
  end.name = "end_run";
  end.function = device_.kernels().of_runtime().end_run;
  end.dependent_launch = device_.launches_dependently();
  end.arguments = {reports_address_ + offsetof(Reports, has_ended)};
  end.starts = {0};
  operations.emplace_back(std::move(end));
  return operations;
}

Status CudaExecutor::ResolveKernel(const Step& step, const RunBindings& bindings,
                                   const Addresses& addresses, std::vector<Operation>& operations) {
  FUSEC_RT_ASSIGN(const int64_t blocks, EvaluateBlocks(step, bindings.symbols));
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
      kernel.arguments.push_back(addresses.buffers[static_cast<size_t>(argument.buffer)]);
      continue;
    }
    if (argument.kind == KernelArgument::Kind::kBuffers) {
      for (const int buffer : argument.buffers) {
        kernel.arguments.push_back(addresses.buffers[static_cast<size_t>(buffer)]);
      }
      continue;
    }
    if (argument.kind == KernelArgument::Kind::kErrors) {
      kernel.arguments.push_back(reports_address_ + offsetof(Reports, error));
      continue;
    }
    FUSEC_RT_ASSIGN(const int64_t value, argument.dim.Evaluate(bindings.symbols));
    using Limits = std::numeric_limits<int32_t>;
    if (argument.kind == KernelArgument::Kind::kInt32 &&
        (value < Limits::min() || value > Limits::max())) {
      return Fail(FUSEC_BAD_INPUT, "kernel ", step.name, ": argument ", argument.dim.text(), " is ",
                  value, ", which does not fit 32 bits");
    }
    kernel.arguments.push_back(static_cast<uint64_t>(value));  // an i32 is its low half
  }
  operations.emplace_back(std::move(kernel));
  return {};
}

Status CudaExecutor::ResolveMatmul(const Step& step, const RunBindings& bindings,
                                   const Addresses& addresses, std::vector<Operation>& operations) {
  FUSEC_RT_ASSIGN(const MatmulSizes sizes, EvaluateMatmul(device_.manifest(), step,
                                                          bindings.symbols, bindings.buffer_bytes));
  if (sizes.IsEmpty()) return {};
  for (int64_t call = 0; call < sizes.Calls(); ++call) {
    FUSEC_RT_TRY(ResolveCall(step, sizes.OfCall(call), addresses, operations));
  }
  return {};
}

Status CudaExecutor::ResolveCall(const Step& step, MatmulSizes sizes, const Addresses& addresses,
                                 std::vector<Operation>& operations) {
  const Matmul& matmul = step.matmul;
  const auto address = [&](int buffer, int64_t offset) {
    return addresses.buffers[static_cast<size_t>(buffer)] +
           static_cast<CUdeviceptr>(offset * DtypeBytes(matmul.dtype));
  };
  MatmulPointers pointers;
  pointers.a = address(matmul.a.buffer, sizes.a_offset);
  pointers.b = address(matmul.b.buffer, sizes.b_offset);
  pointers.d = address(matmul.d.buffer, sizes.d_offset);
  if (matmul.bias >= 0) pointers.bias = address(matmul.bias, sizes.bias_offset);
  if (matmul.addend >= 0) pointers.addend = address(matmul.addend, 0);
  if (sizes.k == 0) return AddEpilogue(step, sizes, pointers, true, operations);

  // A batch whose matrices of rows follow each other and share b is one taller product.
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
  // A measured algorithm may count on what it was measured with.
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
  operations.emplace_back(MatmulOperation{step.name, *plan, product_pointers});
  if (fused || !needs_epilogue) return {};
  return AddEpilogue(step, sizes, pointers, false, operations);
}

Status CudaExecutor::AddEpilogue(const Step& step, const MatmulSizes& sizes,
                                 const MatmulPointers& pointers, bool from_zero,
                                 std::vector<Operation>& operations) {
  KernelOperation kernel;
  kernel.name = step.name;
  FUSEC_RT_ASSIGN(kernel.function, device_.epilogues().Kernel(step.matmul.dtype));
  const int64_t matrix_elements = sizes.m * sizes.n;
  const int64_t total = matrix_elements * sizes.batch;
  const int64_t blocks = (total + kEpilogueBlockSize - 1) / kEpilogueBlockSize;
  kernel.blocks = static_cast<unsigned>(std::min<int64_t>(blocks, 1 << 20));  // each strides on
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
  operations.emplace_back(std::move(kernel));
  return {};
}

}  // namespace fusec::runtime
