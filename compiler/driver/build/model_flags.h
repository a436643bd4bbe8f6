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

// What decides how a model becomes an artifact; shared by compile and verify. Texts are as typed;
// what is not typed is as CompileOptions have it.
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
};

// As --table-cache has it.
std::string TableCacheText(const TableCache& cache);
// As --adapters has it.
std::string AdaptersText(const AdapterSlots& adapters);

// Text as a pattern that matches it alone.
std::string AsPattern(const std::string& text);

// One of ModelFlags::table_placement; a usage error for another form.
Result<TablePlacement> ParseTablePlacement(const std::string& flag);

// Reads the frozen tensors and checks the names; usage errors list the names that exist.
Result<void> ApplyModelFlags(const ModelFlags& flags, CompileOptions& options);

}  // namespace fusec
