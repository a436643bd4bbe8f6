#pragma once

#include <optional>
#include <string>
#include <vector>

#include "compiler/support/result.h"

namespace fusec {

struct AdapterSlots;
struct CompileOptions;
struct TableCache;
struct TablePlacement;

// The flags that decide how a model becomes an artifact, which compile, shard and verify share.
// Texts are as typed; flags that were not typed keep the defaults of CompileOptions.
struct ModelFlags {
  std::vector<std::string> freezes;  // NAME=FILE
  std::vector<std::string> disabled_fusions;
  std::vector<std::string> updatable;  // patterns of names
  bool keep_lora = false;
  bool round_every_op = false;
  bool batch_invariant = false;
  std::optional<std::string> matmul_precision, index_policy;
  std::optional<double> float8_budget;
  std::vector<std::string> table_storage;    // PATTERN=STORAGE
  std::vector<std::string> table_placement;  // PATTERN=host or PATTERN=device
  std::optional<std::string> table_cache;    // bytes as in 512MB, or a share as in 10%
  std::optional<std::string> adapters;       // slots=N,rank=N
  std::vector<std::string> per_request;      // patterns of inputs
  bool request_map = false;
  std::vector<std::string> in_place;  // OUTPUT=INPUT
};

// The value of --table-cache that gives this cache.
std::string TableCacheText(const TableCache& cache);
// The value of --adapters that gives these slots.
std::string AdaptersText(const AdapterSlots& adapters);

// A pattern that matches only this text.
std::string AsPattern(const std::string& text);

// Parses one of ModelFlags::table_placement; another form is a usage error.
Result<TablePlacement> ParseTablePlacement(const std::string& flag);

// Sets the options that the flags ask for, and reads the frozen tensors. A name of a fusion,
// storage or placement that does not exist is a usage error that lists those that do.
Result<void> ApplyModelFlags(const ModelFlags& flags, CompileOptions& options);

}  // namespace fusec
