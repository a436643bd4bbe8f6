#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <span>
#include <vector>

#include "runtime/src/artifact/launch_text.h"
#include "runtime/src/cpu/cpu_executor.h"
#include "runtime/src/parallel.h"
#include "runtime/src/row_update.h"

namespace fusec::runtime {
namespace {

constexpr size_t kHostAlignment = 64;

class CpuDevice : public Device {
 public:
  CpuDevice(Artifact& artifact, const Target& target)
      : program_{artifact, target}, artifact_(artifact) {}

  Status Load() {
    FUSEC_RT_ASSIGN(program_.threads, ThreadCountFromEnvironment());
    bool has_kernels = false, has_matmuls = false;
    for (const Step& step : program_.target.steps) {
      (step.kind == Step::Kind::kKernel ? has_kernels : has_matmuls) = true;
    }
    name_ = "cpu";
    if (has_kernels) {
      FUSEC_RT_ASSIGN(program_.library, CpuLibrary::Open(program_.artifact, program_.target));
      name_ += Text(" (", program_.library.level(), ")");
      if (const char* launches = program_.library.Launches())
        FUSEC_RT_TRY(CheckLaunches(program_.artifact.manifest(), program_.target, launches,
                                   program_.artifact.path() + "/manifest.json"));
    }
    for (const Step& step : program_.target.steps) {
      program_.functions.push_back(nullptr);
      if (step.kind != Step::Kind::kKernel) continue;
      FUSEC_RT_ASSIGN(program_.functions.back(), program_.library.FindKernel(step.kernel.function));
    }
    // oneDNN's order of summation depends on the number of rows and threads; that of the runtime's
    // own product does not.
    if (has_matmuls && !program_.artifact.manifest().batch_invariant)
      program_.onednn = OneDnn::Get();
    // The program owns its first artifact.
    SetWeights(std::shared_ptr<Artifact>(std::shared_ptr<void>(), &artifact_));
    return {};
  }

  const std::string& name() const override { return name_; }
  const Target& target() const override { return program_.target; }
  bool has_device_memory() const override { return false; }
  size_t weight_bytes() const override { return 0; }

  StatusOr<std::unique_ptr<Executor>> NewExecutor() override {
    return std::make_unique<CpuExecutor>(program_);
  }

  // Running runs keep the weights that they began with.
  Status UpdateWeights(std::unique_ptr<Artifact> weights,
                       std::span<const ConstantPart> kept) override {
    const Artifact& old = *program_.weights.Get()->artifact;
    for (const ConstantPart& part : kept) {
      FUSEC_RT_ASSIGN(const std::span<std::byte> bytes, weights->MakeWritable(part.buffer));
      std::ranges::copy(old.Constant(part.buffer).subspan(part.offset, part.bytes),
                        bytes.begin() + static_cast<ptrdiff_t>(part.offset));
    }
    SetWeights(std::move(weights));
    return {};
  }

  Status WriteConstants(std::span<const ConstantPart> parts,
                        std::span<const std::vector<std::byte>> contents) override {
    Artifact& artifact = *program_.weights.Get()->artifact;
    std::vector<std::span<std::byte>> places;
    for (const ConstantPart& part : parts) {
      FUSEC_RT_ASSIGN(const std::span<std::byte> bytes, artifact.MakeWritable(part.buffer));
      places.push_back(bytes.subspan(part.offset, part.bytes));
    }
    const Gate::Closed alone(program_.runs);
    for (size_t i = 0; i < parts.size(); ++i) std::ranges::copy(contents[i], places[i].begin());
    return {};
  }

  // No run overlaps the writing: running ones end before the first row is written, and others begin
  // after the last row.
  Status UpdateRows(const RowUpdate& update) override {
    FUSEC_RT_TRY(CheckRows(update));
    const Table& table = *update.table;
    Artifact& artifact = *program_.weights.Get()->artifact;
    FUSEC_RT_ASSIGN(const std::span<std::byte> rows, artifact.MakeWritable(table.buffer));
    std::span<std::byte> factors;
    if (table.factors >= 0) {
      FUSEC_RT_ASSIGN(factors, artifact.MakeWritable(table.factors));
    }
    const StoredRows stored = StoreRows(update);  // converted while runs continue
    const Gate::Closed alone(program_.runs);
    const auto put = [&update](std::span<std::byte> to, const std::byte* from, size_t bytes) {
      for (int64_t i = 0; i < update.count; ++i, from += bytes)
        std::memcpy(to.data() + static_cast<size_t>(update.IdAt(i)) * bytes, from, bytes);
    };
    put(rows, stored.rows, static_cast<size_t>(table.stored_bytes()));
    if (!factors.empty())
      put(factors, stored.factors, static_cast<size_t>(table.factor_count()) * sizeof(float));
    return {};
  }

  StatusOr<void*> AllocateHost(size_t bytes) override {
    void* memory = nullptr;
    if (bytes <= PTRDIFF_MAX)
      memory = std::aligned_alloc(kHostAlignment, (bytes / kHostAlignment + 1) * kHostAlignment);
    if (!memory) return Fail(FUSEC_NO_DEVICE, "cannot allocate ", bytes, " bytes of host memory");
    return memory;
  }
  void FreeHost(void* memory) override { std::free(memory); }

 private:
  // The rows of an update in the storage type of the table.
  struct StoredRows {
    const std::byte *rows = nullptr, *factors = nullptr;
    std::vector<std::byte> row_memory, factor_memory;  // used unless the caller's rows serve as is
  };
  StoredRows StoreRows(const RowUpdate& update) const {
    const Table& table = *update.table;
    if (table.form == table.model_form())
      return {static_cast<const std::byte*>(update.rows), nullptr, {}, {}};
    const int64_t row_bytes = table.stored_bytes(), factor_count = table.factor_count();
    StoredRows stored;
    stored.row_memory.resize(static_cast<size_t>(update.count * row_bytes));
    stored.factor_memory.resize(static_cast<size_t>(update.count * factor_count) * sizeof(float));
    std::byte* const rows = stored.row_memory.data();
    auto* const factors = reinterpret_cast<float*>(stored.factor_memory.data());
    const ThreadShare share(program_.threads);
    constexpr double kFlopsOfElement = 20;
    const auto elements = static_cast<double>(update.count * table.columns);
    const int threads = UsefulThreads(0, kFlopsOfElement * elements, share.threads());
    ParallelFor(threads, update.count, [&](int64_t first, int64_t last) {
      for (int64_t i = first; i < last; ++i)
        table.Store(update.RowAt(i), rows + i * row_bytes, factors + i * factor_count);
    });
    stored.rows = rows;
    stored.factors = stored.factor_memory.data();
    return stored;
  }

  void SetWeights(std::shared_ptr<Artifact> artifact) {
    auto weights = std::make_shared<CpuWeights>();
    weights->artifact = std::move(artifact);
    program_.weights.Set(std::move(weights));
  }

  std::string name_;
  CpuProgram program_;
  Artifact& artifact_;  // the one that was loaded first
};

}  // namespace

StatusOr<std::unique_ptr<Device>> CreateCpuDevice(Artifact& artifact) {
  const auto target = artifact.manifest().targets.find("cpu");
  if (target == artifact.manifest().targets.end()) {
    return Fail(FUSEC_NO_DEVICE, artifact.path(), ": was not compiled for the CPU");
  }
  auto device = std::make_unique<CpuDevice>(artifact, target->second);
  FUSEC_RT_TRY(device->Load());
  return device;
}

Status CheckCpuDevice(Artifact& artifact) {
  FUSEC_RT_TRY(CreateCpuDevice(artifact));  // reads no weights
  return {};
}

}  // namespace fusec::runtime
