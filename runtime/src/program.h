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
  // `device`: "cpu", "cuda", "cuda:N", for a sharded artifact also "cuda:N,N", or null, which
  // selects the first GPU if the machine has one and the artifact has a GPU target, and the CPU
  // otherwise.
  static StatusOr<std::unique_ptr<Program>> Load(const std::string& path, const char* device);
  // The same without checking a signature: for a part of an artifact whose signature was checked.
  static StatusOr<std::unique_ptr<Program>> LoadPart(const std::string& path, const char* device);
  // The error that Load would return, as far as it does not depend on the weights.
  static Status CanLoad(const std::string& path, const char* device);
  // Replaces the weights, for all contexts, by those of the artifact at `path`, which must be the
  // same program. Runs continue meanwhile.
  Status UpdateWeights(const std::string& path);
  Status UpdateWeightsOfPart(const std::string& path);  // the same without checking a signature
  // Overwrites rows of a table; see fusec_update_rows for the memory of `update`.
  Status UpdateRows(const char* table, RowUpdate update, fusec_dtype row_dtype);
  // The state of a table's cache (fusec_table_cache), and loading rows into it (fusec_warm_table):
  // those that the ids of `looked_up`, in host memory, name most often.
  StatusOr<fusec_cache_info> TableCache(const char* table) const;
  Status WarmTable(const char* table, RowUpdate looked_up);
  // Loads the adapter of a file (adapter_file.h) into a slot, or empties the slot.
  Status LoadAdapter(int64_t slot, const std::string& path);
  Status UnloadAdapter(int64_t slot);
  // How many updates of the table's rows and of all weights there were.
  uint64_t table_version(size_t table) const { return versions_[table]; }
  // The index of the table with this name.
  StatusOr<size_t> FindTable(const char* name) const;
  // `device` was created for `artifact`.
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
  std::mutex updates_;                           // held by an update of weights, rows or adapters
  std::vector<std::atomic<uint64_t>> versions_;  // by table
  std::set<int64_t> written_slots_;              // slots that updates of weights do not change
  std::vector<fusec_tensor_info> input_infos_, output_infos_;
  std::vector<std::vector<const char*>> dim_texts_;  // what the infos' dims point to
};

}  // namespace fusec::runtime
