#include "compiler/plan/plan_program.h"

#include <algorithm>
#include <cstdio>

#include "compiler/ops/op_def.h"
#include "compiler/plan/matmul_kernels.h"
#include "compiler/plan/plan_region.h"
#include "compiler/support/check.h"

namespace fusec {

namespace {

constexpr size_t kNamedOps = 5;
// Rows from which blocks own several each: more than a GPU has room for blocks.
constexpr int64_t kManyRows = 1024;
constexpr int64_t kRowsOfMany = 8;
// From here on tensor cores take TF32 and bfloat16, and copies fill shared memory.
constexpr int kTensorCoreArchitecture = 80;

// Distinct op names of a region in order; views only where there is nothing else.
std::vector<std::string> OpNames(const Node& region) {
  std::vector<std::string> ops, views;
  for (const auto& node : region.body->nodes) {
    const OpDef& def = GetOpDef(node->kind);
    if (def.op_class == OpClass::kConstant) continue;
    const bool is_view = def.op_class == OpClass::kView && node->kind != OpKind::kConcat;
    auto& list = is_view ? views : ops;
    if (std::find(list.begin(), list.end(), def.text) == list.end()) list.push_back(def.text);
  }
  return ops.empty() ? views : ops;
}

std::string StepName(size_t number, const std::vector<std::string>& ops) {
  char prefix[16];
  std::snprintf(prefix, sizeof prefix, "k%02zu", number);
  std::string name = prefix;
  for (size_t i = 0; i < std::min(ops.size(), kNamedOps); ++i) name += "_" + ops[i];
  return name;
}

// A product by the library or by kernels of its own, as its sizes ask for. Whether there was one.
bool PlanMatMul(const Node& region, const std::string& name, const std::vector<std::string>& ops,
                const PlanOptions& options, const Graph& graph, ProgramPlan& program,
                std::vector<IndexSite>& sites) {
  auto matmul = PlanLibraryMatMul(region);
  const bool library = matmul.has_value();
  if (!library) matmul = PlanProduct(region);
  if (!matmul) return false;
  matmul->name = name;
  matmul->ops = ops;
  matmul->provenance = region.provenance;
  std::vector<MatMulKernel> kernels(library ? 1 : 0);
  if (options.target == TargetKind::kGpu && options.architecture >= kTensorCoreArchitecture)
    kernels = ChooseMatMulKernels(*matmul, options.matmul_precision, graph.SymbolRanges(), library);
  for (const MatMulKernel& kernel : kernels) {
    Step step;
    if (kernels.size() > 1)
      step.alternative = {matmul->m, kernel.from, kernel.to, &kernel == kernels.data()};
    if (kernel.kind == MatMulKernel::Kind::kLibrary) {
      step.is_matmul = true;
      step.matmul = *matmul;
    } else {
      KernelBuilder builder(options.target, graph, sites);
      builder.plan().name = name + kernel.Suffix();
      builder.plan().op_class = "matmul";
      builder.plan().ops = ops;
      builder.plan().provenance = region.provenance;
      builder.ReserveNames(region);
      step.kernel = PlanMatMulKernel(region, *matmul, kernel, options.matmul_precision, builder);
    }
    program.steps.push_back(std::move(step));
  }
  return !kernels.empty();
}

// A chain that blocks make for their rows: a row per block where there are few, so that all of a
// GPU takes part, several where there are many, so that all threads of a block do.
void PlanBlocks(const Node& region, const std::string& name, const std::vector<std::string>& ops,
                const Graph& graph, ProgramPlan& program, std::vector<IndexSite>& sites) {
  const auto plan = [&](const std::string& kernel_name, int64_t wanted_rows) {
    KernelBuilder builder(program.target, graph, sites);
    builder.plan().name = kernel_name;
    builder.plan().op_class = "block_program";
    builder.plan().ops = ops;
    builder.plan().provenance = region.provenance;
    builder.ReserveNames(region);
    return PlanBlockProgram(region, builder, wanted_rows);
  };
  const Expr rows = Product(region.Get<std::vector<Expr>>("rows"));
  Step few, many;
  few.kernel = plan(name, 1);
  many.kernel = plan(name + "_many_rows", kRowsOfMany);
  if (graph.SymbolRanges().IntervalOf(rows).high < kManyRows ||
      many.kernel.blocks == few.kernel.blocks) {
    program.steps.push_back(std::move(few));
    return;
  }
  few.alternative = {rows, 0, kManyRows - 1, true};
  many.alternative = {rows, kManyRows, INT64_MAX, false};
  program.steps.push_back(std::move(few));
  program.steps.push_back(std::move(many));
}

}  // namespace

Result<ProgramPlan> PlanProgram(const Graph& graph, const PlanOptions& options,
                                std::vector<IndexSite>& sites) {
  ProgramPlan program;
  program.target = options.target;
  size_t number = 0;
  for (const auto& node : graph.nodes) {
    if (node->kind == OpKind::kConstant) continue;
    FUSEC_CHECK(node->kind == OpKind::kRegion,
                "unfused node reached planning: " + PrintNode(*node));
    const std::string& region_class = node->Get<std::string>("class");
    Step step;
    const std::vector<std::string> ops = OpNames(*node);
    const std::string name = StepName(number++, ops);
    if (region_class == "matmul" && PlanMatMul(*node, name, ops, options, graph, program, sites))
      continue;
    if (region_class == "block_program") {
      PlanBlocks(*node, name, ops, graph, program, sites);
      continue;
    }
    KernelBuilder builder(options.target, graph, sites);
    builder.plan().name = name;
    builder.plan().op_class = region_class;
    builder.plan().ops = ops;
    builder.plan().provenance = node->provenance;
    builder.ReserveNames(*node);
    if (region_class == "row_reduction" || region_class == "matmul")
      step.kernel = PlanRowReduction(*node, builder);
    else if (region_class == "sequential")
      step.kernel = PlanSequential(*node, builder);
    else
      step.kernel = PlanLoop(*node, builder);
    program.steps.push_back(std::move(step));
  }
  return program;
}

}  // namespace fusec
