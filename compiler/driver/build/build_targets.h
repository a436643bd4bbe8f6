#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "compiler/emit/emit_kernel.h"
#include "compiler/package/artifact_writer.h"
#include "compiler/plan/region_kernels.h"
#include "compiler/support/adt.h"

namespace fusec {

// The graph from which one target of an artifact is built, and its tuning.
struct TargetSource {
  std::string name;                    // "cpu", "sm_90a"
  std::shared_ptr<const Graph> graph;  // fused: constants and regions
  std::vector<NotFused> not_fused;
  Tuning tuning = {};
};

struct BuildOptions {
  std::string matmul_precision = "highest";
  bool batch_invariant = false;
  std::vector<std::string> cpu_levels = {"x86-64-v3", "x86-64-v4"};
  int cpu_optimization = 3;
  std::string dump_kernels_directory = "";                  // "" for none
  std::function<void(double fraction)> compiled = nullptr;  // called after every module or library
};

TargetKind KindOf(const std::string& target);
PlanOptions PlanFor(const std::string& target, const std::string& matmul_precision,
                    bool batch_invariant = false);

// Plans every target, generates the text of its kernels and compiles them. Adds the targets, the
// look-ups that report bad ids (sites) and the files to `contents`.
Result<void> BuildTargets(ArrayRef<TargetSource> sources, const ModelTitle& title,
                          const BuildOptions& options, ArtifactContents& contents);

// Plans every target and generates the text of its kernels, without compiling them.
Result<void> EmitTargets(ArrayRef<TargetSource> sources, const ModelTitle& title,
                         const BuildOptions& options, ArtifactContents& contents);

// The rest of BuildTargets, for `contents` whose targets are planned already.
Result<void> BuildKernels(const ModelTitle& title, const BuildOptions& options,
                          ArtifactContents& contents);

}  // namespace fusec
