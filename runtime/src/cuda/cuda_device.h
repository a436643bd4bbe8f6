#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "runtime/src/artifact/artifact.h"
#include "runtime/src/cuda/cublaslt.h"
#include "runtime/src/cuda/cuda_context.h"
#include "runtime/src/cuda/cuda_input_copy.h"
#include "runtime/src/cuda/cuda_kernels.h"
#include "runtime/src/cuda/cuda_matmul_epilogue.h"
#include "runtime/src/cuda/cuda_row_caches.h"
#include "runtime/src/cuda/cuda_rows.h"
#include "runtime/src/cuda/cuda_weights.h"
#include "runtime/src/cuda/weights_switch.h"
#include "runtime/src/executor.h"

namespace fusec::runtime {

// A program on a GPU: its kernels and weights, and cuBLASLt if it has a matmul step.
class CudaDevice : public Device {
 public:
  static StatusOr<std::unique_ptr<CudaDevice>> Create(const Artifact& artifact, int ordinal,
                                                      std::unique_ptr<CudaContext> context);
  ~CudaDevice() override;

  const std::string& name() const override { return name_; }
  const Target& target() const override { return target_; }
  bool has_device_memory() const override { return true; }
  size_t weight_bytes() const override { return weights_.bytes() + row_caches_.bytes(); }
  StatusOr<std::unique_ptr<Executor>> NewExecutor() override;
  Status UpdateWeights(std::unique_ptr<Artifact> weights,
                       std::span<const ConstantPart> kept) override;
  Status WriteConstants(std::span<const ConstantPart> parts,
                        std::span<const std::vector<std::byte>> contents) override;
  Status UpdateRows(const RowUpdate& update) override;
  Status WarmTable(const Table& table, const void* ids, fusec_dtype id_dtype,
                   int64_t count) override;
  StatusOr<fusec_cache_info> TableCache(const Table& table) override;
  StatusOr<void*> AllocateHost(size_t bytes) override;
  void FreeHost(void* memory) override;

  const Manifest& manifest() const { return artifact_.manifest(); }
  const CudaContext& context() const { return *context_; }
  const CudaKernels& kernels() const { return kernels_; }
  CudaInputCopy input_copy() const { return CudaInputCopy(kernels_.of_runtime().copy_inputs); }
  StatusOr<CudaModule> LoadRowKernels() const;
  const CudaWeights& weights() const { return weights_; }
  const CudaRowCaches& row_caches() const { return row_caches_; }
  // Of a constant, for kernels; 0 for other buffers.
  CUdeviceptr AddressForKernels(int buffer) const;
  // A run was enqueued, by a thread that is not Enqueuing any more.
  Status AfterRun();
  WeightsSwitch& weights_switch() { return weights_switch_; }
  CublasLt* cublaslt() const { return cublaslt_.get(); }  // null without a matmul step
  MatmulEpilogues& epilogues() { return epilogues_; }
  MatmulPrecision precision() const { return precision_; }
  bool use_graphs() const { return use_graphs_; }
  // Whether kernels wait as the manifest says of KernelLaunch::dependent_launch: machine code does,
  // text may be that of another target.
  bool launches_dependently() const { return launches_dependently_; }
  // Whether all of it lies in memory of AllocateHost, which kernels may use in place.
  bool OwnsHost(const void* memory, size_t bytes) const;
  // Whether the GPU can copy from and to it without the host's help: memory of AllocateHost, or
  // what the driver says is page-locked, of its first and last byte. Memory that only seems so
  // costs time, since the driver's own copies take any.
  bool IsPageLocked(const void* memory, size_t bytes) const;
  int copy_threads() const { return copy_threads_; }  // that copy host memory for all contexts

 private:
  CudaDevice(const Artifact& artifact, std::unique_ptr<CudaContext> context);
  Status Load();
  Status EnqueueWeights(ChangedWeights& changed, const Artifact& weights,
                        std::span<const ConstantPart> kept, CUstream stream) const;

  const Artifact& artifact_;
  std::unique_ptr<CudaContext> context_;  // outlives all below
  std::string name_;
  Target target_;  // of the manifest, with the steps that this GPU can run
  CudaKernels kernels_;
  CudaWeights weights_;
  std::unique_ptr<const Artifact> updated_;  // which has them now, after an update
  WeightsSwitch weights_switch_;
  CudaRows rows_{*this};
  CudaRowCaches row_caches_{*this};
  std::mutex changes_;  // of weights, rows and caches: one at a time
  std::unique_ptr<CublasLt> cublaslt_;
  MatmulEpilogues epilogues_;
  MatmulPrecision precision_ = MatmulPrecision::kHighest;
  bool use_graphs_ = true;
  bool machine_code_fits_ = false;
  bool launches_dependently_ = false;
  int copy_threads_ = 1;

  struct PinnedBlock {
    PinnedMemory memory;
    size_t bytes;
  };
  mutable std::mutex mutex_;
  std::map<const std::byte*, PinnedBlock> pinned_;  // by address
};

}  // namespace fusec::runtime
