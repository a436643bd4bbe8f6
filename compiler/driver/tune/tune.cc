#include "compiler/driver/tune/tune.h"

#include <algorithm>
#include <atomic>
#include <cctype>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <future>
#include <set>
#include <thread>

#include "compiler/driver/artifact/artifact_ir.h"
#include "compiler/driver/artifact/artifact_session.h"
#include "compiler/driver/artifact/manifest_json.h"
#include "compiler/driver/tune/artifact_source.h"
#include "compiler/driver/tune/region_race.h"
#include "compiler/package/output_path.h"
#include "compiler/plan/kernel_name.h"
#include "compiler/support/adt.h"
#include "compiler/support/child_process.h"
#include "compiler/support/interrupt.h"
#include "fusec/fusec.h"
#include "runtime/src/cuda/cublaslt_proposals.h"
#include "runtime/src/cuda/cuda_pieces.h"
#include "runtime/src/cuda/kernel_cache.h"

namespace fusec {

namespace {

using Clock = std::chrono::steady_clock;

// The processor's name as the system gives it; "" if it gives none.
std::string ProcessorName() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("model name")) return line.substr(line.find(':') + 1);
  }
  return "";
}

// The version of NVIDIA's kernel module, such as "580.159"; "" if there is none.
std::string DriverVersion() {
  std::ifstream file("/proc/driver/nvidia/version");
  for (std::string word; file >> word;) {
    if (std::isdigit(static_cast<unsigned char>(word[0])) && word.find('.') != std::string::npos)
      return word;
  }
  return "";
}

// Everything on which times depend besides the kernels: the version of fusec, the device, and its
// software.
std::string Identity(const runtime::Program& program) {
  std::string identity = std::string("fusec ") + fusec_version() + ", ";
  if (!program.device().has_device_memory()) {
    return identity + "cpu," + ProcessorName() + ", " +
           std::to_string(std::thread::hardware_concurrency()) + " threads";
  }
  identity += program.device().name() + ", driver " + DriverVersion();
  for (const auto& [piece, what] : runtime::CudaPieces()) {
    if (piece != "GPU") identity += ", " + piece + " " + what;
  }
  return identity;
}

// The sizes for the dims without a flag: kTunedSizes for a single dim, and their n-th roots for n
// dims.
std::vector<int64_t> TunedSizes(ArrayRef<DimRange> symbols, ArrayRef<std::string> flags) {
  const auto dims = std::count_if(symbols.begin(), symbols.end(), [&](const DimRange& symbol) {
    return std::none_of(flags.begin(), flags.end(), [&](const std::string& flag) {
      return flag.starts_with(symbol.name + "=");
    });
  });
  std::vector<int64_t> sizes;
  for (const int64_t size : kTunedSizes)
    sizes.push_back(dims < 2 ? size
                             : std::llround(std::pow(size, 1.0 / static_cast<double>(dims))));
  return sizes;
}

// A region, the sizes at which its kernels are compared, and the race for sizes without known
// times.
struct Entrant {
  size_t number = 0;
  std::vector<DimValues> sizes;   // in the model's dims
  std::vector<std::string> keys;  // cache keys of the sizes
  // The sizes that are still to be measured: their cache key, and the region's own dims.
  std::vector<std::pair<std::string, DimValues>> left;
  std::unique_ptr<RegionRace> race;
  std::unique_ptr<TemporaryFolder> folder;
  std::promise<Result<void>> compiling;
  std::future<Result<void>> compiled = compiling.get_future();
};

// Compiles the kernels of races in their order, several races at a time. The destructor waits for
// compilations that are under way.
class CompilesAhead {
 public:
  explicit CompilesAhead(ArrayRef<Entrant*> entrants) : entrants_(entrants) {
    const size_t count = std::clamp<size_t>(std::thread::hardware_concurrency(), 1, 16);
    for (size_t i = 0; i < std::min(count, entrants_.size()); ++i)
      threads_.emplace_back([this](const std::stop_token& stop) { Work(stop); });
  }

 private:
  void Work(const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      const size_t number = next_.fetch_add(1);
      if (number >= entrants_.size()) return;
      Entrant& entrant = *entrants_[number];
      entrant.compiling.set_value(entrant.race->Compile(entrant.folder->path()));
    }
  }

  const std::vector<Entrant*> entrants_;
  std::atomic<size_t> next_ = 0;
  std::vector<std::jthread> threads_;
};

class Tuner {
 public:
  explicit Tuner(const TuneOptions& options) : options_(options) {}

  Result<TuneReport> Run() {
    FUSEC_TRY(CheckArtifact(options_.artifact));
    FUSEC_TRY(CheckNotSharded(options_.artifact, "tune"));
    FUSEC_TRY(CheckOutputPath(options_.artifact));
    FUSEC_ASSIGN(source_, ReadArtifactSource(options_.artifact));
    {
      FUSEC_ASSIGN(const auto program, LoadProgram(options_.artifact, options_.device));
      FUSEC_TRY(ChooseTarget(*program));
      const auto ranges = DimRanges(program->manifest());
      FUSEC_ASSIGN(cases_, DimCases(options_.dims, ranges, TunedSizes(ranges, options_.dims)));
    }
    FUSEC_TRY(Enter());
    FUSEC_TRY(Race());
    return Finish();
  }

 private:
  void Say(const std::string& stage, double fraction) const {
    if (options_.progress) options_.progress(stage, fraction);
  }
  double Seconds() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }
  bool IsOver() const { return Seconds() > options_.time_limit_s; }

  Result<void> ChooseTarget(const runtime::Program& program) {
    for (const auto& [name, target] : program.manifest().targets) {
      for (const runtime::Step& step : target.steps) {
        if (step.edited.empty()) continue;
        return Fail(ErrorKind::kUsage, options_.artifact + " has edited kernels (" + step.name +
                                           "), which tuning would replace; fusec rebuild " +
                                           options_.artifact +
                                           " --restore puts the originals back");
      }
    }
    target_.name = report_.target = program.device().target().name;
    target_.matmul_precision = source_.contents.matmul_precision;
    target_.batch_invariant = source_.contents.batch_invariant;
    target_.device = options_.device;
    target_.cpu_levels = {"native"};
    target_.identity = report_.tuning.device = Identity(program);
    if (KindOf(target_.name) == TargetKind::kGpu && !target_.batch_invariant) AskCublasLt();
    for (TargetSource& target : source_.targets) {
      if (target.name == target_.name) chosen_ = &target;
    }
    if (chosen_ != nullptr) return {};
    return Fail(ErrorKind::kArtifact, options_.artifact + ": no graph of target " + target_.name);
  }

  // Lets races include the algorithms of cuBLASLt. Without the library, a warning says so.
  void AskCublasLt() {
    constexpr size_t kPrefix = 5;  // length of "cuda:"
    const std::string& device = options_.device;
    auto proposals = runtime::CublasLtProposals::Create(
        device.size() > kPrefix ? std::atoi(device.c_str() + kPrefix) : 0);
    if (!proposals) {
      report_.warnings.push_back("algorithms of cuBLASLt are not measured: " +
                                 proposals.error().message);
      return;
    }
    target_.algorithms = [precision = target_.matmul_precision,
                          library = std::shared_ptr(*std::move(proposals))](
                             const MatMulPlan& product, const DimValues& dims) {
      return Proposals(*library, product, dims, precision);
    };
  }

  static Result<std::vector<runtime::CublasLtProposals::Proposal>> Proposals(
      const runtime::CublasLtProposals& library, const MatMulPlan& product, const DimValues& dims,
      const std::string& precision) {
    runtime::Matmul matmul;
    matmul.dtype = static_cast<fusec_dtype>(product.dtype);
    matmul.transpose_a = product.a.transposed;
    matmul.transpose_b = product.b.transposed;
    matmul.bias = product.bias != nullptr ? 0 : -1;
    matmul.addend = product.addend != nullptr ? 0 : -1;
    if (product.activation == "relu") matmul.activation = runtime::Activation::kRelu;
    if (product.activation == "gelu_tanh") matmul.activation = runtime::Activation::kGeluTanh;
    runtime::MatmulSizes sizes;
    FUSEC_ASSIGN(sizes.m, product.m.Evaluate(dims));
    FUSEC_ASSIGN(sizes.n, product.n.Evaluate(dims));
    FUSEC_ASSIGN(sizes.k, product.k.Evaluate(dims));
    FUSEC_ASSIGN(sizes.batch, product.batch.Evaluate(dims));
    FUSEC_RUNTIME_ASSIGN(auto proposals, library.For(matmul, sizes, precision));
    return proposals;
  }

  // Creates an entrant for every region, and finds the sizes whose times are not in the cache.
  Result<void> Enter() {
    const Graph& graph = *chosen_->graph;
    const size_t regions = RegionsOf(graph).size();
    for (size_t i = 0; i < regions; ++i) {
      Entrant& entrant = *entrants_.emplace_back(std::make_unique<Entrant>());
      entrant.number = i;
      FUSEC_ASSIGN(const CanonicalRegion canonical, Canonicalize(graph, i));
      std::vector<DimValues> own;
      for (const DimValues& dims : cases_) {
        DimValues here, there;
        for (const auto& [name, renamed] : canonical.symbols)
          there[name] = here[renamed] = dims.at(name);
        if (std::find(own.begin(), own.end(), here) != own.end()) continue;
        own.push_back(std::move(here));
        entrant.sizes.push_back(std::move(there));
      }
      FUSEC_ASSIGN(RegionRace race, RegionRace::Make(graph, i, target_, own));
      entrant.race = std::make_unique<RegionRace>(std::move(race));
      for (const DimValues& dims : own) {
        FUSEC_ASSIGN(const std::string key, entrant.race->KeyAt(dims));
        entrant.keys.push_back(key);
        const bool is_first = asked_.insert(key).second;  // equal regions are measured once
        if (is_first && !IsRemembered(key)) entrant.left.emplace_back(key, dims);
      }
      if (entrant.left.empty()) continue;
      FUSEC_ASSIGN(const std::string folder, MakeTemporaryFolder());
      entrant.folder = std::make_unique<TemporaryFolder>(folder);
      waiting_.push_back(&entrant);
      if (Interrupted()) return Fail(ErrorKind::kUsage, "interrupted");
    }
    return {};
  }

  bool IsRemembered(const std::string& key) {
    const auto text = cache_.Find(key);
    auto measured = text ? ParseMeasured(*text) : std::nullopt;
    if (!measured) return false;
    ++report_.remembered;
    known_.emplace(key, *std::move(measured));
    return true;
  }

  // Waits until a race is compiled. Returns false if the time is over before that.
  Result<bool> AwaitCompiled(const Entrant& entrant) const {
    while (true) {
      const auto status = entrant.compiled.wait_for(std::chrono::milliseconds(20));
      if (Interrupted()) return Fail(ErrorKind::kUsage, "interrupted");
      if (status == std::future_status::ready) return true;
      if (IsOver()) return false;
    }
  }

  Result<void> Race() {
    const CompilesAhead compiles(waiting_);
    if (KindOf(target_.name) == TargetKind::kCpu) {
      // Compiling in the background would disturb the times of kernels on the CPU, unlike those on
      // a GPU, so all kernels are compiled first.
      Say("compiling kernels", 0);
      for (const Entrant* entrant : waiting_) FUSEC_TRY(AwaitCompiled(*entrant));
    }
    for (size_t i = 0; i < waiting_.size(); ++i) {
      Entrant& entrant = *waiting_[i];
      const std::string name = NameOf(entrant.number);
      Say("measuring " + name + " (" + std::to_string(i + 1) + " of " +
              std::to_string(waiting_.size()) + ")",
          static_cast<double>(i) / static_cast<double>(waiting_.size()));
      FUSEC_ASSIGN(const bool ready, AwaitCompiled(entrant));
      if (!ready) {
        report_.left_out += static_cast<int>(entrant.left.size());
        continue;
      }
      const auto measured = MeasureAll(entrant, entrant.compiled.get());
      if (Interrupted()) return Fail(ErrorKind::kUsage, "interrupted");
      if (!measured) {
        report_.warnings.push_back(name + " stays as planned: " + measured.error().message);
      }
      entrant.race.reset();
      entrant.folder.reset();
    }
    return {};
  }

  Result<void> MeasureAll(const Entrant& entrant, const Result<void>& compiled) {
    FUSEC_TRY(compiled);
    for (const auto& [key, dims] : entrant.left) {
      std::optional<MeasuredSize> measured;
      if (!IsOver()) {
        FUSEC_ASSIGN(measured, entrant.race->Measure(dims, [this] { return IsOver(); }));
      }
      if (!measured) {
        ++report_.left_out;
        continue;
      }
      ++report_.measured;
      cache_.Keep(key, MeasuredText(*measured));
      known_.emplace(key, *std::move(measured));
    }
    return {};
  }

  std::string NameOf(size_t number) const {
    return RegionName(*RegionsOf(*chosen_->graph)[number], number);
  }

  Result<TuneReport> Finish() {
    const auto regions = RegionsOf(*chosen_->graph);
    for (const auto& entrant : entrants_) {
      MeasuredRegion region{entrant->number,
                            NameOf(entrant->number),
                            RegionClassOf(*regions[entrant->number]),
                            true,
                            {}};
      for (size_t i = 0; i < entrant->sizes.size(); ++i) {
        const auto known = known_.find(entrant->keys[i]);
        region.complete &= known != known_.end();
        if (known == known_.end()) continue;
        region.sizes.push_back(known->second);
        region.sizes.back().dims = entrant->sizes[i];
      }
      if (target_.batch_invariant && region.complete) TakeOneWinner(region);
      report_.changed += region.complete && std::any_of(region.sizes.begin(), region.sizes.end(),
                                                        [](const auto& s) { return s.winner > 0; });
      for (const MeasuredSize& size : region.sizes) {
        for (const MeasuredKernel& kernel : size.kernels) {
          if (!kernel.problem.empty())
            report_.warnings.push_back(region.kernel + " at " + DimsText(size.dims) + ": " +
                                       kernel.choice.Words() + ": " + kernel.problem);
        }
      }
      report_.tuning.regions.push_back(std::move(region));
    }
    Say("building the artifact again", 1);
    chosen_->tuning = report_.tuning.Winners();
    source_.tuning[target_.name] = report_.tuning;
    FUSEC_TRY(WriteAgain(std::move(source_), options_.artifact));
    report_.seconds = Seconds();
    return std::move(report_);
  }

  const TuneOptions& options_;
  const Clock::time_point start_ = Clock::now();
  ArtifactSource source_;
  TargetSource* chosen_ = nullptr;
  RegionRace::Target target_;
  std::vector<DimValues> cases_;
  const runtime::KernelCache cache_ = runtime::KernelCache::Default();
  std::vector<std::unique_ptr<Entrant>> entrants_;
  std::vector<Entrant*> waiting_;  // entrants with sizes to measure
  std::set<std::string> asked_;
  std::map<std::string, MeasuredSize> known_;
  TuneReport report_;
};

}  // namespace

Result<TuneReport> TuneArtifact(const TuneOptions& options) { return Tuner(options).Run(); }

}  // namespace fusec
