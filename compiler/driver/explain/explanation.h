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

// The place of a step's code; empty for a library call.
struct StepCode {
  std::string source, source_hash;  // the artifact's file with the code, and the file's hash
  std::string function;             // its function: the step's name, or that of an identical kernel
};

// One step of an artifact: a kernel or a library call.
struct ExplainedStep {
  std::string name, op_class, launch;
  StepCode code;
  std::string edited;  // for an edited kernel the result of its check, such as "passed"; else ""
  std::vector<std::string> ops, onnx_nodes, modules, inputs, outputs;
  // More if a library multiplies a batch of matrices one by one; 0 if nothing reads the results at
  // these dims, so that the step does not run.
  int64_t launches = 1;
  int64_t bytes_read = 0, bytes_written = 0, flops = 0;
};

// A tensor that crosses memory between two steps, and why the two are not fused.
struct NotFusedEdge {
  std::string producer, consumer;            // ONNX nodes
  std::string producer_step, consumer_step;  // names of steps
  std::string tensor, type;                  // "hidden", "f32[batch, 512]"
  int64_t bytes = 0;
  std::string reason, needed;  // why they are not fused, and what fusing them would need
};

// The contents of manifest.json for one target, with all sizes computed for `dims`.
struct Explanation {
  std::string model, opset, matmul_precision, rounding, index_policy, target;
  bool batch_invariant = false;
  DimValues dims;
  std::vector<std::string> run_time_outputs;  // of data-dependent size, as "rows f32[0..n, 8]"
  std::vector<ExplainedStep> steps;
  // Alternatives that run instead of one of these steps at other dims, with the number of their
  // region.
  std::vector<std::pair<ExplainedStep, size_t>> idle_steps;
  std::vector<NotFusedEdge> not_fused;
  // The graph that the steps were planned from: regions()[i] is the unfused form of steps[i].
  std::shared_ptr<const Graph> graph;
  int64_t before_launches = 0, before_bytes = 0, after_launches = 0, after_bytes = 0;
  int64_t weight_bytes = 0, arena_bytes = 0;
  std::vector<PlacedTable> placed_tables;  // tables in host memory; empty unless target is a GPU
  std::vector<StoredTable> stored_tables;
  std::vector<Float8Product> float8_products;
  std::optional<ArtifactAdapters> adapters;
  std::optional<ArtifactRequests> requests;
  std::optional<TargetTuning> tuning;  // the measurements, if the target was tuned

  int64_t host_bytes() const;  // bytes of placed_tables
  std::vector<const Node*> regions() const { return RegionsOf(*graph); }
  std::vector<std::string> step_names() const;
  // The step with that name, which may be an alternative for other dims, and its region. The error
  // of an unknown name suggests similar ones.
  struct FoundStep {
    const ExplainedStep* step = nullptr;
    const Node* region = nullptr;
    bool runs = true;  // whether it runs at `dims`
  };
  Result<FoundStep> FindStep(const std::string& name) const;
};

// `target` "" means the first GPU target, or the CPU if there is none. A dim without a flag has
// size 128, clamped to its range.
Result<Explanation> ExplainArtifact(const std::string& path, const std::string& target,
                                    ArrayRef<std::string> dim_flags);

// The explanation as JSON. Scripts rely on its keys: later versions may add keys but not remove
// any.
std::string ExplanationJson(const Explanation& explanation);

// The place of the code of a kernel step.
StepCode CodeOf(const runtime::Manifest& manifest, const runtime::Step& step);

// The text of a kernel: its .cu file, or its part of the CPU library's source.
Result<std::string> KernelText(const std::string& artifact, const StepCode& code);

}  // namespace fusec
