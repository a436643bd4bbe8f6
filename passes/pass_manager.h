#pragma once

#include <array>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "compiler/ir/graph.h"
#include "compiler/ir/in_place.h"
#include "compiler/support/adt.h"
#include "passes/adapter_site.h"
#include "passes/float8_product.h"
#include "passes/per_request.h"
#include "passes/stored_rows.h"

namespace fusec {

// How to store the tables whose names match `pattern`, a shell-style glob (--table-storage).
struct TableStorage {
  std::string pattern;
  RowStorage storage = RowStorage::kInt8;
};

// Where the tables whose names match `pattern` lie while a GPU runs the program
// (--table-placement).
struct TablePlacement {
  std::string pattern;
  bool on_host = false;
};
// Whether the last placement that matches the name `table` puts that table into host memory.
bool LiesOnHost(ArrayRef<TablePlacement> placements, const std::string& table);

// How much GPU memory the caches of tables in host memory take (--table-cache): a number of bytes,
// or the percentage of the tables' rows that they hold.
struct TableCache {
  int64_t bytes = 0;
  double percent = 0;  // 0: `bytes` counts
};

struct PassOptions {
  std::set<std::string> disabled_fusions;  // optional passes to leave out (--disable-fusion)
  std::string matmul_precision = "highest";
  std::string index_policy = "error";  // error, clamp, wrap, zero: see index_policy.h
  // The last entry that matches a table applies; see quantize_tables.h.
  std::vector<TableStorage> table_storage = {};
  // Maps the graph's names of constants to the model's; others have the same name in both.
  std::map<std::string, std::string> constant_names = {};
  std::optional<AdapterSlots> adapters = {};         // see adapter_slots.h
  std::vector<TablePlacement> table_placement = {};  // see place_tables.h
  PerRequest per_request = {};                       // see hoist_requests.h
  std::optional<TableCache> table_cache = {};        // see cache_tables.h
  // Bytes of shared memory that a thread block may have on every GPU of the targets, if all of
  // these have tensor cores for f32 (TF32); otherwise 0.
  int64_t block_shared_bytes = 0;
  double float8_budget = kFloat8Budget;  // see float8_products.h
  // Whether every GPU of the targets has products of fp8, and clusters of blocks.
  bool has_float8_products = true;
  bool has_clusters = true;
  std::vector<InPlace> in_place = {};  // see update_in_place.h
};

// An edge of the graph that a pass looked at and did not fuse. Values are given by name, since
// names stay the same when nodes move into a region.
struct Refusal {
  std::string pass;
  std::string value;   // the tensor on the edge
  std::string reader;  // the first result of the node that reads it
  std::string reason;  // "it is read elsewhere too, so it is stored anyway"
  std::string needed;  // what it would take to fuse it: "a kernel that ..."
};

// What passes tell the user.
struct PassReport {
  std::vector<Refusal> refusals;
  std::vector<StoredTable> stored_tables;
  std::vector<AdapterSite> adapter_sites;
  RequestSplit request_split;
  std::vector<Float8Product> float8_products;
  std::string pass;  // the pass that is running
  // A later refusal by the same pass for the same edge replaces the earlier one.
  void Refuse(const Value* value, const Node& reader, const std::string& reason,
              const std::string& needed);

 private:
  std::map<std::array<std::string, 3>, size_t> places_;  // in `refusals`, by pass, value and reader
};

// A pass changes the graph in place and says whether it did.
using PassFunction = Result<bool> (*)(Graph&, const PassOptions&, PassReport&);

struct PassInfo {
  const char* name;
  PassFunction run;
  bool optional;     // may be disabled
  bool in_segments;  // a large graph is cut into segments for it (segments.h)
  const char* summary;
};

const std::vector<PassInfo>& AllPasses();
const PassInfo* FindPass(std::string_view name);

struct PassTiming {
  std::string name;
  double milliseconds = 0;
  bool changed = false;
};

// Runs passes by name, verifying the graph after each that changed it.
class PassManager {
 public:
  PassOptions options;
  std::string dump_directory;  // "03-fuse-pointwise.ir" after every pass that changed something; ""
                               // for none
  std::string dump_prefix;     // in front of those names
  int stop_after = -1;         // number of passes to run, to bisect a wrong answer; -1 for all
  // Called with the graph that a pass has changed, and the name of the pass.
  std::function<void(const Graph&, const std::string&)> watch_changes;

  Result<void> Run(Graph& graph, ArrayRef<std::string> names);
  const PassReport& report() const { return report_; }
  // The layers with adapters that passes over an earlier form of the graph have reported.
  void SetAdapterSites(std::vector<AdapterSite> sites) { report_.adapter_sites = std::move(sites); }
  // Returns what the passes have reported since the last call, and clears it.
  PassReport TakeReport() { return std::exchange(report_, {}); }
  const std::vector<PassTiming>& timings() const { return timings_; }

 private:
  Result<void> Dump(const Graph& graph, const std::string& pass) const;
  PassReport report_;
  std::vector<PassTiming> timings_;
  int run_count_ = 0;
};

}  // namespace fusec
