#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "compiler/driver/artifact/artifact_ir.h"
#include "compiler/driver/artifact/dim_flags.h"
#include "compiler/driver/tune/tuning_file.h"
#include "compiler/support/result.h"
#include "runtime/src/artifact/manifest.h"

namespace fusec {

// Where the code of a step stands; empty of a library call.
struct StepCode {
  std::string source, source_hash;  // a file of the artifact and its hash
  std::string function;             // in it: the step's name, or that of an equal kernel
};

// One launch of an artifact.
struct ExplainedStep {
  std::string name, op_class, launch;
  StepCode code;
  std::vector<std::string> ops, onnx_nodes, modules, inputs, outputs;
  int64_t launches = 1;  // more of library calls that make the matrices of a batch one by one
  int64_t bytes_read = 0, bytes_written = 0, flops = 0;
};

// A tensor that crosses memory between two launches, and why they are not one.
struct NotFusedEdge {
  std::string producer, consumer;            // ONNX nodes
  std::string producer_step, consumer_step;  // names of steps
  std::string tensor, type;                  // "hidden", "f32[batch, 512]"
  int64_t bytes = 0;
  std::string reason, needed;  // why, and what it would take
};

// What manifest.json tells of one target, with all sizes as numbers for `dims`.
struct Explanation {
  std::string model, opset, matmul_precision, rounding, index_policy, target;
  DimValues dims;
  std::vector<ExplainedStep> steps;
  // Steps that other dims choose in the place of one of these, with their regions' numbers.
  std::vector<std::pair<ExplainedStep, size_t>> idle_steps;
  std::vector<NotFusedEdge> not_fused;
  // What the steps were planned from: regions()[i] is the unfused form of steps[i].
  std::shared_ptr<const Graph> graph;
  int64_t before_launches = 0, before_bytes = 0, after_launches = 0, after_bytes = 0;
  int64_t weight_bytes = 0, arena_bytes = 0;
  std::optional<TargetTuning> tuning;  // what was measured for the target, where it was tuned

  std::vector<const Node*> regions() const { return RegionsOf(*graph); }
  std::vector<std::string> step_names() const;
  // The step with that name, which may be an alternative that other dims choose, and its region;
  // the error proposes what may be meant.
  struct FoundStep {
    const ExplainedStep* step = nullptr;
    const Node* region = nullptr;
    bool runs = true;  // for `dims`
  };
  Result<FoundStep> FindStep(const std::string& name) const;
};

// `target` "" is the first GPU target, or the CPU where there is none; a dim without a flag has
// size 128, moved into its range.
Result<Explanation> ExplainArtifact(const std::string& path, const std::string& target,
                                    const std::vector<std::string>& dim_flags);

// The keys that DESIGN.md promises, and some more.
std::string ExplanationJson(const Explanation& explanation);

StepCode CodeOf(const runtime::Manifest& manifest, const runtime::Step& step);

// The text of it: its .cu file, or its part of the CPU library's source.
Result<std::string> KernelText(const std::string& artifact, const StepCode& code);

}  // namespace fusec
