#include "compiler/plan/plan_region.h"
#include "compiler/plan/recurrence_writer.h"

namespace fusec {

namespace {

// The steps of a GRU, LSTM or RNN layer. A block computes all steps of some rows of the batch and
// keeps their states in shared memory, in two arrays: one for the state before a step, one for the
// state after it. A thread computes the sums of all gates of a hidden unit for all rows of the
// block, so that the rows share the loads of weights. On the CPU, a thread computes several
// consecutive units at once; if the number of units is no multiple of these, the last ones overlap
// and are computed twice, from values that the step does not change.
class RecurrencePlanner : RecurrenceWriter {
 public:
  RecurrencePlanner(const Node& region, const PlanOptions& options, KernelBuilder& builder)
      : RecurrenceWriter(region, options, builder),
        activations_(ActivationsOf(node_)),
        resets_first_(sizes_.kind->cell == Cell::kGru && node_.Int("linear_before_reset") == 0) {}

  KernelPlan Plan() {
    ChooseIndexType(region_, builder_);
    builder_.plan().outputs_in_device_memory = true;  // they are stored element by element
    OpenBlock();
    KeepStates();
    if (in_registers_) KeepWeights();
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
  void KeepStates() {
    builder_.Blank();
    builder_.Comment(
        "The states of the block's rows before and after a step, in alternating arrays.");
    Keep("kept_states", true);
    // On the GPU, a thread reads and writes only the cells of its own units, so that one array is
    // enough; on the CPU, units may overlap.
    if (is_lstm()) Keep("kept_cells", is_cpu_);
    if (in_registers_) {
      builder_.Comment("The dot products of the states and the columns of the weights.");
      const CExpr products = rows_ > 1 ? Rows() * GateColumns() : GateColumns();
      builder_.Append(
          Statement::Declare(CExpr::Type("__shared__ " + Real()), CExpr("products")[products]));
    }
    if (!resets_first_) return;
    builder_.Comment("Kept between the halves of a step: the reset states and the update gates.");
    Keep("kept_resets", false);
    Keep("kept_updates", false);
  }
  void Keep(const std::string& array, bool twice) {
    CExpr place = array;
    if (twice) place = place["2"];
    const CExpr elements = rows_ > 1 ? Rows() * StatePitch() : StatePitch();
    builder_.Append(
        Statement::Declare(CExpr::Type("alignas(16) __shared__ " + Real()), place[elements]));
  }

  void KeepWeights() {
    builder_.Blank();
    builder_.Comment(
        "The weights stay in registers: a thread computes the products of one column.");
    builder_.Use("vector.cuh");
    builder_.Use("register_weights.cuh");
    const CExpr vectors =
        Own("thread_vectors", pitch_ / kStateMultiple, "vectors of 4 state elements per thread");
    const CExpr read = Template("ReadWeights", {Units(), GateColumns(), vectors});
    builder_.Append(Statement::Let(Template("RegisterWeights", {vectors}), "register_weights",
                                   Call(read, {Weights()})));
    if (!resets_first_) return;
    builder_.AppendLet("warp_column", "column" - "column" % WarpThreads());
  }
  CExpr WarpThreads() { return Own("warp_threads", 32, "columns per warp"); }
  CExpr Weights() {
    const CExpr weights = builder_.Buffer(lowering_.Outside(node_.operand(kWeights)));
    if (sizes_.directions == 1) return weights;
    return weights + "direction" * Own("direction_weights",
                                       sizes_.kind->gates * sizes_.units * sizes_.units,
                                       "weights of one direction");
  }

  // Writes the number of steps of each of the block's rows, and their maximum.
  void ReadLengths() {
    if (!has(kLengths)) return;
    builder_.Blank();
    if (rows_ == 1) {
      builder_.Comment("The number of steps of the sequence.");
      builder_.AppendLet("longest", CheckedLength());
      return;
    }
    builder_.Comment("The numbers of steps of the block's sequences, and their maximum.");
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
    IndexSite site = builder_.SiteOf(node_, outside, sizes_.steps);
    site.values = IndexValues::kLength;
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
    if (pitch_ > sizes_.units) BeginPadding();
    builder_.AppendCall("__syncthreads()");
  }
  // Writes zeros after the units of each row, because the products read this padding.
  void BeginPadding() {
    builder_.Open(/*is_branch=*/true);
    ForRows([&] {
      builder_.Assign(CExpr("kept_states")["0"][InBlock()], Zero());
      builder_.Assign(CExpr("kept_states")["1"][InBlock()], Zero());
      if (resets_first_) builder_.Assign(CExpr("kept_resets")[InBlock()], Zero());
    });
    builder_.CloseIf(And(Units() <= CExpr("unit"), "unit" < StatePitch()));
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
    if (resets_first_) PlanFirstHalf();
    PlanStep();
    builder_.CloseFor(LoopHeader(builder_, "step", 0, Longest()));
  }

  // Writes which step of its sequence the row is at; a local if it differs from the step of the
  // block. Sequences that are processed in reverse begin at their last step.
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

  // Sums of `count` gates from number `first` on (empty: 0). The sums of gates before `without`
  // begin with the contributions of the inputs; the sum of gate `without`, if it is among them,
  // begins with the recurrent bias. Then the product of `state` and the weights is added to each.
  struct Sums {
    std::string state;
    CExpr first;
    int64_t count;
    CExpr count_name, without;
  };

  // Writes a step, or half of one: its sums, and then `finish`, which uses them.
  void PlanSums(const Sums& sums, function_ref<void()> finish) {
    if (in_registers_) {
      // The contributions of the inputs are loaded early; they are needed only after the products.
      DeclareSums(sums);
      ForUnits([&] { BeginSums(sums); });
      if (resets_first_)
        StoreProductsOfHalf(sums);
      else
        StoreProducts(sums);
      builder_.AppendCall("__syncthreads()");
      ForUnits([&] {
        AddStoredProducts(sums);
        finish();
      });
    } else {
      ForUnits([&] {
        DeclareSums(sums);
        BeginSums(sums);
        AddProducts(sums);
        finish();
      });
    }
    builder_.AppendCall("__syncthreads()");
  }

  void DeclareSums(const Sums& sums) {
    if (in_registers_ && !sums.first.empty()) sums_ = "candidate_sums";
    CExpr place = CExpr(sums_)[Rows()][sums.count_name];
    if (is_cpu_) place = place[Lanes()];
    builder_.Append(Statement::Declare(Real(), place));
    if (LoadsCandidates())
      builder_.Append(Statement::Declare(Real(), CExpr("candidate_inputs")[Rows()]));
  }
  // Whether the contribution of the inputs to the candidate, which is not part of a sum, is loaded
  // together with the sums.
  bool LoadsCandidates() const {
    return in_registers_ && sizes_.kind->cell == Cell::kGru && !resets_first_;
  }
  CExpr CandidateInput() {
    return LoadsCandidates() ? OfRow("candidate_inputs") : GateInput(at_, Gate("candidate"));
  }

  void BeginSums(const Sums& sums) {
    const auto& [state, first, count, count_name, without] = sums;
    ForRows([&] {
      LetSequenceStep();
      if (LoadsCandidates())
        builder_.Assign(OfRow("candidate_inputs"), GateInput(at_, Gate("candidate")));
      if (count == 1) {
        ForLanes([&] { builder_.Assign(Sum(0), GateInput(at_, first)); });
        return;
      }
      builder_.Open(/*is_branch=*/true);
      ForLanes([&] { builder_.Assign(Sum("gate_number"), GateInput(at_, "gate_number")); });
      builder_.CloseFor(IntLoopHeader("gate_number", 0, "gate_number" < without), "#pragma unroll");
      if (without.Is(count_name)) return;
      ForLanes([&] { builder_.Assign(Sum(without), has(kBias) ? Load(kBias, OfUnit()) : Zero()); });
    });
  }

  void AddProducts(const Sums& sums) {
    builder_.Use("recurrence.cuh");
    CExpr weights = Weights();
    if (!sums.first.empty()) weights = weights + sums.first * Units();
    const CExpr unit = is_cpu_ ? "first_unit" : "unit";
    const CExpr add =
        Template(is_cpu_ ? "AddProductsOfLanes" : "AddProducts", {Units(), GateColumns()});
    builder_.AppendCall(Call(add, {sums.state, weights + unit, "sums"}));
  }

  // Writes the product of each row's state and the thread's column to shared memory, for the
  // threads of its unit.
  void StoreProducts(const Sums& sums) {
    const CExpr row = RowInBlock();
    CExpr state = sums.state;
    if (rows_ > 1) state = state + row * StatePitch();
    if (rows_ > 1) builder_.Open(/*is_branch=*/true);
    const CExpr product = Local(sums.first.empty() ? "column_product" : "candidate_product",
                                Call("ColumnProduct", {state, "register_weights"}));
    builder_.Append(Statement::If(
        "column" < GateColumns(),
        {Statement::Assign(CExpr("products")[Position({{row, 1}, {"column", GateColumns()}})],
                           product)}));
    if (rows_ > 1)
      builder_.CloseFor(LoopHeader(builder_, "row_in_block", 0, Rows()), "#pragma unroll 1");
  }

  // The same, only in warps that have columns of the gates of this half of the step.
  void StoreProductsOfHalf(const Sums& sums) {
    const CExpr first_candidate = Gate("candidate") * Units();
    builder_.Open(/*is_branch=*/true);
    StoreProducts(sums);
    builder_.CloseIf(sums.first.empty() ? "warp_column" < first_candidate
                                        : first_candidate < "warp_column" + WarpThreads());
  }

  void AddStoredProducts(const Sums& sums) {
    const auto add = [&](const CExpr& sum, const CExpr& gate) {
      const CExpr place = Position({{RowInBlock(), 1}, {gate, Gates()}, {"unit", Units()}});
      builder_.Assign(sum, sum + CExpr("products")[place]);
    };
    ForRows([&] {
      if (sums.count == 1) return add(Sum(0), sizes_.kind->gates == 1 ? CExpr() : sums.first);
      builder_.Open(/*is_branch=*/true);
      add(Sum("gate_number"), "gate_number");
      builder_.CloseFor(IntLoopHeader("gate_number", 0, "gate_number" < sums.count_name),
                        "#pragma unroll");
    });
  }

  // Applies activation function number `which` of ONNX's f, g and h.
  CExpr Activate(size_t which, const std::string& name, CExpr x, bool may_clip = true) {
    const ChosenActivation& chosen = activations_[which];
    const std::string formula = chosen.function->formula;
    if (const double clip = node_.Float("clip"); clip != 0 && may_clip) {
      builder_.Use("recurrence.cuh");
      x = Call("Clipped", {x, Parameter("clip", clip, "limit to which gates are clipped")});
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

  // The first half of a step of a GRU that resets the state before multiplying it: the update gates
  // and the reset states.
  void PlanFirstHalf() {
    const CExpr candidate = Gate("candidate");
    PlanSums({"old_states", {}, 2, candidate, candidate}, [&] {
      ForElements([&] {
        const CExpr update = Activate(0, "update_gate", Sum(Gate("update")));
        const CExpr reset = Activate(0, "reset_gate", Sum(Gate("reset")));
        builder_.Assign(CExpr("kept_updates")[InBlock()], update);
        builder_.Assign(CExpr("kept_resets")[InBlock()], reset * CExpr("old_states")[InBlock()]);
      });
    });
  }

  void PlanStep() {
    const CExpr candidate = Gate("candidate");
    const bool is_gru = sizes_.kind->cell == Cell::kGru;
    const Sums second_half = {"kept_resets", candidate, 1, "1", "1"};
    const Sums whole = {
        "old_states", {}, sizes_.kind->gates, Gates(), is_gru ? candidate : Gates()};
    PlanSums(resets_first_ ? second_half : whole, [&] {
      ForRows([&] {
        if (rows_ > 1 || in_registers_) LetSequenceStep();
        if (has(kUpdates)) LetUpdate(at_);
        ForLanes([&] {
          if (is_lstm()) return StepLstm();
          if (is_gru) return StepGru();
          FinishStep(Activate(0, "new_state", Sum(0)));
        });
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
      sum = CandidateInput() + reset * Sum(candidate);
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
        const CExpr peepholes = Own("peepholes", 3, "gates with peepholes");
        const CExpr place =
            Position({{Direction(), 1}, {Gate(name), peepholes}, {"unit", Units()}});
        sum = sum + Load(kPeepholes, place) * cell;
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
    builder_.Assign(behind[InBlock()], Updated(new_cell, old_cell));
    FinishStep(Local("new_state", output * shown));
  }

  CExpr IfRunning(const CExpr& value, const CExpr& otherwise) const {
    return MayEnd() || has(kUpdates) ? Conditional("is_running", value, otherwise) : value;
  }
  // What becomes of the state or cell `before` in a step that computes `value` for it.
  CExpr Updated(const CExpr& value, const CExpr& before) const {
    if (!UpdatesPartly()) return IfRunning(value, before);
    const CExpr weight("update_weight");
    return Conditional(Binary(weight, "!=", Zero()), before + weight * (value - before), before);
  }
  void FinishStep(const CExpr& state) {
    CExpr kept = Updated(state, CExpr("old_states")[InBlock()]);
    if (has(kUpdates)) kept = Local("kept_state", kept);
    builder_.Assign(CExpr("new_states")[InBlock()], kept);
    StoreState(at_, has(kUpdates) ? kept : IfRunning(state, Zero()));
  }

  void StoreZerosBehindEnds() {
    if (Output(0).empty()) return;
    builder_.Blank();
    builder_.Comment(rows_ == 1 ? "Zeros after the end of the sequence."
                                : "Zeros after the end of the block's longest sequence.");
    builder_.Open(/*is_branch=*/true);
    ForUnits([&] { ForElements([&] { StoreState("step", Zero()); }); });
    builder_.CloseFor(LoopHeader(builder_, "step", "longest", Steps()));
  }

  void StoreLastStates() {
    const CExpr last = Output(1), last_cell = is_lstm() ? Output(2) : CExpr();
    if (last.empty() && last_cell.empty()) return;
    builder_.Blank();
    builder_.Comment(has(kLengths) ? "The last states; those of empty sequences are zeros."
                                   : "The last states.");
    ForUnits([&] {
      ForElements([&] {
        const auto store = [&](const CExpr& output, const CExpr& array) {
          if (output.empty()) return;
          CExpr state = array[InBlock()];
          if (has(kLengths))
            state = Conditional(Length() > CExpr(0), Local("last_state", state), Zero());
          builder_.Assign(output[OfState()], ToMemory(state, dtype_));
        };
        const CExpr which = Longest() % "2";
        store(last, CExpr("kept_states")[which]);
        store(last_cell, Cells(which));
      });
    });
  }

  const std::vector<ChosenActivation> activations_;
  const bool resets_first_;  // whether a GRU resets the state before multiplying it
  CExpr at_;                 // the step of its sequence that the row is at
};

}  // namespace

KernelPlan PlanRecurrence(const Node& region, const PlanOptions& options, KernelBuilder& builder) {
  return RecurrencePlanner(region, options, builder).Plan();
}

}  // namespace fusec
