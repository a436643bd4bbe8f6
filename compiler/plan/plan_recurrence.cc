#include <algorithm>

#include "compiler/ir/c_text.h"
#include "compiler/ir/recurrence.h"
#include "compiler/kernel/idioms.h"
#include "compiler/plan/plan_region.h"
#include "compiler/plan/recurrence_rows.h"
#include "compiler/support/check.h"
#include "compiler/support/words.h"

namespace fusec {

namespace {

constexpr int kMostThreads = 512;     // of a block
constexpr int kWarpThreads = 32;      // of which blocks are made
constexpr int64_t kUnitsAtOnce = 16;  // on the CPU: one or two vectors of floats

// The steps of a GRU, LSTM or RNN layer: a block walks through all steps of some rows of the batch,
// whose states it keeps in shared memory, those before and behind a step in turn. A thread makes
// the sums of all gates of a hidden unit, for all rows of the block, so that they share what is
// read of the weights; on the CPU it makes those of neighbouring units at once. The last of these
// overlap where units are no multiple: they are made twice, of what no step writes.
class RecurrencePlanner {
 public:
  RecurrencePlanner(const Node& region, KernelBuilder& builder)
      : region_(region),
        builder_(builder),
        lowering_(region, builder),
        node_(*region.body->nodes.back()),
        sizes_(SizesOfRecurrence(node_)),
        activations_(ActivationsOf(node_)),
        dtype_(node_.result()->type.dtype),
        batch_first_(node_.Int("batch_first") != 0),
        resets_first_(sizes_.kind->cell == Cell::kGru && node_.Int("linear_before_reset") == 0),
        is_cpu_(builder.target() == TargetKind::kCpu),
        lanes_(is_cpu_ ? std::min(kUnitsAtOnce, sizes_.units) : 1) {}

  KernelPlan Plan() {
    ChooseIndexType(region_, builder_);
    builder_.plan().outputs_in_device_memory = true;  // they are stored element by element
    OpenBlock();
    KeepStates();
    ReadLengths();
    BeginStates();
    WalkSteps();
    if (has(kLengths)) StoreZerosBehindEnds();
    StoreLastStates();
    CountTraffic(region_, builder_.plan());
    const Expr products = sizes_.steps * sizes_.batch * sizes_.columns() * sizes_.units;
    builder_.plan().flops = products * 2;
    return builder_.Finish();
  }

 private:
  bool has(int operand) const { return node_.operand(operand) != nullptr; }
  bool is_lstm() const { return sizes_.kind->cell == Cell::kLstm; }
  std::string Real() const { return CTypeName(dtype_); }
  CExpr Zero() const { return Literal(0.0, dtype_); }

  // --- names ---

  CExpr Own(const std::string& hint, int64_t value, const std::string& comment) {
    return builder_.expressions().Constant(hint, value, comment);
  }
  CExpr Units() { return Own("units", sizes_.units, "hidden units of the layer"); }
  CExpr Gates() { return Own("gates", sizes_.kind->gates, "of a unit"); }
  CExpr GateColumns() {
    return Own("gate_columns", sizes_.kind->gates * sizes_.units, "of all gates of all units");
  }
  CExpr Rows() { return Own("rows_per_block", rows_, "rows of the batch that a block owns"); }
  CExpr Lanes() { return Own("lanes", lanes_, "units that are made at once"); }
  CExpr Steps() { return builder_.Write(sizes_.steps, CountOf("steps", "of the sequences")); }
  CExpr Batch() { return builder_.Write(sizes_.batch, CountOf("batch_rows", "of the batch")); }
  // The number of a gate, by name: kResetGate.
  CExpr Gate(const std::string& name) {
    int64_t number = 0;
    for (const std::string& known : ActivationNames(sizes_.kind->gate_names)) {
      if (known == name) break;
      ++number;
    }
    return Own(name + "_gate", number, "its number among the gates");
  }
  // A local of the innermost scope.
  CExpr Local(const CExpr& type, const std::string& wanted, const CExpr& value) {
    const std::string name = builder_.Unique(wanted);
    builder_.Append(Statement::Let(type, name, value));
    return name;
  }
  CExpr Local(const std::string& wanted, const CExpr& value) {
    return Local(Real(), wanted, value);
  }

  // --- places ---

  // A position by coordinates and extents, the outermost first; that of a missing coordinate is 0.
  struct Coordinate {
    CExpr at, extent;
  };
  static CExpr Position(ArrayRef<Coordinate> coordinates) {
    CExpr position;
    for (const auto& [at, extent] : coordinates) {
      if (!position.empty() && !extent.Is(1)) position = position * extent;
      if (!at.empty()) position = position.empty() ? at : position + at;
    }
    return position;
  }
  CExpr Directions() { return Own("directions", sizes_.directions, "that the layer walks in"); }
  // None, if there is only one.
  CExpr Direction() const { return sizes_.directions > 1 ? "direction" : CExpr(); }

  // Of what belongs to `step` of the row, `columns` as given.
  CExpr AtStep(const CExpr& step, ArrayRef<Coordinate> columns) {
    std::vector<Coordinate> all;
    if (batch_first_)
      all = {{"row", Batch()}, {step, Steps()}};
    else
      all = {{step, Steps()}, {"row", Batch()}};
    if (sizes_.directions > 1) all.push_back({Direction(), Directions()});
    all.insert(all.end(), columns.begin(), columns.end());
    return Position(all);
  }
  CExpr OfState() { return Position({{Direction(), 1}, {"row", Batch()}, {"unit", Units()}}); }

  CExpr Load(int operand, const CExpr& position) {
    const CExpr element = builder_.Buffer(lowering_.Outside(node_.operand(operand)))[position];
    const bool is_half = dtype_ == Dtype::kF16 || dtype_ == Dtype::kBF16;
    return is_half ? Call("ToFloat", {element}) : element;
  }
  CExpr GateInput(const CExpr& step, const CExpr& gate) {
    if (sizes_.kind->gates == 1) return Load(kGates, AtStep(step, {{"unit", Units()}}));
    return Load(kGates, AtStep(step, {{gate, Gates()}, {"unit", Units()}}));
  }
  // What result number `result` is written to, none if nobody reads it.
  CExpr Output(int result) {
    const auto& outputs = region_.body->outputs;
    for (size_t i = 0; i < outputs.size(); ++i) {
      if (outputs[i]->result_index == result)
        return builder_.Buffer(region_.result(static_cast<int>(i)), /*written=*/true);
    }
    return {};
  }
  void StoreState(const CExpr& step, const CExpr& state) {
    const CExpr output = Output(0);
    if (output.empty()) return;
    builder_.Assign(output[AtStep(step, {{"unit", Units()}})], ToMemory(state, dtype_));
  }

  // In arrays that hold something of the block's rows.
  CExpr RowInBlock() const { return rows_ > 1 ? "row_in_block" : CExpr(); }
  CExpr InBlock() { return Position({{RowInBlock(), Rows()}, {"unit", Units()}}); }
  CExpr OfRow(const std::string& array) const {
    return CExpr(array)[rows_ > 1 ? "row_in_block" : "0"];
  }
  CExpr Sum(const CExpr& gate) const {
    const CExpr sum = OfRow("sums")[gate];
    return is_cpu_ ? sum["lane"] : sum;
  }

  // --- loops ---

  void OpenBlock() {
    const int wanted = builder_.shape().block_size;
    const auto enough = static_cast<int>(CeilDiv(sizes_.units, kWarpThreads) * kWarpThreads);
    KernelPlan& plan = builder_.plan();
    plan.block_size = is_cpu_ ? 1 : wanted > 0 ? wanted : std::min(enough, kMostThreads);
    rows_ = RecurrenceRows(node_, builder_.target(), builder_.shape().rows);
    const Expr groups = CeilDiv(sizes_.batch, rows_, builder_.ranges());
    plan.blocks = groups * sizes_.directions;
    plan.launch_in_words =
        (rows_ == 1 ? "one block per row" : "a block owns " + std::to_string(rows_) + " rows") +
        std::string(sizes_.directions > 1 ? ", in one direction" : "");
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
  }

  // Whether there is a thread for each unit.
  bool IsOnce() const { return !is_cpu_ && builder_.plan().block_size >= sizes_.units; }

  // The units of the open scope's thread, one after the other, or several at once.
  void ForUnits(function_ref<void()> body) {
    builder_.Open(/*is_branch=*/true);
    if (is_cpu_) {
      builder_.AppendLet("first_unit",
                         Min("vector" * Lanes(), WriteSize(builder_, Units() - Lanes())));
      body();
      const CExpr vectors = Own("unit_vectors", CeilDiv(sizes_.units, lanes_),
                                "kLanes units each, the last overlaps");
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

  // The rows of the block; those behind the last of the batch are that one again.
  void ForRows(function_ref<void()> body) {
    if (rows_ == 1) return body();
    builder_.Open(/*is_branch=*/true);
    const Expr last = sizes_.batch - 1;
    builder_.AppendLet("row", Min("first_row" + CExpr("row_in_block"),
                                  WriteSize(builder_, last, CountOf("last_row", "of the batch"))));
    body();
    builder_.CloseFor(LoopHeader(builder_, "row_in_block", 0, Rows()), "#pragma unroll");
  }

  // The units that are made at once.
  void ForLanes(function_ref<void()> body) {
    if (!is_cpu_) return body();
    builder_.Open(/*is_branch=*/true);
    builder_.AppendLet("unit", "first_unit" + CExpr("lane"));
    body();
    builder_.CloseFor(LoopHeader(builder_, "lane", 0, Lanes()), "#pragma omp simd");
  }
  void ForElements(function_ref<void()> body) {
    ForRows([&] { ForLanes(body); });
  }

  // --- the kernel, from its beginning to its end ---

  void KeepStates() {
    builder_.Blank();
    builder_.Comment("The states of the block's rows before and behind a step, in turn.");
    Keep("kept_states", true);
    // A thread reads and writes those of its own units alone, but for units that overlap.
    if (is_lstm()) Keep("kept_cells", is_cpu_);
    if (!resets_first_) return;
    builder_.Comment("Between the halves of a step: the states that are reset, and update gates.");
    Keep("kept_resets", false);
    Keep("kept_updates", false);
  }
  void Keep(const std::string& array, bool twice) {
    CExpr place = array;
    if (twice) place = place["2"];
    const CExpr elements = rows_ > 1 ? Rows() * Units() : Units();
    builder_.Append(
        Statement::Declare(CExpr::Type("alignas(16) __shared__ " + Real()), place[elements]));
  }

  // The steps of the block's rows, and the most of these.
  void ReadLengths() {
    if (!has(kLengths)) return;
    builder_.Blank();
    if (rows_ == 1) {
      builder_.Comment("How many steps the sequence has.");
      builder_.AppendLet("longest", CheckedLength());
      return;
    }
    builder_.Comment("How many steps each of the block's sequences has, and the longest.");
    const std::string& type = builder_.index_type();
    builder_.Append(Statement::Declare(type, CExpr("lengths_here")[Rows()]));
    builder_.Append(Statement::Declare(type, "longest", 0));
    ForRows([&] {
      const CExpr length = OfRow("lengths_here");
      builder_.Assign(length, CheckedLength());
      builder_.Assign("longest", Call("max", {"longest", length}));
    });
  }

  CExpr CheckedLength() {
    const Value* outside = lowering_.Outside(node_.operand(kLengths));
    IndexSite site;
    site.node = node_.provenance.empty() || node_.provenance[0].onnx_node.empty()
                    ? std::string(GetOpDef(node_.kind).text)
                    : node_.provenance[0].onnx_node;
    site.tensor = outside->name;
    for (size_t i = 0; i < builder_.program().inputs.size(); ++i) {
      if (builder_.program().inputs[i].get() == outside)
        site.tensor = site.input = builder_.program().InputName(i);
    }
    site.shape = outside->type.shape;
    site.extent = sizes_.steps;
    site.is_length = true;
    const int number = builder_.AddSite(site);
    return Call("CheckedLength", {builder_.Buffer(outside)["row"], Steps(), "errors",
                                  builder_.SiteName(number), "row"});
  }

  void BeginStates() {
    builder_.Blank();
    ForUnits([&] {
      ForElements([&] {
        const auto begin = [&](int operand, const CExpr& array) {
          builder_.Assign(array[InBlock()], has(operand) ? Load(operand, OfState()) : Zero());
        };
        begin(kInitialState, CExpr("kept_states")["0"]);
        if (is_lstm()) begin(kInitialCell, Cells("0"));
      });
    });
    builder_.AppendCall("__syncthreads()");
  }
  CExpr Cells(const CExpr& which) const {
    return is_cpu_ ? CExpr("kept_cells")[which] : "kept_cells";
  }
  CExpr Longest() { return has(kLengths) ? "longest" : Steps(); }
  CExpr Length() { return MayEnd() ? OfRow("lengths_here") : Longest(); }
  // Whether a row's sequence may have ended before a step of the block.
  bool MayEnd() const { return has(kLengths) && rows_ > 1; }

  void WalkSteps() {
    builder_.Blank();
    builder_.Comment(std::string("recurrence: the steps of ") + sizes_.kind->onnx +
                     " cells, one after the other");
    builder_.Open(/*is_branch=*/true);
    const std::string pointer = Real() + "*";
    builder_.Append(Statement::Declare(CExpr::Type("const " + pointer), "old_states",
                                       CExpr("kept_states")["step % 2"]));
    builder_.Append(Statement::Declare(CExpr::Type(pointer), "new_states",
                                       CExpr("kept_states")["(step + 1) % 2"]));
    if (resets_first_) {
      ForUnits([&] { PlanFirstHalf(); });
      builder_.AppendCall("__syncthreads()");
    }
    ForUnits([&] { PlanStep(); });
    builder_.AppendCall("__syncthreads()");
    builder_.CloseFor(LoopHeader(builder_, "step", 0, Longest()));
  }

  // Which step of its sequence the row is at, as a local where it is not the block's: sequences
  // that are walked through from their end have their steps in front of that end.
  void LetSequenceStep() {
    const CExpr from_end = Length() - "1" - "step";
    CExpr at = "step";
    if (sizes_.directions > 1)
      at = Conditional(Equal("direction", 0), "step", from_end);
    else if (node_.Get<std::string>("direction") == "reverse")
      at = from_end;
    if (MayEnd()) {
      builder_.Append(Statement::Let("bool", "is_running", "step" < Length()));
      if (!at.Is("step")) {
        CExpr stays = Not("is_running");
        if (sizes_.directions > 1) stays = Or(stays, Equal("direction", 0));
        at = Conditional(stays, "step", from_end);
      }
    }
    at_ = at.Is("step") ? "step" : "sequence_step";
    if (!at.Is("step")) builder_.AppendLet("sequence_step", at);
  }

  // Sums of the gates from `first` on, `count` of them: what the inputs give to those in front of
  // `without`, to which then the state's part is added.
  void MakeSums(const std::string& state, const CExpr& first, int64_t count,
                const CExpr& count_name, const CExpr& without) {
    CExpr place = CExpr("sums")[Rows()][count_name];
    if (is_cpu_) place = place[Lanes()];
    builder_.Append(Statement::Declare(Real(), place));
    ForRows([&] {
      LetSequenceStep();
      if (count == 1) {
        ForLanes([&] { builder_.Assign(Sum(0), GateInput(at_, first)); });
        return;
      }
      builder_.Open(/*is_branch=*/true);
      ForLanes([&] { builder_.Assign(Sum("gate_number"), GateInput(at_, "gate_number")); });
      builder_.CloseFor(IntLoopHeader("gate_number", 0, "gate_number" < without), "#pragma unroll");
      if (without.Is(count_name)) return;
      ForLanes([&] {
        const CExpr place = Position({{Direction(), 1}, {"unit", Units()}});
        builder_.Assign(Sum(without), has(kBias) ? Load(kBias, place) : Zero());
      });
    });
    builder_.Use("recurrence.cuh");
    CExpr weights = builder_.Buffer(lowering_.Outside(node_.operand(kWeights)));
    if (sizes_.directions > 1)
      weights = weights + "direction" * Own("direction_weights",
                                            sizes_.kind->gates * sizes_.units * sizes_.units,
                                            "of one direction");
    if (!first.empty()) weights = weights + first * Units();
    const CExpr unit = is_cpu_ ? "first_unit" : "unit";
    const CExpr add =
        Template(is_cpu_ ? "AddProductsOfLanes" : "AddProducts", {Units(), GateColumns()});
    builder_.AppendCall(Call(add, {state, weights + unit, "sums"}));
  }

  // Function number `which` of ONNX's f, g and h.
  CExpr Activate(size_t which, const std::string& name, CExpr x, bool may_clip = true) {
    const ChosenActivation& chosen = activations_[which];
    const std::string formula = chosen.function->formula;
    if (const double clip = node_.Float("clip"); clip != 0 && may_clip) {
      builder_.Use("recurrence.cuh");
      x = Call("Clipped", {x, Parameter("clip", clip, "what gates are clipped to")});
    }
    const size_t first = formula.find("{x}");
    if (formula.find("{x}", first + 1) != std::string::npos) x = Local(name + "_sum", x);
    if (chosen.function->device_file != nullptr) builder_.Use(chosen.function->device_file);
    const std::string letter(1, "fgh"[which]);
    const auto parameter = [&](const char* what, double value) {
      return Parameter(letter + "_" + what, value,
                       std::string(what) + " of the activation " + letter);
    };
    std::string text = formula;
    const auto fill = [&](const std::string& placeholder, const std::string& filling) {
      for (size_t at = text.find(placeholder); at != std::string::npos; at = text.find(placeholder))
        text.replace(at, placeholder.size(), filling);
    };
    fill("{x}", x.ToOperandString());
    fill("{f}", dtype_ == Dtype::kF64 ? "" : "f");
    if (chosen.function->has_alpha) fill("{alpha}", parameter("alpha", chosen.alpha).ToString());
    if (chosen.function->has_beta) fill("{beta}", parameter("beta", chosen.beta).ToString());
    return Local(name, CExpr::Parse(text));
  }
  CExpr Parameter(const std::string& hint, double value, const std::string& comment) {
    return builder_.expressions().TypedConstant(Real(), hint, Literal(value, dtype_), comment);
  }

  // Of a GRU that resets the state before it multiplies it: the update gates and the reset states.
  void PlanFirstHalf() {
    const CExpr candidate = Gate("candidate");
    MakeSums("old_states", {}, 2, candidate, candidate);
    ForElements([&] {
      const CExpr update = Activate(0, "update_gate", Sum(Gate("update")));
      const CExpr reset = Activate(0, "reset_gate", Sum(Gate("reset")));
      builder_.Assign(CExpr("kept_updates")[InBlock()], update);
      builder_.Assign(CExpr("kept_resets")[InBlock()], reset * CExpr("old_states")[InBlock()]);
    });
  }

  void PlanStep() {
    const CExpr candidate = Gate("candidate");
    const bool is_gru = sizes_.kind->cell == Cell::kGru;
    if (resets_first_)
      MakeSums("kept_resets", candidate, 1, "1", "1");
    else
      MakeSums("old_states", {}, sizes_.kind->gates, Gates(), is_gru ? candidate : Gates());
    ForRows([&] {
      if (rows_ > 1) LetSequenceStep();
      ForLanes([&] {
        if (is_lstm()) return StepLstm();
        if (is_gru) return StepGru();
        FinishStep(Activate(0, "new_state", Sum(0)));
      });
    });
  }

  void StepGru() {
    CExpr update, sum;
    if (resets_first_) {
      update = CExpr("kept_updates")[InBlock()];
      sum = Sum(0);
    } else {
      const CExpr candidate = Gate("candidate");
      update = Activate(0, "update_gate", Sum(Gate("update")));
      const CExpr reset = Activate(0, "reset_gate", Sum(Gate("reset")));
      sum = GateInput(at_, candidate) + reset * Sum(candidate);
    }
    const CExpr candidate = Activate(1, "candidate", sum);
    const CExpr old_state = Local("old_state", CExpr("old_states")[InBlock()]);
    const CExpr one = Literal(1.0, dtype_);
    FinishStep(Local("new_state", (one - update) * candidate + update * old_state));
  }

  void StepLstm() {
    const CExpr before = Cells("step % 2"), behind = Cells("(step + 1) % 2");
    const CExpr old_cell = Local("old_cell", before[InBlock()]);
    const auto gate = [&](const std::string& name, const CExpr& cell) {
      CExpr sum = Sum(Gate(name));
      if (has(kPeepholes)) {
        std::vector<Coordinate> place;
        if (sizes_.directions > 1)
          place.push_back({Direction(), Own("peepholes", 3, "gates that see the cell")});
        place.push_back({Gate(name), Own("peepholes", 3, "gates that see the cell")});
        place.push_back({"unit", Units()});
        sum = sum + Load(kPeepholes, Position(place)) * cell;
      }
      return Activate(0, name + "_gate", sum);
    };
    const CExpr input = gate("input", old_cell);
    const CExpr forget = node_.Int("input_forget") != 0
                             ? Local("forget_gate", Literal(1.0, dtype_) - input)
                             : gate("forget", old_cell);
    const CExpr candidate = Activate(1, "candidate", Sum(Gate("cell")));
    const CExpr new_cell = Local("new_cell", forget * old_cell + input * candidate);
    const CExpr output = gate("output", new_cell);
    const CExpr shown = Activate(2, "shown_cell", new_cell, /*may_clip=*/false);
    builder_.Assign(behind[InBlock()], IfRunning(new_cell, old_cell));
    FinishStep(Local("new_state", output * shown));
  }

  CExpr IfRunning(const CExpr& value, const CExpr& otherwise) const {
    return MayEnd() ? Conditional("is_running", value, otherwise) : value;
  }
  void FinishStep(const CExpr& state) {
    builder_.Assign(CExpr("new_states")[InBlock()],
                    IfRunning(state, CExpr("old_states")[InBlock()]));
    StoreState(at_, IfRunning(state, Zero()));
  }

  void StoreZerosBehindEnds() {
    if (Output(0).empty()) return;
    builder_.Blank();
    builder_.Comment(rows_ == 1 ? "Zeros behind the sequence's end."
                                : "Zeros behind the longest of the block's sequences.");
    builder_.Open(/*is_branch=*/true);
    ForUnits([&] { ForElements([&] { StoreState("step", Zero()); }); });
    builder_.CloseFor(LoopHeader(builder_, "step", "longest", Steps()));
  }

  void StoreLastStates() {
    const CExpr last = Output(1), last_cell = is_lstm() ? Output(2) : CExpr();
    if (last.empty() && last_cell.empty()) return;
    builder_.Blank();
    builder_.Comment(has(kLengths) ? "The last states, zeros of empty sequences."
                                   : "The last states.");
    ForUnits([&] {
      ForElements([&] {
        const auto store = [&](const CExpr& output, const CExpr& array) {
          if (output.empty()) return;
          CExpr state = array[InBlock()];
          if (has(kLengths)) state = Conditional(Length() > CExpr(0), state, Zero());
          builder_.Assign(output[OfState()], ToMemory(state, dtype_));
        };
        const CExpr which = Longest() % "2";
        store(last, CExpr("kept_states")[which]);
        store(last_cell, Cells(which));
      });
    });
  }

  const Node& region_;
  KernelBuilder& builder_;
  RegionLowering lowering_;
  const Node& node_;
  const RecurrenceSizes sizes_;
  const std::vector<ChosenActivation> activations_;
  const Dtype dtype_;
  const bool batch_first_;
  const bool resets_first_;  // a GRU's state, before it is multiplied
  const bool is_cpu_;
  const int64_t lanes_;
  int64_t rows_ = 1;
  CExpr at_;  // the step of its sequence that the row is at
};

}  // namespace

int64_t RecurrenceRows(const Node& node, TargetKind target, int64_t wanted) {
  const RecurrenceSizes sizes = SizesOfRecurrence(node);
  const int64_t bytes = StateBytesPerRow(
      *sizes.kind, sizes.units, node.Int("linear_before_reset") != 0, node.result()->type.dtype);
  int64_t rows = std::max<int64_t>(wanted, 1);
  while (target == TargetKind::kGpu && rows > 1 && rows * bytes > kMostStateBytes) rows /= 2;
  return rows;
}

KernelPlan PlanRecurrence(const Node& region, KernelBuilder& builder) {
  return RecurrencePlanner(region, builder).Plan();
}

}  // namespace fusec
