#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "compiler/driver/artifact/artifact_ir.h"
#include "compiler/driver/artifact/dim_flags.h"
#include "compiler/driver/tune/tuning_file.h"
#include "compiler/package/adapter_sites.h"
#include "compiler/package/float8_products.h"
#include "compiler/package/placed_tables.h"
#include "compiler/package/requests.h"
#include "compiler/package/stored_tables.h"
#include "compiler/support/adt.h"
#include "compiler/support/result.h"
#include "runtime/src/artifact/manifest.h"

namespace fusec {

// Where the code of a step is; empty for a library call.
struct StepCode {
  std::string source, source_hash;  // a file of the artifact and its hash
  std::string function;             // its function: the step's name, or that of an equal kernel
};

// One launch of an artifact.
struct ExplainedStep {
  std::string name, op_class, launch;
  StepCode code;
  std::string edited;  // "", or of an edited kernel what its check said: "passed", ...
  std::vector<std::string> ops, onnx_nodes, modules, inputs, outputs;
  int64_t launches = 1;  // more for a library that computes a batch's matrices one by one
  int64_t bytes_read = 0, bytes_written = 0, flops = 0;
};

// A tensor that crosses memory between two launches, and why the two are not one launch.
struct NotFusedEdge {
  std::string producer, consumer;            // ONNX nodes
  std::string producer_step, consumer_step;  // names of steps
  std::string tensor, type;                  // "hidden", "f32[batch, 512]"
  int64_t bytes = 0;
  std::string reason, needed;  // why, and what it would take
};

// What manifest.json says about one target, with all sizes computed for `dims`.
struct Explanation {
  std::string model, opset, matmul_precision, rounding, index_policy, target;
  bool batch_invariant = false;
  DimValues dims;
  std::vector<std::string> run_time_outputs;  // whose size only a run tells: "rows f32[0..n, 8]"
  std::vector<ExplainedStep> steps;
  // Alternatives that run instead of one of these steps for other dims, with their regions'
  // numbers.
  std::vector<std::pair<ExplainedStep, size_t>> idle_steps;
  std::vector<NotFusedEdge> not_fused;
  // The graph that the steps were planned from: regions()[i] is the unfused form of steps[i].
  std::shared_ptr<const Graph> graph;
  int64_t before_launches = 0, before_bytes = 0, after_launches = 0, after_bytes = 0;
  int64_t weight_bytes = 0, arena_bytes = 0;
  std::vector<PlacedTable> placed_tables;  // of these weights, if the target is a GPU
  std::vector<StoredTable> stored_tables;
  std::vector<Float8Product> float8_products;
  std::optional<ArtifactAdapters> adapters;
  std::optional<ArtifactRequests> requests;
  std::optional<TargetTuning> tuning;  // what was measured, if the target was tuned

  int64_t host_bytes() const;  // of placed_tables
  std::vector<const Node*> regions() const { return RegionsOf(*graph); }
  std::vector<std::string> step_names() const;
  // The step with that name, which may be an alternative for other dims, and its region. The error
  // proposes similar names.
  struct FoundStep {
    const ExplainedStep* step = nullptr;
    const Node* region = nullptr;
    bool runs = true;  // for `dims`
  };
  Result<FoundStep> FindStep(const std::string& name) const;
};

// `target` "" means the first GPU target, or the CPU if there is none. A dim without a flag has
// size 128, clamped to its range.
Result<Explanation> ExplainArtifact(const std::string& path, const std::string& target,
                                    ArrayRef<std::string> dim_flags);

// As JSON. Scripts rely on its keys: more may be added, none may go.
std::string ExplanationJson(const Explanation& explanation);

StepCode CodeOf(const runtime::Manifest& manifest, const runtime::Step& step);

// The text of a kernel: its .cu file, or its part of the CPU library's source.
Result<std::string> KernelText(const std::string& artifact, const StepCode& code);

}  // namespace fusec
