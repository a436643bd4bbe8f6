#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "runtime/src/artifact/artifact.h"
#include "runtime/src/executor.h"
#include "runtime/src/status.h"

namespace fusec::runtime {

// A loaded artifact on a device: what fusec_load gives. Any number of threads may use it.
class Program {
 public:
  // `device`: "cpu", "cuda", "cuda:N", "cuda:N,N" of a sharded one, or null for a GPU where the artifact and the machine have
  // one, else the CPU.
  static StatusOr<std::unique_ptr<Program>> Load(const std::string& path, const char* device);
  // The same without asking for a signature: of a part of an artifact that has one.
  static StatusOr<std::unique_ptr<Program>> LoadPart(const std::string& path, const char* device);
  // The error of Load that does not depend on the weights, if there is one.
  static Status CanLoad(const std::string& path, const char* device);
  // Other weights for all contexts: those of the artifact at `path`, which must be the same
  // program. Runs go on meanwhile.
  Status UpdateWeights(const std::string& path);
  Status UpdateWeightsOfPart(const std::string& path);  // likewise
  // Puts rows into a table (fusec_update_rows); the memory is as fusec.h says.
  Status UpdateRows(const char* table, RowUpdate update, fusec_dtype row_dtype);
  // The cache of a table's rows (fusec_table_cache), and loading it (fusec_warm_table) with the
  // rows of ids as an update has them in host memory.
  StatusOr<fusec_cache_info> TableCache(const char* table) const;
  Status WarmTable(const char* table, RowUpdate looked_up);
  // Puts the adapter of a file (adapter_file.h) into a slot, or nothing.
  Status LoadAdapter(int64_t slot, const std::string& path);
  Status UnloadAdapter(int64_t slot);
  // How often the table's rows were updated, or all weights.
  uint64_t table_version(size_t table) const { return versions_[table]; }
  // The number of the table of that name.
  StatusOr<size_t> FindTable(const char* name) const;
  // On a device made for `artifact`.
  Program(std::unique_ptr<Artifact> artifact, std::unique_ptr<Device> device);

  const Artifact& artifact() const { return *artifact_; }
  const Manifest& manifest() const { return artifact_->manifest(); }
  Device& device() const { return *device_; }
  const fusec_tensor_info& input_info(int i) const { return input_infos_[i]; }
  const fusec_tensor_info& output_info(int i) const { return output_infos_[i]; }

 private:
  void DescribeTensors();
  Status CheckSlot(int64_t slot) const;
  Status WriteSlot(int64_t slot, std::span<const std::vector<std::byte>> contents);

  std::unique_ptr<Artifact> artifact_;
  std::unique_ptr<Device> device_;
  std::mutex updates_;  // of weights and rows, which come one behind the other
  std::vector<std::atomic<uint64_t>> versions_;  // by table
  std::set<int64_t> written_slots_;              // which updates of weights leave alone
  std::vector<fusec_tensor_info> input_infos_, output_infos_;
  std::vector<std::vector<const char*>> dim_texts_;  // what the infos' dims point to
};

}  // namespace fusec::runtime
