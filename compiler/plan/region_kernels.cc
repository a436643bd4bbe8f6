#include "compiler/plan/region_kernels.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "compiler/ir/op_def.h"
#include "compiler/ir/recurrence.h"
#include "compiler/kernel/fold.h"
#include "compiler/plan/attention_tiling.h"
#include "compiler/plan/loop_segments.h"
#include "compiler/plan/matmul/choose_schedules.h"
#include "compiler/plan/matmul/plan_schedule.h"
#include "compiler/plan/plan_region.h"
#include "compiler/plan/recurrence_writer.h"
#include "compiler/region/slot_product.h"
#include "compiler/support/check.h"

namespace fusec {

namespace {

// Six blocks of a block program fit on a multiprocessor
// (tests/gpu/results/2026-11-23-h200-waves.txt, part 4). If there are more rows than blocks that
// run at once, a block computes several rows.
constexpr int64_t kBlocksTogether = 6;
constexpr int64_t kBlocksOfCpu = 792;
constexpr int64_t kRowsOfMany = 4;
// From this many sequences on, blocks compute several sequences on a CPU, whose number of cores is
// unknown.
constexpr int64_t kSequencesOfCpu = 16;
// Rows of at least kLongRow elements are reduced by one small block each if there are few rows;
// from kManyLongRows rows on, they are reduced as by default, up to 1024 elements by one warp each.
constexpr int64_t kLongRow = 512;
constexpr int64_t kLongerRow = 4096, kLongestRow = 16384;  // by a larger block
constexpr int64_t kManyLongRows = 1024;
constexpr int kLongRowBlockSize = 128;
// The batch size (or the product of all symbols of a size) for which a batch-invariant kernel is
// planned: between a single request and the large batches of ranking.
constexpr double kUsualBatch = 256;
// Queries of attention per multiprocessor up to which warps share keys, because blocks of 64
// queries would leave most multiprocessors without work (2026-11-29-h200-few-queries.txt).
// Warpgroups multiply faster than warps.
constexpr int64_t kSplitQueriesTogether = 16, kSplitQueriesOfWarpgroups = 4;
// Blocks of a product with adapter slots per multiprocessor.
constexpr int64_t kSlotBlocksTogether = 2;
using Team = LaunchShape::Team;

// Sets in each kernel the list of all variants and their sizes. Names are shortened to "*" and the
// suffix.
void NameVariants(ArrayRef<Variant> variants, std::vector<Step>& steps) {
  std::vector<KernelVariant> all;
  for (size_t i = 0; i < steps.size(); ++i) {
    const std::string& suffix = variants[i].suffix;
    const std::string name = suffix.empty() ? steps[i].kernel.name : "*" + suffix;
    all.push_back({steps[i].is_matmul ? "the library" : name, variants[i].from, variants[i].to});
  }
  for (size_t i = 0; i < steps.size(); ++i) {
    KernelPlan& kernel = steps[i].kernel;
    kernel.variants = all;
    kernel.variants[i].name = "this kernel";
    kernel.variant_size = steps[i].alternative->size;
  }
}

// The geometric mean of two sizes.
int64_t Halfway(int64_t small, int64_t large) {
  return static_cast<int64_t>(std::sqrt(static_cast<double>(small) * static_cast<double>(large)));
}

// The first reduction of the region, or null.
const Node* ReductionOf(const Node& region) {
  for (const auto& node : region.body->nodes) {
    if (GetOpDef(node->kind).op_class == OpClass::kReduction) return node.get();
  }
  return nullptr;
}

}  // namespace

RegionKernels::RegionKernels(const Node& region, std::string name, std::vector<std::string> ops,
                             const PlanOptions& options, const Graph& graph)
    : region_(region),
      name_(std::move(name)),
      ops_(std::move(ops)),
      options_(options),
      graph_(graph),
      class_(RegionClassOf(region)) {
  FUSEC_CHECK(options.target == TargetKind::kCpu || options.gpu != nullptr,
              "plans for a GPU need one of the table in support/gpu.h");
  size_ = region.result()->type.ElementCount();
  if (class_ == RegionClass::kBlockProgram) size_ = Product(region.Get<Exprs>("rows"));
  if (class_ == RegionClass::kRecurrence)
    size_ = SizesOfRecurrence(*region.body->nodes.back()).batch;
  if (const Node* reduction = class_ == RegionClass::kRowReduction ? ReductionOf(region) : nullptr)
    size_ = reduction->result()->type.ElementCount();
  if (class_ == RegionClass::kAttention) {  // queries of all heads
    const Shape& shape = AttentionOf(region).values->result()->type.shape;
    size_ = Product(Shape(shape.begin(), shape.end() - 1));
  }
  const bool is_loop = class_ == RegionClass::kPointwise || class_ == RegionClass::kGatherConcat;
  if (is_loop && options.target == TargetKind::kGpu && !options.batch_invariant)
    found_ = FoundSumOf(region);
  if (found_ && !(SegmentsOf(region).IsSingle() && IsAllThatNeedsItsSort(graph, region, *found_)))
    found_.reset();
  if (found_) size_ = found_->size;
  if (class_ == RegionClass::kSlotMatMul) {
    const Shape& shape = SlotProductOf(region).result()->type.shape;
    size_ = Product(Shape(shape.begin(), shape.end() - 1));
  }
  if (class_ != RegionClass::kMatMul) return;
  product_ = PlanLibraryMatMul(region, options.target);
  // cuBLASLt chooses tiles and split-K by the number of rows, so that a batch-invariant program
  // cannot use it. On a CPU, the runtime's own product replaces oneDNN in that case.
  library_ =
      product_.has_value() && !(options.batch_invariant && options.target == TargetKind::kGpu);
  if (!product_) product_ = PlanProduct(region);
  if (product_) size_ = product_->m;
}

std::vector<Variant> RegionKernels::Planned() const {
  if (options_.batch_invariant) return {OneForAllSizes(PlannedBySize())};
  return PlannedBySize();
}

// The variant for the usual size, or the next one that can compute the largest size.
Variant RegionKernels::OneForAllSizes(std::vector<Variant> by_size) const {
  const int64_t usual = UsualSize(), most = graph_.SymbolRanges().IntervalOf(size_).high;
  const auto serves = [&](const Variant& variant) {
    return usual <= variant.to && most <= variant.choice.MostRows();
  };
  const auto found = std::find_if(by_size.begin(), by_size.end(), serves);
  FUSEC_CHECK(found != by_size.end(), "no kernel makes all sizes of " + PrintNode(region_));
  return {found->choice, SuffixOf(found->choice.product)};
}

int64_t RegionKernels::UsualSize() const {
  std::vector<std::string> symbols;
  size_.CollectSymbols(symbols);
  const double root = 1 / std::max(1.0, static_cast<double>(symbols.size()));
  std::map<std::string, int64_t> usual;
  for (const std::string& symbol : symbols) {
    const auto range = graph_.SymbolRanges().IntervalOf(Expr::Symbol(symbol));
    usual[symbol] =
        std::clamp<int64_t>(std::llround(std::pow(kUsualBatch, root)), range.low, range.high);
  }
  return size_.Evaluate(usual).value_or(kUsualBatch);
}

std::vector<Variant> RegionKernels::PlannedBySize() const {
  if (class_ == RegionClass::kBlockProgram) return PlannedBlocks();
  if (class_ == RegionClass::kRecurrence) return PlannedSteps();
  if (class_ == RegionClass::kRowReduction && options_.target == TargetKind::kGpu)
    return PlannedRows();
  if (class_ == RegionClass::kSlotMatMul) return PlannedSlots();
  if (class_ == RegionClass::kAttention) return PlannedKeys();
  if (found_) return PlannedFinding();
  if (!product_) return {Variant()};
  MatMulRanges ranges(library_ ? 1 : 0);
  if (HasTensorCores(options_))
    ranges = ChooseMatMulSchedules(*product_, options_, graph_.SymbolRanges(), library_);
  else if (library_ && options_.target == TargetKind::kCpu)
    ranges = ChooseProductsOfCpu(*product_, graph_.SymbolRanges());
  if (ranges.empty()) {
    Variant plain;
    plain.choice.product = schedule::Plain();
    return {plain};
  }
  std::vector<Variant> variants;
  for (const MatMulRange& range : ranges)
    variants.push_back({{range.schedule, {}},
                        SuffixOf(range.schedule),
                        range.from.rows,
                        range.to,
                        range.from.by_waves});
  return variants;
}

// One row per block if there are few rows, so that the whole GPU has work; several rows per block
// if there are many, so that all threads of a block have work.
std::vector<Variant> RegionKernels::PlannedBlocks() const {
  Variant few, many;
  many.choice.shape.rows = kRowsOfMany;
  std::vector<Variant> variants =
      FewAndMany(few, many,
                 options_.target == TargetKind::kCpu ? FirstRows(kBlocksOfCpu + 1)
                                                     : BeyondWave(kBlocksTogether));
  std::vector<IndexSite> sites;
  const bool same = variants.size() > 1 &&
                    PlanOne(few, sites).kernel.blocks == PlanOne(many, sites).kernel.blocks;
  return same ? std::vector<Variant>{few} : variants;
}

// One row per block if the GPU has a multiprocessor for each row; else several rows per block,
// which share the loads of the recurrent weights.
std::vector<Variant> RegionKernels::PlannedSteps() const {
  Variant few, many;
  many.choice.shape.rows = kRowsOfMany;
  const Node& node = *region_.body->nodes.back();
  if (RecurrenceRows(node, options_.target, kRowsOfMany) == 1) return {few};
  return FewAndMany(
      few, many, options_.target == TargetKind::kCpu ? FirstRows(kSequencesOfCpu) : BeyondWave(1));
}

// Large tiles, in which rows of one slot share the loads of its matrix, if there are more small
// tiles than multiprocessors; else small tiles.
std::vector<Variant> RegionKernels::PlannedSlots() const {
  const Node& product = SlotProductOf(region_);
  const int64_t columns = product.result()->type.shape.back().AsConstant().value_or(1);
  const int64_t tiles = CeilDiv(columns, kMostColumnsOfSlots);
  Variant few, many;
  // If one tile covers all columns, many small blocks read the rows faster than few large ones.
  many.choice.shape.rows = tiles == 1 ? kManyRowsOfSlots / 2 : kManyRowsOfSlots;
  std::vector<Variant> variants = FewAndMany(few, many, BeyondWave(kFewRowsOfSlots, tiles));
  const int blocks = ClusterOfSlots(product, options_);
  if (blocks == 1) return variants;
  // As long as all blocks run at once, the blocks of a cluster split the depth. Few rows with many
  // slots read many matrices, and each block then reads only a part of each matrix.
  const int64_t tiles_at_once = kSlotBlocksTogether * options_.gpu->multiprocessors() / blocks;
  Variant& first = variants.front();
  Variant shared = first;
  shared.choice.shape.cluster_blocks = blocks;
  shared.suffix = shared.choice.Suffix();
  shared.to = std::min(first.to, kFewRowsOfSlots * tiles_at_once);
  if (shared.to == first.to) return {shared};
  first.from = shared.to + 1;
  first.by_waves = true;
  variants.insert(variants.begin(), shared);
  return variants;
}

// As long as tiles of queries are too few for the GPU, warps share the keys of a query, and with
// very few queries, the blocks of a cluster do, too.
std::vector<Variant> RegionKernels::PlannedKeys() const {
  const AttentionParts parts = AttentionOf(region_);
  const Ranges& ranges = graph_.SymbolRanges();
  const auto split = SplitOfKeys(parts, ranges, options_);
  if (!split) return {Variant()};
  const bool by_warpgroups = TileAttention(parts, ranges, options_, {}).memory.by_warpgroups;
  Variant few;
  few.choice.shape = {.key_warps = split->key_warps};
  std::vector<Variant> variants =
      FewAndMany(few, Variant(),
                 BeyondWave(by_warpgroups ? kSplitQueriesOfWarpgroups : kSplitQueriesTogether));
  if (split->cluster_blocks == 0) return variants;
  Variant fewest;
  fewest.choice.shape = *split;
  std::vector<Variant> clusters = FewAndMany(fewest, variants[0], BeyondWave(1));
  if (clusters.size() == 1) return clusters;
  clusters[1].suffix = "_without_cluster";
  clusters[1].to = variants[0].to;
  if (variants.size() > 1) clusters.push_back(variants[1]);
  return clusters;
}

// Few updates are found; for more of them, the regions before this one sort them.
std::vector<Variant> RegionKernels::PlannedFinding() const {
  Variant few;
  few.choice.shape.finds_updates = true;
  few.suffix = few.choice.Suffix();
  std::vector<Variant> variants = FewAndMany(few, Variant(), found_->finds_up_to + 1);
  if (variants.size() > 1) variants[1].suffix.clear();
  return variants;
}

// The fewest rows that do not fit in one wave, if a multiprocessor takes `rows` rows at once and
// each group of rows has `parts` blocks.
FirstRows RegionKernels::BeyondWave(int64_t rows, int64_t parts) const {
  return {rows * options_.gpu->multiprocessors() / parts + 1, true};
}

// The variants for few rows and, from `first` rows on, for many rows; only `few` if there are never
// that many.
std::vector<Variant> RegionKernels::FewAndMany(Variant few, Variant many, FirstRows first) const {
  if (graph_.SymbolRanges().IntervalOf(size_).high < first.rows) return {few};
  few.to = first.rows - 1;
  many.from = first.rows;
  many.by_waves = first.by_waves;
  many.suffix = "_many_rows";
  return {few, many};
}

std::vector<Variant> RegionKernels::PlannedRows() const {
  const Node* reduction = ReductionOf(region_);
  const auto length = reduction ? Product(ReducedDims(*reduction)).AsConstant() : std::nullopt;
  if (length.value_or(0) < kLongRow) return {Variant()};
  Variant few;
  const int threads = *length >= kLongestRow  ? 1024
                      : *length >= kLongerRow ? 512
                                              : kLongRowBlockSize;
  few.choice.shape = {.block_size = threads, .team = Team::kBlock};
  return FewAndMany(few, Variant(), kManyLongRows);
}

std::vector<Variant> RegionKernels::Tuned(ArrayRef<Winner> winners) const {
  const std::vector<Variant> planned = Planned();
  std::vector<Variant> variants;
  // Adds the planned variants for sizes from..to.
  const auto add_planned = [&](int64_t from, int64_t to) {
    for (Variant variant : planned) {
      if (variant.from < from) variant = {variant.choice, variant.suffix, from, variant.to};
      variant.to = std::min(variant.to, to);
      if (variant.from <= variant.to) variants.push_back(variant);
    }
  };
  int64_t from = 0;
  for (size_t i = 0; i < winners.size(); ++i) {
    const auto& choice = winners[i].choice;
    int64_t to = INT64_MAX;
    if (i + 1 < winners.size()) to = Halfway(winners[i].size, winners[i + 1].size);
    if (choice) to = std::min(to, choice->MostRows());
    if (choice)
      variants.push_back({*choice, choice->Suffix(), from, to});
    else
      add_planned(from, to);
    if (to == INT64_MAX) break;
    from = to + 1;
    if (i + 1 == winners.size()) add_planned(from, INT64_MAX);
  }
  if (winners.empty()) return planned;
  variants = WithoutIdle(std::move(variants));
  return options_.batch_invariant && variants.size() > 1 ? planned : variants;
}

// Merges consecutive variants with equal choices, and drops variants that no size of the graph
// needs.
std::vector<Variant> RegionKernels::WithoutIdle(std::vector<Variant> variants) const {
  const auto sizes = graph_.SymbolRanges().IntervalOf(size_);
  std::vector<Variant> needed;
  std::set<std::string> taken;
  for (Variant& variant : variants) {
    if (variant.to < sizes.low || variant.from > sizes.high) continue;
    if (!needed.empty() && needed.back().choice == variant.choice) {
      needed.back().to = variant.to;
      continue;
    }
    needed.push_back(std::move(variant));
    std::string& suffix = needed.back().suffix;
    while (!taken.insert(suffix).second) suffix += "_again";
  }
  needed.front().from = 0;
  needed.front().by_waves = false;
  needed.back().to = INT64_MAX;
  return needed;
}

std::vector<KernelChoice> RegionKernels::Candidates(int64_t size) const {
  std::vector<KernelChoice> candidates = CandidatesOf(size);
  if (!options_.batch_invariant) return candidates;
  const int64_t most = graph_.SymbolRanges().IntervalOf(size_).high;
  std::erase_if(candidates, [&](const KernelChoice& choice) { return choice.MostRows() < most; });
  return candidates;
}

std::vector<KernelChoice> RegionKernels::CandidatesOf(int64_t size) const {
  std::vector<KernelChoice> candidates;
  for (const Variant& variant : Planned()) {
    if (variant.from <= size && size <= variant.to) candidates.push_back(variant.choice);
  }
  const auto add = [&](KernelChoice choice, const LaunchShape& shape) {
    choice.shape = shape;
    candidates.push_back(choice);
  };
  // Random numbers are not the dequantized weights, which some of the kernels would read. What
  // finds updates saves the kernels that sort them.
  if ((product_ && product_->made_right) || found_) return candidates;
  const KernelChoice planned = candidates.front();
  if (options_.target == TargetKind::kCpu) {
    if (product_ && library_) return candidates;
    if (class_ == RegionClass::kRecurrence) {
      for (const int64_t rows : {1, 2, 4, 8}) add(planned, {.rows = rows});
      return candidates;
    }
    for (const int64_t chunk : {1024, 4096, 16384, 65536}) add(planned, {.chunk = chunk});
    return candidates;
  }
  if (product_) {
    for (const KernelChoice& choice : ProductCandidates(size)) candidates.push_back(choice);
    return candidates;
  }
  if (class_ == RegionClass::kSlotMatMul) return candidates;
  if (class_ == RegionClass::kAttention) {
    for (const int key_warps : {4, 8}) {
      for (const int blocks : {0, 2, 4, 8})
        add(planned, {.cluster_blocks = blocks, .key_warps = key_warps});
    }
  }
  for (const int block_size : {64, 128, 256, 512}) {
    if (class_ == RegionClass::kBlockProgram) {
      for (const int64_t rows : {1, 2, 4, 8, 16, 32})
        add(planned, {.block_size = block_size, .rows = rows});
    } else if (class_ == RegionClass::kRecurrence) {
      for (const int64_t rows : {1, 2, 4, 8})
        add(planned, {.block_size = block_size, .rows = rows});
    } else if (class_ == RegionClass::kRowReduction || class_ == RegionClass::kMatMul) {
      for (const Team team : {Team::kThread, Team::kWarp, Team::kBlock})
        add(planned, {.block_size = block_size, .team = team});
    } else if (class_ == RegionClass::kSequential || class_ == RegionClass::kAttention) {
      add(planned, {.block_size = block_size});
    } else {
      for (const int64_t lanes : {0, 1, 2, 4, 8})
        add(planned, {.block_size = block_size, .lanes = lanes});
    }
  }
  return candidates;
}

std::vector<KernelChoice> RegionKernels::ProductCandidates(int64_t size) const {
  std::vector<KernelChoice> candidates;
  if (library_) candidates.emplace_back();
  if (HasTensorCores(options_)) {
    for (const MatMulSchedule& schedule : MatMulCandidates(*product_, size, options_)) {
      candidates.push_back({schedule, {}});
      // The same with the other block size.
      if (const auto* rows = std::get_if<schedule::Rows>(&schedule))
        candidates.push_back({schedule, {.block_size = rows->in_groups ? 128 : 256}});
    }
  }
  // For narrow or tiny products, one thread or warp per element may be best, as it does not fill
  // tiles with zeros. It computes no pairs of elements.
  if (IsPaired(region_)) return candidates;
  constexpr int64_t kNarrow = 4, kTinyDepth = 64, kTiny = 32;
  const auto most = [](const Expr& extent, int64_t limit) {
    return extent.AsConstant().value_or(limit + 1) <= limit;
  };
  const bool tiny = most(product_->n, kTiny) && most(product_->k, 2 * kTinyDepth);
  if (most(product_->n, kNarrow) || most(product_->k, kTinyDepth) || tiny) {
    for (const int block_size : {128, 256}) {
      for (const Team team : {Team::kThread, Team::kWarp}) {
        KernelChoice choice;
        choice.product = schedule::Plain();
        choice.shape = {.block_size = block_size, .team = team};
        candidates.push_back(choice);
      }
    }
  }
  return candidates;
}

std::vector<Step> RegionKernels::Plan(ArrayRef<Variant> variants,
                                      std::vector<IndexSite>& sites) const {
  FUSEC_CHECK(!options_.batch_invariant || variants.size() == 1,
              "a batch chooses among kernels of " + PrintNode(region_));
  std::vector<Step> steps;
  for (const Variant& variant : variants) {
    steps.push_back(PlanOne(variant, sites));
    if (variants.size() > 1)
      steps.back().alternative = {size_, variant.from, variant.to, variant.by_waves,
                                  &variant == variants.data()};
  }
  if (steps.size() > 1) NameVariants(variants, steps);
  return steps;
}

Step RegionKernels::PlanOne(const Variant& variant, std::vector<IndexSite>& sites) const {
  Step step;
  KernelBuilder builder(options_.target, graph_, sites, variant.choice.shape);
  builder.plan().name = name_ + variant.suffix;
  builder.plan().region_class = class_;
  builder.plan().ops = ops_;
  builder.plan().provenance = region_.provenance;
  builder.ReserveNames(region_);
  if (product_)
    PlanMatMulStep(region_, *product_, variant.choice.product, options_, builder, step);
  else if (class_ == RegionClass::kBlockProgram)
    step.kernel = PlanBlockProgram(region_, options_, builder);
  else if (class_ == RegionClass::kRowReduction || class_ == RegionClass::kMatMul)
    step.kernel = PlanRowReduction(region_, builder);
  else if (class_ == RegionClass::kSlotMatMul)
    step.kernel = PlanSlotMatMul(region_, options_, builder);
  else if (class_ == RegionClass::kAttention)
    step.kernel = PlanAttention(region_, options_, builder);
  else if (class_ == RegionClass::kSequential)
    step.kernel = PlanSequential(region_, builder);
  else if (class_ == RegionClass::kRecurrence)
    step.kernel = PlanRecurrence(region_, options_, builder);
  else
    step.kernel = variant.choice.shape.finds_updates ? PlanFoundSum(region_, builder)
                                                     : PlanLoop(region_, builder);
  return step;
}

}  // namespace fusec
