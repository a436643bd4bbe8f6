#pragma once

#include <string>
#include <vector>

#include "compiler/ir/c_text.h"
#include "compiler/ir/recurrence.h"
#include "compiler/kernel/idioms.h"
#include "compiler/kernel/region_lowering.h"
#include "compiler/kernel/size_names.h"
#include "compiler/plan/plan_program.h"
#include "compiler/support/adt.h"

namespace fusec {

// How many rows of the batch a block of a recurrence `node` owns: `wanted`, or as many of these as
// find room in the shared memory of a GPU.
int64_t RecurrenceRows(const Node& node, TargetKind target, int64_t wanted);

// Where weights are in registers, four threads share out a state by vectors of four elements, so
// that it is kept in multiples of these (codegen_templates/device/register_weights.cuh).
inline constexpr int64_t kStateMultiple = 4 * 4;

// What kernels of recurrences say: sizes, places in tensors and in what a block keeps, and the
// loops over the block's rows and a thread's units. plan_recurrence.cc says what stands in these.
class RecurrenceWriter {
 protected:
  RecurrenceWriter(const Node& region, const PlanOptions& options, KernelBuilder& builder);

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
  // Elements between the states of two rows of a block.
  CExpr StatePitch() {
    if (pitch_ == sizes_.units) return Units();
    return Own("state_pitch", pitch_, "of a row's kept states: the units, and zeros behind them");
  }
  CExpr Directions() { return Own("directions", sizes_.directions, "that the layer walks in"); }
  CExpr Rows() { return Own("rows_per_block", rows_, "rows of the batch that a block owns"); }
  CExpr Lanes() { return Own("lanes", lanes_, "units that are made at once"); }
  CExpr Steps() { return builder_.Write(sizes_.steps, CountOf("steps", "of the sequences")); }
  CExpr Batch() { return builder_.Write(sizes_.batch, CountOf("batch_rows", "of the batch")); }
  // The number of a gate, by name: kResetGate.
  CExpr Gate(const std::string& name);
  // A local of the innermost scope.
  CExpr Local(const std::string& wanted, const CExpr& value);

  // --- places ---

  // A position by coordinates and extents, the outermost first; that of a missing coordinate is 0.
  struct Coordinate {
    CExpr at, extent;
  };
  static CExpr Position(ArrayRef<Coordinate> coordinates);
  // None, if there is only one.
  CExpr Direction() const { return sizes_.directions > 1 ? "direction" : CExpr(); }
  // Of what belongs to `step` of the row, `columns` as given; of the row's states; of the unit's.
  CExpr AtStep(const CExpr& step, ArrayRef<Coordinate> columns);
  CExpr OfState() { return Position({{Direction(), 1}, {"row", Batch()}, {"unit", Units()}}); }
  CExpr OfUnit() { return Position({{Direction(), 1}, {"unit", Units()}}); }

  CExpr Load(int operand, const CExpr& position);
  CExpr GateInput(const CExpr& step, const CExpr& gate);
  // What result number `result` is written to, none if nobody reads it.
  CExpr Output(int result);
  void StoreState(const CExpr& step, const CExpr& state);

  // In arrays that hold something of the block's rows.
  CExpr RowInBlock() const { return rows_ > 1 ? "row_in_block" : CExpr(); }
  CExpr InBlock() { return Position({{RowInBlock(), Rows()}, {"unit", StatePitch()}}); }
  CExpr OfRow(const std::string& array) const {
    return CExpr(array)[rows_ > 1 ? "row_in_block" : "0"];
  }
  CExpr Sum(const CExpr& gate) const {
    const CExpr sum = OfRow(sums_)[gate];
    return is_cpu_ ? sum["lane"] : sum;
  }

  // --- loops ---

  // Chooses the launch, and lets the block know its rows.
  void OpenBlock();
  // Whether there is a thread for each unit.
  bool IsOnce() const { return !is_cpu_ && builder_.plan().block_size >= sizes_.units; }
  // The units of the open scope's thread, one after the other, or several at once.
  void ForUnits(function_ref<void()> body);
  // The rows of the block; those behind the last of the batch are that one again.
  void ForRows(function_ref<void()> body);
  // The units that are made at once.
  void ForLanes(function_ref<void()> body);
  void ForElements(function_ref<void()> body) {
    ForRows([&] { ForLanes(body); });
  }

  const Node& region_;
  KernelBuilder& builder_;
  RegionLowering lowering_;
  const Node& node_;
  const RecurrenceSizes sizes_;
  const Dtype dtype_;
  const bool batch_first_;
  const bool is_cpu_;
  // Whether a thread keeps a column of the state's weights in its registers, and makes the sums of
  // a gate of a unit; otherwise it reads them at each step, and makes those of all gates.
  const bool in_registers_;
  const int64_t pitch_;        // of a row's kept states
  int64_t rows_ = 1;           // of a block
  int64_t lanes_ = 1;          // units that a thread makes at once
  std::string sums_ = "sums";  // the array of a thread's sums, by rows and gates
};

}  // namespace fusec
