#include "runtime/src/shards/sharded_device.h"

#include <algorithm>

#include "runtime/src/program.h"
#include "runtime/src/shards/sharded_executor.h"

namespace fusec::runtime {
namespace {

const std::vector<Step>& StepsOf(const Artifact& artifact) {
  return artifact.manifest().targets.at(kShardsTarget).steps;
}

std::string FolderOf(const Artifact& artifact, const Step& step) {
  return artifact.path() + "/" + step.folder;
}

// The GPU of each part; empty on the CPU.
std::vector<int> PlacesOf(size_t parts, const std::vector<int>& ordinals) {
  std::vector<int> places;
  for (size_t i = 0; i < parts && !ordinals.empty(); ++i)
    places.push_back(i + 1 == parts ? ordinals.front() : ordinals[i % ordinals.size()]);
  return places;
}

std::string DeviceName(const std::vector<int>& places, size_t part) {
  return places.empty() ? "cpu" : Text("cuda:", places[part]);
}

// Checks that the tensors of a part agree with the whole program's manifest.
Status CheckTensors(const Manifest& whole, const std::string& folder,
                    const std::vector<TensorSignature>& tensors, const std::vector<int>& buffers,
                    const char* what) {
  if (tensors.size() != buffers.size()) {
    return Fail(FUSEC_BAD_ARTIFACT, folder, ": has ", tensors.size(), " ", what,
                ", the manifest beside it says ", buffers.size());
  }
  for (size_t i = 0; i < tensors.size(); ++i) {
    const Buffer& buffer = whole.buffers[buffers[i]];
    if (buffer.name == tensors[i].name && buffer.dtype == tensors[i].dtype) continue;
    return Fail(FUSEC_BAD_ARTIFACT, folder, ": \"", tensors[i].name, "\" is not \"", buffer.name,
                "\" of the manifest beside it");
  }
  return {};
}

class ShardedDevice : public Device {
 public:
  explicit ShardedDevice(const Artifact& artifact)
      : program_{artifact, {}}, weights_path_(artifact.path()) {}

  Status Load(std::vector<int> ordinals) {
    const std::vector<Step>& steps = StepsOf(program_.artifact);
    program_.ordinals = PlacesOf(steps.size(), ordinals);
    for (size_t i = 0; i < steps.size(); ++i) {
      const std::string folder = FolderOf(program_.artifact, steps[i]);
      FUSEC_RT_TRY(program_.artifact.ReadFile(
          steps[i].folder + "/manifest.json"));  // it has the hashes of the other files
      ProgramPart part;
      FUSEC_RT_ASSIGN(part.program,
                      Program::LoadPart(folder, DeviceName(program_.ordinals, i).c_str()));
      part.step = &steps[i];
      FUSEC_RT_TRY(CheckPart(part, folder));
      program_.parts.push_back(std::move(part));
    }
    FUSEC_RT_TRY(CheckTables());
    name_ = program_.parts.back().program->device().name();
    const auto others =
        std::count_if(program_.ordinals.begin(), program_.ordinals.end(),
                      [&](int ordinal) { return ordinal != program_.ordinals.back(); });
    if (others > 0) {
      std::sort(ordinals.begin(), ordinals.end());
      ordinals.erase(std::unique(ordinals.begin(), ordinals.end()), ordinals.end());
      name_ += Text(" and ", ordinals.size() - 1, " more");
    }
    return {};
  }

  const std::string& name() const override { return name_; }
  const Target& target() const override {
    return program_.artifact.manifest().targets.at(kShardsTarget);
  }
  bool has_device_memory() const override { return home().has_device_memory(); }
  size_t weight_bytes() const override {
    size_t bytes = 0;
    for (const ProgramPart& part : program_.parts) bytes += part.program->device().weight_bytes();
    return bytes;
  }
  StatusOr<std::unique_ptr<Executor>> NewExecutor() override {
    FUSEC_RT_ASSIGN(auto executor, ShardedExecutor::Create(program_));
    return std::unique_ptr<Executor>(std::move(executor));
  }

  // Every run sees either the old or the new weights of all parts. If a part cannot load its new
  // weights, the others get their old ones back.
  Status UpdateWeights(std::unique_ptr<Artifact> weights, std::span<const ConstantPart>) override {
    const Gate::Closed alone(program_.runs);
    for (size_t i = 0; i < program_.parts.size(); ++i) {
      const Status status = UpdatePart(i, weights->path());
      if (status) continue;
      RollBack(i);
      return status;
    }
    program_.mixed_weights.clear();
    weights_path_ = weights->path();
    return {};
  }
  Status WriteConstants(std::span<const ConstantPart>,
                        std::span<const std::vector<std::byte>>) override {
    return Fail(FUSEC_BAD_USAGE, "adapters of a sharded program are loaded into its part ",
                program_.parts.back().step->name);
  }
  // Each part gets those of the rows that it has, in the given order.
  Status UpdateRows(const RowUpdate& update) override {
    const Table& table = *update.table;
    const bool is_whole = table.parts.size() == 1 && table.parts.front().rows == table.rows &&
                          table.parts.front().columns == table.columns;
    if (is_whole) {
      const size_t part = static_cast<size_t>(table.parts.front().step);
      const bool is_home =
          program_.ordinals.empty() || program_.ordinals[part] == program_.ordinals.back();
      if (!update.on_device || is_home) return Forward(part, update);
    }
    if (update.on_device)
      return Fail(FUSEC_BAD_INPUT, "table \"", table.name,
                  "\" does not lie on this GPU alone, expected rows in host memory");
    FUSEC_RT_TRY(CheckRows(update));
    for (const TableRows& rows : table.parts) FUSEC_RT_TRY(ForwardRows(rows, update));
    return {};
  }
  StatusOr<void*> AllocateHost(size_t bytes) override { return home().AllocateHost(bytes); }
  void FreeHost(void* memory) override { home().FreeHost(memory); }

 private:
  Status Forward(size_t part, const RowUpdate& update) {
    return program_.parts[part].program->UpdateRows(update.table->name.c_str(), update,
                                                    update.table->dtype);
  }
  Status ForwardRows(const TableRows& part, const RowUpdate& update) {
    std::vector<int64_t> ids;
    std::vector<std::byte> rows;
    const int64_t element = update.table->row_bytes() / update.table->columns;
    for (int64_t i = 0; i < update.count; ++i) {
      const int64_t id = update.IdAt(i) - part.first_row;
      if (id < 0 || id >= part.rows) continue;
      ids.push_back(id);
      const auto* row =
          static_cast<const std::byte*>(update.RowAt(i)) + part.first_column * element;
      rows.insert(rows.end(), row, row + part.columns * element);
    }
    if (ids.empty()) return {};
    RowUpdate of_part = update;
    of_part.ids = ids.data();
    of_part.id_dtype = FUSEC_I64;
    of_part.rows = rows.data();
    of_part.count = static_cast<int64_t>(ids.size());
    of_part.stream = nullptr;  // waits, because its memory belongs to this call
    return Forward(static_cast<size_t>(part.step), of_part);
  }

  Device& home() const { return program_.parts.back().program->device(); }

  // Loads the old weights into the first `count` parts again. A part that cannot load them keeps
  // the new ones, and then no run may start.
  void RollBack(size_t count) {
    for (size_t part = 0; part < count; ++part) {
      const Status status = UpdatePart(part, weights_path_);
      if (!status && program_.mixed_weights.empty())
        program_.mixed_weights = status.error().message;
    }
  }

  Status UpdatePart(size_t part, const std::string& path) {
    return program_.parts[part].program->UpdateWeightsOfPart(path + "/" +
                                                             program_.parts[part].step->folder);
  }

  // Checks that each element of a table is in exactly one part, and that the parts' tables have the
  // stated rows and columns.
  Status CheckTables() const {
    for (const Table& table : program_.artifact.manifest().tables) {
      if (!table.fixed.empty()) continue;
      int64_t elements = 0;
      bool fits = true;
      for (const TableRows& part : table.parts) {
        fits = fits && static_cast<size_t>(part.step) < program_.parts.size();
        if (!fits) break;
        const Program& program = *program_.parts[static_cast<size_t>(part.step)].program;
        const auto number = program.FindTable(table.name.c_str());
        fits = number && program.manifest().tables[*number].rows == part.rows &&
               program.manifest().tables[*number].columns == part.columns &&
               part.first_row <= table.rows - part.rows;
        elements += part.rows * part.columns;
      }
      if (fits && elements % table.columns == 0 && elements / table.columns == table.rows) continue;
      return Fail(FUSEC_BAD_ARTIFACT, program_.artifact.path(),
                  "/manifest.json: the parts of table \"", table.name, "\" are not its ",
                  table.rows, " rows");
    }
    return {};
  }

  Status CheckPart(ProgramPart& part, const std::string& folder) const {
    const Manifest& whole = program_.artifact.manifest();
    const Manifest& manifest = part.program->manifest();
    FUSEC_RT_TRY(CheckTensors(whole, folder, manifest.inputs, part.step->inputs, "inputs"));
    FUSEC_RT_TRY(CheckTensors(whole, folder, manifest.outputs, part.step->outputs, "outputs"));
    const bool has_those_of_whole = whole.has_run_time_sizes && !part.step->outputs.empty() &&
                                    part.step->outputs.back() == whole.outputs.back().buffer;
    if (manifest.has_run_time_sizes && !has_those_of_whole)
      return Fail(FUSEC_BAD_ARTIFACT, folder,
                  ": has run-time sizes, which are not those of the manifest beside it");
    const std::vector<std::string> symbols = whole.SymbolNames();
    for (const Symbol& symbol : manifest.symbols) {
      const auto found = std::find(symbols.begin(), symbols.end(), symbol.name);
      if (found == symbols.end())
        return Fail(FUSEC_BAD_ARTIFACT, folder, ": symbol \"", symbol.name,
                    "\" is not of the manifest beside it");
      part.symbols.push_back(static_cast<int>(found - symbols.begin()));
    }
    return {};
  }

  ShardedProgram program_;
  std::string name_;
  std::string weights_path_;  // path of the parts' current weights
};

}  // namespace

bool IsSharded(const Manifest& manifest) { return manifest.targets.count(kShardsTarget) != 0; }

StatusOr<std::unique_ptr<Device>> CreateShardedDevice(const Artifact& artifact,
                                                      std::vector<int> ordinals) {
  auto device = std::make_unique<ShardedDevice>(artifact);
  FUSEC_RT_TRY(device->Load(std::move(ordinals)));
  return std::unique_ptr<Device>(std::move(device));
}

Status CheckShardedDevice(const Artifact& artifact, const std::vector<int>& ordinals) {
  const std::vector<Step>& steps = StepsOf(artifact);
  const std::vector<int> places = PlacesOf(steps.size(), ordinals);
  for (size_t i = 0; i < steps.size(); ++i)
    FUSEC_RT_TRY(Program::CanLoad(FolderOf(artifact, steps[i]), DeviceName(places, i).c_str()));
  return {};
}

StatusOr<bool> ShardsCanUseCuda(const Artifact& artifact) {
  FUSEC_RT_ASSIGN(const auto part,
                  Artifact::OpenManifest(FolderOf(artifact, StepsOf(artifact).back())));
  return CudaUsable(*part) || part->manifest().targets.count("cpu") == 0;
}

}  // namespace fusec::runtime
