#include "runtime/src/program.h"

#include <charconv>
#include <cstring>
#include <string_view>

#include "runtime/src/adapter_file.h"
#include "runtime/src/artifact/dtype.h"
#include "runtime/src/artifact/same_program.h"
#include "runtime/src/artifact/signature.h"
#include "runtime/src/shards/sharded_device.h"

namespace fusec::runtime {
namespace {

// The GPU ordinals in a device name: {0, 2} for "cuda:0,2", {0} for "cuda", none for "cpu".
StatusOr<std::vector<int>> ParseDevice(std::string_view device) {
  std::vector<int> ordinals;
  if (device == "cpu") return ordinals;
  if (device == "cuda") return std::vector<int>{0};
  const bool has_numbers = device.starts_with("cuda:");
  for (std::string_view rest = device; has_numbers && !rest.empty();) {
    rest.remove_prefix(ordinals.empty() ? std::string_view("cuda:").size() : 1);  // the comma
    int ordinal = -1;
    const auto [end, code] = std::from_chars(rest.data(), rest.data() + rest.size(), ordinal);
    rest.remove_prefix(static_cast<size_t>(end - rest.data()));
    if (code != std::errc() || ordinal < 0 || !(rest.empty() || rest.front() == ',')) break;
    ordinals.push_back(ordinal);
    if (rest.empty()) return ordinals;
  }
  return Fail(FUSEC_BAD_USAGE, "unknown device \"", device, "\", expected cpu, cuda or cuda:N");
}

// Without a name: the first GPU if the machine has one and the artifact has a GPU target, and the
// CPU otherwise. An artifact without a CPU target always gets the GPU, so that the error is about
// the GPU.
StatusOr<std::vector<int>> ChooseDevice(const char* device, const Artifact& artifact) {
  if (IsSharded(artifact.manifest())) {
    if (device) return ParseDevice(device);
    FUSEC_RT_ASSIGN(const bool uses_cuda, ShardsCanUseCuda(artifact));
    return uses_cuda ? std::vector<int>{0} : std::vector<int>{};
  }
  if (device) {
    FUSEC_RT_ASSIGN(auto ordinals, ParseDevice(device));
    if (ordinals.size() <= 1) return ordinals;
    return Fail(FUSEC_BAD_USAGE, "device \"", device, "\": ", artifact.path(),
                " is not sharded and runs on one GPU, expected cpu, cuda or cuda:N");
  }
  const bool uses_cuda = CudaUsable(artifact) || artifact.manifest().targets.count("cpu") == 0;
  return uses_cuda ? std::vector<int>{0} : std::vector<int>{};
}

StatusOr<std::unique_ptr<Device>> CreateDevice(Artifact& artifact, std::vector<int> ordinals) {
  if (IsSharded(artifact.manifest())) return CreateShardedDevice(artifact, std::move(ordinals));
  return ordinals.empty() ? CreateCpuDevice(artifact)
                          : CreateCudaDevice(artifact, ordinals.front());
}

std::string_view NameOf(fusec_dtype dtype) {
  return dtype >= FUSEC_F32 && dtype <= FUSEC_BOOL ? DtypeName(dtype) : "of no dtype";
}

Status CheckAligned(const std::string& table, const char* what, const void* data, int bytes) {
  const uintptr_t rest = reinterpret_cast<uintptr_t>(data) % static_cast<uintptr_t>(bytes);
  if (rest == 0) return {};
  return Fail(FUSEC_BAD_INPUT, table, ": the memory of ", what, " starts ", rest,
              " bytes after a multiple of ", bytes, ", expected a multiple of ", bytes);
}

// Checks dtype, count and memory of the ids, not their values.
Status CheckIds(const std::string& table, const RowUpdate& update) {
  if (update.id_dtype != FUSEC_I32 && update.id_dtype != FUSEC_I64)
    return Fail(FUSEC_BAD_INPUT, table, ": ids are ", NameOf(update.id_dtype),
                ", expected i32 or i64");
  if (update.count < 0)
    return Fail(FUSEC_BAD_USAGE, "count is ", update.count, ", expected 0 or more");
  if (update.count == 0) return {};
  if (!update.ids) return Fail(FUSEC_BAD_USAGE, "ids is null");
  return CheckAligned(table, "ids", update.ids, DtypeBytes(update.id_dtype));
}

}  // namespace

StatusOr<std::unique_ptr<Program>> Program::Load(const std::string& path, const char* device) {
  if (device) FUSEC_RT_TRY(ParseDevice(device));  // before files are read
  FUSEC_RT_TRY(CheckSignature(path));
  return LoadPart(path, device);
}

StatusOr<std::unique_ptr<Program>> Program::LoadPart(const std::string& path, const char* device) {
  FUSEC_RT_ASSIGN(auto artifact, Artifact::Open(path));
  FUSEC_RT_ASSIGN(auto ordinals, ChooseDevice(device, *artifact));
  FUSEC_RT_ASSIGN(auto chosen, CreateDevice(*artifact, std::move(ordinals)));
  return std::make_unique<Program>(std::move(artifact), std::move(chosen));
}

Status Program::CanLoad(const std::string& path, const char* device) {
  FUSEC_RT_ASSIGN(const auto artifact, Artifact::OpenManifest(path));
  FUSEC_RT_ASSIGN(const auto ordinals, ChooseDevice(device, *artifact));
  if (IsSharded(artifact->manifest())) return CheckShardedDevice(*artifact, ordinals);
  return ordinals.empty() ? CheckCpuDevice(*artifact)
                          : CheckCudaDevice(*artifact, ordinals.front());
}

Status Program::UpdateWeights(const std::string& path) {
  FUSEC_RT_TRY(CheckSignature(path));
  return UpdateWeightsOfPart(path);
}

Status Program::UpdateWeightsOfPart(const std::string& path) {
  const std::lock_guard lock(updates_);
  FUSEC_RT_ASSIGN(auto weights, Artifact::Open(path));
  FUSEC_RT_TRY(CheckSameProgram(manifest(), weights->manifest(), path));
  std::vector<ConstantPart> kept;
  for (const int64_t slot : written_slots_) {
    const std::vector<ConstantPart> parts = PartsOfSlot(manifest().adapters, slot);
    kept.insert(kept.end(), parts.begin(), parts.end());
  }
  FUSEC_RT_TRY(device_->UpdateWeights(std::move(weights), kept));
  for (auto& version : versions_) ++version;
  return {};
}

Status Program::LoadAdapter(int64_t slot, const std::string& path) {
  FUSEC_RT_TRY(CheckSlot(slot));
  FUSEC_RT_ASSIGN(const SlotContents contents, ReadAdapter(manifest().adapters, path));
  return WriteSlot(slot, contents);
}

Status Program::UnloadAdapter(int64_t slot) {
  FUSEC_RT_TRY(CheckSlot(slot));
  SlotContents zeros;
  for (const ConstantPart& part : PartsOfSlot(manifest().adapters, slot))
    zeros.emplace_back(part.bytes);
  return WriteSlot(slot, zeros);
}

Status Program::CheckSlot(int64_t slot) const {
  const int64_t slots = manifest().adapters.slots;
  if (slots == 0)
    return Fail(FUSEC_BAD_USAGE, artifact_->path(),
                ": has no slots for adapters, it was compiled without --adapters");
  if (slot < 0 || slot >= slots)
    return Fail(FUSEC_BAD_USAGE, "slot ", slot, " is outside 0..", slots - 1);
  return {};
}

Status Program::WriteSlot(int64_t slot, std::span<const std::vector<std::byte>> contents) {
  const std::lock_guard lock(updates_);
  FUSEC_RT_TRY(device_->WriteConstants(PartsOfSlot(manifest().adapters, slot), contents));
  written_slots_.insert(slot);
  return {};
}

StatusOr<size_t> Program::FindTable(const char* name) const {
  constexpr size_t kMostListed = 30;
  const std::vector<Table>& tables = manifest().tables;
  std::string known;
  for (size_t i = 0; i < tables.size(); ++i) {
    if (tables[i].name == name) return i;
    if (i < kMostListed) known += Text(known.empty() ? "\"" : ", \"", tables[i].name, "\"");
  }
  if (tables.size() > kMostListed) known += Text(" and ", tables.size() - kMostListed, " more");
  return Fail(FUSEC_BAD_INPUT, "there is no table \"", name, "\", the program has ",
              known.empty() ? "none" : known);
}

Status Program::UpdateRows(const char* name, RowUpdate update, fusec_dtype row_dtype) {
  FUSEC_RT_ASSIGN(const size_t number, FindTable(name));
  const Table& table = manifest().tables[number];
  const std::string place = Text("table \"", table.name, "\"");
  if (!table.fixed.empty()) {
    return Fail(FUSEC_BAD_INPUT, place, " cannot be updated by rows: ", table.fixed);
  }
  FUSEC_RT_TRY(CheckIds(place, update));
  if (row_dtype != table.dtype)
    return Fail(FUSEC_BAD_INPUT, place, ": rows are ", NameOf(row_dtype), ", expected ",
                DtypeName(table.dtype));
  if (update.on_device && !device_->has_device_memory())
    return Fail(FUSEC_BAD_INPUT, place, ": ids and rows are in device memory, the program runs on ",
                device_->name());
  if (update.count == 0) return {};
  if (!update.rows) return Fail(FUSEC_BAD_USAGE, "rows is null");
  update.table = &table;
  FUSEC_RT_TRY(CheckAligned(place, "rows", update.rows, DtypeBytes(table.dtype)));
  const std::lock_guard lock(updates_);
  FUSEC_RT_TRY(device_->UpdateRows(update));
  ++versions_[number];
  return {};
}

StatusOr<fusec_cache_info> Program::TableCache(const char* name) const {
  FUSEC_RT_ASSIGN(const size_t number, FindTable(name));
  return device_->TableCache(manifest().tables[number]);
}

Status Program::WarmTable(const char* name, RowUpdate looked_up) {
  FUSEC_RT_ASSIGN(const size_t number, FindTable(name));
  const Table& table = manifest().tables[number];
  FUSEC_RT_TRY(CheckIds(Text("table \"", table.name, "\""), looked_up));
  looked_up.table = &table;
  for (int64_t i = 0; i < looked_up.count; ++i) {
    const int64_t id = looked_up.IdAt(i);
    if (id < 0 || id >= table.rows) return BadId(looked_up, i, id);
  }
  return device_->WarmTable(table, looked_up.ids, looked_up.id_dtype, looked_up.count);
}

Program::Program(std::unique_ptr<Artifact> artifact, std::unique_ptr<Device> device)
    : artifact_(std::move(artifact)),
      device_(std::move(device)),
      versions_(manifest().tables.size()) {
  DescribeTensors();
}

void Program::DescribeTensors() {
  const auto describe = [this](const std::vector<TensorSignature>& tensors,
                               std::vector<fusec_tensor_info>& infos) {
    for (const TensorSignature& tensor : tensors) {
      std::vector<const char*>& dims = dim_texts_.emplace_back();
      for (const DimExpression& dim : tensor.shape) dims.push_back(dim.text().c_str());
      infos.push_back(
          {tensor.name.c_str(), tensor.dtype, static_cast<int>(tensor.shape.size()), dims.data()});
    }
  };
  // The infos point into the lists, so these must not move.
  dim_texts_.reserve(manifest().inputs.size() + manifest().outputs.size());
  describe(manifest().inputs, input_infos_);
  describe(manifest().outputs, output_infos_);
}

}  // namespace fusec::runtime
