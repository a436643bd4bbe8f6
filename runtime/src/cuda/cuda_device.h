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
  // The address of a constant that kernels get; 0 for other buffers.
  CUdeviceptr AddressForKernels(int buffer) const;
  // Called after a run was enqueued, by a thread that no longer holds WeightsSwitch::Enqueuing.
  Status AfterRun();
  WeightsSwitch& weights_switch() { return weights_switch_; }
  CublasLt* cublaslt() const { return cublaslt_.get(); }  // null without a matmul step
  MatmulEpilogues& epilogues() { return epilogues_; }
  MatmulPrecision precision() const { return precision_; }
  bool use_graphs() const { return use_graphs_; }
  // Whether kernels wait as KernelLaunch::dependent_launch promises. This holds for machine code;
  // source that NVRTC compiles may have been written for another target.
  bool launches_dependently() const { return launches_dependently_; }
  // Whether the range lies completely in memory of AllocateHost, which kernels may use in place.
  bool OwnsHost(const void* memory, size_t bytes) const;
  // Whether the GPU can copy the range without the host: it is memory of AllocateHost, or the
  // driver reports its first and last byte as page-locked. If the middle is pageable, copies are
  // slower but correct, because the driver's copies accept any memory.
  bool IsPageLocked(const void* memory, size_t bytes) const;
  int copy_threads() const { return copy_threads_; }  // threads that copy host memory

 private:
  CudaDevice(const Artifact& artifact, std::unique_ptr<CudaContext> context);
  Status Load();
  Status EnqueueWeights(ChangedWeights& changed, const Artifact& weights,
                        std::span<const ConstantPart> kept, CUstream stream) const;

  const Artifact& artifact_;
  std::unique_ptr<CudaContext> context_;  // outlives the members below
  std::string name_;
  Target target_;  // the manifest's target, with the steps that this GPU can run
  CudaKernels kernels_;
  CudaWeights weights_;
  std::unique_ptr<const Artifact> updated_;  // the artifact of the current weights after an update
  WeightsSwitch weights_switch_;
  CudaRows rows_{*this};
  CudaRowCaches row_caches_{*this};
  std::mutex changes_;  // held during a change of weights, rows or caches
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
