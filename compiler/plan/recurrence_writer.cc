#include "compiler/plan/recurrence_writer.h"

#include <algorithm>

namespace fusec {

namespace {

constexpr int kMostThreads = 512;  // per block
constexpr int kWarpThreads = 32;   // block sizes are multiples of it
// The most registers of a thread on any GPU, and the registers that it needs in addition to
// weights.
constexpr int64_t kMostRegisters = 255;
constexpr int64_t kOtherRegisters = 40;
constexpr int64_t kMostThreadsOfGpu = 1024;
// On the CPU, the sums of this many units, for one row or for several rows, fit in vector
// registers; with one row, up to kFewGates gates.
constexpr int64_t kUnitsOfRow = 32;
constexpr int64_t kUnitsOfRows = 16;
constexpr int64_t kFewGates = 3;

int64_t RoundedUp(int64_t value, int64_t to) { return CeilDiv(value, to) * to; }

// Whether a block on the GPU has registers for all recurrent weights, in f32.
bool FitsRegisters(const RecurrenceSizes& sizes, const Gpu& gpu) {
  const int64_t threads = RoundedUp(sizes.kind->gates * sizes.units, kWarpThreads);
  const int64_t registers = RoundedUp(sizes.units, kStateMultiple) + kOtherRegisters;
  return threads <= kMostThreadsOfGpu && registers <= kMostRegisters &&
         threads * registers <= gpu.registers;
}

}  // namespace

int64_t RecurrenceRows(const Node& node, TargetKind target, int64_t wanted) {
  const RecurrenceSizes sizes = SizesOfRecurrence(node);
  const int64_t bytes = StateBytesPerRow(
      *sizes.kind, sizes.units, node.Int("linear_before_reset") != 0, node.result()->type.dtype);
  int64_t rows = std::max<int64_t>(wanted, 1);
  while (target == TargetKind::kGpu && rows > 1 && rows * bytes > kMostStateBytes) rows /= 2;
  return rows;
}

RecurrenceWriter::RecurrenceWriter(const Node& region, const PlanOptions& options,
                                   KernelBuilder& builder)
    : region_(region),
      builder_(builder),
      lowering_(region, builder),
      node_(*region.body->nodes.back()),
      sizes_(SizesOfRecurrence(node_)),
      dtype_(node_.result()->type.dtype),
      batch_first_(node_.Int("batch_first") != 0),
      is_cpu_(builder.target() == TargetKind::kCpu),
      in_registers_(!is_cpu_ && builder.shape().block_size == 0 && dtype_ != Dtype::kF64 &&
                    FitsRegisters(sizes_, *options.gpu)),
      pitch_(in_registers_ ? RoundedUp(sizes_.units, kStateMultiple) : sizes_.units) {}

CExpr RecurrenceWriter::Gate(const std::string& name) {
  int64_t number = 0;
  for (const std::string& known : ActivationNames(sizes_.kind->gate_names)) {
    if (known == name) break;
    ++number;
  }
  return Own(name + "_gate", number, "number of this gate");
}

CExpr RecurrenceWriter::Local(const std::string& wanted, const CExpr& value) {
  const std::string name = builder_.Unique(wanted);
  builder_.Append(Statement::Let(Real(), name, value));
  return name;
}

CExpr RecurrenceWriter::Position(ArrayRef<Coordinate> coordinates) {
  CExpr position;
  for (const auto& [at, extent] : coordinates) {
    if (!position.empty() && !extent.Is(1)) position = position * extent;
    if (!at.empty()) position = position.empty() ? at : position + at;
  }
  return position;
}

CExpr RecurrenceWriter::AtStep(const CExpr& step, ArrayRef<Coordinate> columns) {
  std::vector<Coordinate> all;
  if (batch_first_)
    all = {{"row", Batch()}, {step, Steps()}};
  else
    all = {{step, Steps()}, {"row", Batch()}};
  if (sizes_.directions > 1) all.push_back({Direction(), Directions()});
  all.insert(all.end(), columns.begin(), columns.end());
  return Position(all);
}

CExpr RecurrenceWriter::Load(int operand, const CExpr& position) {
  const CExpr element = builder_.Buffer(lowering_.Outside(node_.operand(operand)))[position];
  const bool is_half = dtype_ == Dtype::kF16 || dtype_ == Dtype::kBF16;
  return is_half ? Call("ToFloat", {element}) : element;
}

void RecurrenceWriter::LetUpdate(const CExpr& step) {
  const Coordinate of_row{"row", Batch()}, of_step{step, Steps()};
  const CExpr place = batch_first_ ? Position({of_row, of_step}) : Position({of_step, of_row});
  if (UpdatesPartly()) {
    builder_.Append(Statement::Let(Real(), "update_weight", Load(kUpdates, place)));
  } else {
    const CExpr update = builder_.Buffer(lowering_.Outside(node_.operand(kUpdates)))[place];
    builder_.Append(Statement::Let("bool", "is_running", update));
  }
}

CExpr RecurrenceWriter::GateInput(const CExpr& step, const CExpr& gate) {
  if (sizes_.kind->gates == 1) return Load(kGates, AtStep(step, {{"unit", Units()}}));
  return Load(kGates, AtStep(step, {{gate, Gates()}, {"unit", Units()}}));
}

CExpr RecurrenceWriter::Output(int result) {
  const auto& outputs = region_.body->outputs;
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (outputs[i]->result_index == result)
      return builder_.Buffer(region_.result(static_cast<int>(i)), /*written=*/true);
  }
  return {};
}

void RecurrenceWriter::StoreState(const CExpr& step, const CExpr& state) {
  const CExpr output = Output(0);
  if (output.empty()) return;
  builder_.Assign(output[AtStep(step, {{"unit", Units()}})], ToMemory(state, dtype_));
}

void RecurrenceWriter::OpenBlock() {
  const int wanted = builder_.shape().block_size;
  const int64_t all = in_registers_ ? sizes_.kind->gates * sizes_.units : sizes_.units;
  const auto enough = static_cast<int>(RoundedUp(all, kWarpThreads));
  KernelPlan& plan = builder_.plan();
  plan.block_size = is_cpu_         ? 1
                    : in_registers_ ? enough
                    : wanted > 0    ? wanted
                                    : std::min(enough, kMostThreads);
  rows_ = RecurrenceRows(node_, builder_.target(), builder_.shape().rows);
  const bool many_units = rows_ == 1 && sizes_.kind->gates <= kFewGates;
  if (is_cpu_) lanes_ = std::min(many_units ? kUnitsOfRow : kUnitsOfRows, sizes_.units);
  const Expr groups = CeilDiv(sizes_.batch, rows_, builder_.ranges());
  plan.blocks = groups * sizes_.directions;
  plan.launch_in_words =
      (rows_ == 1 ? "one block per row" : "a block computes " + std::to_string(rows_) + " rows") +
      std::string(sizes_.directions > 1 ? ", in one direction" : "") +
      (in_registers_ ? ", and keeps the weights in registers" : "");
  CExpr group = BlockNumber(builder_);
  if (sizes_.directions > 1) {
    builder_.AppendLet("direction", group % Directions());
    group = group / Directions();
  }
  if (rows_ == 1)
    builder_.AppendLet("row", group);
  else
    builder_.AppendLet("first_row", group * Rows());
  if (IsOnce()) builder_.AppendLet("unit", "threadIdx.x");
  if (in_registers_) builder_.AppendLet("column", "threadIdx.x");
}

void RecurrenceWriter::ForUnits(function_ref<void()> body) {
  builder_.Open(/*is_branch=*/true);
  if (is_cpu_) {
    builder_.AppendLet("first_unit",
                       Min("vector" * Lanes(), WriteSize(builder_, Units() - Lanes())));
    body();
    const CExpr vectors = Own("unit_vectors", CeilDiv(sizes_.units, lanes_),
                              "vectors of kLanes units; the last overlaps");
    builder_.CloseFor(LoopHeader(builder_, "vector", 0, vectors));
    return;
  }
  body();
  if (IsOnce())
    builder_.CloseIf("unit" < Units());
  else
    builder_.CloseFor(
        LoopHeader(builder_, "unit", "threadIdx.x", Units(), BlockSizeName(builder_)));
}

void RecurrenceWriter::ForRows(function_ref<void()> body) {
  if (rows_ == 1) return body();
  builder_.Open(/*is_branch=*/true);
  const Expr last = sizes_.batch - 1;
  builder_.AppendLet("row", Min("first_row" + CExpr("row_in_block"),
                                WriteSize(builder_, last, CountOf("last_row", "of the batch"))));
  body();
  builder_.CloseFor(LoopHeader(builder_, "row_in_block", 0, Rows()), "#pragma unroll");
}

void RecurrenceWriter::ForLanes(function_ref<void()> body) {
  if (!is_cpu_) return body();
  builder_.Open(/*is_branch=*/true);
  builder_.AppendLet("unit", "first_unit" + CExpr("lane"));
  body();
  builder_.CloseFor(LoopHeader(builder_, "lane", 0, Lanes()), "#pragma omp simd");
}

}  // namespace fusec
