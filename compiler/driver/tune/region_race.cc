#include "compiler/driver/tune/region_race.h"

#include <algorithm>
#include <numeric>

#include "compiler/reference/compare.h"
#include "compiler/region/index_limits.h"
#include "compiler/support/adt.h"
#include "compiler/support/interrupt.h"
#include "compiler/support/terminal.h"
#include "compiler/support/watchdog.h"
#include "runtime/src/bench.h"

namespace fusec {

namespace {

constexpr const char* kWhich = "kernel";  // the symbol that selects the kernel, and its input
constexpr int kRepeats = 16;              // launches per graph for a kernel that takes little time
constexpr double kLittleMicroseconds = 40;
constexpr size_t kSets = 3;  // sets of inputs in turn, so that none is in a cache already
// Kernels within this factor of the best time are timed again.
constexpr double kClose = 1.15;
// Kernels slower than the best by more than this factor are not timed exactly.
constexpr double kHopeless = 3;
// All runs of one kernel take milliseconds on a GPU; a kernel that takes this long hangs.
constexpr double kHangsAfterSeconds = 60;

// The size of the symbol kWhich that runs kernel number `kernel` once, or kRepeats times.
int64_t Which(size_t kernel, bool repeated) {
  return 2 * static_cast<int64_t>(kernel) + (repeated ? 2 : 1);
}

// The graph with the region replaced by its ops.
std::unique_ptr<Graph> Unfused(const Graph& graph) {
  std::unique_ptr<Graph> unfused = graph.Clone();
  const std::unique_ptr<Node> region = std::move(unfused->nodes.back());
  unfused->nodes.pop_back();
  for (size_t i = 0; i < region->operands.size(); ++i) {
    if (region->operands[i] != nullptr)
      region->body->ReplaceAllUses(region->body->inputs[i].get(), region->operands[i]);
  }
  for (auto& node : region->body->nodes) unfused->nodes.push_back(std::move(node));
  unfused->outputs = region->body->outputs;
  return unfused;
}

// The fastest kernel, if it is ahead of the planned one (number 0) by kAhead; else the planned one.
size_t WinnerOf(ArrayRef<MeasuredKernel> kernels) {
  size_t winner = 0;
  for (size_t i = 1; i < kernels.size(); ++i) {
    if (kernels[i].problem.empty() && kernels[i].microseconds < kernels[winner].microseconds)
      winner = i;
  }
  return kernels[winner].microseconds > kAhead * kernels[0].microseconds ? 0 : winner;
}

}  // namespace

Result<RegionRace> RegionRace::Make(const Graph& fused, size_t number, const Target& target,
                                    ArrayRef<DimValues> sizes) {
  RegionRace race;
  race.target_ = target;
  FUSEC_ASSIGN(race.region_, Canonicalize(fused, number));
  race.AddInputs();
  race.options_ = std::make_unique<PlanOptions>(
      PlanFor(target.name, target.matmul_precision, target.batch_invariant));
  race.ways_ =
      std::make_unique<RegionKernels>(race.region_.region(), "kernel", std::vector<std::string>(),
                                      *race.options_, *race.region_.graph);
  FUSEC_TRY(race.AddKernels(sizes));
  return race;
}

// Adds one input for every symbol, including the one that selects the kernel.
void RegionRace::AddInputs() {
  Graph& graph = *region_.graph;
  own_inputs_ = graph.inputs.size();
  graph.symbols.push_back({kWhich, 1, 1 << 20});
  for (const DimSymbol& symbol : graph.symbols) {
    const std::string name = "size_" + symbol.name;
    graph.AddInput(name, {Dtype::kBool, {Expr::Symbol(symbol.name)}});
    graph.input_names.push_back(name);
  }
}

// Adds a kernel and returns its number, or the number of an earlier kernel that is the same.
size_t RegionRace::AddKernel(const KernelChoice& choice) {
  Step step = std::move(ways_->Plan({Variant{choice, ""}}, sites_).front());
  std::string text = "library " + configurations_[step.matmul.algorithm];
  if (!step.is_matmul) {
    text = EmitKernelFile(step.kernel, {}) + step.kernel.blocks.ToString() + " blocks of " +
           std::to_string(step.kernel.block_size);
  }
  const auto known = std::find(texts_.begin(), texts_.end(), text);
  if (known != texts_.end()) return static_cast<size_t>(known - texts_.begin());
  (step.is_matmul ? step.matmul.name : step.kernel.name) += "_" + std::to_string(kernels_.size());
  kernels_.push_back({choice, std::move(step)});
  texts_.push_back(std::move(text));
  return kernels_.size() - 1;
}

// The library's other algorithms for the product. Its first proposal is left out, because it is the
// one that the library takes by default.
Result<std::vector<KernelChoice>> RegionRace::LibraryChoices(const DimValues& dims) {
  std::vector<KernelChoice> choices;
  if (!target_.algorithms || ways_->library_product() == nullptr) return choices;
  FUSEC_ASSIGN(const auto proposals, target_.algorithms(*ways_->library_product(), dims));
  for (size_t i = 1; i < proposals.size(); ++i) {
    choices.emplace_back().product =
        schedule::Library{proposals[i].algorithm, static_cast<int>(i) + 1};
    configurations_[proposals[i].algorithm] = proposals[i].configuration;
  }
  return choices;
}

Result<void> RegionRace::AddKernels(ArrayRef<DimValues> sizes) {
  for (const DimValues& dims : sizes) {
    FUSEC_ASSIGN(const int64_t size, ways_->size().Evaluate(dims));
    std::vector<size_t>& numbers = by_size_[size];
    std::vector<KernelChoice> choices = ways_->Candidates(size);
    FUSEC_ASSIGN(const auto algorithms, LibraryChoices(dims));
    choices.insert(choices.end(), algorithms.begin(), algorithms.end());
    for (const KernelChoice& choice : choices) {
      const size_t number = AddKernel(choice);
      if (std::find(numbers.begin(), numbers.end(), number) == numbers.end())
        numbers.push_back(number);
    }
  }
  if (!target_.batch_invariant) return {};
  for (auto& [size, numbers] : by_size_) {
    numbers.resize(kernels_.size());
    std::iota(numbers.begin(), numbers.end(), 0);  // number 0 is the planned kernel
  }
  return {};
}

Result<int64_t> RegionRace::SizeAt(const DimValues& dims) const {
  return ways_->size().Evaluate(dims);
}

Result<std::string> RegionRace::KeyAt(const DimValues& dims) const {
  FUSEC_ASSIGN(const int64_t size, SizeAt(dims));
  // 3 is the version of the measurements' format; older ones describe kernels in another way.
  std::string key = "fusec times 3\n" + target_.identity + "\n" + target_.name + " " +
                    target_.matmul_precision + (target_.batch_invariant ? " batch-invariant" : "") +
                    "\n" + DimsText(dims) + "\n" + region_.key;
  for (const size_t number : by_size_.at(size)) key += "\n" + texts_[number];
  return key;
}

ProgramPlan RegionRace::Program() const {
  ProgramPlan program;
  program.target = options_->target;
  const int copies = program.target == TargetKind::kGpu ? kRepeats : 1;
  for (size_t i = 0; i < kernels_.size(); ++i) {
    for (int copy = 0; copy < copies; ++copy) {
      program.steps.push_back(kernels_[i].step);
      program.steps.back().alternative = {Expr::Symbol(kWhich), Which(i, copy > 0), Which(i, true),
                                          copy == 0};
    }
  }
  return program;
}

Result<void> RegionRace::Compile(const std::string& folder) {
  folder_ = folder + "/kernels";
  const std::unique_ptr<Graph> unfused = Unfused(*region_.graph);
  ArtifactContents contents;
  contents.sites = sites_;
  contents.index_limits = FindIndexLimits(*unfused);
  contents.ascending_inputs = AscendingInputs(*unfused);
  contents.matmul_precision = target_.matmul_precision;
  contents.batch_invariant = target_.batch_invariant;
  contents.targets.push_back({target_.name, region_.graph, Program(), {}});
  BuildOptions options{target_.matmul_precision, target_.batch_invariant, target_.cpu_levels};
  FUSEC_TRY(BuildKernels({}, options, contents));
  return WriteArtifact(folder_, contents);
}

Result<void> RegionRace::MakeInputs(const DimValues& dims) {
  if (!program_) {
    FUSEC_ASSIGN(program_, LoadProgram(folder_, target_.device));
    for (size_t i = 0; i < kSets; ++i) {
      FUSEC_RUNTIME_ASSIGN(auto context, runtime::Context::Create(*program_));
      contexts_.push_back(std::move(context));
    }
  }
  DimValues all = dims;
  all[kWhich] = Which(kernels_.size(), true);
  sets_.clear();
  for (size_t i = 0; i < kSets; ++i) {
    FUSEC_ASSIGN(auto inputs, RandomInputs(program_->manifest(), all, {.seed = i}));
    sets_.push_back(std::move(inputs));
  }
  for (size_t i = 0; i < kSets; ++i) FUSEC_TRY(BindInputs(*contexts_[i], sets_[i]));
  return {};
}

// One run of a kernel in the first context, on the inputs of a set.
Result<void> RegionRace::RunOn(size_t set, size_t kernel) {
  const int64_t which[] = {Which(kernel, false)};
  const int input = static_cast<int>(sets_[set].size()) - 1;
  FUSEC_TRY(BindInputs(*contexts_[0], sets_[set]));
  FUSEC_RUNTIME_TRY(contexts_[0]->BindInput(input, sets_[set][input].bytes(), which, false));
  FUSEC_RUNTIME_TRY(contexts_[0]->Run());
  return {};
}

// The answers of a kernel. The planned kernel runs on other inputs before, so that elements that
// the kernel leaves unwritten are wrong.
Result<std::vector<TensorData>> RegionRace::Answers(size_t kernel, size_t planned) {
  FUSEC_TRY(RunOn(1, planned));
  FUSEC_TRY(RunOn(0, kernel));
  return CopyOutputs(*contexts_[0]);
}

std::string RegionRace::Problem(ArrayRef<TensorData> found, ArrayRef<TensorData> expected) const {
  const Graph& body = *region_.region().body;
  for (size_t i = 0; i < found.size(); ++i) {
    Tolerance tolerance = ToleranceOf(CoarsestDtype(body.outputs[i]), target_.matmul_precision);
    tolerance.relative_l2 *= 2;  // each of the two kernels may be off by the tolerance
    // A number halfway between two codes may be rounded either way, depending on the order of sums.
    constexpr double kFewCodes = 1e-3;
    const Node* producer = body.outputs[i]->producer;
    if (producer != nullptr && producer->kind == OpKind::kToE4M3) tolerance.relative_l2 = kFewCodes;
    const Comparison compared = Compare("result " + std::to_string(i), found[i],
                                        ReferenceTensor::FromData(expected[i]), tolerance);
    if (!compared.pass) {
      return "its answers differ from the planned kernel's: " + compared.name + " by " +
             FormatNumber(compared.rel_l2) + ", at most " + FormatNumber(tolerance.relative_l2) +
             " expected";
    }
  }
  return "";
}

Result<std::vector<double>> RegionRace::Samples(size_t kernel, bool repeated, int count,
                                                int replays) {
  std::vector<runtime::Context*> contexts;
  for (size_t i = 0; i < kSets; ++i) {
    const int64_t which[] = {Which(kernel, repeated)};
    const int input = static_cast<int>(sets_[i].size()) - 1;
    FUSEC_TRY(BindInputs(*contexts_[i], sets_[i]));
    FUSEC_RUNTIME_TRY(contexts_[i]->BindInput(input, sets_[i][input].bytes(), which, false));
    contexts.push_back(contexts_[i].get());
  }
  FUSEC_RUNTIME_ASSIGN(auto samples, runtime::MeasureRotating(contexts, count, replays));
  if (repeated) {
    for (double& sample : samples) sample /= kRepeats;
  }
  return samples;
}

Result<double> RegionRace::Time(size_t kernel, double best) {
  constexpr double kSampleMicroseconds = 1500;
  constexpr int kSamples = 5;
  const auto least = [](ArrayRef<double> samples) {
    return std::max(1e-3, *std::min_element(samples.begin(), samples.end()));
  };
  FUSEC_ASSIGN(const auto first, Samples(kernel, false, 2, static_cast<int>(kSets)));
  double one = least(first);
  if (best > 0 && one > kHopeless * std::max(best, kLittleMicroseconds)) return one;
  const bool repeated = options_->target == TargetKind::kGpu && one < kLittleMicroseconds;
  // If the kernel is repeated, most of `one` may be the overhead of launching a graph.
  const double launch = repeated ? one * kRepeats / 4 : one;
  const int replays = static_cast<int>(std::clamp(kSampleMicroseconds / launch, 1.0, 300.0));
  FUSEC_ASSIGN(const auto samples, Samples(kernel, repeated, kSamples, replays));
  return least(samples);
}

Result<std::optional<MeasuredSize>> RegionRace::Measure(const DimValues& dims,
                                                        function_ref<bool()> is_over) {
  MeasuredSize measured;
  measured.dims = dims;
  FUSEC_ASSIGN(measured.size, SizeAt(dims));
  const std::vector<size_t>& numbers = by_size_.at(measured.size);
  const size_t planned = numbers.front();
  const Step& step = kernels_[planned].step;
  const bool library = step.is_matmul;
  FUSEC_ASSIGN(const int64_t read,
               (library ? step.matmul.bytes_read : step.kernel.bytes_read).Evaluate(dims));
  FUSEC_ASSIGN(const int64_t written,
               (library ? step.matmul.bytes_written : step.kernel.bytes_written).Evaluate(dims));
  FUSEC_ASSIGN(measured.flops, (library ? step.matmul.flops : step.kernel.flops).Evaluate(dims));
  measured.bytes = read + written;
  FUSEC_TRY(MakeInputs(dims));
  FUSEC_ASSIGN(const auto expected, Answers(planned, planned));
  double best = 0;
  for (const size_t number : numbers) {
    if (is_over()) return std::nullopt;
    MeasuredKernel& kernel = measured.kernels.emplace_back();
    kernel.choice = kernels_[number].choice;
    // An error of another kernel than the planned one is recorded as its problem.
    const auto judge = [&]() -> Result<void> {
      std::optional<Watchdog> watchdog;
      if (options_->target == TargetKind::kGpu) {
        watchdog.emplace(kHangsAfterSeconds,
                         "a kernel hangs, which is a bug in fusec: " + kernel.choice.Words() +
                             ", at " + DimsText(dims) + "; please report it with the model");
      }
      if (number != planned) {
        FUSEC_ASSIGN(const auto found, Answers(number, planned));
        kernel.problem = Problem(found, expected);
        if (!kernel.problem.empty()) return {};
      }
      FUSEC_ASSIGN(kernel.microseconds, Time(number, best));
      return {};
    };
    const auto judged = judge();
    if (!judged && number == planned) return tl::unexpected<Error>(judged.error());
    if (!judged) kernel.problem = judged.error().message;
    if (Interrupted()) return Fail(ErrorKind::kUsage, "interrupted");
    if (kernel.problem.empty() && (best == 0 || kernel.microseconds < best))
      best = kernel.microseconds;
  }
  FUSEC_TRY(TimeAgain(numbers, best, is_over, measured));
  if (is_over()) return std::nullopt;
  measured.winner = WinnerOf(measured.kernels);
  return measured;
}

// Times the fastest kernels and the planned one again, and keeps the better times.
Result<void> RegionRace::TimeAgain(ArrayRef<size_t> numbers, double best,
                                   function_ref<bool()> is_over, MeasuredSize& measured) {
  std::vector<MeasuredKernel>& kernels = measured.kernels;
  for (size_t i = 0; kernels.size() > 1 && i < kernels.size(); ++i) {
    const bool close = kernels[i].problem.empty() && kernels[i].microseconds < best * kClose;
    if (i > 0 && !close) continue;
    if (is_over()) return {};
    FUSEC_ASSIGN(const double again, Time(numbers[i], best));
    kernels[i].microseconds = std::min(kernels[i].microseconds, again);
  }
  return {};
}

}  // namespace fusec
