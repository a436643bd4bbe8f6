#include "tests/property/compiled_graphs.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <limits>

#include "compiler/driver/build/host_compiler.h"
#include "compiler/driver/build/pipeline.h"
#include "compiler/emit/emit_kernel.h"
#include "compiler/emit/equal_kernels.h"
#include "compiler/package/artifact_writer.h"
#include "compiler/plan/region_kernels.h"
#include "runtime/src/cuda/nvrtc.h"
#include "tests/emulation/block.h"
#include "tests/property/gpu_text_on_cpu.h"
#include "tests/property/random_graph.h"

namespace fusec {
namespace {

static_assert(static_cast<int>(Dtype::kBool) == FUSEC_BOOL);

Result<void> Check(fusec_status status) {
  if (status == FUSEC_OK) return {};
  return Fail(static_cast<ErrorKind>(status), fusec_last_error());
}

TargetKind KindOf(RunOn where) {
  return where == RunOn::kCpu ? TargetKind::kCpu : TargetKind::kGpu;
}

std::string TemporaryFolder() {
  std::string path = (std::filesystem::temp_directory_path() / "fusec-property-XXXXXX").string();
  return mkdtemp(path.data());
}

// A graph of only `node`, with its operands as inputs; constants stay constants, since ops may inspect them.
Result<std::vector<ReferenceTensor>> RunAlone(const Graph& graph, const Node& node,
                                              const DenseMap<const Value*, ReferenceTensor>& values,
                                              ArrayRef<ReferenceTensor> graph_inputs) {
  Graph alone;
  alone.name = "alone";
  alone.symbols = graph.symbols;
  std::vector<ReferenceTensor> inputs = graph_inputs;  // they bind the symbols
  for (const auto& input : graph.inputs) alone.AddInput(alone.UniqueName(input->name), input->type);
  ValueList operands;
  for (const Value* operand : node.operands) {
    if (operand == nullptr) {
      operands.push_back(nullptr);
    } else if (operand->producer != nullptr && operand->producer->kind == OpKind::kConstant) {
      operands.push_back(Builder(alone).Constant(operand->producer->constant));
    } else {
      operands.push_back(alone.AddInput(alone.UniqueName(operand->name), operand->type));
      inputs.push_back(values.at(operand));
    }
  }
  FUSEC_ASSIGN(Node * added, Builder(alone).Add(node.kind, operands, node.attributes));
  for (const auto& result : added->results) alone.outputs.push_back(result.get());
  return Interpret(alone, inputs);
}

double LargestMagnitude(const ReferenceTensor& tensor) {
  double largest = 0;
  for (const double value : tensor.reals) {
    if (std::isfinite(value)) largest = std::max(largest, std::abs(value));
  }
  return largest;
}

// The largest change of an element by rounding; infinite if rounding added or removed a NaN or an infinity.
double LargestMove(const ReferenceTensor& exact, const ReferenceTensor& rounded) {
  double largest = 0;
  for (size_t i = 0; i < exact.reals.size(); ++i) {
    const double a = exact.reals[i], b = rounded.reals[i];
    if (std::isfinite(a) && std::isfinite(b)) largest = std::max(largest, std::abs(a - b));
    else if (std::isnan(a) != std::isnan(b) || (!std::isnan(a) && a != b)) return INFINITY;
  }
  return largest;
}

}  // namespace

std::unique_ptr<Graph> SideBySide(ArrayRef<const Graph*> graphs) {
  auto all = std::make_unique<Graph>();
  all->name = "side_by_side";
  for (size_t i = 0; i < graphs.size(); ++i) {
    const std::string prefix = fmt::format("g{}_", i);
    auto graph = graphs[i]->Clone();
    for (const DimSymbol& symbol : graph->symbols) {
      if (std::find(all->symbols.begin(), all->symbols.end(), symbol) == all->symbols.end()) {
        all->symbols.push_back(symbol);
      }
    }
    for (auto& input : graph->inputs) {
      input->name = prefix + input->name;
      all->input_names.push_back(input->name);
      all->inputs.push_back(std::move(input));
    }
    for (auto& node : graph->nodes) {
      for (auto& result : node->results) result->name = prefix + result->name;
      all->nodes.push_back(std::move(node));
    }
    for (Value* output : graph->outputs) {
      all->output_names.push_back(fmt::format("y{}", all->outputs.size()));
      all->outputs.push_back(output);
    }
  }
  return all;
}

Result<std::unique_ptr<CompiledGraphs>> CompiledGraphs::Make(
    ArrayRef<const Graph*> graphs, RunOn where, std::vector<std::string> passes,
    const std::string& precision, std::optional<size_t> candidate) {
  if (passes.empty()) passes = PipelinePasses(KindOf(where));
  std::unique_ptr<CompiledGraphs> made(new CompiledGraphs);
  std::vector<std::unique_ptr<Graph>> fused;
  std::vector<const Graph*> parts;
  for (const Graph* graph : graphs) {
    made->output_counts_.push_back(graph->outputs.size());
    fused.push_back(graph->Clone());
    parts.push_back(fused.back().get());
    PassManager manager;
    manager.options.matmul_precision = precision;
    if (where != RunOn::kCpu) manager.options.block_shared_bytes = GpuFor("sm_90a").block_shared_bytes;
    FUSEC_TRY(manager.Run(*fused.back(), passes));
  }
  FUSEC_TRY(made->Load(SideBySide(parts), where, precision, candidate));
  return made;
}

// Chooses a candidate for every region: for each size, the one with this number plus the number of the region.
Tuning SomeCandidates(const Graph& fused, const PlanOptions& options, size_t number) {
  Tuning tuning;
  size_t region = 0;
  for (const auto& node : fused.nodes) {
    if (node->kind == OpKind::kConstant) continue;
    const RegionKernels kernels(*node, "k", {}, options, fused);
    for (const int64_t size : {4, 16, 200}) {
      const auto candidates = kernels.Candidates(size);
      tuning[region].push_back({size, candidates[(number + region) % candidates.size()]});
    }
    ++region;
  }
  return tuning;
}

Result<void> CompiledGraphs::Load(std::shared_ptr<const Graph> fused, RunOn where,
                                  const std::string& precision,
                                  std::optional<size_t> candidate) {
  ArtifactContents contents;
  contents.matmul_precision = precision;
  const bool for_gpu = KindOf(where) == TargetKind::kGpu;
  PlanOptions options{KindOf(where), precision, &GpuFor("sm_90a")};
  Tuning tuning;
  if (candidate) tuning = SomeCandidates(*fused, options, *candidate);
  options.tuning = &tuning;
  FUSEC_ASSIGN(ProgramPlan plan, PlanProgram(*fused, options, contents.sites));
  ShareEqualKernels(plan);
  const auto kernels = FunctionsOf(plan);
  TargetContents target;
  if (where == RunOn::kGpu) {
    target = {"sm_90a", fused, {}, {{"cubin", "cubin/sm_90a.cubin"}}};
    for (const KernelPlan* kernel : kernels) {
      contents.files["kernels/" + kernel->name + ".cu"] = EmitKernelFile(*kernel, {});
    }
    auto cubin = runtime::CompileCached("kernels.cu", EmitGpuModule(kernels, {}), "sm_90a");
    if (!cubin) return Fail(ErrorKind::kToolchain, cubin.error().message);
    contents.files["cubin/sm_90a.cubin"] = *std::move(cubin);
  } else {
    target = {"cpu", fused, {}, {{"native", "cpu/kernels-native.so"}}};
    const TextParts parts = where == RunOn::kEmulatedGpu ? TextParts::kOfSm90a : TextParts::kOfCpu;
    const std::string text = for_gpu ? GpuTextOnCpu(kernels, parts) : EmitCpuLibrary(kernels, {});
    FUSEC_ASSIGN(contents.files["cpu/kernels-native.so"], CompileHostLibrary(text, "native", 1));
    contents.files["cpu/kernels.cc"] = text;
  }
  target.plan = std::move(plan);
  contents.targets.push_back(std::move(target));
  folder_ = TemporaryFolder();
  const std::string artifact = folder_ + "/artifact";
  FUSEC_TRY(WriteArtifact(artifact, contents));
  FUSEC_TRY(Check(fusec_load(artifact.c_str(), where == RunOn::kGpu ? "cuda" : "cpu", &program_)));
  return Check(fusec_create_context(program_, &context_));
}

CompiledGraphs::~CompiledGraphs() {
  if (context_ != nullptr) fusec_destroy_context(context_);
  if (program_ != nullptr) fusec_unload(program_);
  std::error_code ignored;
  if (!folder_.empty()) std::filesystem::remove_all(folder_, ignored);
}

Result<std::vector<std::vector<ReferenceTensor>>> CompiledGraphs::Run(
    ArrayRef<std::vector<ReferenceTensor>> inputs) {
  std::vector<TensorData> bound;
  for (const auto& of_graph : inputs) {
    for (const ReferenceTensor& input : of_graph) bound.push_back(input.ToData());
  }
  for (size_t i = 0; i < bound.size(); ++i) {
    FUSEC_TRY(Check(fusec_bind_input(context_, static_cast<int>(i), bound[i].bytes(),
                                     bound[i].dims().data(),
                                     static_cast<int>(bound[i].dims().size()), 0)));
  }
  FUSEC_TRY(Check(fusec_run(context_)));
  if (const std::string complaint = emulation::TakeComplaint(); !complaint.empty())
    return Fail(ErrorKind::kToolchain, complaint);
  std::vector<std::vector<ReferenceTensor>> results;
  int number = 0;
  for (const size_t count : output_counts_) {
    results.emplace_back();
    for (size_t i = 0; i < count; ++i, ++number) {
      fusec_tensor_info info;
      FUSEC_TRY(Check(fusec_output_info(program_, number, &info)));
      std::vector<int64_t> dims(static_cast<size_t>(info.rank));
      FUSEC_TRY(Check(fusec_output_dims(context_, number, dims.data())));
      TensorData data(static_cast<Dtype>(info.dtype), dims);
      size_t bytes = 0;
      const void* held = fusec_get_output(context_, number, &bytes);
      if (bytes != data.byte_count()) {
        return Fail(ErrorKind::kArtifact, fmt::format("output {} has {} bytes, expected {}", number,
                                                      bytes, data.byte_count()));
      }
      if (bytes != 0) std::memcpy(data.mutable_bytes(), held, bytes);
      results.back().push_back(ReferenceTensor::FromData(data));
    }
  }
  return results;
}

Result<std::vector<ReferenceTensor>> InterpretRounded(const Graph& graph,
                                                      ArrayRef<ReferenceTensor> inputs) {
  DenseMap<const Value*, ReferenceTensor> values;
  for (size_t i = 0; i < inputs.size(); ++i) values[graph.inputs[i].get()] = inputs[i];
  for (const auto& node : graph.nodes) {
    if (node->kind == OpKind::kConstant) {
      values[node->result()] = ReferenceTensor::FromData(node->constant);
      continue;
    }
    FUSEC_ASSIGN(const std::vector<ReferenceTensor> results, RunAlone(graph, *node, values, inputs));
    for (size_t i = 0; i < results.size(); ++i) {
      values[node->results[i].get()] = ReferenceTensor::FromData(results[i].ToData());
    }
  }
  std::vector<ReferenceTensor> outputs;
  for (const Value* output : graph.outputs) outputs.push_back(values.at(output));
  return outputs;
}

void ExpectAnswers(CompiledGraphs& compiled, ArrayRef<const Graph*> graphs,
                   ArrayRef<std::vector<ReferenceTensor>> inputs, double tolerance,
                   const std::string& what) {
  const auto found = compiled.Run(inputs);
  ASSERT_TRUE(found.has_value()) << what << ": " << found.error().message;
  for (size_t i = 0; i < graphs.size(); ++i) {
    const auto expected = Interpret(*graphs[i], inputs[i]);
    ASSERT_TRUE(expected.has_value()) << what << ": " << expected.error().message;
    EXPECT_EQ(FirstDifference(*expected, (*found)[i], tolerance), "") << what << " graph " << i;
  }
}

std::string FirstWrong(ArrayRef<ReferenceTensor> expected,
                       ArrayRef<ReferenceTensor> rounded,
                       ArrayRef<ReferenceTensor> found, double relative) {
  for (size_t i = 0; i < expected.size(); ++i) {
    const ReferenceTensor& want = expected[i];
    const ReferenceTensor& have = found[i];
    if (want.dtype != have.dtype || want.dims != have.dims) {
      return fmt::format("result {} is {}{}, expected {}{}", i, DtypeName(have.dtype), have.dims,
                         DtypeName(want.dtype), want.dims);
    }
    const double move = LargestMove(want, rounded[i]);
    const double tolerance = relative * std::max(1.0, LargestMagnitude(want)) + 8 * move;
    for (int64_t j = 0; j < want.element_count(); ++j) {
      bool same = false;
      if (!IsFloat(want.dtype)) {
        same = want.ints[j] == have.ints[j];
      } else {
        const double a = want.reals[j], b = have.reals[j];
        same = std::isinf(move) || (std::isnan(a) && std::isnan(b)) || a == b ||
               std::abs(a - b) <= tolerance;
      }
      if (same) continue;
      if (!IsFloat(want.dtype)) {
        return fmt::format("result {} at {} is {}, expected {}", i, j, have.ints[j], want.ints[j]);
      }
      return fmt::format("result {} at {} is {}, expected {} within {}", i, j, have.reals[j],
                         want.reals[j], tolerance);
    }
  }
  return "";
}

void ExpectRightAnswers(const Graph& graph, RunOn where, const std::string& precision,
                        uint64_t seed, ArrayRef<int64_t> batches, double relative) {
  const auto compiled = CompiledGraphs::Make({&graph}, where, {}, precision);
  ASSERT_TRUE(compiled.has_value()) << compiled.error().message;
  for (const int64_t batch : batches) {
    const auto inputs = RandomInputs(graph, seed, {{"batch", batch}});
    const auto expected = Interpret(graph, inputs), rounded = InterpretRounded(graph, inputs);
    const auto found = (*compiled)->Run({inputs});
    ASSERT_TRUE(expected.has_value() && rounded.has_value());
    ASSERT_TRUE(found.has_value()) << found.error().message;
    EXPECT_EQ(FirstWrong(*expected, *rounded, (*found)[0], relative), "") << "batch " << batch;
  }
}

}  // namespace fusec
